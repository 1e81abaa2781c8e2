"""One run of a grid: from settings and a cell's name to everything that the record keeps of it.

The settings go one way: arguments -> model -> training -> what is kept.
"""

import math
from typing import NamedTuple

import torch
from torch import nn

from normcourse.training.contenders import CONTENDERS, build
from normcourse.training.data import SOURCES, Data
from normcourse.training.looks import accuracy, by_depth, gradient_norm
from normcourse.training.loop import Record, train
from normcourse.training.records import NUDGE, WINDOW, Cell, Grid, Run, Sizes, looks_at_test, plan

PROBE = 256  # training samples that activations and gradients by depth are measured on


class Arguments(NamedTuple):
    """What one cell passes on: of `build`, and of `train`."""

    contender: str
    model: dict
    slope: float | None
    train: dict
    dtype: str


def trial(grid: Grid, cell: Cell, data: Data | None = None) -> Run:
    """Do one run of a grid (again).

    Args:
        grid: the settings of a record.
        cell: a stored run will do.
        data: None means the grid's own.
    Raises: ValueError (another default dtype than the grid's, other data).
    """
    arguments = _arguments(grid, cell)
    if f"torch.{arguments.dtype}" != str(torch.get_default_dtype()):
        wanted = f"torch.set_default_dtype(torch.{arguments.dtype})"
        raise ValueError(f"The grid ran in {arguments.dtype}: call {wanted} before.")
    data = SOURCES[grid.data.name]() if data is None else data
    _check_sizes(grid.data, data)
    if arguments.model["build"] in ("cnn", "signal_cnn"):
        data = data.images()
    contender = arguments.contender
    model = build(arguments.model, contender, seed=cell.seed, slope=arguments.slope)
    if cell.phase == NUDGE and cell.value is not None:
        nudge(model, int(cell.value), cell.seed)
    probe = (data.train_x[:PROBE], data.train_y[:PROBE])
    start = by_depth(model, *probe)
    record = train(
        model,
        data,
        lr=cell.lr,
        seed=cell.seed,
        watch=gradient_norm,
        decayed=CONTENDERS[contender].decayed,
        **arguments.train,
    )
    kept = _numbers(record, model, data, looks_at_test(grid, cell))
    if cell.phase not in ("final", NUDGE):
        kept["validation"] = kept["validation"][-1:]
    if cell.phase == "final":
        kept |= _curves(record, start, by_depth(model, *probe))
    return Run(**vars(cell.cell), **kept)


def nudge(model: nn.Module, number: int, seed: int) -> None:
    """Move each parameter by a unit or two in its last place, up, down or not at all; in place.

    Another CPU rounds the first step otherwise, and moves them by about as much. What a run does
    then it could have done on another machine.

    Args:
        number: of the nudge; each number and seed move otherwise.
    """
    generator = torch.Generator().manual_seed(1000 * number + seed)
    with torch.no_grad():
        for parameter in model.parameters():
            steps = torch.randint(-1, 2, parameter.shape, generator=generator)
            parameter.mul_(1 + steps * torch.finfo(parameter.dtype).eps)


def all_runs(grid: Grid, data: Data | None = None) -> list[Run]:
    """Do every run of a grid here and now: tuning runs first, then those with what they chose."""
    runs: list[Run] = []
    while True:
        done = {run.cell for run in runs}
        cells = [cell for cell in plan(grid, runs) if cell not in done]
        if not cells:
            return runs
        runs.extend(trial(grid, cell, data) for cell in cells)


def same_verdict(live: Run, stored: Run, tolerance: int) -> bool:
    """Whether both diverged, or neither, with test_right at most tolerance apart."""
    assert live.test_right is not None and stored.test_right is not None, "runs that read the test"
    close = abs(live.test_right - stored.test_right) <= tolerance
    return live.diverged == stored.diverged and close


def _arguments(grid: Grid, cell: Cell) -> Arguments:
    """The grid's, with what the cell changes."""
    contender, model = grid.net(cell.norm)
    how = dict(grid.train)
    dtype = how.pop("dtype")
    slope = None
    if cell.phase == "depth":
        model["depth"] = cell.value
    elif cell.phase == "batch_size":
        how["batch_size"] = cell.value
    elif cell.phase != NUDGE:  # a sweep over slopes, or one that is tuned; None: its own
        slope = cell.value
    return Arguments(contender, model, slope, how, dtype)


def _check_sizes(wanted: Sizes, data: Data) -> None:
    sizes = Sizes(wanted.name, len(data.train_y), len(data.validation_y), len(data.test_y))
    if sizes != wanted:
        raise ValueError(f"The grid ran on {wanted}, and this data has {sizes}. Pass data=….")


def _numbers(record: Record, model: nn.Module, data: Data, with_test: bool) -> dict:
    """What every run keeps, and validation at every look."""
    total = len(data.validation_y)
    norms = [norm for norm in record.watched if math.isfinite(norm)]
    largest = max(record.watched, key=lambda norm: math.inf if math.isnan(norm) else norm)
    train_share = accuracy(model, data.train_x, data.train_y)
    test_share = accuracy(model, data.test_x, data.test_y) if with_test else None
    return {
        "diverged": record.diverged,
        "loss": None if record.diverged else round(record.losses[-1], 5),
        "validation": [round(share * total) for share in record.validation_accuracy],
        "train_right": round(train_share * len(data.train_y)),
        "test_right": None if test_share is None else round(test_share * len(data.test_y)),
        "gradient_first": _short(record.watched[0]),
        "gradient_mean": _short(sum(norms) / len(norms)) if norms else None,
        "gradient_largest": _short(largest),
    }


def _curves(record: Record, start: tuple, end: tuple) -> dict:
    """What the final runs keep besides."""
    return {
        "losses": _window_means(record.losses),
        "activations_by_depth": [_all_short(start[0]), _all_short(end[0])],
        "gradients_by_depth": [_all_short(start[1]), _all_short(end[1])],
    }


def _window_means(values: list[float]) -> list[float | None]:
    starts = range(0, len(values) - WINDOW + 1, WINDOW)
    return [_short(sum(values[start : start + WINDOW]) / WINDOW) for start in starts]


def _all_short(values: list[float]) -> list[float | None]:
    return [_short(value) for value in values]


def _short(value: float) -> float | None:
    """Four significant digits; None for what is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
