"""The arithmetic that the forward formulas share."""

import torch
from torch import Tensor


def accumulate(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def standardize(x: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps), mean, biased var over dims (kept as 1)."""
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    # The rounded mean is off by up to eps * |mean|, which is large against a small spread.
    correction = centred.mean(dims, keepdim=True)
    centred = centred - correction
    var = centred.square().mean(dims, keepdim=True)
    return centred * torch.rsqrt(var + eps), mean + correction, var


def normalize_with(input, running_mean, running_var, weight, bias, eps):
    mean, var, weight, bias = (per_channel(v, input) for v in (running_mean, running_var, weight, bias))
    xhat = (accumulate(input) - mean) * torch.rsqrt(accumulate(var) + eps)
    return affine(xhat, weight, bias).to(input.dtype)


def affine(xhat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = xhat if weight is None else xhat * weight
    return scaled if bias is None else scaled + bias


def per_channel(vector: Tensor | None, input: Tensor) -> Tensor | None:
    return None if vector is None else vector.reshape(-1, *[1] * (input.dim() - 2))  # (C, 1, ...)


def update_running(running: Tensor, batch: Tensor, momentum: float) -> None:
    with torch.no_grad():
        running.copy_((1 - momentum) * accumulate(running) + momentum * batch)
