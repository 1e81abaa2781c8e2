"""Checks of lesson 06, DyISRU: one per exercise."""

import contextlib
from collections.abc import Callable
from functools import partial
from itertools import combinations, product

import torch
from torch import Tensor

from normcourse import draw, measures
from normcourse.checks.fair_comparison import two_samples
from normcourse.checks.probes import call, calls, forbid
from normcourse.checks.verdict import Slip, exercise, is_value
from normlib import functional, gradients

OUTLIER = 10  # exercise 4: times the root mean square of the others
NO_BEND = 0.1  # the error of a straight line


@exercise(
    "Exercise 1 (the exact c)",
    r"\varepsilon = 0",
    r"y_{i} = \sqrt{D} x_{i}/\sqrt{x_{i}^{2} + c_{i}}",
    "A number may be 0",
)
def true_c(student) -> None:
    """student(x) -> (..., D), the sum of the squares of the others.

    [EQ-DYISRU-EXACT]
    """
    cases = [{"x": _with_zero(3, 4)}, {"x": draw(6, seed=1)}, {"x": 1 + draw(2, 3, 5)}]
    with contextlib.suppress(RuntimeError):  # what does not broadcast is named in a square
        square = draw(4, 4, seed=2)
        lost = square.square().sum(-1) - square.square()
        if is_value(call(student, x=square), lost):
            raise Slip(
                "a sum without keepdim=True loses its axis: each row's sum needs shape (..., 1)."
            )
        _finite_at_zero(call(student, **cases[0]), cases[0]["x"], "c")
    calls(student, exact_c, *cases, slips=CONSTANTS, what="c")


def _with_zero(*shape: int, seed: int = 0) -> Tensor:
    x = draw(*shape, seed=seed)
    x.view(-1)[1] = 0
    return x


def _finite_at_zero(got, x: Tensor, what: str) -> None:
    """Raise Slip where a result is not a number at an x of 0."""
    if isinstance(got, Tensor) and got.shape == x.shape and not got[x == 0].isfinite().all():
        raise Slip(f"{what} is not a number where x is 0: you divide by x, or by y, there.")


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
    "that is the first number's c in each place: each has its own.": lambda x: exact_c(x)[
        ..., :1
    ].expand_as(x),
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
    "Exercise 2 (backward, through log c)",
    r"y = \kappa x/\sqrt{x^{2} + c}",
    "log_c of shape (1,)",
    "may be 0",
)
def backward_log(student) -> None:
    """student(dy, x, log_c, scale) -> (dx, dlog_c), log_c of shape (1,).

    [EQ-DYISRU-GRAD]
    """
    cases = [
        _log_case(3, 4, log_c=0.7, scale=2.0) | {"x": _with_zero(3, 4, seed=1)},
        _log_case(6, log_c=0.2, scale=0.6),
        _log_case(2, 3, 5, log_c=-0.4, scale=1.5),
    ]
    slips = {f"dx: {text}": _with(dx=wrong) for text, wrong in DX.items()}
    slips |= {
        f"dlog_c: {text}": _with(dlog_c=wrong) for text, wrong in (DLOG | _multiplied()).items()
    }
    watched = forbid(student, "autograd", "normlib")
    got = call(watched, **cases[0])
    if isinstance(got, tuple | list) and got:
        _finite_at_zero(got[0], cases[0]["x"], "dx")
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
    "log_c is one number: sum over the rows as well as over the features.": lambda dy, x, c, s: (
        _by_c(dy, x, c, s) * c
    ).sum(-1),
    "log_c is one number: sum over the features as well as over the rows.": lambda dy, x, c, s: (
        _by_c(dy, x, c, s) * c
    ).sum(0),
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
    far = torch.tensor([0.0, -300.0, 130.0], dtype=torch.float64)
    cases = [
        {"x": x, "d": 64, "c": 9.0},
        {"x": far, "d": 9, "c": 4.0},
        {"x": 5 * draw(2, 3, seed=1), "d": 16, "c": 30.0},
    ]
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
    "right where x > 0: the curve has the sign of x.": lambda x, d, c: as_large(x, d, c).abs(),
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


@exercise("Exercise 4 (an outlier in every row, and no bend)", "ten times", f"at most {NO_BEND}")
def my_rows(student) -> str:
    """student(rows, width, seed) -> rows with an outlier each, of which a line is a near copy."""
    worst = 0.0
    for width, seed in ((16, 0), (16, 1), (9, 2)):
        old, new = two_samples(student, width, seed)
        for x in (old, new):
            _has_outliers(x, width)
        error = _error_of_line(old, new)
        if error > NO_BEND:
            raise Slip(_why_a_line_is_far(new, width, error))
        worst = max(worst, error)
    return f"the line's error is {worst:.2g} at most"


def _has_outliers(x: Tensor, width: int) -> None:
    """Raise Slip if a row has no number that is so many times as large as the others."""
    largest = x.abs().amax(-1)
    others = ((x.square().sum(-1) - largest.square()).clamp(min=0) / (width - 1)).sqrt()
    short = largest < OUTLIER * others
    if not short.any():
        return
    second = x.abs().topk(2).values[:, 1]
    rest = (x.square().sum(-1) - largest.square() - second.square()).clamp(min=0)
    second_is_large = second > OUTLIER / 2 * (rest / (width - 2)).sqrt()
    if second_is_large.all():
        raise Slip("each row has two large numbers: one number is to outweigh all others.")
    raise Slip(
        f"{int(short.sum())} of {len(x)} rows (width {width}) have no number that is {OUTLIER} "
        "times as large as the root mean square of the others."
    )


def _error_of_line(old: Tensor, new: Tensor) -> float:
    wanted = functional.rms_norm(old, old.shape[-1:], eps=0.0)
    slope = (old * wanted).sum() / old.square().sum()
    wanted = functional.rms_norm(new, new.shape[-1:], eps=0.0)
    return measures.relative_error(slope * new, wanted).item()


def _why_a_line_is_far(x: Tensor, width: int, error: float) -> str:
    rho = x.square().mean(-1).sqrt()
    return (
        f"each row has its outlier, but the line's error is {error:.2g} (width {width}): the "
        f"largest row is {rho.max() / rho.min():.3g} times as large as the smallest. Give all rows "
        "one size."
    )


@exercise("Exercise 5 (the c of a place)", r"rows of shape (N, D)", r"\varepsilon = 0")
def c_of(student) -> None:
    """student(rows) -> one number, the mean of all exact constants."""
    cases = [{"rows": _with_zero(5, 4)}, {"rows": 3 * draw(7, 6, seed=1)}]
    several = call(student, **cases[0])
    if isinstance(several, Tensor) and several.ndim:
        for message, wrong in SEVERAL.items():
            if is_value(several, wrong(cases[0]["rows"])):
                raise Slip(message)
    calls(student, one_c, *cases, slips=PLACES, what="c")


def one_c(rows: Tensor) -> float:
    """The mean constant; it stands in for the reader's until that is right."""
    return exact_c(rows).mean().item()


SEVERAL = {
    "each number has its c: take the mean of all of them.": exact_c,
    "one number is asked: take the mean over the rows, too.": lambda rows: exact_c(rows).mean(-1),
    "one number is asked: take the mean over the numbers of a row, too.": lambda rows: exact_c(
        rows
    ).mean(0),
}
PLACES = {
    "the own square does not belong to a number's c.": lambda rows: _total(rows).mean(),
    "that is the mean square; c is the sum over the others, not their mean.": lambda rows: (
        rows.square().mean()
    ),
    "that is rho; c is a sum of squares.": lambda rows: rows.square().mean().sqrt(),
    "that is the sum of all c: take their mean.": lambda rows: exact_c(rows).sum(),
    "that is the middle c: take the mean.": lambda rows: exact_c(rows).median(),
    "that is the root of c, the knee.": lambda rows: exact_c(rows).mean().sqrt(),
    "that is the mean knee: take the mean of c, and no root.": lambda rows: (
        exact_c(rows).sqrt().mean()
    ),
    "not divided by D: c is a sum over the others.": lambda rows: (
        exact_c(rows).mean() / rows.shape[-1]
    ),
    "that is D, the start of the layer: compute c from the rows.": lambda rows: float(
        rows.shape[-1]
    ),
}
