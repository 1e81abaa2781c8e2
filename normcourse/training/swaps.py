"""What stands in the place of a trained net's RMSNorms: the curves that lesson 05 swaps in."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from normlib import layers, surgery

Swap = Callable[[layers.RMSNorm, float], nn.Module]  # of a norm and the size of its rows
PICTURES = 100  # training pictures that the size of a norm's rows is measured on


def swapped(
    net: nn.Module, pictures: Tensor, name: str | Swap, only: int | None = None
) -> nn.Module:
    """A copy of the net with other layers in the place of its RMSNorms; nothing is trained.

    Args:
        pictures: a batch of the net's inputs; the size of the rows is measured on them.
        name: one of SWAP_NAMES: the same layer of SWAPS everywhere, or a pair of PLACED. Or what
            makes the layer, from a norm and the size of its rows.
        only: which norm alone is exchanged, 0 for the one that reads first; None exchanges all.
    """
    copied = copy.deepcopy(net)
    rows = rows_read(copied, pictures)
    first, others = (name, name) if callable(name) else _named(name)
    place = {norm: number for number, norm in enumerate(rows)}

    def new(norm: layers.RMSNorm) -> nn.Module:
        if only is not None and place[norm] != only:
            return norm
        size = rows[norm].square().mean().sqrt().item()
        return others(norm, size) if place[norm] else first(norm, size)

    return surgery.replace(copied, layers.RMSNorm, new)[0]


def _named(name: str) -> tuple[Swap, Swap]:
    """What takes the place of the norm that reads first, and of the others."""
    first, others = PLACED.get(name, (name, name))
    return SWAPS[first], SWAPS[others]


@torch.no_grad()
def rows_read(net: nn.Module, inputs: Tensor) -> dict[nn.Module, Tensor]:
    """What each RMSNorm of the net reads when the net gets these inputs, in order of reading."""
    rows = {}

    def note(norm: nn.Module, given: tuple) -> None:
        rows[norm] = given[0]

    norms = [module for module in net.modules() if isinstance(module, layers.RMSNorm)]
    handles = [norm.register_forward_pre_hook(note) for norm in norms]
    net(inputs)
    for handle in handles:
        handle.remove()
    return rows


def gain_of(norm: layers.RMSNorm) -> Tensor:
    if norm.weight is None:
        raise ValueError("A swap keeps the norm's gain; this RMSNorm has elementwise_affine=False.")
    return norm.weight.detach()


def tanh(norm: layers.RMSNorm, alpha: float, gain: Tensor) -> nn.Module:
    dyt = layers.DyT(norm.normalized_shape, alpha_init=alpha, bias=False)
    dyt.weight = nn.Parameter(gain.clone())
    return dyt


def of_scale(scale: float | str, times: float = 1.0) -> Swap:
    """The DyT with `times` the slope of the norm, gain / size, that ends at gain * scale."""

    def new(norm: layers.RMSNorm, size: float) -> nn.Module:
        slope = times / size
        dyt = layers.DyT(norm.normalized_shape, alpha_init=slope, scale=scale, bias=False)
        dyt.weight = nn.Parameter(gain_of(norm).clone())
        return dyt

    return new


def line(norm: layers.RMSNorm, size: float, times: float = 1.0) -> nn.Module:
    """x * gain * times / size, as a Linear layer with that diagonal."""
    slopes = times * gain_of(norm) / size
    linear = nn.Linear(len(slopes), len(slopes), bias=False)
    linear.weight = nn.Parameter(slopes.diag())
    return linear


SWAPS: dict[str, Swap] = {
    "no norm": lambda norm, size: nn.Identity(),
    "as it starts": lambda norm, size: tanh(norm, 0.5, gain_of(norm)),
    "the norm's slope": lambda norm, size: tanh(norm, 0.5, gain_of(norm) / (0.5 * size)),
    "scale 1": of_scale(1.0),
    "scale 2": of_scale(2.0),
    "derived": of_scale("sqrt_d"),
    "line": line,
    "RMSNorm": lambda norm, size: copy.deepcopy(norm),
    "one pair": lambda norm, size: tanh(norm, 1.6, 1.2 * gain_of(norm)),
    "derived, 4 times": of_scale("sqrt_d", 4.0),
    "line, 4 times": lambda norm, size: line(norm, size, 4.0),
}
# what stands in the place of the norm that reads first, and in the place of the others
PLACED: dict[str, tuple[str, str]] = {
    "start in the first": ("as it starts", "RMSNorm"),
    "start in the others": ("RMSNorm", "as it starts"),
}
SWAP_NAMES = [*SWAPS, *PLACED]  # a record counts them
