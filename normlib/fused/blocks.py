"""Rows (M, D) cut into blocks that stay in the cache, and the memory that one block needs."""

from collections.abc import Iterator

import torch
from torch import Tensor

# Elements of a block per thread, whose buffers stay in the L3 cache. At 2^16, where a call costs as
# much as its work, forward and backward of 1024 x 4096 take 1.3 to 1.8 times as long; at 2^20, 1.0
# to 1.2 times.
BLOCK = 1 << 19

Tile = tuple[slice, slice]


def row_blocks(x: Tensor) -> Iterator[slice]:
    """Rows of a block each, all their columns."""
    return _spans(x.shape[0], _size() // max(x.shape[1], 1))


def tiles(x: Tensor) -> Iterator[Tile]:
    """Rows and columns of a block each: a row that is longer than a block is cut."""
    return ((rows, columns) for rows in row_blocks(x) for columns in _spans(x.shape[1], _size()))


class Scratch:
    """Named buffers of a block's size, in the dtype computed in.

    The next block writes over them.
    """

    def __init__(self, x: Tensor, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.device = x.device
        self.size = min(x.numel(), max(_size(), x.shape[1]))
        self.buffers: dict[str, Tensor] = {}

    def buffer(self, name: str, tile: Tensor) -> Tensor:
        """The buffer of that name, in tile's shape."""
        if name not in self.buffers:
            self.buffers[name] = torch.empty(self.size, dtype=self.dtype, device=self.device)
        return self.buffers[name][: tile.numel()].view(tile.shape)

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


def _size() -> int:
    return BLOCK * torch.get_num_threads()


def _spans(total: int, step: int) -> Iterator[slice]:
    step = max(step, 1)
    return (slice(start, start + step) for start in range(0, total, step))
