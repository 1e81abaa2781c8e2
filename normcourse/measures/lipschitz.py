"""Lipschitz constant of a function: estimates from below, by pairs of inputs and by Jacobians."""

from collections.abc import Callable

import torch
from torch import Tensor

from normcourse.measures.spectrum import spectral_norm


def lipschitz_estimate(function: Callable[[Tensor], Tensor], x: Tensor, z: Tensor) -> Tensor:
    """The largest |f(x) - f(z)| / |x - z| over pairs of rows x, z (pairs, D).  [EQ-LIPSCHITZ-SAMPLE]

    Every Lipschitz constant is at least this one number; close pairs probe the slope, far ones the range.
    Source: the definition of a Lipschitz constant, on samples.
    """
    rise = torch.linalg.vector_norm(function(x) - function(z), dim=-1)
    return (rise / torch.linalg.vector_norm(x - z, dim=-1)).max()


def lipschitz_from_jacobians(jacobian: Tensor) -> Tensor:
    """The largest spectral norm of Jacobians (..., D, D): one number.  [EQ-SPECTRAL-NORM]

    On a convex domain its supremum over all points is the Lipschitz constant; over samples, a lower bound.
    Source: mean value theorem.
    """
    return spectral_norm(jacobian).max()
