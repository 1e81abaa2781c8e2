"""How many directions a matrix really has, how unequal they are, and what that does to a gradient."""

import torch
from torch import Tensor


def effective_rank(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): exp of the entropy of s / sum(s).  [EQ-RANK-ENTROPY]

    s are the singular values. Between 1 and the rank, whatever the scale; NaN for a zero matrix.
    Source: Roy & Vetterli 2007, section 2.
    """
    values = torch.linalg.svdvals(matrix)
    return torch.special.entr(values / values.sum(-1, keepdim=True)).sum(-1).exp()


def stable_rank(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): sum(s^2) / max(s)^2; NaN for a zero matrix.  [EQ-RANK-STABLE]

    Source: Rudelson & Vershynin 2007, section 1, where it is called the numerical rank.
    """
    values = torch.linalg.svdvals(matrix)
    return (values / values[..., :1]).square().sum(-1)


def numerical_rank(matrix: Tensor, threshold: float) -> Tensor:
    """(...) for matrices (..., rows, columns): how many singular values >= threshold.  [EQ-RANK-NUMERICAL]

    The sources' effective rank. It grows with the scale of the matrix, which the other two do not.
    Raises: ValueError (threshold not above 0: every matrix would have full rank).
    Source: GRAD-SAT, equation (3.3.16).
    """
    if not threshold > 0:
        raise ValueError(f"numerical_rank needs a threshold above 0, got {threshold}. Pass 0.01, say.")
    return (torch.linalg.svdvals(matrix) >= threshold).sum(-1)


def condition_number(matrix: Tensor) -> Tensor:
    """(...) for matrices (..., rows, columns): largest over smallest singular value.  [EQ-CONDITION]

    inf where the smallest is 0; NaN for a zero matrix.
    Source: Golub & Van Loan 2013, section 2.6.
    """
    values = torch.linalg.svdvals(matrix)
    return values[..., 0] / values[..., -1]


def gradient_bounds(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(low, high), each (...): low |g| <= |W^T g| <= high |g| for W (..., out, in).  [EQ-SINGULAR-BOUNDS]

    g is the gradient in the outputs, W^T g that in the inputs. low is 0 for more outputs than inputs: then
    some g is lost entirely.
    Source: Golub & Van Loan 2013, section 2.4.
    """
    values = torch.linalg.svdvals(weight)
    lossy = weight.shape[-2] > weight.shape[-1]
    return torch.zeros_like(values[..., 0]) if lossy else values[..., -1], values[..., 0]
