"""Element-wise stand-ins for a norm: bounded curves that need no statistics."""

import torch
from torch import Tensor

from normlib.functional.arithmetic import accumulate, affine, savable
from normlib.functional.validation import (
    check_all_positive,
    check_broadcast,
    check_floating,
    check_positive,
    overridable,
    sqrt_of_size,
)


@overridable
def dyt(
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Dynamic tanh.

    [EQ-DYT]

        y = w scale tanh(alpha x / scale) + b

    The slope at 0 is w alpha at every scale; the curve saturates at w scale. tanh is taken in
    float32 for half types: from a tanh rounded to bfloat16, autograd's gradient is 0 from |alpha
    x| = 3.5 on.

    >>> x = torch.tensor([-8.0, 0.0, 1.0, 8.0])
    >>> functional.dyt(x, torch.tensor(0.5))
    tensor([-0.9993,  0.0000,  0.4621,  0.9993])

    Args:
        input: any shape.
        alpha: one number, shape () or (1,).
        weight, bias: (D,), or the shape of input's last dimensions; or (C, 1, 1) for the channels
            of images (N, C, H, W), and likewise for other (N, C, ...).
        scale: 1 in the official code; sqrt(D) in the derivation from RMSNorm.
    Returns: input's shape and dtype.
    Raises: ValueError (scale), RuntimeError (shapes, dtypes).
    Source: Zhu et al. 2025 (arXiv 2503.10622), section 4, equation (1), with scale = 1.
    """
    check_floating("dyt", input)
    check_positive("dyt", scale=scale)
    check_broadcast("dyt", input, alpha=alpha, weight=weight, bias=bias)
    return checked_dyt(input, alpha, weight, bias, scale)


def checked_dyt(
    input: Tensor, alpha: Tensor, weight: Tensor | None, bias: Tensor | None, scale: float
) -> Tensor:
    """The formula of dyt, for arguments that have been checked; fused checks its own."""
    u = accumulate(alpha) * savable(input) / scale
    value = scale * torch.tanh(u)
    return affine(value, weight, bias).to(input.dtype)


@overridable
def dyisru(
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Dynamic inverse square root unit.

    [EQ-DYISRU]

        y = w scale x / sqrt(x^2 + c) + b

    The slope at 0 is w scale / sqrt(c), and the curve saturates at w scale. With c the sum of the
    other coordinates' squares (and scale sqrt(D)) it is RMSNorm.

    >>> x = torch.tensor([-8.0, 0.0, 1.0, 8.0])
    >>> functional.dyisru(x, torch.tensor(4.0), scale=1.0)
    tensor([-0.9701,  0.0000,  0.4472,  0.9701])

    Args:
        input: any shape.
        c: one positive number, shape () or (1,). On a GPU and in compiled code its sign is not
            looked at, and NaN comes out; a layer keeps it positive by construction.
        weight, bias: as in dyt.
        scale: None means sqrt(D), D the size of weight, or without one of input's last dimension (1
            if it has none, or has no features).
    Returns: input's shape and dtype.
    Raises: ValueError (scale, c), RuntimeError (shapes, dtypes).
    Source: Stollenwerk 2025 (arXiv 2503.21708); its code has scale 1.
    """
    check_floating("dyisru", input)
    if scale is None:
        check_broadcast("dyisru", input, weight=weight)
        features = input.shape[-1:] if weight is None else weight.shape
        scale = sqrt_of_size(features)
    check_positive("dyisru", scale=scale)
    check_broadcast("dyisru", input, c=c, weight=weight, bias=bias)
    check_all_positive("dyisru", c=c)
    return checked_dyisru(input, c, weight, bias, scale)


def checked_dyisru(
    input: Tensor, c: Tensor, weight: Tensor | None, bias: Tensor | None, scale: float
) -> Tensor:
    """The formula of dyisru, for arguments that have been checked; fused checks its own."""
    x = savable(input)
    knee = accumulate(c).sqrt()
    length = torch.hypot(x, knee)  # sqrt(x^2 + c); x^2 alone would overflow first
    value = scale * (x / length)
    return affine(value, weight, bias).to(input.dtype)


@overridable
def derf(
    input: Tensor,
    alpha: Tensor,
    shift: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Dynamic erf.

    [EQ-DERF]

        y = w erf(alpha x + s) + b,   erf(u) = 2 / sqrt(pi) integral of exp(-t^2) from 0 to u

    It is steepest at x = -s / alpha, where the slope is 2 / sqrt(pi) w alpha = 1.13 w alpha; it
    saturates at w.

    >>> x = torch.tensor([-8.0, 0.0, 1.0, 8.0])
    >>> functional.derf(x, torch.tensor(0.5), torch.tensor(0.0))
    tensor([-1.0000,  0.0000,  0.5205,  1.0000])

    Args:
        input: any shape.
        alpha, shift: the slope and the offset inside the bracket, one number each, shape () or
            (1,).
        weight, bias: as in dyt.
    Returns: input's shape and dtype.
    Raises: RuntimeError (shapes, dtypes).
    Source: Chen et al. 2025 (arXiv 2512.10938) and its code, which starts with alpha 0.5 and shift
        0.
    """
    check_floating("derf", input)
    check_broadcast("derf", input, alpha=alpha, shift=shift, weight=weight, bias=bias)
    u = accumulate(alpha) * savable(input) + accumulate(shift)
    return affine(torch.erf(u), weight, bias).to(input.dtype)


@overridable
def isru(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Inverse square root unit: x / sqrt(1 + alpha x^2), slope 1 at 0, scale 1 / sqrt(alpha).

    [EQ-ISRU]

    >>> functional.isru(torch.tensor([-8.0, 0.0, 1.0, 8.0]))
    tensor([-0.9923,  0.0000,  0.7071,  0.9923])

    Args:
        input: any shape.
        alpha: a positive number.
    Raises: ValueError (alpha).
    Source: Carlile et al. 2017 (arXiv 1710.09967), section 2.
    """
    check_floating("isru", input)
    check_positive("isru", alpha=alpha)
    c = torch.tensor(1 / alpha, dtype=accumulate(input).dtype, device=input.device)
    return dyisru(input, c, scale=alpha**-0.5)


@overridable
def softcap(input: Tensor, cap: float) -> Tensor:
    """A smooth clip to (-cap, cap): cap tanh(x / cap), slope 1 at 0.

    [EQ-SOFTCAP]

    >>> functional.softcap(torch.tensor([-60.0, 0.0, 1.0, 60.0]), cap=30.0)
    tensor([-28.9208,   0.0000,   0.9996,  28.9208])

    Args:
        input: any shape.
        cap: a positive number.
    Raises: ValueError (cap).
    Source: Bello et al. 2016 (arXiv 1611.09940), section 3 on logits; Gemma 2 report 2024, section
        2.
    """
    check_floating("softcap", input)
    check_positive("softcap", cap=cap)
    u = accumulate(input) / cap
    return (cap * torch.tanh(u)).to(input.dtype)
