"""Students' copies: `make release` and `make lab SOLUTIONS=no` lead to no solution."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from editions import interactive
from normcourse.lesson import Notebook
from tools import lab, learner, release

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("course") / "students"
    release.main([str(target)])
    return target


def cells(folder):
    for path in sorted(folder.glob("notebooks/**/*.ipynb")):
        for cell in Notebook(path).cells:
            yield path, cell


def test_it_has_every_lesson_and_no_solution(folder):
    lessons = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    found = sorted(path.relative_to(folder / "notebooks") for path in folder.rglob("*.ipynb"))
    assert [str(path) for path in found] == lessons
    for path, cell in cells(folder):
        assert "](solutions/" not in cell.source, path
        assert "One way to write it" not in cell.source, path
        assert not cell.outputs, path
        assert cell.stored.get("execution_count") is None, path
    hints = sum("<summary>Hint" in cell.source for _, cell in cells(folder))
    assert hints > 20


def test_what_its_commands_run_is_there(folder):
    """What its targets start can be imported there, and finds what it imports."""
    text = (folder / "Makefile").read_text("utf-8")
    started = set(re.findall(r"-m (tools\.\w+)", text))
    assert started == {f"tools.{name}" for name in ("lab", "ready", "bench", "experiments",
                                                    "environment")}  # fmt: skip
    assert set(re.findall(r"^([a-z][a-z-]*):", text, re.M)) == set(release.TARGETS)
    for path in [*folder.glob("tools/*.py"), *folder.glob("editions/*.py")]:
        for name in release.imported(ast.parse(path.read_text("utf-8"))):
            place = name.replace(".", "/")
            there = (ROOT / f"{place}.py").is_file()
            assert (folder / f"{place}.py").is_file() == there, f"{path.name} imports {name}"
    program = "import tools.lab, tools.ready\nprint(tools.lab.__file__)"  # they import no torch
    command = [sys.executable, "-c", program]
    own = {"PYTHONPATH": str(folder)}
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=own)
    assert run.stderr == ""
    assert run.stdout.startswith(str(folder))


def test_it_has_the_figures_to_move(folder):
    pages = sorted(path.stem for path in folder.glob("figures/*.html"))
    assert pages == sorted(interactive.places())
    for path in folder.glob("figures/*.html"):
        text = path.read_text("utf-8")
        for part in re.findall(r'(?:src|href)="(.+?)"', text):
            assert (path.parent / part).is_file(), f"{path.name} asks for {part}"
        figures = re.findall('data-figure="(.+?)"', text)
        assert figures == [place["figure"] for place in interactive.places()[path.stem]]


def test_its_readme_names_programs_as_windows_does(folder):
    words = (folder / "README.md").read_text("utf-8")
    assert r"`.venv\Scripts\python -m tools.ready`" in words


def test_its_copy_for_the_lab_is_that_of_the_course_without_solutions(folder):
    """The answers of predictions are folded once."""
    name = "02_layer_norm.ipynb"
    there = learner.learners_form(folder / "notebooks" / name)
    assert there == learner.learners_form(ROOT / "notebooks" / name, solutions=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([""], "Where to? make release FOLDER=/a/new/folder"),
        ([str(ROOT / "build" / "students")], "lies in the course itself"),
    ],
)
def test_a_folder_that_will_not_do_is_named(arguments, said):
    with pytest.raises(SystemExit, match=re.escape(said)):
        release.main(arguments)


def test_a_folder_with_something_in_it_stays_as_it_is(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(SystemExit, match="is there already, and stays as it is: name a new folder"):
        release.main([str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.fixture
def course(tmp_path):
    """A lesson with a link to its solution, and two solutions."""
    words = {"cell_type": "markdown", "id": "words", "metadata": {}}
    words["source"] = "See.\n\n- Solutions: [solutions/01_a.ipynb](solutions/01_a.ipynb)."
    notebook = json.dumps({"cells": [words], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    for name in ("01_a.ipynb", "solutions/01_a.ipynb", "solutions/02_b.ipynb"):
        path = tmp_path / "notebooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notebook)
    return tmp_path / "notebooks"


def test_a_copy_without_solutions_has_none_and_leads_to_none(course, tmp_path):
    learner.renew(course, tmp_path / "my", solutions=False)
    assert [path.name for path in (tmp_path / "my").rglob("*.ipynb")] == ["01_a.ipynb"]
    assert "- Solutions: handed out later." in (tmp_path / "my" / "01_a.ipynb").read_text("utf-8")


def test_solutions_are_taken_back_unless_the_reader_wrote_in_them(course, tmp_path):
    mine = tmp_path / "my"
    learner.renew(course, mine)
    changed = mine / "solutions" / "02_b.ipynb"
    changed.write_text(changed.read_text("utf-8").replace("See.", "I see."), "utf-8")
    learner.renew(course, mine, solutions=False)
    assert [path.name for path in (mine / "solutions").iterdir()] == ["02_b.ipynb"]
    learner.renew(course, mine)
    assert (mine / "solutions" / "01_a.ipynb").is_file()
    changed.unlink()
    learner.renew(course, mine, solutions=False)
    assert not (mine / "solutions").exists()
    learner.renew(course, mine)
    assert "solutions/01_a.ipynb" in (mine / "01_a.ipynb").read_text("utf-8")


@pytest.mark.parametrize(("asked", "found"), [("no", False), ("yes", True), ("", True)])
def test_the_solutions_that_make_lab_is_asked_for(monkeypatch, asked, found):
    monkeypatch.setenv("SOLUTIONS", asked)
    assert lab.with_solutions() is found


def test_another_word_than_yes_or_no_is_named(monkeypatch):
    monkeypatch.setenv("SOLUTIONS", "none")
    with pytest.raises(SystemExit, match="SOLUTIONS is yes or no, not 'none'"):
        lab.with_solutions()
