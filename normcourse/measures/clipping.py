"""Gradient clipping: by norm (the direction stays), by value (it does not), and where to put the threshold.

A gradient is one tensor or a sequence of tensors, which then counts as one vector. Inputs are not changed.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Gradient = Tensor | Sequence[Tensor]


def clip_by_norm(gradient: Gradient, threshold: float) -> Gradient:
    """gradient min(1, threshold / |gradient|): a tensor, or a list with one common factor.  [EQ-CLIP-NORM]

    Raises: ValueError (threshold not above 0; an empty list).
    Source: Pascanu, Mikolov & Bengio 2013, algorithm 1. torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm.
    """
    _check(threshold)
    parts = [gradient] if isinstance(gradient, Tensor) else list(gradient)
    if not parts:
        raise ValueError("clip_by_norm needs a gradient, got an empty list. Pass one tensor per parameter.")
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in parts]))
    clipped = [part * (threshold / norm).clamp(max=1) for part in parts]  # a zero gradient stays 0
    return clipped[0] if isinstance(gradient, Tensor) else clipped


def clip_by_value(gradient: Gradient, threshold: float) -> Gradient:
    """Every entry moved into [-threshold, threshold]: a tensor, or a list of them.  [EQ-CLIP-VALUE]

    Raises: ValueError (threshold not above 0).
    Source: GRAD-SAT, equation (3.3.15).
    """
    _check(threshold)
    if isinstance(gradient, Tensor):
        return gradient.clamp(-threshold, threshold)
    return [part.clamp(-threshold, threshold) for part in gradient]


def clipping_threshold(norms: Tensor, share: float = 0.9) -> Tensor:
    """The smallest of the norms (N,) with at most 1 - share of them above it: one number.  [EQ-CLIP-QUANTILE]

    norms: gradient norms of a healthy run; clipping at the result would have touched 1 - share of its steps.
    Raises: ValueError (no norms; share not in (0, 1]).
    Source: ours, after Pascanu, Mikolov & Bengio 2013, section 3.2.
    """
    if norms.dim() != 1 or not len(norms) or not 0 < share <= 1:
        raise ValueError(
            f"clipping_threshold needs norms (N,) and 0 < share <= 1, got {tuple(norms.shape)} and {share}. "
            "Record the gradient norm of each step first."
        )
    kept = math.ceil(share * len(norms) - 1e-9)  # 1e-9: share N may be a whole number but for rounding
    return norms.sort().values[kept - 1]


def _check(threshold: float) -> None:
    if not threshold > 0:
        raise ValueError(f"A clipping threshold must be above 0, got {threshold}. Pass 1.0, say.")
