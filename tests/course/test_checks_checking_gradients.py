"""The checks of lesson 04a name the slips that people really make."""

import pytest
import sympy
import torch

from normcourse.checks import checking_gradients as check
from tests.course.solutions import every_slip

h, f1, f2, f3, A, B = sympy.symbols("h f1 f2 f3 A B", positive=True)


def mean(t):
    return t.mean(-1, keepdim=True)


CENTRAL_ERROR = {
    "forward": (h * f2 / 2, "the forward difference's"),
    "even": (h**2 * f2 / 2, "the even terms cancel"),
    "a third": (h**2 * f3 / 3, "comes twice"),
    "a twelfth": (h**2 * f3 / 12, "divided by 2 h"),
    "cubed": (h**3 * f3 / 6, "one power goes"),
    "not divided": (h**3 * f3 / 3, "still to be divided"),
    "sign": (-(h**2) * f3 / 6, "the sign"),
    "whole": (f1 + h**2 * f3 / 6, "the difference itself"),
    "no 6": (h**2 * f3, "the 6 is missing"),
    "half": (h**2 * f3 / 2, "3! = 6"),
    "order alone": (h**2, "the error is off by"),
}
third = sympy.Rational(1, 3)
BEST_STEP = {
    "forward": (sympy.sqrt(B / A), "the forward difference's"),
    "no 2": ((B / A) ** third, "the 2 is missing"),
    "square root": ((B / A / 2) ** sympy.Rational(1, 2), "the root is the third"),
    "no root": (B / (2 * A), "the third root is missing"),
    "upside down": ((2 * A / B) ** third, "upside down"),
    "upside down, no 2": ((A / B) ** third, "upside down, and"),
    "2 above": ((2 * B / A) ** third, "the 2 belongs below"),
    "fourth root": ((B / (2 * A)) ** sympy.Rational(1, 4), "add up to 3"),
    "the error": (3 * A * (B / (2 * A)) ** (2 * third), "that is the error"),
    "a number": (1e-5, "the step is off by"),
}


def analytic(x, w, eps):
    return w * x / torch.sqrt(mean(x * x) + eps)


def mean_of_norm(x):
    return torch.linalg.norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1]


ANALYTIC = {
    "abs": (lambda x, w, e: w * x / torch.sqrt(mean(x.abs() ** 2) + e), "abs() is real"),
    "norm": (lambda x, w, e: w * x / torch.sqrt(mean_of_norm(x) + e), "abs() is real"),
    "conj": (lambda x, w, e: w * x / torch.sqrt(mean((x.conj() * x).real) + e), "abs() is real"),
    "numerator": (lambda x, w, e: w * x / torch.sqrt(mean(x.real**2) + e), "only the numerator"),
    "real": (lambda x, w, e: analytic(x.real, w, e) + 0j, "without .real"),
    "real alone": (lambda x, w, e: analytic(x.real, w, e), "without .real"),
    "no gain": (lambda x, w, e: analytic(x, 1.0, e), "the gain is missing"),
    "no eps": (lambda x, w, e: analytic(x, w, 0.0), "eps is missing"),
    "eps outside": (lambda x, w, e: w * x / (mean(x * x) ** 0.5 + e), "inside the root"),
    "sum": (
        lambda x, w, e: w * x / torch.sqrt((x * x).sum(-1, keepdim=True) + e),
        "not their sum",
    ),
    "one for all": (lambda x, w, e: w * x / torch.sqrt((x * x).mean() + e), "for each row"),
}


def function(dx=None, dw=None, count=3, forward=analytic):
    """An answer to exercise 5; dx and dw are made of dy, g, xhat, r, w."""
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
    "two gradients": (function(count=2), "your code raised"),
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
    "a function": (lambda x, w, e: analytic(x, w, e), "expected a class"),
    "an object": (3.0, "expected a class"),
}


def _without_eps(g, x):
    r = mean(x * x).sqrt()
    return (g - x / r * mean(g * x / r)) / r


def total(dp, p):
    return (p * dp).sum(-1, keepdim=True)


def by_matrix(dp, p):
    matrix = torch.diag_embed(p) - p[..., None] * p[..., None, :]
    return (matrix @ dp[..., None])[..., 0]


def by_a_matrix_a_row(dp, p):
    rows = [(torch.diag(row) - torch.outer(row, row)) @ g for g, row in zip(dp, p, strict=True)]
    return torch.stack(rows)


SOFTMAX = {
    "matrix": (by_matrix, "at most 80 at a time"),
    "matrix a row": (by_a_matrix_a_row, "at most 80 at a time"),
    "diagonal": (lambda dp, p: p * dp, "the second term is missing"),
    "p (1 - p)": (lambda dp, p: p * (1 - p) * dp, "the diagonal only"),
    "sum outside": (lambda dp, p: p * dp - total(dp, p), "inside the bracket"),
    "unweighted": (lambda dp, p: p * (dp - dp.sum(-1, keepdim=True)), "the sum is weighted"),
    "no p": (lambda dp, p: dp - total(dp, p), "before the bracket is missing"),
    "log": (lambda dp, p: dp - p * dp.sum(-1, keepdim=True), "logarithm of a softmax"),
    "mean": (lambda dp, p: p * (dp - mean(p * dp)), "no further 1/D"),
    "sign": (lambda dp, p: p * (dp + total(dp, p)), "sign of the second term"),
    "other sign": (lambda dp, p: p * (total(dp, p) - dp), "the sign of the whole"),
    "axis 0": (lambda dp, p: p * (dp - (p * dp).sum(0)), "not over the rows"),
    "whole batch": (lambda dp, p: p * (dp - (p * dp).sum()), "over the whole batch"),
    "cross-entropy's": (lambda dp, p: p - dp, "cross-entropy"),
    "softmax again": (lambda dp, p: p.softmax(-1) * dp, "without softmax"),
}
SLIPS = {
    check.central_error: CENTRAL_ERROR,
    check.best_step: BEST_STEP,
    check.analytic_rms_norm: ANALYTIC,
    check.rms_norm_function: FUNCTION,
    check.softmax_backward: SOFTMAX,
}


@every_slip(SLIPS)
def test_a_wrong_answer_is_told_its_slip(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


DY = [[1.0, -2.0, 0.5], [3.0, 1.0, -1.0]]
X = [[2.0, -1.0, 3.0], [0.5, 4.0, -2.0]]
W = [0.5, 2.0, 3.0]
NOT_REVEALING = {
    "gain 1": ((DY, X, [1.0, 1.0, 1.0], 0.5), "gain_outside"),
    "small eps": ((DY, X, W, 1e-6), "no_eps"),
    "no eps": ((DY, X, W, 0), "eps is to be larger than 0"),
    "size 1": ((DY, [[0.5, -1.0, 0.5], [1, 0.5, -0.5]], W, 0.5), "have a size of nearly 1"),
    "one row": ((DY[:1], X[:1], W, 0.5), "no_sum: you have one row only"),
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


def by_stack(dp, p):
    """Both parts in one tensor, which is twice as large as p."""
    own, others = torch.stack([p * dp, -p * total(dp, p)])
    return own + others


def by_einsum(dp, p):
    return torch.addcmul(p * dp, p, -torch.einsum("ni,ni->n", p, dp)[:, None])


def row_by_row(dp, p):
    return torch.stack([q * (d - q @ d) for d, q in zip(dp, p, strict=True)])


@pytest.mark.parametrize("answer", [by_stack, by_einsum, row_by_row])
def test_another_backward_pass_of_softmax_is_right(answer):
    assert check.softmax_backward(answer).startswith("[ok]")


def test_unusual_right_answers_are_right():
    assert check.central_error(sympy.Symbol("f3") * sympy.Symbol("h") ** 2 / 6).startswith("[ok]")
    assert check.best_step((4 * B / (8 * A)) ** third).startswith("[ok]")
    tensors = [torch.tensor(part) for part in (DY, X, W)]
    assert check.revealing_case(*tensors, torch.tensor(0.5)).startswith("[ok]")
