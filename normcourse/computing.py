"""One torch thread for all lessons, and the random numbers that they draw.

Importing it sets one thread, unless OMP_NUM_THREADS says how many: the lessons' tensors are small,
and on a busy machine two threads wait for each other, so that training takes ten times as long.
"""

import os

import torch
from torch import Tensor

MOST_THREADS = torch.get_num_threads()  # what torch would take; `make bench` does
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers of this shape, in float64: the same ones at every call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)
