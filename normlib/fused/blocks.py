"""Rows (M, D) cut into blocks that stay in the cache, and the memory that one block needs."""

import math
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from normlib.fused import threads

# Elements of a block at most, whose buffers stay in the L3 cache. At 2^16, where a call costs as
# much as its work, forward and backward of 2048 x 4096 take 1.1 to 1.6 times the CPU time; at 2^20,
# 1.0 to 1.3 times.
BLOCK = 1 << 18
FEWEST = 4  # blocks, if the input is longer than one: threads share them evenly
BUFFERS = 4  # of a block, at most

Tile = tuple[slice, slice]
Place = TypeVar("Place", slice, Tile)
Result = TypeVar("Result")


class Scratch:
    """Named buffers of a block's size, in the dtype computed in.

    The next block writes over them. They are one piece of memory: glibc's malloc keeps for itself
    what is smaller than the largest piece that it was ever given back, so that what torch allocates
    in each block is not mapped anew, a page fault every 4 KiB.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device, size: int) -> None:
        self.dtype = dtype
        self.memory = torch.empty(BUFFERS, size, dtype=dtype, device=device)
        self.places: dict[str, int] = {}  # of a buffer, by its name

    def buffer(self, name: str, tile: Tensor) -> Tensor:
        """The buffer of that name, in tile's shape."""
        place = self.places.setdefault(name, len(self.places))
        return self.memory[place, : tile.numel()].view(tile.shape)

    def read(self, name: str, tile: Tensor) -> Tensor:
        """tile in the dtype computed in: tile itself, or a copy in the buffer."""
        if tile.dtype == self.dtype:
            return tile
        return self.buffer(name, tile).copy_(tile)

    def result(self, name: str, tile: Tensor) -> Tensor:
        """Where to compute what tile is to hold: tile itself, or the buffer."""
        return tile if tile.dtype == self.dtype else self.buffer(name, tile)

    def store(self, result: Tensor, tile: Tensor) -> None:
        """The one rounding, where result is not tile itself."""
        if tile.dtype != self.dtype:
            tile.copy_(result)


def each_row_block(
    x: Tensor, dtype: torch.dtype, work: Callable[[slice, Scratch], Result]
) -> Iterator[tuple[slice, Result]]:
    """work(rows, scratch) for the rows of every block: the rows and its result, in order."""
    rows, columns = x.shape
    return _each(x, dtype, lambda size: _spans(rows, size // max(columns, 1)), work)


def each_tile(
    x: Tensor, dtype: torch.dtype, work: Callable[[Tile, Scratch], Result]
) -> Iterator[tuple[Tile, Result]]:
    """The same for tiles, rows and columns: a row that is longer than a block is cut."""
    rows, columns = x.shape

    def cut(size: int) -> list[Tile]:
        pieces = _spans(columns, size)
        return [(span, piece) for span in _spans(rows, size // max(columns, 1)) for piece in pieces]

    return _each(x, dtype, cut, work)


def _each(
    x: Tensor,
    dtype: torch.dtype,
    cut: Callable[[int], list[Place]],
    work: Callable[[Place, Scratch], Result],
) -> Iterator[tuple[Place, Result]]:
    """Every block in one thread; or, if they are too few for that, all threads in every block.

    cut(size) gives blocks of at most so many elements. Where a thread has a block, no result
    depends on the number of threads.
    """
    count = torch.get_num_threads()
    places = cut(_block_size(x))
    if len(places) < count:
        places = cut(BLOCK * count)
    own = threading.local()

    def run(place: Place) -> Result:
        if not hasattr(own, "scratch"):
            own.scratch = Scratch(dtype, x.device, x[places[0]].numel())
        with torch.inference_mode():  # it belongs to a thread, as grad mode does
            return work(place, own.scratch)

    is_shared = 1 < count <= len(places)
    results = threads.in_order(run, places) if is_shared else map(run, places)
    return zip(places, results, strict=True)


def _block_size(x: Tensor) -> int:
    return BLOCK if x.numel() <= BLOCK else min(BLOCK, x.numel() // FEWEST)


def _spans(total: int, longest: int) -> list[slice]:
    """Slices of a length of at most longest, at least 1, nearly equal; the last is no longer."""
    count = math.ceil(total / max(longest, 1))
    step = math.ceil(total / max(count, 1))
    return [slice(start, start + step) for start in range(0, total, max(step, 1))]
