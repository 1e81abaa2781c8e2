"""DyT and DyISRU: x is read once and y written once; the backward recomputes the curve in float32.

A curve's value and its two derivatives are in curves.py.
"""

import triton
import triton.language as tl
from torch import Tensor

from normlib.kernels.curves import value_and_slopes
from normlib.kernels.launch import (
    accumulation_dtype,
    column_groups,
    launch,
    no_gradient,
    partial_sums,
    tile_shape,
    total,
    with_unit_stride,
)
from normlib.kernels.tiles import affine, load_tile, rows_of, store_partial, store_tile

COLUMNS = 1024  # of a tile at most


def curve_forward(
    x: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    *,
    kind: str,
    out: Tensor | None = None,
) -> Tensor:
    """y = w value(x) + b.

    [EQ-DYT] [EQ-DYISRU]

    Args:
        x: (M, D), rows of any stride.
        parameter: (1,): alpha of kind "tanh", value = scale tanh(alpha x / scale); c of kind
            "isru", value = scale x / sqrt(x^2 + c), positive.
        weight, bias: (D,) of any floating dtype, or None.
        out: where the result goes, contiguous in x's shape and dtype; None for new memory.
    Returns: (M, D) contiguous in x's dtype, rounded once.
    Source: Zhu et al. 2025, equation (1); Stollenwerk 2025.
    """
    x = with_unit_stride(x)
    rows, columns = x.shape
    y = x.new_empty(rows, columns) if out is None else out
    if x.numel() == 0:
        return y
    tile = tile_shape(columns, COLUMNS)
    blocks = triton.cdiv(columns, tile["COLS"])
    programs = triton.cdiv(rows, tile["ROWS"]) * blocks
    launch(
        _forward,
        programs,
        x,
        parameter_ptr=parameter,
        weight_ptr=weight,
        bias_ptr=bias,
        y_ptr=y,
        rows=rows,
        D=columns,
        x_stride=x.stride(0),
        scale=float(scale),
        blocks=blocks,
        KIND=kind,
        **tile,
    )
    return y


def curve_backward(
    dy: Tensor,
    x: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    scale: float,
    *,
    kind: str,
    bias: bool,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients in x, parameter, weight and bias.

    [EQ-DYT-GRAD] [EQ-DYISRU-GRAD]

    Args: as curve_forward; dy (M, D), rows of any stride; bias: whether its gradient is wanted;
        out: where dx goes, as curve_forward's.
    Returns: dx (M, D) contiguous in x's dtype; dparameter (1,) in parameter's dtype; dw (None
        without weight) and db (None unless wanted), (D,) in weight's dtype, or x's without one.
        Bit-equal when repeated.
    Source: derived from the papers of curve_forward.
    """
    dy = with_unit_stride(dy)
    x = with_unit_stride(x)
    dx = x.new_empty(x.shape) if out is None else out
    dtype = x.dtype if weight is None else weight.dtype
    if x.numel() == 0:
        dw = no_gradient(weight is not None, x, dtype)
        db = no_gradient(bias, x, dtype)
        return dx, parameter.new_zeros(1), dw, db
    rows, columns = x.shape
    tile = tile_shape(columns, COLUMNS)
    blocks, groups = column_groups(x, tile)
    dparameter = x.new_empty(groups * blocks, 1, dtype=accumulation_dtype(x))
    dw = partial_sums(weight is not None, groups, x)
    db = partial_sums(bias, groups, x)
    launch(
        _backward,
        groups * blocks,
        x,
        dy_ptr=dy,
        parameter_ptr=parameter,
        weight_ptr=weight,
        dx_ptr=dx,
        dparameter_ptr=dparameter,
        dw_ptr=dw,
        db_ptr=db,
        rows=rows,
        D=columns,
        x_stride=x.stride(0),
        dy_stride=dy.stride(0),
        scale=float(scale),
        blocks=blocks,
        KIND=kind,
        **tile,
    )
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
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """One tile a program: x is read once, y written once.

    [EQ-DYT] [EQ-DYISRU]
    """
    block = tl.program_id(0) % blocks
    row = rows_of(tl.program_id(0) // blocks, ROWS)  # (ROWS,)
    col = block * COLS + tl.arange(0, COLS)  # (COLS,)
    in_row = col < D
    inside = (row < rows)[:, None] & in_row[None, :]  # (ROWS, COLS)
    x = load_tile(x_ptr, row, x_stride, col, inside, ACC)  # (ROWS, COLS)
    parameter = tl.load(parameter_ptr).to(ACC)
    scale = tl.full((), scale, ACC)

    # y = w value(x) + b
    value, _, _ = value_and_slopes(x, parameter, scale, KIND)
    y = affine(value, weight_ptr, bias_ptr, col, in_row, ACC)
    store_tile(y_ptr, row, D, col, inside, y)


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
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    ACC: tl.constexpr,
):
    """A block of columns and every so many-th tile of rows.

    x and dy are read once, dx is written once.

        g = w dy
        dx = g (value by x),   dparameter = sum of g (value by parameter)
        dw = sum of dy value,   db = sum of dy

    [EQ-DYT-GRAD] [EQ-DYISRU-GRAD]
    """
    block = tl.program_id(0) % blocks
    group = tl.program_id(0) // blocks
    groups = tl.num_programs(0) // blocks
    col = block * COLS + tl.arange(0, COLS)  # (COLS,)
    in_row = col < D
    parameter = tl.load(parameter_ptr).to(ACC)
    scale = tl.full((), scale, ACC)
    dparameter = tl.zeros((ROWS, COLS), ACC)
    dw = tl.zeros((ROWS, COLS), ACC)
    db = tl.zeros((ROWS, COLS), ACC)
    tiles = tl.cdiv(rows, ROWS)
    for tile in tl.range(group, tiles, groups, num_stages=2):  # loads ahead
        row = rows_of(tile, ROWS)  # (ROWS,)
        inside = (row < rows)[:, None] & in_row[None, :]  # (ROWS, COLS)
        x = load_tile(x_ptr, row, x_stride, col, inside, ACC)  # (ROWS, COLS)
        dy = load_tile(dy_ptr, row, dy_stride, col, inside, ACC)
        value, by_x, by_parameter = value_and_slopes(x, parameter, scale, KIND)

        # g = w dy
        g = affine(dy, weight_ptr, None, col, in_row, ACC)

        # dx = g (value by x)
        store_tile(dx_ptr, row, D, col, inside, g * by_x)

        # dparameter = sum of g (value by parameter),   dw = sum of dy value,   db = sum of dy
        dparameter += g * by_parameter
        dw += dy * value
        db += dy
    tl.store(dparameter_ptr + tl.program_id(0), tl.sum(dparameter))
    store_partial(dw_ptr, group, D, col, in_row, dw)
    store_partial(db_ptr, group, D, col, in_row, db)
