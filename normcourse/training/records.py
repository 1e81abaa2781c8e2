"""Records of grids: which runs there are, which rate was chosen, and whether a file can be trusted."""

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from normcourse.training.contenders import CONTENDERS

KEY = ("norm", "phase", "value", "lr", "seed")
WINDOW = 10  # steps in one mean of the stored losses and gradient norms
HEAD = {"experiment": str, "command": str, "date": str, "versions": dict, "settings": dict, "runs": list}
SETTINGS = {"norms": dict, "model": dict, "train": dict, "rates": list, "tuning_seeds": list, "seeds": list}
SIMPLE = ("norm", "phase", "lr", "seed", "steps", "validation", "loss", "test_right", "diverged")
BRIEF = (
    *(*KEY, "diverged", "loss", "reached", "validation", "train_right", "test_right"),
    *("gradient_first", "gradient_mean", "gradient_largest"),
)
CURVES = ("losses", "gradients", "activations_by_depth", "gradients_by_depth")


class RecordError(Exception):
    """A record that cannot be used; the text says why and what to do."""


def fields(settings: Mapping, phase: str) -> tuple[str, ...]:
    """The fields of a run, in order.

    Every run: norm, phase ("tuning", "final" or a sweep's name), value (what the sweep changes), lr, seed;
    diverged and loss as in training.Record (the last loss; None if diverged); reached, the first step looked
    at with 90 % of the validation right; validation, how many are right at the end; train_right, test_right;
    gradient_first, _mean, _largest over the steps, norms over all parameters.
    Final runs: validation at every look; losses and gradients as means over WINDOW steps; by depth, before
    and after training, the RMS of the activations and the norm of the loss's gradient with respect to them.
    Numbers have four digits; None stands for what is not finite.
    """
    if "data" not in settings:
        return SIMPLE
    return BRIEF + CURVES if phase == "final" else BRIEF


def key(run: Mapping) -> tuple:
    return tuple(run.get(name) for name in KEY)


def tuned(settings: Mapping, runs: list[dict], norm: str) -> float:
    """The rate with the best mean validation accuracy at the end of its tuning runs; the lower of equals."""

    def score(rate: float) -> float:
        return statistics.mean(
            run["validation"][-1] if run["validation"] and not run["diverged"] else 0
            for run in runs
            if (run["norm"], run["phase"], run["lr"]) == (norm, "tuning", rate)
        )

    return max(sorted(settings["rates"]), key=score)


def plan(settings: Mapping, runs: list[dict]) -> Iterator[dict]:
    """The cells of all runs, in order; after a norm's tuning runs only once `runs` holds all of those."""
    done = {key(run) for run in runs}
    for norm in settings["norms"]:
        tuning = [
            _cell(norm, "tuning", None, lr, seed)
            for lr in settings["rates"]
            for seed in settings["tuning_seeds"]
        ]
        yield from tuning
        if all(key(cell) in done for cell in tuning):
            rate = tuned(settings, runs, norm)
            yield from (_cell(norm, "final", None, rate, seed) for seed in settings["seeds"])
            for phase, wanted in settings.get("sweeps", {}).items():
                if norm in wanted["norms"]:
                    pairs = ((value, seed) for value in wanted["values"] for seed in wanted["seeds"])
                    yield from (_cell(norm, phase, value, rate, seed) for value, seed in pairs)


def sweep(record: Mapping, phase: str) -> dict[tuple[str, float], list[dict]]:
    """{(norm, value): runs} of one sweep; phase "lr" gives the tuning runs by rate.

    A depth or batch size that is the grid's own is there too: its final runs, of the same seeds.
    """
    settings = record["settings"]
    if phase == "lr":
        chosen = [((r["norm"], r["lr"]), r) for r in record["runs"] if r["phase"] == "tuning"]
    else:
        wanted, own = settings["sweeps"][phase], {**settings["model"], **settings["train"]}.get(phase)
        chosen = [((r["norm"], r["value"]), r) for r in record["runs"] if r["phase"] == phase]
        if own is not None:
            finals = (r for r in record["runs"] if r["phase"] == "final" and r["norm"] in wanted["norms"])
            chosen += [((r["norm"], own), r) for r in finals if r["seed"] in wanted["seeds"]]
    found: dict[tuple[str, float], list[dict]] = {}
    for where, run in sorted(
        chosen, key=lambda pair: (list(settings["norms"]).index(pair[0][0]), pair[0][1])
    ):
        found.setdefault(where, []).append(run)
    return found


def load_record(path: str | Path, *, complete: bool = True) -> dict:
    """A record of tools/experiments.py as it stands in the file.

    Raises: RecordError for a file that is not there, is damaged, comes from another program or other
    contenders, or (when complete) lacks runs.
    """
    path = Path(path)
    try:
        record = json.loads(path.read_text("utf-8"), parse_constant=_no_number)
    except FileNotFoundError as error:
        raise RecordError(f"{path.name} is not there. Make it with `make experiments`.") from error
    except ValueError as error:
        raise RecordError(f"{path.name} is damaged, no JSON ({error}). {_fix(path)}") from error
    if damage := _damage(record):
        raise RecordError(f"{path.name} is damaged: {damage}. {_fix(path)}")
    cells = {key(cell) for cell in plan(record["settings"], record["runs"])}
    found = {key(run) for run in record["runs"]}
    if strange := found - cells:
        raise RecordError(
            f"{path.name} is damaged: {len(strange)} runs are not of its plan, such as "
            f"{min(strange, key=repr)}. {_fix(path)}"
        )
    if complete and found != cells:
        missing = len(cells - found)
        raise RecordError(f"{path.name} lacks at least {missing} runs. `make experiments` goes on with it.")
    return record


def _cell(norm: str, phase: str, value: float | None, lr: float, seed: int) -> dict:
    return dict(zip(KEY, (norm, phase, value, lr, seed), strict=True))


def _fix(path: Path) -> str:
    return f"Move {path.name} away to start anew."


def _no_number(text: str):
    raise ValueError(f"{text} is no number")


def _damage(record: object) -> str | None:
    """What is wrong with the form of a record."""
    if not isinstance(record, dict):
        return "it holds no object"
    for part, kinds in ((record, HEAD), (record.get("settings"), SETTINGS)):
        for name, kind in kinds.items():
            if not isinstance(part.get(name), kind):
                return f"{name!r} is missing or no {kind.__name__}"
    for norm, start in record["settings"]["norms"].items():
        if norm not in CONTENDERS or CONTENDERS[norm].start != start:
            return f"it is foreign, its {norm} ({start}) is not ours"
    for run in record["runs"]:
        if damage := _run_damage(record["settings"], run):
            return damage
    keys = [key(run) for run in record["runs"]]
    return "a run is there twice" if len(set(keys)) < len(keys) else None


def _run_damage(settings: Mapping, run: object) -> str | None:
    names = fields(settings, run.get("phase", "")) if isinstance(run, dict) else ()
    if not names or set(run) != set(names):
        return f"a run without exactly the fields {', '.join(sorted(names or SIMPLE))}"
    data = settings.get("data", {"test": 400})
    for name, most in (("train_right", data.get("train")), ("test_right", data["test"])):
        if name in run and not _is_count(run[name], most):
            return f"{name} {run[name]!r} of {most} in the run {key(run)}"
    most = data.get("validation", 1)  # the simple grid stores shares
    right = run["validation"]
    if not isinstance(right, list) or not all(_is_number(n) and 0 <= n <= most for n in right):
        return f"validation {right!r} of {most} in the run {key(run)}"
    if type(run["diverged"]) is not bool:
        return f"'diverged' is {run['diverged']!r} in the run {key(run)}"
    if not (run["loss"] is None or _is_number(run["loss"])):
        return f"loss {run['loss']!r} in the run {key(run)}"
    return None


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_count(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most
