"""DyT's and DyISRU's kernels against float64, on the GPU if there is one, else interpreted."""

import pytest
import torch
from torch.testing import assert_close

from normcourse.measures import assert_rows_equal_alone
from normlib import gradients
from normlib.kernels import launch, pointwise
from tests.library.kernel_device import (
    DEVICE,
    DTYPES,
    assert_near,
    draw,
    float64,
    steps_of,
    unchanged,
)
from tests.tolerances import assert_same_bits, computed_in

CURVES = pytest.mark.parametrize("kind", ["tanh", "isru"])
SCALE = 3.0


def forward_and_backward(dy, x, parameter, weight, bias, *, scale=SCALE, kind="tanh", **options):
    """y, dx, dparameter, dw, db of the kernels."""
    y = pointwise.curve_forward(x, parameter, weight, bias, scale, kind=kind)
    has_bias = bias is not None
    grads = pointwise.curve_backward(
        dy, x, parameter, weight, scale, kind=kind, bias=has_bias, **options
    )
    return y, *grads


def truth(dy, x, parameter, weight, bias, *, scale=SCALE, kind="tanh"):
    """The same five in float64: the definition, and autograd.

    For tanh it is 1 / cosh^2, which does not cancel.
    """
    dy, x, parameter, weight, bias = float64(dy, x, parameter, weight, bias)
    if kind == "tanh":
        value, slope = (
            scale * torch.tanh(parameter * x / scale),
            torch.cosh(parameter * x / scale) ** -2,
        )
        by_x, by_parameter = parameter * slope, x * slope
    else:
        length = torch.hypot(x, parameter.sqrt())
        value = scale * x / length
        by_x, by_parameter = (
            scale * (parameter / length) / length / length,
            -value / length / length / 2,
        )
    one = torch.ones(x.shape[1], dtype=torch.float64, device=x.device)
    gradient = dy * (one if weight is None else weight)
    y = value * (one if weight is None else weight) + (0 * one if bias is None else bias)
    products = gradient * by_x, gradient * by_parameter, dy * value
    return y, *products, value, gradient


def check(dy, x, parameter, weight, bias, *, scale=SCALE, kind="tanh", **options):
    def run(*tensors):
        return forward_and_backward(*tensors, scale=scale, kind=kind, **options)

    got = unchanged(run, dy, x, parameter, weight, bias)
    y, dx, by_parameter, by_weight, value, _ = truth(
        dy, x, parameter, weight, bias, scale=scale, kind=kind
    )
    # A rounding of the argument u changes the slope of tanh by 2u roundings, that of isru by at
    # most 3.
    argument = (parameter.double() * x.double() / scale).abs() if kind == "tanh" else 3.0
    steps, vectors = steps_of(), x.dtype if weight is None else weight.dtype
    summed = steps_of(*x.shape)
    scaled = value.abs() * (1 if weight is None else weight.double().abs())
    assert_near(got[0], y, x.dtype, scaled, steps)
    # 1e-30: slopes may underflow
    assert_near(got[1], dx, x.dtype, dx.abs() * (1 + argument) + 1e-30, steps)
    size = (by_parameter.abs() * (1 + argument)).sum().reshape(1)
    assert_near(got[2], by_parameter.sum().reshape(1), parameter.dtype, size, summed)
    if weight is not None:
        assert_near(got[3], by_weight.sum(0), vectors, by_weight.abs().sum(0), summed)
    if bias is not None:
        assert_near(got[4], dy.double().sum(0), vectors, dy.double().abs().sum(0), summed)
    assert (got[3] is None, got[4] is None) == (weight is None, bias is None)
    assert got[0].is_contiguous() and got[1].is_contiguous()
    return got


def inputs(*shape, dtype=torch.float32, parameter=0.7):
    """dy, x, parameter, weight, bias."""
    vectors = [draw(shape[-1], seed=seed, dtype=dtype) for seed in (2, 3)]
    single = torch.tensor([parameter], dtype=dtype, device=DEVICE)
    return draw(*shape, seed=1, dtype=dtype), draw(*shape, dtype=dtype) * 4, single, *vectors


@CURVES
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5000, 1), (700, 3), (35, 127), (5, 1000), (3, 1500)], ids=str)
def test_every_output_and_gradient(shape, dtype, kind):
    check(*inputs(*shape, dtype=dtype), kind=kind)


@CURVES
@pytest.mark.slow  # rows in several pieces are tried above
def test_a_row_of_65543(kind):
    check(*inputs(1, 65_536 + 7, dtype=torch.bfloat16), kind=kind)


@CURVES
def test_the_same_bits_without_the_other_rows(kind):
    dy, x, parameter, weight, bias = inputs(35, 127)

    def call(dy, x):
        return forward_and_backward(dy, x, parameter, weight, bias, kind=kind)[:2]  # y, dx

    assert_rows_equal_alone(call, dy, x, rows=[0, 17, 34])


@CURVES
def test_gradients_agree_with_the_closed_form(kind):
    arguments = inputs(9, 7, dtype=torch.float64)
    closed = gradients.dyt_backward if kind == "tanh" else gradients.dyisru_backward
    got = forward_and_backward(*arguments, kind=kind)[1:]
    assert_close(got, closed(*arguments, SCALE), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_tanh_and_its_slope_to_a_few_units(dtype):
    """Relative to tanh itself, which vanishes at 0, and to a slope that vanishes far out.

    Both signs are tried.
    """
    size = torch.logspace(-6, 1.5, 1021, dtype=torch.float64)
    knee = torch.linspace(0.74, 0.76, 1027, dtype=torch.float64)
    x = torch.cat([size, -size, knee, torch.zeros(1, dtype=torch.float64)]).to(DEVICE, dtype)[None]
    one = torch.ones(1, dtype=dtype, device=DEVICE)
    y, dx, *_ = forward_and_backward(torch.ones_like(x), x, one, None, None, scale=1.0)
    want, u, unit = torch.tanh(x.double()), x.double().abs(), torch.finfo(dtype).eps
    assert ((y.double() - want).abs() <= 4 * unit * want.abs()).all()
    slope = torch.cosh(x.double()) ** -2
    assert ((dx.double() - slope).abs() <= (6 + 2 * u) * unit * slope).all()


@CURVES
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e4, 1e25])
def test_tiny_and_huge_arguments(size, kind):
    dy, x, parameter, weight, bias = inputs(4, 9)
    got = forward_and_backward(dy, x * size, parameter, weight, bias, kind=kind)
    want = truth(dy, x * size, parameter, weight, bias, kind=kind)
    assert_near(got[0], want[0], x.dtype, SCALE * weight.double().abs(), 8)
    # A slope below 1e-30 may be lost.
    assert_near(got[1], want[1], x.dtype, want[1].abs() * 9 + 1e-24, 8)


@CURVES
@pytest.mark.parametrize("parameter", [1e-4, 100.0])
def test_parameters_far_from_one(parameter, kind):
    check(*inputs(5, 9, parameter=parameter), kind=kind)


def test_the_bfloat16_dead_zone_is_not_there():
    x = torch.full((1, 4), 5.0, dtype=torch.bfloat16, device=DEVICE)
    one = torch.ones(1, dtype=torch.bfloat16, device=DEVICE)
    dx = forward_and_backward(torch.ones_like(x), x, one, None, None, scale=1.0)[1]
    assert ((dx.double() / 5.0 - 1.8158323e-4 / 5.0).abs() < 2e-6).all() and (dx > 0).all()


@CURVES
def test_rows_anywhere_in_memory(kind):
    dy, x, parameter, weight, bias = inputs(6, 1300)
    fixed = parameter, weight[:1199], bias[:1199]
    check(dy[::2, 5:1204], x[1::2, 90:1289], *fixed, kind=kind)  # every other row, some columns
    # overlapping
    check(dy[:1, :1199].expand(2, -1), x[0].as_strided((2, 1199), (1, 1)), *fixed, kind=kind)
    # columns first
    check(dy[:2, :1199].T.contiguous().T, x[:2, :1199].T.contiguous().T, *fixed, kind=kind)
    check(dy[0, 0].expand(2, 1199), x[:2, :1199], *fixed, kind=kind)  # the gradient of a sum


@CURVES
def test_without_weight_or_bias(kind):
    dy, x, parameter, weight, bias = inputs(3, 300, dtype=torch.float16)
    for parameters in ((None, None), (weight, None), (None, bias)):
        check(dy, x, parameter, *parameters, kind=kind)


def test_parameters_of_another_dtype():
    dy, x, parameter, weight, bias = inputs(3, 300, dtype=torch.bfloat16)
    check(dy, x, parameter.float(), weight.float(), bias.float())
    check(dy.float(), x.float(), parameter, weight, bias)


@CURVES
@pytest.mark.parametrize("columns", [300, 1100])
def test_sums_depend_on_the_number_of_programs_by_rounding_only(columns, kind, monkeypatch):
    arguments = inputs(13, columns)

    def found(programs):
        monkeypatch.setattr(launch, "persistent_programs", lambda *_: programs)
        return check(*arguments, kind=kind)

    first = found(2)
    for programs in (2, 1000):
        got = found(programs)
        assert_same_bits(first[:2], got[:2])
        if programs == 2:
            assert_same_bits(first, got)


@CURVES
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)], ids=str)
def test_nothing_to_do(shape, kind):
    arguments = inputs(*shape, dtype=torch.float16)
    y, dx, dparameter, dw, db = forward_and_backward(*arguments, kind=kind)
    assert y.shape == dx.shape == shape and y.dtype == dx.dtype == torch.float16
    assert torch.equal(dparameter, torch.zeros_like(arguments[2]))
    for grad in (dw, db):
        assert torch.equal(grad, torch.zeros_like(arguments[3]))


@CURVES
def test_nan_stays(kind):
    dy, x, parameter, weight, bias = inputs(3, 9)
    x[1, 4] = torch.nan
    y, dx, *_ = forward_and_backward(dy, x, parameter, weight, bias, kind=kind)
    assert torch.equal(y.isnan(), x.isnan()) and torch.equal(dx.isnan(), x.isnan())


def test_an_unknown_curve_is_refused():
    with pytest.raises(Exception, match="kind must be tanh or isru"):
        forward_and_backward(*inputs(2, 3), kind="erf")


def test_accumulation_is_what_the_names_say():
    assert [computed_in(dtype) for dtype in DTYPES] == [*[torch.float32] * 3, torch.float64]
