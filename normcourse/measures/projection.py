"""Projection defect: how far a Jacobian is from a scaled orthogonal projection."""

import torch
from torch import Tensor

from normcourse.measures.spectrum import spectral_norm


def projection_defect(jacobian: Tensor) -> Tensor:
    """(...) for matrices (..., D, D): 0 for multiples of orthogonal projections.  [EQ-PROJECTION-DEFECT]

        |P^T P - P| / |P|,   P = J / c,   c the spectral norm, | | the root of the sum of squares

    P^T P = P makes P symmetric and idempotent at once. NaN for a zero matrix, which has no scale.
    Source: Golub & Van Loan 2013, section 2.5.
    """
    projection = jacobian / spectral_norm(jacobian)[..., None, None]
    error = projection.mT @ projection - projection
    return torch.linalg.matrix_norm(error) / torch.linalg.matrix_norm(projection)
