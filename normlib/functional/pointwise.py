"""Element-wise stand-ins for a norm: bounded curves that need no statistics."""

import math

import torch
from torch import Tensor

from normlib.functional.arithmetic import accumulate, affine
from normlib.functional.validation import check_broadcast, check_floating, check_positive


def dyt(
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Dynamic tanh.  [EQ-DYT]

        y = w scale tanh(alpha x / scale) + b

    The slope at 0 is w alpha at every scale; the level of saturation is w scale. tanh is taken in float32
    for half types: from a tanh rounded to bfloat16, autograd's gradient is 0 from |alpha x| = 3.5 on.

    Args:
        input: any shape.
        alpha: one number, shape () or (1,).
        weight, bias: broadcastable to input: (D,) for its last dimension, (C, 1, 1) for channels of images.
        scale: 1 in the official code; sqrt(D) in the derivation from RMSNorm.
    Returns: input's shape and dtype.
    Raises: ValueError (scale), RuntimeError (shapes).
    Source: Zhu et al. 2025 (arXiv 2503.10622), section 4, equation (1): scale = 1.
    """
    check_floating("dyt", input)
    check_positive("dyt", scale=scale)
    check_broadcast("dyt", input, alpha=alpha, weight=weight, bias=bias)
    u = accumulate(alpha) * accumulate(input) / scale
    return affine(scale * torch.tanh(u), weight, bias).to(input.dtype)


def dyisru(
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Dynamic inverse square root unit.  [EQ-DYISRU]

        y = w scale x / sqrt(x^2 + c) + b

    The slope at 0 is w scale / sqrt(c), the level of saturation w scale. With c the sum of the other
    coordinates' squares (and scale sqrt(D)) it is RMSNorm.

    Args:
        input: any shape.
        c: one positive number, shape () or (1,). Not checked: a layer keeps it positive by construction.
        weight, bias: broadcastable to input, as in dyt.
        scale: None means sqrt(D), D the size of weight, or of input's last dimension without one.
    Returns: input's shape and dtype.
    Raises: ValueError (scale), RuntimeError (shapes).
    Source: Stollenwerk 2025 (arXiv 2503.21708), section 4; its code has scale 1.
    """
    check_floating("dyisru", input)
    if scale is None:
        scale = math.sqrt(input.shape[-1] if weight is None else weight.numel())
    check_positive("dyisru", scale=scale)
    check_broadcast("dyisru", input, c=c, weight=weight, bias=bias)
    x = accumulate(input)
    length = torch.hypot(x, accumulate(c).sqrt())  # sqrt(x^2 + c); x^2 alone would overflow first
    return affine(scale * (x / length), weight, bias).to(input.dtype)


def isru(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Inverse square root unit: x / sqrt(1 + alpha x^2), slope 1 at 0, level 1 / sqrt(alpha).  [EQ-ISRU]

    Args: input of any shape; alpha a positive number.
    Raises: ValueError (alpha).
    Source: Carlile et al. 2017 (arXiv 1710.09967), section 2.
    """
    check_floating("isru", input)
    check_positive("isru", alpha=alpha)
    c = torch.tensor(1 / alpha, dtype=accumulate(input).dtype, device=input.device)
    return dyisru(input, c, scale=alpha**-0.5)


def softcap(input: Tensor, cap: float) -> Tensor:
    """A smooth clip to (-cap, cap): cap tanh(x / cap), slope 1 at 0.  [EQ-SOFTCAP]

    Args: input of any shape; cap a positive number.
    Raises: ValueError (cap).
    Source: Bello et al. 2016 (arXiv 1611.09940), section 3 on logits; Gemma 2 report 2024, section 2.
    """
    check_floating("softcap", input)
    check_positive("softcap", cap=cap)
    return (cap * torch.tanh(accumulate(input) / cap)).to(input.dtype)
