"""Every check of every lesson: it waits for the stub, and never raises.

That it accepts the solution is seen where the solution notebooks are run: each of their verdicts is
to be [ok].

The checks are found in the solution notebooks, as `check.name(answer)`. The slips that each of them
names are in test_checks_<lesson>.py.
"""

import ast
import importlib
import inspect
import math

import pytest
import torch

from normcourse.lesson import Notebook
from tests.course.slip_tables import mixed_up
from tests.course.solutions import SOLUTIONS, load
from tests.notebooks.nbstrict import left_out_here

LESSONS = SOLUTIONS.parent


def checks_called(path):
    """(check, names of its arguments) for each `check.name(argument, …)` of a notebook."""
    for cell in Notebook(path).code:
        if not left_out_here(cell):
            for node in ast.walk(ast.parse(cell.source)):
                if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("check."):
                    yield (
                        ast.unparse(node.func).removeprefix("check."),
                        [ast.unparse(a) for a in node.args],
                    )


EXERCISES = [
    pytest.param(path.stem, name, arguments, id=f"{path.stem}: {name}")
    for path in sorted(SOLUTIONS.glob("*.ipynb"))
    for name, arguments in checks_called(path)
]
every_exercise = pytest.mark.parametrize(("lesson", "name", "arguments"), EXERCISES)


pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def check_of(lesson, name):
    return getattr(importlib.import_module(f"normcourse.checks.{lesson.partition('_')[2]}"), name)


@pytest.mark.parametrize("path", sorted(LESSONS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_solutions_solve_what_the_lesson_asks(path):
    asked = [name for name, _ in checks_called(path)]
    assert len(asked) >= 2
    assert asked == [name for name, _ in checks_called(SOLUTIONS / path.name)]


def stub(*arguments):
    raise NotImplementedError


@every_exercise
def test_what_is_not_attempted_is_not_wrong(lesson, name, arguments):
    answer = load(lesson)[arguments[0]]
    is_called = inspect.isfunction(answer) or inspect.isclass(answer)  # or a number, a trained net
    for nothing in [None, ..., stub] if is_called else [None, ...]:
        verdict = check_of(lesson, name)(*[nothing] * len(arguments))
        assert verdict.startswith("[ ]") and verdict.endswith("not attempted yet"), nothing


@pytest.mark.slow
@every_exercise
def test_the_slips_of_a_check_differ_on_its_inputs(lesson, name, arguments):
    answers = [load(lesson)[argument] for argument in arguments]
    assert mixed_up(check_of(lesson, name), *answers) == []


def raises_an_error(*arguments):
    raise KeyError("first line\nsecond line")


def spoils_its_input(first, *arguments):
    return first.mul_(2)


BROKEN = {
    "raises": raises_an_error,
    "takes no argument": lambda: 0,
    "returns nothing": lambda *arguments: None,
    "returns text": lambda *arguments: "0.5",
    "returns a number": lambda *arguments: 0.5,
    "returns a list": lambda *arguments: [1.0, 2.0],
    "returns its input": lambda first, *arguments: first,
    "returns float32": lambda *arguments: torch.ones(3, dtype=torch.float32),
    "returns nan": lambda *arguments: torch.full((4, 4), math.nan, dtype=torch.float64),
    "writes into its input": spoils_its_input,
    "is text": "four",
    "is a list of text": ["a", "b"],
    "is a tensor of wrong shape": torch.ones(7, 7),
}


@every_exercise
def test_broken_answers_are_rejected_in_one_line_without_an_error(lesson, name, arguments):
    check = check_of(lesson, name)
    verdicts = {what: check(*[answer] * len(arguments)) for what, answer in BROKEN.items()}
    assert {
        what: verdict
        for what, verdict in verdicts.items()
        if not verdict.startswith("[x]") or "\n" in verdict
    } == {}
