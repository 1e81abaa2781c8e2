"""tools/learner.py, tools/kernel_startup.py and normcourse/progress.py:
nothing of the reader's is lost.
"""

import json
import os
import runpy
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from normcourse import progress
from normcourse.checks.verdict import Slip, exercise

ROOT = Path(__file__).parents[2]
LEARNER = runpy.run_path(str(ROOT / "tools/learner.py"))
STARTUP = runpy.run_path(str(ROOT / "tools/kernel_startup.py"))
renew, announcement = LEARNER["renew"], LEARNER["announcement"]


def write_lesson(path, *sources, tags=()):
    """A notebook that was run: each cell has an output."""
    cells = [nbformat.v4.new_markdown_cell("# Title", id="title")]
    for i, source in enumerate(sources):
        output = nbformat.v4.new_output("stream", text="42\n")
        cell = nbformat.v4.new_code_cell(
            source, outputs=[output], execution_count=i + 1, id=f"cell-{i}"
        )
        cell.metadata["tags"] = list(tags)
        cells.append(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def code_cells(path):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]


def sources(path):
    return [cell.source for cell in code_cells(path)]


@pytest.fixture
def course(tmp_path):
    write_lesson(tmp_path / "notebooks/01_a.ipynb", "first")
    write_lesson(tmp_path / "notebooks/solutions/01_a.ipynb", "solved")
    (tmp_path / "notebooks/records").mkdir()
    (tmp_path / "notebooks/records/r.json").write_text("1")
    renew(tmp_path / "notebooks", tmp_path / "my")
    return tmp_path / "notebooks", tmp_path / "my"


def test_the_copy_has_no_outputs_and_the_course_keeps_its_own(course):
    lessons, mine = course
    for name in ("01_a.ipynb", "solutions/01_a.ipynb"):
        (cell,) = code_cells(mine / name)
        assert cell.outputs == [] and cell.execution_count is None
        nbformat.validate(nbformat.read(mine / name, as_version=4))
    assert code_cells(lessons / "01_a.ipynb")[0].outputs
    assert (mine / "records/r.json").read_text() == "1"
    assert (mine / "records/own").is_dir()


def test_drawing_cells_come_collapsed(tmp_path):
    write_lesson(tmp_path / "notebooks/01_a.ipynb", "draw()", tags=["hide-input"])
    renew(tmp_path / "notebooks", tmp_path / "my")
    assert code_cells(tmp_path / "my/01_a.ipynb")[0].metadata.jupyter == {"source_hidden": True}


def test_what_the_reader_did_stays_while_the_course_is_the_same(course):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", "my answer")
    (mine / "notes.txt").write_text("my notes")
    assert renew(lessons, mine) == ([], [])
    assert sources(mine / "01_a.ipynb") == ["my answer"]
    assert code_cells(mine / "01_a.ipynb")[0].outputs  # of the reader's own run
    assert (mine / "notes.txt").read_text() == "my notes"


def test_lesson_and_record_renew_as_a_pair(course):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", "first")  # run, but no cell was changed
    write_lesson(lessons / "01_a.ipynb", "second")
    (lessons / "records/r.json").write_text("2")
    news = renew(lessons, mine)
    assert news == (["01_a.ipynb", "records/r.json"], [])
    assert sources(mine / "01_a.ipynb") == ["second"]
    assert (mine / "records/r.json").read_text() == "2"
    assert announcement(news) == "A newer edition of the course: 01_a renewed."
    assert announcement(renew(lessons, mine)) == ""


def test_a_changed_lesson_is_kept_beside_the_newer_one(course):
    lessons, mine = course
    for edition in ("second", "third"):
        write_lesson(mine / "01_a.ipynb", f"my answer before the {edition}")
        write_lesson(lessons / "01_a.ipynb", edition)
        news = renew(lessons, mine)
    assert sources(mine / "01_a.ipynb") == ["third"]
    assert sources(mine / "01_a.old.ipynb") == ["my answer before the second"]
    assert sources(mine / "01_a.old2.ipynb") == ["my answer before the third"]
    line = "A newer edition of the course: 01_a renewed. What you changed is kept: 01_a.old2.ipynb."
    assert announcement(news) == line


def test_a_copy_from_before_there_was_a_list_loses_nothing(course):
    lessons, mine = course
    (mine / ".given.json").unlink()
    write_lesson(mine / "01_a.ipynb", "my answer")
    assert renew(lessons, mine).kept == ["01_a.old.ipynb"]
    assert sources(mine / "01_a.old.ipynb") == ["my answer"]


def test_a_damaged_notebook_is_kept_too(course):
    lessons, mine = course
    (mine / "01_a.ipynb").write_text("no notebook")
    write_lesson(lessons / "01_a.ipynb", "second")
    assert renew(lessons, mine).kept == ["01_a.old.ipynb"]
    assert (mine / "01_a.old.ipynb").read_text() == "no notebook"


def test_own_records_are_never_touched(course):
    lessons, mine = course
    (mine / "records/own/r.json").write_text("mine")
    (lessons / "records/own").mkdir()
    (lessons / "records/own/r.json").write_text("the course's")
    renew(lessons, mine)
    assert (mine / "records/own/r.json").read_text() == "mine"


# Progress


@exercise("Exercise 1 (demo)")
def demo(student):
    if student != 1:
        raise Slip("no.")


def test_ok_is_remembered_once_and_only_in_the_lab(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    demo(1)
    assert not path.exists()
    monkeypatch.setenv(progress.VARIABLE, str(path))
    demo(2)
    assert progress.solved(path) == {}
    demo(1)
    demo(1)
    assert progress.solved(path) == {"test_learner": ["demo"]}


@pytest.mark.parametrize("content", ["{", "[]", '{"test_learner": 3}'])
def test_a_damaged_progress_file_does_not_break_a_check(tmp_path, monkeypatch, content):
    path = tmp_path / "progress.json"
    path.write_text(content)
    monkeypatch.setenv(progress.VARIABLE, str(path))
    assert demo(1).startswith("[ok]")
    assert path.read_text() == content


def test_the_lab_prints_a_line_for_each_lesson_begun(course):
    lessons, mine = course
    checks = lessons.parent / "checks"
    checks.mkdir()
    two = '@exercise("1")\ndef one(s): ...\n\n@exercise("2")\ndef two(s): ...\n'
    for name in "abc":
        (checks / f"{name}.py").write_text(two)
    write_lesson(lessons / "02_b.ipynb", "first")
    write_lesson(lessons / "03_c.ipynb", "first")
    renew(lessons, mine)
    assert LEARNER["progress"](mine, checks) == []
    (mine / "progress.json").write_text(json.dumps({"a": ["one"]}))
    write_lesson(mine / "03_c.ipynb", "my answer")
    lines = ["01 a: 1 of 2 exercises solved", "03 c: 0 of 2 exercises solved"]
    assert LEARNER["progress"](mine, checks) == lines


# The hint after a restart


def test_only_names_of_the_first_cell_get_a_hint(tmp_path):
    path = tmp_path / "01_a.ipynb"
    setup = (
        "import torch.nn as nn\nfrom normcourse.checks import dyt as check\nx = 1\ndef draw(): ..."
    )
    write_lesson(path, setup, "y = 2")
    for name in ("nn", "check", "x", "draw"):
        assert "Run All Above" in STARTUP["hint"](name, path)
    assert STARTUP["hint"]("y", path) == STARTUP["hint"]("dyt", path) == ""
    assert STARTUP["hint"]("x", tmp_path / "none.ipynb") == ""


def test_a_kernel_shows_the_hint_below_the_traceback(tmp_path):
    path = tmp_path / "01_a.ipynb"
    write_lesson(path, "import math as check")
    environment = os.environ | {
        "PYTHONSTARTUP": str(ROOT / "tools/kernel_startup.py"),
        "JPY_SESSION_NAME": str(path),
    }
    manager, client = start_new_kernel(env=environment)
    try:
        shown = []
        reply = client.execute_interactive("check", output_hook=shown.append, timeout=60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "error"  # Run All stops here, as ever
    kinds = [message["header"]["msg_type"] for message in shown]
    assert kinds.index("error") < kinds.index("stream")
    text = [m["content"]["text"] for m in shown if m["header"]["msg_type"] == "stream"]
    assert text == [STARTUP["HINT"].format("check") + "\n"]


def test_the_first_start_shows_the_lesson_and_its_contents_later_ones_what_was_left(tmp_path):
    lab = runpy.run_path(str(ROOT / "tools/lab.py"))
    workspaces = tmp_path / "workspaces"
    lab["set_workspace"].__globals__["WORKSPACES"] = workspaces
    for name in ("00_a.ipynb", "01_b.ipynb"):
        lab["set_workspace"](Path(name))
        (file,) = workspaces.iterdir()
        layout = json.loads(file.read_text())["data"]["layout-restorer:data"]
        assert layout["main"]["current"] == "notebook:my/00_a.ipynb"
        assert layout["left"]["current"] == "@jupyterlab/toc:plugin"
