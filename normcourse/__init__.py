"""What the lessons stand on: checks, measures, timing, training and figures.

It imports normlib and is never imported by it.
"""

import torch
from torch import Tensor


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers of this shape, in float64: the same ones at every call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)
