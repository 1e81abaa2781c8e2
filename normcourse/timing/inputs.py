"""What is timed: inputs drawn anew, and as many copies of them as the cache cannot hold."""

from collections.abc import Callable

import torch
from torch import Tensor

COLD = 3  # the working set exceeds this many last-level caches


def draw(make_inputs: Callable, place: torch.device, seed: int) -> tuple[Tensor, ...]:
    """The inputs, refused with ValueError when times on them would not be times on real data."""
    inputs = make_inputs(torch.Generator(place).manual_seed(seed))
    if (
        not isinstance(inputs, tuple)
        or not inputs
        or not all(isinstance(x, Tensor) for x in inputs)
    ):
        raise ValueError(
            f"make_inputs must return a tuple of tensors, got {type(inputs).__name__}. For one: "
            "return (x,)."
        )
    for index, x in enumerate(inputs):
        if x.device.type != place.type:
            raise ValueError(
                f"Input {index} lies on {x.device}, the device timed is {place}: "
                "the transfer would be timed, or nothing at all. "
                "Draw with device=generator.device."
            )
        if x.is_floating_point() and not x.isfinite().all():
            raise ValueError(
                f"Input {index} holds NaN or infinity, expected finite numbers. Draw it anew."
            )
        if x.is_floating_point() and not x.any():
            raise ValueError(
                f"Input {index} is all zeros, expected random numbers: "
                "zeros cost less power and hide errors. "
                "Draw it with torch.randn(…, generator=generator)."
            )
    return inputs


def nbytes(tensors: tuple[Tensor, ...]) -> int:
    return sum(x.numel() * x.element_size() for x in tensors)


def sets_needed(set_bytes: int, cache_bytes: int, cache: str) -> int:
    """How many clones, used in turn, leave none in the cache when its turn comes."""
    return 1 if cache == "warm" else max(2, COLD * cache_bytes // set_bytes + 1)


def twin(x: Tensor) -> Tensor:
    """A copy with x's strides, so that a row-strided input stays one."""
    if 0 in x.stride():
        return x.clone()
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)
