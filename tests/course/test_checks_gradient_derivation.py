"""The checks of lesson 04 name the slips that people really make."""

from fractions import Fraction

import numpy
import pytest
import sympy
import torch

from normcourse import draw
from normcourse.checks import gradient_derivation as check
from tests.course.solutions import load, wrong_answers_are_named

SOLVED = load("04_gradient_derivation")


def mean(t):
    return t.mean(-1, keepdim=True)


def rms(x, eps_value):
    return (mean(x.square()) + eps_value).sqrt()


# Exercise 2


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
        g, dr, _ = SOLVED["my_walk"](dy, x, weight, eps_value)
        return g, dr, formula(g, dr, x, rms(x, eps_value))

    return answer


def with_dx(formula):
    """g and dr are right; dx is the formula, of dy, w, xhat and r."""

    def answer(dy, x, weight, eps_value):
        g, dr, _ = SOLVED["my_walk"](dy, x, weight, eps_value)
        size = rms(x, eps_value)
        return g, dr, formula(dy, weight, x / size, size)

    return answer


def of_width(width):
    """An answer that takes D from somewhere else."""

    def answer(dy, x, weight, eps_value):
        g, dr, _ = SOLVED["my_walk"](dy, x, weight, eps_value)
        size = rms(x, eps_value)
        return g, dr, g / size + dr * x / (width(weight) * size)

    return answer


def for_one_axis(dy, x, weight, eps_value):
    """Right, as long as the gain is one vector."""
    g, _, dx = SOLVED["my_walk"](dy, x, weight, eps_value)
    together = torch.einsum("d,...d,...d->...", weight, dy, x)
    return g, -together[..., None] / rms(x, eps_value) ** 2, dx


def articles_formula(dy, x, weight, eps_value):
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
    "gain twice at xhat": (
        lambda dy, x, w, e: SOLVED["my_walk"](dy, x, w * w, e),
        "g: the gain stands there twice",
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
    "no keepdim, used in dx": (
        at_r(lambda g, x, s: -(g * x / s**2).sum(-1)),
        "keepdim=True is missing?",
    ),
    "no keepdim in r": (
        lambda dy, x, w, e: x / x.square().mean(-1),
        "keepdim=True is missing?",
    ),
    "dq": (
        lambda *a: (lambda g, dr, dx: (g, dr / (2 * rms(a[1], a[3])), dx))(*SOLVED["my_walk"](*a)),
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
    "dr as path 2": (at_x(lambda g, dr, x, s: g / s + dr), "yours hands dr down as it is"),
    "D = 4": (at_x(lambda g, dr, x, s: g / s + dr * x / (4 * s)), "D is built in"),
    "in float32": (
        lambda *a: tuple(
            part.double()
            for part in SOLVED["my_walk"](
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
    "the article's formula": (articles_formula, "that is the article's formula"),
    "the lesson's `article`": (
        lambda dy, x, w, e: (
            *SOLVED["my_walk"](dy, x, w, e)[:2],
            articles_formula(dy, x, w, 1e-5)[2],
        ),
        "with another eps",
    ),
    "the article's formula without eps": (
        lambda dy, x, w, e: (
            *SOLVED["my_walk"](dy, x, w, e)[:2],
            articles_formula(dy, x, w, 0.0)[2],
        ),
        "that is the article's formula, and without eps",
    ),
    "the article's formula, no gain in the sum": (
        with_dx(lambda dy, w, h, s: w * (dy - h * mean(dy * h)) / s),
        "not under the sum",
    ),
    "no gain in path 2": (
        with_dx(lambda dy, w, h, s: (w * dy - h * mean(dy * h)) / s),
        "the gain is missing in path 2",
    ),
    "gain twice": (
        with_dx(lambda dy, w, h, s: w * (w * dy - h * mean(w * dy * h)) / s),
        "stands there twice",
    ),
    "no x in path 2": (
        at_x(lambda g, dr, x, s: g / s + dr / (x.shape[-1] * s)),
        "yours is without x",
    ),
    "no eps": (lambda dy, x, w, e: SOLVED["my_walk"](dy, x, w, 0.0), "eps is missing"),
    "r of the lesson's `normalized`": (
        lambda dy, x, w, e: SOLVED["my_walk"](dy, x, w, 1e-5),
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
        lambda *case: SOLVED["my_walk"](*case)[::-1],
        "the order is g, dr, dx",
    ),
    "in place": (
        lambda dy, x, w, e: SOLVED["my_walk"](dy.mul_(w), x, torch.ones_like(w), e),
        "dy was changed in place",
    ),
}

# Exercise 4

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
        "xhat_j stands under the sum",
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

# Exercise 3


def block(mask=lambda dh, h, z: dh * (z > 0), at_h=lambda dh, dz, below: dh + below):
    def answer(dh, h, w, W, norm_gradient):
        xhat, _ = SOLVED["normalized"](h)
        dz = mask(dh, h, (w * xhat) @ W)
        below, dw, dW = SOLVED["branch"](dz, h, w, W, norm_gradient)
        return at_h(dh, dz, below), dw, dW

    return answer


def no_gain_at_z(dh, h, w, W, norm_gradient):
    xhat, _ = SOLVED["normalized"](h)
    below, dw, dW = SOLVED["branch"](dh * (xhat @ W > 0), h, w, W, norm_gradient)
    return dh + below, dw, dW


def neither_at_z(dh, h, w, W, norm_gradient):
    below, dw, dW = SOLVED["branch"](dh * (h @ W > 0), h, w, W, norm_gradient)
    return dh + below, dw, dW


def mask_behind(dh, h, w, W, norm_gradient):
    xhat, _ = SOLVED["normalized"](h)
    below, dw, dW = SOLVED["branch"](dh, h, w, W, norm_gradient)
    return dh + below * ((w * xhat) @ W > 0), dw, dW


def norm_forgotten(gain):
    def answer(dh, h, w, W, norm_gradient):
        xhat, _ = SOLVED["normalized"](h)
        dz = dh * ((w * xhat) @ W > 0)
        dy = dz @ W.mT
        dW = (w * xhat).mT @ dz
        return dh + (w * dy if gain else dy), (dy * xhat).sum(-2, keepdim=True), dW

    return answer


def branch_from(row):
    def answer(dh, h, w, W, norm_gradient):
        xhat, _ = SOLVED["normalized"](h)
        dz = dh * ((w * xhat) @ W > 0)
        below, dw, dW = SOLVED["branch"](dz, row(w, xhat), w, W, norm_gradient)
        return dh + below, dw, dW

    return answer


def masked_twice(dh, h, w, W, norm_gradient):
    xhat, _ = SOLVED["normalized"](h)
    passed = (w * xhat) @ W > 0
    below, dw, dW = SOLVED["branch"](dh * passed, h, w, W, norm_gradient)
    return dh + passed * below, dw, dW


def norm_twice(dh, h, w, W, norm_gradient):
    at_h, dw, dW = SOLVED["my_block"](dh, h, w, W, norm_gradient)
    return dh + norm_gradient(at_h - dh, h, w), dw, dW


def matrix_twice(dh, h, w, W, norm_gradient):
    xhat, _ = SOLVED["normalized"](h)
    dz = dh * ((w * xhat) @ W > 0)
    below, dw, dW = SOLVED["branch"](dz @ W.mT, h, w, W, norm_gradient)
    return dh + below, dw, dW


def h_handed_down(dh, h, w, W, norm_gradient):
    at_h, dw, dW = SOLVED["my_block"](dh, h, w, W, norm_gradient)
    return at_h - dh + h, dw, dW


def by_my_walk(dh, h, w, W, norm_gradient):
    def built_in(dy, h, w):
        return SOLVED["my_walk"](dy, h, w, 1e-5)[-1]

    return SOLVED["my_block"](dh, h, w, W, built_in)


def block_by_autograd(dh, h, w, W, norm_gradient):
    leaves = [part.clone().requires_grad_() for part in (h, w, W)]
    xhat, _ = SOLVED["normalized"](leaves[0])
    out = leaves[0] + torch.relu((leaves[1] * xhat) @ leaves[2])
    return torch.autograd.grad(out, leaves, dh)


BLOCK = {
    "no shortcut": (block(at_h=lambda dh, dz, below: below), "the shortcut is missing"),
    "no branch": (block(at_h=lambda dh, dz, below: dh), "the branch is missing"),
    "no ReLU": (block(mask=lambda dh, h, z: dh), "the ReLU is missing"),
    "ReLU on both": (block(at_h=lambda dh, dz, below: dz + below), "only the branch passes"),
    "ReLU of h": (block(mask=lambda dh, h, z: dh * (h > 0)), "looks at z, not at h"),
    "ReLU of dh": (block(mask=lambda dh, h, z: torch.relu(dh)), "which went forward"),
    "times z": (block(mask=lambda dh, h, z: dh * torch.relu(z)), "multiplies by z itself"),
    "other half": (block(mask=lambda dh, h, z: dh * (z < 0)), "the wrong half"),
    "subtracted": (block(at_h=lambda dh, dz, below: dh - below), "added, not subtracted"),
    "shortcut twice": (block(at_h=lambda dh, dz, below: 2 * dh + below), "does so twice"),
    "masked twice": (masked_twice, "the mask is there twice"),
    "norm twice": (norm_twice, "norm_gradient is there twice"),
    "matrix twice": (matrix_twice, "multiplies by W.mT itself"),
    "averaged": (block(at_h=lambda dh, dz, below: (dh + below) / 2), "not averaged"),
    "of the output": (
        block(mask=lambda dh, h, z: dh * (h + torch.relu(z) > 0)),
        "not at the block's output",
    ),
    "no gain at z": (no_gain_at_z, "z is made without the gain"),
    "neither norm nor gain at z": (neither_at_z, "without gain and norm"),
    "mask behind the branch": (mask_behind, "its mask comes before branch"),
    "h in place of dh": (h_handed_down, "not the value h"),
    "W before w": (
        lambda *a: (lambda at_h, dw, dW: (at_h, dW, dw))(*SOLVED["my_block"](*a)),
        "the order is h, w, W",
    ),
    "no norm on the way back": (
        norm_forgotten(gain=False),
        "leaves the matrix is the gradient at y",
    ),
    "the gain alone": (norm_forgotten(gain=True), "behind the gain you are at xhat"),
    "branch of xhat": (branch_from(lambda w, xhat: xhat), "it makes xhat of it itself"),
    "branch of w xhat": (branch_from(lambda w, xhat: w * xhat), "and not w xhat"),
    "its own norm": (by_my_walk, "norm_gradient is not used"),
    "autograd": (block_by_autograd, "without autograd"),
    "dh alone": (lambda dh, h, w, W, n: dh, "expected a tuple"),
}

# Exercise 1

PENCIL = {
    "path 1 alone": ((1, 0, 0, 0), "path 1 alone"),
    "path 2 alone": ((-1 / 36, -1 / 36, -3 / 36, -5 / 36), "path 2 alone"),
    "no gain": (torch.tensor([35, -1, -3, -5]) / 108, "the gain is missing"),
    "divided by the gain": (torch.tensor([35, -1, -3, -5]) / 324, "divided by the gain"),
    "sign": (torch.tensor([37, 1, 3, 5]) / 36, "the sign of path 2"),
    "no D": ([Fraction(8, 9), Fraction(-1, 9), Fraction(-3, 9), Fraction(-5, 9)], "four times"),
    "no root": (torch.tensor([5, -1, -3, -5]) / 6, "six times too large"),
    "root 1/2": (torch.tensor([33, -3, -9, -15]) / 36, "three times too large"),
    "twice": (torch.tensor([34, -2, -6, -10]) / 36, "twice as large"),
    "half": (torch.tensor([71, -1, -3, -5]) / 72, "half of path 2"),
    "xhat for x": (torch.tensor([107, -1, -3, -5]) / 108, "too small by a factor 3"),
    "g as path 1": (torch.tensor([107, -1, -3, -5]) / 36, "path 1 is g"),
    "r by its own entry": ((35 / 36, 0, 0, 0), "reaches all four x"),
    "the article's formula": (torch.tensor([33, -1, -3, -5]) / 36, "that is the article's"),
    "no gain under the sum": (torch.tensor([105, -1, -3, -5]) / 108, "missing under the sum"),
    "in 36ths": ((35, -1, -3, -5), "36 times too large"),
    "the picture's": (torch.tensor([8, -1, 6, -5]) / 9, "here (1, 0, 0, 0) arrives"),
    "three numbers": ((35 / 36, -1 / 36, -3 / 36), "3 numbers, expected 4"),
    "one number": (35 / 36, "expected a list of numbers"),
    "another": ((1, 2, 3, 4), "dx is off by"),
}

SLIPS = {
    check.pencil: PENCIL,
    check.walk: WALK,
    check.block: BLOCK,
    check.collected: COLLECTED,
}


test_a_wrong_answer_is_told_its_slip = wrong_answers_are_named(SLIPS)


def test_unusual_right_answers_are_right():
    exact = [Fraction(35, 36), Fraction(-1, 36), Fraction(-3, 36), Fraction(-5, 36)]
    for given in (
        exact,
        torch.tensor([float(part) for part in exact]),
        (0.97, -0.03, -0.08, -0.14),
    ):
        assert check.pencil(given).startswith("[ok]"), given
    assert check.pencil([sympy.Rational(part) for part in exact]).startswith("[ok]")

    def where(dh, h, w, W, norm_gradient):
        z = (w * SOLVED["normalized"](h)[0]) @ W
        dz = torch.where(z > 0, dh, torch.zeros_like(dh))
        below, dw, dW = SOLVED["branch"](dz, h, w, W, norm_gradient)
        return [below + dh, dw, dW]

    assert check.block(where).startswith("[ok]")


@pytest.mark.parametrize(
    ("probe", "ours"),
    [(check.walk, check.three_gradients), (check.block, check.through_a_block)],
    ids=["walk", "block"],
)
def test_the_functions_that_stand_in_are_no_answers(probe, ours):
    assert "write one of your own" in probe(ours)


def test_the_block_that_stands_in_is_autograd_s():
    dh, h = draw(2, 2, 4, 7)
    w, W = 1 + 0.3 * draw(2, 1, 7, seed=3), draw(2, 7, 7, seed=4)
    found = check.through_a_block(dh, h, w, W, check.right_gradient)
    expected = block_by_autograd(dh, h, w, W, None)
    for mine, truth in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, truth)


# Exercise 5


def test_gains_with_which_the_wrong_formula_wins():
    descend = SOLVED["descend"]
    counts = "the right gradient brings 356 of 400 rows, the article's formula 399"
    verdict = check.winning([0.5] * 8, descend)
    assert f": {counts}. Their rows end 1.0 and 0.7 times as long" in verdict
    assert "At the rate 0.2 the right gradient brings 400." in verdict
    spread = torch.linspace(0.2, 0.8, 8)
    for gains in (torch.full((8,), 0.5), numpy.full(8, -0.5), spread, [1.5] + [0.4] * 7):
        assert check.winning(gains, descend).startswith("[ok]"), gains


@pytest.mark.parametrize(
    ("gains", "message"),
    [
        ([1.0] * 8, "With gain 1 the article's formula is right."),
        ([2.0] * 8, "which sign has x d then"),
        (torch.linspace(0.5, 2.5, 8), "which sign has x d then"),
        ([0.95] * 8, "Fewer than 40 are left to win"),
        ([-1.0] * 8, "Their sign does not matter"),
        ([0.1] * 8, "Both are slow"),
        ([-2.0] * 8, "rows shrink by so much"),
        ([-2.0, 2.0] * 4, "rows shrink by so much"),
        ([0.001] * 8, "each loss is below 0.01 before the first step"),
        ([0.5] * 7 + [float("nan")], "expected eight finite numbers"),
        ([1.0] * 7 + [0.1], "the direction may cost what the length wins"),
        ([0.5] * 7, "7 gains, expected 8"),
        ([0.5] * 7 + [0.0], "a gain is 0"),
        (0.5, "expected a list of numbers"),
    ],
)
def test_gains_with_which_it_does_not_win(gains, message):
    verdict = check.winning(gains, SOLVED["descend"])
    assert verdict.startswith("[x]"), verdict
    assert message in verdict
