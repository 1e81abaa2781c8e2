"""LayerNorm and RMSNorm of rows: x is read once and y written once, where a row fits one program.

Longer rows are in wide.py. Statistics and sums are float32, or float64 if x is; one rounding at the
end.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normlib.kernels import wide
from normlib.kernels.launch import (
    Rows,
    accumulation_dtype,
    launch,
    no_gradient,
    partial_sums,
    persistent_programs,
    tile_shape,
    total,
    with_unit_stride,
)
from normlib.kernels.tiles import (
    affine,
    load_per_row,
    load_tile,
    rows_of,
    store_partial,
    store_tile,
)

# Longest row that one program keeps in registers, in the accumulation dtype. Compiled for sm_90,
# float32 rows of these lengths spill nothing; a backward of twice the length spills 48 to 376 bytes
# a thread.
FORWARD_BYTES = 65_536
BACKWARD_BYTES = 32_768


def norm_forward(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    centre: bool,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """y, mean and 1 / sqrt(variance + eps) of every row.

    [EQ-LN] [EQ-RMS]

    Args:
        x: (M, D), rows of any stride.
        weight, bias: (D,) of any floating dtype, or None.
        eps: added to the variance or the mean square.
        centre: True for LayerNorm; False for RMSNorm, which has no mean (None).
        out: where y goes, contiguous in x's shape and dtype; None for new memory.
    Returns: y (M, D) contiguous in x's dtype; mean, rstd (M,) in the accumulation dtype, NaN if
        D = 0.
    Source: Ba, Kiros & Hinton 2016, equations (3), (4); Zhang & Sennrich 2019, equation (4).
    """
    x = with_unit_stride(x)
    rows, columns = x.shape
    y = x.new_empty(rows, columns) if out is None else out
    rstd = x.new_full((rows,), torch.nan, dtype=accumulation_dtype(x))
    mean = torch.full_like(rstd, torch.nan) if centre else None
    if x.numel() == 0:
        return y, mean, rstd
    arguments = {
        "weight_ptr": weight,
        "bias_ptr": bias,
        "y_ptr": y,
        "mean_ptr": mean,
        "rstd_ptr": rstd,
        "rows": rows,
        "D": columns,
        "x_stride": x.stride(0),
        "eps": float(eps),
    }
    if fits(x, FORWARD_BYTES):
        tile = tile_shape(columns)
        launch(_forward, triton.cdiv(rows, tile["ROWS"]), x, **arguments, **tile)
    else:
        wide.forward(x, arguments)
    return y, mean, rstd


def norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    *,
    bias: bool,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients in x, weight and bias from norm_forward's mean and rstd.

    [EQ-LN-GRAD] [EQ-RMS-GRAD]

    Args:
        dy, x: (M, D), rows of any stride; mean None means RMSNorm.
        bias: whether the gradient of a bias is wanted.
        out: where dx goes, as norm_forward's out.
    Returns: dx (M, D) contiguous in x's dtype; dw (None without weight) and db (None unless
        wanted), (D,) in weight's dtype, or x's without one. Bit-equal when repeated: no atomic
        addition.
    Source: derived from the papers of norm_forward.
    """
    dy = with_unit_stride(dy)
    x = with_unit_stride(x)
    dx = x.new_empty(x.shape) if out is None else out
    dtype = x.dtype if weight is None else weight.dtype
    if x.numel() == 0:
        dw = no_gradient(weight is not None, x, dtype)
        db = no_gradient(bias, x, dtype)
        return dx, dw, db
    read = Rows(x=x, dy=dy, weight=weight, mean=mean, rstd=rstd)
    if fits(x, BACKWARD_BYTES):
        dw, db = _backward_in_registers(read, dx, bias)
    else:
        dw, db = wide.backward(read, dx, bias)
    return dx, total(dw, dtype), total(db, dtype)


def _backward_in_registers(
    read: Rows, dx: Tensor, bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Fills dx; the partial sums of dw and db."""
    x = read.x
    tile = tile_shape(x.shape[1])
    row_tiles = triton.cdiv(x.shape[0], tile["ROWS"])
    programs = min(persistent_programs(x, tile), row_tiles)
    dw = partial_sums(read.weight is not None, programs, x)
    db = partial_sums(bias, programs, x)
    launch(_backward, programs, x, **read.arguments(), dx_ptr=dx, dw_ptr=dw, db_ptr=db, **tile)
    return dw, db


def fits(x: Tensor, limit: int) -> bool:
    """Whether a row has at most limit bytes in the accumulation dtype."""
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
    """A tile of whole rows a program: x is read once, y written once.

    [EQ-LN] [EQ-RMS]

    y = w (x - mean) rstd + b,   rstd = 1 / sqrt(mean((x - mean)^2) + eps)
    RMSNorm: mean = 0, b = 0
    """
    row = rows_of(tl.program_id(0), ROWS)  # (ROWS,)
    col = tl.arange(0, COLS)  # (COLS,)
    is_row = row < rows
    in_row = col < D
    inside = is_row[:, None] & in_row[None, :]  # (ROWS, COLS)
    centred = load_tile(x_ptr, row, x_stride, col, inside, ACC)  # (ROWS, COLS)
    if mean_ptr is not None:
        # x - mean; 0 again past D, where it must add no variance
        mean = tl.sum(centred, 1) / D  # (ROWS,)
        centred = tl.where(inside, centred - mean[:, None], 0.0)

        # The rounded mean is off by up to eps * |mean|, which is large against a small spread.
        correction = tl.sum(centred, 1) / D  # (ROWS,)
        centred = tl.where(inside, centred - correction[:, None], 0.0)
        tl.store(mean_ptr + row, mean + correction, mask=is_row)

    # rstd = 1 / sqrt(mean((x - mean)^2) + eps); 1 in rows past the end: no division by zero
    variance = tl.sum(centred * centred, 1) / D + eps  # (ROWS,)
    rstd = tl.rsqrt(tl.where(is_row, variance, 1.0).to(ACC))
    tl.store(rstd_ptr + row, rstd, mask=is_row)

    # y = w (x - mean) rstd + b
    xhat = centred * rstd[:, None]
    y = affine(xhat, weight_ptr, bias_ptr, col, in_row, ACC)
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
    """Program p of P takes tiles p, p + P, ...: x and dy are read once, dx is written once.

        xhat = (x - mean) rstd,   g = w dy
        dx = rstd (g - mean(g) - xhat mean(g xhat)),   dw = sum of dy xhat,   db = sum of dy

    [EQ-LN-GRAD]; RMSNorm has no mean and no mean(g) [EQ-RMS-GRAD].
    """
    program = tl.program_id(0)
    col = tl.arange(0, COLS)  # (COLS,)
    in_row = col < D
    dw = tl.zeros((ROWS, COLS), ACC)
    db = tl.zeros((ROWS, COLS), ACC)
    tiles = tl.cdiv(rows, ROWS)
    for tile in tl.range(program, tiles, tl.num_programs(0), num_stages=2):  # loads ahead
        row = rows_of(tile, ROWS)  # (ROWS,)
        is_row = row < rows
        inside = is_row[:, None] & in_row[None, :]  # (ROWS, COLS)
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)  # (ROWS, COLS)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        rstd = load_per_row(rstd_ptr, row, is_row)  # (ROWS, 1)

        # g = w dy
        g = affine(dy, weight_ptr, None, col, in_row, ACC)
        projected = g
        if mean_ptr is None:
            # xhat = x rstd
            xhat = x * rstd
        else:
            # xhat = (x - mean) rstd, and its own mean taken off: the stored mean was rounded
            mean = load_per_row(mean_ptr, row, is_row)
            xhat = tl.where(inside, (x - mean) * rstd, 0.0)
            xhat = tl.where(inside, xhat - (tl.sum(xhat, 1) / D)[:, None], 0.0)

            # g - mean(g)
            projected -= (tl.sum(g, 1) / D)[:, None]

        # dx = rstd (g - mean(g) - xhat mean(g xhat))
        shared = tl.sum(g * xhat, 1) / D  # (ROWS,)
        projected -= xhat * shared[:, None]
        store_tile(dx_ptr, row, D, col, inside, projected * rstd)

        # dw = sum of dy xhat,   db = sum of dy
        dw += dy * xhat
        db += dy
    store_partial(dw_ptr, program, D, col, in_row, dw)
    store_partial(db_ptr, program, D, col, in_row, db)
