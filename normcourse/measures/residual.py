"""Residual blocks: what a branch can do to the identity beside it."""

from torch import Tensor

from normcourse.measures.spectrum import spectral_norm


def residual_bounds(jacobian: Tensor) -> tuple[Tensor, Tensor]:
    """(low, high), each (...), for branch Jacobians J (..., D, D): max(0, 1 - c) and 1 + c.  [EQ-RESIDUAL]

    c is the spectral norm of J. All singular values of I + J lie between them, and so does the ratio of the
    gradient's lengths before and after the block. Both are reached: J = -c I and J = c I.
    Source: GRAD-SAT, theorem 3.3.5; Horn & Johnson 2013, section 7.3.
    """
    norm = spectral_norm(jacobian)
    return (1 - norm).clamp(min=0), 1 + norm
