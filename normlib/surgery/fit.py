"""Fit DyT, DyISRU and Derf to the layers they replace, by least squares on what those see."""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normlib import layers
from normlib.surgery.running import check_batches, run

# inputs kept per layer: 4 MB with their outputs, some milliseconds for each trial of the fit
SAMPLE = 2**18
BELOW = 9  # log units under the input's RMS where the search for the knee begins
ABOVE = 3  # and over it, where it ends: with a knee e^3 above it, the RMS bends by 0.1%
GOLDEN = (math.sqrt(5) - 1) / 2
Curve = layers.DyT | layers.DyISRU | layers.Derf


class Fit(NamedTuple):
    """A fitted copy of a layer, its relative RMS errors before and after, and what was changed."""

    layer: Curve
    unfitted: float
    fitted: float
    note: str


def fit(
    model: nn.Module, made: dict[nn.Module, nn.Module], batches: Iterable[Any]
) -> dict[nn.Module, Fit]:
    """A fit of made[old] to each old layer of the model; nothing is changed.

    An old layer that no batch reaches, or that reads or writes only zeros, is absent: its new layer
    stays.
    """
    curves = _curves(model, made, batches)
    samples = {old: _Sample(new) for old, new in curves.items()}
    _run(model, samples, batches)
    seen = {old: sample for old, sample in samples.items() if sample.says_something(old)}
    if not seen:
        raise ValueError(
            "replace got no activation to fit to: fit_to was empty, or its batches are all zero."
        )
    return {old: _fit_layer(curves[old], *sample.rows) for old, sample in seen.items()}


def _curves(
    model: nn.Module, made: dict[nn.Module, nn.Module], batches: Iterable[Any]
) -> dict[nn.Module, Curve]:
    """made, when every new layer can be fitted."""
    check_batches("replace", "fit_to", batches)
    owners: Counter[int] = Counter()
    for module in model.modules():
        owners.update(id(parameter) for parameter in module._parameters.values())
    curves = {}
    for old, new in made.items():
        if not isinstance(new, Curve):
            raise ValueError(
                f"replace can fit DyT, DyISRU and Derf, not {new!r}. Leave fit_to out."
            )
        if any(owners[id(parameter)] > 1 for parameter in new.parameters()):
            raise ValueError(
                f"replace cannot fit {new!r}: another layer shares its weight. Leave fit_to out."
            )
        curves[old] = new
    return curves


class _Sample:
    """What a layer reads and writes, as a sample of rows.

    Rows are drawn uniformly from all: those with the largest random keys.
    """

    def __init__(self, new: Curve) -> None:
        self.size = new.weight.shape
        self.channels_first = new.channels_first
        self.limit = max(1, SAMPLE // new.weight.numel())
        self.generator = torch.Generator().manual_seed(0)
        self.keys = torch.empty(0)
        self.rows = torch.empty(2, 0, *self.size, dtype=torch.float64)  # inputs and outputs

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> None:
        input = next(iter((*args, *kwargs.values())))
        pair = torch.stack([input, output])
        if self.channels_first:
            pair = pair.movedim(2, -1)  # (2, N, ..., C)
        pair = pair.reshape(2, -1, *self.size)  # (2, rows, *size)
        keys = torch.rand(pair.shape[1], generator=self.generator)
        keep = self._largest(keys)
        rows = pair[:, keep.to(pair.device)].cpu().double()
        self.keys = torch.cat([self.keys, keys[keep]])
        self.rows = torch.cat([self.rows, rows], dim=1)
        keep = self._largest(self.keys)
        self.keys = self.keys[keep]
        self.rows = self.rows[:, keep]

    def _largest(self, keys: Tensor) -> Tensor:
        return keys.topk(min(self.limit, len(keys))).indices

    def says_something(self, old: nn.Module) -> bool:
        """Whether a batch reached the layer with numbers that are not all zero."""
        if not self.rows.isfinite().all():
            raise ValueError(
                f"replace cannot fit to NaN or infinity, which {old!r} reads or writes on the "
                "batches of fit_to. Look at the batches, or leave fit_to out."
            )
        inputs, outputs = self.rows
        return len(self.keys) > 0 and bool(inputs.any()) and bool(outputs.any())


def _run(model: nn.Module, samples: dict[nn.Module, _Sample], batches: Iterable[Any]) -> None:
    handles = [
        old.register_forward_hook(sample, with_kwargs=True) for old, sample in samples.items()
    ]
    try:
        for _ in run(model, batches):
            pass
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def _fit_layer(layer: Curve, x: Tensor, y: Tensor) -> Fit:
    """Knee, gain and bias with the least squared error against y at x, both (rows, *size).

    For each knee, gain and bias are a linear regression; the best knee is found on a grid, then by
    golden section. All in float64; the error after is that of the values as the layer's dtype
    stores them.
    """
    fitted = copy.deepcopy(layer)
    weight = layer.weight.cpu().double()
    unit = _double(layer)  # the layer with weight 1 and bias 0
    unit.weight.fill_(1)
    if unit.bias is not None:
        unit.bias.zero_()

    def regress(log_knee: float) -> _Regression:
        _bend(unit, log_knee)
        return _regress(unit(x) * weight, y, with_bias=unit.bias is not None)

    log_rms = x.square().mean().log().item() / 2
    best = _minimize(lambda log_knee: regress(log_knee).error, center=log_rms)
    found = regress(best)
    _bend(fitted, best)
    fitted.weight.copy_(found.gain * weight)
    if fitted.bias is not None:
        fitted.bias.copy_(found.bias)
    before = _error(layer, x, y)
    after = _error(fitted, x, y)
    if not after < before:  # a start at the optimum, a half type that cannot hold it, or NaN
        return Fit(layer, before, before, "not fitted: its start is as good")
    name = "c" if isinstance(fitted, layers.DyISRU) else "alpha"
    value = getattr(fitted, name).item()
    note = f"fitted: {name} = {value:.3g}, weight times {found.gain:.3g}"
    return Fit(fitted, before, after, note)


class _Regression(NamedTuple):
    error: float  # squared
    gain: Tensor  # ()
    bias: Tensor  # (*size), or () without a bias


def _regress(values: Tensor, y: Tensor, with_bias: bool) -> _Regression:
    """y = gain values + bias: one gain, a bias for each column."""
    none = torch.zeros((), dtype=y.dtype)
    mean = values.mean(0) if with_bias else none
    mean_y = y.mean(0) if with_bias else none
    centred = values - mean
    target = y - mean_y
    power = centred.square().sum()
    gain = (centred * target).sum() / power if power > 0 else torch.ones_like(none)
    error = (gain * centred - target).square().sum().item()
    return _Regression(error, gain, mean_y - gain * mean)


def _minimize(error: Callable[[float], float], center: float, steps: int = 30) -> float:
    """The lowest point near center: on a grid, then by golden section to 2 * 0.618^30 = 1e-6."""
    grid = [center + step for step in range(-BELOW, ABOVE + 1)]
    best = min(grid, key=error)
    low = best - 1
    high = min(best + 1, center + ABOVE)
    for _ in range(steps):
        left = high - GOLDEN * (high - low)
        right = low + GOLDEN * (high - low)
        if error(left) < error(right):
            high = right
        else:
            low = left
    return (low + high) / 2


def _double(layer: Curve) -> Curve:
    return copy.deepcopy(layer).cpu().double()


def _bend(layer: Curve, log_knee: float) -> None:
    """Set alpha or c so that the tangent at 0 reaches the level at x = knee (Derf: shift 0)."""
    if isinstance(layer, layers.DyISRU):
        layer.log_c.fill_(2 * log_knee)
    elif isinstance(layer, layers.DyT):
        layer.alpha.fill_(layer.scale * math.exp(-log_knee))
    else:
        layer.alpha.fill_(math.sqrt(math.pi) / 2 * math.exp(-log_knee))


def _error(layer: Curve, x: Tensor, y: Tensor) -> float:
    difference = _double(layer)(x) - y
    return (difference.norm() / y.norm()).item()
