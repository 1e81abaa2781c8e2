"""The lesson of a deck: lectures/02_layer_norm.md is about notebooks/02_layer_norm.ipynb.

A deck of one's own, my/lectures/NAME.md, names a lesson in its head, or none; a slide that it takes
of a course deck stays with the lesson of that deck.
"""

import re
from functools import cache
from pathlib import Path

import yaml

from normcourse.lesson import Notebook, UnknownName

COURSE = "lectures/"
OWN = "my/lectures/"
HEAD = re.compile(r"---\n(.*?)^---\n", re.M | re.S)
CODE = re.compile(r"^```.*?^```", re.M | re.S)
HEADING = re.compile(r"^##? ", re.M)
TAKEN_FROM = "course_deck"  # in env.temp_data: the course deck whose slide is being read


class Misfit(Exception):
    """What the lesson has, but not as the slide wants it."""


def is_deck(docname: str) -> bool:
    return docname.startswith((COURSE, OWN))


def is_own(docname: str) -> bool:
    return docname.startswith(OWN)


def deck_of(env, node) -> str:
    """The deck in which the node is written: another one than the page, if the slide is taken."""
    path = Path(node.source)
    return path.relative_to(env.srcdir).with_suffix("").as_posix()


def head_and_slides(text: str) -> tuple[dict, str]:
    """The head of a deck, which stands between two lines ---, and its slides."""
    found = HEAD.match(text)
    if not found:
        return {}, text
    try:
        head = yaml.safe_load(found[1])
    except yaml.YAMLError:  # Sphinx names it
        head = None
    return head if isinstance(head, dict) else {}, text[found.end() :]


def without_comments(text: str) -> str:
    """As long as the text, and without the # of comments in its code, which are no headings."""
    return CODE.sub(lambda code: code[0].replace("\n#", "\n "), text)


def headings_of(env) -> list[str]:
    """`# ` or `## ` for each slide that is written in the file of the page."""
    _, slides = head_and_slides(Path(env.doc2path(env.docname)).read_text("utf-8"))
    return HEADING.findall(without_comments(slides))


def here(env) -> str:
    """The deck that is being read: the page, or the course deck whose slide it takes."""
    return env.temp_data.get(TAKEN_FROM) or env.docname


def path_of(env, deck: str) -> Path:
    if deck in env.found_docs:
        return Path(env.doc2path(deck))
    return Path(env.config.course_decks, f"{deck.removeprefix(COURSE)}.md")


def head_of(env, deck: str) -> dict:
    head, _ = head_and_slides(path_of(env, deck).read_text("utf-8"))
    return head


def lesson_name(env, deck: str) -> str | None:
    """The name of the deck's notebook; None for an own deck that names none."""
    if is_own(deck):
        return head_of(env, deck).get("lesson")
    # lectures/02_layer_norm--b is a second deck of the lesson
    return deck.removeprefix(COURSE).partition("--")[0]


@cache
def read(path: Path) -> Notebook:
    return Notebook(path)


def lesson_of(env, deck: str = "") -> Notebook:
    """The notebook as it stands in the repository; the page is built anew when it changes."""
    deck = deck or here(env)
    name = lesson_name(env, deck)
    if name is None:
        raise UnknownName(
            f"{deck}.md names no lesson to take it from: write `lesson: 02_layer_norm`, say, "
            "in its head"
        )
    path = Path(env.config.course_notebooks, f"{name}.ipynb")
    if not path.is_file():
        raise UnknownName(f"there is no notebook {path.name}")
    env.note_dependency(str(path))
    return read(path)


def said(lesson: Notebook, cell: str) -> str:
    """A cell of words; or what stands under one of code: lines, exception, alt texts."""
    found = lesson.cell(cell)
    words = found.source if found.cell_type == "markdown" else found.printed
    return "\n".join([words, *(picture.alt for picture in found.pictures)])


def everything(lesson: Notebook, cell: str) -> str:
    return lesson.cell(cell).source + said(lesson, cell)


def where_stated(lesson: Notebook, tag: str) -> str:
    """The cell that states the formula of a tag."""
    return next(cell.id for cell in lesson.markdown if f"**[{tag}]**" in cell.source)
