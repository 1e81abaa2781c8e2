"""The arithmetic that backwards and Jacobians share."""

import math

import torch
from torch import Tensor

from normlib.functional.validation import check_floating, check_tensor, sqrt_of_size


def accumulate(x: Tensor) -> Tensor:
    """x in float32, or float64 if x is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def standardize(
    x: Tensor, dims: tuple[int, ...], eps: float, centre: bool
) -> tuple[Tensor, Tensor]:
    """xhat and 1 / sqrt(variance + eps), dims kept as 1; the mean square if centre is False."""
    if centre:
        x = x - x.mean(dims, keepdim=True)
        x = x - x.mean(dims, keepdim=True)  # once more: a large mean was rounded the first time
    variance = x.square().mean(dims, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    return x * rstd, rstd


def rms_eps(input: Tensor, eps: float | None) -> float:
    return torch.finfo(accumulate(input).dtype).eps if eps is None else eps


def like(grad: Tensor, argument: Tensor) -> Tensor:
    """Sum over what was broadcast; argument's shape and dtype."""
    return grad.sum_to_size(argument.shape).to(argument.dtype)


def softmax(input: Tensor, dim: int) -> Tensor:
    x = accumulate(input)
    largest = x.amax(dim, keepdim=True)
    powers = (x - largest).exp()
    return powers / powers.sum(dim, keepdim=True)


def sech_squared(u: Tensor) -> Tensor:
    power = torch.exp(-2 * u.abs())  # 1 - tanh(u)^2 without its cancellation
    return 4 * power / (1 + power).square()


def erf_slope(u: Tensor) -> Tensor:
    return 2 / math.sqrt(math.pi) * torch.exp(-u.square())


def isru_length(x: Tensor, c: Tensor) -> Tensor:
    knee = accumulate(c).sqrt()
    return torch.hypot(x, knee)  # sqrt(x^2 + c); x^2 alone would overflow first


def isru_slope(x: Tensor, c: Tensor, scale: float) -> Tensor:
    length = isru_length(x, c)
    return scale * (c / length) / length / length


def isru_scale(input: Tensor, weight: Tensor | None, scale: float | None) -> float:
    if scale is not None:
        return scale
    features = input.shape[-1:] if weight is None else weight.shape
    return sqrt_of_size(features)


def outer(a: Tensor, b: Tensor) -> Tensor:
    """(..., D) and (..., D) -> (..., D, D)."""
    return a.unsqueeze(-1) * b.unsqueeze(-2)


def identity(x: Tensor) -> Tensor:
    """(D, D) for x (..., D)."""
    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def check_gradient(caller: str, grad_output: Tensor, output: Tensor) -> None:
    """grad_output must have the shape of the output, for which a tensor of that shape stands."""
    check_tensor(caller, "grad_output", grad_output)
    check_floating(caller, grad_output)
    if grad_output.shape != output.shape:
        raise RuntimeError(
            f"grad_output needs the output's shape {tuple(output.shape)}, "
            f"got {tuple(grad_output.shape)}. "
            "Expand or reduce it first: a broadcast here would hide a mistake."
        )
