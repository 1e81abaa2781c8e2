"""Takes the README's picture out of the lesson that draws it, for `make pages`."""

from pathlib import Path

from normcourse.lesson import Notebook, Picture

ROOT = Path(__file__).resolve().parents[1]
LESSON = ROOT / "notebooks/00_why_normalize.ipynb"
CELL = "depth-figure"
PICTURE = ROOT / "notebooks/reference/hero.png"


def figure() -> Picture:
    """The picture that the lesson stores, with its alt text."""
    return Notebook(LESSON).cell(CELL).pictures[0]


def made() -> dict[Path, bytes]:
    return {PICTURE: figure().png}
