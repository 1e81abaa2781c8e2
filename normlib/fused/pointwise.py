"""DyT and DyISRU."""

import torch
from torch import Tensor

from normlib.functional.pointwise import checked_dyisru, checked_dyt
from normlib.functional.validation import (
    MismatchError,
    check_all_positive,
    check_broadcast,
    check_floating,
    check_positive,
    overridable,
    sqrt_of_size,
)
from normlib.fused import operators


@overridable
def dyt(
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """functional.dyt with the least memory and traffic: backward takes tanh again.

    [EQ-DYT] [EQ-DYT-GRAD]

        y = w scale tanh(alpha x / scale) + b;   saved for backward: input, alpha and weight

    >>> x = torch.tensor([-8.0, 0.0, 1.0, 8.0])
    >>> fused.dyt(x, torch.tensor(0.5))
    tensor([-0.9993,  0.0000,  0.4621,  0.9993])

    Args:
        input: any shape.
        alpha: one number, shape () or (1,).
        weight, bias: (D,), or the shape of input's last dimensions; or (C, 1, 1) for the channels
            of images (N, C, H, W), and likewise for other (N, C, ...).
        scale: a positive number.
    Returns: input's shape and dtype.
    Raises: as functional.dyt; MismatchError (more than one alpha), RuntimeError
        (several devices), ImportError (CUDA without triton).

    On the CPU the bits of a row depend on how many rows stand beside it: up to operators.SMALL
    elements functional does the work, with another tanh.

    Source: Zhu et al. 2025 (arXiv 2503.10622), section 4, equation (1).
    """
    check_floating("dyt", input)
    check_positive("dyt", scale=scale)
    check_broadcast("dyt", input, alpha=alpha, weight=weight, bias=bias)
    _check_single("dyt", "alpha", alpha)
    operators.check_devices("dyt", input, alpha=alpha, weight=weight, bias=bias)
    if operators.is_for_functional(input, alpha, weight, bias):
        return checked_dyt(input, alpha, weight, bias, scale)
    return operators.dyt(input, alpha, weight, bias, scale)


@overridable
def dyisru(
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """functional.dyisru with the least memory and traffic.

    [EQ-DYISRU] [EQ-DYISRU-GRAD]

        y = w scale x / sqrt(x^2 + c) + b;   saved for backward: input, c and weight

    >>> x = torch.tensor([-8.0, 0.0, 1.0, 8.0])
    >>> fused.dyisru(x, torch.tensor(4.0), scale=1.0)
    tensor([-0.9701,  0.0000,  0.4472,  0.9701])

    Args:
        input: any shape; at plus and minus infinity the limit is given, where functional has NaN.
        c: one positive number, shape () or (1,). Not checked: a layer keeps it positive by
            construction.
        weight, bias: as in dyt.
        scale: None means sqrt(D), D the size of weight, or without one of input's last dimension (1
            if it has none, or has no features).
    Returns: input's shape and dtype.
    Raises: as functional.dyisru; MismatchError (more than one c), RuntimeError
        (several devices), ImportError (CUDA without triton).

    On the CPU the bits of a row depend on how many rows stand beside it, as in dyt.

    Source: Stollenwerk 2025 (arXiv 2503.21708); its code has scale 1.
    """
    check_floating("dyisru", input)
    if scale is None:
        check_broadcast("dyisru", input, weight=weight)
        features = input.shape[-1:] if weight is None else weight.shape
        scale = sqrt_of_size(features)
    check_positive("dyisru", scale=scale)
    check_broadcast("dyisru", input, c=c, weight=weight, bias=bias)
    _check_single("dyisru", "c", c)
    operators.check_devices("dyisru", input, c=c, weight=weight, bias=bias)
    if operators.is_for_functional(input, c, weight, bias):
        check_all_positive("dyisru", c=c)
        limits = torch.finfo(input.dtype)
        finite = input.clamp(limits.min, limits.max)  # the operator's limits at infinity
        return checked_dyisru(finite, c, weight, bias, scale)
    return operators.dyisru(input, c, weight, bias, scale)


def _check_single(caller: str, name: str, value: Tensor) -> None:
    if value.numel() != 1:
        raise MismatchError(
            f"fused.{caller} needs one number as {name}, got {tuple(value.shape)}. "
            f"Use functional.{caller}, "
            "which takes one per feature."
        )
