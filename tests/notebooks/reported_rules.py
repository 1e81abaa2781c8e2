"""Reported numbers: a lesson's sentence and the row of reported.md that it links to agree.

A reported number stands in reference/reported.md, one row an item, and the paragraph or row that
states it links there: `[reported](reference/reported.md#llama-loss)`. The sentence with the link
has the row's numbers, rounded perhaps, and no others.
"""

import re
from pathlib import Path

from tests.notebooks.notebook_rules import rule
from tests.notebooks.prose_rules import BLOCKS
from tests.notebooks.stated_numbers import Stated, stated

PAGE = Path(__file__).parents[2] / "notebooks" / "reference" / "reported.md"
LINK = re.compile(r"\]\((?:\.\./)*reference/reported\.md#([\w-]+)\)")
ROW = re.compile(r'^\| <a id="([\w-]+)"></a>(.*)$', re.M)
SENTENCE = re.compile(r"(?<=[.;:?!])\s+(?=[A-Z(*$\d])")
NO_NUMBER = re.compile(r"\]\([^)]*\)|\d{4}\.\d{4,5}|`[^`]*`")


def rows(text: str) -> dict[str, str]:
    """Name of a row -> what it is about, its numbers, its source."""
    return dict(ROW.findall(text))


def numbers(text: str) -> list[Stated]:
    """Those in digits."""
    return [number for number in stated(NO_NUMBER.sub(" ", text)) if not number.word]


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
        reported = {n.value for name in names for n in numbers(there.get(name, ""))}
        for number in numbers(sentence):
            if not number.is_backed_by(reported):
                yield (
                    f"{cell.id}: {number.text} is not in {' or '.join(names)} of "
                    f"reference/reported.md, which has {sorted(reported)}: correct one of the "
                    "two, or state it in a sentence without the link"
                )
