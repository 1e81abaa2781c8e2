"""What the kernels share on the host's side: dtypes, sizes, where to launch, the sum of partial sums."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

LANGUAGE = {torch.float32: tl.float32, torch.float64: tl.float64}
TILE = 2048  # elements of one program where rows are short: 16 for each thread of 4 warps
INTERPRETED_PROGRAMS = 4  # stands for the number of multiprocessors in the interpreter


def accumulation_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def with_unit_stride(x: Tensor) -> Tensor:
    """x (M, D), copied only if its last stride is not 1. Rows may lie anywhere, even on each other."""
    return x if x.shape[1] == 1 or x.stride(1) == 1 else x.contiguous()


def tile_shape(columns: int, widest: int | None = None) -> dict[str, int]:
    """ROWS and COLS of a tile of TILE elements or, if it is longer, of one row (cut at widest); its warps."""
    cols = triton.next_power_of_2(columns)
    cols = cols if widest is None else min(cols, widest)
    rows = max(1, TILE // cols)
    return {"ROWS": rows, "COLS": cols, "num_warps": min(16, max(4, rows * cols // 512))}


@cache
def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return INTERPRETED_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def persistent_programs(x: Tensor, tile: dict[str, int]) -> int:
    """How many programs share all rows: enough tiles in flight a multiprocessor to cover the memory's delay.

    Each writes its own partial sums, so that more of them is more traffic.
    """
    return multiprocessors(x.device) * max(1, 4 * TILE // (tile["ROWS"] * tile["COLS"]))


def launch(kernel, programs: int, x: Tensor, *args, **meta) -> None:
    """Run kernel on x's device, on grid axis 0: it takes 2**31 - 1 programs, the other two only 65,535."""
    meta["ACC"] = LANGUAGE[accumulation_dtype(x)]
    if x.device.type == "cuda" and x.device.index != torch.cuda.current_device():
        with torch.cuda.device(x.device):
            kernel[(programs,)](x, *args, **meta)
    else:
        kernel[(programs,)](x, *args, **meta)


def partial_sums(wanted: bool, programs: int, x: Tensor) -> Tensor | None:
    return x.new_empty(programs, x.shape[1], dtype=accumulation_dtype(x)) if wanted else None


def total(partial: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """(D,): the sum over programs in a fixed order, and the one rounding."""
    return None if partial is None else partial.sum(0).to(dtype)


def no_gradient(wanted: bool, x: Tensor, dtype: torch.dtype) -> Tensor | None:
    """What total gives when there is nothing to sum."""
    return x.new_zeros(x.shape[1], dtype=dtype) if wanted else None
