"""The checks of lesson 00a name the slips people make."""

import math
from fractions import Fraction

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


def no_case(alpha, eps):
    return math.atanh(math.sqrt(1 - eps / alpha)) / alpha


def minus_one_everywhere(alpha, eps):
    return -1.0 if eps > alpha else no_case(alpha, eps)


def by_torch(alpha, eps):
    return torch.tensor(1 - eps / alpha).sqrt().atanh().item() / alpha


SIGMOID = {
    "output": (lambda e: math.log((1 - e) / e), "where the OUTPUT comes within eps"),
    "tanh": (lambda e: math.atanh(math.sqrt(1 - e)), "the threshold of tanh"),
    "other root": (lambda e: -exact(e), "turn the sign"),
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
    "base 2": (lambda e: exact(e) / math.log(2), "not that of base 2"),
    "twice": (lambda e: 2 * exact(e), "without a factor 2"),
    "not halved": (lambda e: math.log((1 + root(e)) / -root(e)), "divides by 2"),
    "everywhere forgotten": (exact, "no slope of the sigmoid reaches 0.3"),
    "a table for one eps": (lambda e: exact(0.01) if e < 0.2 else 0.0, "eps = 0.1"),
}
TANH = {
    "no alpha in the slope": (
        lambda a, e: math.atanh(math.sqrt(1 - e)) / a,
        "alpha is missing from the slope",
    ),
    "tanh(x)": (lambda a, e: math.atanh(math.sqrt(1 - e)), "that is the threshold of tanh(x)"),
    "output": (lambda a, e: math.atanh(1 - e) / a, "where the OUTPUT comes within eps"),
    "alpha x": (lambda a, e: math.atanh(math.sqrt(1 - e / a)), "that is alpha x"),
    "times alpha": (
        lambda a, e: math.atanh(math.sqrt(1 - e / a)) * a,
        "divide by alpha at the end",
    ),
    "no root": (lambda a, e: math.atanh(1 - e / a) / a, "the square root is missing"),
    "eps times alpha": (
        lambda a, e: math.atanh(math.sqrt(1 - e * a)) / a,
        "eps / alpha, not eps alpha",
    ),
    "sigmoid": (lambda a, e: exact(e), "the sigmoid's threshold"),
    "tail": (lambda a, e: math.log(4 * a / e) / (2 * a), "the tail's approximation"),
    "the sigmoid's 4": (lambda a, e: math.atanh(root(e / a)) / a, "without the sigmoid's factor"),
    "not inverted": (lambda a, e: math.sqrt(1 - e / a) / a, "invert tanh with math.atanh"),
    "tanh for its inverse": (lambda a, e: math.tanh(math.sqrt(1 - e / a)) / a, "not math.tanh"),
    "twice": (lambda a, e: 2 * no_case(a, e), "the whole inverse"),
    "half": (lambda a, e: no_case(a, e) / 2, "its factor 1/2 already"),
    "other root": (lambda a, e: -no_case(a, e), "turn the sign"),
    "everywhere forgotten": (no_case, "no slope reaches 0.7"),
    "everywhere forgotten, in torch": (by_torch, "no slope reaches 0.7"),
    "everywhere as -1": (minus_one_everywhere, "off by up to 1"),
    "alpha fixed at 0.5": (
        lambda a, e: no_case(0.5, e) if e < 0.5 else 0.0,
        "alpha = 2, eps = 0.2",
    ),
}


def slopes(in_x=None, in_beta=None):
    """Exercise 3's answer; each argument replaces one part by a slip of x, beta and s."""

    def student(x, beta):
        s = torch.sigmoid(beta * x)
        first = in_x(x, beta, s) if in_x else s + beta * x * s * (1 - s)
        second = in_beta(x, beta, s) if in_beta else x**2 * s * (1 - s)
        return first, second

    return student


def by_autograd(x, beta):
    leaf = x.clone().requires_grad_()
    weight = torch.full_like(x, beta).requires_grad_()
    return torch.autograd.grad((leaf * torch.sigmoid(weight * leaf)).sum(), (leaf, weight))


SWISH = {
    "beta twice": (
        slopes(in_x=lambda x, beta, s: s + beta**2 * x * s * (1 - s)),
        "one beta, not beta^2",
    ),
    "x twice": (
        slopes(in_x=lambda x, beta, s: s + beta * x**2 * s * (1 - s)),
        "no x^2",
    ),
    "first term only": (
        slopes(lambda x, b, s: s),
        "second one, x times the slope of s, is missing",
    ),
    "second term only": (
        slopes(lambda x, b, s: b * x * s * (1 - s)),
        "first one, s itself, is missing",
    ),
    "no beta": (slopes(lambda x, b, s: s + x * s * (1 - s)), "brings a beta out"),
    "subtracted": (slopes(lambda x, b, s: s - b * x * s * (1 - s)), "are added"),
    "no x": (slopes(lambda x, b, s: s + b * s * (1 - s)), "the factor x in front"),
    "slope at x": (
        slopes(lambda x, b, s: s + b * x * torch.sigmoid(x) * torch.sigmoid(-x)),
        "belongs to the place beta x",
    ),
    "s squared": (slopes(lambda x, b, s: s + b * x * s * s), "not s^2"),
    "1 - s": (slopes(lambda x, b, s: s + b * x * (1 - s)), "not 1 - s"),
    "sigmoid alone": (slopes(lambda x, b, s: b * s * (1 - s)), "the product rule"),
    "one x in beta": (slopes(None, lambda x, b, s: x * s * (1 - s)), "brings a second one: x^2"),
    "beta in beta": (slopes(None, lambda x, b, s: b * x**2 * s * (1 - s)), "not beta times x"),
    "s for its slope": (slopes(None, lambda x, b, s: x**2 * s), "replaced by its slope"),
    "product rule in beta": (
        slopes(None, lambda x, b, s: s + x**2 * s * (1 - s)),
        "only one term remains",
    ),
    "reversed": (lambda x, b: slopes()(x, b)[::-1], "the order"),
    "SiLU": (lambda x, b: slopes()(x, 1.0), "use beta"),
    "autograd": (by_autograd, "without autograd"),
    "one part": (lambda x, b: slopes()(x, b)[0], "expected a tuple"),
    "summed over beta": (slopes(None, lambda x, b, s: (x**2 * s * (1 - s)).sum()), "has shape ()"),
}
REPAIRED = {
    "unchanged": ((1, 1, 0), "the sigmoid as it was"),
    "centred only": ((1, 1, -0.5), "a gradient needs about 1"),
    "steep only": ((4, 1, 0), "not centred"),
    "nearly centred": ((2, 2, -0.8), "not centred"),
    "twice too steep": ((4, 4, 0), "too steep"),
    "steep, not centred": ((5, 2, -1), "too steep"),
    "steep inside only": ((1, 4, 0), "not centred"),
    "wrong side": ((2, 2, 1), "not centred"),
    "too steep": ((4, 4, -2), "too steep"),
    "flat": ((0.5, 1, -0.25), "a gradient needs about 1"),
    "two numbers": ((2, 2), "expected a tuple (A, B, C)"),
    "text": (("2", 2, -1), "expected a number"),
}
VARIANCES = {
    "less, not more": (lambda n, a: 2 / ((1 - a) * n), "not 1 - a."),
    "twice": (lambda n, a: 4 / ((1 + a**2) * n), "that is twice of it"),
    "ReLU": (lambda n, a: 2 / n, "that is ReLU's"),
    "linear": (lambda n, a: 1 / n, "that is a linear layer's"),
    "slope not squared": (lambda n, a: 2 / (1 + a) / n, "square the slope"),
    "halves meet": (lambda n, a: 2 / (1 + a) ** 2 / n, "never meet in one sample"),
    "standard deviation": (lambda n, a: math.sqrt(2 / (1 + a * a) / n), "a standard deviation"),
    "factor 2": (lambda n, a: 1 / (1 + a * a) / n, "a factor 2 is missing"),
    "not inverted": (lambda n, a: n * (1 + a * a) / 2, "you need its inverse"),
    "multiplied": (lambda n, a: 2 * (1 + a * a) / n, "the variance must get smaller"),
    "no n": (lambda n, a: 2 / (1 + a * a), "n is missing"),
    "half forgotten": (lambda n, a: 1 / (0.5 + a * a) / n, "only half of all"),
    "bracket": (lambda n, a: 2 / (n + a * a), "the whole bracket"),
    "multiplied by 1 - a^2": (lambda n, a: 2 * (1 - a * a) / n, "do not multiply by 1 - a^2"),
    "multiplied by 1 - a": (lambda n, a: 2 * (1 - a) / n, "do not multiply by 1 - a"),
    "torch's default": (lambda n, a: 1 / (3 * n), "torch's default"),
}
WRONG = {
    check.sigmoid_threshold: SIGMOID,
    check.threshold: TANH,
    check.variance: VARIANCES,
    check.swish_slopes: SWISH,
    check.repaired: REPAIRED,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


# so each slip above is its one change
def test_the_unchanged_answers_of_these_tests_are_accepted():
    assert check.sigmoid_threshold(zero_or_exact).startswith("[ok]")
    assert check.swish_slopes(slopes()).startswith("[ok]")


def test_other_right_answers_are_accepted():
    def inverse_cosh(a, e):
        return math.acosh(math.sqrt(a / e)) / a if e < a else 0

    def half_angle(e):
        return 2 * math.acosh(0.5 / math.sqrt(e)) if e < 1 / 4 else 0

    assert check.threshold(inverse_cosh).startswith("[ok]")
    assert check.sigmoid_threshold(half_angle).startswith("[ok]")
    assert check.repaired((4, 1, -2)).startswith("[ok]")
    assert check.repaired((-2, -2, torch.tensor(1.0))).startswith("[ok]")
    assert check.repaired([1, 4, -0.5]).startswith("[ok]")


def test_an_unusual_form_of_a_right_variance_is_accepted():
    exact = lambda n, a: 2 / (n * (1 + Fraction(a) ** 2))  # noqa: E731
    assert check.variance(exact).startswith("[ok]")
