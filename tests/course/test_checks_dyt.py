"""The checks of lesson 05 name the slips people make, and accept answers written otherwise."""

import math

import pytest
import sympy
import torch

from normcourse.checks import dyt as check

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")
y = sympy.Symbol("y", real=True)
log = sympy.log
G = 64 / (64 - y**2)
INTEGRAL = 4 * log((8 + y) / (8 - y))


WRONG_GAINS = {
    "the line's slope": (lambda w, rho, alpha: w / rho, "slope of the norm's line"),
    "alpha upside down": (lambda w, rho, alpha: w * alpha / rho, "alpha upside down"),
    "rho upside down": (lambda w, rho, alpha: w * rho / alpha, "rho upside down"),
    "both": (lambda w, rho, alpha: w * rho * alpha, "both upside down"),
    "no rho": (lambda w, rho, alpha: w / alpha, "rho is missing"),
    "no trained gain": (lambda w, rho, alpha: torch.ones(len(w)).double() / rho / alpha, "left"),
    "as it starts": (lambda w, rho, alpha: w, "of the opening"),
    "the page's alpha": (lambda w, rho, alpha: w / rho / 0.5, "that is given"),
    "the root of D": (lambda w, rho, alpha: root(w) * w / rho / alpha, "no sqrt(D)"),
    "root of rho": (lambda w, rho, alpha: w / math.sqrt(rho) / alpha, "no further root"),
    "rho squared": (lambda w, rho, alpha: w / rho / rho / alpha, "not squared"),
    "slope for gain": (lambda w, rho, alpha: w * alpha, "slope of this DyT"),
    "tripled": (lambda w, rho, alpha: 3 * w / rho / alpha, "off by"),
    "a number": (lambda w, rho, alpha: 1 / rho / alpha, "expected a tensor of shape (16,)"),
}


@pytest.mark.parametrize("wrong, message", WRONG_GAINS.values(), ids=WRONG_GAINS)
def test_a_wrong_gain_is_named(wrong, message):
    verdict = check.gain_for(wrong)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(
    "gain",
    [
        lambda w, rho, alpha: w / rho / alpha,
        lambda w, rho, alpha: (1 / (rho * alpha)) * w.clone(),
        lambda w, rho, alpha: torch.stack([one / (rho * alpha) for one in w]),
    ],
)
def test_the_gain_may_be_written_otherwise(gain):
    assert check.gain_for(gain).startswith("[ok]")


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
    assert check.separation(separated).startswith("[ok]")
    assert check.integration(integral).startswith("[ok]")


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
    "A of 1/16 in g": (
        sympy.Rational(1, 16) / (8 - y) + sympy.Rational(1, 16) / (8 + y),
        INTEGRAL,
        "not 1/16",
    ),
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
    verdicts = [check.separation(separated), check.integration(integral)]
    wrong = [verdict for verdict in verdicts if verdict.startswith("[x]")]
    assert message in wrong[0]
    assert len(wrong) == 1 or (separated, integral) == (INTEGRAL, G)


def root(weight):
    return math.sqrt(len(weight))


def one(value):
    return torch.tensor([value], dtype=torch.float64)


def rms(rows):
    return rows.square().mean().sqrt().item()


WRONG_ALPHAS = {
    "scale not folded": (lambda w, x: 1 / rms(x), "for kappa = 1"),
    "multiplied": (lambda w, x: root(w) / rms(x), "divides alpha"),
    "upside down": (lambda w, x: rms(x) / root(w), "smaller alpha"),
    "all upside down": (lambda w, x: rms(x) * root(w), "both divide x"),
    "the root of 64": (lambda w, x: 1 / (rms(x) * 8), "len(weight)"),
    "D for its root": (lambda w, x: 1 / (rms(x) * len(w)), "not D"),
    "the default": (lambda w, x: 0.5, "start of the paper"),
    "mean square": (lambda w, x: 1 / (rms(x) ** 2 * root(w)), "the mean square"),
    "no rho": (lambda w, x: 1 / root(w), "rho is missing"),
    "lengths": (lambda w, x: 1 / (x.norm(dim=-1).mean().item() * root(w)), "mean length"),
    "one length": (lambda w, x: 1 / (x.norm().item() * root(w)), "root of a sum"),
    "absolute": (lambda w, x: 1 / (x.abs().mean().item() * root(w)), "absolute values"),
    "deviation": (lambda w, x: 1 / (x.std().item() * root(w)), "leaves out the mean"),
    "population": (lambda w, x: 1 / (x.std(correction=0).item() * root(w)), "leaves out the mean"),
    "mean of roots": (
        lambda w, x: 1 / (x.square().mean(-1).sqrt().mean().item() * root(w)),
        "and averaged",
    ),
    "one row": (
        lambda w, x: 1 / (rms(x.flatten(0, -2)[0]) * root(w)),
        "of the first one",
    ),
    "tripled": (lambda w, x: 3 / (rms(x) * root(w)), "off by"),
}


@pytest.mark.parametrize("wrong, message", WRONG_ALPHAS.values(), ids=WRONG_ALPHAS)
def test_a_wrong_alpha_is_named(wrong, message):
    verdict = check.to_paper_form(lambda w, x: (one(wrong(w, x)), root(w) * w))
    assert verdict.startswith("[x]") and "alpha" in verdict and message in verdict


WRONG_WEIGHTS = {
    "not folded": (lambda w, x: w, "ends at |w| sqrt(D); with"),
    "gain left behind": (lambda w, x: torch.full_like(w, root(w)), "left behind; it"),
    "fresh gain": (lambda w, x: torch.ones_like(w), "left behind, and"),
    "divided": (lambda w, x: w / root(w), "multiply by sqrt(D)"),
    "D for its root": (lambda w, x: w * len(w), "not D"),
    "with rho": (lambda w, x: root(w) * w / rms(x), "rho is in alpha"),
}


@pytest.mark.parametrize("wrong, message", WRONG_WEIGHTS.values(), ids=WRONG_WEIGHTS)
def test_a_wrong_weight_is_named(wrong, message):
    verdict = check.to_paper_form(lambda w, x: (one(1 / (root(w) * rms(x))), wrong(w, x)))
    assert verdict.startswith("[x]") and "weight: " in verdict and message in verdict


def by_numbers(weight, rows):
    numbers = [value * value for value in rows.flatten().tolist()]
    size = (sum(numbers) / len(numbers)) ** 0.5
    return 1 / (size * len(weight) ** 0.5), weight * len(weight) ** 0.5


def by_row_norms(weight, rows):
    mean_square = rows.square().mean(-1).mean()
    alpha = torch.rsqrt(mean_square * rows.shape[-1])
    return alpha.reshape(1), weight * math.sqrt(rows.shape[-1])


@pytest.mark.parametrize("answer", [by_numbers, by_row_norms])
def test_alpha_may_be_a_float_and_the_size_computed_otherwise(answer):
    assert check.to_paper_form(answer).startswith("[ok]")
