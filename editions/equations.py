"""reference/equations.md as data: tag -> title and LaTeX; and as pages, one for each chapter."""

import re
from dataclasses import dataclass
from pathlib import Path

from normcourse.lesson import TAG

HEADING = re.compile(rf"^### ({TAG}) — ([^\n]+)$", re.M)
CHAPTER = re.compile(r"^## ", re.M)
NO_LETTERS = re.compile(r"[^a-z]+")
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


def chapters(markdown: str) -> dict[str, str]:
    """The page as a list of all tags, and its chapters as pages: name of the page -> its Markdown.

    Together they would weigh two megabytes, most of it the frames of 850 formulas.
    """
    head, *parts = CHAPTER.split(markdown)
    pages = {}
    for part in parts:
        title = part.partition("\n")[0]
        name = f"equations_{NO_LETTERS.sub('_', title.lower())}"
        pages[name] = "# " + part.replace("\n### ", "\n## ")
        tags = [f"- [{tag}](#{label(tag)}): {words}" for tag, words in HEADING.findall(part)]
        head += "\n".join([f"## [{title}]({name}.md)", "", *tags, "", ""])
    return {"equations": head, **pages}
