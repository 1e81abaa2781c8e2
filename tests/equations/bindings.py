"""Numbers for the names in an equation, as the code computes them: one binding per tag.

A binding takes draw(*shape), a source of float64 normal numbers, and returns an environment for
latex.py, or a list of them: several cases, for an inequality also one in which the two sides are
equal.
"""

import torch
from torch import Tensor

from tests.failing import ROOT, fail

PAGE = ROOT / "notebooks/reference/equations.md"
BINDINGS = {}
EPS = 0.3  # large, so that a misplaced eps shows
N, D = 3, 4  # rows and features: different, so that a swapped index shows


def bind(tag):
    def register(function):
        assert tag not in BINDINGS, tag
        BINDINGS[tag] = function
        return function

    return register


def environments(tag):
    if tag not in BINDINGS:
        fail(PAGE, f"nothing computes {tag}", edit=f'tests/equations/bindings_*.py: @bind("{tag}")')
    generator = torch.Generator().manual_seed(1)
    found = BINDINGS[tag](
        lambda *shape: torch.randn(shape, dtype=torch.float64, generator=generator)
    )
    return [to_numpy(env) for env in (found if isinstance(found, list) else [found])]


def to_numpy(value):
    if isinstance(value, dict):
        return {key: to_numpy(item) for key, item in value.items()}
    return value.detach().numpy() if isinstance(value, Tensor) else value


def on_arrays(function):
    """A function of tensors as a function of arrays."""
    return lambda array: function(torch.as_tensor(array)).numpy()


def by_channel(images):
    """(N, C, ...) -> (m, C): every value of a channel under one index n."""
    return images.movedim(1, -1).reshape(-1, images.shape[1])
