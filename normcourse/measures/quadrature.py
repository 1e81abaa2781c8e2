"""Expectations and saturation under N(0, 1) by quadrature: the exact counterpart of means over samples."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

REACH = 12.0  # N(0, 1) leaves 4e-33 beyond
NODES, PANELS = 16, 96  # a panel is 1/4 wide: functions of this scale come out to rounding
LIMIT = 40  # sets are looked for up to here


def normal_expectation(
    function: Callable[[Tensor], Tensor], breaks: Iterable[float] | Tensor = (0.0,)
) -> Tensor:
    """E f(z) for z from N(0, 1): one float64 number.

    Args: breaks: the places where f jumps or has a kink. Elsewhere f must be smooth on a scale of 1/4: for
        tanh(100 x), say, add breaks around 0.
    Source: Gauss-Legendre quadrature on panels, nodes by Golub & Welsch 1969; Gauss-Hermite needs hundreds of
        nodes for tanh and cannot see a kink.
    """
    breaks = torch.as_tensor(tuple(breaks), dtype=torch.float64).clamp(-REACH, REACH)
    edges = torch.cat([torch.linspace(-REACH, REACH, PANELS + 1, dtype=torch.float64), breaks]).unique()
    half, middle = edges.diff()[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    nodes, weights = _legendre(NODES)
    z = middle + half * nodes  # (panels, nodes)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    return (function(z) * density * half * weights).sum()


def saturation_set(slope: Callable[[Tensor], Tensor], threshold: float = 0.01) -> Tensor:
    """(k, 2): the k intervals of x in which |f'(x)| < threshold, in order; -inf and inf at open ends.

    slope: f', of a tensor. Ends are solved by bisection to rounding, between points of a grid 0.001 apart: a
    narrower interval may be missed, and what holds at |x| = 40 is taken to hold beyond.
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
    """S = P(|f'(z)| < threshold) for z from N(0, 1), one number; slope is f'.  [EQ-SATURATION]

    Source: GRAD-SAT, equation (3.3.30), with the law of the input stated.
    """
    return normal_probability(saturation_set(slope, threshold))


def normal_stability(slope: Callable[[Tensor], Tensor]) -> Tensor:
    """G = E|f'(z) - 1| for z from N(0, 1), one number; slope is f'.  [EQ-STABILITY]

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


def _legendre(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-1, 1], exact for polynomials up to degree 2 count - 1."""
    k = torch.arange(1, count, dtype=torch.float64)
    beside = k / (4 * k.square() - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(beside, -1))  # reads the lower half, takes it as symmetric
    return nodes, 2 * vectors[0].square()
