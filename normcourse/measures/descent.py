"""Gradient descent on a quadratic, where everything about its rate can be said."""

import torch
from torch import Tensor


def contraction(eigenvalues: Tensor, step: float) -> Tensor:
    """max|1 - step a| over the second-derivative matrix's eigenvalues a (D,): one number.  [EQ-GD-QUADRATIC]

    The distance to the minimum shrinks at least by this factor per step; above 1 it diverges.
    Source: Polyak 1987, section 1.4, theorem 3.
    """
    return (1 - step * eigenvalues).abs().max()


def best_step(smallest: float, largest: float) -> tuple[float, float]:
    """(step, rate): the step with the smallest contraction for eigenvalues between the two.  [EQ-GD-STEPS]

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
