"""LayerNorm and RMSNorm of rows: x is read once and y written once, where a row fits one program.

Longer rows are in wide.py. Statistics and sums are float32, or float64 if x is; one rounding at the end.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normlib.kernels import wide
from normlib.kernels.launch import (
    accumulation_dtype,
    launch,
    no_gradient,
    partial_sums,
    persistent_programs,
    tile_shape,
    total,
    with_unit_stride,
)
from normlib.kernels.tiles import affine, load_per_row, load_tile, rows_of, store_partial, store_tile

# Longest row that one program keeps in registers, in the accumulation dtype. Compiled for sm_90, float32 rows
# of these lengths spill nothing; a backward of twice the length spills 48 to 376 bytes a thread.
FORWARD_BYTES, BACKWARD_BYTES = 65_536, 32_768


def norm_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, *, centre: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """y, mean and 1 / sqrt(variance + eps) of every row.  [EQ-LN] [EQ-RMS]

    Args:
        x: (M, D), rows of any stride.
        weight, bias: (D,) of any floating dtype, or None.
        eps: added to the variance or the mean square.
        centre: True for LayerNorm; False for RMSNorm, which has no mean (None).
    Returns: y (M, D) contiguous in x's dtype; mean, rstd (M,) in the accumulation dtype, NaN if D = 0.
    Source: Ba, Kiros & Hinton 2016, equations (3), (4); Zhang & Sennrich 2019, equation (4).
    """
    x = with_unit_stride(x)
    rows, columns = x.shape
    y = x.new_empty(rows, columns)
    rstd = x.new_full((rows,), torch.nan, dtype=accumulation_dtype(x))
    mean = torch.full_like(rstd, torch.nan) if centre else None
    arguments = (weight, bias, y, mean, rstd, rows, columns, x.stride(0), float(eps))
    if x.numel() > 0 and fits(x, FORWARD_BYTES):
        tile = tile_shape(columns)
        launch(_forward, triton.cdiv(rows, tile["ROWS"]), x, *arguments, **tile)
    elif x.numel() > 0:
        wide.forward(x, *arguments)
    return y, mean, rstd


def norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    *,
    bias: bool,
    programs: int | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients in x, weight and bias from norm_forward's mean and rstd.  [EQ-LN-GRAD] [EQ-RMS-GRAD]

    Args:
        dy, x: (M, D), rows of any stride; mean None means RMSNorm.
        bias: whether the gradient of a bias is wanted.
        programs: how many share the rows; None for what fits the device. It moves dw and db by rounding.
    Returns: dx (M, D) contiguous in x's dtype; dw (None without weight) and db (None unless wanted), (D,) in
        weight's dtype, or x's without one. Bit-equal when repeated: no atomic addition.
    Source: derived from the papers of norm_forward.
    """
    dy, x = with_unit_stride(dy), with_unit_stride(x)
    dx = x.new_empty(x.shape)
    dtype = x.dtype if weight is None else weight.dtype
    if x.numel() == 0:
        return dx, no_gradient(weight is not None, x, dtype), no_gradient(bias, x, dtype)
    arguments = (dy, weight, mean, rstd, dx, *x.shape, x.stride(0), dy.stride(0))
    if not fits(x, BACKWARD_BYTES):
        dw, db = wide.backward(x, *arguments, bias=bias, programs=programs)
    else:
        tile = tile_shape(x.shape[1])
        programs = programs or persistent_programs(x, tile)
        programs = min(programs, triton.cdiv(x.shape[0], tile["ROWS"]))
        dw, db = partial_sums(weight is not None, programs, x), partial_sums(bias, programs, x)
        launch(_backward, programs, x, *arguments, dw, db, **tile)
    return dx, total(dw, dtype), total(db, dtype)


def fits(x: Tensor, limit: int) -> bool:
    return x.shape[1] * accumulation_dtype(x).itemsize <= limit


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
    eps: tl.float64,  # else a float argument arrives as float32
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """A tile of whole rows a program: x is read once, y written once."""
    row, col = rows_of(tl.program_id(0), ROWS), tl.arange(0, COLS)
    is_row, in_row = row < rows, col < D
    inside = is_row[:, None] & in_row[None, :]
    centred = load_tile(x_ptr, row, x_stride, col, inside, ACC)
    if mean_ptr is not None:
        mean = tl.sum(centred, 1) / D
        centred = tl.where(inside, centred - mean[:, None], 0.0)  # 0 again past D: it must add no variance
        # The rounded mean is off by up to eps * |mean|, which is large against a small spread.
        correction = tl.sum(centred, 1) / D
        centred = tl.where(inside, centred - correction[:, None], 0.0)
        tl.store(mean_ptr + row, mean + correction, mask=is_row)
    variance = tl.sum(centred * centred, 1) / D + eps
    rstd = tl.rsqrt(tl.where(is_row, variance, 1.0).to(ACC))  # rows past the end: no division by zero
    tl.store(rstd_ptr + row, rstd, mask=is_row)
    y = affine(centred * rstd[:, None], weight_ptr, bias_ptr, col, in_row, ACC)
    store_tile(y_ptr, row, D, col, inside, y)


@triton.jit(do_not_specialize=["rows"])
def _backward(
    x_ptr,
    dy_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    rows,
    D,
    x_stride,
    dy_stride,
    dw_ptr,
    db_ptr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """Program p of P takes tiles p, p + P, ...: x and dy are read once, dx is written once."""
    program, col = tl.program_id(0), tl.arange(0, COLS)
    in_row = col < D
    dw, db = tl.zeros((ROWS, COLS), ACC), tl.zeros((ROWS, COLS), ACC)
    for tile in tl.range(program, tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=2):  # loads ahead
        row = rows_of(tile, ROWS)
        inside = (row < rows)[:, None] & in_row[None, :]
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        rstd = load_per_row(rstd_ptr, row, row < rows)
        xhat = x * rstd
        gradient = affine(dy, weight_ptr, None, col, in_row, ACC)
        projected = gradient
        if mean_ptr is not None:
            xhat = tl.where(inside, (x - load_per_row(mean_ptr, row, row < rows)) * rstd, 0.0)
            xhat = tl.where(inside, xhat - (tl.sum(xhat, 1) / D)[:, None], 0.0)  # the mean was rounded
            projected -= (tl.sum(gradient, 1) / D)[:, None]
        projected -= xhat * (tl.sum(gradient * xhat, 1) / D)[:, None]
        store_tile(dx_ptr, row, D, col, inside, projected * rstd)
        dw += dy * xhat
        db += dy
    store_partial(dw_ptr, program, D, col, in_row, dw)
    store_partial(db_ptr, program, D, col, in_row, db)
