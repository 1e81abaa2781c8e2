"""Blocks of rows (M, D) that stay in the cache, and the memory that the work on one needs."""

import itertools
import math
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from normlib.fused import threads

# Elements at most, whose buffers stay in the L3 cache. Measured with two threads and idle cores,
# forward and backward of 2048 x 4096: with shorter blocks the threads hand over more often (2^18
# takes 1.1 to 1.4 times the time, 2^17 1.5 to 2.5 times), longer ones leave the cache (2^20: 1.0 to
# 1.2 times).
BLOCK = 1 << 19
BUFFERS = 4  # of a block, at most

Place = tuple[slice, slice]  # of a block: its rows, its columns
Result = TypeVar("Result")


class Scratch:
    """Named buffers of a block's size, in the dtype computed in.

    The next block writes over them. They are one piece of memory: glibc's malloc keeps for itself
    what is smaller than the largest piece that it was ever given back, so that what torch allocates
    in each block is not mapped anew, a page fault every 4 KiB.
    """

    def __init__(self, largest: Tensor, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.memory = torch.empty(BUFFERS, largest.numel(), dtype=dtype, device=largest.device)
        self.numbers: dict[str, int] = {}  # of the buffers, by name

    def buffer(self, name: str, block: Tensor) -> Tensor:
        """The buffer of that name, in block's shape."""
        number = self.numbers.setdefault(name, len(self.numbers))
        return self.memory[number, : block.numel()].view(block.shape)

    def read(self, name: str, block: Tensor) -> Tensor:
        """block in the dtype computed in: block itself, or a copy in the buffer."""
        if block.dtype == self.dtype:
            return block
        return self.buffer(name, block).copy_(block)

    def result(self, name: str, block: Tensor) -> Tensor:
        """Where to compute what block is to hold: block itself, or the buffer."""
        return block if block.dtype == self.dtype else self.buffer(name, block)

    def store(self, result: Tensor, block: Tensor) -> None:
        """Round once, where result is not block itself."""
        if block.dtype != self.dtype:
            block.copy_(result)


def each_block(
    x: Tensor,
    dtype: torch.dtype,
    work: Callable[[Place, Scratch], Result],
    *,
    whole_rows: bool = False,
) -> Iterator[tuple[Place, Result]]:
    """Places of the blocks of x, in order, each with the result of work(place, scratch).

    A row longer than a block is cut, or is a block if rows are to stay whole. One thread works on a
    block. If blocks are fewer than threads, they are made longer, and all of torch's threads work
    on each.
    """
    count = torch.get_num_threads()
    places = _places(x, BLOCK, whole_rows)
    if len(places) < count:
        places = _places(x, BLOCK * count, whole_rows)
    own = threading.local()

    def run(place: Place) -> Result:
        if not hasattr(own, "scratch"):
            own.scratch = Scratch(x[places[0]], dtype)
        with torch.inference_mode():  # it belongs to a thread, as grad mode does
            return work(place, own.scratch)

    is_shared = 1 < count <= len(places)
    results = threads.in_order(run, places) if is_shared else map(run, places)
    return zip(places, results, strict=True)


def _places(x: Tensor, size: int, whole_rows: bool) -> list[Place]:
    """Blocks of at most size elements, or of one row."""
    rows, columns = x.shape
    row_spans = _spans(rows, size // max(columns, 1))
    column_spans = _spans(columns, columns if whole_rows else size)
    return list(itertools.product(row_spans, column_spans))


def _spans(total: int, longest: int) -> list[slice]:
    """Slices of a length of at most longest, at least 1, nearly equal; the last is no longer."""
    count = math.ceil(total / max(longest, 1))
    step = math.ceil(total / max(count, 1))
    return [slice(start, start + step) for start in range(0, total, max(step, 1))]
