"""Measures of a whole training run, as the sources define them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class RunStability(NamedTuple):
    """Gradient norms relative to the first: their mean (the sources' Stability) and their peak."""

    mean: float
    peak: float


def run_stability(norms: Sequence[float] | Tensor) -> RunStability:
    """Mean and maximum of n_t / n_1 over a run's gradient norms n_1 ... n_T.  [EQ-RUN-STABILITY]

    A run that converges has a mean far below 1; one that diverges has a huge or infinite peak. NaN counts as
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
    """1 / step of the first accuracy that is at least level; 0.0 if none is.  [EQ-RUN-SPEED]

    steps: after how many steps each accuracy was measured, increasing from 1 or more.
    Raises: ValueError (lengths that differ; steps out of order).
    Source: KEXUE-DERIV, section 10.3; the 0 is ours.
    """
    steps = list(steps)
    if len(accuracies) != len(steps) or steps != sorted(set(steps)) or min(steps, default=1) < 1:
        raise ValueError(
            f"run_speed needs increasing steps from 1 on, one for each of {len(accuracies)} accuracies, "
            f"got {steps}. "
            "Pass record.validation_accuracy and record.steps."
        )
    return next((1 / step for a, step in zip(accuracies, steps, strict=True) if a >= level), 0.0)


def generalization_gap(train: float, test: float) -> float:
    """Accuracy on the training data minus that on data not trained on.  [EQ-GAP]

    Raises: ValueError (a number that is no accuracy, such as a loss or a percentage above 1).
    Source: Hastie et al. 2009, section 7.2, for accuracies.
    """
    if not (0 <= train <= 1 and 0 <= test <= 1):
        raise ValueError(
            f"generalization_gap needs accuracies in [0, 1], got {train} and {test}. Pass shares."
        )
    return train - test
