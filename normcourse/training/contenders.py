"""Who competes in the capstone: each norm by name, how it starts, and where it stands in each model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn
from torch.nn.utils import parametrizations

from normcourse.training.models import Norm, cnn, mlp, residual_mlp, transformer
from normlib import layers

MODELS = {build.__name__: build for build in (mlp, residual_mlp, cnn, transformer)}
GROUPS, CAP = 4, 3.0  # the softcap leaves three standard deviations of a normalized activation their room


@dataclass(frozen=True)
class Contender:
    """A norm for rows (..., D), maybe another for rows that need (N, D) and for images (N, C, H, W)."""

    start: str  # for the record
    rows: Norm = None
    flat: bool = False  # rows needs (N, D): tokens are flattened into the batch
    images: Norm = None  # None: rows, on the channels of each pixel
    weights: bool = False  # torch's weight norm on every Linear and convolution
    qk: Norm = None  # on the queries and keys of each head: transformers only
    from_slope: Callable[[float], Norm] | None = None  # the same curve with another slope at 0


def _dyt(slope: float, scale: float | str) -> Norm:
    return lambda width: layers.DyT(width, slope, scale)


def _dyisru(slope: float, scale: float | str) -> Norm:
    def layer(width: int) -> nn.Module:
        level = math.sqrt(width) if scale == "sqrt_d" else scale
        return layers.DyISRU(width, (level / slope) ** 2, scale)

    return layer


def _curve(make: Callable, slope: float, scale: float | str, start: str) -> Contender:
    return Contender(start, make(slope, scale), from_slope=partial(make, scale=scale))


def _softcap(width: int) -> nn.Module:
    """functional.softcap as a layer: DyT with alpha 1 and scale CAP that learns nothing."""
    return layers.DyT(width, 1.0, CAP, bias=False).requires_grad_(False)


_rms_norm = partial(layers.RMSNorm, eps=1e-5)
CONTENDERS = {
    "none": Contender("no norm"),
    "batch_norm": Contender("eps 1e-5", layers.BatchNorm1d, flat=True, images=layers.BatchNorm2d),
    "layer_norm": Contender("eps 1e-5", partial(layers.LayerNorm, eps=1e-5)),
    "rms_norm": Contender("eps 1e-5", _rms_norm),
    "group_norm": Contender(
        f"{GROUPS} groups, eps 1e-5",
        partial(layers.GroupNorm, GROUPS),
        flat=True,
        images=partial(layers.GroupNorm, GROUPS),
    ),
    "weight_norm": Contender("g = ||v||: the same function as none", weights=True),
    "dyt": _curve(_dyt, 0.5, 1.0, "alpha 0.5, scale 1: slope 0.5, level 1"),
    "dyisru": _curve(_dyisru, 0.5, 1.0, "c 4, scale 1: slope 0.5, level 1"),
    "dyt_sqrt_d": _curve(_dyt, 1.0, "sqrt_d", "alpha 1, scale sqrt(D): slope 1, level sqrt(D)"),
    "dyisru_sqrt_d": _curve(_dyisru, 1.0, "sqrt_d", "c D, scale sqrt(D): slope 1, level sqrt(D)"),
    "softcap": Contender(f"cap {CAP:g}: slope 1, level {CAP:g}, learns nothing", _softcap),
    "qk_norm": Contender("RMSNorm on queries and keys, no other norm, eps 1e-5", qk=_rms_norm),
    "rms_norm_qk": Contender("rms_norm with qk_norm, eps 1e-5", _rms_norm, qk=_rms_norm),
}


class _OnRows(nn.Module):
    """A layer for (N, D) on tokens (N, T, D), or on the channels of each pixel of images (N, C, H, W)."""

    def __init__(self, layer: nn.Module, images: bool) -> None:
        super().__init__()
        self.layer, self.images = layer, images

    def forward(self, x: Tensor) -> Tensor:
        last = x.movedim(1, -1) if self.images else x
        y = self.layer(last.flatten(0, -2)).unflatten(0, last.shape[:-1])
        return y.movedim(-1, 1) if self.images else y


def _placed(contender: Contender, build: str, slope: float | None) -> Norm:
    """The contender's layer as it fits the shapes inside a model."""
    rows = contender.rows if slope is None else contender.from_slope(slope)
    if build == "cnn":
        if rows is None or contender.images is not None:
            return contender.images
        return lambda channels: _OnRows(rows(channels), images=True)
    if build == "transformer" and contender.flat:
        return lambda width: _OnRows(rows(width), images=False)
    return rows


def build(model: Mapping, name: str, *, seed: int, slope: float | None = None) -> nn.Module:
    """The model of a grid with one contender in it.

    Args:
        model: {"build": a name of MODELS, ...its arguments}, as in a record's settings.
        name: of CONTENDERS.
        slope: another slope at 0 to start DyT and DyISRU with.
    Raises: ValueError (a contender that the model has no place for, or that has no slope to choose).
    """
    contender, arguments = CONTENDERS[name], dict(model)
    kind = arguments.pop("build")
    if slope is not None and contender.from_slope is None:
        raise ValueError(f"{name} has no slope to start with; only DyT and DyISRU have.")
    if contender.qk is not None:
        if kind != "transformer":
            raise ValueError(f"{name} needs queries and keys: a transformer, not {kind}.")
        arguments["qk_norm"] = contender.qk
    made = MODELS[kind](_placed(contender, kind, slope), seed=seed, **arguments)
    if contender.weights:
        for layer in list(made.modules()):
            if isinstance(layer, nn.Linear | nn.Conv2d):
                parametrizations.weight_norm(layer)
    return made
