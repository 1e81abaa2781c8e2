"""The checks of lesson 06b name the slips people make, and accept what is right in another form."""

import numpy
import pytest
import sympy
import torch

from normcourse import measures
from normcourse.checks import fair_comparison as check
from normlib import functional
from tests.course.solutions import load, wrong_answers_are_named

D = sympy.Symbol("D", positive=True)


def fit(line, curve, x, y):
    def loss(knee):
        w, b = line(curve(x / knee), y)
        return measures.relative_error(w * curve(x / knee) + b, y)

    return measures.best_knee(loss, x)


def line_of(h, y):
    centred = h - h.mean(0)
    w = (centred * y).sum(0) / centred.square().sum(0)
    return w, y.mean(0) - w * h.mean(0)


def through_means(w, h, y):
    return w, y.mean(0) - w * h.mean(0)


def level_of(h, y):
    return (h * y).sum() / h.square().sum(), 0


def gains_of(h, y):
    return (h * y).sum(0) / h.square().sum(0), 0


def one_line(h, y):
    return line_of(h.reshape(-1), y.reshape(-1))


def raw_line(h, y):
    w = gains_of(h, y)[0]
    return w, (y - w * h).mean(0)


def without_bias(h, y):
    return line_of(h, y)[0], 0


def mean_as_bias(h, y):
    return line_of(h, y)[0], y.mean(0)


def divided_by(size):
    """The slip of a gain that is the covariance over something else than the variance of h."""

    def line(h, y):
        w = ((h - h.mean(0)) * (y - y.mean(0))).sum(0) / size(h, y)
        return w, y.mean(0) - w * h.mean(0)

    return line


def knee_from_new(curve, x, y, new_x, new_y):
    return scored(knee=fit(line_of, curve, new_x, new_y))(curve, x, y, new_x, new_y)


def line_of_row(h, y):
    w, b = line_of(h.T, y.T)
    return w[:, None], b[:, None]


def scored(line=line_of, knee_line=None, knee=None):
    """An answer to exercise 5 with another line, another line in the search, or a fixed knee."""

    def answer(curve, x, y, new_x, new_y):
        found = knee or fit(knee_line or line, curve, x, y)
        w, b = line(curve(x / found), y)
        return measures.relative_error(w * curve(new_x / found) + b, new_y)

    return answer


def row_lines(curve, x, y, new_x, new_y):
    knee = fit(line_of_row, curve, x, y)
    w, b = line_of_row(curve(new_x / knee), new_y)
    return measures.relative_error(w * curve(new_x / knee) + b, new_y)


def line_from_new(curve, x, y, new_x, new_y):
    knee = fit(line_of, curve, x, y)
    w, b = line_of(curve(new_x / knee), new_y)
    return measures.relative_error(w * curve(new_x / knee) + b, new_y)


COMPARISONS = {
    "scored on old rows": (lambda f, x, y, *_: scored()(f, x, y, x, y), "new rows are the test"),
    "fitted to new rows": (lambda f, x, y, *new: scored()(f, *new, *new), "fit to the new rows"),
    "knee 1": (scored(knee=1.0), "the knee is not fitted"),
    "one level": (scored(level_of), "one level for all"),
    "no biases": (scored(gains_of), "the biases are missing"),
    "bias left out": (scored(without_bias), "is not added"),
    "bias is the mean": (scored(mean_as_bias), "what the means leave"),
    "variance of y": (scored(divided_by(lambda h, y: len(y) * y.var(0, correction=0))), "not of y"),
    "deviation": (scored(divided_by(lambda h, y: len(h) * h.std(0, correction=0))), "by its root"),
    # these two were named "the biases are missing" and "one line for all" (the errors are near)
    "deviations": (
        scored(lambda h, y: through_means(y.std(0) / h.std(0), h, y)),
        "one deviation over the other",
    ),
    "upside down": (
        scored(lambda h, y: through_means(1 / line_of(h, y)[0], h, y)),
        "upside down",
    ),
    "deviations, no bias": (scored(lambda h, y: (y.std(0) / h.std(0), 0)), "the error is off by"),
    "knee from new rows": (knee_from_new, "knee is fitted to the new rows"),
    "the knee": (lambda f, x, y, *_: fit(line_of, f, x, y), "that is the knee"),
    "no gains": (scored(lambda h, y: (1, (y - h).mean(0))), "the gains are missing"),
    "not centred": (scored(raw_line), "covariance over variance"),
    "per row": (row_lines, "to each row"),
    "line from new rows": (line_from_new, "come from the new rows"),
    "knee alone": (scored(knee_line=lambda h, y: (1, 0)), "anew for each knee"),
    "knee by level": (scored(knee_line=level_of), "fitted with one level"),
    "one line": (scored(one_line), "one line for all"),
    "always tanh": (lambda f, *case: scored()(torch.tanh, *case), "the curve is an argument"),
    "always isru": (lambda f, *case: scored()(functional.isru, *case), "the curve is an argument"),
    "absolute": (lambda *case: scored()(*case) * case[-1].norm(), "is relative"),
    "squared": (lambda *case: scored()(*case) ** 2, "squared error"),
    "the outputs": (lambda f, x, *_: f(x), "expected a number"),
}

SHARES = {
    "squared": (1 / D, "take the root"),
    "not divided, or the diagonal": (sympy.sqrt(1 - 1 / D), "not yet divided"),
    "sizes added": (sympy.Rational(1, 2), "squares, not sizes"),
    "two roots added": (1 / (1 + sympy.sqrt(D - 1)), "not a sum of two roots"),
    "of the diagonal": (1 / sympy.sqrt(D - 1), "the share of what"),
    "whole is D": (sympy.sqrt((1 - 1 / D) / D), "D - 1, not D"),
    "one entry squared": (1 / D**2, "its square is 1/D^2"),
    "sum of sizes": ((D - 1) / D, "divide by the size"),
    "D entries": (1 / sympy.sqrt(D * (D - 1)), "not D."),
    "squares, diagonal": (1 / (D - 1), "and the root"),
    "one triangle": (1 / sympy.sqrt(2 * D), "both triangles"),
    "a number": (0.25, "leave D"),
}

PAIRS = {
    "a mean over rows": ((0.6, 1.4), "mean over the rows"),
    "the most frequent": ((1.0, 1.4), "the second channel, too"),
    "the second row": ((0.2, 1.4), "does not know the row"),
    "turned round": ((1.4, 0.733), "turn it round"),
    "the sum": ((2.2, 1.4), "the number of places"),
    "over four": ((0.55, 1.4), "not by four"),
    "over two": ((1.1, 1.4), "not by two"),
    "root of the mean square": ((0.825, 1.4), "the mean has the smallest"),
    "inputs": ((1, 7), "those are the inputs"),
    "one size": ((0.277, 1.941), "which is a line"),
    "of each channel": ((0.6, 1.2), "averaged each channel"),
    "of all": ((0.9, 0.9), "one mean for each input"),
    "two digits": ((0.73, 1.4), "off by"),
    "one number": (0.733, "expected a tuple"),
}

CASES = {
    check.fair: COMPARISONS,
    check.best_map: PAIRS,
    check.off_diagonal: SHARES,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(CASES)


def by_cov(h, y):
    both = [torch.cov(torch.stack(pair)) for pair in zip(h.T, y.T, strict=True)]
    w = torch.stack([c[0, 1] / c[0, 0] for c in both])
    return through_means(w, h, y)


def by_polyfit(h, y):
    lines = [numpy.polyfit(a, b, 1) for a, b in zip(h.T.numpy(), y.T.numpy(), strict=True)]
    return torch.tensor(numpy.array(lines)).T


def by_products(h, y):
    w = ((h * y).mean(0) - h.mean(0) * y.mean(0)) / (h.square().mean(0) - h.mean(0) ** 2)
    return through_means(w, h, y)


def of_squares(curve, x, y, new_x, new_y):
    """The search looks at the sum of squares."""

    def loss(knee):
        w, b = line_of(curve(x / knee), y)
        return (w * curve(x / knee) + b - y).square().sum()

    knee = measures.best_knee(loss, x)
    return scored(knee=knee)(curve, x, y, new_x, new_y)


RIGHT = {
    "lstsq": lambda *case: load("06b_fair_comparison")["fair"](*case),
    "a float": lambda *case: scored()(*case).item(),
    "cov": scored(by_cov),
    "polyfit": scored(by_polyfit),
    "products": scored(by_products),
    "squares": of_squares,
    "float32 at the end": lambda *case: numpy.float32(scored()(*case)),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_other_ways_to_fit_are_accepted(answer):
    assert check.fair(answer).startswith("[ok]")


def test_the_share_may_be_written_in_parts():
    symbol = sympy.Symbol("D")
    off = symbol * (symbol - 1) / symbol**2
    whole = off + symbol * (1 - 1 / symbol) ** 2
    assert check.off_diagonal(sympy.sqrt(off / whole)).startswith("[ok]")


def test_the_pair_may_be_rounded_or_exact():
    assert check.best_map((0.733, 1.4)).startswith("[ok]")
    assert check.best_map([sympy.Rational(11, 15), torch.tensor(1.4)]).startswith("[ok]")
