"""What the kernels share on the device's side.

A kernel's tile is (ROWS, COLS); row indices are int64.
"""

import triton
import triton.language as tl


@triton.jit
def rows_of(tile, ROWS: tl.constexpr):
    """Indices of a tile's rows. In int64: row times stride passes 2**31 on large inputs."""
    return tl.full((ROWS,), ROWS, tl.int64) * tile + tl.arange(0, ROWS)


@triton.jit
def load_tile(ptr, row, stride, col, inside, ACC: tl.constexpr):
    """A tile in the accumulation dtype, (ROWS, COLS); 0 where it hangs over the edge."""
    places = (row * stride)[:, None] + col[None, :]
    return tl.load(ptr + places, mask=inside, other=0.0).to(ACC)


@triton.jit
def load_per_row(ptr, row, is_row):
    """One number a row, (ROWS, 1)."""
    return tl.load(ptr + row, mask=is_row, other=0.0)[:, None]


@triton.jit
def store_tile(ptr, row, stride, col, inside, value):
    """The one rounding, to the dtype of what ptr points to."""
    places = (row * stride)[:, None] + col[None, :]
    tl.store(ptr + places, value.to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def affine(value, weight_ptr, bias_ptr, col, in_row, ACC: tl.constexpr):
    """value * weight + bias; either pointer may be None."""
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + col, mask=in_row, other=0.0).to(ACC)  # (COLS,)
        value = value * weight[None, :]
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + col, mask=in_row, other=0.0).to(ACC)  # (COLS,)
        value = value + bias[None, :]
    return value


@triton.jit
def store_partial(ptr, program, D, col, in_row, tile):
    """This program's row of the partial sums; a null pointer means that nobody wants them."""
    if ptr is not None:
        start = program.to(tl.int64) * D
        tl.store(ptr + start + col, tl.sum(tile, 0), mask=in_row)
