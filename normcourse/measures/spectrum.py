"""Spectral norm: the largest stretch of a matrix."""

import torch
from torch import Tensor


def spectral_norm(jacobian: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): the largest |J v| / |v|.  [EQ-SPECTRAL-NORM]

    Source: Golub & Van Loan 2013, section 2.3.
    """
    return torch.linalg.matrix_norm(jacobian, ord=2)
