"""What the layers share: weight and bias, and how torch.fx sees them."""

import functools
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn

Device = torch.device | str | int | None
Layer = TypeVar("Layer", bound=nn.Module)


class Affine(nn.Module):
    """Registers weight (ones) and bias (zeros), or None in their place, as torch.nn does."""

    def _add_affine(
        self,
        shape: Sequence[int] | int,
        device: Device,
        dtype: torch.dtype | None,
        **wanted: bool,
    ) -> None:
        for name, is_wanted in wanted.items():
            if is_wanted:
                value = torch.empty(shape, device=device, dtype=dtype)
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters(recurse=False):
            start = 1.0 if name == "weight" else 0.0
            nn.init.constant_(parameter, start)


def one_node(forward: Callable[[Layer, Tensor], Tensor]) -> Callable[[Layer, Tensor], Tensor]:
    """The forward; one node inside a model that torch.fx traces, as torch.nn's own layers are."""

    @functools.wraps(forward)
    def call(layer: Layer, input: Tensor) -> Tensor:
        tracer: Any = input.tracer if isinstance(input, fx.Proxy) else None
        if tracer is None or tracer.root is layer:
            return forward(layer, input)
        return tracer.create_proxy("call_module", tracer.path_of_module(layer), (input,), {})

    return call


def as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int | Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)
