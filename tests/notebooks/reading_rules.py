"""What a reading of results says stands in the outputs that it reads, in the row that it names.

A reading is a cell `…-read` or a paragraph that begins with **Measured here**. It reads the outputs
since the last reading.

It states only numbers, of one digit and in words as well, that its section has shown above it. A
decimal or a percentage stands in an output since the last reading, in the row that the sentence
names, by a word or a count (`Behind layer 30 it is 0.16`). A figure shows the numbers in its alt
text. Write results as digits: `3 of 5 seeds`. What is not read off a result goes into another
paragraph. test_reading_rules.py has sentences that pass and sentences that do not.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass

from tests.notebooks.notebook_rules import parsed, rule
from tests.notebooks.prose_rules import (
    ANY_NUMBER,
    BLOCKS,
    MEASURED,
    NO_MEASUREMENT,
    WORDS,
    blocks,
    has,
    linked,
    numbers_of,
    shown,
    stated,
    strict,
    value_of,
)

SENTENCE = re.compile(r"(?<=[.!?])\s+")
CLAUSE = re.compile(r"(?<=[.!?:;,])\s+|\b(?:and|but|or)\b")
LETTERS = re.compile(r"[A-Za-z][A-Za-z']{3,}|[A-Z][A-Za-z]*[A-Z]")  # layers, LN, DyT
MEASURE = re.compile(r"\d\.\d|%")  # a number that is measured, and no count or label
LABEL = re.compile(rf"\s*[a-z]*\s*({ANY_NUMBER.pattern})")
RUNS = re.compile(  # five other random starts
    r"\b(\d+|" + "|".join(WORDS) + r")(?:\s+(?:other|random|different))*\s+(?:start|seed|draw)s\b",
    re.I,
)
LIKE_RUNS = re.compile(r"\b(\d+|" + "|".join(WORDS) + r")\s+(?:net|network|run)s\b", re.I)


@dataclass
class Row:
    """A line of an output, or all of a figure's alt text."""

    numbers: set[float]
    words: set[str]
    label: float | None  # the number that it begins with


def rows_of(output) -> list[Row]:
    """The lines of an output that hold a measured number."""
    if output.fingerprint:
        lines = [output.alt]
    else:
        lines = [line for text in output.texts for line in text.splitlines()]
    return [row(line) for line in lines if MEASURE.search(line)]


def row(line: str) -> Row:
    first = LABEL.match(line)
    return Row(numbers_of(line), words(line), first and value_of(first[1]))


def words(text: str) -> set[str]:
    """The words of a text, so far that `layers` is `layer`."""
    return {word.lower().rstrip("s")[:6] for word in LETTERS.findall(text)}


def is_reading(cell, block: str) -> bool:
    return cell.id.endswith(("-read", "-reading")) or bool(MEASURED.match(block))


@rule("lesson")
def readings(notebook):
    """What a reading says, in digits or words, has been shown before.

    A count was shown in its section, a measured number since the last reading.
    """
    if not strict(notebook):
        return
    section = set()
    unread = set()
    was_read = True
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if shown(cell) and was_read:
                unread = set()
                was_read = False
            section |= shown(cell)
            unread |= shown(cell)
            continue
        for block in BLOCKS.split(cell.source):
            if re.match(r"\s*## ", block):
                section = set()
            if not is_reading(cell, block):
                continue
            for text, value, word, _ in stated(block):
                near = unread if MEASURE.search(text) else section
                if not has(value, word, near | linked(block)):
                    yield (
                        f"{cell.id}: {text!r}, read from a result, is in no output "
                        f"{'since the last reading' if near is unread else 'of its section'}: "
                        "print it or put it into the figure's alt text, "
                        "or move what is no result elsewhere"
                    )
        was_read = was_read or cell.id.endswith(("-read", "-reading"))


@rule("lesson")
def rows_of_a_reading(notebook):
    """A measured number in a reading stands in the row that its sentence names."""
    if not strict(notebook):
        return
    outputs = []
    was_read = True
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if shown(cell) and was_read:
                outputs = []
                was_read = False
            outputs += filter(None, map(rows_of, cell.outputs))
            continue
        for block in BLOCKS.split(cell.source):
            if is_reading(cell, block):
                for text in misplaced(block, outputs):
                    yield (
                        f"{cell.id}: {text!r} stands in another row of the output than the one "
                        "that its sentence names: read it off again, or name its row"
                    )
        was_read = was_read or cell.id.endswith(("-read", "-reading"))


def misplaced(block: str, outputs: list[list[Row]]):
    """The measured numbers of a block that their clause and their sentence place in other rows."""
    for sentence in SENTENCE.split(block):
        for clause in CLAUSE.split(sentence):
            for text, value, word, _ in stated(clause):
                if not MEASURE.search(text) or has(value, word, linked(block)):
                    continue
                if elsewhere(value, word, clause, outputs) and elsewhere(
                    value, word, sentence, outputs
                ):
                    yield text


def elsewhere(value: float, word: bool, text: str, outputs: list[list[Row]]) -> bool:
    """Whether each output with the value has rows that the text names, and it is in none of them.

    A row is named by a word or a count that stands in the text and not in all rows.
    """
    found = [rows for rows in outputs if any(has(value, word, row.numbers) for row in rows)]
    counts = {n for said, n, *_ in stated(text) if not MEASURE.search(said)}
    said = words(NO_MEASUREMENT.sub(" ", text))
    return bool(found) and all(
        not any(row.label == value for row in rows)
        and (named := named_rows(rows, said, counts))
        and not any(has(value, word, row.numbers) for row in named)
        for rows in found
    )


def named_rows(rows: list[Row], said: set[str], counts: set[float]) -> list[Row]:
    times = Counter(name for row in rows for name in row.words | row.numbers)
    names = {name for name in said | counts if times[name] < len(rows)}
    named = [(row, names & (row.words | row.numbers)) for row in rows]
    return [row for row, here in named if here and not any(here < there for _, there in named)]


@rule("lesson")
def runs_counted(notebook):
    """How many starts, seeds or draws the text states is what the code runs or an output counts."""
    if not strict(notebook):
        return
    counted = set().union(*map(runs_of, notebook.code))
    for cell, block in blocks(notebook):
        for found in RUNS.finditer(NO_MEASUREMENT.sub(" ", block)):
            number = count_of(found[1])
            if number > 2 and number not in counted:
                yield (
                    f"{cell.id}: {found[0]!r}, but the code and the outputs of this lesson count "
                    f"{sorted(counted)}: mend the number, or print how many there are"
                )


def count_of(text: str) -> int:
    return int(WORDS.get(text.lower(), 0) or text)


def runs_of(cell) -> set[int]:
    """The numbers of starts, nets or seeds that a code cell names, prints, or loops over."""
    shown_here = [text for output in cell.outputs for text in (*output.texts, output.alt)]
    named = [found for text in (cell.source, *shown_here) for found in RUNS.findall(text)]
    named += [found for text in (cell.source, *shown_here) for found in LIKE_RUNS.findall(text)]
    found = set(map(count_of, named))
    for node in ast.walk(parsed(cell)):
        if isinstance(node, ast.Tuple | ast.List) and all(map(is_whole, node.elts)):
            found.add(len(node.elts))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
            if all(map(is_whole, node.args)):
                found.add(len(range(*(argument.value for argument in node.args))))
        elif isinstance(node, ast.Assign) and is_whole(node.value):  # SEEDS = 20
            found.add(node.value.value)
    return found


def is_whole(node) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
