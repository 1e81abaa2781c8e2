"""The checks of lesson 04 name the slips that people really make."""

import torch

from normcourse.checks import gradient_derivation as check
from tests.course.solutions import load, wrong_answers_are_named

SOLVED = load("04_gradient_derivation")


def mean(t):
    return t.mean(-1, keepdim=True)


def rms(x, eps_value):
    return (mean(x.square()) + eps_value).sqrt()


# Exercise 1


def q_as_r(dy, x, weight, eps_value):
    q = mean(x.square()) + eps_value
    g = weight * dy
    dr = -(g * x).sum(-1, keepdim=True) / q**2
    return g, dr, g / q + dr * x / (x.shape[-1] * q)


def at_r(formula):
    """An answer whose gradient at r is another one."""

    def answer(dy, x, weight, eps_value):
        size = rms(x, eps_value)
        g = weight * dy
        dr = formula(g, x, size)
        return g, dr, g / size + dr * x / (x.shape[-1] * size)

    return answer


def at_x(formula):
    def answer(dy, x, weight, eps_value):
        g, dr, _ = SOLVED["my_backward"](dy, x, weight, eps_value)
        return g, dr, formula(g, dr, x, rms(x, eps_value))

    return answer


def with_dx(formula):
    """g and dr are right; dx is the formula, of dy, w, xhat and r."""

    def answer(dy, x, weight, eps_value):
        g, dr, _ = SOLVED["my_backward"](dy, x, weight, eps_value)
        size = rms(x, eps_value)
        return g, dr, formula(dy, weight, x / size, size)

    return answer


def of_width(width):
    """An answer that takes D from somewhere else."""

    def answer(dy, x, weight, eps_value):
        g, dr, _ = SOLVED["my_backward"](dy, x, weight, eps_value)
        size = rms(x, eps_value)
        return g, dr, g / size + dr * x / (width(weight) * size)

    return answer


def for_one_axis(dy, x, weight, eps_value):
    """Right, as long as the gain is one vector."""
    g, _, dx = SOLVED["my_backward"](dy, x, weight, eps_value)
    together = torch.einsum("d,...d,...d->...", weight, dy, x)
    return g, -together[..., None] / rms(x, eps_value) ** 2, dx


def megatrons_line(dy, x, weight, eps_value):
    g, dr, _ = SOLVED["my_backward"](dy, x, weight, eps_value)
    size = rms(x, eps_value)
    xhat = x / size
    return g, dr, weight * (dy - xhat * mean(g * xhat)) / size


def by_autograd(dy, x, weight, eps_value):
    leaf = x.clone().requires_grad_()
    xhat = leaf / rms(leaf, eps_value)
    (dx,) = torch.autograd.grad(weight * xhat, leaf, dy)
    return weight * dy, dx.sum(-1, keepdim=True), dx


BACKWARD = {
    "no gain": (
        lambda dy, x, w, e: SOLVED["my_backward"](dy, x, torch.ones_like(w), e),
        "g: the gain is missing",
    ),
    "gain twice at xhat": (
        lambda dy, x, w, e: SOLVED["my_backward"](dy, x, w * w, e),
        "g: the gain is there twice",
    ),
    "half": (at_x(lambda g, dr, x, s: (g / s + dr * x / (x.shape[-1] * s)) / 2), "not averaged"),
    "sign at r": (at_r(lambda g, x, s: (g * x).sum(-1, keepdim=True) / s**2), "dr: the sign"),
    "1/r": (at_r(lambda g, x, s: -(g * x).sum(-1, keepdim=True) / s), "not -1/r"),
    "no sum": (at_r(lambda g, x, s: -g * x / s**2), "every entry of the row holds the same r"),
    "no gain at r": (
        lambda dy, x, w, e: at_r(lambda g, x, s: -(dy * x).sum(-1, keepdim=True) / s**2)(
            dy, x, w, e
        ),
        "dr: the gain is missing there",
    ),
    "mean": (at_r(lambda g, x, s: -mean(g * x) / s**2), "not their mean"),
    "xhat": (at_r(lambda g, x, s: -(g * x / s).sum(-1, keepdim=True) / s**2), "an r too many"),
    "sum of all": (at_r(lambda g, x, s: -(g * x).sum() / s**2), "along the row"),
    "sum of all rows": (
        at_r(lambda g, x, s: (-g * x / s**2).sum() * torch.ones_like(s)),
        "its own dr",
    ),
    "no keepdim": (
        lambda *a: (lambda g, dr, dx: (g, dr[..., 0], dx))(*SOLVED["my_backward"](*a)),
        "dr has shape (3,), expected (3, 1)",
    ),
    "no keepdim, used in dx": (
        at_r(lambda g, x, s: -(g * x / s**2).sum(-1)),
        "keepdim=True is missing?",
    ),
    "no keepdim in r": (
        lambda dy, x, w, e: x / x.square().mean(-1),
        "keepdim=True is missing?",
    ),
    "dq": (
        lambda *a: (lambda g, dr, dx: (g, dr / (2 * rms(a[1], a[3])), dx))(
            *SOLVED["my_backward"](*a)
        ),
        "that is the gradient at q",
    ),
    "half at r": (
        at_r(lambda g, x, s: -(g * x).sum(-1, keepdim=True) / (2 * s**2)),
        "dr: half of it",
    ),
    "path 1 with dy": (
        lambda dy, x, w, e: at_x(
            lambda g, dr, x, s: dy / s + dr * x / (x.shape[-1] * s),
        )(dy, x, w, e),
        "path 1 starts from g",
    ),
    "another axis": (
        at_x(lambda g, dr, x, s: g / s + dr * x / (x.shape[0] * s)),
        "yours is another axis",
    ),
    "the second axis": (
        at_x(lambda g, dr, x, s: g / s + dr * x / (x.shape[1] * s)),
        "only where x has two axes",
    ),
    "LayerNorm's": (
        at_x(lambda g, dr, x, s: (g - mean(g)) / s + dr * x / (x.shape[-1] * s)),
        "dx: that is LayerNorm's",
    ),
    "length of the gain": (of_width(len), "the length of weight is D only while"),
    "size of the gain": (of_width(lambda w: w.numel()), "the size of weight is D only while"),
    "gain of one axis": (for_one_axis, "weight of shape (2, 1, 6), eps = 0.3: your code raised"),
    "x forgotten at r": (at_r(lambda g, x, s: -g.sum(-1, keepdim=True) / s**2), "dr: x is missing"),
    "dr as path 2": (at_x(lambda g, dr, x, s: g / s + dr), "yours passes dr on as it is"),
    "D = 4": (at_x(lambda g, dr, x, s: g / s + dr * x / (4 * s)), "D is built in"),
    "in float32": (
        lambda *a: tuple(
            part.double()
            for part in SOLVED["my_backward"](
                *(v.float() if isinstance(v, torch.Tensor) else v for v in a)
            )
        ),
        "is something computed in it?",
    ),
    "path 1": (at_x(lambda g, dr, x, s: g / s), "path 1 alone"),
    "path 2": (at_x(lambda g, dr, x, s: dr * x / (x.shape[-1] * s)), "path 2 alone"),
    "no D": (at_x(lambda g, dr, x, s: g / s + dr * x / s), "D is missing"),
    "no root": (at_x(lambda g, dr, x, s: g / s + dr * 2 * x / x.shape[-1]), "the root is missing"),
    "root 1/2": (at_x(lambda g, dr, x, s: g / s + dr * x / x.shape[-1]), "not 1/2."),
    "root 1/(2 q)": (
        at_x(lambda g, dr, x, s: g / s + dr * x / (x.shape[-1] * s**2)),
        "not 1/(2 q)",
    ),
    "subtracted": (at_x(lambda g, dr, x, s: g / s - dr * x / (x.shape[-1] * s)), "added, not"),
    "Megatron's line": (megatrons_line, "that is Megatron's line"),
    "the lesson's `megatron`": (
        lambda dy, x, w, e: (
            *SOLVED["my_backward"](dy, x, w, e)[:2],
            megatrons_line(dy, x, w, 1e-5)[2],
        ),
        "with another eps",
    ),
    "Megatron's line without eps": (
        lambda dy, x, w, e: (
            *SOLVED["my_backward"](dy, x, w, e)[:2],
            megatrons_line(dy, x, w, 0.0)[2],
        ),
        "that is Megatron's line, and without eps",
    ),
    "Megatron's line, no gain in the sum": (
        with_dx(lambda dy, w, h, s: w * (dy - h * mean(dy * h)) / s),
        "not under the sum",
    ),
    "no gain in path 2": (
        with_dx(lambda dy, w, h, s: (w * dy - h * mean(dy * h)) / s),
        "the gain is missing in path 2",
    ),
    "gain twice": (
        with_dx(lambda dy, w, h, s: w * (w * dy - h * mean(w * dy * h)) / s),
        "is there twice",
    ),
    "no x in path 2": (
        at_x(lambda g, dr, x, s: g / s + dr / (x.shape[-1] * s)),
        "yours is without x",
    ),
    "no eps": (lambda dy, x, w, e: SOLVED["my_backward"](dy, x, w, 0.0), "eps is missing"),
    "r of the lesson's `normalized`": (
        lambda dy, x, w, e: SOLVED["my_backward"](dy, x, w, 1e-5),
        "r is made with the eps of `normalized`",
    ),
    "q as r": (q_as_r, "yours is q itself"),
    "sum of x": (
        at_x(lambda g, dr, x, s: g / s + dr * x.sum(-1, keepdim=True) / (x.shape[-1] * s)),
        "yours is the sum of the row",
    ),
    "times r": (at_x(lambda g, dr, x, s: g / s + dr * 2 * x * s / x.shape[-1]), "multiplies by r"),
    "autograd": (by_autograd, "without autograd"),
    "dx alone": (lambda dy, x, w, e: dy, "expected a tuple (g, dr, dx)"),
    "another order": (
        lambda *case: SOLVED["my_backward"](*case)[::-1],
        "the order is g, dr, dx",
    ),
    "in place": (
        lambda dy, x, w, e: SOLVED["my_backward"](dy.mul_(w), x, torch.ones_like(w), e),
        "dy was changed in place",
    ),
}

# Exercise 2

COLLECTED = {
    "gain before the bracket": (
        lambda dy, w, h, s: w * (dy - h * mean(w * dy * h)) / s,
        "before the whole bracket",
    ),
    "not transposed": (
        lambda dy, w, h, s: w * (dy - h * mean(dy * h)) / s,
        "no gain under the sum",
    ),
    "gain twice": (
        lambda dy, w, h, s: w * (w * dy - h * mean(w * dy * h)) / s,
        "before the bracket and in it",
    ),
    "no gain in the sum": (lambda dy, w, h, s: (w * dy - h * mean(dy * h)) / s, "under the sum"),
    "no gain": (lambda dy, w, h, s: (dy - h * mean(dy * h)) / s, "what reaches xhat is w dy"),
    "divided by the gain": (
        lambda dy, w, h, s: (dy / w - h * mean(dy / w * h)) / s,
        "does not divide by it",
    ),
    "sum": (
        lambda dy, w, h, s: (w * dy - h * (w * dy * h).sum(-1, keepdim=True)) / s,
        "1/D is missing",
    ),
    "sign": (lambda dy, w, h, s: (w * dy + h * mean(w * dy * h)) / s, "sign of the second path"),
    "constant": (lambda dy, w, h, s: w * dy / s, "r depends on x, too"),
    "once xhat": (lambda dy, w, h, s: (w * dy - mean(w * dy * h)) / s, "xhat twice"),
    "LayerNorm's": (
        lambda dy, w, h, s: (w * dy - mean(w * dy) - h * mean(w * dy * h)) / s,
        "that is LayerNorm's",
    ),
    "no xhat in the sum": (
        lambda dy, w, h, s: (w * dy - h * mean(w * dy)) / s,
        "xhat_j is missing",
    ),
    "r in the second": (lambda dy, w, h, s: w * dy / s - h * mean(w * dy * h), "an r too many"),
    "whole batch": (lambda dy, w, h, s: (w * dy - h * (w * dy * h).mean()) / s, "whole batch"),
    "first axis": (lambda dy, w, h, s: (w * dy - h * (w * dy * h).mean(0)) / s, "mean(0)"),
    "squared": (lambda dy, w, h, s: (w * dy - h * mean(w * dy * h)) / s**2, "not by its square"),
    "r lost": (lambda dy, w, h, s: w * dy - h * mean(w * dy * h), "1/r is missing"),
    "times r": (lambda dy, w, h, s: (w * dy - h * mean(w * dy * h)) * s, "do not multiply"),
    "no sum": (
        lambda dy, w, h, s: (w * dy - h * w * dy * h / h.shape[-1]) / s,
        "the sum over j is missing",
    ),
    "no mean": (lambda dy, w, h, s: (w * dy - h * w * dy * h) / s, "its own product alone"),
    "squared xhat": (lambda dy, w, h, s: (w * dy - h**2 * mean(w * dy)) / s, "a square"),
    "D twice": (
        lambda dy, w, h, s: (w * dy - h * mean(w * dy * h) / h.shape[-1]) / s,
        "divides by D already",
    ),
    "twice": (lambda dy, w, h, s: (w * dy - 2 * h * mean(w * dy * h)) / s, "a factor 2"),
    "means of xhat and g": (
        lambda dy, w, h, s: (w * dy - h * mean(h) * mean(w * dy)) / s,
        "xhat_j belongs under the sum",
    ),
    "sum of all": (
        lambda dy, w, h, s: (w * dy - h * (w * dy * h).sum()) / s,
        "the sum runs over the whole batch",
    ),
    "product of means": (
        lambda dy, w, h, s: (w * dy - h * w.mean() * mean(dy * h)) / s,
        "not the product of the means",
    ),
    "by the squares": (
        lambda dy, w, h, s: (
            (w * dy - h * (w * dy * h).sum(-1, keepdim=True) / h.square().sum(-1, keepdim=True)) / s
        ),
        "divide the sum by D",
    ),
    "xhat under the sum": (
        lambda dy, w, h, s: (w * dy - mean(w * dy * h * h)) / s,
        "a second xhat_j",
    ),
    "r left over": (
        lambda dy, w, h, s: w * dy / s - h * mean(w * dy * h) / s**2,
        "an r is left over",
    ),
}

SLIPS = {check.backward: BACKWARD, check.collected: COLLECTED}


test_a_wrong_answer_is_told_its_slip = wrong_answers_are_named(SLIPS)


def test_the_function_that_stands_in_is_no_answer():
    assert "write one of your own" in check.backward(check.three_gradients)
