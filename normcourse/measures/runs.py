"""Training runs: their measures as the sources define them, clipping, descent on a quadratic."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

# A whole training run


class RunStability(NamedTuple):
    """Gradient norms relative to the first: their mean (the sources' Stability) and their peak."""

    mean: float
    peak: float


def run_stability(norms: Sequence[float] | Tensor) -> RunStability:
    """Mean and maximum of n_t / n_1 over a run's gradient norms n_1 ... n_T.

    [EQ-RUN-STABILITY]

    A run that converges has a mean far below 1; one that diverges has a huge or infinite peak. NaN
    counts as
    infinite: it is what a norm becomes after it overflowed.
    Raises: ValueError (no norms; a first one that is not positive and finite).
    Source: KEXUE-DERIV, section 10.2; the peak is ours.
    """
    norms = [float(norm) for norm in norms]
    if not norms or not 0 < norms[0] < math.inf:
        raise ValueError(
            f"run_stability needs a positive, finite first norm, got {norms[:1] or 'no norms'}. "
            "Record the norm of the whole gradient at every step."
        )
    ratios = [math.inf if math.isnan(norm) else norm / norms[0] for norm in norms]
    return RunStability(sum(ratios) / len(ratios), max(ratios))


def run_speed(accuracies: Sequence[float], steps: Sequence[int], level: float = 0.9) -> float:
    """1 / step of the first accuracy that is at least level; 0.0 if none is.

    [EQ-RUN-SPEED]

    steps: after how many steps each accuracy was measured, increasing from 1 or more.
    Raises: ValueError (lengths that differ; steps out of order).
    Source: KEXUE-DERIV, section 10.3; the 0 is ours.
    """
    steps = list(steps)
    if len(accuracies) != len(steps) or steps != sorted(set(steps)) or min(steps, default=1) < 1:
        raise ValueError(
            f"run_speed needs increasing steps from 1 on, one for each of {len(accuracies)} "
            f"accuracies, got {steps}. "
            "Pass record.validation_accuracy and record.steps."
        )
    return next((1 / step for a, step in zip(accuracies, steps, strict=True) if a >= level), 0.0)


# Clipping. A gradient is one tensor or a sequence of tensors, which then counts as one vector


Gradient = Tensor | Sequence[Tensor]


def clip_by_norm(gradient: Gradient, threshold: float) -> Gradient:
    """gradient min(1, threshold / |gradient|): a tensor, or a list with one common factor.

    [EQ-CLIP-NORM]

    Raises: ValueError (threshold not above 0; an empty list).
    Source: Pascanu, Mikolov & Bengio 2013, algorithm 1. torch.nn.utils.clip_grad_norm_ adds 1e-6 to
        the norm.
    """
    _check_threshold(threshold)
    parts = [gradient] if isinstance(gradient, Tensor) else list(gradient)
    if not parts:
        raise ValueError(
            "clip_by_norm needs a gradient, got an empty list. Pass one tensor per parameter."
        )
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in parts]))
    clipped = [part * (threshold / norm).clamp(max=1) for part in parts]  # a zero gradient stays 0
    return clipped[0] if isinstance(gradient, Tensor) else clipped


def clip_by_value(gradient: Gradient, threshold: float) -> Gradient:
    """Every entry moved into [-threshold, threshold]: a tensor, or a list of them.

    [EQ-CLIP-VALUE]

    Raises: ValueError (threshold not above 0).
    Source: GRAD-SAT, equation (3.3.15).
    """
    _check_threshold(threshold)
    if isinstance(gradient, Tensor):
        return gradient.clamp(-threshold, threshold)
    return [part.clamp(-threshold, threshold) for part in gradient]


def clipping_threshold(norms: Tensor, share: float = 0.9) -> Tensor:
    """The smallest of the norms (N,) with at most 1 - share of them above it: one number.

    [EQ-CLIP-QUANTILE]

    norms: gradient norms of a healthy run; clipping at the result would have touched 1 - share of
        its steps.
    Raises: ValueError (no norms; share not in (0, 1]).
    Source: ours, after Pascanu, Mikolov & Bengio 2013, section 3.2.
    """
    if norms.dim() != 1 or not len(norms) or not 0 < share <= 1:
        raise ValueError(
            "clipping_threshold needs norms (N,) and 0 < share <= 1, "
            f"got {tuple(norms.shape)} and {share}. "
            "Record the gradient norm of each step first."
        )
    threshold = numpy.quantile(norms, share, method="inverted_cdf")
    return torch.as_tensor(threshold, dtype=norms.dtype)


def _check_threshold(threshold: float) -> None:
    if not threshold > 0:
        raise ValueError(f"A clipping threshold must be above 0, got {threshold}. Pass 1.0, say.")


# Gradient descent on a quadratic, where everything about its rate can be said


def best_step(smallest: float, largest: float) -> tuple[float, float]:
    """(step, rate): the step whose slowest direction shrinks most, for eigenvalues between the two.

    [EQ-GD-STEPS]

    Raises: ValueError (not 0 < smallest <= largest).
    Source: Polyak 1987, section 1.4, theorem 3.
    """
    if not 0 < smallest <= largest:
        raise ValueError(
            f"best_step needs 0 < smallest <= largest, got {smallest} and {largest}. "
            "Pass the extreme eigenvalues of a strongly convex quadratic."
        )
    return 2 / (largest + smallest), (largest - smallest) / (largest + smallest)


def descend(matrix: Tensor, start: Tensor, step: float, steps: int) -> Tensor:
    """(steps + 1, D): the distance vectors e_0 = start ... of gradient descent on e^T A e / 2.

    Args: matrix: A (D, D), symmetric; its gradient at e is A e.
    Source: EQ-GD-QUADRATIC, run.
    """
    path = [start]
    for _ in range(steps):
        path.append(path[-1] - step * matrix @ path[-1])
    return torch.stack(path)
