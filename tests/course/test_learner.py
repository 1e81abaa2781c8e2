"""Nothing of the reader's is lost by tools/learner.py and normcourse/progress.py."""

import errno
import json
import os
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from editions import moved
from normcourse import progress
from normcourse.checks.verdict import Slip, exercise
from normcourse.lesson import Notebook
from tests import full_disk
from tools import files, learner
from tools import lab as lab_tool

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STARTUP = runpy.run_path(str(ROOT / "tools/lab_hints.py"))
renew = learner.renew
YOURS = "Yours is kept, with your answers:"


def write_lesson(path, *sources, tags=(), checks=()):
    """A notebook that was run: each cell has an output; an exercise for each of the checks."""
    cells = [nbformat.v4.new_markdown_cell("# Title", id="title")]
    for number, check in enumerate(checks, 1):
        heading = f"**{number}. Do it** · 5 minutes"
        cells.append(nbformat.v4.new_markdown_cell(heading, id=f"ex{number}"))
        cells.append(nbformat.v4.new_code_cell(f"check.{check}(mine)", id=f"ex{number}-check"))
    for i, source in enumerate(sources):
        output = nbformat.v4.new_output("stream", text="42\n")
        cell = nbformat.v4.new_code_cell(
            source, outputs=[output], execution_count=i + 1, id=f"cell-{i}"
        )
        cell.metadata["tags"] = list(tags)
        cells.append(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def told(news, course):
    return learner.announcement(news, *course)


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


def test_the_words_that_answer_a_prediction_come_in_a_fold(tmp_path):
    cells = [
        nbformat.v4.new_code_cell("my_prediction = None", id="predict-01"),
        nbformat.v4.new_code_cell("print(2 + 2)", id="predict-01-answer"),
        nbformat.v4.new_markdown_cell("A remark.", id="aside"),
        nbformat.v4.new_markdown_cell("It is $2^{2}$.\n\n$$\n4\n$$", id="predict-01-read"),
        nbformat.v4.new_markdown_cell("Because.", id="predict-01-read-why"),
        nbformat.v4.new_markdown_cell("What follows.", id="next"),
    ]
    path = tmp_path / "notebooks/01_a.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    stored = path.read_bytes()
    renew(tmp_path / "notebooks", tmp_path / "my")
    assert path.read_bytes() == stored
    given = nbformat.read(tmp_path / "my/01_a.ipynb", as_version=4)
    nbformat.validate(given)
    sources = [cell.source for cell in given.cells]
    commit = (
        "<details><summary><b>Commit to an answer first. Then open: what comes out</b></summary>"
    )
    assert sources[:2] == ["my_prediction = None", "print(2 + 2)"]
    assert sources[2] == f"{commit}\n\nA remark.\n\n</details>"
    assert sources[3] == f"{commit}\n\nIt is $2^{{2}}$.\n\n$$\n4\n$$\n\n</details>"
    assert sources[4] == "<details><summary><b>And why</b></summary>\n\nBecause.\n\n</details>"
    assert sources[5] == "What follows."
    assert renew(tmp_path / "notebooks", tmp_path / "my").renewed == []


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_no_lesson_of_the_copy_says_openly_what_a_prediction_gives(lesson):
    cells = Notebook(lesson, learner.learners_form(lesson)).cells
    answers = [cell for cell in cells if re.match(r"predict-\d+-(answer|read)", cell.id)]
    words = [cell.source for cell in answers if cell.cell_type == "markdown"]
    asked = [cell.id for cell in cells if re.fullmatch(r"predict-\d+", cell.id)]
    assert len(words) >= len(asked) > 0
    for source in words:
        assert source.startswith("<details><summary>")
        assert source.endswith("\n\n</details>")
        assert source.count("<details>") == source.count("</details>")
    for cell in answers:
        assert not cell.outputs


def test_what_the_reader_did_stays_while_the_course_is_the_same(course):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", "my answer")
    (mine / "notes.txt").write_text("my notes")
    assert renew(lessons, mine) == learner.News()
    assert sources(mine / "01_a.ipynb") == ["my answer"]
    assert code_cells(mine / "01_a.ipynb")[0].outputs  # of the reader's own run
    assert (mine / "notes.txt").read_text() == "my notes"


def test_lesson_and_record_renew_as_a_pair(course):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", "first")  # run, but no cell was changed
    write_lesson(lessons / "01_a.ipynb", "second")
    (lessons / "records/r.json").write_text("2")
    news = renew(lessons, mine)
    assert news == learner.News(renewed=["01_a.ipynb", "records/r.json"])
    assert sources(mine / "01_a.ipynb") == ["second"]
    assert (mine / "records/r.json").read_text() == "2"
    assert told(news, course) == ["A newer edition of the course: 01_a renewed."]
    assert told(renew(lessons, mine), course) == []


def test_a_changed_lesson_is_kept_beside_the_newer_one(course):
    lessons, mine = course
    for edition in ("second", "third"):
        write_lesson(mine / "01_a.ipynb", f"my answer before the {edition}")
        write_lesson(lessons / "01_a.ipynb", edition)
        news = renew(lessons, mine)
    assert sources(mine / "01_a.ipynb") == ["third"]
    assert sources(mine / "01_a.old.ipynb") == ["my answer before the second"]
    assert sources(mine / "01_a.old2.ipynb") == ["my answer before the third"]
    assert told(news, course) == [
        "A newer edition of the course: 01_a renewed.",
        "No place in it have cell-0: kept in my/01_a.old2.ipynb.",
    ]


def test_a_copy_from_before_there_was_a_list_loses_nothing(course):
    lessons, mine = course
    for name in (learner.GIVEN, learner.CELLS):
        (mine / name).unlink()
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


# A bad day


def put(path, content):
    """This text, or a folder where the content is None."""
    if path.is_file():
        path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"a": 3}', "\0", None])
@pytest.mark.parametrize("name", [learner.GIVEN, learner.SOLVED])
def test_a_damaged_list_is_set_aside_and_said(course, name, content):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", "my answer")
    write_lesson(lessons / "01_a.ipynb", "second")
    put(mine / name, content)
    (line,) = learner.set_aside_damaged(mine)
    backup = mine / name.replace(".json", ".damaged.json")
    assert f"my/{name}" in line and f"kept as my/{backup.name}" in line
    assert backup.is_dir() if content is None else backup.read_text() == content
    assert renew(lessons, mine).kept == ["01_a.old.ipynb"]
    assert sources(mine / "01_a.old.ipynb") == ["my answer"]
    assert learner.set_aside_damaged(mine) == []


def test_a_damaged_list_that_cannot_be_set_aside_stays_and_is_taken_for_empty(course, monkeypatch):
    lessons, mine = course
    (mine / learner.SOLVED).write_text("[]")
    monkeypatch.setattr(Path, "rename", lambda *_: full_disk.refuse(errno.EROFS))
    (line,) = learner.set_aside_damaged(mine)
    assert "my/progress.json" in line and "Read-only file system" in line
    assert learner.progress(mine, lessons) == []


def git(folder, *arguments, returncode=0):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    run = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True)
    assert run.returncode == returncode, run.stderr


@pytest.fixture
def conflict(tmp_path, monkeypatch):
    """A clone whose reader edited and committed a lesson that the course has changed, too."""
    write_lesson(tmp_path / "origin/notebooks/01_a.ipynb", "first")
    write_lesson(tmp_path / "origin/notebooks/02_b.ipynb", "first")
    git(tmp_path / "origin", "init", "-q")
    for folder in ("origin", "clone"):
        if folder == "clone":
            git(tmp_path, "clone", "-q", "origin", "clone")
            renew(tmp_path / "clone/notebooks", tmp_path / "clone/my")
            write_lesson(tmp_path / "clone/notebooks/01_a.ipynb", "the reader's")
        git(tmp_path / folder, "add", "notebooks")
        git(tmp_path / folder, "commit", "-q", "-m", "one")
    for name in ("01_a.ipynb", "02_b.ipynb"):
        write_lesson(tmp_path / "origin/notebooks" / name, "second")
    git(tmp_path / "origin", "commit", "-q", "-a", "-m", "two")
    git(tmp_path / "clone", "pull", "-q", "--no-rebase", returncode=1)
    monkeypatch.setattr(files, "ROOT", tmp_path / "clone")
    return tmp_path / "clone/notebooks", tmp_path / "clone/my"


def test_conflict_markers_in_a_lesson_stop_no_other_and_the_cure_that_is_named_helps(conflict):
    lessons, mine = conflict
    news = renew(lessons, mine)
    assert news.renewed == ["02_b.ipynb"] and news.gone == {}
    assert sources(mine / "01_a.ipynb") == ["first"]
    line, _ = learner.announcement(news, lessons, mine)
    assert line.startswith("notebooks/01_a.ipynb holds conflict markers (<<<<<<<)")
    command = line.split("`")[1].split()
    git(lessons.parent, *command[1:])
    assert renew(lessons, mine) == learner.News(renewed=["01_a.ipynb"])
    assert sources(mine / "01_a.ipynb") == ["second"]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"cells": [3]}'])
def test_a_lesson_of_the_course_that_is_no_notebook_is_named(course, content):
    lessons, mine = course
    (lessons / "01_a.ipynb").write_text(content)
    news = renew(lessons, mine)
    (line,) = learner.announcement(news, lessons, mine)
    assert f"{lessons}/01_a.ipynb is damaged" in line
    assert sources(mine / "01_a.ipynb") == ["first"]


def test_a_full_disk_at_the_first_start_leaves_no_half_of_a_file(course, monkeypatch):
    lessons, _ = course
    mine = lessons.parent / "new"
    with monkeypatch.context() as patch:
        patch.setattr(*full_disk.FULL)
        (line,) = learner.announcement(renew(lessons, mine), lessons, mine)
    assert "new/01_a.ipynb and 3 more files could not be written (No space left" in line
    assert "free some space" in line
    assert [path for path in mine.rglob("*") if path.is_file()] == []
    assert renew(lessons, mine) == learner.News()
    assert sources(mine / "01_a.ipynb") == ["first"]


@pytest.mark.parametrize("answer", ["first", "my answer"])
def test_a_full_disk_in_an_update_leaves_the_readers_lesson_under_its_name(
    course, monkeypatch, answer
):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", answer)
    write_lesson(lessons / "01_a.ipynb", "second")
    with monkeypatch.context() as patch:
        patch.setattr(*full_disk.FULL)
        news = renew(lessons, mine)
    assert news.unwritten == dict.fromkeys(["01_a.ipynb", learner.GIVEN], errno.ENOSPC)
    assert sources(mine / "01_a.ipynb") == [answer]
    assert not list(mine.glob("*.old*")) and not list(mine.glob("*.new"))
    assert renew(lessons, mine).kept == (["01_a.old.ipynb"] if answer == "my answer" else [])
    assert sources(mine / "01_a.ipynb") == ["second"]


def test_a_clone_that_may_not_be_written_is_named_with_the_cure(course, monkeypatch):
    lessons, mine = course
    write_lesson(lessons / "01_a.ipynb", "second")
    monkeypatch.setattr(Path, "write_bytes", lambda *_: full_disk.refuse(errno.EROFS))
    (line,) = learner.announcement(renew(lessons, mine), lessons, mine)
    assert "could not be written (Read-only file system): move the clone" in line
    assert sources(mine / "01_a.ipynb") == ["first"]


def test_a_file_in_the_place_of_the_copy_is_left_alone(course):
    lessons, _ = course
    mine = lessons.parent / "mine"
    mine.write_text("my shopping list")
    assert learner.set_aside_damaged(mine) == []
    (line,) = learner.announcement(renew(lessons, mine), lessons, mine)
    assert "mine/01_a.ipynb and 4 more files could not be written" in line
    assert "rename the file that stands where a folder has to be" in line
    assert mine.read_text() == "my shopping list"


def test_a_folder_in_a_lessons_place_is_kept(course):
    lessons, mine = course
    (mine / "01_a.ipynb").unlink()
    (mine / "01_a.ipynb").mkdir()
    (mine / "01_a.ipynb/notes.txt").write_text("mine")
    news = renew(lessons, mine)
    assert told(news, course) == ["What you changed is kept: my/01_a.old.ipynb."]
    assert (mine / "01_a.old.ipynb/notes.txt").read_text() == "mine"
    assert sources(mine / "01_a.ipynb") == ["first"]


def test_a_lesson_that_was_dissolved_is_kept_and_the_reader_told_where_its_subject_is(
    course, monkeypatch
):
    lessons, mine = course
    monkeypatch.setattr(moved, "MOVED", {"01_a": ("02", "03b")})
    assert renew(lessons, mine) == learner.News()  # as long as the course has it
    write_lesson(mine / "01_a.ipynb", "my answer")
    (lessons / "01_a.ipynb").unlink()
    (lessons / "solutions/01_a.ipynb").unlink()
    write_lesson(lessons / "02_b.ipynb", "first")
    write_lesson(lessons / "03b_c.ipynb", "first")
    news = renew(lessons, mine)
    gone = "The course has no lesson 01_a any more; its subject is in 02_b and 03b_c now."
    assert told(news, course) == [f"{gone} {YOURS} my/01_a.old.ipynb."]
    assert sources(mine / "01_a.old.ipynb") == ["my answer"]
    assert not (mine / "01_a.ipynb").exists() and not (mine / "solutions/01_a.ipynb").exists()
    assert renew(lessons, mine) == learner.News()


def test_a_lesson_that_left_the_course_in_another_way_stays_where_it_is(course):
    lessons, mine = course
    (lessons / "01_a.ipynb").unlink()
    (line,) = told(renew(lessons, mine), course)
    assert "no lesson 01_a any more" in line and f"{YOURS} my/01_a.ipynb." in line
    assert sources(mine / "01_a.ipynb") == ["first"]
    write_lesson(mine / "99_notes.ipynb", "the reader's own, which no course ever had")
    assert renew(lessons, mine) == learner.News()


def test_where_a_lesson_went_is_a_lesson():
    """What moved.MOVED says of a lesson holds once the course has it no more."""
    lessons = [path.stem for path in (ROOT / "notebooks").glob("*.ipynb")]
    for old, new in moved.MOVED.items():
        for number in new:
            found = [stem for stem in lessons if stem.startswith(f"{number}_")]
            assert old in lessons or len(found) == 1, (old, number)


@pytest.fixture
def lab(course, monkeypatch):
    """tools/lab.py in this course; JupyterLab only says that it ran."""
    lessons, mine = course
    module = lab_tool
    jupyter = types.ModuleType("jupyterlab.labapp")
    jupyter.main = lambda arguments: print("Jupyter's log")
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", jupyter)
    monkeypatch.setattr(module, "COURSE", lessons)
    monkeypatch.setattr(module, "MY", mine)
    monkeypatch.setattr(module, "WORKSPACES", mine / ".lab/workspaces")
    for name in ("NORMLIB_PROGRESS", "NORMLIB_SOLVED", "OMP_NUM_THREADS", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "")  # set_environment is undone
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    return module


def test_the_news_stand_above_jupyters_log_and_below_it(lab, course, capsys):
    lessons, mine = course
    write_lesson(mine / "01_a.ipynb", "my answer")
    write_lesson(lessons / "01_a.ipynb", "second")
    (mine / learner.SOLVED).write_text("null")
    lab.main([])
    shown = capsys.readouterr().out.splitlines()
    place = shown.index("Jupyter's log")
    assert len(shown[place + 1 :]) == 3  # the damaged list, what is newer, what is kept
    assert shown[place - 3 : place] == shown[place + 1 :]
    assert shown[-1] == "No place in it have cell-0: kept in my/01_a.old.ipynb."
    lab.main([])
    assert capsys.readouterr().out.splitlines() == ["Jupyter's log"]


def test_the_lab_starts_on_a_full_disk_and_not_without_a_lesson(lab, course, monkeypatch, capsys):
    lessons, _ = course
    write_lesson(lessons / "02_b.ipynb", "first")
    with monkeypatch.context() as patch:
        patch.setattr(*full_disk.FULL)
        patch.setattr(lab, "set_workspace", lambda _: full_disk.refuse(errno.ENOSPC))
        lab.main([])
    assert "Jupyter's log" in capsys.readouterr().out
    monkeypatch.setattr(lab, "MY", lessons.parent / "file")
    lab.MY.write_text("")
    assert lab.main([]) == 1
    shown = capsys.readouterr()
    assert "rename the file" in shown.out and "Jupyter's log" not in shown.out
    assert shown.err == "There is no lesson to open.\n"


# Progress


@exercise("Exercise 1 (demo)")
def demo(student):
    if student != 1:
        raise Slip("no.")


def test_ok_is_remembered_once_and_only_in_the_lab(tmp_path, monkeypatch, capsys):
    path = tmp_path / "progress.json"
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    demo(1)
    assert not path.exists()
    monkeypatch.setenv(progress.VARIABLE, str(path))
    demo(2)
    assert progress.solved(path) == {}
    path.write_text('{"test_learner": ["one that is gone"]}')
    demo(1)
    demo(1)
    assert progress.solved(path) == {"test_learner": ["one that is gone", "demo"]}
    assert "     1 of 1 exercises of this lesson are solved\n" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"test_learner": 3}', None])
def test_a_damaged_progress_file_does_not_break_a_check(tmp_path, monkeypatch, capsys, content):
    path = tmp_path / "progress.json"
    put(path, content)
    monkeypatch.setenv(progress.VARIABLE, str(path))
    assert demo(1).startswith("[ok]")
    assert "solved, but not noted (progress.json" in capsys.readouterr().out
    assert path.is_dir() if content is None else path.read_text() == content


def test_a_solved_exercise_that_a_full_disk_cannot_note_says_so(tmp_path, monkeypatch, capsys):
    path = tmp_path / "progress.json"
    path.write_text('{"other": ["one"]}')
    monkeypatch.setenv(progress.VARIABLE, str(path))
    monkeypatch.setattr(*full_disk.FULL)
    assert demo(1).startswith("[ok]")
    assert "not noted (progress.json: No space left on device)" in capsys.readouterr().out
    assert path.read_text() == '{"other": ["one"]}'


def test_the_lab_prints_a_line_for_each_lesson_begun(course):
    lessons, mine = course
    for name in ("01_a", "02_b", "03_c"):
        write_lesson(lessons / f"{name}.ipynb", "first", checks=("one", "two"))
    renew(lessons, mine)
    assert learner.progress(mine, lessons) == []
    (mine / "progress.json").write_text(json.dumps({"a": ["one"]}))
    write_lesson(mine / "03_c.ipynb", "my answer")
    lines = ["01 a: 1 of 2 exercises solved", "03 c: 0 of 2 exercises solved"]
    assert learner.progress(mine, lessons) == lines
    learner.write_progress_page(mine, lessons)
    rows = (mine / learner.PROGRESS).read_text().splitlines()
    assert rows[-3:] == [
        "| [01 a](01_a.ipynb) | 1 of 2 |",
        "| [02 b](02_b.ipynb) | 0 of 2 |",
        "| [03 c](03_c.ipynb) | 0 of 2 |",
    ]
    assert learner.renew(lessons, mine) == learner.News()  # the page is no lesson


def test_what_was_solved_in_a_lesson_that_is_gone_counts_where_its_exercise_is(course, monkeypatch):
    lessons, mine = course
    monkeypatch.setattr(moved, "MOVED", {"01_a": ("02", "03b"), "04_d": ("02",)})
    (lessons / "01_a.ipynb").unlink()
    write_lesson(lessons / "02_b.ipynb", "first", checks=["one"])
    write_lesson(lessons / "03b_c.ipynb", "first", checks=["two", "x"])
    renew(lessons, mine)
    solved = json.dumps({"a": ["one", "two", "that is in no lesson now"], "d": ["x"]})
    (mine / learner.SOLVED).write_text(solved)
    lines = ["02 b: 1 of 1 exercises solved", "03b c: 1 of 2 exercises solved"]
    assert learner.progress(mine, lessons) == lines
    assert (mine / learner.SOLVED).read_text() == solved


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


def test_a_kernel_shows_hints_below_tracebacks_and_an_error_that_is_meant_in_one_line(tmp_path):
    path = tmp_path / "01_a.ipynb"
    write_lesson(path, "import math as check", "int('x')", tags=["raises-exception"])
    write_lesson(tmp_path / "01_a.old.ipynb", "my answer")
    environment = os.environ | {
        "PYTHONSTARTUP": str(ROOT / "tools/lab_hints.py"),
        "JPY_SESSION_NAME": str(path),
    }
    manager, client = start_new_kernel(env=environment)
    try:
        shown = []
        reply = client.execute_interactive("check", output_hook=shown.append, timeout=60)
        client.execute_interactive("0", output_hook=shown.append, timeout=60)
        for source in ("int('x')", "int('xx')"):
            client.execute_interactive(source, output_hook=shown.append, timeout=60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "error"  # Run All stops here, as ever
    kinds = [message["header"]["msg_type"] for message in shown]
    assert kinds.index("error") < kinds.index("stream")
    text = [m["content"]["text"] for m in shown if m["header"]["msg_type"] == "stream"]
    _, meant, other = [m["content"] for m in shown if m["header"]["msg_type"] == "error"]
    assert meant["traceback"] == ["ValueError: invalid literal for int() with base 10: 'x'"]
    assert meant["ename"] == "ValueError"
    assert "Traceback" in "".join(other["traceback"])  # of a cell that the reader changed
    kept = STARTUP["KEPT"].format("01_a.old.ipynb")
    assert "".join(text).splitlines() == [STARTUP["HINT"].format("check"), kept]


def test_the_first_start_shows_the_lesson_and_its_contents_later_ones_what_was_left(
    lab, tmp_path, monkeypatch
):
    workspaces = tmp_path / "workspaces"
    monkeypatch.setattr(lab, "WORKSPACES", workspaces)
    for name in ("00_a.ipynb", "01_b.ipynb"):
        lab.set_workspace(Path(name))
        (file,) = workspaces.iterdir()
        layout = json.loads(file.read_text())["data"]["layout-restorer:data"]
        assert layout["main"]["current"] == "notebook:my/00_a.ipynb"
        assert len(layout["main"]["dock"]["widgets"]) == 2  # the other is the progress
        assert layout["left"]["current"] == "@jupyterlab/toc:plugin"
