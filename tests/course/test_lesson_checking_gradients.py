"""The table "How sure is this?" of lesson 04a: each kind is varied alone."""

from collections.abc import Callable
from inspect import signature

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from normcourse import draw, training
from normlib import functional, gradients
from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

DIGITS = 397
KINDS = {
    OWN: {},
    "rate 0.003": {"lr": 0.003},
    "rate 0.01": {"lr": 0.01},
    "rate 0.03": {"lr": 0.03},
    "rate 0.3": {"lr": 0.3},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
    "four times the steps": {"steps": 480},
    "other starts and batches": {"seed": 1},
    "Adam": {"lr": 0.003, "optimizer": "adam"},
}


@pytest.fixture(scope="module")
def lesson() -> dict:
    """The suspects and the check of the lesson."""
    cells = ("setup", "failure-suspects", "failure-check")
    return run_cells("04a_checking_gradients.ipynb", *cells)


def revealing(seed: int, width: int, eps: float) -> tuple:
    dy, x = draw(2, 3, width, seed=seed)
    return dy, x, 1 + 0.5 * draw(width, seed=seed + 1), eps


def caught(lesson: dict, case: tuple, h: float = 1e-5, tolerance: float = 1e-8) -> list[str]:
    suspects = lesson["SUSPECTS"]
    return [s.__name__ for s in suspects if not lesson["passes"](s, case, h, tolerance)]


@pytest.mark.parametrize("width", each([4, 16], quick=4))
@pytest.mark.parametrize("eps", [0.3, 1e-3, 1e-6])
def test_a_revealing_case_catches_all_and_never_the_right_one(lesson, width, eps):
    wrong = [suspect.__name__ for suspect in lesson["SUSPECTS"][1:]]
    for seed in range(100, 140, 2):
        assert caught(lesson, revealing(seed, width, eps)) == wrong


@pytest.mark.parametrize("factor", each([0.01, 0.1, 10, 100], quick=100))
def test_a_large_eps_serves_rows_of_other_sizes(lesson, factor):
    for seed in range(100, 140, 2):
        dy, x, w, eps = revealing(seed, 4, 0.3)
        assert len(caught(lesson, (dy, factor * x, w, eps))) == 5


def test_float32_catches_all_with_a_large_eps(lesson):
    for seed in range(100, 140, 2):
        case = lesson["in_float32"](revealing(seed, 4, 0.3))
        assert len(caught(lesson, case, h=1e-2, tolerance=1e-2)) == 5


def test_far_below_a_millionth_a_lost_eps_slips_through(lesson):
    missed = sum(
        "no_eps" not in caught(lesson, revealing(seed, 4, 1e-8)) for seed in range(100, 140, 2)
    )
    assert 0 < missed < 20


def scaled(seed: int, factor: float) -> tuple:
    dy, x, w, _ = revealing(seed, 4, 1e-6)
    return dy, factor * x, w, 1e-6


def test_what_counts_is_the_size_of_the_rows(lesson):
    small = sum("right" in caught(lesson, scaled(seed, 0.01)) for seed in range(100, 140, 2))
    large = sum("no_eps" in caught(lesson, scaled(seed, 100)) for seed in range(100, 140, 2))
    assert (small, large) == (20, 0)
    for seed in range(100, 140, 2):  # a step in proportion to the rows accuses nobody
        assert "right" not in caught(lesson, scaled(seed, 0.01), h=1e-7)


class Planted(torch.autograd.Function):
    """RMSNorm whose gradients come from one of the lesson's suspects."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float, suspect: Callable) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        ctx.suspect = suspect
        return functional.rms_norm(x, weight.shape, weight, eps)

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple:
        dx, dw = ctx.suspect(dy, *ctx.saved_tensors, ctx.eps)
        return dx, dw, None, None


@pytest.mark.parametrize(
    ("strict", "missed"), [({}, ["no_eps"]), ({"atol": 1e-8, "rtol": 1e-8}, [])]
)
def test_gradcheck_lets_a_small_lost_eps_pass_unless_it_is_strict(lesson, strict, missed):
    for seed in (100, 102, 104):
        _, x, w, eps = revealing(seed, 4, 1e-6)
        leaves = (x.requires_grad_(), w.requires_grad_())
        passed = [
            suspect.__name__
            for suspect in lesson["SUSPECTS"]
            if gradcheck(Planted.apply, (*leaves, eps, suspect), raise_exception=False, **strict)
        ]
        assert passed == ["right", *missed, "no_sum"]  # torch sums a gradient that is too large


def test_gradcheck_s_own_tolerances_are_those_of_the_page():
    options = signature(gradcheck).parameters
    assert (options["atol"].default, options["rtol"].default) == (1e-5, 1e-3)


class Published(torch.autograd.Function):
    """RMSNorm of several nets; backward either right, or with the gain outside the bracket."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, outside: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.outside = outside
        return weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    @staticmethod
    def backward(ctx, dy: Tensor) -> tuple:
        x, weight = ctx.saved_tensors
        r = (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        xhat = x / r
        shadow = xhat * (weight * dy * xhat).mean(-1, keepdim=True)
        dx = (weight * dy - (weight * shadow if ctx.outside else shadow)) / r
        return dx, (dy * xhat).sum(1, keepdim=True), None


class Norm(torch.nn.Module):
    def __init__(self, shape: tuple[int, int, int], outside: bool, gain: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full(shape, gain))
        self.outside = outside

    def forward(self, x: Tensor) -> Tensor:
        return Published.apply(x, self.weight, self.outside)


def named(data, outside, gain, width=32, seed=0, steps=120, lr=0.1, optimizer="sgd") -> Tensor:
    """How many digits each of five nets names."""
    nets = training.stacked_mlp(3, lambda shape: Norm(shape, outside, gain), width=width, seed=seed)
    training.train_stacked(nets, data, steps=steps, lr=lr, optimizer=optimizer, seed=seed)
    return DIGITS * training.stacked_accuracy(nets, data)


def test_the_backward_passes_are_the_library_s_and_the_published_one():
    x, dy = draw(2, 1, 5, 7)
    weight = 1 + 0.5 * draw(1, 1, 7, seed=3)
    found = {}
    for outside in (False, True):
        leaf = x.clone().requires_grad_()
        (Published.apply(leaf, weight, outside) * dy).sum().backward()
        found[outside] = leaf.grad
    expected = gradients.rms_norm_backward(dy[0], x[0], (7,), weight[0, 0], 1e-6)[0]
    torch.testing.assert_close(found[False][0], expected)
    assert not torch.allclose(found[True], found[False], rtol=0.1)


@pytest.mark.parametrize("kind", each(KINDS))
def test_at_gain_4_the_wrong_gradient_costs_digits(data, kind):
    right = named(data, False, 4.0, **KINDS[kind])
    wrong = named(data, True, 4.0, **KINDS[kind])
    assert wrong.mean() < right.mean() - 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_at_gain_4_the_best_net_with_the_wrong_gradient_is_below_all_right_ones(data, seed):
    right = named(data, False, 4.0, seed=seed)
    wrong = named(data, True, 4.0, seed=seed)
    assert wrong.max() < right.min()


@pytest.mark.parametrize("kind", each([OWN, "rate 0.01", "rate 0.3", "half the width"]))
def test_at_gain_1_it_hardly_does(data, kind):
    right = named(data, False, 1.0, **KINDS[kind])
    wrong = named(data, True, 1.0, **KINDS[kind])
    assert (wrong.mean() - right.mean()).abs() < 10
