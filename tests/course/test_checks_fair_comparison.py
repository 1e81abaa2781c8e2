"""The checks of lesson 06b name the slips people make, and accept what is right in another form."""

import numpy
import pytest
import torch

from normcourse import draw, measures
from normcourse.checks import fair_comparison as check
from normlib import functional
from tests.course.solutions import load, wrong_answers_are_named


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


def scale_of(h, y):
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


def turned_about(curve, x, y, new_x, new_y):
    """The arguments of the last relative_error are exchanged."""
    knee = fit(line_of, curve, x, y)
    w, b = line_of(curve(x / knee), y)
    return measures.relative_error(new_y, w * curve(new_x / knee) + b)


def without_new_knee(curve, x, y, new_x, new_y):
    knee = fit(line_of, curve, x, y)
    w, b = line_of(curve(x / knee), y)
    return measures.relative_error(w * curve(new_x) + b, new_y)


def times_knee(curve, x, y, new_x, new_y):
    def loss(knee):
        w, b = line_of(curve(x * knee), y)
        return measures.relative_error(w * curve(x * knee) + b, y)

    knee = measures.best_knee(loss, x)
    w, b = line_of(curve(x * knee), y)
    return measures.relative_error(w * curve(new_x * knee) + b, new_y)


COMPARISONS = {
    "scored on old rows": (lambda f, x, y, *_: scored()(f, x, y, x, y), "new rows are the test"),
    "fitted to new rows": (lambda f, x, y, *new: scored()(f, *new, *new), "fit to the new rows"),
    "knee 1": (scored(knee=1.0), "the knee is not fitted"),
    "one scale": (scored(scale_of), "one scale for all"),
    "no biases": (scored(gains_of), "the biases are missing"),
    "bias left out": (scored(without_bias), "is not added"),
    "bias is the mean": (scored(mean_as_bias), "what the means leave"),
    "variance of y": (scored(divided_by(lambda h, y: len(y) * y.var(0, correction=0))), "not of y"),
    "var(0) under a mean": (scored(divided_by(lambda h, y: len(h) * h.var(0))), "by N - 1"),
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
    "knee by scale": (scored(knee_line=scale_of), "fitted with one scale"),
    "one line": (scored(one_line), "one line for all"),
    "always tanh": (lambda f, *case: scored()(torch.tanh, *case), "the curve is an argument"),
    "always isru": (lambda f, *case: scored()(functional.isru, *case), "the curve is an argument"),
    "absolute": (lambda *case: scored()(*case) * case[-1].norm(), "is relative"),
    "squared": (lambda *case: scored()(*case) ** 2, "squared error"),
    "divided by the copy": (turned_about, "come second in relative_error"),
    "no knee for new rows": (without_new_knee, "without the knee"),
    "times the knee": (times_knee, "multiply by the knee"),
    "the outputs": (lambda f, x, *_: f(x), "expected a number"),
}


def anywhere(factor):
    """Rows with an outlier at a random place."""

    def rows_of(rows, width, seed):
        x = draw(rows, width, seed=seed)
        places = draw(rows, width, seed=seed + 700).argmax(1)
        x[torch.arange(rows), places] *= factor
        return x

    return rows_of


def in_channel_0(rows, width, seed):
    x = draw(rows, width, seed=seed)
    x[:, 0] *= 30
    return x


def constant_channel(rows, width, seed):
    x = draw(rows, width, seed=seed)
    x[:, 0] = 30
    return x


def own_sizes(rows, width, seed):
    return draw(rows, width, seed=seed) * draw(rows, 1, seed=seed + 500).exp()


def with_a_zero_row(rows, width, seed):
    x = anywhere(30)(rows, width, seed)
    x[3] = 0
    return x


ROWS = {
    "plain": (lambda rows, width, seed: draw(rows, width, seed=seed), "hardly need a curve"),
    "constant channel": (constant_channel, "hardly need a curve"),
    "one large channel": (in_channel_0, "DyISRU is nearer"),
    "row sizes": (own_sizes, "DyISRU is nearer"),
    "small outlier": (anywhere(3.5), "% are asked"),
    "signs": (lambda rows, width, seed: draw(rows, width, seed=seed).sign(), "need no curve"),
    "without the seed": (lambda rows, width, seed: anywhere(30)(rows, width, 0), "for every seed"),
    "not seeded": (lambda rows, width, seed: torch.randn(rows, width), "with one seed"),
    "turned": (lambda rows, width, seed: anywhere(30)(width, rows, seed), "rows and width"),
    "a row of zeros": (with_a_zero_row, "RMSNorm has no output"),
    "no tensor": (lambda rows, width, seed: [1.0], "got list"),
}

CASES = {
    check.fair: COMPARISONS,
    check.rows_for_dyt: ROWS,
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


def test_rows_for_dyt_of_other_makes_are_accepted():
    assert check.rows_for_dyt(anywhere(30)).startswith("[ok]")
    assert check.rows_for_dyt(lambda *case: anywhere(100)(*case).float()).startswith("[ok]")


def test_writing_into_an_input_is_named():
    verdict = check.dyt_backward(lambda dy, *others: dy.mul_(2))
    assert "dy was changed in place" in verdict


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
    "(1 - tanh)^2": ("dx", lambda v: v["g"] * v["alpha"] * (1 - v["t"]) ** 2, "not (1 - tanh)^2"),
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
    "weight with gain, without scale": (
        "dweight",
        lambda v: (v["g"] * v["t"]).sum(0),
        "scale stays, and the gain does not",
    ),
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
