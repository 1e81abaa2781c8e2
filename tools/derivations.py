"""Write notebooks/reference/derivation_NN.md, the derivations of a lesson on one page to print.

The web edition makes the page of every lesson; here stand those that a lesson links to, for who
reads it elsewhere.
"""

import re
import sys
from pathlib import Path

import files
import reference

sys.path.insert(0, str(reference.ROOT))

from editions import derivations

LINK = re.compile(r"\]\(reference/(derivation_\w+\.md)\)")
TAG = re.compile(r"\*\*\[(EQ-[A-Z0-9-]+)\]\*\*")


def pages() -> dict[Path, str]:
    """Path of each page that a lesson links to, and what stands on it."""
    lessons = [path.read_text("utf-8") for path in reference.lessons().values()]
    linked = {name for lesson in lessons for name in LINK.findall(lesson)}
    made = derivations.pages(reference.ROOT / "notebooks")
    return {path: with_links(text) for path, text in made.items() if path.name in linked}


def with_links(page: str) -> str:
    """Each tag leads to its equation; on the web the extension does this."""
    return TAG.sub(lambda match: f"**{reference.equation_link(match[1])}**", page)


def main() -> None:
    current = pages()
    for path in reference.REFERENCE.glob("derivation_*.md"):
        if path not in current:
            path.unlink()
    for path, text in current.items():
        files.write(path, text)


if __name__ == "__main__":
    main()
