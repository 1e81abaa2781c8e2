"""The host's side of every kernel: arguments, sizes, where to launch, the sum of partial sums."""

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

LANGUAGE = {torch.float32: tl.float32, torch.float64: tl.float64}
TILE = 2048  # elements of one program where rows are short: 16 for each thread of 4 warps
INTERPRETED_PROGRAMS = 4  # stands for the number of multiprocessors in the interpreter


class Rows(NamedTuple):
    """What the backward of a norm reads."""

    x: Tensor  # (M, D), unit stride along a row
    dy: Tensor  # (M, D), unit stride along a row
    weight: Tensor | None  # (D,)
    mean: Tensor | None  # (M,); None for RMSNorm
    rstd: Tensor  # (M,)

    def arguments(self) -> dict[str, Any]:
        """By the names of the kernels' arguments, without x."""
        rows, columns = self.x.shape
        return {
            "dy_ptr": self.dy,
            "weight_ptr": self.weight,
            "mean_ptr": self.mean,
            "rstd_ptr": self.rstd,
            "rows": rows,
            "D": columns,
            "x_stride": self.x.stride(0),
            "dy_stride": self.dy.stride(0),
        }


def accumulation_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def with_unit_stride(x: Tensor) -> Tensor:
    """x (M, D), copied only if its last stride is not 1.

    Rows may lie anywhere, even on each other.
    """
    return x if x.shape[1] == 1 or x.stride(1) == 1 else x.contiguous()


def tile_shape(columns: int, widest: int | None = None) -> dict[str, int]:
    """ROWS and COLS of a tile, and its warps.

    A tile has TILE elements or, if that is longer, one row (cut at widest).
    """
    cols = triton.next_power_of_2(columns)
    if widest is not None:
        cols = min(cols, widest)
    rows = max(1, TILE // cols)
    warps = min(16, max(4, rows * cols // 512))
    return {"ROWS": rows, "COLS": cols, "num_warps": warps}


@cache
def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return INTERPRETED_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def persistent_programs(x: Tensor, tile: dict[str, int]) -> int:
    """How many programs share all rows.

    Enough tiles are in flight on a multiprocessor to cover the memory's delay.

    Each writes its own partial sums, so that more of them is more traffic.
    """
    in_flight = max(1, 4 * TILE // (tile["ROWS"] * tile["COLS"]))
    return multiprocessors(x.device) * in_flight


def column_groups(x: Tensor, tile: dict[str, int]) -> tuple[int, int]:
    """Blocks of columns of a tile each, and how many programs share the rows of one block."""
    blocks = triton.cdiv(x.shape[1], tile["COLS"])
    row_tiles = triton.cdiv(x.shape[0], tile["ROWS"])
    groups = persistent_programs(x, tile) // blocks
    return blocks, min(max(1, groups), row_tiles)


def launch(kernel: Any, programs: int, x: Tensor, **arguments: Any) -> None:
    """Run kernel on x's device, on grid axis 0.

    Axis 0 takes 2**31 - 1 programs, the other two only 65,535.
    """
    arguments["ACC"] = LANGUAGE[accumulation_dtype(x)]
    if x.device.type == "cuda" and x.device.index != torch.cuda.current_device():
        with torch.cuda.device(x.device):
            kernel[(programs,)](x_ptr=x, **arguments)
    else:
        kernel[(programs,)](x_ptr=x, **arguments)


def partial_sums(wanted: bool, programs: int, x: Tensor) -> Tensor | None:
    """(programs, D) to be filled in, if wanted."""
    if not wanted:
        return None
    return x.new_empty(programs, x.shape[1], dtype=accumulation_dtype(x))


def total(partial: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """(D,): the sum over programs in a fixed order, and the one rounding."""
    return None if partial is None else partial.sum(0).to(dtype)


def no_gradient(wanted: bool, x: Tensor, dtype: torch.dtype) -> Tensor | None:
    """What total gives when there is nothing to sum."""
    return x.new_zeros(x.shape[1], dtype=dtype) if wanted else None
