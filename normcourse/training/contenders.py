"""Who competes in the capstone: each norm by name, how it starts, where it stands in each model."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from normcourse.training.models import Norm, cnn, mlp, residual_mlp, signal_cnn, transformer
from normlib import layers

BUILT = (mlp, residual_mlp, cnn, transformer, signal_cnn)
MODELS = {build.__name__: build for build in BUILT}
GROUPS = 4
GHOST = 50  # samples that share their statistics in GhostBatchNorm
CAP = 3.0  # leaves three standard deviations of a normalized activation their room


@dataclass(frozen=True)
class Contender:
    """A norm for rows (..., D), maybe another for images (N, C, H, W)."""

    start: str  # for the record
    rows: Norm | None = None
    flat: bool = False  # rows needs (N, D): tokens are flattened into the batch
    # for images; rows then takes signals (N, C, L). None: rows, on the channels of each pixel
    images: Norm | None = None
    weights: bool = False  # torch's weight norm on every Linear and convolution
    qk: Norm | None = None  # on the queries and keys of each head: transformers only
    skip_init: bool = False  # no norm, each branch times a number that starts at 0: blocks only
    fixup: bool = False  # no norm, Fixup's branches and start: residual_mlp only
    from_slope: Callable[[float], Norm] | None = None  # the same curve with another slope at 0
    last: Callable[[Tensor], Tensor] | None = None  # of the net's last Curve; None: as the others
    decayed: str = "matrices"  # what weight decay pulls, where a grid trains with it


def _dyt(slope: float, scale: float | str) -> Norm:
    return lambda width: layers.DyT(width, slope, scale)


def _dyisru(slope: float, scale: float | str) -> Norm:
    def layer(width: int) -> nn.Module:
        level = math.sqrt(width) if isinstance(scale, str) else scale
        return layers.DyISRU(width, (level / slope) ** 2, scale)

    return layer


def _derf(slope: float) -> Norm:
    alpha = slope * math.sqrt(math.pi) / 2  # erf has slope 2 / sqrt(pi) at 0
    return lambda width: layers.Derf(width, alpha)


class Curve(nn.Module):
    """weight function(alpha x) + bias: DyT with another function in the place of tanh."""

    def __init__(self, function: Callable[[Tensor], Tensor], width: int, alpha: float) -> None:
        super().__init__()
        self.function = function
        self.alpha = nn.Parameter(torch.tensor([alpha]))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.function(self.alpha * x) + self.bias


def _curve(
    function: Callable[[Tensor], Tensor],
    start: str = "alpha 0.5",
    last: Callable[[Tensor], Tensor] | None = None,
    learns_alpha: bool = True,
) -> Contender:
    """The curve as DyT starts: slope 0.5 at 0."""

    def from_slope(slope: float) -> Norm:
        def layer(width: int) -> nn.Module:
            curve = Curve(function, width, slope)
            curve.alpha.requires_grad_(learns_alpha)
            return curve

        return layer

    return Contender(start, from_slope(0.5), from_slope=from_slope, last=last)


class OffsetRMSNorm(nn.Module):
    """RMSNorm that stores its gain as an offset from 1: weight (width,), zeros.

    [EQ-RMS]
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = layers.RMSNorm(width, eps=eps, elementwise_affine=False)
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) * (1 + self.weight)


class MildBatchNorm(layers.BatchNorm1d):
    """BatchNorm's outputs; at its inputs arrives the gradient that eps 10 would let through."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.mild = layers.BatchNorm1d(width, eps=10.0, affine=False, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        usual = super().forward(x.detach())
        mild = self.get_parameter("weight").detach() * self.mild(x)
        return usual + mild - mild.detach()


class GhostBatchNorm(nn.BatchNorm1d):
    """BatchNorm that measures GHOST samples at a time in training, however large the batch is.

    Source: Hoffer, Hubara & Soudry 2017, section 4 ("Ghost Batch Normalization").
    """

    def forward(self, x: Tensor) -> Tensor:
        groups = x.split(GHOST) if self.training else (x,)
        normalize = super().forward
        return torch.cat([normalize(group) for group in groups])


def _softcap(width: int) -> nn.Module:
    """functional.softcap as a layer: DyT with alpha 1 and scale CAP that learns nothing."""
    return layers.DyT(width, 1.0, CAP, bias=False).requires_grad_(False)


_batch_norm = Contender("eps 1e-5", layers.BatchNorm1d, flat=True, images=layers.BatchNorm2d)
_layer_norm = Contender("eps 1e-5", partial(layers.LayerNorm, eps=1e-5))
_rms_rows = partial(layers.RMSNorm, eps=1e-5)
_group_rows = partial(layers.GroupNorm, GROUPS)
_group_norm = Contender(f"{GROUPS} groups, eps 1e-5", _group_rows, flat=True, images=_group_rows)
_one_group = partial(nn.GroupNorm, 1)
_decays = partial(Contender, rows=_rms_rows)
_dyt_1 = partial(_dyt, scale=1.0)
_dyisru_1 = partial(_dyisru, scale=1.0)
_dyt_sqrt_d = partial(_dyt, scale="sqrt_d")
_dyisru_sqrt_d = partial(_dyisru, scale="sqrt_d")
TUNED = "scale 1: the slope is tuned with the rate"
CONTENDERS = {
    "none": Contender("no norm"),
    "batch_norm": _batch_norm,
    # lesson 01a: the outputs of batch_norm, and another gradient
    "batch_norm_mild": Contender("eps 1e-5, in the gradient 10", MildBatchNorm, flat=True),
    # lesson 01: the batch's gradient, and statistics of a part of it
    "batch_norm_ghost": Contender(f"eps 1e-5, {GHOST} at a time", GhostBatchNorm, flat=True),
    "layer_norm": _layer_norm,
    "rms_norm": Contender("eps 1e-5", _rms_rows),
    # lesson 03b: which gains decay pulls, beside the weights
    "decay_nothing": _decays("eps 1e-5, nothing decays", decayed="nothing"),
    "decay_matrices": _decays("eps 1e-5, no gain decays", decayed="matrices"),
    "decay_input": _decays("eps 1e-5, gains before a branch decay", decayed="input"),
    "decay_output": _decays("eps 1e-5, gains behind a branch decay", decayed="output"),
    "decay_last": _decays("eps 1e-5, the last norm's gains decay", decayed="last"),
    "decay_matrices_without_head": _decays(
        "eps 1e-5, no gain decays, nor does the head", decayed="matrices_without_head"
    ),
    "decay_last_without_head": _decays(
        "eps 1e-5, the last norm's gains decay, the head does not", decayed="last_without_head"
    ),
    "decay_gains": _decays("eps 1e-5, all gains decay", decayed="gains"),
    "decay_offset": Contender(
        "eps 1e-5, gains stored as offsets from 1, and all decay", OffsetRMSNorm, decayed="gains"
    ),
    "group_norm": _group_norm,
    # torch's own layers, which take half as long: for thousands of steps
    "torch_batch_norm": Contender(
        "torch's, eps 1e-5", nn.BatchNorm1d, flat=True, images=nn.BatchNorm2d
    ),
    "torch_group_norm_1": Contender(
        "torch's, 1 group, eps 1e-5", _one_group, flat=True, images=_one_group
    ),
    "weight_norm": Contender("g = ||v||: the same function as none", weights=True),
    "skip_init": Contender("no norm, each branch times a number from 0", skip_init=True),
    "fixup": Contender("no norm, Fixup's branches", fixup=True),
    "dyt": Contender("alpha 0.5, scale 1: slope 0.5", _dyt_1(0.5), from_slope=_dyt_1),
    "dyisru": Contender("c 4, scale 1: slope 0.5", _dyisru_1(0.5), from_slope=_dyisru_1),
    "dyt_sqrt_d": Contender(
        "alpha 1, scale sqrt(D): slope 1", _dyt_sqrt_d(1.0), from_slope=_dyt_sqrt_d
    ),
    "dyisru_sqrt_d": Contender(
        "c D, scale sqrt(D): slope 1",
        _dyisru_sqrt_d(1.0),
        from_slope=_dyisru_sqrt_d,
    ),
    "derf": Contender("alpha 0.5, shift 0: slope 0.56", layers.Derf, from_slope=_derf),
    # dyt_sqrt_d differs from dyt in two things: each of them alone
    "dyt_slope_1": Contender("alpha 1, scale 1: slope 1", _dyt_1(1.0), from_slope=_dyt_1),
    "dyt_scale_sqrt_d": Contender(
        "alpha 0.5, scale sqrt(D): slope 0.5", _dyt_sqrt_d(0.5), from_slope=_dyt_sqrt_d
    ),
    "dyt_tuned": Contender(TUNED, _dyt_1(0.5), from_slope=_dyt_1),
    "dyisru_tuned": Contender(TUNED, _dyisru_1(0.5), from_slope=_dyisru_1),
    # lesson 06b, beside DyT: no bound; no bound, and a slope that stays as it starts
    "line": _curve(nn.Identity()),
    "line_held": _curve(nn.Identity(), "alpha 0.5, not learned", learns_alpha=False),
    # the bound before the head alone, and in the blocks alone
    "line_last_tanh": _curve(nn.Identity(), "alpha 0.5, the last one is tanh", nn.Tanh()),
    "tanh_last_line": _curve(nn.Tanh(), "alpha 0.5, the last one is a line", nn.Identity()),
    "softcap": Contender(f"cap {CAP:g}: slope 1, learns nothing", _softcap),
    "qk_norm": Contender("RMSNorm on queries and keys, no other norm, eps 1e-5", qk=_rms_rows),
    "rms_norm_qk": Contender("rms_norm with qk_norm, eps 1e-5", _rms_rows, qk=_rms_rows),
}


class _OnRows(nn.Module):
    """A layer for (N, D), on tokens (N, T, D), or on the channels of each pixel or point."""

    def __init__(self, layer: nn.Module, images: bool) -> None:
        super().__init__()
        self.layer = layer
        self.images = images

    def forward(self, x: Tensor) -> Tensor:
        last = x.movedim(1, -1) if self.images else x  # (N, H, W, C), (N, L, C) or (N, T, D)
        y = self.layer(last.flatten(0, -2))
        y = y.unflatten(0, last.shape[:-1])
        return y.movedim(-1, 1) if self.images else y


def _on_rows(rows: Norm, images: bool) -> Norm:
    return lambda width: _OnRows(rows(width), images)


def _placed(contender: Contender, build: str, rows: Norm | None) -> Norm | None:
    """The contender's layer for rows as it fits the shapes inside a model."""
    if build == "cnn" and (rows is None or contender.images is not None):
        return contender.images
    if build == "signal_cnn" and contender.images is not None:
        return rows
    if rows is not None and build in ("cnn", "signal_cnn"):
        return _on_rows(rows, images=True)
    if rows is not None and build == "transformer" and contender.flat:
        return _on_rows(rows, images=False)
    return rows


def build(model: Mapping, name: str, *, seed: int, slope: float | None = None) -> nn.Module:
    """The model of a grid with one contender in it.

    Args:
        model: {"build": a name of MODELS, ...its arguments}, as in a record's settings.
        name: of CONTENDERS.
        slope: another slope at 0 to start DyT and DyISRU with.
    Raises: ValueError (a contender that the model has no place for, or without a slope to choose).
    """
    contender = CONTENDERS[name]
    arguments = dict(model)
    kind = arguments.pop("build")
    rows = contender.rows
    if slope is not None:
        if contender.from_slope is None:
            raise ValueError(f"{name} has no slope to start with; DyT, DyISRU and Derf have.")
        rows = contender.from_slope(slope)
    if contender.qk is not None:
        if kind != "transformer":
            raise ValueError(f"{name} needs queries and keys: a transformer, not {kind}.")
        arguments["qk_norm"] = contender.qk
    if contender.skip_init:
        if kind == "cnn" or (kind in ("mlp", "signal_cnn") and not arguments.get("residual")):
            raise ValueError(f"{name} needs residual connections, and this {kind} has none.")
        arguments["skip_init"] = True
    if contender.fixup:
        if kind != "residual_mlp":
            raise ValueError(f"{name} needs the branches of a residual_mlp, not of a {kind}.")
        arguments["fixup"] = True
    made = MODELS[kind](_placed(contender, kind, rows), seed=seed, **arguments)
    if contender.weights:
        for layer in list(made.modules()):
            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
                parametrizations.weight_norm(layer)
    if contender.last is not None:
        *_, last_curve = (layer for layer in made.modules() if isinstance(layer, Curve))
        last_curve.function = contender.last
    return made
