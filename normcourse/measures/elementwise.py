"""Element-wise maps: the best there is, what none can copy, and how steep DyT and DyISRU get."""

import math
from collections.abc import Callable

import numpy
import torch
from torch import Tensor

# The best map


def conditional_mean(x: Tensor, y: Tensor, bins: int = 64) -> tuple[Tensor, Tensor]:
    """(knots, values): the means of x and of y in bins of x with equally many values.

    [EQ-CONDITIONAL-MEAN]

    E[y | x_i] has the smallest mean squared error of all functions of x_i alone: no element-wise
    layer can come nearer to y. Entries of all positions are pooled; piecewise_linear evaluates it,
    best on other data.

    Args: x, y of one shape; knots come out increasing, fewer than bins where x repeats a value
        often. Values that are equal but for rounding should be rounded first: the last bit would
        sort them into bins.
    Raises: ValueError (shapes; fewer values than bins).
    Source: the conditional mean as a projection in L2; Hastie et al. 2009, section 2.4.
    """
    if x.shape != y.shape or not 1 <= bins <= x.numel():
        raise ValueError(
            f"conditional_mean needs x and y of one shape with at least bins={bins} > 0 values, "
            f"got {tuple(x.shape)} and {tuple(y.shape)}. Pass a layer's input and output, "
            "and fewer bins."
        )
    x = x.detach().flatten().contiguous()  # of a column flatten is a view with gaps
    y = y.detach().flatten()
    ends = torch.arange(1, bins, device=x.device) * x.numel() // bins
    edges = x.sort().values[ends - 1]  # (bins - 1): the last value of every bin but the last
    place = torch.bucketize(x, edges)  # leaves a bin empty whose edges are equal
    count = torch.bincount(place, minlength=bins)
    filled = count > 0
    means = []
    for v in (x, y):
        sums = torch.zeros_like(count, dtype=v.dtype).index_add(0, place, v)
        means.append(sums[filled] / count[filled])
    knots, values = means
    return knots, values


def piecewise_linear(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """The broken line through (knots, values) at x; constant beyond the first and last knot.

    Source: linear interpolation.
    """
    y = numpy.interp(x, knots, values)
    return torch.from_numpy(y).to(values.dtype)


def best_knee(loss: Callable[[Tensor], float], x: Tensor) -> Tensor:
    """The knee s, one number, for which loss(s) is smallest; a layer calculates curve(x / s).

    A search on a grid of powers, made finer three times: right to 1 % where the loss has one
    valley between 0.003 and 30 times the mean length of a row of x (..., D).
    Source: golden-section search would do; a grid does not depend on the last bit.
    """
    size = x.square().sum(-1).mean().sqrt()
    low = -2.5
    high = 1.5
    for _ in range(4):
        powers = torch.linspace(low, high, 11, dtype=torch.float64)
        knees = size * 10**powers
        best = min(range(11), key=lambda k: float(loss(knees[k])))
        low = powers[max(best - 1, 0)].item()
        high = powers[min(best + 1, 10)].item()
    return knees[best]


def relative_error(y: Tensor, target: Tensor) -> Tensor:
    """|y - target| / |target| over all entries, one number: 1 is the error of y = 0.

    [EQ-RELATIVE-ERROR]

    Source: relative error in the root of the sum of squares.
    """
    error = torch.linalg.vector_norm(y - target)
    return error / torch.linalg.vector_norm(target)


def off_diagonal_share(jacobian: Tensor) -> Tensor:
    """(...) for matrices (..., D, D): |J without its diagonal| / |J|, between 0 and 1.

    [EQ-OFF-DIAGONAL]

    It is the smallest relative error of any diagonal matrix in place of J, so of any element-wise
    layer's Jacobian. About 1 / sqrt(D) for RMSNorm. NaN for a zero matrix.
    Source: Golub & Van Loan 2013, section 2.3, for the norm.
    """
    diagonal = jacobian.diagonal(dim1=-2, dim2=-1)
    rest = jacobian - torch.diag_embed(diagonal)
    size = torch.linalg.matrix_norm(rest)
    return size / torch.linalg.matrix_norm(jacobian)


# Lipschitz constant and smoothness (Lipschitz constant of the slope) of a layer as a map of
# vectors: it is diagonal, so the steepest coordinate decides, max|w| and not |w|


TANH_BEND = 4 / (3 * math.sqrt(3))  # max of |tanh''| = 2 t (1 - t^2), at t = 1 / sqrt(3)
# max of |(x / sqrt(x^2 + 1))''| = 3 x / (x^2 + 1)^(5/2), at x = 1/2
ISRU_BEND = 48 / (25 * math.sqrt(5))


def dyt_bounds(
    alpha: float | Tensor, scale: float = 1.0, weight: Tensor | None = None
) -> tuple[float | Tensor, float | Tensor]:
    """(Lipschitz constant, smoothness) of w scale tanh(alpha x / scale) + b.

    [EQ-DYT-BOUNDS]

        |alpha| max|w|   reached at x = 0
        4 / (3 sqrt(3)) alpha^2 / scale max|w|   reached at tanh(alpha x / scale) = +-1 / sqrt(3)

    The articles' sqrt(D) tanh(alpha x) is alpha = alpha sqrt(D), scale = sqrt(D) here: alpha
    sqrt(D) and 4 / (3 sqrt(3)) alpha^2 sqrt(D).
    Source: derived from EQ-DYT.
    """
    gain = _largest(weight)
    steepest = (alpha.abs() if isinstance(alpha, Tensor) else abs(alpha)) * gain
    smoothness = TANH_BEND * alpha**2 / scale * gain
    return steepest, smoothness


def dyisru_bounds(
    c: float | Tensor, scale: float, weight: Tensor | None = None
) -> tuple[float | Tensor, float | Tensor]:
    """(Lipschitz constant, smoothness) of w scale x / sqrt(x^2 + c) + b, c > 0.

    [EQ-DYISRU-BOUNDS]

        scale / sqrt(c) max|w|   reached at x = 0
        48 / (25 sqrt(5)) scale / c max|w|   reached at x = +-sqrt(c) / 2; the number is 0.8587

    The author's form is scale = 1, c = beta + eps.
    Source: derived from EQ-DYISRU.
    """
    gain = _largest(weight)
    steepest = scale / c**0.5 * gain
    smoothness = ISRU_BEND * scale / c * gain
    return steepest, smoothness


def _largest(weight: Tensor | None) -> float | Tensor:
    return 1.0 if weight is None else weight.abs().max()
