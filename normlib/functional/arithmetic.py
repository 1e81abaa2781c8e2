"""The arithmetic that the forward formulas share."""

import math

import torch
from torch import Tensor

from normlib.functional.validation import overridable


def accumulate(x: Tensor) -> Tensor:
    """x in float32, or float64 if x is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def savable(x: Tensor) -> Tensor:
    """accumulate(x) in a form that autograd can keep: a copy if inference mode made x."""
    wide = accumulate(x)
    if torch.compiler.is_compiling():  # which has no is_inference
        return wide
    is_kept = torch.is_grad_enabled() and wide.is_inference()
    return wide.clone() if is_kept else wide


def standardize(x: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps), mean, biased var over dims (kept as 1)."""
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    # The rounded mean is off by up to eps * |mean|, which is large against a small spread.
    correction = centred.mean(dims, keepdim=True)
    centred = centred - correction
    var = centred.square().mean(dims, keepdim=True)
    rstd = torch.rsqrt(var + eps)
    return centred * rstd, mean + correction, var


def nan_where_infinite(xhat: Tensor, var: Tensor) -> Tensor:
    """xhat, but NaN where the variance overflowed.

    There 1 / std is 0, and xhat would silently be 0.
    """
    return xhat.where(var != math.inf, math.nan)


def normalize_with(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Standardize (N, C, ...) with stored statistics (C,)."""
    mean = per_channel(running_mean, input)
    var = per_channel(running_var, input)
    rstd = torch.rsqrt(accumulate(var) + eps)
    xhat = (accumulate(input) - mean) * rstd
    return channel_affine(xhat, weight, bias, input)


def affine(xhat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = xhat if weight is None else xhat * weight
    return scaled if bias is None else scaled + bias


def channel_affine(
    xhat: Tensor, weight: Tensor | None, bias: Tensor | None, input: Tensor
) -> Tensor:
    """affine with weight and bias (C,) on xhat (N, C, ...), in the input's dtype."""
    gain = None if weight is None else per_channel(weight, input)
    shift = None if bias is None else per_channel(bias, input)
    return affine(xhat, gain, shift).to(input.dtype)


def laid_out(output: Tensor, input: Tensor) -> Tensor:
    """The output in memory as torch's kernels leave it: channels_last as input, or contiguous."""
    is_image = input.dim() in (4, 5) and not input.is_contiguous()
    if is_image and input.movedim(1, -1).is_contiguous():
        return output.movedim(1, -1).contiguous().movedim(-1, 1)  # vmap knows no memory_format
    return output.contiguous()


@overridable
def per_channel(vector: Tensor, input: Tensor) -> Tensor:
    """(C,) as it broadcasts to an input (N, C, ...)."""
    positions = [1] * (input.dim() - 2)
    return vector.reshape(-1, *positions)  # (C, 1, ...)


def update_running(running: Tensor, batch: Tensor, momentum: float) -> None:
    with torch.no_grad():
        kept = (1 - momentum) * accumulate(running)
        running.copy_(kept + momentum * batch)
