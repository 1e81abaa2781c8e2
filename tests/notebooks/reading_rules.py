"""What a reading of results says is in the outputs that it reads, in the row that it names.

A reading is a cell `…-read` or a paragraph that begins with **Measured here**. It reads the outputs
since the last reading.

It states only numbers, of one digit and in words as well, that its section has shown above it. A
decimal or a percentage is in an output since the last reading, in the row that the sentence names,
by a word or a count (`After layer 30 it is 0.16`). A figure shows the numbers in its alt text.
What is not read off a result goes into another paragraph. test_reading_rules.py has sentences that
pass and sentences that do not.
"""

import ast
import re
from collections import Counter
from dataclasses import dataclass
from itertools import product

from tests.notebooks.notebook_rules import parsed, rule
from tests.notebooks.prose_rules import (
    BLOCKS,
    MEASURED,
    NO_MEASUREMENT,
    blocks,
    linked,
    literals,
    prose,
    shown,
)
from tests.notebooks.stated_numbers import COUNTED, DIGITS, count_of, numbers_of, stated, value_of

SENTENCE = re.compile(r"(?<=[.!?])\s+")
CLAUSE = re.compile(r"(?<=[.!?:;,])\s+|\b(?:and|but|or)\b")
LETTERS = re.compile(r"[A-Za-z][A-Za-z']{3,}|[A-Z][A-Za-z]*[A-Z]")  # layers, LN, DyT
MEASURE = re.compile(r"\d\.\d|%")  # a number that is measured, and no count or label
LABEL = re.compile(rf"\s*[a-z]*\s*({DIGITS})")


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


def readings_of(notebook):
    """(cell, block, code cells since the last reading, those of its section) of each reading."""
    section, unread, was_read = [], [], True
    for cell in notebook.cells:
        if cell.cell_type == "code":
            if shown(cell) and was_read:
                unread, was_read = [], False
            section.append(cell)
            unread.append(cell)
            continue
        for block in BLOCKS.split(cell.source):
            if re.match(r"\s*## ", block):
                section = []
            if is_reading(cell, block):
                yield cell, block, unread, section
        was_read = was_read or cell.id.endswith(("-read", "-reading"))


@rule("lesson")
def readings(notebook):
    """What a reading says, in digits or words, has been shown before.

    A count was shown in its section, a measured number since the last reading.
    """
    for cell, block, unread, section in readings_of(notebook):
        for number in stated(prose(COUNTED.sub(" ", block))):
            measured = MEASURE.search(number.text)
            if "/" in number.text:  # it is derived, not read
                continue
            near = linked(block).union(*map(shown, unread if measured else section))
            if not number.is_backed_by(near):
                yield (
                    f"{cell.id}: {number.text!r}, read from a result, is in no output "
                    f"{'since the last reading' if measured else 'of its section'}: "
                    "print it or put it into the figure's alt text, "
                    "or move what is no result elsewhere"
                )


@rule("lesson")
def rows_of_a_reading(notebook):
    """A measured number in a reading is in the row that its sentence names."""
    for cell, block, unread, _ in readings_of(notebook):
        outputs = [rows for code in unread for rows in map(rows_of, code.outputs) if rows]
        for text in misplaced(block, outputs):
            yield (
                f"{cell.id}: {text!r} is in another row of the output than the one "
                "that its sentence names: read it off again, or name its row"
            )


def misplaced(block: str, outputs: list[list[Row]]):
    """The measured numbers of a block that their clause and their sentence place in other rows."""
    for sentence in SENTENCE.split(block):
        for clause in CLAUSE.split(sentence):
            for number in stated(prose(clause)):
                if not MEASURE.search(number.text) or number.is_backed_by(linked(block)):
                    continue
                if all(elsewhere(number, text, outputs) for text in (clause, sentence)):
                    yield number.text


def elsewhere(number, text: str, outputs: list[list[Row]]) -> bool:
    """Whether each output with the number has rows that the text names, and it is in none of them.

    A row is named by a word or a count that is in the text and not in all rows.
    """
    found = [rows for rows in outputs if any(number.is_backed_by(row.numbers) for row in rows)]
    counts = {each.value for each in stated(prose(text)) if not MEASURE.search(each.text)}
    said = words(NO_MEASUREMENT.sub(" ", text))
    return bool(found) and all(
        not any(row.label == number.value for row in rows)
        and (named := named_rows(rows, said, counts))
        and not any(number.is_backed_by(row.numbers) for row in named)
        for rows in found
    )


def named_rows(rows: list[Row], said: set[str], counts: set[float]) -> list[Row]:
    times = Counter(name for row in rows for name in row.words | row.numbers)
    names = {name for name in said | counts if times[name] < len(rows)}
    named = [(row, names & (row.words | row.numbers)) for row in rows]
    return [row for row, here in named if here and not any(here < there for _, there in named)]


@rule("lesson")
def things_counted(notebook):
    """How many seeds, nets or layers the text states is what the code runs or an output counts."""
    runs = set().union(*map(named_counts, notebook.code), *map(lengths, notebook.code))
    things = runs.union(*map(shown, notebook.code), *(literals(c.source) for c in notebook.code))
    things = things.union(*map(products, notebook.code))
    for cell, block in blocks(notebook):
        for found in COUNTED.finditer(NO_MEASUREMENT.sub(" ", block)):
            known = runs if found["run"] else things | linked(block)
            number = count_of(found)
            if number > 1 and number not in known:
                yield (
                    f"{cell.id}: {found[0]!r}, but the code and the outputs of this lesson count "
                    f"{sorted(runs)}: correct the number, or print how many there are"
                )


def named_counts(cell) -> set[int]:
    """What a code cell or its outputs call 20 seeds, and SEEDS = 20."""
    shown_here = [text for output in cell.outputs for text in (*output.texts, output.alt)]
    found = {count_of(named) for t in (cell.source, *shown_here) for named in COUNTED.finditer(t)}
    nodes = ast.walk(parsed(cell))
    return found | {n.value.value for n in nodes if isinstance(n, ast.Assign) and is_whole(n.value)}


def lengths(cell) -> set[int]:
    """How many things the tuples, lists and ranges have that a code cell loops over, perhaps."""
    found = set()
    for node in ast.walk(parsed(cell)):
        if isinstance(node, ast.Tuple | ast.List):
            found.add(len(node.elts))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
            values = [argument.value for argument in node.args if is_whole(argument)]
            found |= {len(range(*values))} if len(values) == len(node.args) else set()
    return found


def products(cell) -> set[int]:
    """35 networks are trained in a loop over 7 depths within one over 5 seeds."""
    return {one * other for one, other in product(lengths(cell), repeat=2)}


def is_whole(node) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int
