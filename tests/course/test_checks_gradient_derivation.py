"""The checks of lesson 04 name the slips that people really make."""

import math

import pytest
import torch

from normcourse.checks import gradient_derivation as check
from tests.course.solutions import load

SOLVED = load("04_gradient_derivation")
FOUR = (3.0, 1 - (5 / 9) ** 2, 10.0, 1000.0)


def mean(t):
    return t.mean(-1, keepdim=True)


def rms(divide=None, gradient=None, gain=None):
    """An answer to exercise 2 in which one of its three parts is replaced."""
    divide = divide or (lambda x, eps: ((mean(x.square()) + eps).sqrt(),) * 2)
    gradient = gradient or (lambda dy, w, xhat: w * dy - xhat * mean(w * dy * xhat))
    gain = gain or (lambda dy, x, w, xhat: (dy * xhat).sum(0))

    def answer(dy, x, weight, eps):
        inner, outer = divide(x, eps)  # of xhat, and before the bracket
        return gradient(dy, weight, x / inner) / outer, gain(dy, x, weight, x / inner)

    return answer


def rms_by(q):
    """Both divisors of exercise 2 from the mean square and eps."""
    return rms(divide=lambda x, eps: (q(mean(x.square()), eps),) * 2)


def norm(bracket=None, average=None, s=None, power=1):
    """An answer to exercise 3; average(t, dim) replaces the means of the gradient."""
    average = average or (lambda t, dim: t.mean(dim, keepdim=True))
    bracket = bracket or (lambda g, xhat, m: g - m(g) - xhat * m(g * xhat))
    s = s or (lambda x, dim, eps: (x.var(dim, correction=0, keepdim=True) + eps).sqrt())

    def answer(dy, x, weight, eps, dim):
        divisor = s(x, dim, eps)
        xhat = (x - x.mean(dim, keepdim=True)) / divisor
        return bracket(weight * dy, xhat, lambda t: average(t, dim)) / divisor**power

    return answer


def without_keepdim(dy, x, weight, eps, dim):
    g, s = weight * dy, (x.var(dim, correction=0) + eps).sqrt()
    xhat = (x - x.mean(dim)) / s
    return (g - g.mean(dim) - xhat * (g * xhat).mean(dim)) / s


def gain_outside(dy, x, weight, eps, dim):
    return weight * SOLVED["norm_backward"](dy, x, torch.ones_like(weight), eps, dim)


def x_for_xhat(dy, x, weight, eps):
    g, r = weight * dy, (mean(x.square()) + eps).sqrt()
    return (g - x * mean(g * x)) / r, (dy * x / r).sum(0)


def softmax(weights=None, sign=-1):
    total = weights or (lambda dp, p: (p * dp).sum(-1, keepdim=True))
    return lambda dp, p: p * (dp + sign * total(dp, p))


SIZES = [
    ("unit sphere", (1.0, *FOUR[1:]), "the sphere has radius sqrt(D)"),
    ("no root of D", (9.0, *FOUR[1:]), "the length is its root"),
    ("deviation", (3.0, math.sqrt(FOUR[1]), 10.0, 1000.0), "that is the standard deviation"),
    ("one over RMS squared", (3.0, 100 - 25 / 81, 10.0, 1000.0), "not 1 / RMS^2"),
    ("variance 1", (3.0, 1.0, 10.0, 1000.0), "mean SQUARE"),
    ("the other part", (3.0, 25 / 81, 10.0, 1000.0), "the rest is asked for"),
    ("of x/|x|", (3.0, FOUR[1], 1 / 0.3, 1000.0), "belongs to x / |x|"),
    ("by the mean square", (3.0, FOUR[1], 100.0, 1000.0), "once, not by its square"),
    ("no norm stretches", (3.0, FOUR[1], 1.0, 1000.0), "STRETCHED"),
    ("RMS", (3.0, FOUR[1], 0.1, 1000.0), "1 / RMS, not RMS"),
    ("no root", (*FOUR[:3], 1e6), "under a root"),
    ("no eps", (*FOUR[:3], math.inf), "without eps"),
    ("slope here", (*FOUR[:3], 10.0), "steepest place is x = 0"),
]
RMS = [
    (
        "gain before the bracket",
        rms(gradient=lambda dy, w, h: w * (dy - h * mean(w * dy * h))),
        "before the whole bracket",
    ),
    ("not transposed", rms(gradient=lambda dy, w, h: w * (dy - h * mean(dy * h))), "J transposed"),
    (
        "no gain in the sum",
        rms(gradient=lambda dy, w, h: w * dy - h * mean(dy * h)),
        "missing under the sum",
    ),
    ("no gain", rms(gradient=lambda dy, w, h: dy - h * mean(dy * h)), "what reaches xhat is w dy"),
    (
        "no 1/D",
        rms(gradient=lambda dy, w, h: w * dy - h * (w * dy * h).sum(-1, keepdim=True)),
        "1/D is missing",
    ),
    (
        "sign",
        rms(gradient=lambda dy, w, h: w * dy + h * mean(w * dy * h)),
        "the sign of the second path",
    ),
    (
        "one mean for all",
        rms(gradient=lambda dy, w, h: w * dy - h * (w * dy * h).mean()),
        "the whole batch",
    ),
    ("x in the sum", x_for_xhat, "x / r, not x"),
    ("r constant", rms(gradient=lambda dy, w, h: w * dy), "you hold it constant"),
    (
        "LN's",
        rms(gradient=lambda dy, w, h: w * dy - mean(w * dy) - h * mean(w * dy * h)),
        "that is LayerNorm's",
    ),
    (
        "by r squared",
        rms(divide=lambda x, e: ((mean(x * x) + e).sqrt(), mean(x * x) + e)),
        "once, not by its square",
    ),
    ("no eps", rms_by(lambda q, eps: q.sqrt()), "eps is missing"),
    ("eps outside the root", rms_by(lambda q, eps: q.sqrt() + eps), "inside the root"),
    (
        "eps in r only",
        rms(divide=lambda x, e: (mean(x * x).sqrt(), (mean(x * x) + e).sqrt())),
        "in r but not in xhat",
    ),
    ("per token", rms(gain=lambda dy, x, w, h: dy * h), "one row a token"),
    ("mean over tokens", rms(gain=lambda dy, x, w, h: (dy * h).mean(0)), "do not average"),
    ("x for xhat", rms(gain=lambda dy, x, w, h: (dy * x).sum(0)), "not x"),
    ("gain twice", rms(gain=lambda dy, x, w, h: (w * dy * h).sum(0)), "not multiplied by itself"),
    (
        "shape (1, D)",
        rms(gain=lambda dy, x, w, h: (dy * h).sum(0, keepdim=True)),
        "dweight has shape (1, 5)",
    ),
    ("dx alone", lambda dy, x, weight, eps: dy, "expected a tuple (dx, dweight)"),
    ("in place", lambda dy, x, weight, eps: (dy.mul_(weight), weight), "dy was changed in place"),
]
NORM = [
    (
        "statistics constant",
        norm(lambda g, h, m: g),
        "dim=-1 (LN): the statistics are held constant",
    ),
    (
        "no gain",
        lambda dy, x, w, *more: norm()(dy, x, torch.ones_like(w), *more),
        "the gain is missing",
    ),
    ("no mean", norm(lambda g, h, m: g - h * m(g * h)), "the mean of g is missing"),
    ("no variance path", norm(lambda g, h, m: g - m(g)), "path through the variance is missing"),
    ("by the variance", norm(power=2), "not by the variance"),
    ("sign", norm(lambda g, h, m: g - m(g) + h * m(g * h)), "the sign of the path"),
    ("unbiased", norm(s=lambda x, d, e: (x.var(d, keepdim=True) + e).sqrt()), "biased one"),
    ("no eps", norm(s=lambda x, d, e: x.std(d, correction=0, keepdim=True)), "eps is missing"),
    ("no keepdim", without_keepdim, "a row's mean is subtracted from a column"),
    (
        "no keepdim in the gradient",
        norm(average=lambda t, dim: t.mean(dim)),
        "in the means of the gradient",
    ),
    ("gain outside", gain_outside, "it cannot leave the bracket"),
    (
        "dim ignored",
        lambda dy, x, w, eps, dim: SOLVED["norm_backward"](dy, x, w, eps, -1),
        "dim=0 (BN): the statistics run over the other axis",
    ),
    (
        "BN's statistics constant",
        lambda dy, x, w, eps, dim: (SOLVED["norm_backward"] if dim else norm(lambda g, h, m: g))(
            dy, x, w, eps, dim
        ),
        "dim=0 (BN): the statistics are held constant",
    ),
    (
        "BN's gain outside is right",
        lambda dy, x, w, eps, dim: (gain_outside if dim == 0 else norm(power=2))(
            dy, x, w, eps, dim
        ),
        "dim=-1 (LN): divide by the standard deviation",
    ),
]
SOFTMAX = [
    ("no p pᵀ", lambda dp, p: p * dp, "- p p^T is missing"),
    ("p (1 - p)", lambda dp, p: p * (1 - p) * dp, "only the diagonal"),
    ("sum outside", lambda dp, p: p * dp - (p * dp).sum(-1, keepdim=True), "inside the bracket"),
    ("unweighted", softmax(lambda dp, p: dp.sum(-1, keepdim=True)), "the sum is weighted"),
    ("mean", softmax(lambda dp, p: mean(p * dp)), "no further 1/D"),
    ("sign", softmax(sign=1), "the sign of the rank-one part"),
    ("other sign", lambda dp, p: -softmax()(dp, p), "the sign of the whole"),
    ("axis 0", softmax(lambda dp, p: (p * dp).sum(0)), "not over the rows"),
    ("no keepdim", softmax(lambda dp, p: (p * dp).sum(-1)), "the sums go to the wrong rows"),
    ("whole batch", softmax(lambda dp, p: (p * dp).sum()), "over the whole batch"),
    ("cross-entropy's", lambda dp, p: p - dp, "a cross-entropy that contains the softmax"),
    (
        "softmax twice",
        lambda dp, p: SOLVED["softmax_backward"](dp, p.softmax(-1)),
        "no second softmax",
    ),
    ("one number a row", lambda dp, p: (p * dp).sum(-1), "dx has shape (4,), expected (4, 4)"),
]
WRONG = {"sizes": SIZES, "rms_backward": RMS, "norm_backward": NORM, "softmax_backward": SOFTMAX}
CASES = [
    pytest.param(c, a, m, id=f"{c}: {name}") for c, rows in WRONG.items() for name, a, m in rows
]


@pytest.mark.parametrize(("name", "answer", "message"), CASES)
def test_a_wrong_answer_is_told_its_slip(name, answer, message):
    verdict = getattr(check, name)(answer)
    assert verdict.startswith("[x]") and message in verdict


NO_SIZES = [3.0, (1, 2, 3), "four", ("a", "b", "c", "d"), (1, 2, 3, None), torch.ones(4)]


@pytest.mark.parametrize("answer", NO_SIZES)
def test_the_check_of_sizes_never_raises(answer):
    assert check.sizes(answer).startswith("[x]")
