"""The best element-wise map there is, how far a map is off, and what none can copy."""

import torch
from torch import Tensor


def conditional_mean(x: Tensor, y: Tensor, bins: int = 64) -> tuple[Tensor, Tensor]:
    """(knots, values): the means of x and of y in bins of x with equally many values.  [EQ-CONDITIONAL-MEAN]

    E[y | x_i] has the smallest mean squared error of all functions of x_i alone: no element-wise layer can
    come nearer to y. Entries of all positions are pooled; piecewise_linear evaluates it, best on other data.

    Args: x, y of one shape; knots come out increasing, fewer than bins where x repeats a value often. Values
        that are equal but for rounding should be rounded first: the last bit would sort them into bins.
    Raises: ValueError (shapes; fewer values than bins).
    Source: the conditional mean as a projection in L2; Hastie et al. 2009, section 2.4.
    """
    if x.shape != y.shape or not 1 <= bins <= x.numel():
        raise ValueError(
            f"conditional_mean needs x and y of one shape with at least bins={bins} > 0 values, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}. Pass a layer's input and output, and fewer bins."
        )
    x, y = x.detach().flatten(), y.detach().flatten()
    ends = torch.arange(1, bins, device=x.device) * x.numel() // bins
    edges = x.sort().values[ends - 1]  # (bins - 1): the last value of every bin but the last
    place = torch.bucketize(x, edges)  # leaves a bin empty whose edges are equal
    count = torch.bincount(place, minlength=bins)
    sums = (torch.zeros_like(count, dtype=v.dtype).index_add(0, place, v) for v in (x, y))
    knots, values = (v[count > 0] / count[count > 0] for v in sums)
    return knots, values


def piecewise_linear(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """The broken line through (knots, values) at x of any shape; constant beyond the first and last knot.

    Source: linear interpolation.
    """
    if len(knots) == 1:
        return values.expand_as(x)
    right = torch.bucketize(x.contiguous(), knots).clamp(1, len(knots) - 1)
    left = right - 1
    place = ((x - knots[left]) / (knots[right] - knots[left])).clamp(0, 1)
    return torch.lerp(values[left], values[right], place)


def relative_error(y: Tensor, target: Tensor) -> Tensor:
    """|y - target| / |target| over all entries, one number: 1 is the error of y = 0.  [EQ-RELATIVE-ERROR]

    Source: relative error in the root of the sum of squares.
    """
    return torch.linalg.vector_norm(y - target) / torch.linalg.vector_norm(target)


def off_diagonal_share(jacobian: Tensor) -> Tensor:
    """(...) for matrices (..., D, D): |J without its diagonal| / |J|, between 0 and 1.  [EQ-OFF-DIAGONAL]

    It is the smallest relative error of any diagonal matrix in place of J, so of any element-wise layer's
    Jacobian. About 1 / sqrt(D) for RMSNorm. NaN for a zero matrix.
    Source: Golub & Van Loan 2013, section 2.3, for the norm.
    """
    rest = jacobian - torch.diag_embed(jacobian.diagonal(dim1=-2, dim2=-1))
    return torch.linalg.matrix_norm(rest) / torch.linalg.matrix_norm(jacobian)
