"""Another layer in the place of a trained net's RMSNorms, as in lessons 05 and 06."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from normlib import layers, surgery

Swap = Callable[[layers.RMSNorm, Tensor], nn.Module]  # of a norm and the rows that it reads


def swapped(net: nn.Module, pictures: Tensor, new: Swap, only: int | None = None) -> nn.Module:
    """A copy of the net with other layers in the place of its RMSNorms; nothing is trained.

    Args:
        pictures: a batch of the net's inputs; a norm's rows are those that it reads of them.
        new: makes the layer, from a norm and its rows.
        only: which norm alone is exchanged, 0 for the one that reads first; None exchanges all.
    """
    copied = copy.deepcopy(net)
    rows = rows_read(copied, pictures)
    place = {norm: number for number, norm in enumerate(rows)}

    def in_its_place(norm: layers.RMSNorm) -> nn.Module:
        return new(norm, rows[norm]) if only in (None, place[norm]) else norm

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
