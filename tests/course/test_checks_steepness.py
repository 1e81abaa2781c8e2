"""The checks of lesson 04b name the slips that people really make."""

import sympy
import torch

from normcourse.checks import steepness as check
from tests.course.solutions import load, wrong_answers_are_named

SOLVED = load("04b_steepness")
r, eps, K, D, a, b, gap = sympy.symbols("r eps K D a b gap", positive=True)


def mean(t):
    return t.mean(-1, keepdim=True)


def rms(x):
    return mean(x.square()).sqrt()


# Exercise 1

EIGENVALUES = {
    "no eps": ((1 / r, 0), "along: that holds for eps = 0 only"),
    "swapped": ((eps / r**3, 1 / r), "across comes first"),
    "squared": ((1 / r, eps / r**2), "1/r stands before the bracket, too"),
    "one power": ((1 / r, eps / r), "one power of r is missing"),
    "power too many": ((1 / r, eps / r**4), "one power of r too many"),
    "what is taken": ((1 / r, 1 / r - eps / r**3), "the part that is taken away"),
    "the same twice": ((1 / r, 1 / r), "along: that is across"),
    "r": ((r, eps / r**3), "across: it is divided by r"),
    "one": ((1, eps / r**3), "across: 1/r is missing"),
    "a projection": ((0, eps / r**3), "across: for a vector across"),
    "r squared": ((1 / r**2, eps / r**3), "across: divide by r once"),
    "one alone": (1 / r, "expected a tuple (across, along)"),
}

# Exercise 2

right_eps = 1 / K**2
right_length = sympy.sqrt(D) / K
LIMITS = {
    "no root": ((1 / K, right_length), "eps: eps stands under the root"),
    "upside down": ((K**2, right_length), "eps: a larger eps makes it less steep"),
    "with D": ((D / K**2, right_length), "eps holds D, expected an expression in K"),
    "none": ((0, right_length), "eps: without eps there is no limit"),
    "root of it": ((K**-0.5, right_length), "eps: that takes the root once more"),
    "the size": ((right_eps, 1 / K), "R: that is the root mean square"),
    "D for its root": ((right_eps, D / K), "R: the mean divides by D"),
    "root below": ((right_eps, 1 / (K * sympy.sqrt(D))), "R: sqrt(D) stands above"),
    "times K": ((right_eps, sympy.sqrt(D) * K), "R: the length falls as K grows"),
    "not solved": ((right_eps, K / sympy.sqrt(D)), "R: that is one over it"),
    "the square": ((right_eps, D / K**2), "R: that is the square of the length"),
    "swapped": ((right_length, right_eps), "eps comes first"),
    "one alone": (right_eps, "expected a tuple (eps, R)"),
}

# Exercise 3

DISTANCE = {
    "no half": ((a - b) ** 2 + 2 * a * b * gap, "the half is lost"),
    "squared again": ((a - b) ** 2 + a * b * gap**2, "gap is a square already"),
    "one length": (a * b * gap, "the lengths differ, too"),
    "no factor": ((a - b) ** 2 + gap, "the factor of gap is a b"),
    "sign of the cosine": ((a - b) ** 2 - a * b * gap, "the sign of u·t"),
    "sign of the mixed term": ((a + b) ** 2 - a * b * gap, "the sign of the mixed term"),
    "a right angle": (a**2 + b**2, "2 a b u·t is missing"),
    "gap for the cosine": (a**2 + b**2 - 2 * a * b * gap, "that takes u·t for gap"),
    "the root": (sympy.sqrt((a - b) ** 2 + a * b * gap), "asked is its square"),
    "the bound": ((a + b) ** 2 * gap / 4, "the last step's lower bound"),
    "mixed once": (a**2 + b**2 - a * b * (1 - gap / 2), "the mixed term twice"),
    "both signs": ((a + b) ** 2 + a * b * gap, "both signs"),
    "half": ((a - b) ** 2 + a * b * gap / 2, "the half cancel"),
    "no 1": (a**2 + b**2 + a * b * gap, "the 1 of 1 - gap/2"),
    "a number": (2.0, "the square of the distance is"),
}

# Exercise 4


def times(factor):
    return lambda x, dx, rate: x - rate * factor(x) * dx


def kept_length(x, dx, rate):
    moved = x - rate * dx
    return rms(x) * moved / rms(moved)


STEP = {
    "plain": (times(lambda x: 1), "that is the plain step"),
    "one power": (times(rms), "one power too few"),
    "three powers": (times(lambda x: rms(x) ** 3), "one power too many"),
    "divided": (times(lambda x: 1 / mean(x.square())), "the wrong way round: a longer row"),
    "divided once": (times(lambda x: 1 / rms(x)), "the wrong way round, and one power"),
    "sum of squares": (times(lambda x: (x * x).sum(-1, keepdim=True)), "D is missing"),
    "length": (times(lambda x: x.norm(dim=-1, keepdim=True)), "that is the length in the place"),
    "whole batch": (times(lambda x: x.square().mean()), "each row has its own"),
    "entries": (times(lambda x: x**2), "each entry has its own factor"),
    "variance": (times(lambda x: x.var(-1, correction=0, keepdim=True)), "that is the variance"),
    "size 1, old gradient": (lambda x, dx, rate: x / rms(x) - rate * dx, "its own is r times"),
    "right, then back": (
        lambda x, dx, rate: rms(x) * (lambda y: y / rms(y))(x - rate * mean(x * x) * dx),
        "brought back to the old length; it",
    ),
    "uphill": (lambda x, dx, rate: x + rate * mean(x * x) * dx, "the sign"),
    "the step": (lambda x, dx, rate: -rate * mean(x * x) * dx, "the step alone"),
    "size 1": (lambda x, dx, rate: x / rms(x) - rate * rms(x) * dx, "the row of size 1"),
    "kept length": (kept_length, "brought back to the old length"),
    "unit gradient": (
        lambda x, dx, rate: x - rate * rms(x) * dx / rms(dx),
        "near the goal the step has to become short",
    ),
    "no keepdim": (lambda x, dx, rate: x - rate * x.square().mean(-1) * dx, "your code raised"),
    "in place": (lambda x, dx, rate: x.sub_(rate * mean(x * x) * dx), "x was changed in place"),
}

test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.eigenvalues: EIGENVALUES,
        check.limits: LIMITS,
        check.distance: DISTANCE,
        check.step: STEP,
    }
)


def test_unusual_right_answers_are_right():
    assert check.eigenvalues([r**-1, (1 - (r**2 - eps) / r**2) / r]).startswith("[ok]")
    plain_K, plain_D = sympy.symbols("K D")  # without an assumption
    assert check.limits([plain_K**-2, plain_D**0.5 / plain_K]).startswith("[ok]")
    assert check.distance(a**2 * gap + (a - b) ** 2 - a * (a - b) * gap).startswith("[ok]")

    def polar(x, dx, rate):
        """The row as its size and its direction."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x - rate * dx * length**2 / x.shape[-1]

    assert check.step(polar).startswith("[ok]")
    assert SOLVED["my_step"] is not polar
