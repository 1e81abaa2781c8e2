"""Lipschitz constant and smoothness (Lipschitz constant of the slope) of DyT and DyISRU, in closed form.

Both are for a layer as a map of vectors; it is diagonal, so the steepest coordinate decides: max|w|, not |w|.
"""

import math

from torch import Tensor

TANH_BEND = 4 / (3 * math.sqrt(3))  # max of |tanh''| = 2 t (1 - t^2), at t = 1 / sqrt(3)
ISRU_BEND = 48 / (25 * math.sqrt(5))  # max of |(x / sqrt(x^2 + 1))''| = 3 x / (x^2 + 1)^(5/2), at x = 1/2


def dyt_bounds(
    alpha: float | Tensor, scale: float = 1.0, weight: Tensor | None = None
) -> tuple[float | Tensor, float | Tensor]:
    """(Lipschitz constant, smoothness) of w scale tanh(alpha x / scale) + b.  [EQ-DYT-BOUNDS]

        |alpha| max|w|   reached at x = 0
        4 / (3 sqrt(3)) alpha^2 / scale max|w|   reached at tanh(alpha x / scale) = +-1 / sqrt(3)

    The articles' sqrt(D) tanh(alpha x) is alpha = alpha sqrt(D), scale = sqrt(D) here: alpha sqrt(D) and
    4 / (3 sqrt(3)) alpha^2 sqrt(D).
    Source: derived from EQ-DYT.
    """
    return abs(alpha) * _largest(weight), TANH_BEND * alpha**2 / scale * _largest(weight)


def dyisru_bounds(
    c: float | Tensor, scale: float, weight: Tensor | None = None
) -> tuple[float | Tensor, float | Tensor]:
    """(Lipschitz constant, smoothness) of w scale x / sqrt(x^2 + c) + b, c > 0.  [EQ-DYISRU-BOUNDS]

        scale / sqrt(c) max|w|   reached at x = 0
        48 / (25 sqrt(5)) scale / c max|w|   reached at x = +-sqrt(c) / 2; the number is 0.8587

    The author's form is scale = 1, c = beta + eps.
    Source: derived from EQ-DYISRU.
    """
    return scale / c**0.5 * _largest(weight), ISRU_BEND * scale / c * _largest(weight)


def _largest(weight: Tensor | None) -> float | Tensor:
    return 1.0 if weight is None else weight.abs().max()
