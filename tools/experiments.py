"""Train the grids that lessons draw from: `python tools/experiments.py [--workers N] [NAME …]`.

Each grid (tools/grids.py) has a record, a JSON file, written anew after every run: an interrupted command
goes on where it stopped. Rates are chosen on the validation data with seeds that the final runs do not use.
A run depends on its cell alone: neither the number of workers nor an interruption changes a record.

With `--data cifar10 --root FOLDER` the capstone's grids run on CIFAR-10, where FOLDER holds it already (as
torchvision leaves it: FOLDER/cifar-10-batches-py), into records of their own names.
"""

import argparse
import functools
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import numpy
import torch
from grids import GRIDS, on_cifar10
from tqdm import tqdm

from normcourse import training
from normcourse.training.records import HEAD, key

RECORDS = Path(__file__).resolve().parents[1] / "notebooks/records"
Map = Callable[[list[dict], dict], Iterator[dict]]  # cells and settings to finished runs, in any order


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def load(path: Path, name: str, settings: dict) -> dict:
    """The record to go on from, a new one without a file; RecordError for one that is not this grid's."""
    if not path.exists():
        command = f"make experiments (python tools/experiments.py {name})"
        return dict(zip(HEAD, (name, command, "", versions(), settings, []), strict=True))
    record, fix = training.load_record(path, complete=False), f"Move {path.name} away to start anew."
    if record["experiment"] != name:
        raise training.RecordError(
            f"{path.name} is the record of {record['experiment']!r}, not of {name!r}. {fix}"
        )
    if record["settings"] != settings:
        both = settings.keys() | record["settings"].keys()
        different = [part for part in sorted(both) if settings.get(part) != record["settings"].get(part)]
        raise training.RecordError(
            f"{path.name} was made with other settings ({', '.join(different)}). {fix}"
        )
    return record


def save(path: Path, record: dict) -> None:
    """All or nothing: an interrupted command leaves the former file. Runs stand in the plan's order."""
    record["date"] = datetime.now(UTC).date().isoformat()
    places = [key(cell) for cell in training.plan(record["settings"], record["runs"])]
    record["runs"].sort(key=lambda run: places.index(key(run)))
    head = [f" {json.dumps(part)}: {json.dumps(record[part])}" for part in HEAD if part != "runs"]
    runs = ",\n".join(f"  {json.dumps(run)}" for run in record["runs"])
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text("{\n" + ",\n".join([*head, ' "runs": [\n' + runs + "\n ]"]) + "\n}\n", "utf-8")
    os.replace(draft, path)


def missing(record: dict) -> list[dict]:
    """The cells that can be done now: the final runs follow once their norm's rate is chosen."""
    done = {key(run) for run in record["runs"]}
    return [cell for cell in training.plan(record["settings"], record["runs"]) if key(cell) not in done]


def complete(name: str, settings: dict, folder: Path, do: Map) -> str:
    """Do the runs that the record lacks; returns one line about it."""
    path = folder / f"{name}.json"
    record = load(path, name, settings)
    before = len(record["runs"])
    if (cells := missing(record)) and record["versions"] != versions():
        raise training.RecordError(
            f"{path.name} was begun with {record['versions']}, and this is {versions()}: their "
            f"runs do not mix. Move {path.name} away to start anew."
        )
    with tqdm(total=_total(settings), initial=before, desc=name, unit="run", disable=None) as bar:
        while cells:
            for run in do(cells, settings):
                record["runs"].append(run)
                save(path, record)
                bar.update()
            cells = missing(record)
    return f"{name}: {len(record['runs']) - before} runs done, {before} were there."


def _total(settings: dict) -> int:
    each = len(settings["rates"]) * len(settings["tuning_seeds"]) + len(settings["seeds"])
    swept = [
        len(s["norms"]) * len(s["values"]) * len(s["seeds"]) for s in settings.get("sweeps", {}).values()
    ]
    return len(settings["norms"]) * each + sum(swept)


@functools.cache
def _data(root: Path | None) -> training.Data:
    return training.digits() if root is None else training.cifar10(root)


def _prepare() -> None:
    """A process that trains: one thread, float64, and no bar for each run."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    os.environ.pop("NORMLIB_PROGRESS", None)


def _prepare_worker() -> None:
    _prepare()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  a terminal would ask for those bars
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers,
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # and they clear away scikit-learn's semaphores


def _run(root: Path | None, settings: dict, cell: dict) -> dict:
    return training.trial(settings, cell, _data(root))


@contextmanager
def workers(count: int, root: Path | None) -> Iterator[Map]:
    """A map over processes; one worker is this process itself."""
    _prepare()
    if count == 1:
        yield lambda cells, settings: (_run(root, settings, cell) for cell in cells)
        return
    with get_context("spawn").Pool(count, _prepare_worker) as pool:
        yield lambda cells, settings: pool.imap_unordered(functools.partial(_run, root, settings), cells)
        pool.close()
        pool.join()  # nothing is left to do; ended halfway, a worker leaves a semaphore behind


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the grids that lessons draw from.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(GRIDS)}")
    parser.add_argument("--folder", type=Path, default=RECORDS, help="where the records are")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each (default: 2)")
    parser.add_argument("--data", choices=["digits", "cifar10"], default="digits")
    parser.add_argument("--root", type=Path, help="where cifar-10-batches-py is; nothing is downloaded")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(GRIDS):
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}; there are {', '.join(GRIDS)}")
    if (options.data == "cifar10") != (options.root is not None):
        parser.error("--data cifar10 and --root FOLDER go together")
    if options.workers < 1:
        parser.error(f"--workers needs at least 1, got {options.workers}")
    return options


def _chosen(options: argparse.Namespace) -> dict[str, dict]:
    """Names of records and their settings."""
    names = options.names or list(GRIDS)
    if options.root is None:
        return {name: GRIDS[name] for name in names}
    torch.set_default_dtype(torch.float64)
    try:
        data = _data(options.root)
    except (FileNotFoundError, ValueError) as error:
        raise training.RecordError(str(error)) from error
    return {f"{name}_cifar10": on_cifar10(name, data) for name in names if "data" in GRIDS[name]}


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        grids = _chosen(options)
        with workers(options.workers, options.root) as do:
            for name, settings in grids.items():
                print(complete(name, settings, options.folder, do), flush=True)
    except training.RecordError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: finished runs are kept, and the same command goes on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the workers as well
    sys.exit(main(sys.argv[1:]))
