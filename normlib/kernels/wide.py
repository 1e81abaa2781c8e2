"""Rows too long for one program's registers, in two passes.

The second read of a row comes from the cache.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from normlib.kernels.launch import (
    Rows,
    accumulation_dtype,
    column_groups,
    launch,
    partial_sums,
    tile_shape,
)
from normlib.kernels.tiles import (
    affine,
    load_per_row,
    load_tile,
    rows_of,
    store_partial,
    store_tile,
)

PIECE = 4096  # columns of a row at a time, 16 for each thread of 8 warps
COLUMNS = 1024  # of a tile where the rows' statistics are known already


def forward(x: Tensor, arguments: dict[str, Any]) -> None:
    """One program a row; arguments are those of rows._forward."""
    launch(_forward, x.shape[0], x, **arguments, PIECE=PIECE, num_warps=8)


def backward(read: Rows, dx: Tensor, bias: bool) -> tuple[Tensor | None, Tensor | None]:
    """Fills dx; the partial sums of dw and db.

    Reads x and dy twice: once for three sums of each row.
    """
    x = read.x
    rows = x.shape[0]
    sums = x.new_empty(3, rows, dtype=accumulation_dtype(x))
    launch(_row_sums, rows, x, **read.arguments(), sums_ptr=sums, PIECE=PIECE, num_warps=8)

    tile = tile_shape(x.shape[1], COLUMNS)
    blocks, groups = column_groups(x, tile)
    dw = partial_sums(read.weight is not None, groups, x)
    db = partial_sums(bias, groups, x)
    results = {"dx_ptr": dx, "dw_ptr": dw, "db_ptr": db}
    given = {**read.arguments(), "sums_ptr": sums, "blocks": blocks}
    launch(_columns, groups * blocks, x, **given, **results, **tile)
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
    """One row a program, in two passes: statistics, then y.

    [EQ-LN] [EQ-RMS]

    y = w (x - mean) rstd + b,   rstd = 1 / sqrt(variance + eps);   RMSNorm: mean = 0, b = 0
    """
    row = rows_of(tl.program_id(0), 1)  # (1,)
    piece = tl.arange(0, PIECE)  # (PIECE,)
    if mean_ptr is None:
        variance = _mean_square(x_ptr, row, x_stride, D, PIECE, ACC)  # (1,)
    else:
        shift, mean, variance = _mean_and_variance(x_ptr, row, x_stride, D, PIECE, ACC)  # (1,) each
        tl.store(mean_ptr + row, shift + mean)

    # rstd = 1 / sqrt(variance + eps)
    rstd = tl.rsqrt((variance + eps).to(ACC))
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, D, PIECE):
        col = start + piece
        in_row = col < D
        inside = in_row[None, :]  # (1, PIECE)
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)  # (1, PIECE)
        if mean_ptr is not None:
            # one after the other: their sum would be rounded
            x = x - shift[:, None] - mean[:, None]

        # y = w (x - mean) rstd + b
        y = affine(x * rstd[:, None], weight_ptr, bias_ptr, col, in_row, ACC)
        store_tile(y_ptr, row, D, col, inside, y)


@triton.jit
def _mean_square(x_ptr, row, x_stride, D, PIECE: tl.constexpr, ACC: tl.constexpr):
    """mean(x^2) of one row, (1,)."""
    piece = tl.arange(0, PIECE)
    squares = tl.zeros((1, PIECE), ACC)
    for start in range(0, D, PIECE):
        col = start + piece
        inside = (col < D)[None, :]
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)  # (1, PIECE)
        squares += x * x
    return tl.sum(squares, 1) / D


@triton.jit
def _mean_and_variance(x_ptr, row, x_stride, D, PIECE: tl.constexpr, ACC: tl.constexpr):
    """shift, mean - shift and variance in one pass.

    Welford's recurrence runs in every lane, then over the lanes.

    shift, the mean of the first piece, makes the numbers small, so that a large mean is not rounded
    in them.
    """
    piece = tl.arange(0, PIECE)
    # D > PIECE: all of it
    first = load_tile(x_ptr, row, x_stride, piece, (piece < D)[None, :], ACC)
    shift = tl.sum(first, 1) / PIECE  # (1,)
    mean = tl.zeros((1, PIECE), ACC)
    squares = tl.zeros((1, PIECE), ACC)
    for start in range(0, D, PIECE):
        col = start + piece
        inside = (col < D)[None, :]
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC) - shift[:, None]  # (1, PIECE)

        # mean <- mean + (x - mean) / n,   squares <- squares + (x - old mean) (x - new mean)
        seen = start // PIECE + 1  # in every lane as many, but for those past the end
        difference = tl.where(inside, x - mean, 0.0)
        mean += difference / seen
        squares += difference * (x - mean)

    # The lanes' means weighted by how many numbers each has seen; then their squares about that
    # mean.
    count = tl.cdiv(D - piece, PIECE)[None, :].to(ACC)  # (1, PIECE)
    row_mean = tl.sum(mean * count, 1) / D  # (1,)
    deviation = mean - row_mean[:, None]
    variance = tl.sum(squares + count * deviation * deviation, 1) / D
    return shift, row_mean, variance


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
    row = rows_of(tl.program_id(0), 1)  # (1,)
    piece = tl.arange(0, PIECE)  # (PIECE,)
    is_row = row < rows
    rstd = load_per_row(rstd_ptr, row, is_row)  # (1, 1)
    gradients = tl.zeros((1, PIECE), ACC)
    xhats = tl.zeros((1, PIECE), ACC)
    products = tl.zeros((1, PIECE), ACC)
    for start in range(0, D, PIECE):
        col = start + piece
        in_row = col < D
        inside = in_row[None, :]  # (1, PIECE)
        xhat = _xhat(x_ptr, mean_ptr, row, is_row, x_stride, col, inside, rstd, ACC)  # (1, PIECE)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        g = affine(dy, weight_ptr, None, col, in_row, ACC)
        gradients += g
        xhats += xhat
        products += g * xhat

    # mean(g (xhat - mean(xhat))) = mean(g xhat) - mean(g) mean(xhat)
    product = tl.sum(products, 1) / D  # (1,)
    if mean_ptr is not None:
        mean_g = tl.sum(gradients, 1) / D
        mean_xhat = tl.sum(xhats, 1) / D  # 0 but for the rounding of the mean
        product -= mean_g * mean_xhat
        tl.store(sums_ptr + row, mean_g)
        tl.store(sums_ptr + rows + row, mean_xhat)
    tl.store(sums_ptr + 2 * rows + row, product)


@triton.jit
def _xhat(x_ptr, mean_ptr, row, is_row, x_stride, col, inside, rstd, ACC: tl.constexpr):
    """(x - mean) rstd, or x rstd, of a tile; 0 outside."""
    x = load_tile(x_ptr, row, x_stride, col, inside, ACC)
    if mean_ptr is not None:
        mean = load_per_row(mean_ptr, row, is_row)  # (ROWS, 1)
        x = tl.where(inside, x - mean, 0.0)
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
    """dx, and partial sums of dw and db.

    A program has a block of columns and every so many-th tile of rows.

        dx = rstd (g - mean(g) - xhat mean(g xhat)),   dw = sum of dy xhat,   db = sum of dy

    [EQ-LN-GRAD]; RMSNorm has no mean(g) [EQ-RMS-GRAD].
    """
    block = tl.program_id(0) % blocks
    group = tl.program_id(0) // blocks
    groups = tl.num_programs(0) // blocks
    col = block * COLS + tl.arange(0, COLS)  # (COLS,)
    in_row = col < D
    dw = tl.zeros((ROWS, COLS), ACC)
    db = tl.zeros((ROWS, COLS), ACC)
    tiles = tl.cdiv(rows, ROWS)
    for tile in tl.range(group, tiles, groups, num_stages=2):  # loads ahead
        row = rows_of(tile, ROWS)  # (ROWS,)
        is_row = row < rows
        inside = is_row[:, None] & in_row[None, :]  # (ROWS, COLS)
        rstd = load_per_row(rstd_ptr, row, is_row)  # (ROWS, 1)
        xhat = _xhat(x_ptr, mean_ptr, row, is_row, x_stride, col, inside, rstd, ACC)  # (ROWS, COLS)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)

        # dx = rstd (g - mean(g) - xhat mean(g xhat)), with g = w dy and xhat made free of its mean
        projected = affine(dy, weight_ptr, None, col, in_row, ACC)
        if mean_ptr is not None:
            projected -= load_per_row(sums_ptr, row, is_row)
            mean_xhat = load_per_row(sums_ptr + rows, row, is_row)
            xhat = tl.where(inside, xhat - mean_xhat, 0.0)
        shared = load_per_row(sums_ptr + 2 * rows, row, is_row)  # (ROWS, 1)
        projected -= xhat * shared
        store_tile(dx_ptr, row, D, col, inside, projected * rstd)

        # dw = sum of dy xhat,   db = sum of dy
        dw += dy * xhat
        db += dy
    store_partial(dw_ptr, group, D, col, in_row, dw)
    store_partial(db_ptr, group, D, col, in_row, db)
