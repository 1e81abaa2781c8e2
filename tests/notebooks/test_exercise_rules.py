"""The rules for exercises see a text that says something else than its check, and the reverse."""

import sys
from types import ModuleType

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from normcourse.checks.probes import forbid
from normcourse.checks.verdict import exercise
from normcourse.lesson import Notebook
from tests.notebooks import exercise_rules

MEAN, NETS, WANTED = 2, 3, 0.7
TEXT = r"""Lesson 03 has 40 layers.

**1. Five words in the heading** · difficulty ●○○○○ · 3 minutes

A row has mean $2$, `x` of shape $(3, 7)$, and $y' = (y/a)^{4}$. From 0.7 on *three nets* will do
(exercise 2 of lesson 04, see [part_2](07_cuda_timing.ipynb)). Call it at most 10 times. Use neither
autograd nor normlib.

<details><summary>Hint</summary>

Begin with 9 rows of 1,000 numbers.

</details>"""


@exercise(
    "Exercise 1",
    f"mean {MEAN}",
    "shape (3, 7)",
    "(y/a)^{4}",
    f"From {WANTED} on",
    "three nets",
    "rows of 1,000",
    "at most 10 times",
)
def answer(student):
    forbid(student, "autograd", "rms_norm")


def complaints(folder, monkeypatch, text=TEXT, check=answer):
    toy = ModuleType("normcourse.checks.toy")
    toy.answer = check
    monkeypatch.setitem(sys.modules, toy.__name__, toy)
    cells = [
        new_markdown_cell("# 09 · A toy", id="title"),
        new_code_cell("from normcourse.checks import toy as check", id="setup"),
        new_markdown_cell(text, id="before"),
        new_code_cell("answer = None", id="ex1-stub"),
        new_code_cell("check.answer(answer)", id="ex1-check"),
    ]
    notebook = stored(folder / "09_toy.ipynb", cells)
    rules = [exercise_rules.numbers_of_an_exercise, exercise_rules.means_of_an_exercise]
    return [line for rule in rules for line in rule(notebook)]


def stored(path, cells):
    path.parent.mkdir(exist_ok=True)
    path.write_text(nbformat.v4.writes(new_notebook(cells=cells)), "utf-8")
    return Notebook(path)


def test_a_text_that_says_what_its_check_says_is_accepted(tmp_path, monkeypatch):
    assert complaints(tmp_path, monkeypatch) == []


@pytest.mark.parametrize(
    ("there", "planted"),
    [
        ("at most 10 times", "no more than ten times"),
        ("A row has mean $2$, `x` of shape $(3, 7)$", "`x` has shape $(3, 7)$, and its mean is 2"),
        ("three nets", "3 networks"),
        ("Use neither\nautograd nor normlib.", "Don't use autograd or normlib."),
    ],
)
def test_other_words_for_the_same_are_accepted(tmp_path, monkeypatch, there, planted):
    assert there in TEXT
    assert complaints(tmp_path, monkeypatch, TEXT.replace(there, planted)) == []


@pytest.mark.parametrize(
    ("there", "planted"),
    [
        ("mean $2$", "mean $4$"),
        ("mean $2$", "mean $2.5$"),
        ("mean $2$", "mean $12$"),
        ("(3, 7)", "(3, 8)"),
        ("^{4}", "^{3}"),
        ("0.7", "0.9"),
        ("0.7", "0.75"),
        ("three nets", "four nets"),
        ("(3, 7)", "(7, 3)"),
        ("at most 10", "at least 10"),
        ("at most 10", "at most 11"),
        ("1,000", "100"),  # in a hint, and stated
        ("has mean", "has, say, 9 numbers, mean"),  # a number that the check does not know
        ("has mean", "has a quarter of the mean"),
        ("Use neither\nautograd nor normlib.", ""),
        ("Use neither\nautograd nor normlib.", "Use no autograd."),
    ],
)
def test_a_text_that_says_something_else_is_seen(tmp_path, monkeypatch, there, planted):
    assert there in TEXT
    found = complaints(tmp_path, monkeypatch, TEXT.replace(there, planted))
    assert found and all(line.startswith("before: ") and "answer" in line for line in found)


def test_a_check_that_forbids_less_than_the_text_is_seen(tmp_path, monkeypatch):
    @exercise("Exercise 1", *answer.says)
    def lenient(student):
        forbid(student, "normlib")

    found = complaints(tmp_path, monkeypatch, check=lenient)
    assert [line.split(",")[0] for line in found] == ["before: the text forbids autograd"]


SOLUTION = {
    "title": "# Solutions 09 · A toy",
    "ex1": "**1. Five words in the heading.** The mean of 4 is $4/2$, of three nets 17 times 0.7.",
    "ex1-solution": ("answer = 17",),
    "ex1-check": ("check.answer(answer)",),
    "ex1-after": "Or 4.",
}


def complaints_about(folder, monkeypatch, cells):
    assert complaints(folder, monkeypatch) == []  # stores the lesson
    made = [
        new_markdown_cell(content, id=name)
        if isinstance(content, str)
        else new_code_cell(*content, id=name)
        for name, content in cells.items()
    ]
    notebook = stored(folder / "solutions" / "09_toy.ipynb", made)
    rules = [exercise_rules.solutions_in_order, exercise_rules.numbers_of_a_solution]
    return {rule.__name__ for rule in rules if list(rule(notebook))}


def test_a_solution_with_the_title_and_the_numbers_of_its_exercise_is_accepted(
    tmp_path, monkeypatch
):
    heading = {
        "ex1": "## 1. Five words in the heading\n\nThe mean of 4 is $4/2$, of three nets 17."
    }
    assert complaints_about(tmp_path, monkeypatch, SOLUTION) == set()
    assert complaints_about(tmp_path, monkeypatch, SOLUTION | heading) == set()


@pytest.mark.parametrize(
    ("rule", "cell", "there", "planted"),
    [
        ("solutions_in_order", "title", "09", "08"),
        ("solutions_in_order", "title", "A toy", "Another"),
        ("solutions_in_order", "ex1", "Five", "Three"),
        ("solutions_in_order", "ex1", "**1.", "**2."),
        ("numbers_of_a_solution", "ex1", "of 4", "of 5"),
        ("numbers_of_a_solution", "ex1", "three nets", "six nets"),
        ("numbers_of_a_solution", "ex1", "17 times", "71 times"),
        ("numbers_of_a_solution", "ex1", "0.7", "0.9"),
        ("numbers_of_a_solution", "ex1", "$4/2$", "$9/2$"),
        ("numbers_of_a_solution", "ex1-after", "4", "19"),
    ],
)
def test_a_solution_that_says_something_else_is_seen(
    tmp_path, monkeypatch, rule, cell, there, planted
):
    assert there in SOLUTION[cell]
    changed = SOLUTION | {cell: SOLUTION[cell].replace(there, planted, 1)}
    assert complaints_about(tmp_path, monkeypatch, changed) == {rule}


@pytest.mark.parametrize(
    ("one", "other"), [("ex1", "ex1-solution"), ("ex1-solution", "ex1-check"), ("ex1", "ex1-after")]
)
def test_exchanged_cells_of_a_solution_are_seen(tmp_path, monkeypatch, one, other):
    exchanged = {one: other, other: one}
    cells = {exchanged.get(name, name): SOLUTION[exchanged.get(name, name)] for name in SOLUTION}
    assert complaints_about(tmp_path, monkeypatch, cells) == {"solutions_in_order"}
