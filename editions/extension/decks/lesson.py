"""The lesson of a deck: lectures/02_layer_norm.md is about notebooks/02_layer_norm.ipynb."""

import re
from functools import cache
from pathlib import Path

from editions.notebook import Notebook, UnknownName

DECK = re.compile(r"lectures/(\d\w*)")  # lectures/02_layer_norm--b is a second deck of the lesson


class Misfit(Exception):
    """What the lesson has, but not as the slide wants it."""


def lesson_name(docname: str) -> str | None:
    """The name of the deck's notebook; None for a page that is no deck."""
    found = DECK.match(docname)
    return found and found[1]


@cache
def read(path: Path) -> Notebook:
    return Notebook(path)


def lesson_of(env) -> Notebook:
    """The notebook as it stands in the repository; the deck is built anew when it changes."""
    path = Path(env.config.course_notebooks, f"{lesson_name(env.docname)}.ipynb")
    if not path.is_file():
        raise UnknownName(f"there is no notebook {path.name}")
    env.note_dependency(str(path))
    return read(path)


def said(lesson: Notebook, cell: str) -> str:
    """What a reader finds under the cell: its lines, its exception, its pictures' alt texts."""
    alts = [picture.alt for picture in lesson.pictures(cell)]
    return "\n".join([lesson.printed(cell), *alts])


def everything(lesson: Notebook, cell: str) -> str:
    return lesson.source(cell) + said(lesson, cell)


def where_stated(lesson: Notebook, tag: str) -> str:
    """The cell that states the formula of a tag."""
    return next(name for name, words in lesson.markdown.items() if f"**[{tag}]**" in words)
