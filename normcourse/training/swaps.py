"""What stands in the place of a trained net's RMSNorms: the curves that lesson 05 swaps in."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from normlib import layers, surgery

Swap = Callable[[layers.RMSNorm, Tensor], nn.Module]  # of a norm and the rows that it reads
PICTURES = 100  # training pictures that the rows of a norm are noted on


def swapped(
    net: nn.Module, pictures: Tensor, new: str | Swap, only: int | None = None
) -> nn.Module:
    """A copy of the net with other layers in the place of its RMSNorms; nothing is trained.

    Args:
        pictures: a batch of the net's inputs; a norm's rows are those that it reads of them.
        new: a name of SWAPS, or what makes the layer, from a norm and its rows.
        only: which norm alone is exchanged, 0 for the one that reads first; None exchanges all.
    """
    copied = copy.deepcopy(net)
    rows = rows_read(copied, pictures)
    first, others = (new, new) if callable(new) else SWAPS[new]
    place = {norm: number for number, norm in enumerate(rows)}

    def in_its_place(norm: layers.RMSNorm) -> nn.Module:
        if only is not None and place[norm] != only:
            return norm
        chosen = others if place[norm] else first
        return chosen(norm, rows[norm])

    return surgery.replace(copied, layers.RMSNorm, in_its_place)[0]


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


def size(rows: Tensor) -> float:
    """The root mean square of all numbers of the rows."""
    return rows.square().mean().sqrt().item()


def gain_of(norm: layers.RMSNorm) -> Tensor:
    if norm.weight is None:
        raise ValueError("A swap keeps the norm's gain; this RMSNorm has elementwise_affine=False.")
    return norm.weight.detach().clone()


def dyt(norm: layers.RMSNorm, alpha: float, scale: float | str = 1.0) -> nn.Module:
    """A DyT with the norm's gain, and without a bias."""
    layer = layers.DyT(norm.normalized_shape, alpha_init=alpha, scale=scale, bias=False)
    layer.weight = nn.Parameter(gain_of(norm))
    return layer


def nothing(norm: layers.RMSNorm, rows: Tensor) -> nn.Module:
    return nn.Identity()


def itself(norm: layers.RMSNorm, rows: Tensor) -> nn.Module:
    return norm


def as_it_starts(norm: layers.RMSNorm, rows: Tensor) -> nn.Module:
    return dyt(norm, 0.5)


def derived(norm: layers.RMSNorm, rows: Tensor) -> nn.Module:
    return dyt(norm, 1 / size(rows), scale="sqrt_d")


def line(norm: layers.RMSNorm, rows: Tensor) -> nn.Module:
    """x * gain / size, as a Linear layer with that diagonal."""
    slopes = gain_of(norm) / size(rows)
    linear = nn.Linear(len(slopes), len(slopes), bias=False)
    linear.weight = nn.Parameter(slopes.diag())
    return linear


# what stands in the place of the norm that reads first, and in the place of the others;
# a record counts the names
SWAPS: dict[str, tuple[Swap, Swap]] = {
    "no norm": (nothing, nothing),
    "as it starts": (as_it_starts, as_it_starts),
    "derived": (derived, derived),
    "line": (line, line),
    "start in the first": (as_it_starts, itself),
    "start in the others": (itself, as_it_starts),
}
