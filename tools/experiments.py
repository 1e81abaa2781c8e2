"""Train the grids of the lessons: `python -m tools.experiments [--workers N] [--fresh] [NAME …]`.

Each grid (tools/grids.py) has a record, a JSON file, written anew after every run: an interrupted
command goes on where it stopped. Rates are chosen on the validation data with seeds that the final
runs do not use. A run depends on its cell and on the kind of CPU: neither the number of workers nor
an interruption changes a record, and a record goes on only where its CPU's arithmetic is the same.
"""

import argparse
import functools
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy
import torch
from tqdm import tqdm

from normcourse import jsonfile, training
from normcourse.timing.provenance import processor
from normcourse.training.records import Cell, Grid, Machine, Run, TrainingRecord
from tools import other_maker
from tools.grids import GRIDS

RECORDS = Path(__file__).resolve().parents[1] / "notebooks/records"
# cells and settings to finished runs and the seconds that each took, in any order
Map = Callable[[list[Cell], Grid], Iterator[tuple[Run, float]]]


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
    }


@functools.cache
def cpu() -> Machine:
    """Whose CPU this is, and what decides how it rounds: torch's instructions and MKL's path."""
    path, _ = other_maker.probe(dict(os.environ))
    instructions = torch.backends.cpu.get_cpu_capability()
    return Machine(processor(), instructions, path or "no MKL")


def load(path: Path, name: str, grid: Grid) -> TrainingRecord:
    """The record to go on from, or a new one; RecordError for one that is not this grid's."""
    if not path.exists():
        command = f"make experiments (python -m tools.experiments {name})"
        return TrainingRecord(name, command, "", versions(), cpu(), 0, grid, [])
    record = training.load_record(path, complete=False)
    fix = f"Move {path.name} away to start anew."
    theirs = record.experiment
    if theirs != name:
        raise training.RecordError(
            f"{path.name} is the record of {theirs!r}, not of {name!r}. {fix}"
        )
    if record.settings != grid and not _goes_on(record, grid):
        there = vars(record.settings)
        parts = [part for part, value in vars(grid).items() if value != there[part]]
        raise training.RecordError(
            f"{path.name} was made with other settings ({', '.join(parts)}). {fix}"
        )
    return replace(record, settings=grid)


def _goes_on(record: TrainingRecord, grid: Grid) -> bool:
    """Whether the grid only adds to the record's: norms, seeds, a sweep.

    A run depends on its cell, the data, the model and how it is trained; so the record's runs stay
    right if they are cells of the new plan as well.
    """
    same = replace(record.settings, data=grid.data, model=grid.model, train=grid.train)
    planned = set(training.plan(grid, record.runs))
    return same == record.settings and all(run.cell in planned for run in record.runs)


def save(path: Path, record: TrainingRecord) -> None:
    """Runs stand in the plan's order, whichever ended first."""
    today = datetime.now(UTC).date().isoformat()
    places = list(training.plan(record.settings, record.runs))
    runs = sorted(record.runs, key=lambda run: places.index(run.cell))
    jsonfile.write(path, vars(replace(record, date=today, runs=runs)))


def check_machine(record: TrainingRecord) -> None:
    """RecordError unless runs of here and of the record may stand side by side."""
    here = versions() | vars(cpu())
    there = record.versions | vars(record.cpu) | {"model": cpu().model}  # which decides nothing
    other = [part for part in here if there[part] != here[part]]
    if not other:
        return
    name = record.experiment
    go_on = "Go on where it was begun"
    if other == ["instructions"]:
        go_on += f" (or try ATEN_CPU_CAPABILITY={there['instructions'].lower()})"
    raise training.RecordError(
        f"{name}.json was begun with {[there[part] for part in other]}, and this is "
        f"{[here[part] for part in other]}: their runs do not mix. {go_on}, or begin it anew: "
        f"python -m tools.experiments --fresh {name}"
    )


def joined(there: Machine) -> Machine:
    """The CPUs that did the runs, by their names; all of one kind."""
    names = dict.fromkeys([*there.model.split(", "), cpu().model])
    return replace(there, model=", ".join(names))


def missing(record: TrainingRecord) -> list[Cell]:
    """The cells that can be done now: final runs follow once their norm's rate is chosen."""
    done = {run.cell for run in record.runs}
    return [cell for cell in training.plan(record.settings, record.runs) if cell not in done]


def complete(name: str, grid: Grid, folder: Path, do: Map) -> float:
    """Do the runs that the record lacks, and print a line; the minutes that all its runs took."""
    path = folder / f"{name}.json"
    record = load(path, name, grid)
    before = len(record.runs)
    cells = missing(record)
    if cells:
        check_machine(record)
        record = replace(record, cpu=joined(record.cpu))
    with tqdm(total=_total(grid), initial=before, desc=name, unit="run", disable=None) as bar:
        while cells:
            for run, seconds in do(cells, grid):
                took = round(record.seconds + seconds, 3)
                record = replace(record, runs=[*record.runs, run], seconds=took)
                save(path, record)
                bar.update()
            cells = missing(record)
    done = len(record.runs) - before
    minutes = record.seconds / 60
    print(f"{name}: {done} runs done, {before} were there; {minutes:.1f} minutes of one core.")
    return minutes


def _total(grid: Grid) -> int:
    """How many runs the plan has once every rate is chosen."""
    seeds = len(grid.tuning_seeds)
    total = 0
    for norm in grid.norms:
        slopes = len(grid.slopes.get(norm, [None]))
        total += len(grid.rates) * slopes * seeds + len(grid.seeds)
    for wanted in grid.sweeps.values():
        total += len(wanted.norms) * len(wanted.values) * len(wanted.seeds)
    return total


def _prepare() -> None:
    """A process that trains: one thread, and no bar for each run."""
    torch.set_num_threads(1)
    os.environ.pop("NORMLIB_PROGRESS", None)


def _prepare_worker() -> None:
    _prepare()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  a terminal would ask for those bars
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers,
    # and they clear away scikit-learn's semaphores
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())


@functools.cache
def _data(name: str, dtype: str) -> training.Data:
    """The data in this dtype, which has to be the default one."""
    assert str(torch.get_default_dtype()) == f"torch.{dtype}"
    return training.SOURCES[name]()


def _run(grid: Grid, cell: Cell) -> tuple[Run, float]:
    dtype = grid.train["dtype"]
    torch.set_default_dtype(getattr(torch, dtype))
    data = _data(grid.data.name, dtype)
    start = time.process_time()
    run = training.trial(grid, cell, data)
    return run, time.process_time() - start


@contextmanager
def workers(count: int) -> Iterator[Map]:
    """A map over processes; one worker is this process itself."""
    _prepare()
    if count == 1:
        yield lambda cells, grid: (_run(grid, cell) for cell in cells)
        return
    with get_context("spawn").Pool(count, _prepare_worker) as pool:
        yield lambda cells, grid: pool.imap_unordered(partial(_run, grid), cells)
        pool.close()
        pool.join()  # nothing is left to do; ended halfway, a worker leaves a semaphore behind


def _options(arguments: list[str]) -> argparse.Namespace:
    names = ", ".join(GRIDS)
    parser = argparse.ArgumentParser(description="Train the grids that lessons draw from.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {names}; default: all of lessons"
    )
    parser.add_argument("--folder", type=Path, default=RECORDS, help="where the records are")
    parser.add_argument("--fresh", action="store_true", help="begin the named records anew")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(GRIDS)):
        parser.error(f"no such experiment: {', '.join(unknown)}; there are {names}")
    if options.fresh and not options.names:
        parser.error("--fresh needs the names of the records that it is to begin anew")
    if options.workers < 1:
        parser.error(f"--workers needs at least 1, got {options.workers}")
    return options


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        for name in options.names if options.fresh else ():
            (options.folder / f"{name}.json").unlink(missing_ok=True)
        with workers(options.workers) as do:
            names = options.names or GRIDS
            minutes = sum(complete(name, GRIDS[name], options.folder, do) for name in names)
        print(f"Together {minutes:.0f} minutes of one core; several share them (--workers).")
    except training.RecordError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"{error.filename}: {error.strerror}. Finished runs are kept; mend that, and the same "
            "command goes on.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print(
            "\nInterrupted: finished runs are kept, and the same command goes on.", file=sys.stderr
        )
        return 130
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the workers as well
    sys.exit(main(sys.argv[1:]))
