"""Checks of lesson 05: a gain for a slope, the separated equation, from RMSNorm to DyT.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import calls
from normcourse.checks.values import is_expression
from normcourse.checks.verdict import exercise, expect, parts


@exercise("Exercise 1 (the norm's slope)", "the slope of the DyT at 0")
def gain_for(student: Callable) -> None:
    """student(weight, rho, alpha) -> the gain (D,) with which a DyT has the slope of the norm."""
    cases = [
        {"weight": draw(16, seed=2), "rho": 3.0, "alpha": 0.7},
        {"weight": draw(9, seed=3), "rho": 0.4, "alpha": 0.2},
    ]
    calls(student, _gain_slip(lambda v: v.weight / (v.rho * v.alpha)), *cases, slips=GAINS)


def _gain_slip(formula: Callable) -> Callable:
    def gain(weight: Tensor, rho: float, alpha: float) -> Tensor:
        root = math.sqrt(len(weight))
        return formula(SimpleNamespace(weight=weight, rho=rho, alpha=alpha, root=root))

    return gain


GAINS = {
    message: _gain_slip(formula)
    for message, formula in {
        "that is the slope of the norm's line. The slope of DyT is the gain times alpha.": (
            lambda v: v.weight / v.rho
        ),
        "alpha upside down: the gain times alpha has to be weight / rho.": (
            lambda v: v.weight * v.alpha / v.rho
        ),
        "rho upside down: the norm divides by rho.": lambda v: v.weight * v.rho / v.alpha,
        "both upside down: the gain times alpha has to be weight / rho.": (
            lambda v: v.weight * v.rho * v.alpha
        ),
        "rho is missing: the norm's line has the slope weight / rho.": (
            lambda v: v.weight / v.alpha
        ),
        "the trained gain is left behind: the norm's line has the slope weight / rho.": (
            lambda v: torch.ones_like(v.weight) / (v.rho * v.alpha)
        ),
        "that is the gain of the opening; its slope is weight * alpha, not weight / rho.": (
            lambda v: v.weight
        ),
        "0.5 is the alpha of one start; take the alpha that is given.": (
            lambda v: 2 * v.weight / v.rho
        ),
        "no sqrt(D) belongs here: the slope of tanh at 0 is 1.": (
            lambda v: v.root * v.weight / (v.rho * v.alpha)
        ),
        "rho is a root already; no further root.": (lambda v: v.weight / (v.rho**0.5 * v.alpha)),
        "rho enters once, not squared.": lambda v: v.weight / (v.rho**2 * v.alpha),
        "that is the slope of this DyT; find the gain for which it is weight / rho.": (
            lambda v: v.weight * v.alpha
        ),
    }.items()
}


@exercise("Exercise 2 (separate)", "D = 64", "G(0) = 0", "between −8 and 8")
def separation(separated) -> None:
    """g(y) of the separated EQ-DYT-ODE at D = 64, as a SymPy expression in y."""
    import sympy  # takes half a second, and lesson 05 has it already

    y = sympy.Symbol("y", real=True)
    integral = 4 * sympy.log((8 + y) / (8 - y))
    slips = _separated_slips(y) | {"g: this is G; the two answers have changed places.": integral}
    expect(separated, 64 / (64 - y**2), slips, "g")


@exercise("Exercise 2 (integrate)", "D = 64", "G(0) = 0", "between −8 and 8")
def integration(integral) -> None:
    """G(y), the integral of g from 0 to y, as a SymPy expression in y."""
    import sympy

    y = sympy.Symbol("y", real=True)
    want = 4 * sympy.log((8 + y) / (8 - y))
    slips = _integral_slips(sympy.log, y, want)
    slips |= {
        "G: this is y as a function of x; G is a function of y: artanh, or a logarithm.": (
            8 * sympy.tanh(y / 8)
        ),
        "G: the arctangent belongs to 64 + y^2; with the minus sign it is artanh.": (
            8 * sympy.atan(y / 8)
        ),
    }
    if is_expression(integral):
        at_zero = integral.subs([(symbol, 0) for symbol in integral.free_symbols])
        if at_zero.is_number and at_zero.is_finite and abs(complex(at_zero)) > 1e-9:
            slips["G(0) is not 0: subtract the constant, then y = 0 lies at x = 0."] = (
                want + at_zero
            )
    expect(integral, want, slips, "G")


def _separated_slips(y) -> dict:
    return {
        "g: this is the bracket itself; it is on the right, so divide by it.": 1 - y**2 / 64,
        "g: the numerator is D = 64 (so each of two fractions has 4 on top, not 1/16).": (
            1 / (64 - y**2)
        ),
        "g: the sign of y^2 is a minus.": 64 / (64 + y**2),
        "g: the two terms of the denominator have changed places.": 64 / (y**2 - 64),
        "g: y is squared in the equation.": 8 / (8 - y),
        "g: y^2 is divided by D in the equation.": 1 / (1 - y**2),
        "g: y^2 is divided by D, not by its root.": 1 / (1 - y**2 / 8),
        "g: only the fraction with 8 - y is there; add the one with 8 + y.": 4 / (8 - y),
        "g: only the fraction with 8 + y is there; add the one with 8 - y.": 4 / (8 + y),
        "g: A + B = sqrt(D) = 8, so each of the two numerators is 4.": 2 * 64 / (64 - y**2),
        "g: with the numerators 1 and 1 the sum has 16 on top, not 64.": 16 / (64 - y**2),
    }


def _integral_slips(log: Callable, y, want) -> dict:
    return {
        "G: the integral of 1/(8 - y) is -ln(8 - y): the derivative of 8 - y is -1.": (
            4 * log(8 - y) + 4 * log(8 + y) - 8 * log(8)
        ),
        "G: that sign again, and G(0) is not 0: the integral of 1/(8 - y) is -ln(8 - y).": (
            4 * log(8 - y) + 4 * log(8 + y)
        ),
        "G: the quotient is upside down; G grows with y.": -want,
        "G: the factor sqrt(D)/2 = 4 is missing.": want / 4,
        "G: the factor is sqrt(D)/2 = 4, half of that.": 2 * want,
        "G: the factor is sqrt(D)/2, not D/2.": 8 * want,
        "G: the numerator D = 64 of g is lost: each of the two fractions has 4 on top, not 1/16.": (
            want / 64
        ),
        "G: artanh(y/8) = G / 8; here the factor sqrt(D) is missing.": want / 8,
        "G: the natural logarithm belongs here, not the one to the base 10.": want / math.log(10),
        "G: this is g; integrate it.": 64 / (64 - y**2),
        "G: this is the derivative of g; integrate.": 128 * y / (64 - y**2) ** 2,
        "G: y - 8 is negative between -8 and 8, and has no real logarithm; take 8 - y.": (
            4 * log(8 + y) - 4 * log(y - 8)
        ),
        "G: the derivative of ln(64 - y^2) has a factor -2y; split g into two fractions first.": (
            64 * log(64 - y**2)
        ),
        "G: one half is missing, that of the fraction with 8 - y.": 4 * log((8 + y) / 8),
        "G: one half is missing, that of the fraction with 8 + y.": -4 * log((8 - y) / 8),
    }


@exercise("Exercise 3 (RMSNorm to the paper's DyT)", "the alpha (1,)", r"\kappa = 1")
def to_paper_form(student: Callable) -> None:
    """student(weight, rows) -> (alpha (1,), weight (D,)).

    [EQ-DYT-SOLUTION] [EQ-DYT]
    """

    def tensors(weight: Tensor, rows: Tensor) -> tuple:
        alpha, gain = parts(student(weight, rows), "alpha", "weight")
        if isinstance(alpha, float):
            alpha = weight.new_full((1,), alpha)
        return alpha, gain

    sizes = 1 + draw(4, 5, 1, seed=6).abs()
    cases = [
        {"weight": draw(16, seed=2), "rows": 2 + 3 * draw(7, 16, seed=4)},
        {"weight": draw(9, seed=3), "rows": sizes * (0.4 + 0.3 * draw(4, 5, 9, seed=5))},
    ]
    slips = {text: _paper_slip(alpha=wrong) for text, wrong in PAPER_ALPHA.items()}
    slips |= {text: _paper_slip(gain=wrong) for text, wrong in PAPER_WEIGHT.items()}
    calls(tensors, _paper_slip(), *cases, slips=slips, what=("alpha", "weight"))


def _paper_slip(alpha: Callable | None = None, gain: Callable | None = None) -> Callable:
    """The right answer, but for what is given; wrong functions take v, with all that is known."""
    alpha = alpha or (lambda v: 1 / (v.rho * v.root))
    gain = gain or (lambda v: v.weight * v.root)

    def answer(weight: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        v = SimpleNamespace(
            weight=weight,
            rows=rows,
            rho=rows.square().mean().sqrt(),
            root=math.sqrt(len(weight)),
        )
        return weight.new_full((1,), float(alpha(v))), gain(v)

    return answer


PAPER_ALPHA = {
    "alpha: 1/rho belongs to kappa = sqrt(D); for kappa = 1 it is divided by sqrt(D).": (
        lambda v: 1 / v.rho
    ),
    "alpha: sqrt(D) divides x inside tanh, so it divides alpha.": lambda v: v.root / v.rho,
    "alpha: rho divides x; a larger rho means a smaller alpha.": lambda v: v.rho / v.root,
    "alpha: upside down: rho and sqrt(D) both divide x.": lambda v: v.rho * v.root,
    "alpha: 8 is the root of 64; take the root of len(weight).": lambda v: 1 / (v.rho * 8),
    "alpha: the root of D, not D.": lambda v: 1 / (v.rho * v.root**2),
    "alpha: 0.5 is the start of the paper, not the derived curve.": lambda v: 0.5,
    "alpha: rho is the ROOT mean square; you took the mean square.": (
        lambda v: 1 / (v.rho**2 * v.root)
    ),
    "alpha: rho is missing.": lambda v: 1 / v.root,
    "alpha: rho is the root MEAN square; you took the mean length of a row.": (
        lambda v: 1 / (v.rows.norm(dim=-1).mean() * v.root)
    ),
    "alpha: rho is the root MEAN square; you took the root of a sum.": (
        lambda v: 1 / (v.rows.norm() * v.root)
    ),
    "alpha: rho is the root mean SQUARE; you took the mean of the absolute values.": (
        lambda v: 1 / (v.rows.abs().mean() * v.root)
    ),
    "alpha: the standard deviation leaves out the mean; RMSNorm divides by the root mean "
    "square.": lambda v: 1 / (v.rows.std() * v.root),
    "alpha: the standard deviation (of the population) leaves out the mean; RMSNorm divides by "
    "the root mean square.": lambda v: 1 / (v.rows.std(correction=0) * v.root),
    "alpha: take the mean of all squares first and then one root; you took a root for each row "
    "and averaged.": lambda v: 1 / (v.rows.square().mean(-1).sqrt().mean() * v.root),
    "alpha: the size of all rows together; you took that of the first one.": (
        lambda v: 1 / (v.rows.flatten(0, -2)[0].square().mean().sqrt() * v.root)
    ),
}
PAPER_WEIGHT = {
    "weight: the curve ends at |w| sqrt(D); with this gain it ends at |w|, and its slope at 0 is "
    "sqrt(D) times too small.": lambda v: v.weight,
    "weight: the trained gain is left behind; it multiplies sqrt(D).": (
        lambda v: torch.full_like(v.weight, v.root)
    ),
    "weight: the trained gain is left behind, and sqrt(D) is missing.": (
        lambda v: torch.ones_like(v.weight)
    ),
    "weight: multiply by sqrt(D); alpha is what is divided.": lambda v: v.weight / v.root,
    "weight: the root of D, not D.": lambda v: v.weight * v.root**2,
    "weight: rho is in alpha already; the curve ends at |w| sqrt(D) for each rho.": (
        lambda v: v.weight * v.root / v.rho
    ),
}
