"""Every notebook keeps the rules of notebook_rules.py and lesson_rules.py (no kernel)."""

from pathlib import Path

import pytest

from normcourse.lesson import Notebook
from tests.notebooks.lesson_rules import complaints

ROOT = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = [p for p in sorted(ROOT.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
LESSONS = [path for path in NOTEBOOKS if Notebook(path).kind == "lesson"]


def name(path):
    return str(path.relative_to(ROOT))


def test_there_are_lessons():  # without one, the parametrized tests below would pass by not running
    assert LESSONS, f"no notebook NN_name.ipynb in {ROOT}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebook_keeps_the_rules(path):
    found = [
        f"{path.name}, {text} [{rule}]"
        for rule, texts in complaints(path).items()
        for text in texts
    ]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize("path", LESSONS, ids=name)
def test_solutions_answer_every_check_of_the_lesson(path):
    solutions = path.parent / "solutions" / path.name
    assert solutions.exists(), f"{name(path)} has no {name(solutions)}"
    asked = set().union(*(exercise.checks for exercise in Notebook(path).exercises))
    answered = set().union(*(cell.checks for cell in Notebook(solutions).code))
    assert asked == answered


def test_no_solutions_without_a_lesson():
    solved = {path.name for path in NOTEBOOKS if path.parent.name == "solutions"}
    assert solved == {path.name for path in LESSONS}
