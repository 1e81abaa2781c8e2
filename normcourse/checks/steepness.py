"""Checks of lesson 04b: eigenvalues of RMSNorm's Jacobian, a limit, a distance, a step.

SLIPS tables map what a check says to the wrong formula that earns it.
"""

from collections.abc import Callable

import sympy
import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.moments import mean
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import Slip, exercise, expect, is_value, parts

R, EPSILON, K, D, A, B, GAP = sympy.symbols("r eps K D a b gap", positive=True)


# Exercise 1: eigenvalues


ACROSS = {
    "it is divided by r, not multiplied.": R,
    "1/r is missing: it stands before the bracket.": sympy.Integer(1),
    "divide by r once, not by its square.": 1 / R**2,
    "for a vector across, xhat^T z is 0: the second term gives nothing.": sympy.Integer(0),
}
ALONG = {
    "that holds for eps = 0 only: here the mean of xhat^2 is a little below 1.": sympy.Integer(0),
    "1/r stands before the bracket, too.": EPSILON / R**2,
    "one power of r is missing: 1 - mean(xhat^2) is eps / r^2, and 1/r stands before it.": (
        EPSILON / R
    ),
    "one power of r too many: eps / r^2 is left in the bracket, and 1/r stands before it.": (
        EPSILON / R**4
    ),
    "that is the part that is taken away; asked is what is left.": (R**2 - EPSILON) / R**3,
    "that is across; along xhat the second term takes nearly all.": 1 / R,
    "the mean of xhat^2 is (r^2 - eps) / r^2, not r^2 - eps.": (1 - R**2 + EPSILON) / R,
    "the mean of x^2 is r^2 - eps, not r^2 + eps: eps is a part of r^2.": -EPSILON / R**3,
}


@exercise("Exercise 1 (across and along)")
def eigenvalues(student: tuple) -> None:
    """student: (across, along), in r and eps."""
    across, along = parts(student, "across", "along")
    if is_value(across, EPSILON / R**3):
        raise Slip("across comes first, then along: that is the other way round.")
    expect(across, 1 / R, {f"across: {text}": v for text, v in ACROSS.items()}, "across")
    expect(along, EPSILON / R**3, {f"along: {text}": v for text, v in ALONG.items()}, "along")


# Exercise 2: a limit to the slope


SMALLEST_EPS = {
    "eps stands under the root: 1/sqrt(eps) is to be K.": 1 / K,
    "a larger eps makes it less steep, so it falls as K grows.": K**2,
    "that takes the root once more; to undo a root, square.": sympy.sqrt(1 / K),
    "without eps there is no limit near 0.": sympy.Integer(0),
}
SHORTEST = {
    "that is the root mean square; the length is sqrt(D) times as much.": 1 / K,
    "the mean divides by D: r is the length over sqrt(D), not over D.": D / K,
    "sqrt(D) stands above: 1/r is sqrt(D) over the length.": 1 / (K * sympy.sqrt(D)),
    "the length falls as K grows: short rows are the steep ones.": sympy.sqrt(D) * K,
    "that is one over it: solve sqrt(D)/R = K for R.": K / sympy.sqrt(D),
    "that is the square of the length.": D / K**2,
    "divide by K once: 1/r itself is to be K.": sympy.sqrt(D) / K**2,
}


@exercise("Exercise 2 (set a limit)")
def limits(student: tuple) -> None:
    """student: (eps, R), in K and D."""
    eps, shortest = parts(student, "eps", "R")
    if is_value(eps, sympy.sqrt(D) / K):
        raise Slip("eps comes first, then R: that is the other way round.")
    expect(eps, 1 / K**2, {f"eps: {text}": v for text, v in SMALLEST_EPS.items()}, "eps")
    named = {f"R: {text}": v for text, v in SHORTEST.items()}
    expect(shortest, sympy.sqrt(D) / K, named, "R")


# Exercise 3: two rows and their directions


DISTANCE = {
    "the half is lost: u·t is 1 - gap/2.": (A - B) ** 2 + 2 * A * B * GAP,
    "gap is a square already, |u - t|^2.": (A - B) ** 2 + A * B * GAP**2,
    "the lengths differ, too: for gap = 0 there is (a - b)^2 left.": A * B * GAP,
    "the factor of gap is a b: u·t came with 2 a b.": (A - B) ** 2 + GAP,
    "the sign of u·t: |u - t|^2 is 2 minus 2 u·t, so u·t is 1 minus gap/2.": (
        (A - B) ** 2 - A * B * GAP
    ),
    "the sign of the mixed term: |x - z|^2 holds -2 a b u·t.": (A + B) ** 2 - A * B * GAP,
    "2 a b u·t is missing: it is only 0 if both stand at a right angle.": A**2 + B**2,
    "that takes u·t for gap; u·t is 1 - gap/2.": A**2 + B**2 - 2 * A * B * GAP,
    "that is the distance; asked is its square.": sympy.sqrt((A - B) ** 2 + A * B * GAP),
    "that is the last step's lower bound; asked is what it is equal to.": (A + B) ** 2 / 4 * GAP,
    "both signs: |x - z|^2 holds -2 a b u·t, and u·t is 1 minus gap/2.": (
        (A + B) ** 2 + A * B * GAP
    ),
    "half of gap, times 2 a b: the 2 and the half cancel.": (A - B) ** 2 + A * B * GAP / 2,
    "the 1 of 1 - gap/2 is lost: -2 a b is left as well.": A**2 + B**2 + A * B * GAP,
    "the 2 of 2 a b is lost: the square of a difference has the mixed term twice.": (
        A**2 + B**2 - A * B * (1 - GAP / 2)
    ),
}


@exercise(
    "Exercise 3 (rows and directions)", r"\lVert x - z \rVert^{2}", r"\lVert u - t \rVert^{2}"
)
def distance(student) -> None:
    """student: |x - z|^2 in a, b and gap = |u - t|^2."""
    expect(student, (A - B) ** 2 + A * B * GAP, DISTANCE, "the square of the distance")


# Exercise 4: a step that does not depend on the length


def fitted(x: Tensor, dx: Tensor, rate: float) -> Tensor:
    return x - rate * mean(x.square()) * dx


def with_factor(factor: Callable) -> Callable:
    """The answer whose step is multiplied by something else than the mean square."""
    return lambda x, dx, rate: x - rate * factor(x) * dx


def size(x: Tensor) -> Tensor:
    return mean(x.square()).sqrt()


def at_the_old_length(x, dx, rate):
    moved = x - rate * dx
    return moved * size(x) / size(moved)


def brought_back(x, dx, rate):
    moved = fitted(x, dx, rate)
    return moved * size(x) / size(moved)


STEP = {
    "that is the plain step: it does not look at the size of the row.": with_factor(lambda x: 1),
    "one power too few: the gradient is c times shorter AND the way c times longer.": (
        with_factor(size)
    ),
    "one power too many: the square of the size is enough.": with_factor(lambda x: size(x) ** 3),
    "the wrong way round: a longer row needs a longer step.": with_factor(lambda x: size(x) ** -2),
    "the wrong way round, and one power too few.": with_factor(lambda x: 1 / size(x)),
    "D is missing: for a root mean square of 1 that is D times the plain step.": (
        with_factor(lambda x: x.square().sum(-1, keepdim=True))
    ),
    "that is the length in the place of the mean square.": (
        with_factor(lambda x: x.norm(dim=-1, keepdim=True))
    ),
    "one size for the whole batch; each row has its own.": with_factor(lambda x: x.square().mean()),
    "each entry has its own factor there; the mean square is one number a row.": (
        with_factor(lambda x: x.square())
    ),
    "that is the variance: RMSNorm subtracts no mean.": (
        with_factor(lambda x: x.var(-1, correction=0, keepdim=True))
    ),
    "that is the row of size 1 with the gradient of the old row; its own is r times as long.": (
        lambda x, dx, rate: x / size(x) - rate * dx
    ),
    "the sign: the step goes against the gradient.": with_factor(lambda x: -(size(x) ** 2)),
    "that is the step alone; return the row after it.": (
        lambda x, dx, rate: -rate * size(x) ** 2 * dx
    ),
    "that is the row of size 1 after its step; go back to the old length.": (
        lambda x, dx, rate: x / size(x) - rate * size(x) * dx
    ),
    "the plain step, brought back to the old length: it turns the row as far as before.": (
        at_the_old_length
    ),
    "the right step, but brought back to the old length; it lands a little farther out.": (
        brought_back
    ),
    "divided by the gradient's own size: near the goal the step has to become short.": (
        lambda x, dx, rate: x - rate * size(x) * dx / size(dx)
    ),
}


@exercise("Exercise 4 (a step that does not see the length)", "root mean square of 1")
def step(student: Callable) -> None:
    """student(x, dx, rate) -> the rows after the step."""
    cases = [_step_case(3, 5, rate=0.1), _step_case(2, 3, 7, rate=0.03)]
    student = forbid(student, "autograd", "normlib")
    calls(student, fitted, *cases, slips=STEP, what="the row")


def _step_case(*shape: int, rate: float) -> dict:
    each = torch.linspace(0.2, 4.0, shape[-2])[:, None]  # the rows have different sizes
    return {"x": each * draw(*shape, seed=4), "dx": draw(*shape, seed=5), "rate": rate}
