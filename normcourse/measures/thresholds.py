"""Where the sigmoid and tanh saturate, solved: in the output and in the slope, which are two things."""

import math
from typing import NamedTuple

from torch import Tensor


class Thresholds(NamedTuple):
    """Saturated for |x| beyond: by the output's distance from its limits, and by the slope. 0: everywhere."""

    output: float
    slope: float


def sigmoid_thresholds(epsilon: float) -> Thresholds:
    """|x| beyond which min(s, 1 - s) < epsilon, and beyond which s' < epsilon.  [EQ-SIGMOID-SETS]

    Raises: ValueError (epsilon not above 0).
    Source: EQ-SIGMOID solved for x; s' <= 1/4, so at epsilon > 1/4 every slope counts as saturated.
    """
    _check(epsilon)
    output = math.log((1 - epsilon) / epsilon) if epsilon < 1 / 2 else 0.0
    slope = 2 * math.acosh(0.5 / math.sqrt(epsilon)) if epsilon < 1 / 4 else 0.0  # s' = 1 / (4 cosh^2(x / 2))
    return Thresholds(output, slope)


def tanh_thresholds(epsilon: float) -> Thresholds:
    """|x| beyond which 1 - |tanh x| < epsilon, and beyond which tanh' < epsilon.  [EQ-TANH-SETS]

    Raises: ValueError (epsilon not above 0).
    Source: EQ-TANH solved for x.
    """
    _check(epsilon)
    if epsilon >= 1:
        return Thresholds(0.0, 0.0)
    output = math.log((2 - epsilon) / epsilon) / 2
    return Thresholds(output, math.acosh(1 / math.sqrt(epsilon)))  # tanh' = 1 / cosh^2(x)


def saturation_depth(output: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """min(y - low, high - y), in the shape of the output y: small is saturated.  [EQ-SATURATION-DEPTH]

    low, high: the limits of the function, 0 and 1 for the sigmoid, -1 and 1 for tanh.
    Raises: ValueError (limits in the wrong order).
    Source: GRAD-SAT, equation (3.3.3), for any limits.
    """
    if not low < high:
        raise ValueError(
            f"saturation_depth needs low < high, got {low} and {high}. Pass the function's limits in order."
        )
    return (output - low).minimum(high - output)


def _check(epsilon: float) -> None:
    if not epsilon > 0:
        raise ValueError(f"A saturation threshold must be above 0, got {epsilon}. Pass 0.01, say.")
