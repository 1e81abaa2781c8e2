"""Matrices and Jacobians: their largest stretch, their rank, how alike two of them are."""

from collections.abc import Callable

import torch
from torch import Tensor

# Stretch


def spectral_norm(jacobian: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): the largest |J v| / |v|.

    [EQ-SPECTRAL-NORM]

    Source: Golub & Van Loan 2013, section 2.3.
    """
    return torch.linalg.matrix_norm(jacobian, ord=2)


def lipschitz_estimate(function: Callable[[Tensor], Tensor], x: Tensor, z: Tensor) -> Tensor:
    """The largest |f(x) - f(z)| / |x - z| over pairs of rows x, z (pairs, D).

    [EQ-LIPSCHITZ-SAMPLE]

    Every Lipschitz constant is at least this one number; close pairs probe the slope, far ones the
    range.
    Source: the definition of a Lipschitz constant, on samples.
    """
    rise = torch.linalg.vector_norm(function(x) - function(z), dim=-1)
    run = torch.linalg.vector_norm(x - z, dim=-1)
    return (rise / run).max()


# Rank: how many directions a matrix really has, and how unequal they are


def effective_rank(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): exp of the entropy of s / sum(s).

    [EQ-RANK-ENTROPY]

    s are the singular values. Between 1 and the rank, whatever the scale; NaN for a zero matrix.
    Source: Roy & Vetterli 2007.
    """
    values = torch.linalg.svdvals(matrix)
    shares = values / values.sum(-1, keepdim=True)
    entropy = torch.special.entr(shares).sum(-1)
    return entropy.exp()


def stable_rank(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): sum(s^2) / max(s)^2; NaN for a zero matrix.

    [EQ-RANK-STABLE]

    Source: Rudelson & Vershynin 2007, where it is called the numerical rank.
    """
    values = torch.linalg.svdvals(matrix)
    relative = values / values[..., :1]
    return relative.square().sum(-1)


def numerical_rank(matrix: Tensor, threshold: float) -> Tensor:
    """(...) for matrices (..., rows, columns): how many singular values >= threshold.

    [EQ-RANK-NUMERICAL]

    The sources' effective rank. It grows with the scale of the matrix, which the other two do not.
    Raises: ValueError (threshold not above 0: every matrix would have full rank).
    Source: GRAD-SAT, equation (3.3.16).
    """
    if not threshold > 0:
        raise ValueError(
            f"numerical_rank needs a threshold above 0, got {threshold}. Pass 0.01, say."
        )
    values = torch.linalg.svdvals(matrix)
    return (values >= threshold).sum(-1)


def condition_number(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): largest over smallest singular value.

    [EQ-CONDITION]

    inf where the smallest is 0; NaN for a zero matrix.
    Source: Golub & Van Loan 2013, section 2.6.
    """
    values = torch.linalg.svdvals(matrix)
    return values[..., 0] / values[..., -1]


def gradient_bounds(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(low, high), each (...): low |g| <= |W^T g| <= high |g| for W (..., out, in).

    [EQ-SINGULAR-BOUNDS]

    g is the gradient in the outputs, W^T g that in the inputs. low is 0 for more outputs than
    inputs: then some g is lost entirely.
    Source: Golub & Van Loan 2013, section 2.4.
    """
    values = torch.linalg.svdvals(weight)
    low = values[..., -1]
    high = values[..., 0]
    if weight.shape[-2] > weight.shape[-1]:
        low = torch.zeros_like(high)
    return low, high


# Residual blocks: what a branch can do to the identity beside it


def residual_bounds(jacobian: Tensor) -> tuple[Tensor, Tensor]:
    """(low, high), each (...), for branch Jacobians J (..., D, D): max(0, 1 - c) and 1 + c.

    [EQ-RESIDUAL]

    c is the spectral norm of J. All singular values of I + J lie between them, and so does the
    ratio of the gradient's lengths before and after the block. Both are reached: J = -c I and J = c
    I.
    Source: GRAD-SAT, theorem 3.3.5; Horn & Johnson 2013, section 7.3.
    """
    norm = spectral_norm(jacobian)
    low = (1 - norm).clamp(min=0)
    high = 1 + norm
    return low, high


# Similarity: the cosine of the angle between two Jacobians


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """(...) for two matrices (..., D, D): sum(A B) / (|A| |B|), between -1 and 1.

    [EQ-SIM]

    Blind to the scale of either, so it cannot tell a Jacobian from its double; NaN if one is zero.
    Source: KEXUE-DERIV, section 10.1.
    """
    u = a.flatten(-2)
    v = b.flatten(-2)
    if u.shape[-1] != v.shape[-1]:
        raise ValueError(
            f"similarity compares Jacobians of one size, got {u.shape[-1]} and {v.shape[-1]} "
            "entries. Compute both at rows of the same width."
        )
    product = (u * v).sum(-1)
    lengths = torch.linalg.vector_norm(u, dim=-1) * torch.linalg.vector_norm(v, dim=-1)
    return product / lengths
