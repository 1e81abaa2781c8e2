"""Records of grids: which runs there are, which rate was chosen, whether a file can be trusted."""

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from normcourse import jsonfile
from normcourse.jsonfile import OPTIONAL, Kind, RecordError
from normcourse.training.contenders import CONTENDERS

KEY = ("norm", "phase", "value", "lr", "seed")
NUDGE = "nudge"  # the sweep that repeats runs from weights moved in their last place
WINDOW = 10  # steps in one mean of the stored losses and gradient norms
NUMBER = int | float
HEAD: dict[str, Kind] = {
    "experiment": str,
    "command": str,
    "date": str,
    "versions": dict,
    "cpu": dict,
    "seconds": NUMBER,  # of one CPU core, that the runs took
    "settings": dict,
    "runs": list,
}
# What rounds: the same instructions and the same path through MKL give the same runs, whoever
# made the CPU and whatever it is called; others give other runs where training is chaotic.
KIND = ("instructions", "mkl")
CPU: Mapping[str, Kind] = {"model": str} | dict.fromkeys(KIND, str)
SETTINGS = {
    "data": dict,
    "norms": dict,
    "model": dict,
    "train": dict,
    "rates": list,
    "slopes": dict,  # {norm: starts that are tuned with the rate}
    "tuning_seeds": list,
    "seeds": list,
    "sweeps": dict,
}
DATA = {"name": str, "train": int, "validation": int, "test": int}
BRIEF: dict[str, Kind] = {
    "norm": str,
    "phase": str,
    "value": NUMBER | OPTIONAL,
    "lr": NUMBER,
    "seed": int,
    "diverged": bool,
    "loss": NUMBER | OPTIONAL,
    "reached": int | OPTIONAL,
    "validation": list,
    "train_right": int,
    "test_right": int,
    "gradient_first": NUMBER | OPTIONAL,
    "gradient_mean": NUMBER | OPTIONAL,
    "gradient_largest": NUMBER | OPTIONAL,
}
CURVES: dict[str, Kind] = {
    "losses": list,
    "gradients": list,
    "activations_by_depth": list,
    "gradients_by_depth": list,
}


class Chosen(NamedTuple):
    """What the tuning runs of a norm chose."""

    lr: float
    slope: float | None  # None: the contender's own start


def fields(phase: object) -> dict[str, Kind]:
    """The fields of a run, in order, and their kinds.

    Every run: norm, phase ("tuning", "final" or a sweep's name), value (what the sweep changes, the
    tuned slope, or the number of a nudge), lr, seed; diverged and loss as in training.Record (the
    last loss; None if diverged); reached, the first step looked at with 90 % of the validation
    right; validation, how many are right at the end; train_right, test_right; gradient_first,
    _mean, _largest over the steps, norms over all parameters.
    Nudged runs: validation at every look.
    Final runs: the same; losses and gradients as means over WINDOW steps; by depth,
    before and after training, the RMS of the activations and the norm of the loss's gradient with
    respect to them. Numbers have four digits; None stands for what is not finite.
    """
    return BRIEF | CURVES if phase == "final" else BRIEF


def key(run: Mapping) -> tuple:
    return tuple(run.get(name) for name in KEY)


def tuned(settings: Mapping, runs: list[dict], norm: str) -> Chosen:
    """The start with the best mean validation accuracy of its tuning runs; of equals the lowest."""

    def score(start: Chosen) -> float:
        return statistics.mean(
            run["validation"][-1] if run["validation"] and not run["diverged"] else 0
            for run in runs
            if (run["norm"], run["phase"]) == (norm, "tuning")
            and (run["lr"], run["value"]) == (start.lr, start.slope)
        )

    return max(_starts(settings, norm), key=score)


def _starts(settings: Mapping, norm: str) -> list[Chosen]:
    slopes = settings["slopes"].get(norm, [None])
    return [Chosen(lr, slope) for lr in sorted(settings["rates"]) for slope in slopes]


def plan(settings: Mapping, runs: list[dict]) -> Iterator[dict]:
    """The cells of all runs, in order; past a norm's tuning only once `runs` holds all of that."""
    done = {key(run) for run in runs}
    for norm in settings["norms"]:
        tuning = [
            _cell(norm, "tuning", start.slope, start.lr, seed)
            for start in _starts(settings, norm)
            for seed in settings["tuning_seeds"]
        ]
        yield from tuning
        if all(key(cell) in done for cell in tuning):
            yield from _after_tuning(settings, norm, tuned(settings, runs, norm))


def _after_tuning(settings: Mapping, norm: str, start: Chosen) -> Iterator[dict]:
    for seed in settings["seeds"]:
        yield _cell(norm, "final", start.slope, start.lr, seed)
    for phase, wanted in settings["sweeps"].items():
        if norm in wanted["norms"]:
            for value in wanted["values"]:
                for seed in wanted["seeds"]:
                    yield _cell(norm, phase, value, wanted.get("lr", start.lr), seed)


def _cell(norm: str, phase: str, value: float | None, lr: float, seed: int) -> dict:
    return dict(zip(KEY, (norm, phase, value, lr, seed), strict=True))


def nudged(record: Mapping, norm: str) -> list[list[dict]]:
    """The nudged runs of a norm, one list for each nudge; the seeds in their order.

    A nudge moves the weights at the start in their last place (trials.nudge): so far apart two CPUs
    may be.
    """
    wanted = record["settings"]["sweeps"][NUDGE]
    runs = [run for run in record["runs"] if (run["norm"], run["phase"]) == (norm, NUDGE)]
    runs.sort(key=lambda run: run["seed"])
    return [[run for run in runs if run["value"] == value] for value in wanted["values"]]


def sweep(record: Mapping, phase: str) -> dict[tuple[str, float], list[dict]]:
    """{(norm, value): runs} of one sweep; phase "lr" gives the tuning runs by rate.

    A depth or batch size that is the grid's own is there too: its final runs, of the same seeds.
    """
    settings = record["settings"]
    order = list(settings["norms"])
    pairs = _swept(record, phase)
    pairs.sort(key=lambda pair: (order.index(pair[0][0]), pair[0][1]))
    found: dict[tuple[str, float], list[dict]] = {}
    for where, run in pairs:
        found.setdefault(where, []).append(run)
    return found


def _swept(record: Mapping, phase: str) -> list[tuple[tuple[str, float], dict]]:
    runs = record["runs"]
    if phase == "lr":
        return [((run["norm"], run["lr"]), run) for run in runs if run["phase"] == "tuning"]
    pairs = [((run["norm"], run["value"]), run) for run in runs if run["phase"] == phase]
    settings = record["settings"]
    own = {**settings["model"], **settings["train"]}.get(phase)
    if own is None:
        return pairs
    wanted = settings["sweeps"][phase]
    for run in runs:
        is_final = run["phase"] == "final" and run["norm"] in wanted["norms"]
        if is_final and run["seed"] in wanted["seeds"]:
            pairs.append(((run["norm"], own), run))
    return pairs


def load_record(path: str | Path, *, complete: bool = True) -> dict:
    """A record of tools/experiments.py as it stands in the file.

    Raises: RecordError for a file that is not there, is damaged, comes from another program or
        other contenders, or (when complete) lacks runs.
    """
    path = Path(path)
    record = jsonfile.read(path, make="make experiments")
    try:
        _check(record)
    except RecordError as error:
        raise jsonfile.damaged(path, str(error)) from None
    cells = {key(cell) for cell in plan(record["settings"], record["runs"])}
    found = {key(run) for run in record["runs"]}
    if strange := found - cells:
        example = min(strange, key=repr)
        raise jsonfile.damaged(path, f"{len(strange)} runs are not of its plan, such as {example}")
    if complete and found != cells:
        missing = len(cells - found)
        raise RecordError(
            f"{path.name} lacks at least {missing} runs. `make experiments` goes on with it."
        )
    return record


def _check(record: object) -> None:
    """RecordError for the first thing that cannot be."""
    record = jsonfile.expect(record, HEAD, "it")
    jsonfile.expect(record["cpu"], CPU, "its cpu")
    settings = record["settings"]
    jsonfile.expect(settings, SETTINGS, "its settings")
    jsonfile.expect(settings["data"], DATA, "its data")
    for norm, start in settings["norms"].items():
        if norm not in CONTENDERS or CONTENDERS[norm].start != start:
            raise RecordError(f"it is foreign, its {norm} ({start}) is not ours")
    for run in record["runs"]:
        _check_run(settings["data"], run)
    keys = [key(run) for run in record["runs"]]
    if len(set(keys)) < len(keys):
        raise RecordError("a run is there twice")


def _check_run(data: Mapping, run: object) -> None:
    phase = run.get("phase") if isinstance(run, Mapping) else None
    run = jsonfile.expect(run, fields(phase), "a run")
    where = f"in the run {key(run)}"
    for name, most in (("train_right", data["train"]), ("test_right", data["test"])):
        if not 0 <= run[name] <= most:
            raise RecordError(f"{name} {run[name]} of {most} {where}")
    most = data["validation"]
    right = run["validation"]
    if not all(type(count) is int and 0 <= count <= most for count in right):
        raise RecordError(f"validation {right!r} of {most} {where}")
