"""RMSNorm with gradients that are not its own: one that an article prints (A154), and controls."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

EPS = 1e-5


def _size(x: Tensor) -> Tensor:
    return torch.sqrt(x.square().mean(-1, keepdim=True) + EPS)


def published(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The printed line: the gain of entry i stands before the whole bracket."""
    r = _size(x)
    xhat = x / r
    overlap = (weight * dy * xhat).mean(-1, keepdim=True)
    return weight * (dy - xhat * overlap) / r


def along(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The printed line's part along the row."""
    dx = published(dy, x, weight)
    share = (dx * x).mean(-1, keepdim=True) / x.square().mean(-1, keepdim=True)
    return x * share


def tangent(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The printed line without its part along the row."""
    return published(dy, x, weight) - along(dy, x, weight)


def added(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The right gradient with the printed line's part along the row."""
    r = _size(x)
    xhat = x / r
    g = weight * dy
    right = (g - xhat * (g * xhat).mean(-1, keepdim=True)) / r
    return right + along(dy, x, weight)


def path_1(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The right gradient with the size held still: without its path through the mean square."""
    return weight * dy / _size(x)


class _WithLine(torch.autograd.Function):
    """RMSNorm forward; backward some line for x, and the right one for the gain."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, line: Callable) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.line = line
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        xhat = x / _size(x)
        dw = (dy * xhat).flatten(0, -2).sum(0)
        return ctx.line(dy, x, weight), dw, None


class PublishedRMSNorm(nn.Module):
    """RMSNorm over the last axis, trained with another gradient in the place of its own."""

    def __init__(self, gains: Tensor, line: Callable = published) -> None:
        super().__init__()
        self.weight = nn.Parameter(gains)
        self.line = line

    def forward(self, x: Tensor) -> Tensor:
        return _WithLine.apply(x, self.weight, self.line)
