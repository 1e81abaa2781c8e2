"""LayerNorm's and RMSNorm's kernels against float64, on the GPU or interpreted."""

import pytest
import torch
from torch.testing import assert_close

from normcourse.measures import assert_rows_equal_alone
from normlib import gradients
from normlib.kernels import launch, rows, wide
from tests.library.kernel_device import (
    DEVICE,
    DTYPES,
    EPS,
    assert_near,
    draw,
    float64,
    steps_of,
    unchanged,
)
from tests.tolerances import assert_same_bits, computed_in

CENTRE = pytest.mark.parametrize("centre", [True, False], ids=["layer_norm", "rms_norm"])
PATHS = pytest.mark.parametrize("path", ["one pass", "wide"])


def forward_and_backward(dy, x, weight, bias, eps=EPS, centre=True, **options):
    """y, mean, rstd, dx, dw, db of the kernels."""
    y, mean, rstd = rows.norm_forward(x, weight, bias, eps, centre=centre)
    return (
        y,
        mean,
        rstd,
        *rows.norm_backward(dy, x, weight, mean, rstd, bias=bias is not None, **options),
    )


def truth(dy, x, weight, bias, eps=EPS, centre=True):
    """The same six in float64: the definition, and autograd."""
    dy, x, weight, bias = float64(dy, x, weight, bias)
    leaves = [t.requires_grad_() for t in (x, weight, bias) if t is not None]
    mean = (
        x.mean(-1, keepdim=True) if centre else torch.zeros(1, dtype=torch.float64, device=x.device)
    )
    centred = x - mean
    correction = centred.mean(-1, keepdim=True) if centre else 0.0
    centred = centred - correction
    rstd = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    y = centred * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    grads = iter(torch.autograd.grad(y, leaves, dy))
    dx, dw, db = (None if t is None else next(grads) for t in (x, weight, bias))
    mean = (mean + correction).squeeze(-1).detach() if centre else None
    return y.detach(), mean, rstd.squeeze(-1).detach(), dx, dw, db


def assert_all_near(got, dy, x, weight, bias, eps=EPS, centre=True):
    want = truth(dy, x, weight, bias, eps, centre)
    y, mean, rstd, dx, dw, db = want
    dy, x64, weight64 = float64(dy, x, weight)
    size = x64.shape[-1]
    xhat = ((x64 - mean[:, None]) if centre else x64) * rstd[:, None]
    gradient = dy if weight is None else dy * weight64
    largest = xhat.abs().amax(-1, keepdim=True)
    projection = gradient.abs().mean(-1, keepdim=True) * (1 + largest.square())
    parameter = x.dtype if weight is None else weight.dtype
    steps, acc = steps_of(size), computed_in(x.dtype)
    assert_near(got[0], y, x.dtype, largest * (1 if weight is None else weight64.abs()), steps)
    assert_near(got[2], rstd, acc, 0, steps)
    assert_near(got[3], dx, x.dtype, rstd[:, None] * (gradient.abs() + projection), steps)
    steps = steps_of(size, len(x))
    if centre:
        assert_near(got[1], mean, acc, x64.std(-1, correction=0), 1)
    if weight is not None:
        assert_near(got[4], dw, parameter, (dy.abs() * largest).sum(0), steps)
    if bias is not None:
        assert_near(got[5], db, parameter, dy.abs().sum(0), steps)
    assert [a is None for a in got] == [a is None for a in want]


def check(dy, x, weight, bias, eps=EPS, centre=True, **options):
    def run(*tensors):
        return forward_and_backward(*tensors, eps=eps, centre=centre, **options)

    got = unchanged(run, dy, x, weight, bias)
    assert_all_near(got, dy, x, weight, bias, eps, centre)
    assert got[0].is_contiguous() and got[3].is_contiguous()
    return got


def inputs(*shape, dtype=torch.float32, **kind):
    """dy, x, weight, bias."""
    vectors = [draw(shape[-1], seed=seed, dtype=dtype) for seed in (2, 3)]
    return draw(*shape, seed=1, dtype=dtype), draw(*shape, dtype=dtype, **kind), *vectors


def take(path, monkeypatch):
    """wide: also short rows go the way of long ones, in pieces of 256."""
    if path == "wide":
        monkeypatch.setattr(rows, "FORWARD_BYTES", 0)
        monkeypatch.setattr(rows, "BACKWARD_BYTES", 0)
        monkeypatch.setattr(wide, "PIECE", 256)
        monkeypatch.setattr(wide, "COLUMNS", 256)


@CENTRE
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5000, 1), (700, 3), (35, 127), (5, 1000)], ids=str)
def test_every_output_and_gradient(shape, dtype, centre):
    check(*inputs(*shape, dtype=dtype), centre=centre)


@CENTRE
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_wide_row_in_pieces(dtype, centre, monkeypatch):
    take("wide", monkeypatch)
    check(*inputs(2, 1000, dtype=dtype), centre=centre)


@CENTRE
@PATHS
@pytest.mark.parametrize("shape", [(35, 24), (5, 700)], ids=str)
def test_the_same_bits_without_the_other_rows(shape, path, centre, monkeypatch):
    take(path, monkeypatch)
    dy, x, weight, bias = inputs(*shape)

    def call(dy, x):
        y, mean, rstd, dx, _, _ = forward_and_backward(dy, x, weight, bias, centre=centre)
        return y, mean, rstd, dx

    assert_rows_equal_alone(call, dy, x, rows=[0, shape[0] // 2, shape[0] - 1])


@CENTRE
@pytest.mark.slow  # rows in several pieces are tried above
def test_a_row_of_65543(centre, monkeypatch):
    monkeypatch.setattr(wide, "COLUMNS", 8192)  # fewer programs, each of them slow if interpreted
    check(*inputs(2, 65_536 + 7, dtype=torch.bfloat16), centre=centre)


@CENTRE
def test_the_longest_rows_that_fit_and_the_next(centre):
    for columns in (rows.BACKWARD_BYTES // 4, rows.BACKWARD_BYTES // 4 + 1):
        check(*inputs(2, columns), centre=centre)
    for columns in (rows.FORWARD_BYTES // 4, rows.FORWARD_BYTES // 4 + 1):
        dy, x, weight, bias = inputs(1, columns)
        y, _, _ = rows.norm_forward(x, weight, bias, EPS, centre=centre)
        want = truth(dy, x, weight, bias, centre=centre)[0]
        assert_near(y, want, x.dtype, 5, steps_of(columns))  # 5: |xhat| and the weight are smaller


@CENTRE
@pytest.mark.parametrize("shape", [(9, 7), (3, 1000)], ids=str)
def test_gradients_agree_with_the_closed_form(shape, centre):
    dy, x, weight, bias = inputs(*shape, dtype=torch.float64)
    got = forward_and_backward(dy, x, weight, bias, centre=centre)[3:]
    if centre:
        want = gradients.layer_norm_backward(dy, x, shape[1:], weight, bias, EPS)
    else:
        want = (*gradients.rms_norm_backward(dy, x, shape[1:], weight, EPS), dy.sum(0))
    assert_close(got, want, rtol=1e-12, atol=1e-12)


HARD = {  # name: what to make of normal numbers
    "large mean": lambda x: x + 1e4,
    "large negative mean": lambda x: x - 3e4,
    "tiny scale": lambda x: x * 1e-6,
    "huge scale": lambda x: x * 1e15,
    "first piece far from the rest": lambda x: (
        x + 1e3 * (torch.arange(x.shape[1], device=DEVICE) < 256)
    ),
    "last piece far from the rest": lambda x: (
        x + 1e3 * (torch.arange(x.shape[1], device=DEVICE) >= 768)
    ),
    "one outlier": lambda x: x + 1e4 * (torch.arange(x.shape[1], device=DEVICE) == 700),
}


@CENTRE
@PATHS
@pytest.mark.parametrize("kind", HARD)
def test_hard_inputs(kind, path, centre, monkeypatch):
    take(path, monkeypatch)
    dy, x, weight, bias = inputs(2, 1000)
    check(dy, HARD[kind](x), weight, bias, eps=1e-14, centre=centre)


@CENTRE
@PATHS
def test_constant_rows(path, centre, monkeypatch):
    take(path, monkeypatch)
    dy, x, weight, bias = inputs(3, 1000)
    # not exact in float32, nor is the sum of a thousand
    x[:] = torch.tensor([[0.0], [3.1], [-70_000.3]])
    got = check(dy, x, weight, bias, centre=centre)
    if centre:
        assert torch.equal(got[0], bias.expand(3, -1))


@CENTRE
@PATHS
def test_rows_anywhere_in_memory(path, centre, monkeypatch):
    take(path, monkeypatch)
    dy, x, weight, bias = inputs(4, 320)
    vectors = weight[:299], bias[:299]
    check(dy[::2, 5:304], x[1::2, 10:309], *vectors, centre=centre)  # every other row, some columns
    check(
        dy[:1, :299].expand(2, -1), x[0].as_strided((2, 299), (1, 1)), *vectors, centre=centre
    )  # overlapping
    check(
        dy[:2, :299].T.contiguous().T, x[:2, :299].T.contiguous().T, *vectors, centre=centre
    )  # columns first
    check(dy[0, 0].expand(2, 299), x[:2, :299], *vectors, centre=centre)  # the gradient of a sum


@CENTRE
@PATHS
def test_without_weight_or_bias(path, centre, monkeypatch):
    take(path, monkeypatch)
    dy, x, weight, bias = inputs(2, 300, dtype=torch.float16)
    for parameters in ((None, None), (weight, None), (None, bias), (weight, bias)):
        check(dy, x, *parameters, centre=centre)


@PATHS
def test_parameters_of_another_dtype(path, monkeypatch):
    take(path, monkeypatch)
    dy, x, weight, bias = inputs(2, 300, dtype=torch.bfloat16)
    got = forward_and_backward(dy, x, weight.float(), bias.float())
    want = truth(dy, x, weight, bias)
    assert got[0].dtype == x.dtype and got[4].dtype == got[5].dtype == torch.float32
    assert_near(got[4], want[4], torch.float32, dy.double().abs().sum(0) * 5, steps_of(300))
    got = forward_and_backward(dy.float(), x.float(), weight, bias)
    assert_near(got[5], want[5], torch.bfloat16, dy.double().abs().sum(0), steps_of(300))


@CENTRE
@PATHS
def test_sums_depend_on_the_number_of_programs_by_rounding_only(path, centre, monkeypatch):
    take(path, monkeypatch)
    monkeypatch.setattr(launch, "TILE", 512)
    rows_in_a_tile = 2 if path == "wide" else 1
    arguments = inputs(3 * rows_in_a_tile + 1, 300)

    def found(programs):
        for module in (launch, rows):  # which took the name when it was imported
            monkeypatch.setattr(module, "persistent_programs", lambda *_: programs)
        return check(*arguments, centre=centre)

    first = found(2)
    for programs in (2, 1000):
        got = found(programs)
        assert_same_bits(first[:4], got[:4])
        if programs == 2:
            assert_same_bits(first, got)


@CENTRE
def test_half_types_are_summed_in_float32(centre):
    """In bfloat16 the sum of 5000 ones would stop at 256."""
    dy, x, weight, bias = inputs(5000, 3, dtype=torch.bfloat16)
    db = check(torch.ones_like(dy), x, weight, bias, centre=centre)[5]
    assert torch.equal(db, torch.full_like(db, 5000))


@CENTRE
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (0, 70_000)], ids=str)
def test_nothing_to_do(shape, centre):
    dy, x, weight, bias = inputs(*shape, dtype=torch.float16)
    y, mean, rstd, dx, dw, db = forward_and_backward(dy, x, weight, bias, centre=centre)
    assert y.shape == dx.shape == shape and y.dtype == dx.dtype == torch.float16
    assert rstd.shape == shape[:1] and rstd.dtype == torch.float32 and rstd.isnan().all()
    assert (mean is None) != centre
    for grad in (dw, db):
        assert torch.equal(grad, torch.zeros_like(weight))


def test_eps_zero_past_the_last_row():
    """A tile of 682 rows of which 5 exist: those that do not exist must not divide by 0."""
    check(*inputs(5, 3), eps=0.0)


def test_eps_is_not_rounded_to_float32():
    dy, x, weight, bias = inputs(3, 5, dtype=torch.float64)
    check(dy, x * 1e-6, weight, bias, eps=1e-12 / 3)


def test_nan_and_infinity_stay_in_their_row():
    dy, x, weight, bias = inputs(3, 9)
    x[1, 4] = torch.nan
    got, want = forward_and_backward(dy, x, weight, bias), truth(dy, x, weight, bias)
    for i in (0, 3):
        assert torch.equal(got[i].isnan(), want[i].isnan())
