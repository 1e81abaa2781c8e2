"""reference/equations.md as data: tag -> title and LaTeX."""

import re
from dataclasses import dataclass
from pathlib import Path

from editions.notebook import TAG

HEADING = re.compile(rf"^### ({TAG}) — ([^\n]+)$", re.M)
ENTRY = re.compile(HEADING.pattern + r"\n\$\$\n(.+?)\n\$\$", re.M | re.S)


@dataclass(frozen=True)
class Equation:
    title: str
    latex: str


def equations(page: Path) -> dict[str, Equation]:
    found = ENTRY.findall(page.read_text("utf-8"))
    return {tag: Equation(title, latex) for tag, title, latex in found}


def label(tag: str) -> str:
    """The anchor of a tag on the page of equations."""
    return tag.lower()
