"""Fit DyT and DyISRU to the layers that they replace: least squares on the rows that those see."""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from normlib import layers

SAMPLE = 2**18  # inputs kept per layer: 4 MB with their outputs, some milliseconds for each trial of the fit
BELOW, ABOVE = 9, 3  # log units around the input's RMS; with a knee e^3 above it, the RMS bends by 0.1%
GOLDEN = (math.sqrt(5) - 1) / 2


class Fit(NamedTuple):
    """A fitted copy of a layer, its relative RMS errors before and after, and what was changed."""

    layer: nn.Module
    unfitted: float
    fitted: float
    note: str


def fit(model: nn.Module, made: dict[nn.Module, nn.Module], batches: Iterable) -> dict[nn.Module, Fit]:
    """Fit made[old] to each old layer of the model; old -> what came out.

    An old layer that no batch reaches, or that reads or writes only zeros, is absent: its new layer stays.
    """
    _check(model, made, batches)
    samples = {old: _Sample(new) for old, new in made.items()}
    _run(model, samples, batches)
    samples = {old: sample.rows for old, sample in samples.items() if len(sample.keys)}
    samples = {old: rows for old, rows in samples.items() if rows[0].any() and rows[1].any()}
    if not samples:
        raise ValueError(
            "replace got no activation to fit to: fit_to was empty, or its batches are all zero."
        )
    fits = {old: _fit_layer(made[old], *rows) for old, rows in samples.items()}
    for old, result in fits.items():
        made[old].load_state_dict(result.layer.state_dict())
    return fits


def _check(model: nn.Module, made: dict[nn.Module, nn.Module], batches: Iterable) -> None:
    if isinstance(batches, Tensor | Mapping):
        raise TypeError("replace needs a list of batches as fit_to, got one batch. Put it in a list.")
    owners = Counter(id(p) for m in model.modules() for p in m._parameters.values() if p is not None)
    for new in made.values():
        if not isinstance(new, layers.DyT | layers.DyISRU):
            raise ValueError(f"replace can fit DyT and DyISRU, not {new!r}. Leave fit_to out.")
        if any(owners[id(parameter)] > 1 for parameter in new.parameters()):
            raise ValueError(
                f"replace cannot fit {new!r}: another layer shares its weight. Leave fit_to out."
            )


class _Sample:
    """What a layer reads and writes: rows drawn uniformly from all, those with the largest random keys."""

    def __init__(self, new: nn.Module) -> None:
        self.size, self.channels_first = new.weight.shape, new.channels_first
        self.limit = max(1, SAMPLE // new.weight.numel())
        self.generator = torch.Generator().manual_seed(0)
        self.keys = torch.empty(0)
        self.rows = torch.empty(2, 0, *self.size, dtype=torch.float64)  # inputs and outputs

    def __call__(self, module: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
        pair = torch.stack([(*args, *kwargs.values())[0], output])
        if self.channels_first:
            pair = pair.movedim(2, -1)
        pair = pair.reshape(2, -1, *self.size)
        keys = torch.rand(pair.shape[1], generator=self.generator)
        keep = keys.topk(min(self.limit, len(keys))).indices
        self.keys = torch.cat([self.keys, keys[keep]])
        self.rows = torch.cat([self.rows, pair[:, keep.to(pair.device)].cpu().double()], dim=1)
        keep = self.keys.topk(min(self.limit, len(self.keys))).indices
        self.keys, self.rows = self.keys[keep], self.rows[:, keep]


@torch.no_grad()
def _run(model: nn.Module, samples: dict[nn.Module, _Sample], batches: Iterable) -> None:
    """Run the model on the batches in eval mode, and leave it as it was."""
    modes = {module: module.training for module in model.modules()}
    is_fused = torch.backends.mha.get_fastpath_enabled()
    handles = [old.register_forward_hook(sample, with_kwargs=True) for old, sample in samples.items()]
    try:
        torch.backends.mha.set_fastpath_enabled(False)  # it may pass nested tensors, which have no rows
        model.eval()
        for batch in batches:
            if isinstance(batch, Mapping):
                model(**batch)
            else:
                model(*(batch if isinstance(batch, tuple | list) else (batch,)))
    finally:
        torch.backends.mha.set_fastpath_enabled(is_fused)
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode


@torch.no_grad()
def _fit_layer(layer: nn.Module, x: Tensor, y: Tensor) -> Fit:
    """Knee, gain and bias with the least squared error against y at x, both (rows, *size).

    For each knee, gain and bias are a linear regression; the best knee is found on a grid, then by golden
    section. All in float64; the error after is that of the values as the layer's dtype stores them.
    """
    fitted, unit, weight = copy.deepcopy(layer), _double(layer), layer.weight.cpu().double()
    unit.weight.fill_(1)
    if unit.bias is not None:
        unit.bias.zero_()

    def regress(log_knee: float) -> tuple[float, Tensor, Tensor]:
        _bend(unit, log_knee)
        return _regress(unit(x) * weight, y, with_bias=unit.bias is not None)

    best = _minimize(lambda log_knee: regress(log_knee)[0], center=x.square().mean().log().item() / 2)
    _, gain, bias = regress(best)
    _bend(fitted, best)
    fitted.weight.copy_(gain * weight)
    if fitted.bias is not None:
        fitted.bias.copy_(bias)
    before, after = _error(layer, x, y), _error(fitted, x, y)
    if not after < before:  # a start at the optimum, a half type that cannot hold it, or NaN
        return Fit(layer, before, before, "not fitted: its start is as good")
    name = "alpha" if isinstance(layer, layers.DyT) else "c"
    value = getattr(fitted, name).item()
    return Fit(fitted, before, after, f"fitted: {name} = {value:.3g}, weight times {gain:.3g}")


def _regress(values: Tensor, y: Tensor, with_bias: bool) -> tuple[float, Tensor, Tensor]:
    """Squared error, gain and bias of y = gain values + bias: one gain, a bias for each column."""
    mean, mean_y = (values.mean(0), y.mean(0)) if with_bias else (torch.zeros(()), torch.zeros(()))
    values, target = values - mean, y - mean_y
    power = values.square().sum()
    gain = (values * target).sum() / power if power > 0 else torch.ones(())
    return (gain * values - target).square().sum().item(), gain, mean_y - gain * mean


def _minimize(error: Callable[[float], float], center: float, steps: int = 30) -> float:
    """The lowest point near center: on a grid, then by golden section to 2 * 0.618^30 = 1e-6."""
    best = min((center + step for step in range(-BELOW, ABOVE + 1)), key=error)
    low, high = best - 1, min(best + 1, center + ABOVE)
    for _ in range(steps):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if error(left) < error(right) else (left, high)
    return (low + high) / 2


def _double(layer: nn.Module) -> nn.Module:
    return copy.deepcopy(layer).cpu().double()


def _bend(layer: nn.Module, log_knee: float) -> None:
    """Set alpha or c so that the tangent at 0 reaches the level of saturation at x = knee."""
    if isinstance(layer, layers.DyT):
        layer.alpha.fill_(layer.scale * math.exp(-log_knee))
    else:
        layer.log_c.fill_(2 * log_knee)


def _error(layer: nn.Module, x: Tensor, y: Tensor) -> float:
    return ((_double(layer)(x) - y).norm() / y.norm()).item()
