"""What the title cell of a lesson promises and asks for, as far as a machine can see it."""

import re
from functools import cache

from normcourse.lesson import Notebook
from tests.notebooks.notebook_rules import rule
from tests.notebooks.prose_rules import ROOT

NEEDS = re.compile(r"\*\*Needs\*\*(.*?)(?: ·|\n\n|\Z)", re.S)
LESSONS = re.compile(r"\blessons? (\d\d[a-z]?(?:(?:, | and | to )\d\d[a-z]?)*)(?: \(([^)]*)\))?")
OBJECTIVE = re.compile(r"^> - (.+)$", re.M)
SKIPPED = {"07": "06", "08": "07"}  # lessons of the main road that do not need the one before
SAID = 3  # times at least that a lesson says what another one needs it for
TAUGHT = 0.5  # of the words of an objective


@cache
def lesson(number: str) -> Notebook | None:
    found = sorted((ROOT / "notebooks").glob(f"{number}_*.ipynb"))
    return Notebook(found[0]) if found else None


@cache
def words_of(number: str) -> str:
    notebook = lesson(number)
    return "\n".join(cell.source for cell in notebook.cells).lower() if notebook else ""


def needed(title: str):
    """(number of a lesson, what it is needed for) of the line Needs."""
    line = NEEDS.search(title)
    text = re.sub(r"\]\([^)]*\)", "]", line[1]) if line else ""
    for numbers, purpose in LESSONS.findall(text):
        for first, last in re.findall(r"(\d\d[a-z]?)(?: to (\d\d))?", numbers):
            for number in range(int(first[:2]), int(last or first[:2]) + 1):
                yield f"{number:02}{first[2:]}", purpose


@rule("lesson")
def needs(notebook):
    """A lesson needs earlier ones: the one before it, and a side lesson its own.

    Each of them is about what it is needed for.
    """
    title = notebook.markdown[0]
    if not NEEDS.search(title.source):
        return
    own = notebook.path.name.partition("_")[0]
    asked = dict(needed(title.source))
    for number, purpose in asked.items():
        if number >= own:
            yield f"{title.id}: lesson {own} needs lesson {number}, which comes later"
        words = re.findall(r"[A-Za-z]{4,}|DyT", purpose)
        if words and not any(words_of(number).count(stem(word)) >= SAID for word in words):
            yield (
                f"{title.id}: it needs lesson {number} for {purpose!r}, and that lesson hardly "
                "speaks of it"
            )
    before = own[:2] if own[2:] else f"{int(own) - 1:02}"
    if own != "00" and before not in asked and SKIPPED.get(own) != before:
        yield f"{title.id}: lesson {own} does not say that it needs lesson {before}"


@rule("lesson")
def objectives(notebook):
    """The words of an objective come back in the lesson."""
    title, *cells = notebook.cells
    rest = "\n".join(cell.source for cell in cells).lower()
    for objective in OBJECTIVE.findall(title.source):
        plain = re.sub(r"\*\*[^*]+\*\*|\$[^$]*\$", " ", objective)
        words = re.findall(r"[A-Za-z]{5,}", plain)
        missing = [word for word in words if stem(word) not in rest]
        if len(words) - len(missing) < TAUGHT * len(words):
            yield (
                f"{title.id}: nobody teaches {objective!r}: the lesson never says "
                f"{', '.join(missing)}"
            )


def stem(word: str) -> str:
    return word.lower().removesuffix("s")
