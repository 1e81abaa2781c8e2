"""tools/minutes.py: each part of a lesson's minutes, and a title that says something else."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import minutes

TITLE = "**Time:** core {0} minutes, with the exercises {1}"


def lesson(path, *cells):
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def picture():
    return new_output("display_data", data={"image/png": "", "text/plain": "figure"})


PARTS = {  # cell: its minutes in the core, and as an exercise
    "words": (new_markdown_cell("word " * 110), 1, 0),
    "a formula is one word": (
        new_markdown_cell(r"$x + y$ `f(x)` [link](a/b/c.md) <b>" * 110),
        3,
        0,
    ),
    "displayed formulas": (new_markdown_cell("\n\n$$\nx = y\n$$\n\n" * 3), 2, 0),
    "folded": (new_markdown_cell("<details>" + "word " * 220 + "</details>"), 2, 0),
    "code": (new_code_cell("x = 1\n" * 200), 7, 0),
    "hidden code": (new_code_cell("x = 1\n" * 200, metadata={"tags": ["hide-input"]}), 0, 0),
    "figure": (new_code_cell("", outputs=[picture()]), 1, 0),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_takes_its_time(tmp_path, part):
    cell, core, exercises = PARTS[part]
    found = minutes.of_lesson(lesson(tmp_path / "a.ipynb", cell))
    assert found.core == pytest.approx(1.05 * core)
    assert found.exercises == exercises


def test_an_exercise_states_its_minutes(tmp_path):
    line = "**1. A name** · difficulty ●○○○○ · importance ●●●●○ · 15 minutes"
    found = minutes.of_lesson(lesson(tmp_path / "a.ipynb", new_markdown_cell(line)))
    assert found.exercises == 15
    assert found.whole == found.core + 15


@pytest.mark.parametrize(
    ("core", "whole", "right"), [(20, 20, True), (25, 25, True), (27, 20, False), (20, 9, False)]
)
def test_a_title_may_be_off_by_five_minutes(tmp_path, core, whole, right):
    title = new_markdown_cell(TITLE.format(core, whole))
    path = lesson(tmp_path / "a.ipynb", title, new_markdown_cell("word " * 2200))
    assert minutes.stated(path) == (core, whole)
    assert (minutes.fault(path) is None) == right


def test_a_title_in_other_words_states_nothing(tmp_path):
    assert minutes.stated(lesson(tmp_path / "a.ipynb", new_markdown_cell("60 minutes"))) is None
