"""Which lesson treats a term of the glossary: what the search of the web edition shows first."""

import re
from collections import Counter
from collections.abc import Iterator

from editions.notebook import Notebook
from tools import glossary

HEADING = re.compile(r"^#+ .+$", re.M)
IN_TITLE = 1000  # a term in the title weighs as much as so many times in the text
IN_HEADING = 20
LONG = 5  # letters; a shorter word alone says little


def weight(term: dict, lesson: Notebook) -> int:
    """How much a lesson has to do with a term."""
    pattern = glossary.pattern(term)
    words = "\n\n".join(lesson.markdown.values())
    headings = "\n".join(HEADING.findall(words))
    count = len(pattern.findall(words))
    count += IN_HEADING * len(pattern.findall(headings))
    return count + IN_TITLE * len(pattern.findall(lesson.title))


def searched(known: list[dict]) -> Iterator[tuple[dict, list[str]]]:
    """Each term with its names, and with those of its words that are in no other term."""
    counts = Counter(word for term in known for word in term["en"].lower().split())
    for term in known:
        words = term["en"].split()
        alone = [word for word in words if counts[word.lower()] == 1 and len(word) >= LONG]
        yield term, [term["en"], *term["zh"].split("；"), *alone]


def treated(lessons: list[Notebook]) -> dict[str, list[str]]:
    """{lesson: the terms, English and Chinese, that it treats more than any other}."""
    found: dict[str, list[str]] = {lesson.name: [] for lesson in lessons}
    for term, names in searched(glossary.terms()):
        weights = [weight(term, lesson) for lesson in lessons]
        if max(weights):
            best = lessons[weights.index(max(weights))]
            found[best.name] += names
    return found


def entries(words: list[str]) -> str:
    """Entries of an index, which Sphinx' search ranks above words in a text."""
    listed = ", ".join(f"! {word}" for word in dict.fromkeys(words))
    return f"```{{index}} {listed}\n```\n\n"
