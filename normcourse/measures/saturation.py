"""Saturation: where an output is at its limit and where a slope is lost, which are two things.

A slope can saturate without its output: at the minimum of GELU it is 0.
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


# Where the sigmoid and tanh saturate, in the output and in the slope


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
