"""The checks of lesson 05b name the slips people make, and accept answers written otherwise."""

import math

import pytest
import sympy
import torch

from normcourse.checks import bounds as check

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")
BEND = 4 / (3 * math.sqrt(3))


def test_writing_into_an_input_is_named():
    verdict = check.dyt_backward(lambda dy, *others: dy.mul_(2))
    assert "dy was changed in place" in verdict


BOUNDS = (16.0, 24.634, 64.0, 13.0)


def test_bounds_may_be_rounded_or_a_list_of_tensors():
    assert check.bounds(BOUNDS).startswith("[ok]")
    assert check.bounds((16, 24.6, 64, 13)).startswith("[ok]")
    assert check.bounds([torch.tensor(value) for value in BOUNDS]).startswith("[ok]")


WRONG_BOUNDS = [
    (0, 2.0, "not undone inside tanh"),
    (0, 8.0, "brings down an alpha"),
    (0, 128.0, "none inside"),
    (0, 0.0, "steepest at 0"),
    (1, 16.0, "that is the Lipschitz constant"),
    (1, 32.0, "4 / (3 sqrt(3)) is missing"),
    (1, 16 * BEND, "a factor 2 is missing"),
    (1, BEND / 2, "turn alpha into"),
    (1, 4 * BEND, "sqrt(D) is missing"),
    (1, 256 * BEND, "once, not squared"),
    (2, 10.0, "an article's alpha |w|"),
    (2, 80.0, "not |w|"),
    (2, 8.0, "sqrt(D) is missing"),
    (2, 32.0, "alpha is missing"),
    (2, 112.0, "not their sum"),
    (2, 16.0, "gain is missing"),
    (3, 40.0, "an article's sqrt(D) |w|"),
    (3, 5.0, "bias moves"),
    (3, 17.0, "different coordinates"),
    (3, math.hypot(40, 12), "has no sqrt(D)"),
    (3, math.hypot(10, 12), "whatever alpha is"),
    (3, 12.0, "bias alone"),
    (0, 10.0, "multiply them"),
    (1, 2048 * BEND, "do not multiply"),
    (2, 128.0, "once, not squared"),
    (2, 4.0, "largest gain alone"),
    (2, 5.0, "that is |w|"),
    (2, 48.0, "larger than 3"),
    (3, 19.0, "take squares"),
    (3, 169.0, "take the root"),
    (3, 52.0, "do not add"),
    (3, 14.0, "off by"),
]


@pytest.mark.parametrize("place, value, message", WRONG_BOUNDS)
def test_wrong_bound_is_named(place, value, message):
    answer = list(BOUNDS)
    answer[place] = value
    verdict = check.bounds(tuple(answer))
    assert verdict.startswith("[x]") and message in verdict


def backward(dy, x, alpha, weight, scale):
    t = torch.tanh(alpha * x / scale)
    g = weight * dy
    return {
        "dy": dy,
        "x": x,
        "alpha": alpha,
        "w": weight,
        "scale": scale,
        "t": t,
        "g": g,
        "slope": (1 - t**2),
    }


PARTS = {
    "dx": lambda v: v["alpha"] * v["g"] * v["slope"],
    "dalpha": lambda v: (v["g"] * v["x"] * v["slope"]).sum().reshape(1),
    "dweight": lambda v: (v["dy"] * v["scale"] * v["t"]).sum(0),
    "dbias": lambda v: v["dy"].sum(0),
}
WRONG_PARTS = {
    "no alpha": ("dx", lambda v: v["g"] * v["slope"], "factor alpha"),
    "no gain": ("dx", lambda v: v["dy"] * v["alpha"] * v["slope"], "gain is missing"),
    "1 - tanh": ("dx", lambda v: v["g"] * v["alpha"] * (1 - v["t"]), "not 1 - tanh"),
    "tanh": ("dx", lambda v: v["g"] * v["alpha"] * v["t"], "not tanh"),
    "tanh of x": ("dx", lambda v: v["g"] * v["alpha"] * (1 - v["x"].tanh() ** 2), "you gave it x"),
    "scale not inside": (
        "dx",
        lambda v: v["g"] * v["alpha"] * (1 - torch.tanh(v["alpha"] * v["x"]) ** 2),
        "scale is missing inside",
    ),
    "scale outside": ("dx", lambda v: PARTS["dx"](v) * v["scale"], "cancel"),
    "scale inside": ("dx", lambda v: PARTS["dx"](v) / v["scale"], "kept the one inside"),
    "alpha not summed": ("dalpha", lambda v: v["g"] * v["x"] * v["slope"], "every row and feature"),
    "alpha summed over rows": (
        "dalpha",
        lambda v: (v["g"] * v["x"] * v["slope"]).sum(0),
        "both axes",
    ),
    "alpha averaged": (
        "dalpha",
        lambda v: (v["g"] * v["x"] * v["slope"]).mean().reshape(1),
        "average",
    ),
    "alpha of shape ()": (
        "dalpha",
        lambda v: (v["g"] * v["x"] * v["slope"]).sum(),
        "shape is (1,)",
    ),
    "alpha for x": (
        "dalpha",
        lambda v: (v["alpha"] * v["g"] * v["slope"]).sum().reshape(1),
        "not alpha",
    ),
    "x forgotten": ("dalpha", lambda v: (v["g"] * v["slope"]).sum().reshape(1), "is x."),
    "alpha without gain": (
        "dalpha",
        lambda v: (v["dy"] * v["x"] * v["slope"]).sum().reshape(1),
        "gain is missing",
    ),
    "alpha with scale": ("dalpha", lambda v: PARTS["dalpha"](v) * v["scale"], "cancel"),
    "alpha over scale": (
        "dalpha",
        lambda v: PARTS["dalpha"](v) / v["scale"],
        "kept the one inside",
    ),
    "weight not summed": ("dweight", lambda v: v["dy"] * v["scale"] * v["t"], "one row a token"),
    "weight without scale": ("dweight", lambda v: (v["dy"] * v["t"]).sum(0), "scale stays"),
    "weight averaged": (
        "dweight",
        lambda v: (v["dy"] * v["scale"] * v["t"]).mean(0),
        "do not average",
    ),
    "weight from x": ("dweight", lambda v: (v["dy"] * v["x"]).sum(0), "not x"),
    "weight twice": ("dweight", lambda v: (v["g"] * v["scale"] * v["t"]).sum(0), "by itself"),
    "weight from the slope": (
        "dweight",
        lambda v: (v["dy"] * v["scale"] * v["slope"]).sum(0),
        "not its slope",
    ),
    "bias not summed": ("dbias", lambda v: v["dy"], "one row a token"),
    "bias averaged": ("dbias", lambda v: v["dy"].mean(0), "do not average"),
    "bias with gain": ("dbias", lambda v: v["g"].sum(0), "after the gain"),
}


@pytest.mark.parametrize("part, wrong, message", WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_wrong_backward_is_named(part, wrong, message):
    formulas = PARTS | {part: wrong}
    verdict = check.dyt_backward(lambda *a: tuple(f(backward(*a)) for f in formulas.values()))
    assert verdict.startswith("[x]") and f"{part}: " in verdict and message in verdict


def test_backward_without_the_bias_is_told_its_parts():
    verdict = check.dyt_backward(
        lambda *a: tuple(f(backward(*a)) for f in list(PARTS.values())[:3])
    )
    assert "expected a tuple (dx, dalpha, dweight, dbias)" in verdict


u = sympy.Symbol("u", real=True)
RIGHT = 1 / sympy.sqrt(u**2 + 1)
WRONG_SLOPES = {
    "1/v": (1 / (u + sympy.sqrt(u**2 + 1)), "inner derivative"),
    "v'": (1 + u / sympy.sqrt(u**2 + 1), "divide it by v"),
    "not differentiated": (sympy.asinh(u), "the curve itself"),
    "arctan": (1 / (1 + u**2), "root is missing"),
    "arcsin": (1 / sympy.sqrt(1 - u**2), "arcsin"),
    "arcosh": (1 / sympy.sqrt(u**2 - 1), "arcosh"),
    "upside down": (sympy.sqrt(u**2 + 1), "inverse"),
    "twice": (sympy.diff(RIGHT, u), "second derivative"),
    "of the root": (u / sympy.sqrt(u**2 + 1), "root alone"),
    "at 0": (sympy.Integer(1), "at u = 0 alone"),
    "halved": (RIGHT / 2, "off by"),
}


@pytest.mark.parametrize("slope, message", WRONG_SLOPES.values(), ids=WRONG_SLOPES)
def test_a_wrong_slope_of_arsinh_is_named(slope, message):
    verdict = check.arsinh(slope, 2 / (3 * math.sqrt(3)))
    assert verdict.startswith("[x]") and message in verdict


WRONG_BENDS = [
    (1.0, "steepest slope"),
    (BEND, "half as fast"),
    (-BEND / 2, "without the sign"),
    (0.707, "put it in"),
    (0.3536, "at u = 1"),
    (0.577, "not 1/2"),
    (0.544, "in front"),
    (0.3578, "u = 1/2"),
    (0, "at 0 the slope"),
    (0.42, "off by"),
]


@pytest.mark.parametrize("value, message", WRONG_BENDS)
def test_a_wrong_smoothness_of_arsinh_is_named(value, message):
    verdict = check.arsinh(RIGHT, value)
    assert verdict.startswith("[x]") and message in verdict


def test_the_derivative_of_arsinh_may_be_written_otherwise():
    assert check.arsinh(sympy.diff(sympy.asinh(u), u), 0.385).startswith("[ok]")
    assert check.arsinh((u**2 + 1) ** sympy.Rational(-1, 2), 0.3849).startswith("[ok]")


def test_the_numbers_of_the_bounds_check_are_those_of_the_layer():
    """A fine grid; rounding moves its second difference by 1e-5."""
    x = torch.linspace(-3, 3, 600_001, dtype=torch.float64)
    f = 8 * torch.tanh(2 * x)
    slope = f.diff() / x.diff()
    bend = slope.diff().abs() / (x[1] - x[0])
    assert slope.max().item() == pytest.approx(16.0, rel=1e-6)
    assert bend.max().item() == pytest.approx(BOUNDS[1], rel=1e-4)
    assert (4 * slope).max().item() == pytest.approx(BOUNDS[2], rel=1e-6)
    assert BOUNDS[3] == math.hypot(3, 4, 12)
