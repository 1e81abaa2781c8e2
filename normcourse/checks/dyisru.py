"""Checks of lesson 06, DyISRU: one per exercise."""

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import call, calls, forbid
from normcourse.checks.verdict import Slip, exercise, is_value
from normlib import gradients


@exercise(
    "Exercise 1 (the exact c)",
    r"\varepsilon = 0",
    r"y_{i} = \sqrt{D} x_{i}/\sqrt{x_{i}^{2} + c_{i}}",
)
def true_c(student) -> None:
    """student(x) -> (..., D), the sum of the squares of the others.

    [EQ-DYISRU-EXACT]
    """
    cases = [{"x": draw(3, 4)}, {"x": draw(6, seed=1)}, {"x": 1 + draw(2, 3, 5)}]
    with contextlib.suppress(RuntimeError):  # what does not broadcast is named in a square
        square = draw(4, 4, seed=2)
        lost = square.square().sum(-1) - square.square()
        if is_value(call(student, x=square), lost):
            raise Slip(
                "a sum without keepdim=True loses its axis: each row's sum needs shape (..., 1)."
            )
    calls(student, _others, *cases, slips=CONSTANTS, what="c")


def _others(x: Tensor) -> Tensor:
    rest = 1 - torch.eye(x.shape[-1], dtype=x.dtype)
    return (x.square().unsqueeze(-2) * rest).sum(-1)


def _total(x: Tensor) -> Tensor:
    return x.square().sum(-1, keepdim=True)


CONSTANTS = {
    "the coordinate's own square does not belong to c: the curve adds x^2 itself.": lambda x: (
        _total(x).expand_as(x)
    ),
    "one c for each coordinate: keep the shape of x, without its own square in each place.": _total,
    "one c for each coordinate, without its own square: you return one for each row.": lambda x: (
        _total(x).squeeze(-1)
    ),
    "add squares, not values.": lambda x: x.sum(-1, keepdim=True) - x,
    "add squares, not absolute values.": lambda x: x.abs().sum(-1, keepdim=True) - x.abs(),
    "the sum of the others, not their mean: c is about D times the mean square.": lambda x: (
        _others(x) / (x.shape[-1] - 1)
    ),
    "the sum of the others, not divided by D: c is about D times the mean square.": lambda x: (
        _others(x) / x.shape[-1]
    ),
    "that is the coordinate's own square; c holds all others.": torch.square,
    "that is the mean square of the row.": lambda x: x.square().mean(-1, keepdim=True).expand_as(x),
    "that is the mean c of the row: each coordinate has its own.": lambda x: (
        _others(x).mean(-1, keepdim=True).expand_as(x)
    ),
    "the others are in the same row: sum over the last axis, not the first.": lambda x: (
        x.square().sum(0) - x.square()
    ),
    "c stands under the root already: take none.": lambda x: _others(x).sqrt(),
    "the sign is turned: the total minus its own square.": lambda x: -_others(x),
    "from the sum, not from the mean, the own square is taken away.": lambda x: (
        x.square().mean(-1, keepdim=True) - x.square()
    ),
    "c is a sum for each row: sum over the last axis alone.": lambda x: (
        x.square().sum() - x.square()
    ),
    "the own part of the sum is x^2, not x.": lambda x: _total(x) - x,
    "the total is the sum of the squares, not D.": lambda x: x.shape[-1] - x.square(),
    "square first, then add: you square the sum.": lambda x: (
        x.sum(-1, keepdim=True).square() - x.square()
    ),
    "take no root, neither of the total nor of the own square.": lambda x: _total(x).sqrt() - x,
    "eps is 0 in this exercise: leave D eps out.": lambda x: _others(x) + 1e-5 * x.shape[-1],
    "eps is 0 in this exercise: leave D * 1e-6 out.": lambda x: _others(x) + 1e-6 * x.shape[-1],
}


@exercise("Exercise 2 (the Bernoulli line)", "u = 1/y^{2}")
def bernoulli(student) -> None:
    """student(x, u, d) -> du/dx for u = 1/y^2.

    [EQ-BERNOULLI]
    """
    x = draw(5)
    cases = [
        {"x": x, "u": 0.3 + draw(5, seed=1).square(), "d": 16},
        {"x": x, "u": (x.square() + 2) / (9 * x.square()), "d": 9},
    ]
    calls(student, lambda x, u, d: -2 / x * (u - 1 / d), *cases, slips=BERNOULLI, what="du/dx")


def _slope(x: Tensor, u: Tensor, d: int) -> Tensor:
    """y', the derivative before the substitution."""
    y = u.rsqrt()
    return y / x * (1 - y**2 / d)


BERNOULLI = {
    "that is the article's middle line: 1/u is y^2. Multiply y'/y^3 out again: "
    "u itself remains.": lambda x, u, d: -2 / x * (1 / u - 1 / d),
    "the sign is lost: the derivative of y^-2 is -2 y^-3 y'.": lambda x, u, d: 2 / x * (u - 1 / d),
    "the exponent's factor 2 is missing: the derivative of y^-2 is -2 y^-3 y'.": (
        lambda x, u, d: -(u - 1 / d) / x
    ),
    "1/D is missing: y^2/D times y^-2 leaves 1/D.": lambda x, u, d: -2 / x * u,
    "1/D, not 1: the bracket of the equation is 1 - y^2/D.": lambda x, u, d: -2 / x * (u - 1),
    "1/D, not D: the bracket of the equation is 1 - y^2/D.": lambda x, u, d: -2 / x * (u - d),
    "that is the derivative of y^-2 by y: the chain rule multiplies it by y'.": (
        lambda x, u, d: -2 * u**1.5
    ),
    "1/D, not 1/sqrt(D).": lambda x, u, d: -2 / x * (u - d**-0.5),
    "1/D is subtracted: the bracket of the equation is 1 - y^2/D.": lambda x, u, d: (
        -2 / x * (u + 1 / d)
    ),
    "divide by x, do not multiply.": lambda x, u, d: -2 * x * (u - 1 / d),
    "the last term is 2/(D x): both terms of the bracket are divided by x.": lambda x, u, d: (
        -2 / x * u + 2 / d
    ),
    "that is y', the derivative before the substitution.": _slope,
    "that is y'/y^3: the chain rule gives -2 of it.": lambda x, u, d: (u - 1 / d) / x,
    "x is missing: y' has the factor y/x.": lambda x, u, d: -2 * (u - 1 / d),
    "y^2/D times y^-2 leaves 1/D: no u is left in the last term.": lambda x, u, d: (
        -2 / x * (u - u / d)
    ),
    "all of y becomes u, also y^3: divide by y^3 first, as the chain rule does.": (
        lambda x, u, d: -2 / x * (u - u**3 / d)
    ),
    "y^3 is not u^3, and the chain rule is missing: u' = -2 y^-3 y'.": (
        lambda x, u, d: (u - u**3 / d) / x
    ),
    "the exponent -2 comes down as a factor: -2, not -1/2.": lambda x, u, d: -(u - 1 / d) / (2 * x),
    "the exponent -2 comes down as a factor: -2, not 1/2.": lambda x, u, d: (u - 1 / d) / (2 * x),
    "in the bracket of y' stands y^2, and y^2 is 1/u.": lambda x, u, d: -2 * u / x * (1 - u / d),
    "y^-2 multiplies both terms of the bracket: u - 1/D.": lambda x, u, d: -2 / x * (1 - u / d),
    "y^-3 y is y^-2, not y^-3: one power of u, no root.": lambda x, u, d: (
        -2 * u**1.5 / x * (1 - 1 / u / d)
    ),
    "the chain rule gives -2 y^-3 y', not -2 y^-1 y'.": lambda x, u, d: -2 / x * (1 - 1 / u / d),
}


@exercise(
    "Exercise 3 (backward, through log c)", r"y = \kappa x/\sqrt{x^{2} + c}", "log_c of shape (1,)"
)
def backward_log(student) -> None:
    """student(dy, x, log_c, scale) -> (dx, dlog_c), log_c of shape (1,).

    [EQ-DYISRU-GRAD]
    """
    cases = [
        _log_case(3, 4, log_c=0.7, scale=2.0),
        _log_case(6, log_c=0.2, scale=0.6),
        _log_case(2, 3, 5, log_c=-0.4, scale=1.5),
    ]
    slips = {f"dx: {text}": _with(dx=wrong) for text, wrong in DX.items()}
    slips |= {f"dlog_c: {text}": _with(dlog_c=wrong) for text, wrong in DLOG.items()}
    watched = forbid(student, "autograd", "normlib")
    calls(watched, _with(), *cases, slips=slips, what=("dx", "dlog_c"))


def _log_case(*shape: int, log_c: float, scale: float) -> dict:
    return {
        "dy": draw(*shape),
        "x": 1 + draw(*shape, seed=1),
        "log_c": torch.tensor([log_c], dtype=torch.float64),
        "scale": scale,
    }


def _with(dx: Callable | None = None, dlog_c: Callable | None = None) -> Callable:
    """The right answer, but for what is given; wrong functions take dy, x, c, scale."""

    def answer(dy: Tensor, x: Tensor, log_c: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        c = log_c.exp()
        right, dc = gradients.dyisru_backward(dy, x, c, scale=scale)
        first = right if dx is None else dx(dy, x, c, scale)
        return first, dc * c if dlog_c is None else dlog_c(dy, x, c, scale)

    return answer


def _power(x: Tensor, c: Tensor, exponent: float = 1.5) -> Tensor:
    return (x.square() + c) ** exponent


def _by_c(dy: Tensor, x: Tensor, c: Tensor, scale: float) -> Tensor:
    """What each number brings to the gradient at c."""
    return -dy * scale * x / _power(x, c) / 2


def _sum(terms: Tensor) -> Tensor:
    return terms.sum().reshape(1)


DX = {
    "dy is missing: multiply by what comes from above.": lambda dy, x, c, s: s * c / _power(x, c),
    "the scale is missing.": lambda dy, x, c, s: dy * c / _power(x, c),
    "the exponent is 3/2: x^2 + c comes once from the quotient and once from its root.": (
        lambda dy, x, c, s: dy * s * c / _power(x, c, 0.5)
    ),
    "that holds the root fixed: x is under the root too.": lambda dy, x, c, s: (
        dy * s / _power(x, c, 0.5)
    ),
    "c is missing in the numerator: x^2 + c - x^2 = c.": lambda dy, x, c, s: dy * s / _power(x, c),
    "the root of c stands in the numerator: c itself belongs there.": lambda dy, x, c, s: (
        dy * s * c.sqrt() / _power(x, c)
    ),
    "the sign is turned: the curve rises everywhere.": lambda dy, x, c, s: (
        -dy * s * c / _power(x, c)
    ),
    "you use log_c for c: c = exp(log_c).": lambda dy, x, c, s: (
        dy * s * c.log() / _power(x, c.log())
    ),
    "half of it: the 2x of the inner derivative takes the 1/2 of the root away.": (
        lambda dy, x, c, s: dy * s * c / _power(x, c) / 2
    ),
    "the exponent is 3/2, not 2.": lambda dy, x, c, s: dy * s * c / _power(x, c, 2),
    "the second term of the product rule is subtracted: x^2 + c - x^2.": lambda dy, x, c, s: (
        dy * s * (2 * x.square() + c) / _power(x, c)
    ),
    "the 1/2 of the root and the 2 of 2x make 1: x^2 + c - x^2.": lambda dy, x, c, s: (
        dy * s * (x.square() / 2 + c) / _power(x, c)
    ),
    "the inner derivative 2x is missing in the product rule.": lambda dy, x, c, s: (
        dy * s * (x.square() + c - x / 2) / _power(x, c)
    ),
}
DLOG = {
    "that is dL/dc: one factor is left, dc/dlog_c = c.": lambda *case: _sum(_by_c(*case)),
    "divided by c: dc/dlog_c = c multiplies.": lambda dy, x, c, s: _sum(_by_c(dy, x, c, s)) / c,
    "the sign is lost: a larger c makes the output smaller.": lambda dy, x, c, s: (
        -_sum(_by_c(dy, x, c, s)) * c
    ),
    "the sign is lost, and dc/dlog_c = c is missing.": lambda *case: -_sum(_by_c(*case)),
    "the 1/2 of the root is missing.": lambda dy, x, c, s: 2 * _sum(_by_c(dy, x, c, s)) * c,
    "half of it: the 1/2 of the root comes once.": lambda dy, x, c, s: (
        _sum(_by_c(dy, x, c, s)) * c / 2
    ),
    "dc/dlog_c is c, not log_c.": lambda dy, x, c, s: _sum(_by_c(dy, x, c, s)) * c.log(),
    "the exponent is 3/2, not 1/2.": lambda dy, x, c, s: (
        -_sum(dy * s * x / _power(x, c, 0.5)) / 2 * c
    ),
    "log_c is one number: sum over all rows and features.": lambda dy, x, c, s: (
        _by_c(dy, x, c, s) * c
    ),
    "you took the mean: the gradient of one shared number is a sum.": lambda dy, x, c, s: (
        _sum(_by_c(dy, x, c, s)) * c / x.numel()
    ),
    "dy is missing under the sum.": lambda dy, x, c, s: (
        _sum(_by_c(torch.ones_like(dy), x, c, s)) * c
    ),
    "the scale is missing.": lambda dy, x, c, s: _sum(_by_c(dy, x, c, 1.0)) * c,
    "log_c has shape (1,), and so has its gradient.": lambda dy, x, c, s: (
        _by_c(dy, x, c, s) * c
    ).sum(),
    "x is missing: the derivative of x (x^2 + c)^(-1/2) in c keeps x.": lambda dy, x, c, s: (
        _sum(_by_c(dy, x, c, s) / x) * c
    ),
}
