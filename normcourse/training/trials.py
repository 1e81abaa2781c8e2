"""One run of a grid: from a record's settings and a cell's name to everything the record keeps of it."""

import copy
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normcourse.training.contenders import build
from normcourse.training.data import Data, digits
from normcourse.training.loop import Record, accuracy, train
from normcourse.training.models import Block
from normcourse.training.records import KEY, WINDOW, fields

PROBE = 256  # training samples that activations and gradients by depth are measured on
GOAL = 0.9  # validation accuracy of the sources' convergence speed


def trial(settings: Mapping, cell: Mapping, data: Data | None = None) -> dict:
    """Do one run of a grid (again).

    Args:
        settings: of a record.
        cell: norm, phase, value, lr and seed; a stored run will do.
        data: None means the digits, as they are stored in the settings.
    Returns: a run with the fields of the record; records.fields says what each of them is.
    Raises: ValueError (another default dtype than the grid's, other data).
    """
    model_settings, how, slope = _changed(settings, cell)
    dtype = how.pop("dtype")
    if f"torch.{dtype}" != str(torch.get_default_dtype()):
        raise ValueError(f"The grid ran in {dtype}: call torch.set_default_dtype(torch.{dtype}) before.")
    data = _fitting(settings, model_settings, data)
    model = build(model_settings, cell["norm"], seed=cell["seed"], slope=slope)
    start = by_depth(model, data.train_x[:PROBE], data.train_y[:PROBE])
    record = train(model, data, lr=cell["lr"], seed=cell["seed"], watch=_gradient_norm, **how)
    end = by_depth(model, data.train_x[:PROBE], data.train_y[:PROBE])
    found = {key: cell.get(key) for key in KEY} | _measured(record, model, data)
    found |= _curves(record, data, start, end) if cell["phase"] == "final" else {}
    if "data" not in settings:  # the older, simple grid
        found |= {"steps": record.steps, "validation": [round(v, 5) for v in record.validation_accuracy]}
    return {name: found[name] for name in fields(settings, cell["phase"])}


def by_depth(model: nn.Module, x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """RMS of the activations h_l and norm of dL/dh_l, after each residual block, else after each ReLU.

    In training mode, on a copy: the model and its running statistics stay as they are.
    """
    probe, outputs = copy.deepcopy(model).train(), []
    points = [module for module in probe.modules() if isinstance(module, Block)]
    for module in points or [module for module in probe.modules() if isinstance(module, nn.ReLU)]:
        module.register_forward_hook(lambda _, __, output: outputs.append(output))
    gradients = torch.autograd.grad(F.cross_entropy(probe(x), y), outputs)
    return [h.square().mean().sqrt().item() for h in outputs], [g.norm().item() for g in gradients]


def same_verdict(live: Mapping, stored: Mapping, tolerance: int) -> bool:
    """Did both diverge, or neither, with test_right at most tolerance apart?"""
    close = abs(live["test_right"] - stored["test_right"]) <= tolerance
    return live["diverged"] == stored["diverged"] and close


def _changed(settings: Mapping, cell: Mapping) -> tuple[dict, dict, float | None]:
    """Arguments of build and of train, and the slope, with what the cell's sweep changes."""
    model, how, slope = dict(settings["model"]), dict(settings["train"]), None
    if cell["phase"] == "slope":
        slope = cell["value"]
    elif cell["phase"] == "depth":
        model["depth"] = cell["value"]
    elif cell["phase"] == "batch_size":
        how["batch_size"] = cell["value"]
    return model, how, slope


def _fitting(settings: Mapping, model: Mapping, data: Data | None) -> Data:
    data = digits() if data is None else data
    sizes = {name: len(getattr(data, f"{name}_y")) for name in ("train", "validation", "test")}
    wanted = {name: settings.get("data", {}).get(name, size) for name, size in sizes.items()}
    if sizes != wanted:
        raise ValueError(f"The grid ran on {settings['data']}, and this data has {sizes}. Pass data=….")
    return data.images() if model["build"] == "cnn" else data


def _gradient_norm(model: nn.Module) -> float:
    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    return torch.stack(norms).norm().item()


def _measured(record: Record, model: nn.Module, data: Data) -> dict:
    """What every run keeps."""
    reached = [s for s, v in zip(record.steps, record.validation_accuracy, strict=True) if v >= GOAL]
    norms = [norm for norm in record.watched if math.isfinite(norm)]
    return {
        "diverged": record.diverged,
        "loss": None if record.diverged else round(record.losses[-1], 5),
        "reached": reached[0] if reached else None,
        "validation": _counts(record, data)[-1:],
        "train_right": round(accuracy(model, data.train_x, data.train_y) * len(data.train_y)),
        "test_right": round(accuracy(model, data.test_x, data.test_y) * len(data.test_y)),
        "gradient_first": _short(record.watched[0]),
        "gradient_mean": _short(sum(norms) / len(norms)) if norms else None,
        "gradient_largest": _short(max(record.watched, key=lambda norm: math.inf if norm != norm else norm)),
    }


def _curves(record: Record, data: Data, start: tuple, end: tuple) -> dict:
    """What the final runs keep besides."""
    return {
        "validation": _counts(record, data),
        "losses": _window_means(record.losses),
        "gradients": _window_means(record.watched),
        "activations_by_depth": [[_short(rms) for rms in rows] for rows in (start[0], end[0])],
        "gradients_by_depth": [[_short(norm) for norm in rows] for rows in (start[1], end[1])],
    }


def _counts(record: Record, data: Data) -> list[int]:
    return [round(share * len(data.validation_y)) for share in record.validation_accuracy]


def _window_means(values: list[float]) -> list[float | None]:
    starts = range(0, len(values) - WINDOW + 1, WINDOW)
    return [_short(sum(values[start : start + WINDOW]) / WINDOW) for start in starts]


def _short(value: float) -> float | None:
    """Four significant digits; None for what is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None
