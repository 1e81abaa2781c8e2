"""The checks of lesson 06a name the slips people make, and accept what is right in another form."""

import math
import random
from functools import partial

import pytest
import sympy
import torch

from normcourse.checks import without_norms as check
from tests.course.solutions import wrong_answers_are_named

K, A = sympy.symbols("K a", positive=True)
M = sympy.Symbol("m", positive=True, integer=True)

GROWTHS = {
    "no gain": (3**K, "without a gain"),
    "not squared": ((1 + 2 * A) ** K, "a^2"),
    "one for two": ((1 + A**2) ** K, "no ReLU behind it"),
    "halved": ((1 + A**2 / 2) ** K, "2, not 1/2"),
    "one length": ((1 + A) ** K, "nor are they asked for"),
    "lengths": ((1 + A) ** (2 * K), "lengths do not add up"),
    "a sum": (1 + 2 * K * A**2, "a power, not a sum"),
    "the size": ((1 + 2 * A**2) ** (K / 2), "factor of the size"),
    "one block": (1 + 2 * A**2, "that is one block"),
    "no shortcut": ((2 * A**2) ** K, "shortcut is missing"),
    "four": ((1 + 4 * A**2) ** K, "make 2, not 4"),
    "times K": (K * (1 + 2 * A**2), "not K times it"),
    "another letter": ((1 + 2 * A**2) ** M, "holds m"),
    "two powers": ((1 + 2 * A**2) ** (2 * K), "both of its layers"),
    "K - 1": ((1 + 2 * A**2) ** (K - 1), "not K - 1"),
    "mixed": ((1 + 2 * A + 2 * A**2) ** K, "has the mean 0"),
    "one shortcut": (1 + (2 * A**2) ** K, "inside of the power"),
    "the limit": (sympy.exp(2 * K * A**2), "limit of many small steps"),
    "gain twice": ((1 + (2 * A**2) ** 2) ** K, "once: 2 times"),
}
FACTORS = {
    "sign": (K ** (1 / (2 * M - 2)), "minus sign is lost"),
    "m layers": (K ** (-1 / (2 * M)), "m - 1 layers are scaled"),
    "counted once": (K ** (-1 / (M - 1)), "in the outputs and in the step"),
    "m = 2": (1 / sympy.sqrt(K), "solve for any m"),
    "a branch": (1 / K, "a whole branch"),
    "m once": (K ** (-1 / M), "the scale counts twice"),
    "2m - 1": (K ** (-1 / (2 * M - 1)), "2 m - 2."),
    "no power": (1 / (K * (2 * M - 2)), "a power of K"),
    "no root": (K ** (2 - 2 * M), "not the power"),
    "power": (K ** (-(M - 1)), "not a power"),
    "m + 1": (K ** (-1 / (M + 1)), "not m + 1"),
    "in L": (sympy.Symbol("L") ** (-1 / (2 * M - 2)), "holds L"),
}
TWO = 2 / math.sqrt(math.pi)


def backward(factor=TWO, power=1.0, scale=None, by_alpha=None, total=torch.sum, inner=None):
    def answer(dy, x, alpha, shift):
        u = alpha * x + shift if inner is None else inner(alpha, x)
        slope = dy * factor * torch.exp(-power * u.square())
        first = (alpha if scale is None else scale) * slope
        weighted = slope * (x if by_alpha is None else by_alpha)
        return first, total(weighted), total(slope)

    return answer


def by_tanh(dy, x, alpha, shift):
    slope = dy / torch.cosh(alpha * x + shift).square()
    return alpha * slope, (x * slope).sum(), slope.sum()


def erf_itself(dy, x, alpha, shift):
    slope = dy * torch.erf(alpha * x + shift)
    return alpha * slope, (x * slope).sum(), slope.sum()


def exchanged(*case):
    dx, by_alpha, by_shift = backward()(*case)
    return dx, by_shift, by_alpha


def with_alpha(dy, x, alpha, shift):
    return backward(by_alpha=alpha * x)(dy, x, alpha, shift)


def one_minus_square(dy, x, alpha, shift):
    slope = dy * (1 - torch.erf(alpha * x + shift) ** 2)
    return alpha * slope, (x * slope).sum(), slope.sum()


def shift_from_dx(*case):
    dx, by_alpha, _ = backward()(*case)
    return dx, by_alpha, dx.sum()


def alpha_from_dx(*case):
    dx, _, by_shift = backward()(*case)
    return dx, dx.sum(), by_shift


def outside(dy, x, alpha, shift):
    return backward(inner=lambda alpha, x: alpha * (x + shift))(dy, x, alpha, shift)


def by_autograd(dy, x, alpha, shift):
    leaves = [t.detach().requires_grad_() for t in (x, alpha, shift)]
    return torch.autograd.grad(torch.erf(leaves[1] * leaves[0] + leaves[2]), leaves, dy)


def without_dy(dy, *others):
    return backward()(torch.ones_like(dy), *others)


BACKWARDS = {
    "no factor": (backward(factor=1.0), "2/sqrt(pi) is missing"),
    "upside down": (backward(factor=1 / TWO), "upside down"),
    "normal density": (backward(1 / math.sqrt(2 * math.pi), 0.5), "normal density"),
    "half": (backward(power=0.5), "without 1/2"),
    "sign": (backward(power=-1.0), "sign in the exponent"),
    "no shift": (backward(inner=lambda alpha, x: alpha * x), "the shift is missing"),
    "tanh": (by_tanh, "derivative of tanh"),
    "erf itself": (erf_itself, "not asked for"),
    "shift outside": (outside, "not alpha (x + s)"),
    "2 / pi": (backward(factor=2 / math.pi), "not by pi"),
    "exchanged": (exchanged, "are exchanged"),
    "alpha again": (with_alpha, "alpha is not a factor here"),
    "no alpha": (backward(scale=1.0), "leaves the factor alpha"),
    "no x": (backward(by_alpha=1.0), "x is missing"),
    "alpha for x": (alpha_from_dx, "is x, not alpha"),
    "shift with alpha": (shift_from_dx, "by s is 1"),
    "1 - erf^2": (one_minus_square, "1 - y^2 belongs to tanh"),
    "no sum": (backward(total=lambda v: v), "its gradient is a sum"),
    "mean": (backward(total=torch.mean), "not a mean"),
    "no dy": (without_dy, "dy is missing"),
    "autograd": (by_autograd, "autograd"),
    "dx alone": (lambda dy, x, alpha, shift: dy, "expected a tuple"),
}


def as_a_norm(blocks):
    return [(4 + 4 * k) ** -0.5 for k in range(blocks)]


NUMBERS = {
    "one for all": (lambda blocks: 1 / 15, "expected a list of numbers"),
    "too few": (lambda blocks: [0.1], "one for each block"),
    "zeros": (lambda blocks: [0.0] * blocks, "never takes part"),
    "ones": (lambda blocks: [1.0] * blocks, "smaller numbers"),
    "a constant": (lambda blocks: [0.1] * blocks, "one number for all depths"),
    "as a norm": (as_a_norm, "too slowly"),
    "a root too many": (lambda blocks: [0.4 * blocks**-0.25] * blocks, "sum of all a^2"),
    "drawn": (lambda blocks: [random.uniform(0.2, 1) * blocks**-0.5 for _ in range(blocks)], "fix"),
    "not finite": (lambda blocks: [math.nan] * blocks, "finite"),
}


def unit(v):
    return v / v.norm(dim=-1, keepdim=True)


def limit_of(weight, factor, least):
    return factor * weight.norm(dim=1, keepdim=True).clamp(min=least)


def clip(grad, limit, length):
    return torch.where(length > limit, grad * limit / length, grad)


def of_matrix(w, g, factor, least):
    return clip(g, factor * w.norm().clamp(min=least), g.norm())


def of_columns(w, g, factor, least):
    return clip(g.T, limit_of(w.T, factor, least), g.T.norm(dim=1, keepdim=True)).T


def always(w, g, factor, least):
    return unit(g) * limit_of(w, factor, least)


def by_value(w, g, factor, least):
    limit = limit_of(w, factor, least)
    return torch.minimum(torch.maximum(g, -limit), limit)


def inverted(w, g, factor, least):
    limit = limit_of(w, factor, least)
    length = g.norm(dim=1, keepdim=True)
    return torch.where(length > limit, g * length / limit, g)


def no_roots(w, g, factor, least):
    limit = factor * (w * w).sum(1, True).clamp(min=least)
    return clip(g, limit, (g * g).sum(1, True))


def lengths(g):
    return g.norm(dim=1, keepdim=True)


def larger_limit(w, g, factor, least):
    return clip(g, (factor * lengths(w)).clamp(min=least), lengths(g))


def smaller(w, g, factor, least):
    return clip(g, factor * lengths(w).clamp(max=least), lengths(g))


def to_the_factor(w, g, factor, least):
    return torch.where(lengths(g) > limit_of(w, factor, least), factor * unit(g), g)


def turned(w, g, factor, least):
    limit = limit_of(w, factor, least)
    return torch.where(lengths(g) < limit, unit(g) * limit, g)


def by_number(w, g, factor, least):
    limit = factor * w.abs().clamp(min=least)
    return torch.where(g.abs() > limit, g.sign() * limit, g)


def only_for_zero(w, g, factor, least):
    norm = lengths(w)
    norm[norm == 0] = least
    return clip(g, factor * norm, lengths(g))


def under_the_root(w, g, factor, least):
    return clip(g, factor * ((w * w).sum(1, True) + least).sqrt(), lengths(g))


def of_squares(w, g, factor, least):
    return clip(g, factor * ((w * w).sum(1, True) + least * least).sqrt(), lengths(g))


def on_the_gradient(w, g, factor, least):
    limit = limit_of(w, factor, least)
    return torch.where(lengths(g) > limit, g / (lengths(g) + least) * limit, g)


def on_both(w, g, factor, least):
    ratio = limit_of(w, factor, least) / lengths(g).clamp(min=least)
    return g * torch.where(lengths(g) > limit_of(w, factor, least), ratio, 1.0)


def the_weight(w, g, factor, least):
    limit = limit_of(w, factor, least)
    return torch.where(lengths(g) > limit, w / lengths(g) * limit, g)


def mean_squares(w, g, factor, least):
    limit = factor * (w * w).mean(1, True).sqrt().clamp(min=least)
    return clip(g, limit, (g * g).mean(1, True).sqrt())


def sizes(w, g, factor, least):
    limit = factor * w.norm(p=1, dim=1, keepdim=True).clamp(min=least)
    return clip(g, limit, g.norm(p=1, dim=1, keepdim=True))


CLIPS = {
    "least for 0 alone": (only_for_zero, "not for a norm of 0 alone"),  # was accepted
    "under the root": (under_the_root, "no root of a sum"),
    "root of squares": (of_squares, "no root of squares"),
    "least on the gradient": (on_the_gradient, "not to the gradient's"),
    "least on both": (on_both, "gradient's norm as well"),  # was accepted
    "the weight": (the_weight, "not the weight"),
    "mean squares": (mean_squares, "not of their mean"),
    "sizes": (sizes, "not the sum of the sizes"),
    "least of the limit": (larger_limit, "belongs to the weight's norm"),
    "smaller": (smaller, "not the smaller"),
    "to the factor": (to_the_factor, "not factor"),
    "turned": (turned, "comparison is turned"),
    "by number": (by_number, "number with number"),
    "matrix": (of_matrix, "one norm of the matrix"),
    "columns": (of_columns, "You take columns"),
    "always": (always, "shorter gradients stay"),
    "no least": (lambda w, g, f, e: clip(g, limit_of(w, f, 0.0), lengths(g)), "never learns"),
    "no factor": (lambda w, g, f, e: clip(g, limit_of(w, 1.0, e), lengths(g)), "factor is missing"),
    "by value": (by_value, "limits each number"),
    "inverted": (inverted, "upside down"),
    "no roots": (no_roots, "left out the roots"),
    "added": (lambda w, g, f, e: clip(g, f * lengths(w) + e, lengths(g)), "does not add"),
    "in place": (lambda w, g, f, e: g.mul_(0.5), "changed in place"),
    # was named "one norm of the matrix"
    "nothing": (lambda w, g, f, e: g.clone(), "nothing is clipped"),
    "added inside": (
        lambda w, g, f, e: clip(g, f * (lengths(w) + e), lengths(g)),
        "yours adds the two",
    ),
    "0 / 0": (
        lambda w, g, f, e: unit(g) * torch.minimum(limit_of(w, f, e), lengths(g)),
        "yours is NaN there",
    ),
}
CASES = {
    check.growth: GROWTHS,
    check.fixup_factor: FACTORS,
    check.derf_backward: BACKWARDS,
    check.numbers_in_front: NUMBERS,
    check.clip_by_unit: CLIPS,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(CASES)


def test_other_forms_are_accepted():
    assert check.growth(sympy.exp(K * sympy.log(1 + 2 * A**2))).startswith("[ok]")
    assert check.fixup_factor(sympy.root(1 / K, 2 * M - 2)).startswith("[ok]")


@pytest.mark.parametrize(
    "answer",
    [
        lambda blocks: [blocks**-0.5] * blocks,
        lambda blocks: torch.full((blocks,), 1 / blocks),
        lambda blocks: [-1 / (k + 1) for k in range(blocks)],
        lambda blocks: [2.0] + [1e-3] * (blocks - 1),
    ],
)
def test_any_numbers_that_hold_the_stream_are_accepted(answer):
    assert check.numbers_in_front(answer).startswith("[ok]")


def smaller_of_two_factors(weight, grad, factor, least):
    ratio = factor * lengths(weight).clamp(min=least) / lengths(grad)
    return grad * ratio.clamp(max=1.0)


def row_by_row(weight, grad, factor, least):
    rows = []
    for w, g in zip(weight, grad, strict=True):
        limit = factor * max(w.norm().item(), least)
        rows.append(g * (limit / g.norm()) if g.norm() > limit else g)
    return torch.stack(rows)


def by_index(weight, grad, factor, least):
    new = grad.clone()
    limit = limit_of(weight, factor, least).expand_as(grad)
    long = torch.linalg.vector_norm(grad, dim=1) > limit[:, 0]
    new[long] *= limit[long] / torch.linalg.vector_norm(grad[long], dim=1, keepdim=True)
    return new


@pytest.mark.parametrize(
    "answer", [smaller_of_two_factors, row_by_row, by_index, partial(row_by_row)]
)
def test_clipping_in_other_ways_is_accepted(answer):
    assert check.clip_by_unit(answer).startswith("[ok]")


@pytest.mark.parametrize("value", [1.0, "K", None])
def test_what_is_no_expression_is_not_ok(value):
    assert not check.growth(value).startswith("[ok]")
