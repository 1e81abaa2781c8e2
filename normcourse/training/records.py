"""Records of grids: which runs there are, which rate was chosen, whether a file can be trusted."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from normcourse import jsonfile
from normcourse.jsonfile import RecordError
from normcourse.training.contenders import CONTENDERS

NUDGE = "nudge"  # the sweep that repeats runs from weights moved in their last place
WINDOW = 10  # steps in one mean of the stored losses
NUMBER = int | float


@dataclass(frozen=True)
class Sizes:
    """How many samples the data has for each purpose."""

    name: str
    train: int
    validation: int
    test: int


@dataclass(frozen=True)
class Sweep:
    """What is varied after the tuning, with the tuned rate if lr names no other."""

    norms: list[str]
    values: list[NUMBER]
    seeds: list[int]
    lr: NUMBER | None = None


@dataclass(frozen=True)
class Grid:
    """What is trained, and with which seeds."""

    data: Sizes
    norms: dict[str, str]  # contenders or nets, and how each of them starts
    model: dict  # a name of MODELS as "build", and its arguments
    train: dict  # the arguments of `train`, and the dtype
    rates: list[NUMBER]
    slopes: dict[str, list[NUMBER]]  # {norm: starts that are tuned with the rate}
    tuning_seeds: list[int]
    seeds: list[int]
    sweeps: dict[str, Sweep]
    # names in norms that are not a contender's: {name: {"norm": one, ...changes of the model}}
    nets: dict | None = None
    test_once: bool | None = None  # True: tuning runs do not look at the test data

    def net(self, name: str) -> tuple[str, dict]:
        """The contender and the model of a name in norms."""
        changes = dict((self.nets or {}).get(name, {}))
        return changes.pop("norm", name), self.model | changes


@dataclass(frozen=True)
class Cell:
    """One place of a grid: all that a run is made from.

    phase is "tuning", "final" or a sweep's name; value what the sweep changes, the tuned slope, or
    the number of a nudge or of a swap.
    """

    norm: str
    phase: str
    value: NUMBER | None
    lr: NUMBER
    seed: int

    @property
    def cell(self) -> "Cell":
        return Cell(self.norm, self.phase, self.value, self.lr, self.seed)


@dataclass(frozen=True)
class Run(Cell):
    """What is kept of a run: numbers with four digits; None stands for what is not finite.

    validation holds how many are right: at the end, and of final and nudged runs at every look. The
    last three are of final runs alone: losses as means over WINDOW steps; by depth, before and
    after training, the RMS of the activations and the norm of the loss's gradient with respect to
    them.
    """

    diverged: bool
    loss: NUMBER | None  # the last one; None if it diverged
    validation: list[int]
    train_right: int
    test_right: int | None  # None in the tuning runs of a grid with test_once
    gradient_first: NUMBER | None  # norms over all parameters, at the first step,
    gradient_mean: NUMBER | None  # over all steps,
    gradient_largest: NUMBER | None
    losses: list | None = None
    activations_by_depth: list | None = None
    gradients_by_depth: list | None = None


CURVES = ("losses", "activations_by_depth", "gradients_by_depth")


@dataclass(frozen=True)
class Machine:
    """Whose CPU made a record, and how it rounds: by torch's instructions and MKL's path.

    Where these two are the same, the runs are, whoever made the CPU and whatever it is called;
    others give other runs where training is chaotic.
    """

    model: str
    instructions: str
    mkl: str


@dataclass(frozen=True)
class TrainingRecord:
    """A grid's runs, and how they were made."""

    experiment: str
    command: str
    date: str
    versions: dict[str, str]
    cpu: Machine
    seconds: NUMBER  # of one CPU core, that the runs took
    settings: Grid
    runs: list[Run]


class Chosen(NamedTuple):
    """What the tuning runs of a norm chose."""

    lr: float
    slope: float | None  # None: the contender's own start


def looks_at_test(grid: Grid, cell: Cell) -> bool:
    return not (grid.test_once and cell.phase == "tuning")


def tuned(grid: Grid, runs: list[Run], norm: str) -> Chosen:
    """The start with the best mean validation accuracy of its tuning runs; of equals the lowest."""

    def score(start: Chosen) -> float:
        return statistics.mean(
            run.validation[-1] if run.validation and not run.diverged else 0
            for run in runs
            if (run.norm, run.phase) == (norm, "tuning") and (run.lr, run.value) == start
        )

    return max(_starts(grid, norm), key=score)


def _starts(grid: Grid, norm: str) -> list[Chosen]:
    slopes = grid.slopes.get(norm, [None])
    return [Chosen(lr, slope) for lr in sorted(grid.rates) for slope in slopes]


def plan(grid: Grid, runs: list[Run]) -> Iterator[Cell]:
    """The cells of all runs, in order; past a norm's tuning only once `runs` holds all of that."""
    done = {run.cell for run in runs}
    for norm in grid.norms:
        tuning = [
            Cell(norm, "tuning", start.slope, start.lr, seed)
            for start in _starts(grid, norm)
            for seed in grid.tuning_seeds
        ]
        yield from tuning
        if tuning and done.issuperset(tuning):
            yield from _after_tuning(grid, norm, tuned(grid, runs, norm))


def _after_tuning(grid: Grid, norm: str, start: Chosen) -> Iterator[Cell]:
    for seed in grid.seeds:
        yield Cell(norm, "final", start.slope, start.lr, seed)
    for phase, wanted in grid.sweeps.items():
        if norm in wanted.norms:
            lr = start.lr if wanted.lr is None else wanted.lr
            for value in wanted.values:
                for seed in wanted.seeds:
                    yield Cell(norm, phase, value, lr, seed)


def nudged(record: TrainingRecord, norm: str) -> list[list[Run]]:
    """The nudged runs of a norm, one list for each nudge; the seeds in their order.

    A nudge moves the weights at the start in their last place (trials.nudge): so far apart two CPUs
    may be.
    """
    runs = [run for run in record.runs if (run.norm, run.phase) == (norm, NUDGE)]
    runs.sort(key=lambda run: run.seed)
    values = record.settings.sweeps[NUDGE].values
    return [[run for run in runs if run.value == value] for value in values]


def sweep(record: TrainingRecord, phase: str) -> dict[tuple[str, float], list[Run]]:
    """{(norm, value): runs} of one sweep; phase "lr" gives the tuning runs by rate.

    A depth or batch size that is the grid's own is there too: its final runs, of the same seeds.
    """
    grid = record.settings
    own = (grid.model | grid.train).get(phase)
    found: dict[tuple, list[Run]] = {}
    for run in record.runs:
        if run.phase == phase:
            value = run.value
        elif (run.phase, phase) == ("tuning", "lr"):
            value = run.lr
        elif own is not None and run.phase == "final" and _is_swept(run, grid.sweeps[phase]):
            value = own
        else:
            continue
        found.setdefault((run.norm, value), []).append(run)
    order = list(grid.norms)
    return {key: found[key] for key in sorted(found, key=lambda key: (order.index(key[0]), key[1]))}


def _is_swept(run: Run, wanted: Sweep) -> bool:
    return run.norm in wanted.norms and run.seed in wanted.seeds


def load_record(path: str | Path, *, complete: bool = True) -> TrainingRecord:
    """A record of tools/experiments.py as it stands in the file.

    Raises: RecordError for a file that is not there, is damaged, comes from another program or
        other contenders, or (when complete) lacks runs.
    """
    path = Path(path)
    stored = jsonfile.read(path, make="make experiments")
    try:
        record = jsonfile.parse(TrainingRecord, stored, "it")
        missing = _missing(record)
    except RecordError as error:
        raise jsonfile.damaged(path, str(error)) from None
    if complete and missing:
        raise RecordError(
            f"{path.name} lacks at least {missing} runs. `make experiments` goes on with it."
        )
    return record


def _missing(record: TrainingRecord) -> int:
    """How many runs of the plan are not there; RecordError for what cannot be."""
    grid = record.settings
    for norm, start in grid.norms.items():
        contender, _ = grid.net(norm)
        if contender not in CONTENDERS or CONTENDERS[contender].start != start:
            raise RecordError(f"it is foreign, its {norm} ({start}) is not ours")
    for run in record.runs:
        _check_run(grid, run)
    found = {run.cell for run in record.runs}
    if len(found) < len(record.runs):
        raise RecordError("a run is there twice")
    cells = set(plan(grid, record.runs))
    if strange := found - cells:
        example = min(strange, key=repr)
        raise RecordError(f"{len(strange)} runs are not of its plan, such as {example}")
    return len(cells - found)


def _check_run(grid: Grid, run: Run) -> None:
    sizes = grid.data
    counts = [("train_right", run.train_right, sizes.train)]
    if looks_at_test(grid, run) != (run.test_right is not None):
        raise RecordError(f"test_right {run.test_right} in {run.cell}")
    if run.test_right is not None:
        counts.append(("test_right", run.test_right, sizes.test))
    counts += [("validation", right, sizes.validation) for right in run.validation]
    for name, count, most in counts:
        if not 0 <= count <= most:
            raise RecordError(f"{name} {count} of {most} in {run.cell}")
    lacking = [name for name in CURVES if getattr(run, name) is None]
    if run.phase == "final" and lacking:
        raise RecordError(f"{', '.join(lacking)} missing in {run.cell}")
