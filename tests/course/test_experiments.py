"""tools/experiments.py keeps finished runs, goes on, and refuses what it cannot go on with."""

import functools
import json
import os
import sys
from dataclasses import replace
from unittest import mock

import pytest
import torch

from normcourse import training
from tests import full_disk
from tests.course.small_grid import NAME, RUNS, small_grid
from tools import experiments, other_maker

# MKL's path here, asked once: it takes a process
probed = functools.cache(functools.partial(other_maker.probe, os.environ.copy()))


@pytest.fixture
def tool(monkeypatch):
    """With one small grid; default dtype and number of threads are set back."""
    monkeypatch.setattr(other_maker, "probe", lambda environment: probed())
    monkeypatch.setattr(experiments, "GRIDS", {NAME: small_grid()})
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield experiments
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


def run(tool, folder, *arguments, workers=1):
    return tool.main(["--folder", str(folder), "--workers", str(workers), *arguments])


@pytest.fixture(scope="module")
def alone():
    """The runs of a complete record, made by the library alone."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    grid = small_grid()
    runs = training.all_runs(grid)
    torch.set_default_dtype(default)
    places = list(training.plan(grid, runs))
    return sorted(runs, key=lambda run: places.index(run.cell))


@pytest.fixture
def made(tool, alone, tmp_path):
    """The path of a complete record."""
    path = tmp_path / f"{NAME}.json"
    record = tool.load(path, NAME, tool.GRIDS[NAME])
    tool.save(path, replace(record, runs=list(alone), seconds=9.0))
    return path


@pytest.mark.slow
def test_the_record_says_how_it_was_made(tool, alone, tmp_path, capsys):
    assert run(tool, tmp_path) == 0
    assert f"{RUNS} runs done, 0 were there" in capsys.readouterr().out
    record = training.load_record(tmp_path / f"{NAME}.json")
    assert record.runs == alone
    assert record.experiment == NAME and record.command.startswith("make experiments")
    assert set(record.versions) == {"python", "torch", "numpy", "platform"}
    assert record.cpu.instructions == torch.backends.cpu.get_cpu_capability()
    assert record.cpu.model and record.cpu.mkl
    assert 0 < record.seconds < 600
    assert record.settings == small_grid()
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAME}.json"]


def but_for_the_time(path):
    """What the file holds, in its order, without the seconds that the runs took."""
    record = json.loads(path.read_text("utf-8"))
    assert record.pop("seconds") > 0
    return json.dumps(record)


def test_a_worker_trains_with_one_thread(tool, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # to be set back
    tool._prepare_worker()
    sys.stderr.close()
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("other, dtype", [("float32", "float64"), ("float64", "float32")])
def test_a_run_is_in_its_grids_dtype_whatever_came_before(tool, monkeypatch, other, dtype):
    torch.set_default_dtype(getattr(torch, other))
    seen = []
    monkeypatch.setattr(training, "trial", lambda grid, cell, data: seen.append(data.train_x.dtype))
    grid = small_grid(train=small_grid().train | {"dtype": dtype})
    tool._run(grid, None)
    assert seen == [torch.get_default_dtype()] == [getattr(torch, dtype)]


def test_every_worker_is_prepared(tool, monkeypatch):
    processes = mock.MagicMock()
    monkeypatch.setattr(tool, "get_context", lambda kind: processes)
    with tool.workers(2):
        processes.Pool.assert_called_once_with(2, tool._prepare_worker)


@pytest.mark.slow
def test_two_workers_make_the_record_of_one(tool, made):
    of_one = but_for_the_time(made)
    made.unlink()
    assert run(tool, made.parent, workers=2) == 0
    assert but_for_the_time(made) == of_one


def test_a_complete_record_is_left_as_it_is(tool, made, capsys):
    before = made.read_bytes()
    assert run(tool, made.parent, NAME) == 0
    assert f"0 runs done, {RUNS} were there" in capsys.readouterr().out
    assert made.read_bytes() == before


def test_an_interrupted_command_keeps_what_is_done_and_goes_on(
    tool, alone, made, monkeypatch, capsys
):
    whole, train, calls = but_for_the_time(made), tool._run, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) in (3, 6):  # while tuning, and between final runs and sweeps
            raise KeyboardInterrupt
        return train(*arguments)

    monkeypatch.setattr(tool, "_run", interrupted)
    made.unlink()
    for kept in (2, 4):
        assert run(tool, made.parent) == 130
        assert "goes on" in capsys.readouterr().err
        assert len(json.loads(made.read_text("utf-8"))["runs"]) == kept
    assert run(tool, made.parent) == 0
    assert len(calls) == RUNS + 2  # what was done is not done again
    assert but_for_the_time(made) == whole


def test_runs_that_come_in_another_order_give_the_same_file(tool, alone, made):
    whole, record = made.read_bytes(), training.load_record(made)
    tool.save(made, replace(record, runs=record.runs[::-1]))
    assert made.read_bytes() == whole


def test_a_write_that_fails_leaves_the_former_record(tool, made, monkeypatch):
    before = made.read_bytes()

    monkeypatch.setattr(*full_disk.FULL)
    with pytest.raises(OSError, match="No space"):
        tool.save(made, training.load_record(made))
    assert made.read_bytes() == before
    assert list(made.parent.iterdir()) == [made]  # nor a half of the new one


def test_a_full_disk_is_named_in_one_sentence_and_what_is_done_stays(
    tool, made, monkeypatch, capsys
):
    shorten(made, 1)
    before = made.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(*full_disk.FULL)
        assert run(tool, made.parent) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{made}: No space left on device.") and "goes on" in line
    assert made.read_bytes() == before
    assert run(tool, made.parent) == 0


def test_a_grid_that_grew_goes_on_with_the_runs_that_are_there(tool, made, monkeypatch):
    before = training.load_record(made).runs
    norms = small_grid().norms | {"none": training.CONTENDERS["none"].start}
    grown = small_grid(seeds=[0, 1], norms=norms)
    monkeypatch.setattr(tool, "GRIDS", {NAME: grown})
    assert run(tool, made.parent) == 0
    record = training.load_record(made)
    assert record.settings == grown
    assert len(record.runs) == len(before) + 2 + 4  # a seed of two norms; a third norm
    assert all(one in record.runs for one in before)


SHRUNK = {"seeds": [1], "rates": [0.01, 0.03], "sweeps": {}, "tuning_seeds": [101]}


@pytest.mark.parametrize("part, value", SHRUNK.items(), ids=SHRUNK)
def test_a_grid_without_some_of_the_runs_is_another_grid(
    tool, made, monkeypatch, capsys, part, value
):
    monkeypatch.setattr(tool, "GRIDS", {NAME: small_grid(**{part: value})})
    before = made.read_bytes()
    assert run(tool, made.parent) == 1
    assert f"other settings ({part})" in capsys.readouterr().err
    assert made.read_bytes() == before


FOREIGN = {
    "another experiment": (lambda r: r.update(experiment="other"), "is the record of 'other'"),
    "another number of steps": (
        lambda r: r["settings"]["train"].update(steps=9),
        "other settings (train)",
    ),
    "another depth": (
        lambda r: r["settings"]["model"].update(depth=9),
        "other settings (model)",
    ),
    "no sweeps": (lambda r: r["settings"].pop("sweeps"), "is damaged"),
    "no runs": (lambda r: r.pop("runs"), "missing or unknown: runs"),
}


@pytest.mark.parametrize("change, message", FOREIGN.values(), ids=FOREIGN)
def test_a_damaged_or_foreign_record_is_refused_and_left_alone(tool, made, capsys, change, message):
    record = json.loads(made.read_text("utf-8"))
    change(record)
    made.write_text(json.dumps(record), "utf-8")
    before = made.read_bytes()
    assert run(tool, made.parent) == 1
    error = capsys.readouterr().err
    assert message in error and f"Move {NAME}.json away" in error
    assert made.read_bytes() == before


def shorten(path, runs=0, **changes):
    """Take runs away from the end of a record, and change parts of it."""
    record = json.loads(path.read_text("utf-8"))
    for part, value in changes.items():
        record[part] |= value
    del record["runs"][len(record["runs"]) - runs :]
    path.write_text(json.dumps(record), "utf-8")


ELSEWHERE = {
    "another torch": {"versions": {"torch": "1.0"}},
    "other instructions": {"cpu": {"instructions": "SSE9"}},
    "another path through MKL": {"cpu": {"mkl": "abacus"}},
}


@pytest.mark.parametrize("changes", ELSEWHERE.values(), ids=ELSEWHERE)
def test_runs_of_two_machines_are_not_mixed(tool, made, capsys, changes):
    shorten(made, **changes)
    assert run(tool, made.parent) == 0  # complete: nothing to mix
    shorten(made, 1)
    before = made.read_bytes()
    assert run(tool, made.parent) == 1
    error = capsys.readouterr().err
    ((part, value),) = changes.items()
    assert f"{NAME}.json was begun with" in error and str(*value.values()) in error
    assert "do not mix" in error and f"--fresh {NAME}" in error
    assert ("ATEN_CPU_CAPABILITY=sse9" in error) == ("instructions" in value)
    assert made.read_bytes() == before
    assert run(tool, made.parent, "--fresh", NAME) == 0
    assert json.loads(made.read_text("utf-8"))[part] != json.loads(before)[part]


def test_the_name_of_the_cpu_decides_nothing(tool, made):
    shorten(made, 1, cpu={"model": "of another maker"})
    assert run(tool, made.parent) == 0
    model = tool.cpu().model
    assert training.load_record(made).cpu.model == f"of another maker, {model}"


WRONG = {
    "name": (["none"], f"no such experiment: none; there are {NAME}"),
    "everything anew": (["--fresh"], "--fresh needs the names of the records"),
    "no worker": (["--workers", "0"], "--workers needs at least 1, got 0"),
}


@pytest.mark.parametrize("arguments, message", WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused(tool, capsys, arguments, message):
    with pytest.raises(SystemExit):
        tool.main(arguments)
    assert message in capsys.readouterr().err
