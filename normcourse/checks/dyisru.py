"""Checks of lesson 06, DyISRU: one per exercise."""

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import forbid, unchanged
from normcourse.checks.values import at_points, is_expression, points_of
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import gradients


@exercise(
    "Exercise 1 (the exact c)",
    r"y_{i} = \sqrt{D} x_{i}/\sqrt{x_{i}^{2} + c_{i}}",
    "an outlier of 3e9",
)
def true_c(student) -> None:
    """student(x) -> (..., D), the sum of the squares of the others.  [EQ-DYISRU-EXACT]"""
    for x in (draw(3, 4), 1 + draw(2, 3, 5)):
        expect(_call(student, x), _others(x), _c_slips(x), "c")
    outlier = torch.tensor([[3e9, 1.0, 2.0, 2.0]], dtype=torch.float64)
    got = _call(student, outlier)
    want = _others(outlier)
    if (
        isinstance(got, Tensor)
        and got.shape == want.shape
        and not torch.allclose(got, want, rtol=1e-9)
    ):
        raise Slip(
            "at an outlier of 3e9 c is 9, and you return "
            f"{got[0, 0].item():.3g}: total - x^2 cancels. Add up the others alone."
        )
    expect(got, want, what="c at an outlier")


def _others(x: Tensor) -> Tensor:
    rest = 1 - torch.eye(x.shape[-1], dtype=x.dtype)
    return (x.square().unsqueeze(-2) * rest).sum(-1)


def _c_slips(x: Tensor) -> dict[str, Tensor]:
    squares = x.square()
    size = x.shape[-1]
    total = squares.sum(-1, keepdim=True)
    return {
        "the coordinate's own square does not belong to c: the curve adds x^2 itself.": (
            total.expand_as(x)
        ),
        "one c for each coordinate: keep the shape of x, "
        "without its own square in each place.": total,
        "one c for each coordinate, without its own square: you return one for each row.": (
            total.squeeze(-1)
        ),
        "add squares, not values.": x.sum(-1, keepdim=True) - x,
        "add squares, not absolute values.": x.abs().sum(-1, keepdim=True) - x.abs(),
        "the sum of the others, not their mean: c is about D times the mean square.": (
            _others(x) / (size - 1)
        ),
        "the sum of the others, not divided by D: c is about D times the mean square.": (
            _others(x) / size
        ),
        "that is the coordinate's own square; c holds all others.": squares,
        "that is the mean square of the row.": (total / size).expand_as(x),
        "that is the mean c of the row: each coordinate has its own.": (
            (total * (1 - 1 / size)).expand_as(x)
        ),
        "the others are in the same row: sum over the last axis, not the first.": (
            squares.sum(0) - squares
        ),
        "c stands under the root already: take none.": _others(x).sqrt(),
        "the sign is turned: the total minus its own square.": squares - total,
        "from the sum, not from the mean, the own square is taken away.": total / size - squares,
        "c is a sum for each row: sum over the last axis alone.": squares.sum() - squares,
        "the own part of the sum is x^2, not x.": total - x,
    }


@exercise("Exercise 2 (the Bernoulli line)", "u = 1/y^{2}")
def bernoulli(student) -> None:
    """student(x, u, d) -> du/dx for u = 1/y^2.  [EQ-BERNOULLI]"""
    x = draw(5)
    for d, u in ((16, 0.3 + draw(5, seed=1).square()), (9, (x.square() + 2) / (9 * x.square()))):
        x_before = x.clone()
        u_before = u.clone()
        got = student(x, u, d)
        unchanged("x", x_before, x)
        unchanged("u", u_before, u)
        expect(got, -2 / x * (u - 1 / d), _bernoulli_slips(x, u, d), "du/dx")


def _bernoulli_slips(x: Tensor, u: Tensor, d: int) -> dict[str, Tensor]:
    y = u.rsqrt()
    return {
        "that is the article's middle line: 1/u is y^2. Multiply y'/y^3 out again: "
        "u itself remains.": -2 / x * (1 / u - 1 / d),
        "the sign is lost: the derivative of y^-2 is -2 y^-3 y'.": 2 / x * (u - 1 / d),
        "the exponent's factor 2 is missing: the derivative of y^-2 is -2 y^-3 y'.": (
            -(u - 1 / d) / x
        ),
        "1/D is missing: y^2/D times y^-2 leaves 1/D.": -2 / x * u,
        "1/D, not 1: the bracket of the equation is 1 - y^2/D.": -2 / x * (u - 1),
        "1/D, not D: the bracket of the equation is 1 - y^2/D.": -2 / x * (u - d),
        "that is the derivative of y^-2 by y: the chain rule multiplies it by y'.": -2 * u**1.5,
        "1/D, not 1/sqrt(D).": -2 / x * (u - d**-0.5),
        "1/D is subtracted: the bracket of the equation is 1 - y^2/D.": -2 / x * (u + 1 / d),
        "divide by x, do not multiply.": -2 * x * (u - 1 / d),
        "the last term is 2/(D x): both terms of the bracket are divided by x.": -2 / x * u + 2 / d,
        "that is y', the derivative before the substitution.": y / x * (1 - y**2 / d),
        "that is y'/y^3: the chain rule gives -2 of it.": (u - 1 / d) / x,
        "x is missing: y' has the factor y/x.": -2 * (u - 1 / d),
        "y^2/D times y^-2 leaves 1/D: no u is left in the last term.": -2 / x * (u - u / d),
        "in the bracket of y' stands y^2, and y^2 is 1/u.": -2 * u / x * (1 - u / d),
    }


@exercise("Exercise 3 (another exponent)", r"y' = \frac{y}{x} ( 1 - (y/a)^{4} )", "x > 0")
def another_exponent(answer) -> None:
    """The rising solutions of y' = (y/x) (1 - (y/a)^4), an expression in x, a and c."""
    import sympy

    x, a, c = sympy.symbols("x a c", positive=True)
    if is_expression(answer) and _solves(answer):
        return
    fourth = sympy.Rational(1, 4)
    body = x**4 + c
    slips = {
        "the root is the fourth: y^4 = 1/u, so y is its fourth root.": a * x / sympy.sqrt(body),
        "that is DyISRU: with the exponent 4 the substitution is u = y^-4.": (
            a * x / sympy.sqrt(x**2 + c)
        ),
        "the level is missing: far out the bracket has to vanish, and it does at y = a.": (
            x / body**fourth
        ),
        "that is u = 1/y^4; go back to y.": body / (a * x) ** 4,
        "that is a u = 1/y^4 of the family; go back to y.": 1 / a**4 + c / x**4,
        "that is one solution, with the constant 1: leave it free, as c.": (
            a * x / (x**4 + 1) ** fourth
        ),
        "that is lesson 05's curve, which holds the size constant: here y/x stands in front.": (
            a * sympy.tanh(x / a)
        ),
        "for y^5 beside y the new unknown is y^(1-5) = y^-4, not y^-3.": (
            (1 / a**3 + c / x**3) ** sympy.Rational(-1, 3)
        ),
        "that is y^4; one root is left.": (a * x) ** 4 / body,
        "that is y^2; one root is left.": (a * x) ** 2 / sympy.sqrt(body),
        "that is y^2, written with u: one root is left.": 1 / sympy.sqrt(1 / a**4 + c / x**4),
        "the integrating factor is x^4: from u = y^-4 a factor 4 comes down.": (
            a * (x / (x + c)) ** fourth
        ),
        "the factor is x^4, not x^2: from u = y^-4 a factor 4 comes down.": (
            a * sympy.sqrt(x) / (x**2 + c) ** fourth
        ),
        "y = a solves it, too, but that is one solution: where is the constant?": a,
        "that solves it only where x^4 > c: for a curve on the whole line the constant is added.": (
            a * x / (x**4 - c) ** fourth
        ),
        "that solves it, but falls: take the rising one.": -a * x / body**fourth,
        "the fraction is upside down.": body**fourth / (a * x),
        "the constant belongs under the root: it is added before you take it.": a * x / (x + c),
        "x is missing: the factor x^4 of v = x^4 u comes back to the numerator.": (
            a / body**fourth
        ),
        "the level is a: a^4 stands under the fourth root.": a**4 * x / body**fourth,
    }
    expect(answer, a * x / body**fourth, slips, "the curve")


def _solves(answer) -> bool:
    """Whether the curve obeys the equation, rises for x > 0 and holds a constant c."""
    import sympy

    symbols = {symbol.name: symbol for symbol in answer.free_symbols}
    if not {"x", "c"} <= set(symbols) <= {"x", "a", "c"}:
        return False
    level = symbols.get("a", sympy.Symbol("a", positive=True))
    x = symbols["x"]
    rest = sympy.diff(answer, x) - answer / x * (1 - (answer / level) ** 4)
    positive = {name: sympy.Symbol(name, positive=True) for name in ("x", "a", "c")}
    swap = {symbol: positive[symbol.name] for symbol in {*symbols.values(), level}}
    points = points_of(positive.values())
    values = at_points(answer.subs(swap), points)
    rests = at_points(rest.subs(swap), points)
    rises = bool((values.imag.abs() < 1e-12).all() and (values.real > 0).all())
    return rises and bool((rests.abs() < 1e-9).all())


@exercise(
    "Exercise 4 (backward, through log c)", r"y = \kappa x/\sqrt{x^{2} + c}", "log_c of shape (1,)"
)
def backward_log(student) -> None:
    """student(dy, x, log_c, scale) -> (dx, dlog_c), log_c of shape (1,).  [EQ-DYISRU-GRAD]"""
    student = forbid(student, "autograd", "normlib")
    for shape, scale in (((3, 4), 2.0), ((2, 3, 5), 1.5)):
        dy = draw(*shape)
        x = 1 + draw(*shape, seed=1)
        log_c = torch.tensor([0.7], dtype=torch.float64)
        before = [t.clone() for t in (dy, x, log_c)]
        got_dx, got_dlog = parts(student(dy, x, log_c, scale), "dx", "dlog_c")
        for name, old, new in zip(("dy", "x", "log_c"), before, (dy, x, log_c), strict=True):
            unchanged(name, old, new)
        c = log_c.exp()
        dx, dc = gradients.dyisru_backward(dy, x, c, scale=scale)
        expect(got_dx, dx, _dx_slips(dy, x, log_c, scale), "dx")
        expect(got_dlog, dc * c, _dlog_slips(dy, x, c, dc, scale), "dlog_c")


def _dx_slips(dy: Tensor, x: Tensor, log_c: Tensor, scale: float) -> dict[str, Tensor]:
    c = log_c.exp()
    square = x.square() + c
    by_log = scale * log_c / (x.square() + log_c) ** 1.5
    return {
        "dy is missing: multiply by what comes from above.": scale * c / square**1.5,
        "the scale is missing.": dy * c / square**1.5,
        "the exponent is 3/2: x^2 + c comes once from the quotient and once from its root.": dy
        * scale
        * c
        / square**0.5,
        "that holds the root fixed: x is under the root too.": dy * scale / square.sqrt(),
        "c is missing in the numerator: x^2 + c - x^2 = c.": dy * scale / square**1.5,
        "the root of c stands in the numerator: c itself belongs there.": (
            dy * scale * c.sqrt() / square**1.5
        ),
        "the sign is turned: the curve rises everywhere.": -dy * scale * c / square**1.5,
        "you use log_c for c: c = exp(log_c).": dy * by_log,
        "the exponent is 3/2, not 2.": dy * scale * c / square**2,
    }


def _dlog_slips(dy: Tensor, x: Tensor, c: Tensor, dc: Tensor, scale: float) -> dict[str, Tensor]:
    terms = -dy * scale * x / (x.square() + c) ** 1.5 / 2
    total = terms.sum().reshape(1)
    return {
        "that is dL/dc: one factor is left, dc/dlog_c = c.": total,
        "divided by c: dc/dlog_c = c multiplies.": total / c,
        "the sign is lost: a larger c makes the output smaller.": -total * c,
        "the sign is lost, and dc/dlog_c = c is missing.": -total,
        "the 1/2 of the root is missing.": 2 * total * c,
        "log_c is one number: sum over all rows and features.": terms * c,
        "you took the mean: the gradient of one shared number is a sum.": total * c / x.numel(),
        "dy is missing under the sum.": (
            (-scale * x / (x.square() + c) ** 1.5 / 2).sum().reshape(1) * c
        ),
        "the scale is missing.": total * c / scale,
        "log_c has shape (1,), and so has its gradient.": (total * c).squeeze(),
        "x is missing: the derivative of x (x^2 + c)^(-1/2) in c keeps x.": (
            (-dy * scale / (x.square() + c) ** 1.5 / 2).sum().reshape(1) * c
        ),
    }


def _call(student, x: Tensor) -> Tensor:
    before = x.clone()
    got = student(x)
    unchanged("x", before, x)
    return got
