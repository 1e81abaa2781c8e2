"""The checks of lesson 01a name the slip of wrong answers."""

import pytest
import sympy
import torch
import torch.nn.functional as F

from normcourse.checks import batch_norm_at_work as check
from normlib import gradients
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def gradient(change):
    """Exercise 2's gradient with one thing changed: change(dy, x, weight, g, xhat, s) -> dx."""

    def student(dy, x, weight, eps):
        s = torch.sqrt(x.var(0, correction=0) + eps)
        return change(dy, x, weight, weight * dy, (x - x.mean(0)) / s, s)

    return student


def xhat_part(g, xhat):
    return xhat * (g * xhat).mean(0)


def overwrites(dy, x, weight, eps):
    dy *= weight
    return gradient(lambda d, x, w, g, h, s: (dy - dy.mean(0) - xhat_part(dy, h)) / s)(
        dy, x, weight, eps
    )


def unbiased(dy, x, weight, eps):
    s = torch.sqrt(x.var(0) + eps)
    g, xhat = weight * dy, (x - x.mean(0)) / s
    return (g - g.mean(0) - xhat_part(g, xhat)) / s


def without_root(dy, x, weight, eps):
    g, s = weight * dy, x.var(0, correction=0) + eps
    xhat = (x - x.mean(0)) / s
    return (g - g.mean(0) - xhat_part(g, xhat)) / s


def layer_norm(dy, x, weight, eps):
    g, s = weight * dy, torch.sqrt(x.var(1, correction=0, keepdim=True) + eps)
    xhat = (x - x.mean(1, True)) / s
    return (g - g.mean(1, True) - xhat * (g * xhat).mean(1, True)) / s


def three_terms(d, x, w, g, h, s):  # right
    return (g - g.mean(0) - xhat_part(g, h)) / s


def by_autograd(dy, x, weight, eps):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(
        F.batch_norm(leaf, None, None, weight, training=True, eps=eps), leaf, dy
    )[0]


GRADIENT = {
    "second mean a sum": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - h * (g * h).sum(0)) / s),
        "the second mean is a sum",
    ),
    "first mean a sum": (
        gradient(lambda d, x, w, g, h, s: (g - g.sum(0) - xhat_part(g, h)) / s),
        "the first mean is a sum",
    ),
    "no xhat in front": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - (g * h).mean(0)) / s),
        "multiply it by xhat",
    ),
    "last sign": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) + xhat_part(g, h)) / s),
        "the sign of the path through the variance",
    ),
    "autograd": (by_autograd, "to be solved without autograd"),
    "the library": (
        lambda dy, x, w, eps: gradients.batch_norm_backward(dy, x, w, eps=eps)[0],
        "to be solved without normlib",
    ),
    "constants": (gradient(lambda d, x, w, g, h, s: g / s), "are not constants"),
    "no mean term": (
        gradient(lambda d, x, w, g, h, s: (g - xhat_part(g, h)) / s),
        "the mean of g is missing",
    ),
    "no xhat term": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0)) / s),
        "through the variance",
    ),
    "by the variance": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - xhat_part(g, h)) / s**2),
        "not by the variance",
    ),
    "not divided": (
        gradient(lambda d, x, w, g, h, s: g - g.mean(0) - xhat_part(g, h)),
        "not divided by s",
    ),
    "sums": (
        gradient(lambda d, x, w, g, h, s: (g - g.sum(0) - h * (g * h).sum(0)) / s),
        "sums where means belong",
    ),
    "no gain": (
        gradient(lambda d, x, w, g, h, s: (d - d.mean(0) - xhat_part(d, h)) / s),
        "the gain is missing: g = w dy",
    ),
    "gain in the first term": (
        gradient(lambda d, x, w, g, h, s: (g - d.mean(0) - xhat_part(d, h)) / s),
        "missing in the two means",
    ),
    "means over features": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(1, True) - h * (g * h).mean(1, True)) / s),
        "which is LayerNorm",
    ),
    "x for xhat": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - x * (g * x).mean(0)) / s),
        "xhat in both places",
    ),
    "deviations for xhat": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - s**2 * xhat_part(g, h)) / s),
        "not yet divided by s",
    ),
    "times s": (
        gradient(lambda d, x, w, g, h, s: s * (g - g.mean(0) - xhat_part(g, h))),
        "multiply or divide",
    ),
    "signs": (
        gradient(lambda d, x, w, g, h, s: (g + g.mean(0) + xhat_part(g, h)) / s),
        "the signs: what comes through the statistics",
    ),
    "no root": (without_root, "yours is without the root"),
    "LayerNorm": (layer_norm, "all statistics run over the batch"),
    "unbiased variance": (unbiased, "the variance is the biased one"),
    "no eps": (
        lambda dy, x, w, eps: gradient(three_terms)(dy, x, w, 0.0),
        "eps is missing in s",
    ),
    "means over everything": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean() - h * (g * h).mean()) / s),
        "yours run over everything",
    ),
    "one number per channel": (
        gradient(lambda d, x, w, g, h, s: (g / s).sum(0)),
        "dx has shape (3,)",
    ),
    "in place": (overwrites, "dy was changed in place"),
    "gain twice": (
        gradient(lambda d, x, w, g, h, s: w * (g - g.mean(0) - xhat_part(g, h)) / s),
        "twice",
    ),
    "returns nothing": (gradient(lambda *_: None), "None (is the return missing?)"),
}

SLOPE = {
    "mean fixed": (lambda eps: 1 / eps**0.5, "holds the mean fixed"),
    "no root": (lambda eps: 1 / (2 * eps), "divide by its root"),
    "neither": (lambda eps: 1 / eps, "leaves out the root"),
    "multiplied": (lambda eps: eps**0.5 / 2, "the steeper the slope"),
    "zero": (lambda eps: 0.0, "Look where they are equal"),
    "two inside": (lambda eps: 1 / (2 * eps) ** 0.5, "outside of the root"),
    "quarter": (lambda eps: 1 / (4 * eps**0.5), "halves twice"),
    "times two": (lambda eps: 2 / eps**0.5, "the half divides"),
    "one eps": (lambda eps: 0.5 / 1e-5**0.5, "eps is the argument"),
    "other sample": (lambda eps: -1 / (2 * eps**0.5), "in the OTHER sample"),
}


def folded(scale=lambda v, gain, eps: gain / torch.sqrt(v + eps), shifted=None):
    def student(weight, bias, mean, var, gain, shift, eps):
        factor = scale(var, gain, eps)
        new_bias = factor * (bias - mean) + shift
        if shifted is not None:
            new_bias = shifted(factor, bias, mean, shift)
        return factor[:, None] * weight, new_bias

    return student


def columns_scaled(weight, bias, mean, var, gain, shift, eps):
    factor = gain / torch.sqrt(var + eps)
    return weight * factor, factor * (bias - mean) + shift


def weight_kept(weight, *rest):
    return weight, folded()(weight, *rest)[1]


FOLD = {
    "weight kept": (weight_kept, "the weight is not scaled"),
    "columns scaled": (columns_scaled, "which are the ROWS"),
    "bias not scaled": (
        folded(shifted=lambda f, b, m, s: b - f * m + s),
        "own bias passes through",
    ),
    "bias forgotten": (folded(shifted=lambda f, b, m, s: s - f * m), "own bias is missing"),
    "mean forgotten": (folded(shifted=lambda f, b, m, s: f * b + s), "the mean is missing"),
    "mean not scaled": (
        folded(shifted=lambda f, b, m, s: f * b - m + s),
        "the mean is scaled, too",
    ),
    "mean added": (folded(shifted=lambda f, b, m, s: f * (b + m) + s), "the mean is subtracted"),
    "shift forgotten": (folded(shifted=lambda f, b, m, s: f * (b - m)), "(shift) is missing"),
    "shift scaled": (folded(shifted=lambda f, b, m, s: f * (b - m + s)), "it is not scaled"),
    "by the variance": (folded(lambda v, gain, eps: gain / (v + eps)), "not by the variance"),
    "multiplied": (folded(lambda v, gain, eps: gain * torch.sqrt(v + eps)), "multiply or divide"),
    "no gain": (folded(lambda v, gain, eps: 1 / torch.sqrt(v + eps)), "the gain is missing"),
    "no eps": (folded(lambda v, gain, eps: gain / torch.sqrt(v)), "eps is missing"),
    "eps outside": (folded(lambda v, gain, eps: gain / (torch.sqrt(v) + eps)), "inside the root"),
    "transposed": (
        lambda weight, *rest: (folded()(weight, *rest)[0].T, folded()(weight, *rest)[1]),
        "yours is transposed",
    ),
    "no gain in the bias": (
        lambda w, b, m, v, gain, shift, eps: (
            folded()(w, b, m, v, gain, shift, eps)[0],
            (b - m) / torch.sqrt(v + eps) + shift,
        ),
        "the gain is missing in the bias",
    ),
    "weight alone": (lambda weight, *rest: weight, "expected a tuple"),
}

WRONG = {
    check.input_gradient: GRADIENT,
    check.steepest: SLOPE,
    check.fold: FOLD,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


UNUSUAL = {
    "paths": (check.input_gradient, lambda dy, x, w, eps: by_paths(w * dy, x, eps)),
    "SymPy": (check.steepest, lambda eps: 1 / (2 * sympy.sqrt(eps))),
    "a matrix": (
        check.fold,
        lambda weight, bias, mean, var, gain, shift, eps: (
            torch.diag(gain * (var + eps) ** -0.5) @ weight,
            shift + (bias - mean) * gain * (var + eps) ** -0.5,
        ),
    ),
}


def by_paths(g, x, eps):
    d, m = x - x.mean(0), len(x)
    s = (d.square().mean(0) + eps).sqrt()
    return g / s - (g * d).sum(0) / s**3 * d / m - g.sum(0) / s / m


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_is_accepted(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
