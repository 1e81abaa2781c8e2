"""The checks of lesson 00a name the slips people make."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from normcourse.checks import saturation as check
from tests.course.solutions import wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def root(eps):
    return math.sqrt(1 - 4 * eps)


def exact(eps):
    s = (1 + root(eps)) / 2
    return math.log(s / (1 - s))


def zero_or_exact(eps):
    return exact(eps) if eps < 1 / 4 else 0.0


SIGMOID = {
    "output": (lambda e: math.log((1 - e) / e), "where the OUTPUT comes within eps"),
    "tanh": (lambda e: math.atanh(math.sqrt(1 - e)), "the threshold of tanh"),
    "other root": (lambda e: -exact(e), "change the sign"),
    "s itself": (lambda e: (1 + root(e)) / 2, "that is y, the output"),
    "the smaller s": (lambda e: (1 - root(e)) / 2, "that is 1 - y"),
    "discriminant": (
        lambda e: math.log((1 + math.sqrt(1 - e)) / (1 - math.sqrt(1 - e))),
        "the 4 is missing",
    ),
    "no root": (lambda e: math.log((2 - 4 * e) / (4 * e)), "square root of 1 - 4 eps"),
    "tail": (lambda e: -math.log(e), "the tail's approximation"),
    "half": (lambda e: exact(e) / 2, "without a factor 1/2"),
    "base 10": (lambda e: exact(e) / math.log(10), "natural logarithm"),
    "base 2": (lambda e: exact(e) / math.log(2), "not base 2"),
    "twice": (lambda e: 2 * exact(e), "without a factor 2"),
    "not halved": (lambda e: math.log((1 + root(e)) / -root(e)), "divides by 2"),
    "everywhere forgotten": (exact, "no slope of the sigmoid reaches 0.3"),
    "a table for one eps": (lambda e: exact(0.01) if e < 0.2 else 0.0, "eps = 0.1"),
}
REPAIRED = {
    "unchanged": ((1, 1, 0), "the sigmoid as it was"),
    "centered only": ((1, 1, -0.5), "it should be about 1"),
    "steep only": ((4, 1, 0), "not centered"),
    "nearly centered": ((2, 2, -0.8), "not centered"),
    "twice too steep": ((4, 4, 0), "not centered"),
    "steep, not centered": ((5, 2, -1), "not centered"),
    "steep inside only": ((1, 4, 0), "not centered"),
    "wrong side": ((2, 2, 1), "not centered"),
    "too steep": ((4, 4, -2), "too steep"),
    "steep instead of centered": ((10, 1, 0), "not centered"),
    "a straight line": ((4000, 0.001, -2000), "nearly a straight line"),
    "a step": ((0.01, 400, -0.005), "hardly any signal"),
    "flat": ((0.5, 1, -0.25), "it should be about 1"),
    "two numbers": ((2, 2), "has 2 numbers, expected three"),
    "four numbers in an array": (np.array([2.0, 2, -1, 0]), "has 4 numbers, expected three"),
    "a function": (math.tanh, "expected a list of numbers"),
    "text": (("2", 2, -1), "leave out the quotes"),
}
VARIANCES = {
    "less, not more": (lambda n, a: 2 / ((1 - a) * n), "not 1 - a."),
    "twice": (lambda n, a: 4 / ((1 + a**2) * n), "that is twice as much"),
    "ReLU": (lambda n, a: 2 / n, "that is ReLU's"),
    "linear": (lambda n, a: 1 / n, "that is a linear layer's"),
    "slope not squared": (lambda n, a: 2 / (1 + a) / n, "square the slope"),
    "halves meet": (lambda n, a: 2 / (1 + a) ** 2 / n, "never meet in one sample"),
    "standard deviation": (lambda n, a: math.sqrt(2 / (1 + a * a) / n), "a standard deviation"),
    "factor 2": (lambda n, a: 1 / (1 + a * a) / n, "a factor 2 is missing"),
    "not inverted": (lambda n, a: n * (1 + a * a) / 2, "you need its inverse"),
    "multiplied": (lambda n, a: 2 * (1 + a * a) / n, "the variance has to be smaller"),
    "no n": (lambda n, a: 2 / (1 + a * a), "n is missing"),
    "half forgotten": (lambda n, a: 1 / (0.5 + a * a) / n, "only half of all"),
    "bracket": (lambda n, a: 2 / (n + a * a), "the whole bracket"),
    "multiplied by 1 - a^2": (lambda n, a: 2 * (1 - a * a) / n, "do not multiply by 1 - a^2"),
    "multiplied by 1 - a": (lambda n, a: 2 * (1 - a) / n, "do not multiply by 1 - a"),
    "torch's default": (lambda n, a: 1 / (3 * n), "torch's default"),
}
WRONG = {
    check.sigmoid_threshold: SIGMOID,
    check.variance: VARIANCES,
    check.repaired: REPAIRED,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


# so each slip above is its one change
def test_the_unchanged_answers_of_these_tests_are_accepted():
    assert check.sigmoid_threshold(zero_or_exact).startswith("[ok]")


def test_other_right_answers_are_accepted():
    def half_angle(e):
        return 2 * math.acosh(0.5 / math.sqrt(e)) if e < 1 / 4 else 0

    assert check.sigmoid_threshold(half_angle).startswith("[ok]")
    for abc in ((4, 1, -2), (-2, -2, torch.tensor(1.0)), [1, 4, -0.5]):
        assert check.repaired(abc).startswith("[ok]")
    assert check.repaired(np.array([5, 0.8, -2.5])).startswith("[ok]")
    assert check.repaired(torch.tensor([2.0, 2, -1])).startswith("[ok]")


def test_an_unusual_form_of_a_right_variance_is_accepted():
    exact = lambda n, a: 2 / (n * (1 + Fraction(a) ** 2))  # noqa: E731
    assert check.variance(exact).startswith("[ok]")
