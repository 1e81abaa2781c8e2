"""Checks of lesson 00a: where a sigmoid saturates, He's rule for leaky ReLU, a sigmoid repaired.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math

import torch

from normcourse import measures
from normcourse.checks.probes import calls
from normcourse.checks.verdict import Slip, every_case, exercise, expect, numbers

EPS = 0.01
LEAST, MOST = 0.9, 1.1
NARROWEST, WIDEST = 0.5, 5.0  # |A|, the distance between the limits of the repaired curve


def _root(eps):
    return math.sqrt(1 - 4 * eps)


def _sigmoid_threshold(eps):
    return measures.sigmoid_thresholds(eps).slope


SIGMOID = {  # of eps e
    "that is where the OUTPUT comes within eps of its limit; the slope becomes small elsewhere.": (
        lambda e: math.log((1 - e) / e)
    ),
    "that is the threshold of tanh.": lambda e: measures.tanh_thresholds(e).slope,
    "that is the other root, where x is negative; |x| is asked for, so change the sign.": (
        lambda e: math.log((1 - _root(e)) / (1 + _root(e)))
    ),
    "that is y, the output; solve for x: x = ln(y / (1 - y)).": lambda e: (1 + _root(e)) / 2,
    "that is 1 - y, an output; solve for x: x = ln(y / (1 - y)).": lambda e: (1 - _root(e)) / 2,
    "the discriminant of y^2 - y + eps is 1 - 4 eps: the 4 is missing.": (
        lambda e: math.log((1 + math.sqrt(1 - e)) / (1 - math.sqrt(1 - e)))
    ),
    "the square root of 1 - 4 eps is missing.": lambda e: math.log((2 - 4 * e) / (4 * e)),
    "that is the tail's approximation exp(-x) = eps; solve y (1 - y) = eps exactly.": lambda e: (
        -math.log(e)
    ),
    "that is half as much: the sigmoid's inverse is ln(y / (1 - y)), without a factor 1/2.": (
        lambda e: _sigmoid_threshold(e) / 2
    ),
    "use the natural logarithm, not base 10.": lambda e: _sigmoid_threshold(e) / math.log(10),
    "use the natural logarithm, not base 2.": lambda e: _sigmoid_threshold(e) / math.log(2),
    "that is twice as much: the sigmoid's inverse is ln(y / (1 - y)), without a factor 2.": (
        lambda e: 2 * _sigmoid_threshold(e)
    ),
    "that takes the root or the logarithm of a negative number: is y between 0 and 1? "
    "The quadratic formula divides by 2.": lambda e: math.nan,
}


@exercise("Exercise 1 (where a sigmoid stops passing gradient)", "return 0.0")
def sigmoid_threshold(student) -> None:
    """student(eps): the |x| beyond which the sigmoid's slope is below eps, else 0.0."""
    with every_case() as cases:
        for eps in (EPS, 0.1):
            slips = {message: wrong(eps) for message, wrong in SIGMOID.items()}
            got = _or_nan(student, eps, errors=ValueError)
            cases.expect(got, _sigmoid_threshold(eps), slips, f"the threshold for eps = {eps}")
    slips = {
        "no slope of the sigmoid reaches 0.3: every x is beyond the threshold. Return 0.0.": (
            math.nan
        )
    }
    expect(_or_nan(student, 0.3), 0.0, slips, "the threshold for eps = 0.3")


VARIANCES = {  # of n inputs and the slope a
    "that is ReLU's: here the negative half is not lost, it passes with the slope a.": (
        lambda n, a: 2 / n
    ),
    "that is a linear layer's: the activation is missing.": lambda n, a: 1 / n,
    "square the slope: the negative half of the mean square is multiplied by a^2.": (
        lambda n, a: 2 / ((1 + a) * n)
    ),
    "the two halves never meet in one sample: 1 + a^2, not (1 + a)^2.": (
        lambda n, a: 2 / ((1 + a) ** 2 * n)
    ),
    "that is a standard deviation; the question asks for a variance.": (
        lambda n, a: math.sqrt(2 / ((1 + a**2) * n))
    ),
    "each half contributes half of the mean square: a factor 2 is missing.": (
        lambda n, a: 1 / ((1 + a**2) * n)
    ),
    "that is what a layer of variance 1 does to the mean square; you need its inverse.": (
        lambda n, a: n * (1 + a**2) / 2
    ),
    "a slope lets more through, so the variance has to be smaller.": lambda n, a: (
        2 * (1 + a**2) / n
    ),
    "both halves add: 1 + a^2, not 1 - a^2.": lambda n, a: 2 / ((1 - a**2) * n),
    "n is missing: z is a sum of n products.": lambda n, a: 2 / (1 + a**2),
    "the negative values, too, are only half of all: (1 + a^2) / 2, not 1/2 + a^2.": (
        lambda n, a: 1 / ((0.5 + a**2) * n)
    ),
    "n multiplies the whole bracket, 1 + a^2.": lambda n, a: 2 / (n + a**2),
    "a slope lets more through, so the variance has to be smaller: 1 + a^2, not 1 - a.": (
        lambda n, a: 2 / ((1 - a) * n)
    ),
    "that is twice as much: each half contributes half of the mean square, so 2 over 1 + a^2.": (
        lambda n, a: 4 / ((1 + a**2) * n)
    ),
    "divide by 1 + a^2; do not multiply by 1 - a^2.": lambda n, a: 2 * (1 - a**2) / n,
    "divide by 1 + a^2; do not multiply by 1 - a.": lambda n, a: 2 * (1 - a) / n,
    "that is torch's default for nn.Linear, which shrinks the signal.": lambda n, a: 1 / (3 * n),
}


@exercise("Exercise 2 (He's variance for leaky ReLU)", "a negative z by 0")
def variance(student) -> None:
    """student(n, a): the variance of the weights that keeps the mean square."""
    cases = [{"n": 50, "a": 0.6}, {"n": 8, "a": 0.0}, {"n": 7, "a": 1.5}]
    calls(student, lambda n, a: 2 / ((1 + a**2) * n), *cases, slips=VARIANCES, what="the variance")


def _or_nan(student, *arguments, errors=(ValueError, TypeError, ZeroDivisionError)):
    """NaN where the student's formula takes the root or the logarithm of a number that has none."""
    try:
        return student(*arguments)
    except errors:
        return math.nan


@exercise(
    "Exercise 3 (repair the sigmoid)",
    f"between {LEAST} and {MOST}",
    f"between {NARROWEST} and {WIDEST:g}",
    "w = 1",
)
def repaired(student) -> None:
    """student: (A, B, C): A sigmoid(B x) + C is centered and keeps the gradient's length."""
    found = numbers(student, "your answer")
    if len(found) != 3:
        raise Slip(f"your answer has {len(found)} numbers, expected three: A, B and C.")
    a, b, c = found
    steepest = a * b / 4
    if (a, b, c) == (1.0, 1.0, 0.0):
        raise Slip("that is the sigmoid as it was: its factor per layer is far below 1.")
    factor = repaired_factor(a, b, c)
    centered = abs(a / 2 + c) <= 0.05 * abs(a)
    if LEAST <= factor <= MOST and centered:
        _check_span(abs(a))
        return
    size = (
        f"the factor per layer is {factor:.2f}"
        if factor < 100
        else "the factor per layer is over 100"
    )
    if factor > MOST and centered:
        raise Slip(
            f"{size}: the slope at 0, A B / 4, is {steepest:.2f}, "
            "which is too steep for these weights."
        )
    if abs(steepest) < LEAST and factor < LEAST:
        raise Slip(f"{size}: the steepest slope, A B / 4, is {steepest:.2f}; it should be about 1.")
    if not centered:
        raise Slip(
            f"{size}: at x = 0 the curve is {a / 2 + c:.2f}. Its outputs are not centered, "
            "so the next inputs lie far from 0: choose C so that the curve is 0 there, C = -A / 2."
        )
    raise Slip(
        f"{size}: the slope at 0, A B / 4, is {steepest:.2f}, and smaller where the inputs lie. "
        "Make it a little steeper."
    )


def _check_span(span: float) -> None:
    if span > WIDEST:
        raise Slip(
            f"the factor is right, but the outputs span |A| = {span:.3g}: around 0 that is nearly "
            f"a straight line, which limits no signal. Choose |A| at most {WIDEST:g}; B = 4 / A."
        )
    if span < NARROWEST:
        raise Slip(
            f"the factor is right, but the outputs span only |A| = {span:.3g}, so hardly any "
            f"signal passes. Choose |A| at least {NARROWEST:g}; B = 4 / A."
        )


def repaired_factor(a: float, b: float, c: float) -> float:
    """The gradient's factor per layer, deep in a wide chain with weights of variance 1 / n."""
    _, rates = measures.mean_field(
        lambda z: a * torch.sigmoid(b * z) + c,
        lambda z: a * b * measures.sigmoid_slope(b * z),
        1.0,
        30,
    )
    return rates[20:].log().mean().exp().item()
