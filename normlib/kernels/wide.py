"""Rows too long for one program's registers, in two passes: the second read of a row comes from the cache."""

import triton
import triton.language as tl
from torch import Tensor

from normlib.kernels.launch import (
    accumulation_dtype,
    launch,
    partial_sums,
    persistent_programs,
    tile_shape,
)
from normlib.kernels.tiles import affine, load_per_row, load_tile, rows_of, store_partial, store_tile

PIECE = 4096  # columns of a row at a time, 16 for each thread of 8 warps
COLUMNS = 1024  # of a tile where the rows' statistics are known already


def forward(x: Tensor, *arguments) -> None:
    launch(_forward, x.shape[0], x, *arguments, PIECE=PIECE, num_warps=8)


def backward(x, dy, weight, mean, rstd, dx, rows, columns, x_stride, dy_stride, *, bias, programs):
    """Fills dx; the partial sums of dw and db. Reads x and dy twice: once for the three sums of each row."""
    sums = x.new_empty(3, rows, dtype=accumulation_dtype(x))
    arguments = (dy, weight, mean, rstd, sums, rows, columns, x_stride, dy_stride)
    launch(_row_sums, rows, x, *arguments, PIECE=PIECE, num_warps=8)
    tile = tile_shape(columns, COLUMNS)
    blocks = triton.cdiv(columns, tile["COLS"])
    groups = (programs or persistent_programs(x, tile)) // blocks
    groups = min(max(1, groups), triton.cdiv(rows, tile["ROWS"]))
    dw, db = partial_sums(weight is not None, groups, x), partial_sums(bias, groups, x)
    launch(_columns, groups * blocks, x, *arguments, dx, dw, db, blocks, **tile)
    return dw, db


@triton.jit(do_not_specialize=["rows"])
def _forward(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    rows,
    D,
    x_stride,
    eps: tl.float64,
    PIECE: tl.constexpr,
    ACC: tl.constexpr,
):
    """One row a program, in two passes: statistics, then y."""
    row, piece = rows_of(tl.program_id(0), 1), tl.arange(0, PIECE)
    if mean_ptr is None:
        variance = _mean_square(x_ptr, row, x_stride, D, PIECE, ACC)
    else:
        shift, mean, variance = _mean_and_variance(x_ptr, row, x_stride, D, PIECE, ACC)
        tl.store(mean_ptr + row, shift + mean)
    rstd = tl.rsqrt((variance + eps).to(ACC))
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, D, PIECE):
        col = start + piece
        inside = (col < D)[None, :]
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)
        if mean_ptr is not None:
            x = x - shift[:, None] - mean[:, None]  # one after the other: their sum would be rounded
        y = affine(x * rstd[:, None], weight_ptr, bias_ptr, col, col < D, ACC)
        store_tile(y_ptr, row, D, col, inside, y)


@triton.jit
def _mean_square(x_ptr, row, x_stride, D, PIECE: tl.constexpr, ACC: tl.constexpr):
    squares, piece = tl.zeros((1, PIECE), ACC), tl.arange(0, PIECE)
    for start in range(0, D, PIECE):
        col = start + piece
        x = load_tile(x_ptr, row, x_stride, col, (col < D)[None, :], ACC)
        squares += x * x
    return tl.sum(squares, 1) / D


@triton.jit
def _mean_and_variance(x_ptr, row, x_stride, D, PIECE: tl.constexpr, ACC: tl.constexpr):
    """shift, mean - shift and variance in one pass: Welford's recurrence in every lane, then over the lanes.

    shift, the mean of the first piece, makes the numbers small, so that a large mean is not rounded in them.
    """
    piece = tl.arange(0, PIECE)
    first = load_tile(x_ptr, row, x_stride, piece, (piece < D)[None, :], ACC)  # D > PIECE: all of it
    shift = tl.sum(first, 1) / PIECE
    mean, squares = tl.zeros((1, PIECE), ACC), tl.zeros((1, PIECE), ACC)
    for start in range(0, D, PIECE):
        col = start + piece
        inside = (col < D)[None, :]
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC) - shift[:, None]
        difference = tl.where(inside, x - mean, 0.0)
        mean += difference / (start // PIECE + 1)  # every lane has seen as many, but for those past the end
        squares += difference * (x - mean)
    count = tl.cdiv(D - piece, PIECE)[None, :].to(ACC)
    row_mean = tl.sum(mean * count, 1) / D
    deviation = mean - row_mean[:, None]
    return shift, row_mean, tl.sum(squares + count * deviation * deviation, 1) / D


@triton.jit(do_not_specialize=["rows"])
def _row_sums(
    x_ptr,
    dy_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    sums_ptr,
    rows,
    D,
    x_stride,
    dy_stride,
    PIECE: tl.constexpr,
    ACC: tl.constexpr,
):
    """Means over one row of g = w dy, of xhat, and of g (xhat - mean(xhat))."""
    row, piece = rows_of(tl.program_id(0), 1), tl.arange(0, PIECE)
    is_row = row < rows
    rstd = load_per_row(rstd_ptr, row, is_row)
    gradients, xhats = tl.zeros((1, PIECE), ACC), tl.zeros((1, PIECE), ACC)
    products = tl.zeros((1, PIECE), ACC)
    for start in range(0, D, PIECE):
        col = start + piece
        inside = (col < D)[None, :]
        xhat = _xhat(x_ptr, mean_ptr, row, is_row, x_stride, col, inside, rstd, ACC)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        gradient = affine(dy, weight_ptr, None, col, col < D, ACC)
        gradients += gradient
        xhats += xhat
        products += gradient * xhat
    product = tl.sum(products, 1) / D
    if mean_ptr is not None:
        mean_g, mean_xhat = tl.sum(gradients, 1) / D, tl.sum(xhats, 1) / D
        tl.store(sums_ptr + row, mean_g)
        tl.store(sums_ptr + rows + row, mean_xhat)  # 0 but for the rounding of the mean
        product -= mean_g * mean_xhat
    tl.store(sums_ptr + 2 * rows + row, product)


@triton.jit
def _xhat(x_ptr, mean_ptr, row, is_row, x_stride, col, inside, rstd, ACC: tl.constexpr):
    x = load_tile(x_ptr, row, x_stride, col, inside, ACC)
    if mean_ptr is not None:
        x = tl.where(inside, x - load_per_row(mean_ptr, row, is_row), 0.0)
    return x * rstd


@triton.jit(do_not_specialize=["rows"])
def _columns(
    x_ptr,
    dy_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    sums_ptr,
    rows,
    D,
    x_stride,
    dy_stride,
    dx_ptr,
    dw_ptr,
    db_ptr,
    blocks,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """dx, and partial sums of dw and db: a block of columns and every so many-th tile of rows a program."""
    block, group = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    groups = tl.num_programs(0) // blocks
    col = block * COLS + tl.arange(0, COLS)
    dw, db = tl.zeros((ROWS, COLS), ACC), tl.zeros((ROWS, COLS), ACC)
    for tile in tl.range(group, tl.cdiv(rows, ROWS), groups, num_stages=2):  # loads ahead
        row = rows_of(tile, ROWS)
        is_row = row < rows
        inside = is_row[:, None] & (col < D)[None, :]
        rstd = load_per_row(rstd_ptr, row, is_row)
        xhat = _xhat(x_ptr, mean_ptr, row, is_row, x_stride, col, inside, rstd, ACC)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        projected = affine(dy, weight_ptr, None, col, col < D, ACC)
        if mean_ptr is not None:
            projected -= load_per_row(sums_ptr, row, is_row)
            xhat = tl.where(inside, xhat - load_per_row(sums_ptr + rows, row, is_row), 0.0)
        projected -= xhat * load_per_row(sums_ptr + 2 * rows, row, is_row)
        store_tile(dx_ptr, row, D, col, inside, projected * rstd)
        dw += dy * xhat
        db += dy
    store_partial(dw_ptr, group, D, col, col < D, dw)
    store_partial(db_ptr, group, D, col, col < D, db)
