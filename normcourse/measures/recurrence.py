"""Linear recurrences h_t = W^t h_0: eigenvalues decide in the end, singular values at every step."""

from contextlib import suppress

import torch
from torch import Tensor

from normcourse.measures.spectrum import spectral_norm


def eigenvalue_sizes(matrix: Tensor) -> Tensor:
    """(..., D) for matrices (..., D, D): |eigenvalue|, the largest first.  [EQ-ROW-STOCHASTIC]

    Source: Golub & Van Loan 2013, section 7.1.
    """
    return _eigenvalues(matrix).abs().sort(-1, descending=True).values


def _eigenvalues(matrix: Tensor) -> Tensor:
    """(..., D) in no order. MKL's iteration fails on many matrices of rank one, and on none of full rank."""
    with suppress(torch.linalg.LinAlgError):
        return torch.linalg.eigvals(matrix)
    # Where no entry is above 1, no eigenvalue is above D: with 2 D on the diagonal all stay far from 0.
    size = matrix.abs().amax((-2, -1), keepdim=True)
    unit = matrix / size.clamp(min=torch.finfo(matrix.dtype).tiny)
    dim = matrix.shape[-1]
    eye = torch.eye(dim, dtype=matrix.dtype, device=matrix.device)
    shifted = torch.linalg.eigvals(unit + 2 * dim * eye)
    return (shifted - 2 * dim) * size[..., 0]


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
