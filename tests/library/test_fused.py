"""normlib.fused against float64: every output and gradient, one rounding.

And what is saved for backward, and what is refused.
"""

import itertools
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normlib import functional, fused, gradients, layers
from normlib.fused import blocks, cpu
from tests.library.norm_cases import draw, output_and_gradients
from tests.library.rejection import error_of
from tests.tolerances import assert_rounded_once, computed_in

pytestmark = pytest.mark.usefixtures("operators_at_every_size")
EPS = 1e-3
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
CURVES = ["dyt", "dyisru"]


def norm(library, shape):
    return lambda x, weight=None: library.rms_norm(x, shape, weight, EPS)


def curve(library, name, scale):
    def run(x, parameter, weight=None, bias=None):
        return getattr(library, name)(x, parameter, weight, bias, scale)

    return run


def magnitudes(function, dy, x, *params):
    """Output and gradients in float64 without cancellation: the sums of their terms' magnitudes.

    f is odd and f' even for both curves, so absolute arguments do it; of c's gradient only the sign
    changes.
    """
    return [
        t.abs()
        for t in output_and_gradients(function, dy.abs(), x.abs(), *(p.abs() for p in params))
    ]


def rms_magnitudes(dy, x, weight):
    """The same for RMSNorm, whose dx is a difference: r (|g| + |xhat| mean |g xhat|)."""
    dims = tuple(range(-weight.dim(), 0))
    r = torch.rsqrt(x.square().mean(dims, keepdim=True) + EPS)
    xhat, g = (x * r).abs(), (dy * weight).abs()
    dw = (dy.abs() * xhat).sum_to_size(weight.shape)
    return [xhat * weight.abs(), r * (g + xhat * (g * xhat).mean(dims, keepdim=True)), dw]


def assert_one_rounding(got, want, magnitude):
    """Half an ulp of the dtype, and 24 half ulps of the dtype computed in.

    They are for at most 24 roundings of a term. Sums are taken in pairs or in float64, which adds a
    few of them at any length.
    """
    roundings = 24 * torch.finfo(computed_in(got.dtype)).eps / 2
    assert_rounded_once(got, want, roundings * magnitude)


def check(ours, truth, backward, sizes, tensors):
    """Output and gradients of ours at the tensors, and the truth at the same numbers in float64.

    backward is of normlib.gradients: autograd through functional's hypot cancels, and is too
    inexact for float64.
    """
    dy = draw(*tensors[0].shape, seed=9, dtype=tensors[0].dtype) - 1
    wide = [t.double() for t in (dy, *tensors)]
    got, want = output_and_gradients(ours, dy, *tensors), [truth(*wide[1:]), *backward(*wide)]
    for one, other, size, argument in zip(
        got, want, sizes(*wide), (tensors[0], *tensors), strict=True
    ):
        assert one.dtype == argument.dtype
        assert_one_rounding(one, other, size)


def check_norm(x, weight):
    shape = tuple(weight.shape)
    backward = lambda dy, x, w: gradients.rms_norm_backward(dy, x, shape, w, EPS)  # noqa: E731
    check(norm(fused, shape), norm(functional, shape), backward, rms_magnitudes, [x, weight])


def check_curve(name, scale, *tensors):
    truth = curve(functional, name, scale)
    backward = lambda *t: getattr(gradients, f"{name}_backward")(*t, scale)  # noqa: E731
    check(
        curve(fused, name, scale), truth, backward, lambda *t: magnitudes(truth, *t), list(tensors)
    )


# Values and gradients

ROWS = [
    (7,),
    (1, 1),
    (5, 1),
    (3, 7),
    (0, 4),
    (3, 0),
    (2, 0, 3),
    (2, 5, 13),
    (700, 100),
    (3, 65_536),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_rms_norm(shape, dtype):  # [EQ-RMS] [EQ-RMS-GRAD]
    check_norm(draw(*shape, dtype=dtype) - 1, draw(shape[-1], seed=1, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_curves(name, shape, dtype):  # [EQ-DYT] [EQ-DYT-GRAD] [EQ-DYISRU] [EQ-DYISRU-GRAD]
    rows = [draw(shape[-1], seed=seed, dtype=dtype) for seed in (1, 2)]
    check_curve(name, 2.5, draw(*shape, dtype=dtype) - 1, torch.tensor([0.7], dtype=dtype), *rows)


@pytest.mark.parametrize("block", [1, 5, 16, 1000])
def test_blocks_of_any_size_give_the_same(block, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", block)
    for dtype in (torch.float64, torch.bfloat16):
        x, weight, bias = (
            draw(9, 13, dtype=dtype) - 1,
            draw(13, seed=1, dtype=dtype),
            draw(13, dtype=dtype),
        )
        check_norm(x, weight)
        for name in CURVES:
            check_curve(name, 1.0, x, torch.tensor([0.7], dtype=dtype), weight, bias)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(5,), (3, 5), (4, 3, 5), (4, 1, 1), (2, 4, 3, 5)], ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_weights_of_features_and_of_channels(name, size, dtype):
    x, weight, bias = (
        draw(2, 4, 3, 5, dtype=dtype) - 1,
        draw(*size, seed=1, dtype=dtype),
        draw(5, seed=2),
    )
    check_curve(name, 2.0, x, torch.tensor(0.7, dtype=dtype), weight, bias.to(dtype))


@pytest.mark.parametrize("name", CURVES)
def test_an_input_without_dimensions(name):
    check_curve(name, 1.0, *(torch.tensor(v, dtype=torch.float64) for v in (1.5, 0.7, -2.0, 0.5)))


@pytest.mark.parametrize("given", list(itertools.product([True, False], repeat=2)), ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_weight_and_bias_may_be_none(name, given):
    x, c = draw(6, 5), torch.tensor([0.7]).double()
    rows = [
        draw(5, seed=seed).requires_grad_() if is_given else None
        for seed, is_given in enumerate(given)
    ]
    for scale in (1.0, 3.0, None)[: 3 if name == "dyisru" else 2]:
        results = []
        for library in (fused, functional):
            leaves = [x.clone().requires_grad_(), c.clone().requires_grad_()]
            y = curve(library, name, scale)(*leaves, *rows)
            wanted = [*leaves, *(row for row in rows if row is not None)]
            results.append([y.detach(), *torch.autograd.grad(y, wanted, draw(6, 5, seed=4))])
        for got, want in zip(*results, strict=True):
            assert_close(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("library", [functional, fused], ids=["functional", "fused"])
@pytest.mark.parametrize("name", CURVES)
def test_no_features_give_an_empty_result(name, library):
    x, one = draw(3, 0), torch.tensor([0.7]).double()
    for row in (None, draw(0)):
        run = lambda *t, row=row: getattr(library, name)(*t, row)  # noqa: E731
        y, dx, slope = output_and_gradients(run, draw(3, 0), x, one)
        assert y.shape == dx.shape == (3, 0) and slope.tolist() == [0.0]
        by_hand = getattr(gradients, f"{name}_backward")(x, x, one, row)
        assert [grad.shape for grad in by_hand[:2]] == [(3, 0), (1,)]
    layer = {"dyt": layers.DyT, "dyisru": layers.DyISRU}[name]
    for is_fused in (False, True):
        y = layer(0, fused=is_fused)(torch.ones(3, 0, requires_grad=True))
        y.sum().backward()
        assert y.shape == (3, 0)


def test_rms_norm_without_weight_over_two_dimensions_and_its_default_eps():
    check_norm(draw(4, 3, 5) - 1, draw(3, 5, seed=1))
    x = draw(4, 3, 5, dtype=torch.float32) * 1e-4  # eps counts
    for eps in (None, 0.0, 0.5):
        dy = draw(4, 3, 5, seed=1, dtype=torch.float32)
        want = output_and_gradients(lambda v, e=eps: functional.rms_norm(v, (3, 5), None, e), dy, x)
        got = output_and_gradients(lambda v, e=eps: fused.rms_norm(v, (3, 5), None, e), dy, x)
        for one, other in zip(got, want, strict=True):  # 24 roundings in two orders
            assert_close(one, other, rtol=0, atol=2e-6 * other.abs().max().item())


@pytest.mark.parametrize("half", DTYPES[2:], ids=str)
def test_float32_parameters_under_a_half_input(half):
    x, weight = draw(40, 12, dtype=half) - 1, draw(12, seed=1, dtype=torch.float32)
    check_norm(x, weight)
    for name in CURVES:
        check_curve(
            name, 1.0, x, torch.tensor([0.7]), weight, draw(12, seed=2, dtype=torch.float32)
        )


@pytest.mark.parametrize("name", ["rms_norm", *CURVES])
def test_strides_do_not_matter_and_results_are_contiguous(name):
    base = draw(6, 8, 10)
    params = [torch.tensor([0.7]).double()] if name in CURVES else []
    run = curve(fused, name, 1.0) if name in CURVES else norm(fused, (5,))
    for x in (
        base[:, :, :5],
        base[:, ::2, 1:6],
        base[:, :5].mT[..., :5],
        base[:1, :1, :5].expand(6, 8, 5),
    ):
        dy = draw(*x.shape[:-1], 1, seed=3).expand(x.shape)
        got = output_and_gradients(run, dy, x, *params)
        want = output_and_gradients(run, dy.contiguous(), x.contiguous(), *params)
        assert all(torch.equal(one, other) for one, other in zip(got, want, strict=True))
        assert got[0].is_contiguous()


def test_dyisru_far_out_and_far_in():
    x = torch.tensor([0.0, 1e-30, 1e-20, 1.0, 1e10, 1e19, 1e30, 3e38, -3e38])
    for c in (1e-30, 1.0, 1e30):
        tensors = (x, torch.tensor([c]), torch.ones(9), torch.zeros(9))
        truth = curve(functional, "dyisru", 1.0)
        want = output_and_gradients(truth, x.sign().double(), *(t.double() for t in tensors))
        got = output_and_gradients(curve(fused, "dyisru", 1.0), x.sign(), *tensors)
        for one, other in zip(got, want, strict=True):
            # against the largest: the slope is 0 from 1 / eps on, where it is less than 1e-13 of
            # that at 0
            assert_close(one.double(), other, rtol=2e-6, atol=2e-6 * other.abs().max().item())


def test_no_dead_zone_in_bfloat16():
    x = torch.full((2, 3), 8.0, dtype=torch.bfloat16)
    run = curve(fused, "dyt", 1.0)
    assert bool(output_and_gradients(run, torch.ones_like(x), x, torch.tensor([0.5]))[1].all())


@pytest.mark.parametrize("c", [1e-34, 1e20, 1e30, 5e34])
def test_dyisru_at_any_c_that_a_layer_can_reach(c):
    """exp(-80) to exp(80), where x^2 + c, its root or 1 / (x^2 + c) may leave float32."""
    knee = torch.tensor(c).sqrt()
    tensors = (
        draw(5, 9, dtype=torch.float32) * knee,
        torch.tensor([c]),
        torch.ones(9),
        torch.zeros(9),
    )
    dy = draw(5, 9, seed=9, dtype=torch.float32)
    truth = curve(functional, "dyisru", 1.0)
    want = output_and_gradients(truth, dy.double(), *(t.double() for t in tensors))
    got = output_and_gradients(curve(fused, "dyisru", 1.0), dy, *tensors)
    for one, other in zip(got, want, strict=True):
        assert_close(one.double(), other, rtol=2e-6, atol=2e-6 * other.abs().max().item())


def test_dyisru_at_infinity_is_its_limit_and_nan_stays():
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([-inf, inf, nan], requires_grad=True)
    for c in (1e-30, 1.0, 1e30):
        y = fused.dyisru(x, torch.tensor([c]), scale=2.0)
        (dx,) = torch.autograd.grad(y.sum(), x)
        assert_close(y.detach(), torch.tensor([-2.0, 2.0, nan]), rtol=0, atol=0, equal_nan=True)
        assert_close(dx, torch.tensor([0.0, 0.0, nan]), rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", CURVES)
def test_a_number_without_scale(name):
    x, parameter = torch.tensor(1.5).double(), torch.tensor(0.7).double()
    assert_close(getattr(fused, name)(x, parameter), getattr(functional, name)(x, parameter))


# LayerNorm on the CPU


@pytest.mark.parametrize("size", [1e15, 1e25, 1e38])
def test_layer_norm_overflows_where_functionals_does(size):
    x = draw(3, 64, dtype=torch.float32) * size
    assert_close(fused.layer_norm(x, (64,)), functional.layer_norm(x, (64,)), equal_nan=True)


@pytest.mark.parametrize(
    "given", list(itertools.product(["none", "half", "float"], repeat=2)), ids=str
)
def test_layer_norm_is_torchs_on_the_cpu(given, monkeypatch):  # [EQ-LN]
    x, dy = draw(8, 12, dtype=torch.bfloat16), draw(8, 12, seed=3, dtype=torch.bfloat16)
    kinds = {"half": torch.bfloat16, "float": torch.float32}
    rows = [None if k == "none" else draw(12, seed=i, dtype=kinds[k]) for i, k in enumerate(given)]
    got = fused.layer_norm(x, (12,), *rows)
    want = functional.layer_norm(
        x.double(), (12,), *(None if r is None else r.double() for r in rows)
    )
    assert got.dtype == x.dtype
    assert_close(got.double(), want, rtol=torch.finfo(x.dtype).eps / 2, atol=1e-6)
    if "float" not in given:
        leaf = x.clone().requires_grad_()
        assert (
            type(fused.layer_norm(leaf, (12,), *rows).grad_fn).__name__
            == "NativeLayerNormBackward0"
        )
        for one, other in zip(
            output_and_gradients(lambda v: fused.layer_norm(v, [12], *rows, EPS), dy, x),
            output_and_gradients(lambda v: F.layer_norm(v, (12,), *rows, EPS), dy, x),
            strict=True,
        ):
            assert torch.equal(one, other)


# What is computed and saved


def saved(run, *tensors):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = run(*(t.requires_grad_() for t in tensors))
    return y, kept


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rms_norm_saves_input_weight_and_one_number_a_row(dtype):
    x, weight = draw(64, 128, dtype=dtype), draw(128, dtype=dtype)
    _, kept = saved(norm(fused, (128,)), x, weight)
    own = [t for t in kept if t.data_ptr() not in (x.data_ptr(), weight.data_ptr()) and t.numel()]
    assert {t.data_ptr() for t in kept} >= {x.data_ptr(), weight.data_ptr()}
    assert [(t.shape, t.dtype) for t in own] == [((64,), torch.promote_types(dtype, torch.float32))]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CURVES)
def test_curves_save_what_their_backward_reads(name, dtype):
    tensors = [
        draw(64, 128, dtype=dtype),
        torch.ones(1, dtype=dtype),
        *(draw(128, dtype=dtype) for _ in "wb"),
    ]
    _, kept = saved(curve(fused, name, 2.0), *tensors)
    assert [t.data_ptr() for t in kept] == [t.data_ptr() for t in tensors[:3]]  # without the bias


@pytest.mark.parametrize("wanted", list(itertools.product([True, False], repeat=4)), ids=str)
def test_only_gradients_asked_for_are_computed(wanted, monkeypatch):
    asked = []

    def spy_on(inner, place):
        def spy(*args, **options):
            asked.append(list(args[place]))
            return inner(*args, **options)

        return spy

    monkeypatch.setattr(cpu, "norm_backward", spy_on(cpu.norm_backward, 4))
    for kind, backward in cpu.CURVE_BACKWARD.items():
        monkeypatch.setitem(cpu.CURVE_BACKWARD, kind, spy_on(backward, 5))
    tensors = [draw(3, 4), torch.tensor([0.7]).double(), draw(4, seed=1), draw(4, seed=2)]
    for tensor, is_wanted in zip(tensors, wanted, strict=True):
        tensor.requires_grad_(is_wanted)
    for run in (
        curve(fused, "dyt", 1.0),
        curve(fused, "dyisru", 1.0),
        lambda x, _, w, b: norm(fused, (4,))(x, w),
    ):
        y = run(*tensors)
        if y.requires_grad:
            y.sum().backward()
        else:
            assert y.grad_fn is None
    assert asked == [list(wanted)] * 2 * any(wanted) + [[wanted[0], wanted[2]]] * (
        wanted[0] or wanted[2]
    )
    assert [tensor.grad is not None for tensor in tensors] == list(wanted)


class Count(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


def test_a_gradient_not_asked_for_costs_no_operation():
    def calls(run, wanted):
        with Count() as count:
            run(wanted)
        return count.calls

    x, row, c, out = draw(3, 4), draw(4), torch.tensor([0.7]).double(), draw(3, 4)
    tanh_backward = partial(cpu.tanh_backward, x, x, c, row, 1.0, out=out)
    isru_backward = partial(cpu.isru_backward, x, x, c, row, 1.0, out=out)
    for run, needed, size in (
        (lambda wanted: cpu.norm_backward(x, x, row, row[:3], wanted, out=out), 0, 2),
        (tanh_backward, 0, 4),
        # c's gradient is a sum over dx x
        (isru_backward, 1, 4),
    ):
        everything = calls(run, [True] * size)
        for place in range(needed, size):
            assert calls(run, [other != place for other in range(size)]) < everything


def test_sums_are_bit_equal_over_100_runs():
    tensors = [
        draw(300, 96, dtype=torch.float32),
        torch.ones(1),
        draw(96).float(),
        draw(96, seed=1).float(),
    ]
    dy = draw(300, 96, seed=2, dtype=torch.float32)
    for run, args in ((norm(fused, (96,)), tensors[::2]), (curve(fused, "dyt", 1.0), tensors)):
        first = output_and_gradients(run, dy, *args)
        for _ in range(100):
            assert all(map(torch.equal, output_and_gradients(run, dy, *args), first))


@pytest.mark.parametrize("kind", ["norm", "tanh", "isru"])
def test_sums_over_blocks_are_in_float64(kind, monkeypatch):
    """In float32 2^24 + 1 is 2^24, and all blocks after the first would be lost."""
    monkeypatch.setattr(blocks, "BLOCK", 1)
    dy = torch.ones(1001, 1)
    dy[0] = 2.0**24
    x, one, dx = torch.ones(1001, 1), torch.ones(1), torch.empty(1001, 1)
    if kind == "norm":
        sums = [cpu.norm_backward(dy, x, None, torch.ones(1001), [True] * 2, out=dx)]
    else:
        backward = cpu.CURVE_BACKWARD[kind]
        sums = backward(dy, x, one, None, 1.0, [True] * 4, out=dx)
    a_row = {  # the terms where dy is 1: of dw, or of dparameter, dw and db
        "norm": [1.0],
        "tanh": [1 - math.tanh(1) ** 2, math.tanh(1), 1.0],
        "isru": [-(0.5**2.5), 0.5**0.5, 1.0],
    }[kind]
    for got, term in zip(sums, a_row, strict=True):
        assert got.dtype == torch.float64
        # a term has few roundings; in float32 the sum would be off by 1000 / 2^24 = 6e-5
        assert_close(got, torch.tensor([(2.0**24 + 1000) * term]).double(), rtol=1e-6, atol=0)


def test_exactness_does_not_fall_with_the_number_of_rows():
    check_norm(draw(1 << 18, 2, dtype=torch.float32), draw(2, seed=1, dtype=torch.float32))


# What is refused

X, P, R = draw(5, 4), draw(1), draw(4)
BAD = {
    "integers": ("layer_norm rms_norm dyt dyisru", lambda f: f(X.long())),
    "complex": ("layer_norm rms_norm dyt dyisru", lambda f: f(X.to(torch.complex128))),
    "a list": ("layer_norm rms_norm dyt dyisru", lambda f: f([1.0])),
    "shape": ("layer_norm rms_norm", lambda f: f(X, (5,))),
    "no tuple": ("layer_norm rms_norm", lambda f: f(X, 4)),
    "weight": ("layer_norm rms_norm", lambda f: f(X, (4,), R[:3])),
    "weight's dtype": ("layer_norm", lambda f: f(X, (4,), R.float())),
    "bias": ("layer_norm", lambda f: f(X, (4,), R, R[:3])),
    "eps": ("layer_norm rms_norm", lambda f: f(X, (4,), eps=-1.0)),
    "no eps": ("rms_norm", lambda f: f(X, (4,), eps=float("nan"))),
    "text as eps": ("layer_norm rms_norm", lambda f: f(X, (4,), eps="1e-5")),
    "scale": ("dyt dyisru", lambda f: f(X, P, scale=0)),
    "complex c": ("dyisru", lambda f: f(X, P.to(torch.complex128))),
    "number": ("dyt dyisru", lambda f: f(X, 0.5)),
    "parameter": ("dyt dyisru", lambda f: f(X, R[:3])),
    "weight ": ("dyt dyisru", lambda f: f(X, P, R[:3])),
    "bias ": ("dyt dyisru", lambda f: f(X, P, R, R.reshape(4, 1))),
}


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for what in BAD for name in BAD[what][0].split()]
)
def test_errors_are_functionals(name, what):
    def call(library):
        function = getattr(library, name)
        if what in ("integers", "complex", "a list"):
            rest = (P,) if name in CURVES else ((4,),)
            return BAD[what][1](lambda x: function(x, *rest))
        return BAD[what][1](function)

    ours, theirs = error_of(call, fused), error_of(call, functional)
    assert theirs is not None and type(ours) is type(theirs) and str(ours) == str(theirs)


@pytest.mark.parametrize(("name", "word"), [("dyt", "alpha"), ("dyisru", "c")])
def test_one_parameter_only(name, word):
    with pytest.raises(
        ValueError, match=rf"^fused.{name} needs one number as {word}, got \(4,\)\. Use func"
    ):
        getattr(fused, name)(X, R)


CALLS = {  # by name: a call of (x, weight or more), and those
    "layer_norm": (lambda x, w, b: fused.layer_norm(x, (4,), w, b), (R, R)),
    "rms_norm": (lambda x, w: fused.rms_norm(x, (4,), w), (R,)),
    "dyt": (fused.dyt, (P, R, R)),
    "dyisru": (fused.dyisru, (P, R, R)),
}


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("name", CALLS)
def test_several_devices_are_refused(name, place):
    """The operators, given one tensor without values, would return what nobody has written."""
    call, params = CALLS[name]
    tensors = [X, *params]
    place = min(place, len(params))
    tensors[place] = tensors[place].to("meta")
    with pytest.raises(
        RuntimeError, match=r"needs all tensors on one device, got input on .* Move one"
    ):
        call(*tensors)
    on_meta = call(*(tensor.to("meta") for tensor in tensors))
    assert on_meta.device.type == "meta" and on_meta.shape == X.shape
