"""What the layers share: weight and bias."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import nn


class Affine(nn.Module):
    """Registers weight (ones) and bias (zeros), or None in their place, as torch.nn does."""

    def _add_affine(self, shape: Sequence[int] | int, device, dtype, **wanted: bool) -> None:
        for name, is_wanted in wanted.items():
            value = torch.empty(shape, device=device, dtype=dtype) if is_wanted else None
            self.register_parameter(name, None if value is None else nn.Parameter(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters(recurse=False):
            nn.init.constant_(parameter, 1.0 if name == "weight" else 0.0)


def as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, Integral) else tuple(normalized_shape)


def fused_repr(layer: nn.Module) -> str:
    return ", fused=True" if layer.fused else ""
