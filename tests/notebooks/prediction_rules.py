"""A prediction can be made: its answer is in a fold in both editions, and not in sight beside it.

normcourse/lesson.py says which cells are folded. What no machine can see: words without a number
that tell the outcome behind the fold, or in a heading near the question.
"""

import ast
import re

from normcourse.lesson import ANSWER, EXERCISE, QUESTION, outside_folds
from tests.notebooks.notebook_rules import rule
from tests.notebooks.stated_numbers import stated

GUESS = re.compile(r"my_\w+|all_learn_\w+")
NEXT = re.compile(rf"^#+ |{EXERCISE.pattern}", re.M)  # a section or an exercise
HEADING = re.compile(r"^#+ ", re.M)


@rule("lesson")
def predictions_are_answered(notebook):
    """Each question has its answer, and each answer its words, under the names that are folded."""
    names = {cell.id for cell in notebook.cells}
    for name in names:
        if QUESTION.fullmatch(name) and f"{name}-answer" not in names:
            yield f"{name}: no cell {name}-answer shows what comes out, so nothing is folded"
    for prediction in notebook.predictions:
        cells = prediction.cells
        first, last = cells[0].id, cells[-1].id
        if not re.fullmatch(r"predict-\d+-read.*", last) or cells[-1].cell_type != "markdown":
            name = f"predict-{prediction.number}-read"
            yield f"{first}: say what came out in a Markdown cell {name} behind it"
        for cell in cells:
            if cell.cell_type == "markdown" and HEADING.search(cell.source):
                yield f"{cell.id}: a heading inside a fold: begin a cell with it, behind the fold"


@rule("lesson")
def answers_are_out_of_sight(notebook):
    """No open Markdown behind an answer says a number of the answer's outputs.

    This holds up to the next heading, exercise or code that a reader reads. What stands in the
    code, or above it, is in sight anyway.
    """
    for prediction in notebook.predictions:
        cells = prediction.cells
        told = set().union(*(numbers(printed(cell)) for cell in cells))
        told = told.difference(*(numbers(cell.source) for cell in in_sight(notebook, cells)))
        for cell in notebook.cells[prediction.end :]:
            if cell.cell_type == "code":
                if "hide-input" not in cell.tags:
                    break
                told -= numbers(printed(cell))
                continue
            words, *others = NEXT.split(outside_folds(cell.source), maxsplit=1)
            for number in sorted(told & numbers(words)):
                yield (
                    f"{cell.id}: {number:g} is what {cells[0].id} shows, in sight of the guess: "
                    f"move the sentence to predict-{prediction.number}-read"
                )
            if others:
                break


def in_sight(notebook, answer):
    """The cells above an answer, and its own code."""
    above = notebook.cells[: notebook.cells.index(answer[0])]
    return [*above, *(cell for cell in answer if cell.cell_type == "code")]


def printed(cell) -> str:
    return "\n".join(text for output in cell.outputs for text in output.texts)


def numbers(text: str) -> set[float]:
    """Those in digits, of two or more: a 2 may be anything."""
    return {number.value for number in stated(text) if not number.word and not number.small}


@rule("lesson")
def guesses_are_compared_with_what_was_computed(notebook):
    """The code of an answer stands open below the guess: a literal in it would be the answer."""
    for cell in notebook.code:
        if not ANSWER.fullmatch(cell.id):
            continue
        for node in ast.walk(ast.parse(cell.source)):
            beside = operands(node)
            if any(map(is_guess, beside)) and any(map(is_number, beside)):
                yield f"{cell.id}: {ast.unparse(node)} tells the answer: compare with a result"


def operands(node) -> list:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return node.args if isinstance(node, ast.Call) else []


def is_guess(node) -> bool:
    return isinstance(node, ast.Name) and bool(GUESS.fullmatch(node.id))


def is_number(node) -> bool:
    """A literal number, or a tuple or list of them."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return False
    parts = value if isinstance(value, tuple | list) else [value]
    return any(isinstance(part, int | float) and not isinstance(part, bool) for part in parts)
