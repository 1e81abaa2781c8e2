"""Linear recurrences h_t = W^t h_0: eigenvalues decide in the end, singular values at every step."""

import torch
from torch import Tensor

from normcourse.measures.spectrum import spectral_norm


def eigenvalue_sizes(matrix: Tensor) -> Tensor:
    """(..., D) for matrices (..., D, D): |eigenvalue|, the largest first.  [EQ-ROW-STOCHASTIC]

    Source: Golub & Van Loan 2013, section 7.1.
    """
    return torch.linalg.eigvals(matrix).abs().sort(-1, descending=True).values


def spectral_radius(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., D, D): the largest |eigenvalue|.  [EQ-SPECTRAL-RADIUS]

    Never above spectral_norm, and far below it for matrices that are far from normal.
    Source: Horn & Johnson 2013, theorem 5.6.9.
    """
    return eigenvalue_sizes(matrix)[..., 0]


def power_norms(matrix: Tensor, steps: int) -> Tensor:
    """(steps + 1,): the spectral norms of W^0, W^1 ... W^steps for W (D, D).  [EQ-POWERS]

    Each is the largest growth of any start in that many steps, between radius^t and norm^t.
    Raises: ValueError (steps below 0); torch's LinAlgError once a power has overflowed.
    Source: Horn & Johnson 2013, corollary 5.6.14 (Gelfand).
    """
    if steps < 0:
        raise ValueError(f"power_norms needs steps >= 0, got {steps}. Pass the number of steps.")
    power, norms = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device), []
    for _ in range(steps + 1):
        norms.append(spectral_norm(power))
        power = matrix @ power
    return torch.stack(norms)
