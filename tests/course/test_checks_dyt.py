"""The checks of lesson 05 name the slips people make, and accept answers written otherwise."""

import copy
import math
from functools import partial

import pytest
import sympy
import torch
from torch import nn

from normcourse.checks import dyt as check
from normlib import layers, surgery
from tests.course.solutions import load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")
y = sympy.Symbol("y", real=True)
log = sympy.log
G = 64 / (64 - y**2)
INTEGRAL = 4 * log((8 + y) / (8 - y))


@pytest.mark.parametrize(
    "separated, integral",
    [
        (4 / (8 - y) + 4 / (8 + y), 8 * sympy.atanh(y / 8)),
        (1 / (1 - (y / 8) ** 2), 4 * log(8 + y) - 4 * log(8 - y)),
        (G, sympy.integrate(G, y) - sympy.integrate(G, y).subs(y, 0)),
    ],
    ids=["artanh", "two logarithms", "SymPy's"],
)
def test_the_separated_equation_may_be_written_otherwise(separated, integral):
    assert check.separation(separated, integral).startswith("[ok]")


WRONG_SEPARATIONS = {
    "the bracket": (1 - y**2 / 64, INTEGRAL, "divide by it"),
    "no numerator": (1 / (64 - y**2), INTEGRAL, "numerator is D"),
    "plus": (64 / (64 + y**2), INTEGRAL, "minus"),
    "sign of g": (-G, INTEGRAL, "changed places"),
    "y not squared": (1 / (1 - y / 8), INTEGRAL, "squared"),
    "no D": (1 / (1 - y**2), INTEGRAL, "divided by D in"),
    "root of D": (1 / (1 - y**2 / 8), INTEGRAL, "not by its root"),
    "one fraction": (4 / (8 - y), INTEGRAL, "add the one"),
    "numerators of 8": (8 / (8 - y) + 8 / (8 + y), INTEGRAL, "each of the two numerators"),
    "numerators of 1": (1 / (8 - y) + 1 / (8 + y), INTEGRAL, "16 on top"),
    "minus forgotten": (G, 4 * log(8 - y) + 4 * log(8 + y), "that sign again"),
    "minus forgotten, from 0": (G, 4 * log(64 - y**2) - 4 * log(64), "derivative of 8 - y"),
    "upside down": (G, -INTEGRAL, "upside down"),
    "factor forgotten": (G, log((8 + y) / (8 - y)), "sqrt(D)/2 = 4 is missing"),
    "factor of 8": (G, 2 * INTEGRAL, "half of that"),
    "A of 1/16": (G, INTEGRAL / 64, "not 1/16"),
    "factor of 32": (G, 8 * INTEGRAL, "not D/2"),
    "artanh": (G, sympy.atanh(y / 8), "artanh"),
    "not integrated": (G, G, "integrate it"),
    "differentiated": (G, sympy.diff(G, y), "derivative of g"),
    "negative argument": (G, 4 * log(8 + y) - 4 * log(y - 8), "no real logarithm"),
    "a constant": (G, INTEGRAL + 3, "subtract the constant"),
    "half of it": (G, 4 * log((8 + y) / 8), "with 8 - y"),
    "the other half": (G, -4 * log((8 - y) / 8), "with 8 + y"),
    "base 10": (G, INTEGRAL / log(10), "base 10"),
    "solved for y": (G, 8 * sympy.tanh(y / 8), "y as a function of x"),
    "changed places": (INTEGRAL, G, "have changed places"),
    "logarithm of the denominator": (G, 64 * log(64 - y**2), "factor -2y"),
    "arctangent": (G, 8 * sympy.atan(y / 8), "arctangent"),
    "tripled": (G, 3 * INTEGRAL, "off by"),
}


@pytest.mark.parametrize(
    "separated, integral, message", WRONG_SEPARATIONS.values(), ids=WRONG_SEPARATIONS
)
def test_a_wrong_separation_is_named(separated, integral, message):
    verdict = check.separation(separated, integral)
    assert verdict.startswith("[x]") and message in verdict


def decay(x, rho, width):
    return torch.exp(-x.abs() / (rho * math.sqrt(width)))


WRONG_CURVES = {
    "one side": (
        lambda x, r, d: d**0.5 * (1 - torch.exp(-x / (r * d**0.5))),
        "the curve is odd",
    ),
    "even": (lambda x, r, d: d**0.5 * (1 - decay(x, r, d)), "same on both sides"),
    "nothing below 0": (
        lambda x, r, d: d**0.5 * (1 - decay(x.clamp(min=0), r, d)),
        "mirror the other side",
    ),
    "sign of the integral": (
        lambda x, r, d: x.sign() * d**0.5 * (1 / decay(x, r, d) - 1),
        "without limit",
    ),
    "no constant": (lambda x, r, d: -x.sign() * d**0.5 * decay(x, r, d), "the 1 in front"),
    "constant without its factor": (
        lambda x, r, d: x.sign() * (d**0.5 - decay(x, r, d)),
        "multiplies the exponential",
    ),
    "tanh": (lambda x, r, d: d**0.5 * torch.tanh(x / (r * d**0.5)), "curve of the lesson"),
    "no level": (lambda x, r, d: x.sign() * (1 - decay(x, r, d)), "in front is missing"),
    "no root inside": (
        lambda x, r, d: x.sign() * d**0.5 * (1 - torch.exp(-x.abs() / r)),
        "missing inside",
    ),
    "root upside down": (
        lambda x, r, d: x.sign() * d**0.5 * (1 - torch.exp(-x.abs() * d**0.5 / r)),
        "you multiply",
    ),
    "no root at all": (lambda x, r, d: x.sign() * (1 - torch.exp(-x.abs() / r)), "inside and"),
    "no rho": (lambda x, r, d: x.sign() * d**0.5 * (1 - decay(x, 1, d)), "rho is missing"),
    "rho upside down": (lambda x, r, d: x.sign() * d**0.5 * (1 - decay(x, 1 / r, d)), "smaller"),
    "D": (lambda x, r, d: x.sign() * d * (1 - torch.exp(-x.abs() / (r * d))), "not D"),
    "sign of the exponent": (
        lambda x, r, d: x.sign() * d**0.5 * (1 - 1 / decay(x, r, d)),
        "falls without limit",
    ),
    "a guess": (lambda x, r, d: (x / r) / (1 + x.abs() / (r * d**0.5)), "do not guess"),
    "a line": (lambda x, r, d: x / r, "frozen altogether"),
    "detached": (
        lambda x, r, d: (x.sign() * d**0.5 * (1 - decay(x, r, d))).detach(),
        "no gradient",
    ),
    "NaN at 0": (
        lambda x, r, d: x / x.abs() * d**0.5 * (1 - decay(x, r, d)),
        "no value at 0; take x.sign()",
    ),
    "two dimensions": (
        lambda x, r, d: x.sign() * d**0.5 * (1 - decay(x[:, :], r, d)),
        "for x of shape (5,), rho = 0.9, width = 4: your code raised IndexError",
    ),
    "doubled": (lambda x, r, d: x.sign() * d**0.5 * (2 - 2 * decay(x, r, d)), "off by"),
}


@pytest.mark.parametrize("wrong, message", WRONG_CURVES.values(), ids=WRONG_CURVES)
def test_a_wrong_curve_is_named(wrong, message):
    verdict = check.another_curve(wrong)
    assert verdict.startswith("[x]") and message in verdict


def by_where(x, rho, width):
    level = math.sqrt(width)
    positive = level * (1 - torch.exp(-x / (rho * level)))
    negative = level * (torch.exp(x / (rho * level)) - 1)
    return torch.where(x > 0, positive, negative)


def by_copysign(x, rho, width):
    return torch.copysign(-torch.expm1(-x.abs() / (rho * width**0.5)) * width**0.5, x)


def by_both_sides(x, rho, width):
    level = torch.tensor(width, dtype=x.dtype).sqrt()
    up, down = (-torch.expm1(-side.clamp(min=0) / rho / level) for side in (x, -x))
    return level * (up - down)


def by_clone(x, rho, width):
    y = math.sqrt(width) * (1 - decay(x, rho, width))
    y[x < 0] *= -1
    return y


@pytest.mark.parametrize(
    "curve", [by_where, by_copysign, by_both_sides, by_clone, partial(by_where)]
)
def test_the_curve_may_be_written_otherwise(curve):
    assert check.another_curve(curve).startswith("[ok]")


def root(weight):
    return math.sqrt(len(weight))


def one(value):
    return torch.tensor([value], dtype=torch.float64)


WRONG_ALPHAS = {
    "scale not folded": (lambda w, rho: 1 / rho, "for kappa = 1"),
    "multiplied": (lambda w, rho: root(w) / rho, "divides alpha"),
    "upside down": (lambda w, rho: rho / root(w), "smaller alpha"),
    "all upside down": (lambda w, rho: rho * root(w), "both divide x"),
    "the root of 64": (lambda w, rho: 1 / (rho * 8), "len(weight)"),
    "D for its root": (lambda w, rho: 1 / (rho * len(w)), "not D"),
    "the default": (lambda w, rho: 0.5, "start of the paper"),
    "root of rho": (lambda w, rho: 1 / (rho**0.5 * root(w)), "no further root"),
    "rho squared": (lambda w, rho: 1 / (rho**2 * root(w)), "not squared"),
}


@pytest.mark.parametrize("wrong, message", WRONG_ALPHAS.values(), ids=WRONG_ALPHAS)
def test_a_wrong_alpha_is_named(wrong, message):
    verdict = check.to_paper_form(lambda w, rho: (one(wrong(w, rho)), root(w) * w))
    assert verdict.startswith("[x]") and "alpha: " in verdict and message in verdict


WRONG_WEIGHTS = {
    "not folded": (lambda w, rho: w, "ends at |w| sqrt(D); with"),
    "gain left behind": (lambda w, rho: torch.full_like(w, root(w)), "left behind; it"),
    "fresh gain": (lambda w, rho: torch.ones_like(w), "left behind, and"),
    "divided": (lambda w, rho: w / root(w), "multiply by sqrt(D)"),
    "D for its root": (lambda w, rho: w * len(w), "not D"),
    "with rho": (lambda w, rho: root(w) * w / rho, "rho is in alpha"),
}


@pytest.mark.parametrize("wrong, message", WRONG_WEIGHTS.values(), ids=WRONG_WEIGHTS)
def test_a_wrong_weight_is_named(wrong, message):
    verdict = check.to_paper_form(lambda w, rho: (one(1 / (root(w) * rho)), wrong(w, rho)))
    assert verdict.startswith("[x]") and "weight: " in verdict and message in verdict


def test_alpha_may_be_a_float():
    assert check.to_paper_form(lambda w, rho: (1 / (root(w) * rho), root(w) * w)).startswith("[ok]")


def swapped_with(**wrong):
    return lambda net, pictures: check._converted(net, pictures, **wrong)


@pytest.mark.parametrize("message, wrong", check.SWAPS.items(), ids=range(len(check.SWAPS)))
def test_a_wrong_swap_is_named(message, wrong):
    verdict = check.swap(swapped_with(**wrong))
    assert verdict.startswith("[x]") and message in verdict


def test_a_swap_may_be_fitted():
    def fitted(net, pictures):
        net = copy.deepcopy(net)
        return surgery.replace(net, layers.RMSNorm, layers.DyT, fit_to=[pictures])[0]

    assert check.swap(fitted).startswith("[ok]")


def in_place(net, pictures):
    return surgery.replace(net, layers.RMSNorm, lambda norm: layers.DyT(len(norm.weight)))[0]


def last_left(net, pictures):
    other = load("05_dyt")["swapped"](net, pictures)
    other[-3] = net[-3]
    return other


def no_norm(net, pictures):
    net = copy.deepcopy(net)
    return surgery.replace(net, layers.RMSNorm, lambda norm: nn.Identity())[0]


def hooks_left(net, pictures):
    net[-3].register_forward_pre_hook(lambda norm, inputs: None)
    return swapped_with()(net, pictures)


def hooks_left_on_the_copy(net, pictures):
    new = swapped_with()(net, pictures)
    new[1].register_forward_hook(lambda *given: None)
    return new


def linear_shared(net, pictures):
    new = swapped_with()(net, pictures)
    new[-1].weight = net[-1].weight
    return new


def embedding_shared(net, pictures):
    new = swapped_with()(net, pictures)
    new[1] = net[1]
    return new


def scaled(net, pictures):
    def new(norm):
        return layers.DyT(len(norm.weight), 0.3, "sqrt_d", bias=False)

    return surgery.replace(copy.deepcopy(net), layers.RMSNorm, new)[0]


WRONG_NETS = {
    "in place": (in_place, "has changed"),
    "the last norm left": (last_left, "1 of 3 RMSNorm are left"),
    "no norm": (no_norm, "expected 3 layers.DyT, found 0"),
    "nothing returned": (lambda net, pictures: None, "expected a network"),
    "hooks left": (hooks_left, "on the net that was passed in: call handle.remove()"),
    "hooks left on the copy": (hooks_left_on_the_copy, "on the copy: call handle.remove()"),
    "a Linear shared": (linear_shared, "shares 7.weight with the one that was passed in"),
    "the embedding shared": (embedding_shared, "shares 1.weight"),
    "another scale": (scaled, "scale 1"),
    "a wrong alpha": (swapped_with(alpha=lambda v: 0.02), "off by"),
}


@pytest.mark.parametrize("wrong, message", WRONG_NETS.values(), ids=WRONG_NETS)
def test_a_wrong_network_is_named(wrong, message):
    verdict = check.swap(wrong)
    assert verdict.startswith("[x]") and message in verdict
