"""Checks of the arguments: each error names what came, what was expected and the fix. No formula."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def check_eps(caller: str, eps: float, positive: bool = False) -> None:
    if not (eps > 0 if positive else eps >= 0) or eps == math.inf:  # also true for NaN
        bound = "above 0" if positive else "of at least 0"
        raise ValueError(f"{caller} needs a finite eps {bound}, got eps={eps}. Pass 1e-5, say.")


def check_momentum(caller: str, momentum: float) -> None:
    if momentum is None:
        raise TypeError(
            f"{caller} needs a number as momentum, got None. Only the layers average all batches with None."
        )
    if not 0 <= momentum <= 1:  # also false for NaN
        raise ValueError(
            f"{caller} needs a momentum between 0 and 1, got momentum={momentum}. Pass 0.1, say."
        )


def named(**values: Tensor | None) -> list[tuple[str, Tensor]]:
    return [(name, value) for name, value in values.items() if value is not None]


def check_floating(caller: str, input: Tensor) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{caller} needs a tensor, got {type(input).__name__}. Wrap it in torch.tensor.")
    if not input.is_floating_point():
        raise NotImplementedError(
            f"{caller} needs floating-point input, got {input.dtype}. Call input.float() first."
        )


def channel_count(caller: str, input: Tensor) -> int:
    check_floating(caller, input)
    if input.dim() < 2:
        raise IndexError(
            f"{caller} needs an input (N, C, ...), got {tuple(input.shape)}. Add a batch dimension."
        )
    return input.shape[1]


def trailing_dims(caller: str, input: Tensor, normalized_shape: Sequence[int]) -> list[int]:
    check_floating(caller, input)
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{caller} needs a tuple as normalized_shape, got {normalized_shape}. Pass ({normalized_shape},)."
        )
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"{caller} needs an input whose last dimensions are normalized_shape (one or more), got input "
            f"{tuple(input.shape)} and normalized_shape {shape}. To normalize another axis, move it last."
        )
    return list(range(-len(shape), 0))


def check_shape(caller: str, name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(value.shape) != shape:
        raise RuntimeError(
            f"{caller} needs {name} of shape {shape}, got {tuple(value.shape)}. One entry per feature."
        )


def check_parameter(caller: str, name: str, value: Tensor, shape: tuple[int, ...], input: Tensor) -> None:
    check_shape(caller, name, value, shape)
    if value.dtype not in (input.dtype, torch.promote_types(input.dtype, torch.float32)):
        raise RuntimeError(
            f"{caller} needs {name} in the input's dtype (or float32 under a half input), got {value.dtype} "
            f"for {input.dtype}. Convert the layer with .to({input.dtype})."
        )


def check_running(caller: str, mean: Tensor | None, var: Tensor | None, needed: bool) -> None:
    if needed and (mean is None or var is None):
        raise RuntimeError(
            f"{caller} needs running_mean and running_var to normalize with, got None. Pass both."
        )
    if (mean is None) != (var is None):
        raise ValueError(
            f"{caller} needs running_mean and running_var both or neither, got one. Pass the other too."
        )
