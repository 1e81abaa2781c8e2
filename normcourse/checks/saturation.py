"""Checks of lesson 00a: saturation, He's rule for leaky ReLU, Swish's slopes, a sigmoid repaired.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math

import torch

from normcourse import draw, measures
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import Slip, every_case, exercise, expect, parts, real

EPS = 0.01
ALPHA = 0.5  # a slope at 0 that is not 1
LEAST, MOST = 0.9, 1.1


def _root(eps):
    return math.sqrt(1 - 4 * eps)


def _sigmoid_threshold(eps):
    return measures.sigmoid_thresholds(eps).slope


SIGMOID = {  # of eps e
    "that is where the OUTPUT comes within eps of its limit; the slope gets small elsewhere.": (
        lambda e: math.log((1 - e) / e)
    ),
    "that is the threshold of tanh.": lambda e: measures.tanh_thresholds(e).slope,
    "that is the other root, where x is negative; the answer is a size, so turn the sign.": (
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
    "that is half of it: the sigmoid's inverse is ln(y / (1 - y)), without a factor 1/2.": (
        lambda e: _sigmoid_threshold(e) / 2
    ),
    "use the natural logarithm, not that of base 10.": lambda e: (
        _sigmoid_threshold(e) / math.log(10)
    ),
    "use the natural logarithm, not that of base 2.": lambda e: _sigmoid_threshold(e) / math.log(2),
    "that is twice of it: the sigmoid's inverse is ln(y / (1 - y)), without a factor 2.": (
        lambda e: 2 * _sigmoid_threshold(e)
    ),
    "a root or a logarithm of a number that has none: is y between 0 and 1? "
    "The quadratic formula divides by 2.": lambda e: math.nan,
}
TANH = {  # of alpha a and eps e
    "alpha is missing from the slope: it is alpha (1 - tanh^2), "
    "so compare tanh^2 with 1 - eps / alpha.": (lambda a, e: math.atanh(math.sqrt(1 - e)) / a),
    "alpha is missing: that is the threshold of tanh(x).": lambda a, e: math.atanh(
        math.sqrt(1 - e)
    ),
    "that is where the OUTPUT comes within eps of its limit; the slope gets small elsewhere.": (
        lambda a, e: math.atanh(1 - e) / a
    ),
    "that is alpha x; divide by alpha to get x.": lambda a, e: math.atanh(math.sqrt(1 - e / a)),
    "divide by alpha at the end, do not multiply.": lambda a, e: (
        math.atanh(math.sqrt(1 - e / a)) * a
    ),
    "tanh^2 = 1 - eps / alpha: the square root is missing.": lambda a, e: math.atanh(1 - e / a) / a,
    "the slope at 0 is alpha: eps / alpha, not eps alpha.": lambda a, e: (
        math.atanh(math.sqrt(1 - e * a)) / a
    ),
    "that is the sigmoid's threshold.": lambda a, e: _sigmoid_threshold(e),
    "the slope of tanh is 1 - y^2, without the sigmoid's factor 4.": lambda a, e: (
        math.atanh(_root(e / a)) / a
    ),
    "that is tanh(alpha x) over alpha: invert tanh with math.atanh.": lambda a, e: (
        math.sqrt(1 - e / a) / a
    ),
    "the inverse of tanh is math.atanh, not math.tanh.": lambda a, e: (
        math.tanh(math.sqrt(1 - e / a)) / a
    ),
    "that is twice of it: math.atanh is the whole inverse of tanh.": (
        lambda a, e: 2 * math.atanh(math.sqrt(1 - e / a)) / a
    ),
    "that is half of it: math.atanh has its factor 1/2 already.": (
        lambda a, e: math.atanh(math.sqrt(1 - e / a)) / (2 * a)
    ),
    "that is the other root, where x is negative; the answer is a size, so turn the sign.": (
        lambda a, e: -math.atanh(math.sqrt(1 - e / a)) / a
    ),
    "that is the tail's approximation 4 alpha exp(-2 alpha x) = eps; solve exactly.": (
        lambda a, e: math.log(4 * a / e) / (2 * a)
    ),
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


@exercise(
    "Exercise 2 (where a tanh stops passing gradient)",
    r"any \alpha > 0 and \varepsilon > 0",
    "Return 0.0",
)
def threshold(student) -> None:
    """student(alpha, eps): the |x| beyond which tanh(alpha x) is flatter than eps, else 0.0."""
    with every_case() as cases:
        for alpha, eps in ((ALPHA, EPS), (2.0, 0.2)):
            slips = {message: wrong(alpha, eps) for message, wrong in TANH.items()}
            want = measures.tanh_thresholds(eps / alpha).slope / alpha
            what = f"the threshold for alpha = {alpha:g}, eps = {eps}"
            cases.expect(student(alpha, eps), want, slips, what)
    slips = {
        "at alpha = 0.5 no slope reaches 0.7: every x is beyond the threshold. Return 0.0.": (
            math.nan
        )
    }
    expect(_or_nan(student, 0.5, 0.7), 0.0, slips, "the threshold for alpha = 0.5, eps = 0.7")


VARIANCES = {  # of n inputs and the slope a
    "that is ReLU's: here the negative half is not lost, it comes through with the slope.": (
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
    "each half brings half of the mean square: a factor 2 is missing.": (
        lambda n, a: 1 / ((1 + a**2) * n)
    ),
    "that is what a layer of variance 1 does to the mean square; you need its inverse.": (
        lambda n, a: n * (1 + a**2) / 2
    ),
    "a slope lets more through, so the variance must get smaller.": lambda n, a: 2 * (1 + a**2) / n,
    "both halves add: 1 + a^2, not 1 - a^2.": lambda n, a: 2 / ((1 - a**2) * n),
    "n is missing: z is a sum of n products.": lambda n, a: 2 / (1 + a**2),
    "the negative values, too, are only half of all: (1 + a^2) / 2, not 1/2 + a^2.": (
        lambda n, a: 1 / ((0.5 + a**2) * n)
    ),
    "n multiplies the whole bracket, 1 + a^2.": lambda n, a: 2 / (n + a**2),
    "a slope lets more through, so the variance must get smaller: 1 + a^2, not 1 - a.": (
        lambda n, a: 2 / ((1 - a) * n)
    ),
    "that is twice of it: each half brings half of the mean square, so 2 over 1 + a^2.": (
        lambda n, a: 4 / ((1 + a**2) * n)
    ),
    "divide by 1 + a^2; do not multiply by 1 - a^2.": lambda n, a: 2 * (1 - a**2) / n,
    "divide by 1 + a^2; do not multiply by 1 - a.": lambda n, a: 2 * (1 - a) / n,
    "that is torch's default for nn.Linear, which keeps nothing.": lambda n, a: 1 / (3 * n),
}


@exercise("Exercise 3 (He's variance for leaky ReLU)", "a negative z by 0")
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


def _swish_slopes(x, beta):
    s = torch.sigmoid(beta * x)
    return measures.swish_slope(x, beta), x**2 * s * (1 - s)


def _wrong_in_x(formula):
    """Swish's slopes with the one in x by a wrong formula of x, beta and s."""
    return lambda x, beta: (formula(x, beta, torch.sigmoid(beta * x)), _swish_slopes(x, beta)[1])


def _wrong_in_beta(formula):
    return lambda x, beta: (_swish_slopes(x, beta)[0], formula(x, beta, torch.sigmoid(beta * x)))


SWISH = {
    "in x: the product rule has two terms, and the second one, x times the slope of s, "
    "is missing.": (_wrong_in_x(lambda x, beta, s: s)),
    "in x: the product rule has two terms, and the first one, s itself, is missing.": (
        _wrong_in_x(lambda x, beta, s: beta * x * s * (1 - s))
    ),
    "in x: the chain rule brings a beta out of sigmoid(beta x).": (
        _wrong_in_x(lambda x, beta, s: s + x * s * (1 - s))
    ),
    "in x: the chain rule brings one beta, not beta^2.": (
        _wrong_in_x(lambda x, beta, s: s + beta**2 * x * s * (1 - s))
    ),
    "in x: one x stands in front of s, and the chain rule brings beta: no x^2.": (
        _wrong_in_x(lambda x, beta, s: s + beta * x**2 * s * (1 - s))
    ),
    "in x: the two terms of the product rule are added.": (
        _wrong_in_x(lambda x, beta, s: s - beta * x * s * (1 - s))
    ),
    "in x: the factor x in front of the slope of s is missing.": (
        _wrong_in_x(lambda x, beta, s: s + beta * s * (1 - s))
    ),
    "in x: the slope of s belongs to the place beta x, not to x.": (
        _wrong_in_x(lambda x, beta, s: s + beta * x * measures.sigmoid_slope(x))
    ),
    "in x: the slope of the sigmoid is s (1 - s), not s^2.": (
        _wrong_in_x(lambda x, beta, s: s + beta * x * s**2)
    ),
    "in x: the slope of the sigmoid is s (1 - s), not 1 - s.": (
        _wrong_in_x(lambda x, beta, s: s + beta * x * (1 - s))
    ),
    "in x: that is the slope of the sigmoid alone; the factor x in front asks for the product "
    "rule.": (_wrong_in_x(lambda x, beta, s: beta * s * (1 - s))),
    "in beta: one x stands in front of s, the chain rule brings a second one: x^2.": (
        _wrong_in_beta(lambda x, beta, s: x * s * (1 - s))
    ),
    "in beta: the chain rule brings x, not beta times x.": (
        _wrong_in_beta(lambda x, beta, s: beta * x * x * s * (1 - s))
    ),
    "in beta: s has to be replaced by its slope s (1 - s).": _wrong_in_beta(
        lambda x, beta, s: x**2 * s
    ),
    "in beta: x in front of s does not depend on beta, so only one term remains.": (
        _wrong_in_beta(lambda x, beta, s: s + x**2 * s * (1 - s))
    ),
    "the order: first the slope in x, then the slope in beta.": (
        lambda x, beta: tuple(reversed(_swish_slopes(x, beta)))
    ),
    "that is SiLU, with beta = 1: use beta.": lambda x, beta: _swish_slopes(x, 1.0),
}


@exercise("Exercise 4 (the two slopes of Swish)")
def swish_slopes(student) -> None:
    """student(x, beta) -> (slope in x, slope in beta) of x sigmoid(beta x), shaped as x."""
    cases = [{"x": draw(3, 5), "beta": 0.5}, {"x": draw(2, 3, 7, seed=1), "beta": -1.7}]
    allowed = forbid(student, "autograd", "normlib")
    calls(allowed, _swish_slopes, *cases, slips=SWISH, what=("the slope in x", "the slope in beta"))


@exercise("Exercise 5 (repair the sigmoid)", f"between {LEAST} and {MOST}", "w = 1")
def repaired(student) -> None:
    """student: (A, B, C), with which A sigmoid(B x) + C hands 0.9 to 1.1 of a gradient on."""
    a, b, c = (real(part, name) for part, name in zip(parts(student, *"ABC"), "ABC", strict=True))
    steepest = a * b / 4
    if (a, b, c) == (1.0, 1.0, 0.0):
        raise Slip("that is the sigmoid as it was: its factor per layer is far below 1.")
    factor = repaired_factor(a, b, c)
    if LEAST <= factor <= MOST:
        return
    size = (
        f"the factor per layer is {factor:.2f}"
        if factor < 100
        else "the factor per layer is over 100"
    )
    if factor > MOST:
        raise Slip(
            f"{size}: at 0 the slope A B / 4 is {steepest:.2f}, "
            "which is too steep for these weights."
        )
    if abs(steepest) < LEAST:
        raise Slip(
            f"{size}: the steepest slope, A B / 4, is {steepest:.2f}; a gradient needs about 1."
        )
    if abs(a / 2 + c) > 0.01 * abs(a):
        raise Slip(
            f"{size}: at x = 0 the curve is {a / 2 + c:.2f}. Its outputs are not centred, "
            "so the next inputs lie far from 0, where it is flat: choose C so that it is 0 there."
        )
    raise Slip(
        f"{size}: at 0 the slope A B / 4 is {steepest:.2f}, and it is smaller where inputs lie. "
        "Make it a little steeper."
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
