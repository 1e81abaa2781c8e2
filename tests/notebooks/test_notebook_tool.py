"""tools/notebooks.py: what it writes, what it keeps, what it leaves alone."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests import full_disk
from tools import notebooks

ROOT = Path(__file__).resolve().parents[2]
LIVE = {"tags": ["nbval-ignore-output"], "scrolled": True}


def write(path, *sources, metadata=None):
    cells = [
        new_code_cell(source, id=f"cell-{i}", metadata=metadata or {})
        for i, source in enumerate(sources)
    ]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def shown(path):
    return [
        output.get("text")
        for cell in nbformat.read(path, as_version=4).cells
        for output in cell.outputs
    ]


def run(*arguments, returncode=0):
    # Fresh: these notebooks do not import torch, so a warm process would cost more than it gains.
    environment = os.environ | {"NORMLIB_FRESH_KERNELS": "1"}
    command = [sys.executable, "-m", "tools.notebooks", *arguments]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == returncode, result.stderr
    return result


COUNT_RUNS = """from pathlib import Path
runs = Path({!r})
runs.open("a").write("x")
print(len(runs.read_text()))"""


@pytest.mark.slow
def test_what_did_not_change_stays_byte_for_byte_even_live_output(tmp_path):
    same = write(tmp_path / "same.ipynb", COUNT_RUNS.format("same"), metadata=LIVE)
    edited = write(tmp_path / "edited.ipynb", COUNT_RUNS.format("edited"), metadata=LIVE)
    run(same, edited)
    before = same.read_bytes()
    assert shown(same) == shown(edited) == ["1\n"]
    edited.write_text(edited.read_text().replace("print(len", "print(10 + len"))
    run(same, edited)
    assert same.read_bytes() == before
    assert shown(edited) == ["12\n"]
    run("--live", same)
    assert shown(same) == ["3\n"]  # so the second run did execute the cell


@pytest.mark.slow
def test_a_failing_cell_is_named_and_the_file_left_alone(tmp_path):
    sound = write(tmp_path / "sound.ipynb", "1 + 1")
    broken = write(tmp_path / "broken.ipynb", "x = 1", "x / 0")
    dead = write(tmp_path / "dead.ipynb", "import os", "os._exit(1)")
    before = broken.read_bytes(), dead.read_bytes()
    result = run(broken, sound, dead, returncode=1)
    assert f"{broken}, cell cell-1: " in result.stderr
    assert "ZeroDivisionError" in result.stderr
    assert f"{dead}, cell cell-1: Kernel died" in result.stderr
    assert (broken.read_bytes(), dead.read_bytes()) == before
    assert nbformat.read(sound, as_version=4).cells[0].execution_count == 1


def test_a_live_output_stays_until_its_source_changes(tmp_path, monkeypatch):
    path = write(tmp_path / "live.ipynb", "print(next(count))", metadata=LIVE)
    count = itertools.count(1)

    def execute(notebook, folder, tick):
        """In the place of a kernel, which leaves metadata of its own."""
        (cell,) = notebook.cells
        cell.update(execution_count=1, outputs=[new_output("stream", text=f"{next(count)}\n")])
        cell.metadata["execution"] = {"took": next(count)}

    monkeypatch.setattr(notebooks, "execute", execute)
    assert notebooks.renew(path) is None
    before = path.read_bytes()
    assert shown(path) == ["1\n"]
    assert notebooks.renew(path) is None
    assert path.read_bytes() == before
    path.write_text(path.read_text().replace("print(next", "print( next"))
    assert notebooks.renew(path) is None
    assert shown(path) == ["5\n"]
    assert notebooks.renew(path, live=True) is None
    assert shown(path) == ["7\n"]


@pytest.mark.parametrize("options", [[], ["--live"]], ids=str)
def test_who_asks_for_live_outputs_gets_them(tmp_path, monkeypatch, options):
    path = write(tmp_path / "live.ipynb", "1 + 1")
    asked = []
    monkeypatch.setattr(notebooks, "renew", lambda path, live, tick: asked.append((path, live)))
    monkeypatch.setattr(sys, "argv", ["notebooks.py", *options, str(path)])
    assert notebooks.main() == 0
    assert asked == [(path, bool(options))]


def count_one(notebook, folder, tick):
    """In the place of a run: what is to be written differs from what is there."""
    notebook.cells[0].execution_count = 1


def test_a_full_disk_leaves_the_notebook_as_it_was(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ipynb", "1 + 1")
    before = path.read_bytes()
    monkeypatch.setattr(notebooks, "execute", count_one)
    with monkeypatch.context() as patch:
        patch.setattr(*full_disk.FULL)
        error = notebooks.renew(path)
    assert error == f"{path} could not be written (No space left on device): it is as it was."
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    assert notebooks.renew(path) is None
    assert path.read_bytes() != before


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"cells": [3]}', "<<<<<<< HEAD\n"])
def test_what_is_no_notebook_is_named_with_the_cure(tmp_path, content):
    path = tmp_path / "broken.ipynb"
    path.write_text(content)
    with pytest.raises(ValueError) as caught:
        notebooks.read(path)
    assert f"`git checkout origin/HEAD -- {path}`" in str(caught.value)
    assert ("conflict markers" in str(caught.value)) == content.startswith("<")


def test_nothing_runs_before_all_are_notebooks(tmp_path):
    sound = write(tmp_path / "sound.ipynb", "1 + 1")
    broken = tmp_path / "broken.ipynb"
    broken.write_text("<<<<<<< HEAD")
    before = sound.read_bytes()
    (line,) = run(sound, broken, returncode=1).stderr.splitlines()
    assert line.startswith(f"{broken} holds conflict markers")
    assert sound.read_bytes() == before
