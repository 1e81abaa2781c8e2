"""Train the grids that lessons draw from: `python tools/experiments.py [--folder FOLDER] [NAME …]`.

Each grid has a record, a JSON file, written anew after every run: an interrupted command goes on where it
stopped. Rates are chosen on the validation digits with seeds that the final runs do not use.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy
import torch
from tqdm import tqdm

from normlib import layers, training

RECORDS = Path(__file__).resolve().parents[1] / "notebooks/records"
DIGITS = 5  # decimals of the stored losses
HEAD = {"experiment": str, "command": str, "date": str, "versions": dict, "settings": dict, "runs": list}
RUN = {"norm", "phase", "lr", "seed", "steps", "validation", "loss", "test_right", "diverged"}


class RecordError(Exception):
    """A record that cannot be continued; the text says why and what to do."""


@dataclass(frozen=True)
class Grid:
    """Every norm in the same model: tuned at some rates and seeds, then run on fresh seeds."""

    norms: Mapping[str, tuple[Callable, str]]  # name: (width -> layer, how it starts)
    build: Callable  # (norm, seed=…) -> model
    model: Mapping[str, object]  # arguments of build, named in the record
    train: Mapping[str, object]  # arguments of training.train
    rates: tuple[float, ...]
    tuning_seeds: tuple[int, ...]
    seeds: tuple[int, ...]

    def settings(self) -> dict:
        return {
            "norms": {name: start for name, (_, start) in self.norms.items()},
            "model": {"build": self.build.__name__, **self.model},
            "train": {**self.train, "dtype": "float64"},
            "rates": list(self.rates),
            "tuning_seeds": list(self.tuning_seeds),
            "seeds": list(self.seeds),
        }


# DyT and DyISRU start at slope 0.5 and level 1: alpha = 0.5 and c = 1 / alpha^2 = 4, both with scale 1.
GRIDS = {
    "transformer_norms": Grid(
        norms={
            "layer_norm": (partial(layers.LayerNorm, eps=1e-5), "eps 1e-5"),
            "rms_norm": (partial(layers.RMSNorm, eps=1e-5), "eps 1e-5"),
            "dyt": (partial(layers.DyT, alpha_init=0.5, scale=1.0), "alpha 0.5, scale 1: slope 0.5, level 1"),
            "dyisru": (partial(layers.DyISRU, c_init=4.0, scale=1.0), "c 4, scale 1: slope 0.5, level 1"),
        },
        build=training.transformer,
        model={"depth": 2, "width": 32, "heads": 4, "placement": "pre"},
        train={"steps": 120, "batch_size": 64, "optimizer": "adam", "warmup": 10, "evaluate_every": 20},
        rates=(3e-3, 1e-2, 3e-2),
        tuning_seeds=(100, 101),
        seeds=(0, 1, 2, 3, 4),
    ),
}


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def load(path: Path, name: str, grid: Grid) -> dict:
    """The record to go on from, a new one without a file; RecordError for one that is not this grid's."""
    settings = json.loads(json.dumps(grid.settings()))  # as the file spells them
    if not path.exists():
        command = f"make experiments (python tools/experiments.py {name})"
        return dict(zip(HEAD, (name, command, "", versions(), settings, []), strict=True))
    fix = f"Move {path.name} away to start anew."
    try:
        record = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RecordError(f"{path.name} is damaged, no JSON ({error}). {fix}") from error
    damage = _damage(record)
    if damage:
        raise RecordError(f"{path.name} is damaged: {damage}. {fix}")
    if record["experiment"] != name:
        raise RecordError(f"{path.name} is the record of {record['experiment']!r}, not of {name!r}. {fix}")
    if record["settings"] != settings:
        different = [key for key in settings if settings[key] != record["settings"].get(key)]
        raise RecordError(f"{path.name} was made with other settings ({', '.join(different)}). {fix}")
    return record


def _damage(record: object) -> str | None:
    """What is wrong with the form of a record."""
    if not isinstance(record, dict):
        return "it holds no object"
    for key, kind in HEAD.items():
        if not isinstance(record.get(key), kind):
            return f"{key!r} is missing or no {kind.__name__}"
    for run in record["runs"]:
        if not isinstance(run, dict) or set(run) != RUN:
            return f"a run without exactly the fields {', '.join(sorted(RUN))}"
    keys = [repr(_key(run)) for run in record["runs"]]
    return "a run is there twice" if len(set(keys)) < len(keys) else None


def save(path: Path, record: dict) -> None:
    """All or nothing: an interrupted command leaves the former file."""
    record["date"] = datetime.now(UTC).date().isoformat()
    head = [f" {json.dumps(key)}: {json.dumps(record[key])}" for key in HEAD if key != "runs"]
    runs = ",\n".join(f"  {json.dumps(run)}" for run in record["runs"])
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text("{\n" + ",\n".join([*head, ' "runs": [\n' + runs + "\n ]"]) + "\n}\n", "utf-8")
    os.replace(draft, path)


def _key(run: Mapping) -> tuple:
    return run["norm"], run["phase"], run["lr"], run["seed"]


def tuned(grid: Grid, runs: list[dict], norm: str) -> float:
    """The rate with the best mean validation accuracy at the end of its tuning runs; the lower of equals."""

    def score(rate: float) -> float:
        return statistics.mean(
            run["validation"][-1] if run["validation"] and not run["diverged"] else 0.0
            for run in runs
            if (run["norm"], run["phase"], run["lr"]) == (norm, "tuning", rate)
        )

    return max(sorted(grid.rates), key=score)


def plan(grid: Grid, runs: list[dict]) -> Iterator[tuple]:
    """(norm, phase, rate, seed) of every run, in order; `runs` must hold what came before."""
    for norm in grid.norms:
        yield from ((norm, "tuning", rate, seed) for rate in grid.rates for seed in grid.tuning_seeds)
        rate = tuned(grid, runs, norm)
        yield from ((norm, "final", rate, seed) for seed in grid.seeds)


def run_one(grid: Grid, data: training.Digits, norm: str, phase: str, lr: float, seed: int) -> dict:
    model = grid.build(grid.norms[norm][0], seed=seed, **grid.model)
    record = training.train(model, data, lr=lr, seed=seed, **grid.train)
    right = training.accuracy(model, data.test_x, data.test_y) * len(data.test_y)
    return {
        "norm": norm,
        "phase": phase,
        "lr": lr,
        "seed": seed,
        "steps": record.steps,
        "validation": [round(share, DIGITS) for share in record.validation_accuracy],
        "loss": None if record.diverged else round(record.losses[-1], DIGITS),
        "test_right": round(right),
        "diverged": record.diverged,
    }


def complete(name: str, grid: Grid, folder: Path) -> str:
    """Do the runs that the record lacks; returns one line about it."""
    path = folder / f"{name}.json"
    record = load(path, name, grid)
    done, before = {_key(run) for run in record["runs"]}, len(record["runs"])
    total = len(grid.norms) * (len(grid.rates) * len(grid.tuning_seeds) + len(grid.seeds))
    if before < total and record["versions"] != versions():
        raise RecordError(
            f"{path.name} was begun with {record['versions']}, and this is {versions()}: their "
            f"runs do not mix. Move {path.name} away to start anew."
        )
    data = training.digits()
    with tqdm(total=total, initial=before, desc=name, unit="run", disable=None) as bar:
        for key in plan(grid, record["runs"]):
            if key not in done:
                record["runs"].append(run_one(grid, data, *key))
                save(path, record)
                bar.update()
    return f"{name}: {len(record['runs']) - before} runs done, {before} were there."


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Train the grids that lessons draw from.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(GRIDS)}")
    parser.add_argument("--folder", type=Path, default=RECORDS, help="where the records are")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(GRIDS):
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}; there are {', '.join(GRIDS)}")
    torch.set_default_dtype(torch.float64)
    os.environ.pop("NORMLIB_PROGRESS", None)  # one bar, over the runs
    try:
        for name in options.names or GRIDS:
            print(complete(name, GRIDS[name], options.folder))
    except RecordError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: finished runs are kept, and the same command goes on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
