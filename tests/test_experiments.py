"""tools/experiments.py keeps finished runs, resumes, and refuses a record that it cannot continue."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "notebooks/records/transformer_norms.json"
NAME = "small"


@pytest.fixture
def tool(monkeypatch):
    """The script as a module, with one grid of 6 runs of 3 steps; the default dtype is set back."""
    spec = importlib.util.spec_from_file_location("experiments", ROOT / "tools/experiments.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "experiments", module)  # where dataclass looks
    spec.loader.exec_module(module)
    full = module.GRIDS["transformer_norms"]
    small = replace(
        full,
        norms={norm: full.norms[norm] for norm in ("rms_norm", "dyisru")},
        model={"depth": 1, "width": 8, "heads": 2},
        train={"steps": 3, "evaluate_every": 2},
        rates=(0.01, 0.1),
        tuning_seeds=(100,),
        seeds=(0,),
    )
    module.FULL, module.GRIDS = full, {NAME: small}
    default = torch.get_default_dtype()
    yield module
    torch.set_default_dtype(default)


@pytest.fixture
def made(tool, tmp_path, capsys):
    """The path of a complete record."""
    assert tool.main(["--folder", str(tmp_path)]) == 0
    assert "6 runs done, 0 were there" in capsys.readouterr().out
    return tmp_path / f"{NAME}.json"


def test_the_record_says_how_it_was_made(made):
    record = json.loads(made.read_text("utf-8"))
    assert record["experiment"] == NAME and record["command"].startswith("make experiments")
    assert set(record["versions"]) == {"python", "torch", "numpy", "platform"}
    assert record["settings"]["seeds"] == [0] and "slope 0.5" in record["settings"]["norms"]["dyisru"]
    assert [run["steps"] for run in record["runs"]] == [[2, 3]] * 6
    assert not list(made.parent.glob("*.tmp"))


def test_a_complete_record_is_left_as_it_is(tool, made, capsys):
    before = made.read_bytes()
    assert tool.main(["--folder", str(made.parent), NAME]) == 0
    assert "0 runs done, 6 were there" in capsys.readouterr().out
    assert made.read_bytes() == before


def test_an_interrupted_command_keeps_what_is_done_and_goes_on(tool, made, monkeypatch, tmp_path, capsys):
    whole, folder, run_one, calls = json.loads(made.read_text("utf-8")), tmp_path / "again", tool.run_one, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_one(*arguments)

    monkeypatch.setattr(tool, "run_one", interrupted)
    assert tool.main(["--folder", str(folder)]) == 130
    assert "goes on" in capsys.readouterr().err
    assert json.loads((folder / made.name).read_text("utf-8"))["runs"] == whole["runs"][:2]
    assert tool.main(["--folder", str(folder)]) == 0
    assert len(calls) == 3 + 4  # what was done is not done again
    assert json.loads((folder / made.name).read_text("utf-8"))["runs"] == whole["runs"]


def test_a_write_that_fails_leaves_the_former_record(tool, made, monkeypatch):
    before = made.read_bytes()

    def full_disk(self, text, encoding):
        with open(self, "w", encoding=encoding) as file:
            file.write(text[:100])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="no space"):
        tool.save(made, json.loads(before))
    assert made.read_bytes() == before


def test_the_rate_is_the_best_of_the_tuning_runs_and_the_lower_of_equals(tool):
    grid = tool.GRIDS[NAME]

    def runs(*shares, phase="tuning"):
        pairs = zip(grid.rates, shares, strict=True)
        run = {"norm": "dyisru", "phase": phase, "diverged": False}
        return [run | {"lr": rate, "validation": [1.0, share]} for rate, share in pairs]

    assert tool.tuned(grid, runs(0.5, 0.6), "dyisru") == 0.1
    assert tool.tuned(grid, runs(0.5, 0.5), "dyisru") == 0.01
    assert tool.tuned(grid, runs(0.6, 0.5) + runs(0.0, 1.0, phase="final"), "dyisru") == 0.01
    diverged = [run | {"diverged": run["lr"] == 0.1} for run in runs(0.5, 0.6)]
    assert tool.tuned(grid, diverged, "dyisru") == 0.01


def without(key):
    return lambda record: record.pop(key)


DAMAGES = {
    "another experiment": (lambda r: r.update(experiment="other"), "is the record of 'other'"),
    "another rate": (lambda r: r["settings"].update(rates=[1]), "other settings (rates)"),
    "another start": (lambda r: r["settings"]["norms"].update(dyisru="c 1"), "other settings (norms)"),
    "no runs": (without("runs"), "'runs' is missing"),
    "versions as text": (lambda r: r.update(versions="2.13"), "'versions' is missing or no dict"),
    "half a run": (lambda r: r["runs"][0].pop("loss"), "a run without exactly the fields"),
    "a run twice": (lambda r: r["runs"].append(r["runs"][0]), "a run is there twice"),
}


@pytest.mark.parametrize("change, message", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_or_foreign_record_is_refused_and_left_alone(tool, made, capsys, change, message):
    record = json.loads(made.read_text("utf-8"))
    change(record)
    made.write_text(json.dumps(record), "utf-8")
    before = made.read_bytes()
    assert tool.main(["--folder", str(made.parent)]) == 1
    error = capsys.readouterr().err
    assert message in error and f"Move {NAME}.json away" in error
    assert made.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"experiment": "small", "runs": [', "null"])
def test_what_is_no_record_is_refused(tool, made, capsys, text):
    made.write_text(text, "utf-8")
    assert tool.main(["--folder", str(made.parent)]) == 1
    assert "is damaged" in capsys.readouterr().err and made.read_text("utf-8") == text


def test_runs_of_two_versions_are_not_mixed(tool, made, capsys):
    record = json.loads(made.read_text("utf-8"))
    record["versions"]["torch"] = "1.0"
    made.write_text(json.dumps(record), "utf-8")
    assert tool.main(["--folder", str(made.parent)]) == 0  # complete: nothing to mix
    record["runs"].pop()
    made.write_text(json.dumps(record), "utf-8")
    assert tool.main(["--folder", str(made.parent)]) == 1
    assert "do not mix" in capsys.readouterr().err


def test_an_unknown_name_is_refused(tool, capsys):
    with pytest.raises(SystemExit):
        tool.main(["none"])
    assert f"no such experiment: none; there are {NAME}" in capsys.readouterr().err


def test_the_stored_record_is_complete_and_of_this_script(tool):
    record = tool.load(RECORD, "transformer_norms", tool.FULL)
    planned = list(tool.plan(tool.FULL, record["runs"]))
    assert [tool._key(run) for run in record["runs"]] == planned
    seeds = {run["seed"] for run in record["runs"] if run["phase"] == "final"}
    assert len(seeds) == 5 and not seeds & set(tool.FULL.tuning_seeds)


def test_both_curves_start_with_one_slope_and_one_level(tool):
    x = torch.tensor([1e-6, 1e9])
    made = {norm: tool.FULL.norms[norm][0](1) for norm in ("dyt", "dyisru")}
    for layer in made.values():
        near, far = layer(x[:, None]).flatten()
        torch.testing.assert_close(near / x[0], torch.tensor(0.5))
        torch.testing.assert_close(far, torch.tensor(1.0))
