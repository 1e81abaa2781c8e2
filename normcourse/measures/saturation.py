"""Saturation: how much of a layer's output sits at its limit, how many of its slopes are lost.

An output can saturate without its slope (a sloped tail) and a slope without its output (the minimum
of GELU), and both depend on what comes in: every number here belongs to a law of the input.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

# On samples


def slopes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f'(x), in x's shape, of an element-wise function or layer, by autograd.

    Source: the derivative of sum(f(x)) in x_i is f'(x_i) as long as f acts on each entry alone.
    """
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(function(leaf).sum(), leaf)[0]


# Under N(0, 1), by quadrature


REACH = 12.0  # N(0, 1) leaves 4e-33 beyond
NODES, PANELS = 16, 96  # a panel is 1/4 wide: functions of this scale come out to rounding
LIMIT = 40  # sets are looked for up to here


def normal_expectation(
    function: Callable[[Tensor], Tensor], breaks: Iterable[float] | Tensor = (0.0,)
) -> Tensor:
    """E f(z) for z from N(0, 1): one float64 number.

    Args: breaks: the places where f jumps or has a kink. Elsewhere f must be smooth on a scale of
        1/4: for tanh(100 x), say, add breaks around 0.
    Source: Gauss-Legendre quadrature on panels, Gauss-Hermite needs hundreds of
        nodes for tanh and cannot see a kink.
    """
    breaks = torch.as_tensor(tuple(breaks), dtype=torch.float64).clamp(-REACH, REACH)
    edges = torch.cat(
        [torch.linspace(-REACH, REACH, PANELS + 1, dtype=torch.float64), breaks]
    ).unique()
    half, middle = edges.diff()[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    nodes, weights = map(torch.from_numpy, numpy.polynomial.legendre.leggauss(NODES))
    z = middle + half * nodes  # (panels, nodes)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    return (function(z) * density * half * weights).sum()


def saturation_set(slope: Callable[[Tensor], Tensor], threshold: float = 0.01) -> Tensor:
    """(k, 2): the k intervals of x with |f'(x)| < threshold, in order; infinite at open ends.

    slope: f', of a tensor.
    Ends are found by bisection, down to rounding, between the points of a grid 0.001 apart: a
    narrower interval may be missed. What holds at |x| = 40 is assumed to hold beyond it.
    Source: GRAD-SAT, definition 3.3.2, solved for x.
    """
    return _intervals(lambda x: slope(x).abs() < threshold)


def normal_probability(intervals: Tensor) -> Tensor:
    """P(z in any of the disjoint intervals (k, 2)) for z from N(0, 1): one number.

    Source: the distribution function of N(0, 1).
    """
    low, high = torch.special.ndtr(intervals).unbind(-1)
    return (high - low).sum()


def normal_saturation(slope: Callable[[Tensor], Tensor], threshold: float = 0.01) -> Tensor:
    """S = P(|f'(z)| < threshold) for z from N(0, 1), one number; slope is f'.

    [EQ-SATURATION]

    Source: GRAD-SAT, equation (3.3.30), with the law of the input stated.
    """
    return normal_probability(saturation_set(slope, threshold))


def normal_stability(slope: Callable[[Tensor], Tensor]) -> Tensor:
    """G = E|f'(z) - 1| for z from N(0, 1), one number; slope is f'.

    [EQ-STABILITY]

    Source: GRAD-SAT, equation (3.3.31).
    """
    kinks = _intervals(lambda x: slope(x) < 1).flatten()
    return normal_expectation(lambda z: (slope(z) - 1).abs(), [0.0, *kinks.tolist()])


def _intervals(inside: Callable[[Tensor], Tensor]) -> Tensor:
    """(k, 2): where a predicate holds."""
    steps = 1000 * LIMIT
    grid = torch.arange(-steps, steps + 1, dtype=torch.float64) / 1000  # holds 0, where kinks are
    held = inside(grid)
    flips = (held[1:] != held[:-1]).nonzero().squeeze(1)
    left, right = grid[flips], grid[flips + 1]
    for _ in range(60):
        middle = (left + right) / 2
        same = inside(middle) == held[flips]
        left, right = torch.where(same, middle, left), torch.where(same, right, middle)
    below = grid.new_full((int(held[0]),), -math.inf)
    above = grid.new_full((int(held[-1]),), math.inf)
    return torch.cat([below, left, above]).reshape(-1, 2)


# Where the sigmoid and tanh saturate: in the output and in the slope, which are two things


class Thresholds(NamedTuple):
    """Where |x| saturates: by the output's distance from its limits, and by the slope.

    0 means everywhere.
    """

    output: float
    slope: float


def sigmoid_thresholds(epsilon: float) -> Thresholds:
    """|x| beyond which min(s, 1 - s) < epsilon, and beyond which s' < epsilon.

    [EQ-SIGMOID-SETS]

    Raises: ValueError (epsilon not above 0).
    Source: EQ-SIGMOID solved for x; s' <= 1/4, so at epsilon > 1/4 every slope counts as saturated.
    """
    _check_epsilon(epsilon)
    output = math.log((1 - epsilon) / epsilon) if epsilon < 1 / 2 else 0.0
    # s' = 1 / (4 cosh^2(x / 2))
    slope = 2 * math.acosh(0.5 / math.sqrt(epsilon)) if epsilon < 1 / 4 else 0.0
    return Thresholds(output, slope)


def tanh_thresholds(epsilon: float) -> Thresholds:
    """|x| beyond which 1 - |tanh x| < epsilon, and beyond which tanh' < epsilon.

    [EQ-TANH-SETS]

    Raises: ValueError (epsilon not above 0).
    Source: EQ-TANH solved for x.
    """
    _check_epsilon(epsilon)
    if epsilon >= 1:
        return Thresholds(0.0, 0.0)
    output = math.log((2 - epsilon) / epsilon) / 2
    return Thresholds(output, math.acosh(1 / math.sqrt(epsilon)))  # tanh' = 1 / cosh^2(x)


def _check_epsilon(epsilon: float) -> None:
    if not epsilon > 0:
        raise ValueError(f"A saturation threshold must be above 0, got {epsilon}. Pass 0.01, say.")
