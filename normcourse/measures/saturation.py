"""Saturation: how much of a layer's output sits at its limit, how many of its slopes are lost.

An output can saturate without its slope (a sloped tail) and a slope without its output (the minimum of GELU),
and both depend on what comes in: every number here belongs to a law of the input.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def normal_quantiles(count: int = 100_000) -> Tensor:
    """(count,) float64 points, each with probability 1/count under N(0, 1): their mean is an expectation.

    Source: midpoint rule in the probability; the share of an interval is exact to 1/count.
    """
    steps = torch.arange(count, dtype=torch.float64)
    return torch.special.ndtri((steps + 0.5) / count)


def slopes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """f'(x), in x's shape, of an element-wise function or layer, by autograd.

    Source: the derivative of sum(f(x)) in x_i is f'(x_i) as long as f acts on each entry alone.
    """
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(function(leaf).sum(), leaf)[0]


def saturation_share(output: Tensor, limit: float | Tensor, fraction: float = 0.95) -> Tensor:
    """The share of entries with |output| > fraction limit: saturation of the output, one number.

    limit: the level of saturation; a tensor that broadcasts to output where features differ (scale |w|).
    output: before the bias, which shifts the levels.
    Source: GRAD-SAT, definition 3.3.1.
    """
    return (output.abs() > fraction * limit).to(output.dtype).mean()


def saturation_measure(
    function: Callable[[Tensor], Tensor], x: Tensor | None = None, threshold: float = 0.01
) -> Tensor:
    """S = P(|f'(x)| < threshold): saturation of the gradient, one number.  [EQ-SATURATION]

    x: samples of the input; None means N(0, 1). As a share of the support, as the source has it, it would be
    undefined on an unbounded support.
    Source: GRAD-SAT, equation (3.3.30), with the law of the input stated.
    """
    found = slopes(function, normal_quantiles() if x is None else x)
    return (found.abs() < threshold).to(found.dtype).mean()


def stability_measure(function: Callable[[Tensor], Tensor], x: Tensor | None = None) -> Tensor:
    """G = E|f'(x) - 1|, one number; 0 only for the identity (plus a constant).  [EQ-STABILITY]

    x: samples of the input; None means N(0, 1). It ranks GELU (0.539) below ReLU (0.5) and tanh (0.394).
    Source: GRAD-SAT, equation (3.3.31).
    """
    found = slopes(function, normal_quantiles() if x is None else x)
    return (found - 1).abs().mean()
