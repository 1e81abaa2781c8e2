"""Closed-form gradients against autograd, complex steps and central differences, in float64."""

import inspect
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from normcourse import draw
from normlib import gradients
from tests.library.norm_cases import BACKWARDS, EPS
from tests.tolerances import assert_rounded_once

UNIT = torch.finfo(torch.float64).eps
PLACES = [(case, shape) for case in BACKWARDS for shape in case.shapes]
every_backward = pytest.mark.parametrize("case", BACKWARDS, ids=str)
every_place = pytest.mark.parametrize(("case", "shape"), PLACES, ids=str)


def tensors_of(case, shape, scale=1.0, mean=0.0):
    """Input of that scale and mean, and parameters."""
    return [draw(*shape) * scale + mean, *case.draw_parameters(shape)]


def autograd(formula, tensors, dy):
    tensors = [t.clone().requires_grad_() for t in tensors]
    return torch.autograd.grad(formula(*tensors), tensors, dy)


def bound(case, tensors, dy):
    """1e-12 (1 + |mean| / std) max|w dy| rstd for the input; for others summands instead of rstd.

    The mean carries a rounding of u |mean|, which moves xhat by u |mean| / std beside its own u. dx
    is rstd (g - mean(g) - xhat mean(g xhat)), so this relative error appears in it at the size of
    rstd max|g|, a few times over. 1e-12 is 4500 u: room for xhat of some units, sums of some
    hundred, two such results.
    """
    x, *parameters = tensors
    size = float(dy.abs().max()) * max([1.0, *(float(p.abs().max()) for p in parameters)])
    offset, rstd = 0.0, 1.0
    if case.groups:
        values = case.groups(x)
        mean = values.mean(1, keepdim=True) * case.centred
        std = torch.sqrt((values - mean).square().mean(1, keepdim=True) + EPS)
        offset, rstd = float((mean.abs() / std).max()), float(1 / std.min())
    units = [rstd, *[x.numel()] * len(parameters)]
    return [1e-12 * (1 + offset) * size * unit for unit in units]


def worst(got, want, bounds):
    """The largest error in units of its bound."""
    for value, truth in zip(got, want, strict=True):
        assert value.shape == truth.shape
        assert value.dtype == truth.dtype
    pairs = zip(got, want, bounds, strict=False)
    return max(float((value - truth).abs().max()) / limit for value, truth, limit in pairs)


MOVES = [(1.0, 0.0), (1.0, 1e6), (1e-6, 0.0), (1e3, 5.0)]  # scale and mean of the input


# [EQ-LN-GRAD] [EQ-RMS-GRAD] [EQ-BN-GRAD] [EQ-GN-GRAD] [EQ-IN-GRAD] [EQ-WN-GRAD] [EQ-DYT-GRAD]
# [EQ-DYISRU-GRAD] [EQ-DERF-GRAD] [EQ-SOFTCAP-GRAD] [EQ-SOFTMAX-GRAD]
@every_place
def test_equal_to_autograd(case, shape):
    for scale, mean in MOVES if case.has_eps else MOVES[:1]:
        tensors = tensors_of(case, shape, scale, mean)
        dy = draw(*shape, seed=9)
        got = case.backward(dy, *tensors)
        # far out the plain formula is worse than torch: it centres once
        is_far = mean == 1e6 and case.centred
        for truth in case.truths()[1:] if is_far else case.truths():
            want = autograd(truth, tensors, dy)
            assert worst(got, want, bound(case, tensors, dy)) <= 1, (scale, mean)


@every_place
def test_equal_to_complex_steps(case, shape):  # exact but for rounding: no difference is taken
    tensors = tensors_of(case, shape)
    dy, direction = draw(*shape, seed=9), [draw(*t.shape, seed=7) for t in tensors]
    grads = case.backward(dy, *tensors)
    for k, (tensor, step, grad) in enumerate(zip(tensors, direction, grads, strict=True)):
        moved = [*tensors[:k], torch.complex(tensor, 1e-30 * step), *tensors[k + 1 :]]
        derivative = case.formula(*moved).imag / 1e-30
        limit = (
            1e-12
            * (1 + float((dy * derivative).abs().sum() + (grad * step).abs().sum()))
            / math.sqrt(EPS)
        )
        assert abs(float((dy * derivative).sum() - (grad * step).sum())) <= limit


@every_backward
def test_equal_to_central_differences(case):
    tensors = tensors_of(case, case.small)
    dy, direction = draw(*case.small, seed=9), [draw(*t.shape, seed=7) for t in tensors]
    direction = [step / step.norm() for step in direction]
    for k, grad in enumerate(case.backward(dy, *tensors)):

        def loss(h, k=k):
            moved = [t + h * direction[k] if j == k else t for j, t in enumerate(tensors)]
            return float((dy * case.formula(*moved)).sum())

        estimates = [(loss(h) - loss(-h)) / (2 * h) for h in (2e-5, 1e-5)]
        # The error in h^2 is a third of what halving h changes; the rest is rounding of the loss
        # over h.
        accuracy = abs(estimates[0] - estimates[1]) + 1e5 * 50 * UNIT * (
            1 + float(dy.abs().sum()) * 10
        )
        assert abs(estimates[1] - float((grad * direction[k]).sum())) <= accuracy


class ClosedForm(torch.autograd.Function):
    """A function whose derivative is only what gradients says."""

    @staticmethod
    def forward(ctx, case, *tensors):
        ctx.case = case
        ctx.save_for_backward(*tensors)
        return case.formula(*tensors)

    @staticmethod
    def backward(ctx, dy):
        return None, *ctx.case.backward(dy, *ctx.saved_tensors)


@every_backward
def test_second_order(case):
    tensors = [t.requires_grad_() for t in tensors_of(case, case.small)]
    assert torch.autograd.gradcheck(lambda *t: ClosedForm.apply(case, *t), tensors)
    assert torch.autograd.gradgradcheck(lambda *t: ClosedForm.apply(case, *t), tensors)


@every_place
def test_strides_do_not_matter(case, shape):
    tensors = tensors_of(case, shape)
    dy = draw(*shape, seed=9)
    strided = [t.repeat_interleave(2, dim=-1)[..., ::2] for t in tensors]
    strided_dy = dy.repeat_interleave(2, dim=-1)[..., ::2]
    for got, want in zip(
        case.backward(strided_dy, *strided), case.backward(dy, *tensors), strict=True
    ):
        assert_close(got, want)


@pytest.mark.parametrize("case", [c for c in BACKWARDS if c.name != "weight_norm"], ids=str)
def test_an_empty_batch_gives_zero_parameter_gradients(case):
    x, *parameters = tensors_of(case, (0, *case.small[1:]))
    dx, *rest = case.backward(torch.empty_like(x), x, *parameters)
    assert dx.shape == x.shape
    for grad, parameter in zip(rest, parameters, strict=True):
        assert_close(grad, torch.zeros_like(parameter))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_place
def test_half_types_are_computed_in_float32_and_rounded_once(case, shape, dtype):
    tensors = [t.to(dtype) for t in tensors_of(case, shape)]
    dy = draw(*shape, seed=9).to(dtype)
    truth = case.backward(dy.double(), *(t.double() for t in tensors))
    wide = case.backward(dy.float(), *(t.float() for t in tensors))
    got = case.backward(dy, *tensors)
    for value, want, single, tensor in zip(got, truth, wide, tensors, strict=True):
        assert value.dtype == tensor.dtype
        assert torch.equal(value, single.to(dtype))
        # Where terms cancel, float32 is off by its own unit times the terms: here some tens of size
        # 30.
        assert_rounded_once(value, want, 1e-4)


@pytest.mark.parametrize("case", [c for c in BACKWARDS if c.parameters], ids=str)
def test_parameters_that_have_a_default_may_be_left_out(case):
    x, *parameters = tensors_of(case, case.small)
    dy = draw(*case.small, seed=9)
    taken = inspect.signature(case.witness("backward")).parameters
    optional = [name for name in case.parameters if taken[name].default is None]
    for names in itertools.product([False, True], repeat=len(optional)):
        left_out = dict(zip(optional, names, strict=True))
        kept = {
            name: value
            for name, value in zip(case.parameters, parameters, strict=True)
            if not left_out.get(name)
        }
        got = case.witness("backward")(dy, x, **kept, **case.options(case.small))
        call = lambda x, *values, kept=kept: case.formula(  # noqa: E731
            x, **dict(zip(kept, values, strict=True))
        )
        want = autograd(call, [x, *kept.values()], dy)
        assert len(got) == 1 + len(kept)
        for one, other in zip(got, want, strict=True):
            assert_close(one, other, rtol=1e-10, atol=1e-10)


@every_backward
def test_a_grad_output_that_would_broadcast_is_refused(case):
    x, *parameters = tensors_of(case, (2, *case.small))
    with pytest.raises(RuntimeError, match=r"needs the output's shape .*, got "):
        case.backward(draw(*case.small), x, *parameters)


@pytest.mark.parametrize("alpha_shape", [(), (1,), (5,)])
def test_alpha_and_c_get_gradients_of_their_shape(alpha_shape):
    x, alpha, dy = draw(3, 5), draw(*alpha_shape, seed=3).exp(), draw(3, 5, seed=1)
    assert gradients.dyt_backward(dy, x, alpha)[1].shape == alpha_shape
    assert gradients.dyisru_backward(dy, x, alpha)[1].shape == alpha_shape


@pytest.mark.parametrize("weight_shape", [(3, 1, 1), (4, 5)], ids=["channels", "two dimensions"])
def test_dyisrus_own_scale_is_the_root_of_the_number_of_weights(weight_shape):  # [EQ-DYISRU-GRAD]
    x, c, w, dy = (
        draw(2, 3, 4, 5),
        draw(1, seed=1).exp(),
        draw(*weight_shape, seed=2),
        draw(2, 3, 4, 5, seed=3),
    )
    scale = math.sqrt(w.numel())  # as normlib.functional.dyisru documents it
    want = autograd(lambda x, c, w: w * scale * x / torch.sqrt(x * x + c), (x, c, w), dy)
    assert_close(gradients.dyisru_backward(dy, x, c, w), want)


@pytest.mark.parametrize("dim", [0, 2, -1, None])
def test_weight_norm_follows_torch_in_dim(dim):  # [EQ-WN-GRAD]
    v, dw = draw(3, 4, 2), draw(3, 4, 2, seed=1)
    torch_dim = -1 if dim is None else dim  # both mean one norm for all
    g = 1.5 * torch.norm_except_dim(v, 2, torch_dim)
    want = autograd(lambda v, g: torch._weight_norm(v, g, torch_dim), (v, g), dw)
    assert_close(gradients.weight_norm_backward(dw, v, g, dim), want)


def test_weight_norm_may_keep_a_middle_dimension():  # [EQ-WN-GRAD]
    v, g, dw = draw(3, 4, 2), draw(1, 4, 1, seed=2), draw(3, 4, 2, seed=1)
    want = autograd(lambda v, g: g * v / v.norm(dim=(0, 2), keepdim=True), (v, g), dw)
    for dim in (1, -2):
        assert_close(gradients.weight_norm_backward(dw, v, g, dim), want)


def test_rms_norm_eps_none_is_what_torch_means():  # [EQ-RMS-GRAD]
    for dtype in (torch.float64, torch.float32):
        x, dy = (1e-4 * draw(3, 5)).to(dtype), draw(3, 5, seed=1).to(dtype)
        (want,) = autograd(lambda x: F.rms_norm(x, (5,)), (x,), dy)
        assert_close(gradients.rms_norm_backward(dy, x, (5,))[0], want)


def test_one_feature():  # [EQ-LN-GRAD] [EQ-RMS-GRAD]
    x, dy = draw(4, 1), draw(4, 1, seed=1)
    assert_close(
        gradients.layer_norm_backward(dy, x, (1,))[0],
        torch.zeros(4, 1, dtype=torch.float64),
        atol=0,
        rtol=0,
    )
    r = torch.sqrt(x * x + EPS)
    assert_close(
        gradients.rms_norm_backward(dy, x, (1,), eps=EPS)[0], dy * EPS / r**3, rtol=1e-9, atol=0
    )


# [EQ-DYT-GRAD] [EQ-DYISRU-GRAD] [EQ-SOFTMAX-GRAD] [EQ-SOFTCAP-GRAD]
def test_far_out_nothing_overflows():
    x = torch.tensor([[-1e30, -1e4, 0.0, 1e4, 1e30]])
    one = torch.ones(1)
    for grads in (
        gradients.dyt_backward(torch.ones_like(x), x, one),
        gradients.dyisru_backward(torch.ones_like(x), x, one),
        gradients.softcap_backward(torch.ones_like(x), x, 30.0),
        gradients.softmax_backward(torch.ones_like(x), x),
    ):
        assert all(torch.isfinite(grad).all() for grad in grads)


def test_a_saturated_tanh_keeps_its_relative_accuracy():  # 1 - tanh(x)^2 rounds to 0 from 19 on
    (dx,) = gradients.softcap_backward(torch.ones(1).double(), torch.tensor([30.0]).double(), 1.0)
    assert_close(dx, torch.tensor([4 * math.exp(-60)], dtype=torch.float64), rtol=1e-13, atol=0.0)


def test_a_square_that_overflows_does_not_reach_the_gain():  # [EQ-DYISRU-GRAD]
    x, one = torch.tensor([[1e30, -1e30]]), torch.ones(1)
    *_, dw = gradients.dyisru_backward(torch.ones_like(x), x, one, torch.ones(2), scale=1.0)
    assert_close(dw, torch.tensor([1.0, -1.0]))
    *_, dw = gradients.dyisru_backward(torch.ones_like(x), 1e8 * x, one, torch.ones(2), scale=16.0)
    assert_close(dw, torch.tensor([16.0, -16.0]))  # 16 x alone is infinite


def test_a_large_mean_is_taken_off_twice():  # [EQ-LN-GRAD]
    x, dy = (draw(4, 64) + 1e6).float(), draw(4, 64, seed=1).float()
    (want,) = gradients.layer_norm_backward(dy.double(), x.double(), (64,))
    (got,) = gradients.layer_norm_backward(dy, x, (64,))
    # Off by once the rounding of the mean, u 1e6 = 0.06, if taken off once; else by some u of size
    # 30.
    assert_close(got.double(), want, rtol=0.0, atol=1e-5)


# What must not pass


def rms_wrong(kind):
    def backward(dy, x, w):
        r = torch.sqrt((x * x).mean(-1, keepdim=True) + EPS)
        xhat = x / r
        inner = (w * dy * xhat).mean(-1, keepdim=True)
        dx = {
            "right": (w * dy - xhat * inner) / r,
            "gain in front of the bracket": w / r * (dy - xhat * inner),
            "sign": (w * dy + xhat * inner) / r,
            "no 1/D": (w * dy - xhat * inner * x.shape[-1]) / r,
            "eps outside": (w * dy - xhat * inner) / ((x * x).mean(-1, keepdim=True).sqrt() + EPS),
            "projection left out": w * dy / r,
        }[kind]
        return dx, (dy * xhat).sum(0)

    return backward


@pytest.mark.parametrize(
    "kind", ["gain in front of the bracket", "sign", "no 1/D", "eps outside", "projection left out"]
)
def test_planted_errors_are_seen(kind):
    (case,) = (row for row in BACKWARDS if row.name == "rms_norm")
    tensors = tensors_of(case, (3, 7))
    dy = draw(3, 7, seed=9)
    want, bounds = autograd(case.formula, tensors, dy), bound(case, tensors, dy)
    assert worst(rms_wrong("right")(dy, *tensors), want, bounds) <= 1
    assert worst(rms_wrong(kind)(dy, *tensors), want, bounds) > 1e6
