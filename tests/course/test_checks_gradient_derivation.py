"""The checks of lesson 04 name the slips that people really make."""

import sympy
import torch

from normcourse.checks import gradient_derivation as check
from tests.course.solutions import load, wrong_answers_are_named

SOLVED = load("04_gradient_derivation")
p, length = sympy.symbols("p length", positive=True)


def mean(t):
    return t.mean(-1, keepdim=True)


def rms(x, eps_value):
    return (mean(x.square()) + eps_value).sqrt()


# Exercise 3

FIRST_ORDER = {
    "sign": (p / length**2, "the sign"),
    "root forgotten": (-2 * p / length**2, "the root halves"),
    "halved twice": (-p / (2 * length**2), "one half too many"),
    "not squared": (-p / length, "length SQUARED"),
    "cubed": (-p / length**3, "before the bracket already"),
    "unit vector": (-p, "for a unit vector only"),
    "the bracket": (1 - p / length**2, "the whole bracket"),
    "the right side": (1 / length - p / length**3, "the whole right side"),
    "of the length": (p / length, "the change of the length itself"),
    "the root kept": (1 / sympy.sqrt(1 + 2 * p / length**2) - 1, "expand the root, too"),
    "one over kept": (1 / (1 + p / length**2) - 1, "one over the bracket, too"),
    "a number": (-0.5, "c is off by"),
    "an unknown letter": (-sympy.Symbol("x") / length**2, "c holds x"),
}

# Exercise 1


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
        g, dr, _ = SOLVED["my_walk"](dy, x, weight, eps_value)
        return g, dr, formula(g, dr, x, rms(x, eps_value))

    return answer


def published_line(dy, x, weight, eps_value):
    g, dr, _ = SOLVED["my_walk"](dy, x, weight, eps_value)
    size = rms(x, eps_value)
    xhat = x / size
    return g, dr, weight * (dy - xhat * mean(g * xhat)) / size


def by_autograd(dy, x, weight, eps_value):
    leaf = x.clone().requires_grad_()
    xhat = leaf / rms(leaf, eps_value)
    (dx,) = torch.autograd.grad(weight * xhat, leaf, dy)
    return weight * dy, dx.sum(-1, keepdim=True), dx


WALK = {
    "no gain": (
        lambda dy, x, w, e: SOLVED["my_walk"](dy, x, torch.ones_like(w), e),
        "g: the gain is missing",
    ),
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
    "xhat": (at_r(lambda g, x, s: -(g * x / s).sum(-1, keepdim=True) / s**2), "is x, not xhat"),
    "sum of all": (at_r(lambda g, x, s: -(g * x).sum() / s**2), "along the row"),
    "sum of all rows": (
        at_r(lambda g, x, s: (-g * x / s**2).sum() * torch.ones_like(s)),
        "its own dr",
    ),
    "no keepdim": (
        lambda *a: (lambda g, dr, dx: (g, dr[..., 0], dx))(*SOLVED["my_walk"](*a)),
        "dr has shape (3,), expected (3, 1)",
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
    "the published line": (published_line, "that is the published line"),
    "no eps": (lambda dy, x, w, e: SOLVED["my_walk"](dy, x, w, 0.0), "eps is missing"),
    "autograd": (by_autograd, "without autograd"),
    "dx alone": (lambda dy, x, w, e: dy, "expected a tuple (g, dr, dx)"),
    "another order": (
        lambda *case: SOLVED["my_walk"](*case)[::-1],
        "the order is g, dr, dx",
    ),
    "in place": (
        lambda dy, x, w, e: SOLVED["my_walk"](dy.mul_(w), x, torch.ones_like(w), e),
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
    "no gain in the sum": (lambda dy, w, h, s: (w * dy - h * mean(dy * h)) / s, "under the sum"),
    "no gain": (lambda dy, w, h, s: (dy - h * mean(dy * h)) / s, "what reaches xhat is w dy"),
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
    "r left over": (
        lambda dy, w, h, s: w * dy / s - h * mean(w * dy * h) / s**2,
        "an r is left over",
    ),
}

SLIPS = {
    check.first_order: FIRST_ORDER,
    check.walk: WALK,
    check.collected: COLLECTED,
}


test_a_wrong_answer_is_told_its_slip = wrong_answers_are_named(SLIPS)


def test_unusual_right_answers_are_right():
    plain = sympy.symbols("p length")  # without an assumption
    assert check.first_order(-plain[0] * plain[1] ** -2).startswith("[ok]")
    assert check.first_order((1 - p / length**2).expand() - 1).startswith("[ok]")
