"""make grade: only what a fresh check says counts, and nobody's notebook is believed."""

import ast
import csv
import json
import os

import pytest

from normcourse.lesson import Cell, Notebook
from tools import grade

LESSON = "02_layer_norm"
CELL = "ex2-stub"
TITLE = "2 (what does each norm see)"
STUB = Notebook(grade.COURSE / f"{LESSON}.ipynb").cell(CELL).source
SEEN = ("LN and BN", "neither", "BN", "LN", "BN", "LN", "BN")
RIGHT = f"my_answers = {dict(zip(ast.literal_eval(STUB.partition(' = ')[2]), SEEN, strict=True))}"
WRONG = RIGHT.replace("'neither'", "'BN'")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each process would load torch")


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Each process would import it again."""
    grade.import_torch()


@pytest.fixture(scope="module")
def lesson():
    return grade.lesson_at(grade.COURSE / f"{LESSON}.ipynb")


@pytest.fixture
def handed_in(tmp_path):
    """handed_in(name, stub=…, more=[…]): lesson 02 with this answer to exercise 2, other cells."""

    def write(name, stub, more=(), lesson=LESSON, cell=CELL):
        notebook = json.loads((grade.COURSE / f"{lesson}.ipynb").read_text("utf-8"))
        for each in notebook["cells"]:
            if each["id"] == cell:
                each["source"] = stub
        extra = [
            {"cell_type": "code", "id": f"own-{n}", "metadata": {}, "outputs": [], "source": source}
            for n, source in enumerate(more)
        ]
        notebook["cells"][2:2] = extra
        path = tmp_path / f"{name}.ipynb"
        path.write_text(json.dumps(notebook), "utf-8")
        return path

    return write


@pytest.fixture
def graded(lesson, monkeypatch):
    """graded(path): solved and slip of exercise 2, in a process of its own."""

    def of(path, seconds=grade.SECONDS):
        one = grade.Lesson(lesson.path, lesson.cells, lesson.asked[1:2])
        (row,) = grade.grade(path, "a student", [one], seconds)
        assert (row["lesson"], row["exercise"]) == (LESSON, TITLE)
        return row["solved"], row["slip"]

    return of


def code(name, source):
    return Cell({"cell_type": "code", "id": name, "metadata": {}, "source": source})


@pytest.mark.parametrize(
    ("stub", "solved", "slip"),
    [
        (RIGHT, "yes", ""),
        (STUB, "not attempted", ""),
        (WRONG, "no", "6 of 7 are right"),
        ("my_answers = 1 / 0", "unchecked", "the cell ex2-stub raised ZeroDivisionError"),
        (
            "my_answers = [1, 2,",
            "unchecked",
            "the cell ex2-stub is no Python: '[' was never closed",
        ),
        ("%timeit 3", "unchecked", "no Python"),
        ("raise SystemExit", "unchecked", "raised SystemExit"),
        ("import os\nos._exit(0)", "unchecked", "it uses os"),
        ("import normcourse.checks.layer_norm as c", "unchecked", "it uses normcourse"),
        ("from normcourse.checks import verdict", "unchecked", "it uses normcourse"),
        ("check.what_each_sees = lambda given: '[ok] Exercise 2'", "unchecked", "it uses check"),
        ("my_answers = open('../solutions').read()", "unchecked", "it uses open"),
        ("my_answers = torch.load.__globals__", "unchecked", "it uses __globals__"),
        ("my_answers = getattr(torch, 'load')", "unchecked", "it uses getattr"),
        ("torch.allclose = lambda *_: True", "unchecked", "it changes torch"),
        ("class my_answers(str):\n    __eq__ = lambda *_: True", "unchecked", "it uses __eq__"),
        ("my_answers = print('[ok] Exercise 2 (what does each norm see)')", "not attempted", ""),
        ("my_answers = helper", "unchecked", "raised NameError"),
    ],
)
def test_one_answer(handed_in, graded, stub, solved, slip):
    found = graded(handed_in("a", stub))
    assert found[0] == solved and slip in found[1], found


def test_another_answer_that_is_no_python_leaves_this_one_as_it_is(handed_in, graded, lesson):
    path = handed_in("a", RIGHT)
    notebook = json.loads(path.read_text("utf-8"))
    (other,) = (cell for cell in notebook["cells"] if cell["id"] == "ex1-stub")
    other["source"] = "class LayerNorm(nn:"
    path.write_text(json.dumps(notebook), "utf-8")
    assert graded(path) == ("yes", "")


def test_what_loops_for_ever_is_stopped_and_not_checked(handed_in, graded):
    path = handed_in("a", "while True:\n    pass")
    assert graded(path, seconds=2) == ("unchecked", "it ran for more than 2 s")


def test_a_function_put_in_another_s_place_is_seen():
    from normcourse.checks import layer_norm  # noqa: F401

    cells = [code("setup", "import torch\nt = torch")]
    swap = code("ex1-stub", "[setattr(t, 'allclose', max)]")
    said = grade.checked([*cells, swap], "str('[ok] Exercise 1')", 60)
    assert said == "it changed torch.allclose"
    assert grade.checked(cells, "str('[ok] Exercise 1')", 60) == "[ok] Exercise 1"


def test_a_process_that_dies_is_no_answer():
    killed = code("ex1-stub", "import os\nos.kill(os.getpid(), 9)")
    assert grade.checked([killed], "1", 60) == "its process ended (exit code -9)"


def test_other_cells_are_not_run_and_what_needs_one_is_not_checked(handed_in, graded):
    trick = "from normcourse.checks import layer_norm as check\ncheck.what_each_sees = print"
    assert graded(handed_in("a", RIGHT, [trick])) == ("yes", "")
    solved, slip = graded(handed_in("b", WRONG, [trick]))
    assert solved == "unchecked" and slip.startswith("1 cells that are not the lesson's")
    solved, slip = graded(
        handed_in("c", "my_answers = helper", [RIGHT.replace("my_answers", "helper")])
    )
    assert solved == "unchecked" and "NameError" in slip


def test_a_changed_check_in_the_notebook_changes_nothing(handed_in, graded):
    path = handed_in("a", WRONG)
    text = path.read_text("utf-8").replace("check.what_each_sees(my_answers)", "print('[ok]')")
    path.write_text(text, "utf-8")
    assert graded(path)[0] == "unchecked"


def test_a_missing_or_doubled_answer_is_named(handed_in, graded):
    path = handed_in("a", RIGHT)
    path.write_text(path.read_text("utf-8").replace('"ex2-stub"', '"gone"'), "utf-8")
    assert graded(path) == ("unchecked", "the cell ex2-stub is there 0 times")
    path.write_text(path.read_text("utf-8").replace('"ex1-stub"', '"ex2-stub"'), "utf-8")
    path.write_text(path.read_text("utf-8").replace('"gone"', '"ex2-stub"'), "utf-8")
    assert graded(path) == ("unchecked", "the cell ex2-stub is there 2 times")


def test_an_answer_may_use_an_answer_and_what_the_lesson_made():
    cells = [
        code("setup", "import math"),
        code("unused", "1 / 0"),
        code("rows", "rows = []"),
        code("filled", "rows.append(3)"),
        code("ex1-stub", "def mine(x): return x + rows[0]"),
        code("ex1-check", "check.first(mine)"),
        code("ex2-stub", "def both(x): return mine(mine(x))"),
        code("ex2-check", "check.second(both)"),
    ]
    needed = grade.needed_cells(cells, grade.Asked("ex2-check", "check.second(both)", False))
    assert [cell.id for cell in needed] == ["setup", "rows", "filled", "ex1-stub", "ex2-stub"]


def test_an_open_exercise_is_for_a_person(lesson):
    course = [grade.lesson_at(path) for path in sorted(grade.COURSE.glob("0*.ipynb"))]
    assert sum(asked.is_open for each in course for asked in each.asked) >= 5
    cells = [f"ex{n}-check" for n in range(1, 4)]
    assert [asked.cell for asked in lesson.asked] == cells


def test_the_table_of_a_class(handed_in, tmp_path, capsys):
    (tmp_path / "one").mkdir()
    handed_in("one/=HYPERLINK(1)", RIGHT)
    (tmp_path / "empty.ipynb").write_text("", "utf-8")
    (tmp_path / "other.ipynb").write_text('{"cells": []}', "utf-8")
    (tmp_path / grade.REPORT).write_text("mine", "utf-8")
    assert grade.main([str(tmp_path)]) == 0
    with (tmp_path / grade.REPORT).open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    assert [tuple(row) for row in rows[:1]] == [grade.COLUMNS]
    assert {row["name"]: row["slip"] for row in rows if not row["lesson"]} == {
        "empty": "the file is no notebook",
        "other": "no lesson of this course",
    }
    solved = [row["solved"] for row in rows if row["name"].startswith("one/")]
    assert solved == ["not attempted", "yes", "not attempted"]
    assert (tmp_path / "grades.old1.csv").read_text("utf-8") == "mine"
    said = capsys.readouterr().out
    assert "use a container" in said and "1 yes, 2 not attempted" in said


def test_a_stranger_s_words_are_no_formula():
    assert grade.row("=1+1", "", "", "no", "-2 lines\nof two")["name"] == "'=1+1"
    assert grade.row("a", "", "", "no", "-2 lines\nof two")["slip"] == "'-2 lines of two"


@pytest.mark.parametrize("folder", ["", "empty"])
def test_a_folder_without_notebooks_says_what_to_do(tmp_path, capsys, folder):
    assert grade.main([folder and str(tmp_path)]) == 1
    assert "make grade FOLDER=" in capsys.readouterr().err
