"""Checks of lesson 05b: DyT's backward, four bounds, the bend of arsinh.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import exercise, expect, parts
from normlib import gradients

BEND = 4 / (3 * math.sqrt(3))
BOUNDS = {  # name: (value, {message: wrong value}); sqrt(D) tanh(alpha x), D = 64, alpha = 2
    "Lipschitz constant": (
        16.0,
        {
            "that is EQ-DYT's form; here the factor sqrt(D) is not undone inside tanh.": 2.0,
            "the derivative of tanh(alpha x) brings down an alpha.": 8.0,
            "one factor sqrt(D) stands outside tanh, none inside.": 128.0,
            "the slope is steepest at 0, where it is not 0.": 0.0,
            "sqrt(64) is 8, and alpha is 2: multiply them.": 10.0,
        },
    ),
    "smoothness": (
        BEND * 32,
        {
            "that is the Lipschitz constant, as an article has it; "
            "ask how fast the SLOPE changes.": 16.0,
            "the factor 4 / (3 sqrt(3)) is missing: "
            "2 t (1 - t^2) is largest at t = 1/sqrt(3).": 32.0,
            "a factor 2 is missing, that of 2 t (1 - t^2) or one alpha of alpha^2.": BEND * 16,
            "that is EQ-DYT's form at scale sqrt(D) with this alpha; "
            "first turn alpha into alpha sqrt(D).": (BEND / 2),
            "sqrt(D) is missing.": BEND * 4,
            "sqrt(D) stands there once, not squared.": BEND * 256,
            "with alpha sqrt(D) for alpha, divide by the scale sqrt(D); do not multiply.": BEND
            * 2048,
        },
    ),
    "spectral norm": (
        64.0,
        {
            "an article's alpha |w|: its own sqrt(D) is missing, "
            "and |w| where max|w_i| belongs.": 10.0,
            "the Jacobian is diagonal: its longest entry counts, so max|w_i|, not |w|.": 80.0,
            "sqrt(D) is missing.": 8.0,
            "alpha is missing.": 32.0,
            "the LARGEST gain counts, not their sum.": 112.0,
            "the gain is missing.": 16.0,
            "alpha stands there once, not squared.": 128.0,
            "that is the largest gain alone; the slope of f belongs to it.": 4.0,
            "that is |w|; the largest gain counts, times the slope of f.": 5.0,
            "the LARGEST gain counts, and 4 is larger than 3.": 48.0,
        },
    ),
    "output length": (
        13.0,
        {
            "an article's sqrt(D) |w|: the paper's form has no sqrt(D), "
            "and the bias is missing.": 40.0,
            "the bias moves the output too.": 5.0,
            "|w| + |b| is a bound, but never near: "
            "gain and bias act on different coordinates.": 17.0,
            "the paper's form has no sqrt(D).": math.hypot(40, 12),
            "tanh reaches at most 1, whatever alpha is.": math.hypot(10, 12),
            "that is the bias alone.": 12.0,
            "lengths of coordinates do not add: take squares, then the root.": 19.0,
            "that is the squared length; take the root.": 169.0,
            "the paper's form has no sqrt(D), and the lengths do not add.": 52.0,
        },
    ),
}
DX = {
    "dx: the factor alpha is missing; it comes down from inside tanh.": lambda v: v.g * v.slope,
    "dx: the gain is missing.": lambda v: v.dy * v.alpha * v.slope,
    "dx: tanh' is 1 - tanh^2, not 1 - tanh.": lambda v: v.g * v.alpha * (1 - v.t),
    "dx: tanh' is 1 - tanh^2, not tanh.": lambda v: v.g * v.alpha * v.t,
    "dx: tanh' takes alpha x / scale, and you gave it x.": lambda v: (
        v.g * v.alpha * (1 - torch.tanh(v.x) ** 2)
    ),
    "dx: scale is missing inside tanh.": lambda v: (
        v.g * v.alpha * (1 - torch.tanh(v.alpha * v.x) ** 2)
    ),
    "dx: the scale outside and the 1/scale inside cancel: the factor is alpha.": lambda v: (
        v.g * v.alpha * v.slope * v.scale
    ),
    "dx: the scale outside and the 1/scale inside cancel; you kept the one inside.": lambda v: (
        v.g * v.alpha * v.slope / v.scale
    ),
}
DALPHA = {
    "dalpha: one alpha serves every row and feature; sum over all of them.": lambda v: (
        v.g * v.x * v.slope
    ),
    "dalpha: one alpha serves every feature too; sum over both axes.": lambda v: (
        v.g * v.x * v.slope
    ).sum(0),
    "dalpha: sum, do not average.": lambda v: (v.g * v.x * v.slope).mean().reshape(1),
    "dalpha: its shape is (1,), as alpha's.": lambda v: (v.g * v.x * v.slope).sum(),
    "dalpha: the inner derivative in alpha is x, not alpha.": lambda v: total(
        v.g * v.alpha * v.slope
    ),
    "dalpha: the inner derivative in alpha is x.": lambda v: total(v.g * v.slope),
    "dalpha: the gain is missing.": lambda v: total(v.dy * v.x * v.slope),
    "dalpha: scale outside and 1/scale inside cancel.": lambda v: (
        total(v.g * v.x * v.slope) * v.scale
    ),
    "dalpha: scale outside and 1/scale inside cancel; you kept the one inside.": lambda v: (
        total(v.g * v.x * v.slope) / v.scale
    ),
}
DWEIGHT = {
    "dweight: one row a token; sum over the rows.": lambda v: v.dy * v.scale * v.t,
    "dweight: the gain multiplies scale tanh, so scale stays.": lambda v: (v.dy * v.t).sum(0),
    "dweight: sum over the rows, do not average.": lambda v: (v.dy * v.scale * v.t).mean(0),
    "dweight: the factor is what the gain multiplies, scale tanh, not x.": lambda v: (
        v.dy * v.x
    ).sum(0),
    "dweight: the gain multiplies scale tanh itself, not its slope.": lambda v: (
        v.dy * v.scale * v.slope
    ).sum(0),
    "dweight: dy, not w dy; the gain is not multiplied by itself.": lambda v: (
        v.g * v.scale * v.t
    ).sum(0),
}
DBIAS = {
    "dbias: one row a token; sum over the rows.": lambda v: v.dy,
    "dbias: sum over the rows, do not average.": lambda v: v.dy.mean(0),
    "dbias: the bias is added after the gain; dy, not w dy.": lambda v: v.g.sum(0),
}


@exercise("Exercise 1 (the backward pass of DyT)", "of shape (1,)", "alpha (1,)")
def dyt_backward(student: Callable) -> None:
    """student(dy, x, alpha, weight, scale) -> (dx, dalpha, dweight, dbias).

    [EQ-DYT-GRAD]
    """
    cases = [_backward_case(3, 5, 0.7, 2.0), _backward_case(6, 4, 1.3, 0.6)]
    slips: dict[str, Callable] = {}
    for part, table in enumerate((DX, DALPHA, DWEIGHT, DBIAS)):
        slips |= {text: _backward_slip(part, wrong) for text, wrong in table.items()}
    names = ("dx", "dalpha", "dweight", "dbias")
    calls(forbid(student, "autograd", "normlib"), _backward, *cases, slips=slips, what=names)


def _backward_case(rows: int, width: int, alpha: float, scale: float) -> dict:
    return {
        "dy": draw(rows, width),
        "x": draw(rows, width, seed=1),
        "alpha": torch.tensor([alpha], dtype=torch.float64),
        "weight": torch.linspace(0.5, 2.5, width, dtype=torch.float64),
        "scale": scale,
    }


def _backward(dy, x, alpha, weight, scale) -> tuple[Tensor, ...]:
    return gradients.dyt_backward(dy, x, alpha, weight, torch.zeros_like(weight), scale=scale)


def _backward_slip(part: int, wrong: Callable) -> Callable:
    """The right answer, but for one part."""

    def answer(dy, x, alpha, weight, scale) -> list[Tensor]:
        t = torch.tanh(alpha * x / scale)
        v = SimpleNamespace(
            dy=dy, x=x, alpha=alpha, scale=scale, t=t, g=weight * dy, slope=1 - t**2
        )
        right = list(_backward(dy, x, alpha, weight, scale))
        right[part] = wrong(v)
        return right

    return answer


@exercise(
    "Exercise 2 (four bounds)",
    r"D = 64 and \alpha = 2",
    r"w = (3, 4, 0, \dots, 0)",
    r"b = (0, 0, 12, 0, \dots, 0)",
)
def bounds(student: tuple) -> None:
    """student: (Lipschitz constant, smoothness, spectral norm, output length), by hand."""
    for got, (name, (want, slips)) in zip(parts(student, *BOUNDS), BOUNDS.items(), strict=True):
        wrong = {f"{name}: {text}": value for text, value in slips.items()}
        expect(got, want, wrong, f"the {name}", rtol=5e-3)


@exercise("Exercise 3 (the bend of arsinh)", "to three digits")
def arsinh(slope, smoothness) -> None:
    """arsinh' as a SymPy expression in u, and the largest |arsinh''|."""
    import sympy  # takes half a second, and lesson 05b has it already

    u = sympy.Symbol("u", real=True)
    root = sympy.sqrt(u**2 + 1)
    slips = {
        "slope: that is 1/v; its inner derivative v' is missing.": 1 / (u + root),
        "slope: that is v'; divide it by v.": 1 + u / root,
        "slope: that is the curve itself; differentiate it.": sympy.log(u + root),
        "slope: that is the derivative of arctan: a root is missing.": 1 / (u**2 + 1),
        "slope: that is the derivative of arcsin; the sign of u^2 is a plus.": (
            1 / sympy.sqrt(1 - u**2)
        ),
        "slope: the minus belongs to arcosh: the root holds u^2 + 1.": 1 / sympy.sqrt(u**2 - 1),
        "slope: it falls far out; you have its inverse.": root,
        "slope: that is the second derivative already.": -u / root**3,
        "slope: that is the derivative of the root alone.": u / root,
        "slope: it is 1 at u = 0 alone, and falls on both sides.": sympy.Integer(1),
    }
    expect(slope, 1 / root, slips, "the slope")
    wrong = {
        "smoothness: 1 is the steepest slope; ask how fast the slope changes.": 1.0,
        "smoothness: that is tanh's; arsinh bends half as fast.": 4 / (3 * math.sqrt(3)),
        "smoothness: its size is asked for, without the sign.": -2 / (3 * math.sqrt(3)),
        "smoothness: that is the place u where it is largest; put it in.": 1 / math.sqrt(2),
        "smoothness: that is the size at u = 1; the largest is at u^2 = 1/2.": 1 / 2**1.5,
        "smoothness: u^2 + 1 is 3/2 there, and its power is 3/2, not 1/2.": 1 / math.sqrt(3),
        "smoothness: the factor u in front is missing.": 1.5**-1.5,
        "smoothness: that is at u = 1/2; solve u^2 = 1/2.": 0.5 / 1.25**1.5,
        "smoothness: at 0 the slope is largest, and it changes fastest elsewhere.": 0.0,
    }
    expect(smoothness, 2 / (3 * math.sqrt(3)), wrong, "the smoothness", rtol=5e-3)


def total(t: Tensor) -> Tensor:
    return t.sum().reshape(1)
