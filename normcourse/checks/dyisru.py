"""Checks of lesson 06, DyISRU: one per exercise."""

import contextlib
from collections.abc import Callable
from functools import partial
from itertools import combinations, product

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
    calls(student, exact_c, *cases, slips=CONSTANTS, what="c")


def exact_c(x: Tensor) -> Tensor:
    """The constants; it stands in for the reader's until that is right."""
    return _total(x) - x.square()


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
        exact_c(x) / (x.shape[-1] - 1)
    ),
    "the sum of the others, not divided by D: c is about D times the mean square.": lambda x: (
        exact_c(x) / x.shape[-1]
    ),
    "that is the coordinate's own square; c holds all others.": torch.square,
    "that is the mean square of the row.": lambda x: x.square().mean(-1, keepdim=True).expand_as(x),
    "that is the mean c of the row: each coordinate has its own.": lambda x: (
        exact_c(x).mean(-1, keepdim=True).expand_as(x)
    ),
    "the others are in the same row: sum over the last axis, not the first.": lambda x: (
        x.square().sum(0) - x.square()
    ),
    "c stands under the root already: take none.": lambda x: exact_c(x).sqrt(),
    "the sign is turned: the total minus its own square.": lambda x: -exact_c(x),
    "from the sum, not from the mean, the own square is taken away.": lambda x: (
        x.square().mean(-1, keepdim=True) - x.square()
    ),
    "c is a sum for each row: sum over the last axis alone.": lambda x: (
        x.square().sum() - x.square()
    ),
    "the own part of the sum is x^2, not |x|.": lambda x: _total(x) - x.abs(),
    "the others stand on both sides: you add those up to the own place.": lambda x: (
        x.square().cumsum(-1) - x.square()
    ),
    "the own part of the sum is x^2, not x.": lambda x: _total(x) - x,
    "the own part of D rho^2 is x^2, not D x^2.": lambda x: _total(x) - x.shape[-1] * x.square(),
    "take the own square off the total: you add it once more.": lambda x: _total(x) + x.square(),
    "square each of the others, then add: you square their sum.": lambda x: (
        x.sum(-1, keepdim=True) - x
    ).square(),
    "the total is the sum of the squares, not D.": lambda x: x.shape[-1] - x.square(),
    "square each of the others, then add: you square the sum of their sizes.": lambda x: (
        x.abs().sum(-1, keepdim=True) - x.abs()
    ).square(),
    "take no root of the total, and square what you take off.": lambda x: (
        _total(x).sqrt() - x.abs()
    ),
    "square first, then add: you square the sum.": lambda x: (
        x.sum(-1, keepdim=True).square() - x.square()
    ),
    "take no root: the total of the squares, less the own square.": lambda x: (
        _total(x).sqrt() - x.square()
    ),
    "rho is a root: D rho^2 is the total, not D rho.": lambda x: (
        x.shape[-1] * (_total(x) / x.shape[-1]).sqrt() - x.square()
    ),
    "RMSNorm takes no mean off: D times the mean square, not times the variance.": lambda x: (
        x.shape[-1] * x.var(-1, correction=0, keepdim=True) - x.square()
    ),
    "take no root, neither of the total nor of the own square.": lambda x: _total(x).sqrt() - x,
    "eps is 0 in this exercise: leave D eps out.": lambda x: exact_c(x) + 1e-5 * x.shape[-1],
    "eps is 0 in this exercise: leave D * 1e-6 out.": lambda x: exact_c(x) + 1e-6 * x.shape[-1],
}


@exercise(
    "Exercise 2 (backward, through log c)", r"y = \kappa x/\sqrt{x^{2} + c}", "log_c of shape (1,)"
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
    slips |= {
        f"dlog_c: {text}": _with(dlog_c=wrong) for text, wrong in (DLOG | _multiplied()).items()
    }
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
    "c stands once in the numerator: dc/dlog_c belongs to dlog_c alone.": lambda dy, x, c, s: (
        dy * s * c.square() / _power(x, c)
    ),
    "in the numerator, too, c = exp(log_c).": lambda dy, x, c, s: dy * s * c.log() / _power(x, c),
    "the exponent is 3/2, not 1.": lambda dy, x, c, s: dy * s * c / _power(x, c, 1),
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
    "the exponent is 3/2, not 1/2.": lambda dy, x, c, s: (
        -_sum(dy * s * x / _power(x, c, 0.5)) / 2 * c
    ),
    "log_c is one number: sum over all rows and features.": lambda dy, x, c, s: (
        _by_c(dy, x, c, s) * c
    ),
    "dy is missing under the sum.": lambda dy, x, c, s: (
        _sum(_by_c(torch.ones_like(dy), x, c, s)) * c
    ),
    "log_c has shape (1,), and so has its gradient.": lambda dy, x, c, s: (
        _by_c(dy, x, c, s) * c
    ).sum(),
    "the exponent is 3/2, not 1.": lambda dy, x, c, s: -_sum(dy * s * x / _power(x, c, 1)) / 2 * c,
    "x enters once: the derivative of x (x^2 + c)^(-1/2) in c keeps x, not x^2.": (
        lambda dy, x, c, s: _sum(_by_c(dy, x, c, s) * x) * c
    ),
    "the exponent is 3/2, not 5/2.": lambda dy, x, c, s: (
        -_sum(dy * s * x / _power(x, c, 2.5)) / 2 * c
    ),
    "x keeps its sign: x, not |x|.": lambda dy, x, c, s: _sum(_by_c(dy, x.abs(), c, s)) * c,
    "x is missing: the derivative of x (x^2 + c)^(-1/2) in c keeps x.": lambda dy, x, c, s: (
        _sum(_by_c(dy, x, c, s) / x) * c
    ),
}
FACTORS: list[dict[str, Callable]] = [  # what multiplies dlog_c; of each dict a person makes one
    {"the sign is lost: a larger c makes the output smaller": lambda x, c, s: -1.0},
    {
        "the 1/2 of the root is missing": lambda x, c, s: 2.0,
        "half of it: the 1/2 of the root comes once": lambda x, c, s: 0.5,
    },
    {
        "one factor is left, dc/dlog_c = c": lambda x, c, s: 1 / c,
        "divided by c: dc/dlog_c = c multiplies": lambda x, c, s: 1 / c.square(),
        "dc/dlog_c is c, not log_c": lambda x, c, s: c.log() / c,
        "one factor c too many: dc/dlog_c = c multiplies once": lambda x, c, s: c,
    },
    {
        "you took the mean: the gradient of one shared number is a sum": lambda x, c, s: (
            1 / x.numel()
        ),
        "you took the mean over the rows: add them, too": lambda x, c, s: x.shape[-1] / x.numel(),
        "you took the mean over the features: add them, too": lambda x, c, s: 1 / x.shape[-1],
    },
    {"the scale is missing": lambda x, c, s: 1 / s},
]


def _multiplied() -> dict[str, Callable]:
    """The slips of FACTORS, one at a time and two at once."""
    found = {f"{text}.": [factor] for made in FACTORS for text, factor in made.items()}
    for one, other in combinations(FACTORS, 2):
        for text, second in product(one, other):
            found[f"two slips: {text}; and {second}."] = [one[text], other[second]]
    return {text: partial(_times, factors) for text, factors in found.items()}


def _times(factors: list[Callable], dy: Tensor, x: Tensor, c: Tensor, scale: float) -> Tensor:
    """The right gradient at log_c, multiplied by these factors."""
    wrong = _sum(_by_c(dy, x, c, scale)) * c
    for factor in factors:
        wrong = wrong * factor(x, c, scale)
    return wrong


@exercise("Exercise 3 (as large as the whole)", r"\sqrt{D c}/(x^{2} + c)", "which is 0 at 0")
def whole(student) -> None:
    """student(x, d, c) -> the curve whose slope is the size of RMSNorm's whole column."""
    x = 20 * draw(7)
    cases = [{"x": x, "d": 64, "c": 9.0}, {"x": 5 * draw(2, 3, seed=1), "d": 16, "c": 30.0}]
    if isinstance(got := call(student, x=x, d=64, c=9.0), Tensor) and got.shape == x.shape:
        away = got - as_large(x, 64, 9.0)
        if away.abs().min() > 1e-3 and away.std() < 1e-9:
            raise Slip("the slope is right; the curve has to be 0 at 0: take its value there off.")
    calls(student, as_large, *cases, slips=WHOLES, what="the curve")


def as_large(x: Tensor, d: int, c: float) -> Tensor:
    """The curve; it stands in for the reader's until that is right."""
    return d**0.5 * torch.atan(x / c**0.5)


WHOLES = {
    "that is the slope itself; the curve is its integral.": lambda x, d, c: (
        (d * c) ** 0.5 / (x.square() + c)
    ),
    "8 is the root of 64 on the page; take the d and the c that are given.": lambda x, d, c: (
        8 * torch.atan(x / 8)
    ),
    "d and c have changed places: sqrt(D) stands in front, sqrt(c) under x.": lambda x, d, c: (
        c**0.5 * torch.atan(x / d**0.5)
    ),
    "half of it: the arctangent's slope at 0 is 1.": lambda x, d, c: as_large(x, d, c) / 2,
    "the factor sqrt(D) is missing.": lambda x, d, c: torch.atan(x / c**0.5),
    "the factor is sqrt(D), not D.": lambda x, d, c: d * torch.atan(x / c**0.5),
    "the chain rule brings 1/sqrt(c): the factor in front is sqrt(D), not sqrt(D c).": (
        lambda x, d, c: (d * c) ** 0.5 * torch.atan(x / c**0.5)
    ),
    "the chain rule's 1/sqrt(c) counts once: the factor in front is sqrt(D).": lambda x, d, c: (
        (d / c) ** 0.5 * torch.atan(x / c**0.5)
    ),
    "in the arctangent x is divided by sqrt(c), not by c.": lambda x, d, c: (
        d**0.5 * torch.atan(x / c)
    ),
    "in the arctangent x is divided by sqrt(c), not multiplied.": lambda x, d, c: (
        d**0.5 * torch.atan(x * c**0.5)
    ),
    "in the arctangent x is divided by sqrt(c), not by c; in front sqrt(D) stands alone.": (
        lambda x, d, c: (d * c) ** 0.5 * torch.atan(x / c)
    ),
    "in the arctangent x is divided by sqrt(c), not by c, and by no c in front.": (
        lambda x, d, c: (d / c) ** 0.5 * torch.atan(x / c)
    ),
    "twice too much: the arctangent's slope at 0 is 1.": lambda x, d, c: 2 * as_large(x, d, c),
    "softsign has the slope 1/(1 + |u|)^2; look for 1/(1 + u^2).": lambda x, d, c: (
        d**0.5 * torch.nn.functional.softsign(x / c**0.5)
    ),
    "in the arctangent x is divided by sqrt(c).": lambda x, d, c: d**0.5 * torch.atan(x),
    "u = x/sqrt(c) belongs into the arctangent; then sqrt(D) stands in front.": lambda x, d, c: (
        (d / c) ** 0.5 * torch.atan(x)
    ),
    "u = x/sqrt(c) belongs into the arctangent, and sqrt(D) alone in front.": lambda x, d, c: (
        (d * c) ** 0.5 * torch.atan(x)
    ),
    "x is divided by sqrt(c), not by sqrt(D): the squares of the others decide.": lambda x, d, c: (
        d**0.5 * torch.atan(x / d**0.5)
    ),
    "the sign is turned: the curve rises.": lambda x, d, c: -as_large(x, d, c),
    "a factor 2/pi makes it end at sqrt(D), and its slope too small; the slope is given.": (
        lambda x, d, c: 2 / torch.pi * as_large(x, d, c)
    ),
    "it ends at sqrt(D), and its slope is right at 0 alone; the slope is given at every x.": (
        lambda x, d, c: 2 / torch.pi * as_large(x, d, c / (torch.pi / 2) ** 2)
    ),
    "that is step 1's curve: it has RMSNorm's slope, and not the whole.": lambda x, d, c: (
        d**0.5 * x / (x.square() + c).sqrt()
    ),
    "tanh has the slope 1 - tanh^2; 1/(1 + u^2) belongs to another function.": lambda x, d, c: (
        d**0.5 * torch.tanh(x / c**0.5)
    ),
    "the slope is right, but this curve jumps at 0, and is not 0 there.": lambda x, d, c: (
        -(d**0.5) * torch.atan(c**0.5 / x)
    ),
    "the tangent is the inverse; its slope is 1 + tan^2.": lambda x, d, c: (
        d**0.5 * torch.tan(x / c**0.5)
    ),
    "that has the slope 1/sqrt(1 + u^2), with a root; here is none.": lambda x, d, c: (
        d**0.5 * torch.asinh(x / c**0.5)
    ),
    "the derivative of ln(x^2 + c) has a factor 2x; look for 1/(1 + u^2).": lambda x, d, c: (
        (d * c) ** 0.5 * torch.log((x.square() + c) / c)
    ),
    "that is x times the slope; the slope is not constant, so integrate it.": lambda x, d, c: (
        (d * c) ** 0.5 * x / (x.square() + c)
    ),
}
