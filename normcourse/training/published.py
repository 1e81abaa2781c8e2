"""RMSNorm with the gradient that an article prints (claim A154), which is wrong."""

import torch
from torch import Tensor, nn

EPS = 1e-5


class _Published(torch.autograd.Function):
    """RMSNorm forward; backward the published line for x, and the right one for the gain."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        r = torch.sqrt(x.square().mean(-1, keepdim=True) + EPS)
        xhat = x / r
        overlap = (weight * dy * xhat).mean(-1, keepdim=True)
        dx = weight * (dy - xhat * overlap) / r  # the gain of entry i before the whole bracket
        dw = (dy * xhat).flatten(0, -2).sum(0)
        return dx, dw


class PublishedRMSNorm(nn.Module):
    """RMSNorm over the last axis, trained with the published gradient in the place of its own."""

    def __init__(self, width: int, gains: Tensor | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width) if gains is None else gains)

    def forward(self, x: Tensor) -> Tensor:
        return _Published.apply(x, self.weight)
