"""DyT and DyISRU: x is read once and y written once; the backward recomputes the curve in float32.

A curve's value and its two derivatives are in curve.py.
"""

import triton
import triton.language as tl
from torch import Tensor

from normlib.kernels.curve import curve
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
from normlib.kernels.tiles import affine, load_tile, rows_of, store_partial, store_tile

COLUMNS = 1024  # of a tile at most


def curve_forward(
    x: Tensor, parameter: Tensor, weight: Tensor | None, bias: Tensor | None, scale: float, *, curve: str
) -> Tensor:
    """y = w value(x) + b.  [EQ-DYT] [EQ-DYISRU]

    Args:
        x: (M, D), rows of any stride.
        parameter: (1,): alpha of curve "tanh", value = scale tanh(alpha x / scale); c of curve "isru",
            value = scale x / sqrt(x^2 + c), positive.
        weight, bias: (D,) of any floating dtype, or None.
    Returns: (M, D) contiguous in x's dtype, rounded once.
    Source: Zhu et al. 2025, equation (1); Stollenwerk 2025, section 4.
    """
    x = with_unit_stride(x)
    rows, columns = x.shape
    y = x.new_empty(rows, columns)
    if x.numel() > 0:
        tile = tile_shape(columns, COLUMNS)
        blocks = triton.cdiv(columns, tile["COLS"])
        programs = triton.cdiv(rows, tile["ROWS"]) * blocks
        arguments = (parameter, weight, bias, y, rows, columns, x.stride(0), float(scale), blocks)
        launch(_forward, programs, x, *arguments, CURVE=curve, **tile)
    return y


def curve_backward(
    dy: Tensor,
    x: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    scale: float,
    *,
    curve: str,
    bias: bool,
    programs: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients in x, parameter, weight and bias.  [EQ-DYT-GRAD] [EQ-DYISRU-GRAD]

    Args: as curve_forward; dy (M, D), rows of any stride; bias: whether its gradient is wanted; programs: how
        many share the work, None for what fits the device. It moves the sums by rounding.
    Returns: dx (M, D) contiguous in x's dtype; dparameter (1,) in parameter's dtype; dw (None without weight)
        and db (None unless wanted), (D,) in weight's dtype, or x's without one. Bit-equal when repeated.
    Source: derived from the papers of curve_forward.
    """
    dy, x = with_unit_stride(dy), with_unit_stride(x)
    dx = x.new_empty(x.shape)
    dtype = x.dtype if weight is None else weight.dtype
    if x.numel() == 0:
        nothing = no_gradient(weight is not None, x, dtype), no_gradient(bias, x, dtype)
        return dx, parameter.new_zeros(1), *nothing
    tile = tile_shape(x.shape[1], COLUMNS)
    blocks = triton.cdiv(x.shape[1], tile["COLS"])
    groups = (programs or persistent_programs(x, tile)) // blocks
    groups = min(max(1, groups), triton.cdiv(x.shape[0], tile["ROWS"]))
    dw, db = partial_sums(weight is not None, groups, x), partial_sums(bias, groups, x)
    dparameter = x.new_empty(groups * blocks, 1, dtype=accumulation_dtype(x))
    arguments = (dy, parameter, weight, dx, dparameter, dw, db)
    sizes = (*x.shape, x.stride(0), dy.stride(0), float(scale), blocks)
    launch(_backward, groups * blocks, x, *arguments, *sizes, CURVE=curve, **tile)
    return dx, total(dparameter, parameter.dtype), total(dw, dtype), total(db, dtype)


@triton.jit(do_not_specialize=["rows"])
def _forward(
    x_ptr,
    parameter_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    rows,
    D,
    x_stride,
    scale: tl.float64,  # else a float argument arrives as float32
    blocks,
    CURVE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """One tile a program: x is read once, y written once."""
    row = rows_of(tl.program_id(0) // blocks, ROWS)
    col = tl.program_id(0) % blocks * COLS + tl.arange(0, COLS)
    inside = (row < rows)[:, None] & (col < D)[None, :]
    x = load_tile(x_ptr, row, x_stride, col, inside, ACC)
    parameter, scale = tl.load(parameter_ptr).to(ACC), tl.full((), scale, ACC)
    value, _, _ = curve(x, parameter, scale, CURVE)
    store_tile(y_ptr, row, D, col, inside, affine(value, weight_ptr, bias_ptr, col, col < D, ACC))


@triton.jit(do_not_specialize=["rows"])
def _backward(
    x_ptr,
    dy_ptr,
    parameter_ptr,
    weight_ptr,
    dx_ptr,
    dparameter_ptr,
    dw_ptr,
    db_ptr,
    rows,
    D,
    x_stride,
    dy_stride,
    scale: tl.float64,
    blocks,
    CURVE: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """A block of columns and every so many-th tile of rows: x and dy are read once, dx is written once."""
    block, group = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    col = block * COLS + tl.arange(0, COLS)
    parameter, scale = tl.load(parameter_ptr).to(ACC), tl.full((), scale, ACC)
    dw, db = tl.zeros((ROWS, COLS), ACC), tl.zeros((ROWS, COLS), ACC)
    dparameter = tl.zeros((ROWS, COLS), ACC)
    groups = tl.num_programs(0) // blocks
    for tile in tl.range(group, tl.cdiv(rows, ROWS), groups, num_stages=2):  # loads ahead
        row = rows_of(tile, ROWS)
        inside = (row < rows)[:, None] & (col < D)[None, :]
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        gradient = affine(dy, weight_ptr, None, col, col < D, ACC)
        value, by_x, by_parameter = curve(x, parameter, scale, CURVE)
        store_tile(dx_ptr, row, D, col, inside, gradient * by_x)
        dparameter += gradient * by_parameter
        dw += dy * value
        db += dy
    tl.store(dparameter_ptr + tl.program_id(0), tl.sum(dparameter))
    store_partial(dw_ptr, group, D, col, col < D, dw)
    store_partial(db_ptr, group, D, col, col < D, db)
