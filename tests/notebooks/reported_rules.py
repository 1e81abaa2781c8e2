"""Reported numbers: a lesson's sentence and the row of reported.md that it links to agree.

A reported number stands in reference/reported.md, one row an item, and the paragraph or row that
states it links there: `[reported](reference/reported.md#llama-loss)`. The sentence with the link
has the row's numbers and no others. A number of a row that no lesson states is listed in
test_reported_rules.py.
"""

import re
from pathlib import Path

from tests.notebooks.notebook_rules import rule
from tests.notebooks.prose_rules import ANY_NUMBER, BLOCKS, NO_MEASUREMENT, value_of

PAGE = Path(__file__).parents[2] / "notebooks" / "reference" / "reported.md"
LINK = re.compile(r"\]\((?:\.\./)*reference/reported\.md#([\w-]+)\)")
ROW = re.compile(r'^\| <a id="([\w-]+)"></a>(.*)$', re.M)
SENTENCE = re.compile(r"(?<=[.;:?!])\s+(?=[A-Z(*$\d])")
NO_NUMBER = re.compile(r"\]\([^)]*\)|\d{4}\.\d{4,5}|`[^`]*`")


def rows(text: str) -> dict[str, str]:
    """Name of a row -> what it is about, its numbers, its source."""
    return dict(ROW.findall(text))


def numbers(text: str) -> set[float]:
    return {value_of(number) for number in ANY_NUMBER.findall(NO_NUMBER.sub(" ", text))}


def sentences(notebook):
    """(cell, sentence, names of the rows that it links to), where it links to any."""
    for cell in notebook.markdown:
        for block in BLOCKS.split(cell.source):
            for sentence in SENTENCE.split(block):
                if names := LINK.findall(sentence):
                    yield cell, sentence, names


@rule("lesson", "solutions")
def reported_sentences(notebook):
    """The numbers of a sentence that links to a reported row are the row's, formulas included."""
    there = rows(PAGE.read_text("utf-8"))
    for cell, sentence, names in sentences(notebook):
        reported = set().union(*(numbers(there.get(name, "")) for name in names))
        for number in sorted(numbers(sentence) - reported):
            yield (
                f"{cell.id}: {number:g} is not in {' or '.join(names)} of reference/reported.md, "
                f"which has {sorted(reported)}: correct one of the two, or state it in a sentence "
                "without the link"
            )


def stated(notebooks) -> dict[str, set[float]]:
    """Name of a row -> the numbers of the paragraphs that link to it."""
    found: dict[str, set[float]] = {}
    for notebook in notebooks:
        for cell in notebook.markdown:
            for block in BLOCKS.split(cell.source):
                for name in LINK.findall(block):
                    found.setdefault(name, set()).update(numbers(block))
    return found


def unstated(text: str, notebooks) -> dict[str, list[float]]:
    """Name of a row -> its numbers that no lesson repeats."""
    said = stated(notebooks)
    of_rows = {
        name: numbers(NO_MEASUREMENT.sub(" ", row.split("|")[1])) - said.get(name, set())
        for name, row in rows(text).items()
    }
    return {name: sorted(left) for name, left in of_rows.items() if left}
