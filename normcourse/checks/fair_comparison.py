"""Checks of lesson 06b, a fair comparison: one per exercise."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softsign

from normcourse import draw, measures
from normcourse.checks.probes import calls
from normcourse.checks.verdict import exercise, expect, expect_all, parts
from normlib import functional


@exercise("Exercise 1 (a fair comparison)")
def fair(student) -> None:
    """student(curve, x, y, new_x, new_y) -> the error of the fitted layer on the new rows."""
    # tanh and ISRU are near to each other: neither case is the ISRU of who ignores the argument
    cases = [_fair_case(60, 4, torch.tanh, seed=0), _fair_case(80, 5, softsign, seed=10)]
    slips: dict[str, Callable] = {
        "you score on the rows that you fitted to; new rows are the test.": (
            lambda curve, x, y, new_x, new_y: _fair(curve, x, y, x, y)
        ),
        "you fit to the new rows, which only the score may see.": (
            lambda curve, x, y, new_x, new_y: _fair(curve, new_x, new_y, new_x, new_y)
        ),
        "the knee is not fitted: call best_knee with the loss of a knee.": (
            lambda *case: _fair(*case, knee=1.0)
        ),
        "one level for all channels: each channel has a gain of its own.": (
            lambda *case: _fair(*case, line=_one_level)
        ),
        "the gains are there, the biases are missing.": (
            lambda *case: _fair(*case, line=_gains_alone)
        ),
        "the gain is that of a line with a bias, but the bias is not added.": (
            lambda *case: _fair(*case, line=_bias_left_out)
        ),
        "the bias is what the means leave: subtract the gain times the mean of h.": (
            lambda *case: _fair(*case, line=_bias_is_mean)
        ),
        "the gain is divided by the variance of h, not of y.": (
            lambda *case: _fair(*case, line=_variance_of_y)
        ),
        "the gain is divided by the variance of h, not by its root.": (
            lambda *case: _fair(*case, line=_by_deviation)
        ),
        "the gain is the covariance over the variance of h; one deviation over the other leaves "
        "out how far h and y go together.": lambda *case: _fair(*case, line=_deviations),
        "the gain is upside down: covariance over variance, not variance over covariance.": (
            lambda *case: _fair(*case, line=_upside_down)
        ),
        "the knee is fitted to the new rows, which only the score may see.": (
            lambda curve, x, y, new_x, new_y: _fair(
                curve, x, y, new_x, new_y, knee=_knee_of(curve, new_x, new_y)
            )
        ),
        "that is the knee: use it, and return the error on the new rows.": (
            lambda curve, x, y, *_: _knee_of(curve, x, y)
        ),
        "the biases are there, the gains are missing.": (
            lambda *case: _fair(*case, line=_biases_alone)
        ),
        "the gain of a line with a bias is fitted to what is centred: covariance over variance.": (
            lambda *case: _fair(*case, line=_line_not_centred)
        ),
        "you fit gains and biases to each row; one of each channel serves all rows.": (
            lambda *case: _fair(*case, line=_line_of_rows)
        ),
        "the gains and biases come from the new rows, which only the score may see.": (
            lambda curve, x, y, new_x, new_y: _fair(curve, x, y, new_x, new_y, refit=(new_x, new_y))
        ),
        "the knee is fitted with gain 1 and bias 0; fit the line anew for each knee you try.": (
            lambda *case: _fair(*case, knee_line=_no_line)
        ),
        "the knee is fitted with one level; fit the line of each channel anew for each knee.": (
            lambda *case: _fair(*case, knee_line=_one_level)
        ),
        "one line for all channels: each channel has a gain and a bias of its own.": (
            lambda *case: _fair(*case, line=_one_line)
        ),
        "the curve is an argument: fit this one, not always tanh.": (
            lambda curve, *case: _fair(torch.tanh, *case)
        ),
        "the curve is an argument: fit this one, not always ISRU.": (
            lambda curve, *case: _fair(functional.isru, *case)
        ),
        "the error is relative: divide by the size of the outputs (measures.relative_error).": (
            lambda *case: _fair(*case) * float(case[-1].norm())
        ),
        "you return the squared error: relative_error is its root.": (
            lambda *case: _fair(*case) ** 2
        ),
    }
    # best_knee's grid is the same for everybody; only the lines are computed in different ways
    calls(student, _fair, *cases, slips=slips, what="the error", rtol=1e-6)


def _fair_case(rows: int, width: int, curve, seed: int) -> dict:
    sizes = torch.ones(width, dtype=torch.float64)
    sizes[0] = 6
    places = torch.linspace(-1, 2, width, dtype=torch.float64)
    x = draw(rows, width, seed=seed) * sizes + places
    new_x = draw(rows + 3, width, seed=seed + 1) * sizes + places
    w = torch.linspace(0.5, 1.5, width, dtype=torch.float64)
    targets = [w * functional.rms_norm(z, (width,), eps=0.0) + 1 - w for z in (x, new_x)]
    return {"curve": curve, "x": x, "y": targets[0], "new_x": new_x, "new_y": targets[1]}


def _fair(curve, x, y, new_x, new_y, *, knee=None, line=None, knee_line=None, refit=None) -> float:
    """The right answer; line fits gain and bias, knee_line does so while the knee is sought."""
    line = line or _line
    sought = knee_line or line

    def loss(knee):
        w, b = sought(curve(x / knee), y)
        return float(measures.relative_error(w * curve(x / knee) + b, y))

    knee = measures.best_knee(loss, x) if knee is None else knee
    rows, outputs = (x, y) if refit is None else refit
    w, b = line(curve(rows / knee), outputs)
    if line is _line_of_rows:
        w, b = line(curve(new_x / knee), new_y)
    return float(measures.relative_error(w * curve(new_x / knee) + b, new_y))


def _line(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean(0)
    w = (centred * y).sum(0) / centred.square().sum(0)
    return w, y.mean(0) - w * h.mean(0)


def _knee_of(curve, x: Tensor, y: Tensor) -> Tensor:
    def loss(knee):
        w, b = _line(curve(x / knee), y)
        return float(measures.relative_error(w * curve(x / knee) + b, y))

    return measures.best_knee(loss, x)


def _bias_left_out(h: Tensor, y: Tensor) -> tuple[Tensor, float]:
    w, _ = _line(h, y)
    return w, 0.0


def _bias_is_mean(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    w, _ = _line(h, y)
    return w, y.mean(0)


def _variance_of_y(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean(0)
    w = (centred * y).mean(0) / y.var(0, correction=0)
    return w, y.mean(0) - w * h.mean(0)


def _by_deviation(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean(0)
    w = (centred * y).mean(0) / h.std(0, correction=0)
    return w, y.mean(0) - w * h.mean(0)


def _deviations(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    w = y.std(0, correction=0) / h.std(0, correction=0)
    return w, y.mean(0) - w * h.mean(0)


def _upside_down(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean(0)
    w = centred.square().sum(0) / (centred * y).sum(0)
    return w, y.mean(0) - w * h.mean(0)


def _one_level(h: Tensor, y: Tensor) -> tuple[Tensor, float]:
    return (h * y).sum() / h.square().sum(), 0.0


def _one_line(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean()
    w = (centred * y).sum() / centred.square().sum()
    return w, y.mean() - w * h.mean()


def _gains_alone(h: Tensor, y: Tensor) -> tuple[Tensor, float]:
    return (h * y).sum(0) / h.square().sum(0), 0.0


def _biases_alone(h: Tensor, y: Tensor) -> tuple[float, Tensor]:
    return 1.0, (y - h).mean(0)


def _line_not_centred(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    w = (h * y).sum(0) / h.square().sum(0)
    return w, (y - w * h).mean(0)


def _line_of_rows(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    w, b = _line(h.mT, y.mT)
    return w[:, None], b[:, None]


def _no_line(h: Tensor, y: Tensor) -> tuple[float, float]:
    return 1.0, 0.0


@exercise(
    "Exercise 2 (the best map by hand)",
    "rows are (1, 1)",
    "half are (1, 7)",
    "returns (1, 1) for the first kind and (0.2, 1.4) for the second",
    "for each 1 and another number for each 7",
    "with three digits",
)
def best_map(answer) -> None:
    """(best output for 1, best output for 7) where half of the rows are (1, 1), half (1, 7).

    [EQ-CONDITIONAL-MEAN]
    """
    mean = 2.2 / 3
    slips = {
        "a 1 stands in three of the four places: in both of the first row, and once in the second. "
        "You took the mean over the rows.": (0.6, 1.4),
        "the one function serves both channels: a 1 stands in the second channel, too.": (1.0, 1.4),
        "that is RMSNorm of the second row. The function sees a 1 and does not know the row.": (
            0.2,
            1.4,
        ),
        "that is the pair for 7 and for 1: turn it round.": (1.4, mean),
        "divide by the number of places with a 1, three.": (2.2, 1.4),
        "three of the four places hold a 1: divide their sum by three, not by four.": (0.55, 1.4),
        "three of the four places hold a 1: divide their sum by three, not by two.": (1.1, 1.4),
        "that is the root of the mean square; the mean has the smallest squared error.": (
            (2.04 / 3) ** 0.5,
            1.4,
        ),
        "those are the inputs; the outputs of RMSNorm are averaged.": (1.0, 7.0),
        "that divides by one size for all rows, which is a line; "
        "the best function is free to take another value for each input.": (13**-0.5, 7 * 13**-0.5),
        "you averaged each channel: average over the places with the same input.": (0.6, 1.2),
        "that is the mean of all four outputs: one mean for each input.": (0.9, 0.9),
    }
    names = ("the output for 1", "the output for 7")
    got = parts(answer, *names)
    expect_all(got, (mean, 1.4), slips, names, rtol=2e-3)


@exercise("Exercise 3 (off the diagonal)")
def off_diagonal(answer) -> None:
    """The share e for a row of D numbers of equal size, an expression in D.

    [EQ-OFF-DIAGONAL-RMS]
    """
    import sympy

    d = sympy.Symbol("D", positive=True)
    slips = {
        "that is e^2: the share compares lengths, so take the root.": 1 / d,
        "that is the size of what lies off the diagonal, not yet divided by the size of the whole "
        "matrix. (The share of the diagonal is the same number; it is not asked for.)": (
            sympy.sqrt(1 - 1 / d)
        ),
        "add up squares, not sizes, and take the roots at the end.": sympy.Rational(1, 2),
        "below stands the root of one sum over all entries, not a sum of two roots.": (
            1 / (1 + sympy.sqrt(d - 1))
        ),
        "that holds for one D: leave D in the expression.": sympy.Rational(1, 4),
        "the share of what? Off the diagonal lie D (D - 1) squares of 1/D^2; the whole has D - 1, "
        "with the diagonal.": 1 / sympy.sqrt(d - 1),
        "the whole matrix has D - 1, not D: its diagonal entries are 1 - 1/D.": (
            sympy.sqrt((1 - 1 / d) / d)
        ),
        "one entry off the diagonal is y_i y_j / D, which is 1/D in size; its square is 1/D^2, "
        "and there are D (D - 1) of them.": 1 / d**2,
        "divide by the size of the whole matrix, sqrt(D - 1).": (d - 1) / d,
        "there are D (D - 1) entries off the diagonal, not D.": 1 / sympy.sqrt(d * (d - 1)),
        "that is the square of off the diagonal to on it: take the whole matrix below, "
        "and the root.": 1 / (d - 1),
        "both triangles lie off the diagonal: twice as many entries.": 1 / sympy.sqrt(2 * d),
    }
    expect(answer, 1 / sympy.sqrt(d), slips, "the share")
