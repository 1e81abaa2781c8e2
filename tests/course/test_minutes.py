"""tools/minutes.py: each part of a lesson's minutes, and a title that says something else."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from normcourse.lesson import Notebook
from tools import minutes

TITLE = "**Time:** core {0} minutes, with the exercises {1}"


def lesson(path, *cells):
    nbformat.write(new_notebook(cells=list(cells)), path)
    return Notebook(path)


def picture():
    return new_output("display_data", data={"image/png": "", "text/plain": "figure"})


FOLD = "<details><summary>More</summary>\n\n{}\n\n</details>"
FORMULA = "$$\nx = y\n$$\n\n"
PARTS = {  # cell: its minutes in the core, and as an exercise
    "words": (new_markdown_cell("word " * 150), 1, 0),
    "a formula in the text is one word": (
        new_markdown_cell(r"$x + y$ `f(x)` [link](a/b/c.md) <b>" * 150),
        3,
        0,
    ),
    "displayed formulas": (new_markdown_cell(FORMULA * 4), 2, 0),
    "folded": (new_markdown_cell(FOLD.format("word " * 300 + FORMULA)), 0, 0),
    "code": (new_code_cell("x = 1  # one\n\n# two\n" * 10), 2, 0),
    "hidden code": (new_code_cell("x = 1\n" * 200, metadata={"tags": ["hide-input"]}), 0, 0),
    "figures": (new_code_cell("", outputs=[picture(), picture()]), 1, 0),
    "exercises": (new_markdown_cell("**1. A** · 15 minutes\n\n**2. B** · 5 minutes"), 8 / 150, 20),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_takes_its_time(tmp_path, part):
    cell, core, exercises = PARTS[part]
    counted = minutes.count(lesson(tmp_path / "a.ipynb", cell))
    assert counted.core == pytest.approx(core)
    assert counted.exercises == exercises
    assert counted.whole == counted.core + exercises


def test_evidence_takes_no_time(tmp_path):
    cells = [new_markdown_cell("## Evidence"), new_code_cell("", outputs=[picture()])]
    assert minutes.count(lesson(tmp_path / "a.ipynb", *cells)).figures == 0


@pytest.mark.parametrize(
    ("core", "whole", "right"), [(20, 20, True), (25, 25, True), (27, 20, False), (20, 9, False)]
)
def test_a_title_may_be_off_by_five_minutes(tmp_path, core, whole, right):
    title = new_markdown_cell(TITLE.format(core, whole))
    found = lesson(tmp_path / "a.ipynb", title, new_markdown_cell("word " * 3000))
    assert (minutes.fault(found) is None) == right


def test_a_title_in_other_words_is_named(tmp_path):
    found = lesson(tmp_path / "a.ipynb", new_markdown_cell("60 minutes"))
    assert "does not say its minutes" in minutes.fault(found)


@pytest.mark.parametrize(("count", "is_long"), [(9000, False), (9150, True)])
def test_the_table_flags_more_than_an_hour(tmp_path, count, is_long):
    row = minutes.row(lesson(tmp_path / "a.ipynb", new_markdown_cell("word " * count)))
    assert str(count) in row
    assert ("over 60" in row) == is_long
