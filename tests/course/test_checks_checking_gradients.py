"""The checks of lesson 04a name the slips that people really make."""

import pytest
import sympy
import torch

from normcourse.checks import checking_gradients as check
from tests.course.solutions import load, wrong_answers_are_named

SOLVED = load("04a_checking_gradients")
r, eps = sympy.symbols("r eps", positive=True)


def mean(t):
    return t.mean(-1, keepdim=True)


def analytic(x, w, eps):
    return w * x / torch.sqrt(mean(x * x) + eps)


def function(dx=None, dw=None, count=3, forward=analytic):
    """An answer to exercise 2; dx and dw are made of dy, g, xhat, r, w."""
    of_x = dx or (lambda dy, g, xhat, r, w: (g - xhat * mean(g * xhat)) / r)
    of_w = dw or (lambda dy, g, xhat, r, w: (dy * xhat).flatten(0, -2).sum(0))

    class Answer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            ctx.save_for_backward(x, weight)
            ctx.eps = eps
            return forward(x, weight, eps)

        @staticmethod
        def backward(ctx, dy):
            x, w = ctx.saved_tensors
            r = torch.sqrt(mean(x * x) + ctx.eps)
            values = (dy, w * dy, x / r, r, w)
            return (of_x(*values), of_w(*values), None)[:count]

    return Answer


FUNCTION = {
    "gain outside": (
        function(dx=lambda dy, g, xhat, r, w: w * (dy - xhat * mean(g * xhat)) / r),
        "before the whole bracket",
    ),
    "constant": (function(dx=lambda dy, g, xhat, r, w: g / r), "r is held constant"),
    "no gain": (
        function(dx=lambda dy, g, xhat, r, w: (dy - xhat * mean(dy * xhat)) / r),
        "dx: the gain is missing",
    ),
    "by the square": (
        function(dx=lambda dy, g, xhat, r, w: (g - xhat * mean(g * xhat)) / r**2),
        "not by its square",
    ),
    "x once": (
        function(dx=lambda dy, g, xhat, r, w: (g - xhat * mean(g * xhat * r)) / r),
        "one of yours is x",
    ),
    "no eps": (
        function(dx=lambda dy, g, xhat, r, w: _without_eps(g, xhat * r)),
        "eps is missing on the way back",
    ),
    "mean": (
        function(dw=lambda dy, g, xhat, r, w: (dy * xhat).flatten(0, -2).mean(0)),
        "not their mean",
    ),
    "no sum": (function(dw=lambda dy, g, xhat, r, w: dy * xhat), "shape (3, 5), expected (5,)"),
    "sum of axis 0": (
        function(dw=lambda dy, g, xhat, r, w: (dy * xhat).sum(0)),
        "shape (3, 4), expected (4,)",
    ),
    "x": (
        function(dw=lambda dy, g, xhat, r, w: (dy * xhat * r).flatten(0, -2).sum(0)),
        "xhat, not x",
    ),
    "gain twice": (
        function(dw=lambda dy, g, xhat, r, w: (g * xhat).flatten(0, -2).sum(0)),
        "not multiplied by itself",
    ),
    "two gradients": (function(count=2), "backward returns 2 of 3 gradients"),
    # was named "used through detach() or .data"
    "None for the gain": (
        function(dw=lambda dy, g, xhat, r, w: None),
        "backward returns None for weight",
    ),
    "None for x": (function(dx=lambda dy, g, xhat, r, w: None), "backward returns None for x"),
    "a wrong forward": (
        function(forward=lambda x, w, e: analytic(x - mean(x), w, e)),
        "you subtract the mean",
    ),
    "autograd in backward": (
        function(dx=lambda dy, g, xhat, r, w: _by_autograd(g, xhat * r, w)),
        "without autograd",
    ),
    "a function": (lambda x, w, e: analytic(x, w, e), "expected a class"),
    "an object": (3.0, "expected a class"),
}


def _by_autograd(g, x, w):
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        y = analytic(leaf, torch.ones_like(w), check.EPS)
        return torch.autograd.grad(y, leaf, g)[0]


def test_an_error_names_the_reader_s_class():
    class MyOwn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            return analytic(x, weight, eps)

        @staticmethod
        def backward(ctx, dy):
            return dy, dy[:, :2], None

    verdict = check.rms_norm_function(MyOwn)
    assert "MyOwn" in verdict and "Watched" not in verdict, verdict


def _without_eps(g, x):
    r = mean(x * x).sqrt()
    return (g - x / r * mean(g * x / r)) / r


DY = [[1.0, -2.0, 0.5], [3.0, 1.0, -1.0]]
X = [[2.0, -1.0, 3.0], [0.5, 4.0, -2.0]]
W = [0.5, 2.0, 3.0]
NOT_REVEALING = {
    "gain 1": ((DY, X, [1.0, 1.0, 1.0], 0.5), "gain_outside"),
    "small eps": ((DY, X, W, 1e-6), "no_eps"),
    "no eps": ((DY, X, W, 0), "eps is to be larger than 0"),
    "size 1": ((DY, [[0.5, -1.0, 0.5], [1, 0.5, -0.5]], W, 0.5), "have a size of nearly 1"),
    "one row": ((DY[:1], X[:1], W, 0.5), "no_sum: you have one row only"),
    "eps as text": ((DY, X, W, "0.1"), "eps is a str, expected a number"),
    "a zero row": ((DY, [X[0], [0, 0, 0]], W, 0.5), "a row of x is 0"),
    "equal gains near 1": ((DY, X, [1.01, 1.01, 1.01], 0.5), "your gains are near 1"),
    "a huge eps": ((DY, X, W, 1e6), "your eps drowns their squares"),
    "square": (([*DY, W], [*X, DY[0]], W, 0.5), "a square table"),
    "shapes": ((DY, X[:1], W, 0.5), "expected the same"),
    "four numbers": (([[1, 2, 3, 4]], [[1, 2, 3, 5]], [1, 2, 3, 4], 0.5), "3 numbers here"),
    "nothing arrives": (([[0, 0, 0], [0, 0, 0]], X, W, 0.5), "change dy"),
    "not a table": (("two rows", X, W, 0.5), "dy is a str"),
    "infinite": ((DY, X, [1, 2, float("inf")], 0.5), "expected finite numbers"),
}


@pytest.mark.parametrize(("answer", "message"), NOT_REVEALING.values(), ids=NOT_REVEALING)
def test_a_case_with_a_blind_spot_is_told_which(answer, message):
    verdict = check.revealing_case(*answer)
    assert verdict.startswith("[x]") and message in verdict


class InTwoSteps(torch.autograd.Function):
    """setup_context, and gradients in a list that nobody differentiates again."""

    @staticmethod
    def forward(x, weight, eps):
        return analytic(x, weight, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        r = torch.sqrt(mean(x * x) + ctx.eps)
        dx = w * dy / r - x * mean(w * dy * x) / r**3
        return dx, torch.einsum("...i,...i->i", dy, x / r), None


@pytest.mark.parametrize("answer", [function(), InTwoSteps])
def test_another_class_is_right(answer):
    assert check.rms_norm_function(answer).startswith("[ok]")


class TheOtherWayRound(InTwoSteps):
    @staticmethod
    def backward(ctx, dy):
        dx, dweight, _ = InTwoSteps.backward(ctx, dy)
        return dweight, dx, None


CLASSES = {
    "the other way round": (TheOtherWayRound, "the first gradient is that of x"),
    "no function": (torch.nn.Linear, "that class does not inherit"),
}


@pytest.mark.parametrize(("answer", "message"), CLASSES.values(), ids=CLASSES)
def test_a_class_of_another_form_is_told_so(answer, message):
    verdict = check.rms_norm_function(answer)
    assert verdict.startswith("[x]") and message in verdict


EIGENVALUES = {
    "no eps": ((1 / r, 0), "along: that holds for eps = 0 only"),
    "swapped": ((eps / r**3, 1 / r), "across comes first"),
    "squared": ((1 / r, eps / r**2), "1/r stands before the bracket, too"),
    "one power": ((1 / r, eps / r), "one power of r is missing"),
    "power too many": ((1 / r, eps / r**4), "one power of r too many"),
    "what is taken": ((1 / r, 1 / r - eps / r**3), "the part that is taken away"),
    "the mean of squares": ((1 / r, 1 - eps / r**2), "that is the mean of xhat^2"),
    "times r": ((1 / r, eps * r), "divided by r^3"),
    "the same twice": ((1 / r, 1 / r), "along: that is across"),
    "r": ((r, eps / r**3), "across: it is divided by r"),
    "one": ((1, eps / r**3), "across: 1/r is missing"),
    "a projection": ((0, eps / r**3), "across: for a vector across"),
    "r squared": ((1 / r**2, eps / r**3), "across: divide by r once"),
    "one alone": (1 / r, "expected a tuple (across, along)"),
}


def rms(x):
    return mean(x.square()).sqrt()


def times(factor):
    return lambda x, dx, rate: x - rate * factor(x) * dx


def kept_length(x, dx, rate):
    moved = x - rate * dx
    return rms(x) * moved / rms(moved)


STEP = {
    "the other sign": (lambda x, dx, rate: rate * mean(x * x) * dx, "return x minus it"),
    "plain": (times(lambda x: 1), "that is the plain step"),
    "one power": (times(rms), "one power too few"),
    "three powers": (times(lambda x: rms(x) ** 3), "one power too many"),
    "divided": (times(lambda x: 1 / mean(x.square())), "the wrong way round: a longer row"),
    "divided once": (times(lambda x: 1 / rms(x)), "the wrong way round, and one power"),
    "an eps": (times(lambda x: mean(x.square()) + 1e-5), "an eps too many"),
    "sum of squares": (times(lambda x: (x * x).sum(-1, keepdim=True)), "D is missing"),
    "length": (times(lambda x: x.norm(dim=-1, keepdim=True)), "that is the length in the place"),
    "whole batch": (times(lambda x: x.square().mean()), "each row has its own"),
    "entries": (times(lambda x: x**2), "each entry has its own factor"),
    "variance": (times(lambda x: x.var(-1, correction=0, keepdim=True)), "that is the variance"),
    "size 1, old gradient": (lambda x, dx, rate: x / rms(x) - rate * dx, "its own is r times"),
    "right, then back": (
        lambda x, dx, rate: rms(x) * (lambda y: y / rms(y))(x - rate * mean(x * x) * dx),
        "brought back to the old length; it",
    ),
    "uphill": (lambda x, dx, rate: x + rate * mean(x * x) * dx, "the sign"),
    "the step": (lambda x, dx, rate: -rate * mean(x * x) * dx, "the step alone"),
    "size 1": (lambda x, dx, rate: x / rms(x) - rate * rms(x) * dx, "the row of size 1"),
    "kept length": (kept_length, "brought back to the old length"),
    "unit gradient": (
        lambda x, dx, rate: x - rate * rms(x) * dx / rms(dx),
        "near the goal the step has to become short",
    ),
    "no keepdim": (lambda x, dx, rate: x - rate * x.square().mean(-1) * dx, "your code raised"),
    "in place": (lambda x, dx, rate: x.sub_(rate * mean(x * x) * dx), "x was changed in place"),
}

test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.rms_norm_function: FUNCTION,
        check.eigenvalues: EIGENVALUES,
        check.step: STEP,
    }
)


def test_unusual_right_answers_are_right():
    tensors = [torch.tensor(part) for part in (DY, X, W)]
    assert check.revealing_case(*tensors, torch.tensor(0.5)).startswith("[ok]")
    assert check.eigenvalues([r**-1, (1 - (r**2 - eps) / r**2) / r]).startswith("[ok]")

    def polar(x, dx, rate):
        """The row as its size and its direction."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x - rate * dx * length**2 / x.shape[-1]

    assert check.step(polar).startswith("[ok]")
    assert SOLVED["my_step"] is not polar
