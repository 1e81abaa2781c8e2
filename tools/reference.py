"""What the tools share that write pages of notebooks/reference: lessons, headings, rows, links."""

import re
from functools import cache
from pathlib import Path

from normcourse.lesson import Notebook

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "notebooks" / "reference"
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
PROGRAM = re.compile(r"^```.*?^```", re.S | re.M)  # a comment in it is no heading


def lessons() -> dict[str, Path]:
    """Number of each lesson, such as 02a, and its file."""
    files = sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb"))
    return {path.name.split("_")[0]: path for path in files}


@cache
def markdown(path: Path) -> str:
    """A Markdown page, or the Markdown cells of a notebook."""
    return Notebook(path).text if path.suffix == ".ipynb" else path.read_text("utf-8")


@cache
def headings(path: Path) -> list[str]:
    """The headings of a notebook or of a Markdown page."""
    return HEADING.findall(PROGRAM.sub("", markdown(path)))


def anchor(heading: str) -> str:
    """The anchor of a heading on a Markdown page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def equations() -> dict[str, str]:
    """Tag of each equation, and the anchor of its heading."""
    found = [name for name in headings(REFERENCE / "equations.md") if name.startswith("EQ-")]
    return {name.split()[0]: anchor(name) for name in found}


def equation_link(tag: str) -> str:
    return f"[{tag}](equations.md#{equations().get(tag, '')})"


def row(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"
