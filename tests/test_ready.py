"""`make ready` says that a computer works without a network, or what is missing."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from tools import environment, notebooks, ready


@pytest.fixture
def complete(tmp_path, monkeypatch):
    """A stamp that fits."""
    stamp = tmp_path / "installed.sha256"
    stamp.write_text(environment.goal())
    monkeypatch.setattr(environment, "STAMP", stamp)
    return stamp


def test_a_complete_environment_lacks_nothing(complete):
    assert list(ready.missing()) == []


@pytest.mark.parametrize("stamp", [None, "of another edition"])
def test_an_environment_that_was_not_finished_is_named(complete, stamp):
    complete.unlink()
    if stamp:
        complete.write_text(stamp)
    (line,) = ready.missing()
    assert line.startswith(
        "The environment is not complete, or the folder was moved or copied: `make"
    )


def test_a_package_that_is_gone_is_named(complete, monkeypatch):
    def gone(name):
        if name == "scipy":
            raise PackageNotFoundError(name)

    monkeypatch.setattr(ready, "distribution", gone)
    (line,) = ready.missing()
    assert line.startswith("scipy is not installed")
    assert "delete the folder .venv, then `make environment`" in line


@pytest.mark.parametrize(
    ("asks", "refused"),
    [
        ("socket.create_connection(('192.0.2.1', 80), 1)", True),
        ("socket.getaddrinfo('example.org', 80)", True),
        ("socket.getaddrinfo('localhost', 80)", False),
    ],
)
def test_a_cell_that_asks_for_another_computer_gets_an_error(asks, refused):
    program = f"{ready.ALONE}\nimport socket\n{asks}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ("OSError: the cell asks the network for" in run.stderr) == refused
    assert (run.returncode != 0) == refused


def test_a_lesson_runs_behind_the_cell_that_forbids_the_network(monkeypatch):
    seen = []

    def execute(notebook, folder, tick):
        seen.extend(cell.source for cell in notebook.cells)
        return "cell one: it broke"

    monkeypatch.setattr(notebooks, "execute", execute)
    (line,) = ready.unrun(ready.lesson_at("00"))
    assert line.startswith("Lesson 00 stops at cell one: it broke\nSend this to")
    assert seen[0] == ready.ALONE
    assert len(seen) > 20


@pytest.mark.slow  # a kernel starts
def test_a_lesson_that_stops_is_named_with_its_cell(tmp_path):
    cell = {"cell_type": "code", "id": "fetch", "metadata": {}, "outputs": []}
    cell |= {"execution_count": None, "source": "import socket\nsocket.getaddrinfo('a.org', 80)"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    lesson = tmp_path / "00_fetch.ipynb"
    lesson.write_text(json.dumps(notebook))
    (line,) = ready.unrun(lesson)
    assert line.startswith("Lesson 00 stops at cell fetch: ")
    assert "the cell asks the network for a.org" in line


def test_a_lab_that_ends_at_once_did_not_answer():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not ready.answers("http://127.0.0.1:9/lab", process)


def test_a_lesson_that_is_not_there_is_named():
    with pytest.raises(SystemExit, match=r"^LESSON=99: there is no such lesson; there are .*03a"):
        ready.lesson_at("99")


def test_what_is_missing_ends_in_an_error_and_nothing_else_is_tried(monkeypatch):
    monkeypatch.setattr(ready, "missing", lambda: iter(["No torch: `make environment`."]))
    monkeypatch.setattr(ready, "unrun", None)
    with pytest.raises(SystemExit, match=r"^This computer is not ready\.\nNo torch"):
        ready.main()


def test_one_line_says_that_all_is_well(monkeypatch, capsys):
    for name, found in (("missing", []), ("unrun", []), ("unanswered", [])):
        monkeypatch.setattr(ready, name, lambda *_, found=found: iter(found))
    monkeypatch.setenv("LESSON", "02")
    ready.main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("This computer is ready, and needs no network: ")
    assert f"the {ready.count_cells(ready.lesson_at('02'))} cells of lesson 02 ran" in last
