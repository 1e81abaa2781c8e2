"""dyt, dyisru, isru and softcap against float64 and against a second witness.

Half types, tails, transforms, errors.
"""

import math

import pytest
import torch
from torch.testing import assert_close

from normlib import functional, gradients
from tests.library.norm_cases import draw, output_and_gradients

EPS32 = torch.finfo(torch.float32).eps
HALF = [torch.bfloat16, torch.float16]
SHAPES = [(), (7,), (1, 1), (5, 3), (2, 5, 4), (2, 3, 4, 2), (2, 3, 1, 2, 2)]
FUNCTIONS = ["dyt", "dyisru", "isru", "softcap"]
LEARNED = ["dyt", "dyisru"]  # with a number, a weight and a bias to learn


def number(value, dtype=torch.float64):
    return torch.tensor(value, dtype=dtype)


def call(name, scale=2.0):
    """The function of a name, of an input alone or with (alpha or c, weight, bias)."""
    match name:
        case "isru":
            return lambda x: functional.isru(x, 0.7)
        case "softcap":
            return lambda x: functional.softcap(x, 0.7)
    return lambda x, a=None, *affine: getattr(functional, name)(
        x, number(0.7, x.dtype) if a is None else a, *affine, scale=scale
    )


def by_hand(name, x, a=0.7, scale=2.0):
    """The curve at one Python number."""
    match name:
        case "dyt":
            return scale * math.tanh(a * x / scale)
        case "dyisru":
            return scale * x / math.hypot(x, math.sqrt(a))
        case "isru":
            return x / math.sqrt(1 + a * x * x)
        case "softcap":
            return a * math.tanh(x / a)


def operands(shape, dtype=torch.float64):
    """x, alpha or c, weight, bias."""
    size = shape[-1:]
    parameters = (
        draw(1, seed=1).abs() if shape else number(0.6),
        draw(*size, seed=2),
        draw(*size, seed=3),
    )
    return [t.to(dtype) for t in (draw(*shape), *parameters)]


# Values and gradients


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_by_hand(name, shape):  # [EQ-DYT] [EQ-DYISRU] [EQ-ISRU] [EQ-SOFTCAP]
    x = 3 * draw(*shape)
    want = number([by_hand(name, v) for v in x.flatten().tolist()]).reshape(shape)
    assert_close(call(name)(x), want, rtol=1e-14, atol=0)  # some 10 roundings of 1e-16


@pytest.mark.parametrize("name", LEARNED)
def test_gradients_of_a_number_without_dimensions(name):  # [EQ-DYT-GRAD] [EQ-DYISRU-GRAD]
    tensors, dy = operands(()), draw(seed=4)
    _, *got = output_and_gradients(call(name), dy, *tensors)
    want = getattr(gradients, f"{name}_backward")(dy, *tensors, scale=2.0)
    for mine, witness in zip(got, want, strict=True):
        assert_close(mine, witness, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_the_fixed_curves(shape):  # [EQ-SOFTCAP-GRAD] [EQ-ISRU]
    x, dy = draw(*shape), draw(*shape, seed=4)
    (want,) = gradients.softcap_backward(dy, x, 0.7)
    # 1 - t^2 cancels
    assert_close(output_and_gradients(call("softcap"), dy, x)[1], want, rtol=0, atol=1e-14)
    slope = (1 + 0.7 * x.square()).pow(-1.5)
    assert_close(output_and_gradients(call("isru"), dy, x)[1], dy * slope, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_against_float64(name):
    x = torch.cat([draw(2000) * 3, 10.0 ** torch.linspace(-30, 4, 200).double()]).float()
    want = call(name)(x.double())
    got = call(name)(x, number(0.7, torch.float32)) if name in LEARNED else call(name)(x)
    # At most 5 roundings before and after the curve, whose relative slope is at most 1, and 2 eps
    # in it.
    assert_close(got.double(), want, rtol=8 * EPS32, atol=0)


@pytest.mark.parametrize("name", LEARNED)
def test_the_scale_is_a_matter_of_folding(name):
    x, a, w, b = operands((5, 4))
    whole = call(name, scale=3.0)(x, a, w, b)
    folded = call(name, scale=1.0)(x, a / 3 if name == "dyt" else a, 3 * w, b)
    assert_close(whole, folded, rtol=1e-13, atol=1e-15)


def test_the_default_scale_is_the_root_of_the_number_of_features():
    x, c, w, b = operands((5, 6))
    root = math.sqrt(6)
    assert torch.equal(functional.dyisru(x, c), functional.dyisru(x, c, scale=root))
    assert torch.equal(functional.dyisru(x, c, w, b), functional.dyisru(x, c, w, b, root))
    images = draw(2, 6, 3, 3)
    w = w.reshape(6, 1, 1)
    assert torch.equal(functional.dyisru(images, c, w), functional.dyisru(images, c, w, scale=root))
    x, w = draw(5, 2, 3), draw(2, 3)
    assert torch.equal(functional.dyisru(x, c, w), functional.dyisru(x, c, w, scale=root))


def test_dyisru_with_the_true_constant_is_rms_norm():  # [EQ-DYISRU-EXACT]
    x, w = draw(5, 6), draw(6, seed=1)
    others = x.square().sum(-1, keepdim=True) - x.square()
    assert_close(functional.dyisru(x, others, w), functional.rms_norm(x, (6,), w, 0.0))
    assert_close(functional.dyisru(x, others + 6 * 0.3), functional.rms_norm(x, (6,), eps=0.3))


def test_relatives():
    x = draw(50)
    assert_close(functional.softcap(x, 0.7), functional.dyt(x, number(1.0), scale=0.7))
    assert_close(functional.isru(x, 0.25), functional.dyisru(x, number(4.0), scale=2.0))
    assert_close(functional.dyt(x, number(-0.7)), -functional.dyt(x, number(0.7)))


def test_alpha_zero_is_the_bias_and_can_learn():
    x, _, w, b = operands((5, 4))
    dy = draw(5, 4, seed=4)
    y, dx, dalpha, *_ = output_and_gradients(call("dyt"), dy, x, torch.zeros(1).double(), w, b)
    assert torch.equal(y, b.expand(5, 4)) and not dx.any()
    assert_close(dalpha, (w * dy * x).sum()[None])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_bfloat16_keeps_a_gradient_where_eager_tanh_has_none(sign):  # |alpha x| = 4
    x = torch.full((3,), 8 * sign, dtype=torch.bfloat16)
    alpha, dy = torch.tensor([0.5], dtype=torch.bfloat16), torch.ones_like(x)
    eager = output_and_gradients(lambda x, a: torch.tanh(a * x), dy, x, alpha)
    assert not eager[1].any() and not eager[2].any()
    _, dx, dalpha = output_and_gradients(functional.dyt, dy, x, alpha)
    sech2 = 1 / math.cosh(4.0) ** 2
    # the rounding to bfloat16; float32's own error is 1e-4 of it
    within = {"rtol": 2**-8, "atol": 0}
    assert_close(dx, torch.full_like(x, 0.5 * sech2), **within)
    assert_close(dalpha, torch.full_like(alpha, 3 * 8 * sign * sech2), **within)
    softcapped = output_and_gradients(lambda x: functional.softcap(x, 2.0), dy, x)[1]
    assert bool((softcapped > 0).all())


# Tails


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e15, 1e30, 3e38])
@pytest.mark.parametrize("name", LEARNED)
def test_extreme_inputs_stay_finite(name, size):
    x = torch.tensor([-size, 0.0, size])
    a, w, b = torch.tensor([0.5]), torch.ones(3), torch.zeros(3)
    y, *grads = output_and_gradients(call(name), torch.ones(3), x, a, w, b)
    assert all(bool(t.isfinite().all()) for t in (y, *grads))
    limit = min(2.0, size * (0.5 if name == "dyt" else 2 / math.sqrt(0.5)))
    assert_close(y, torch.tensor([-limit, 0.0, limit]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("c", [1e-34, 1e-10, 1e10, 1e34])
def test_extreme_constants_stay_finite(c):
    x = torch.tensor([-1e30, -1.0, 0.0, 1e-30, 1.0])
    y, *grads = output_and_gradients(call("dyisru"), torch.ones(5), x, torch.tensor([c]))
    assert bool(y.isfinite().all()) and all(bool(g.isfinite().all()) for g in grads)
    want = [2 * v / math.hypot(v, math.sqrt(c)) for v in x.tolist()]
    assert_close(y, torch.tensor(want), rtol=1e-6, atol=0)
    assert_close(grads[0][2], torch.tensor(2 / math.sqrt(c)), rtol=1e-6, atol=0)


def test_tails_decay_as_said():  # A78: x^-3 against an exponential, float64
    x = torch.tensor([20.0, 40.0], dtype=torch.float64)
    slope = output_and_gradients(call("dyisru"), torch.ones(2).double(), x)[1]
    assert_close(slope[0] / slope[1], number(8.0), rtol=1e-2, atol=0)  # 1 - c / x^2 away
    slope = output_and_gradients(call("dyt"), torch.ones(2).double(), x)[1]
    assert_close(torch.log(slope[0] / slope[1]), number(2 * 0.7 / 2 * 20), rtol=1e-2, atol=0)


# Transforms, layouts, derivatives of derivatives


@pytest.mark.parametrize("name", LEARNED)
def test_compiled_for_inputs_of_any_size(name):
    torch.compiler.reset()  # another test's shapes would make this one dynamic
    tensors, dy = operands((5, 4), torch.float32), draw(5, 4, seed=4, dtype=torch.float32)
    compiled = torch.compile(call(name), fullgraph=True, backend="aot_eager", dynamic=True)
    want = output_and_gradients(call(name), dy, *tensors)
    for mine, eager in zip(output_and_gradients(compiled, dy, *tensors), want, strict=True):
        # sums of 20 may change their order
        assert_close(mine, eager, rtol=8 * EPS32, atol=20 * EPS32)


@pytest.mark.parametrize("dtype", HALF)
def test_compiled_half_types_keep_the_gradient(dtype):
    x, dy = torch.full((3,), 8.0, dtype=dtype), torch.ones(3, dtype=dtype)
    compiled = torch.compile(call("dyt", scale=1.0), fullgraph=True, backend="aot_eager")
    eager = output_and_gradients(call("dyt", scale=1.0), dy, x)[1]
    assert torch.equal(output_and_gradients(compiled, dy, x)[1], eager) and bool(eager.all())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts(name):
    x = draw(4, 6, 5)
    for view in (x.mT, x[::2, :, 1::2], x[:0], x[:, :, :0]):
        if name == "dyisru" and not view.shape[-1]:
            continue  # no feature, no scale
        got = call(name)(view)
        # hypot in vectors or one by one
        assert_close(got, call(name)(view.contiguous()), rtol=1e-15, atol=0)
