"""Makes notebooks/reference/derivation_NN.md, derivations on a page to print, for `make pages`.

The web edition makes the page of every lesson; here stand those that a lesson links to, for who
reads it elsewhere.
"""

import re
import sys
from pathlib import Path

from tools import reference

sys.path.insert(0, str(reference.ROOT))

from editions import derivations

LINK = re.compile(r"\]\(reference/(derivation_\w+\.md)\)")
TAG = re.compile(r"\*\*\[(EQ-[A-Z0-9-]+)\]\*\*")


def made() -> dict[Path, str]:
    """Path of each page that a lesson links to, and what stands on it."""
    lessons = [path.read_text("utf-8") for path in reference.lessons().values()]
    linked = {name for lesson in lessons for name in LINK.findall(lesson)}
    found = derivations.pages(reference.ROOT / "notebooks")
    return {path: with_links(text) for path, text in found.items() if path.name in linked}


def with_links(page: str) -> str:
    """Each tag leads to its equation; on the web the extension does this."""
    return TAG.sub(lambda match: f"**{reference.equation_link(match[1])}**", page)
