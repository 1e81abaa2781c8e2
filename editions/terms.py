"""The glossary's terms, and which lesson treats one: the web edition's search shows it first."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from normcourse.lesson import Notebook

DATA = Path(__file__).resolve().parents[1] / "notebooks" / "reference" / "glossary.yaml"
HEADING = re.compile(r"^#+ .+$", re.M)
IN_TITLE = 1000  # a term in the title weighs as much as so many times in the text
IN_HEADING = 20
LONG = 5  # letters; a shorter word alone says little


def terms() -> list[dict]:
    return yaml.safe_load(DATA.read_text("utf-8"))


def form(term: dict) -> str:
    """What a lesson must contain: the term, or the form that its entry gives as `seen`."""
    return term.get("seen", term["en"])


def pattern(term: dict) -> re.Pattern:
    """The term in a text, with an ending or without."""
    words = re.escape(form(term)).replace(r"\ ", r"[\s-]+")
    return re.compile(rf"(?<![A-Za-z]){words}(?:s|es|d|ed|ing)?(?![A-Za-z])", re.I)


def weight(term: dict, lesson: Notebook) -> int:
    """How much a lesson has to do with a term."""
    searched = pattern(term)
    words = lesson.text
    headings = "\n".join(HEADING.findall(words))
    count = len(searched.findall(words))
    count += IN_HEADING * len(searched.findall(headings))
    return count + IN_TITLE * len(searched.findall(lesson.title))


def searched(known: list[dict]) -> Iterator[tuple[dict, list[str]]]:
    """Each term with its names, and with those of its words that are in no other term."""
    counts = Counter(word for term in known for word in term["en"].lower().split())
    for term in known:
        words = term["en"].split()
        alone = [word for word in words if counts[word.lower()] == 1 and len(word) >= LONG]
        yield term, [term["en"], *term["zh"].split("；"), *alone]


def best(term: dict, lessons: list[Notebook]) -> Notebook:
    """The lesson that the glossary gives, or the one that has most to do with the term."""
    given = [lesson for lesson in lessons if lesson.number == term.get("lesson")]
    return given[0] if given else max(lessons, key=lambda lesson: weight(term, lesson))


def treated(lessons: list[Notebook]) -> dict[str, list[str]]:
    """{lesson: what its file is called, and the terms that it treats more than any other}."""
    found = {lesson.name: [lesson.name.partition("_")[2].replace("_", " ")] for lesson in lessons}
    for term, names in searched(terms()):
        lesson = best(term, lessons)
        if weight(term, lesson):
            found[lesson.name] += names
    return found


def entries(words: list[str]) -> str:
    """Entries of an index, which Sphinx' search ranks above words in a text."""
    listed = ", ".join(f"! {word}" for word in dict.fromkeys(words))
    return f"```{{index}} {listed}\n```\n\n"
