"""Checks of lesson 06b, a fair comparison: one per exercise.

Tables map what a check says to the wrong answer that earns it; v holds the values of one call.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn.functional import softsign

from normcourse import draw, measures
from normcourse.checks.probes import call, calls, forbid
from normcourse.checks.verdict import Slip, exercise
from normlib import functional, gradients

LEAD = 0.3  # percent
NEEDS_A_CURVE = 1.2  # the straight line's error over DyT's
NO_ERROR = 1e-6  # of a line: the leads of curves are rounding there
DX = {
    "dx: the factor alpha is missing; it comes down from inside tanh.": lambda v: v.g * v.slope,
    "dx: the gain is missing.": lambda v: v.dy * v.alpha * v.slope,
    "dx: tanh' is 1 - tanh^2, not 1 - tanh.": lambda v: v.g * v.alpha * (1 - v.t),
    "dx: tanh' is 1 - tanh^2, not tanh.": lambda v: v.g * v.alpha * v.t,
    "dx: tanh' is 1 - tanh^2, not (1 - tanh)^2.": lambda v: v.g * v.alpha * (1 - v.t) ** 2,
    "dx: tanh' takes alpha x / scale, and you gave it x.": lambda v: (
        v.g * v.alpha * (1 - torch.tanh(v.x) ** 2)
    ),
    "dx: scale is missing inside tanh.": lambda v: (
        v.g * v.alpha * (1 - torch.tanh(v.alpha * v.x) ** 2)
    ),
    "dx: the scale outside and the 1/scale inside cancel: the factor is alpha.": lambda v: (
        v.g * v.alpha * v.slope * v.scale
    ),
    "dx: the scale outside and the 1/scale inside cancel; you kept the one inside.": lambda v: (
        v.g * v.alpha * v.slope / v.scale
    ),
}
DALPHA = {
    "dalpha: one alpha serves every row and feature; sum over all of them.": lambda v: (
        v.g * v.x * v.slope
    ),
    "dalpha: one alpha serves every feature too; sum over both axes.": lambda v: (
        v.g * v.x * v.slope
    ).sum(0),
    "dalpha: sum, do not average.": lambda v: (v.g * v.x * v.slope).mean().reshape(1),
    "dalpha: its shape is (1,), as alpha's.": lambda v: (v.g * v.x * v.slope).sum(),
    "dalpha: the inner derivative in alpha is x, not alpha.": lambda v: total(
        v.g * v.alpha * v.slope
    ),
    "dalpha: the inner derivative in alpha is x, without alpha.": lambda v: total(
        v.g * v.alpha * v.x * v.slope
    ),
    "dalpha: the inner derivative in alpha is x.": lambda v: total(v.g * v.slope),
    "dalpha: the gain is missing.": lambda v: total(v.dy * v.x * v.slope),
    "dalpha: scale outside and 1/scale inside cancel.": lambda v: (
        total(v.g * v.x * v.slope) * v.scale
    ),
    "dalpha: scale outside and 1/scale inside cancel; you kept the one inside.": lambda v: (
        total(v.g * v.x * v.slope) / v.scale
    ),
}
DWEIGHT = {
    "dweight: one row a token; sum over the rows.": lambda v: v.dy * v.scale * v.t,
    "dweight: the gain multiplies scale tanh, so scale stays.": lambda v: (v.dy * v.t).sum(0),
    "dweight: the gain multiplies scale tanh: scale stays, and the gain does not.": lambda v: (
        v.g * v.t
    ).sum(0),
    "dweight: sum over the rows, do not average.": lambda v: (v.dy * v.scale * v.t).mean(0),
    "dweight: the factor is what the gain multiplies, scale tanh, not x.": lambda v: (
        v.dy * v.x
    ).sum(0),
    "dweight: the gain multiplies scale tanh itself, not its slope.": lambda v: (
        v.dy * v.scale * v.slope
    ).sum(0),
    "dweight: dy, not w dy; the gain is not multiplied by itself.": lambda v: (
        v.g * v.scale * v.t
    ).sum(0),
}
DBIAS = {
    "dbias: one row a token; sum over the rows.": lambda v: v.dy,
    "dbias: sum over the rows, do not average.": lambda v: v.dy.mean(0),
    "dbias: the bias is added after the gain; dy, not w dy.": lambda v: v.g.sum(0),
}


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
        "one scale for all channels: each channel has a gain of its own.": (
            lambda *case: _fair(*case, line=_one_scale)
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
        "h.var(0) divides by N - 1, and your covariance by N: divide both by the same number.": (
            lambda *case: _fair(*case, line=_unequal_counts)
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
        "the knee is fitted with one scale; fit the line of each channel anew for each knee.": (
            lambda *case: _fair(*case, knee_line=_one_scale)
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
        "you divide by the size of the copy: the outputs y come second in relative_error.": (
            lambda *case: _fair(*case, error=lambda copy, y: measures.relative_error(y, copy))
        ),
        "the new rows go into the curve without the knee: curve(new_x / knee).": (
            lambda *case: _fair(*case, bend_new=lambda x, knee: x)
        ),
        "a layer calculates curve(x / knee), and you multiply by the knee.": (
            lambda *case: _fair(*case, bend=torch.mul)
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


def fair_error(curve, x: Tensor, y: Tensor, new_x: Tensor, new_y: Tensor) -> float:
    """The error of a fair comparison; it stands in for the reader's until that is right."""
    return _fair(curve, x, y, new_x, new_y, line=_line_or_constant)


def _fair(
    curve,
    x,
    y,
    new_x,
    new_y,
    *,
    knee=None,
    line=None,
    knee_line=None,
    refit=None,
    bend=torch.div,
    bend_new=None,
    error=measures.relative_error,
) -> float:
    """The right answer, and what the keywords change in it.

    Args:
        line: fits gain and bias; knee_line does so while the knee is sought.
        refit: other rows and outputs for gain and bias.
        bend: takes rows and a knee to what the curve gets; bend_new does so for the new rows.
        error: what the loss and the score are.
    """
    line = line or _line
    sought = knee_line or line
    bend_new = bend_new or bend

    def loss(knee):
        h = curve(bend(x, knee))
        w, b = sought(h, y)
        return float(error(w * h + b, y))

    knee = measures.best_knee(loss, x) if knee is None else knee
    rows, outputs = (x, y) if refit is None else refit
    w, b = line(curve(bend(rows, knee)), outputs)
    new_h = curve(bend_new(new_x, knee))
    if line is _line_of_rows:
        w, b = line(new_h, new_y)
    return float(error(w * new_h + b, new_y))


def _line(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean(0)
    w = (centred * y).sum(0) / centred.square().sum(0)
    return w, y.mean(0) - w * h.mean(0)


def _line_or_constant(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same; gain 0 in a channel that never changes."""
    centred = h - h.mean(0)
    w = (centred * y).sum(0) / centred.square().sum(0).clamp(min=1e-12)
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


def _unequal_counts(h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    centred = h - h.mean(0)
    w = (centred * y).mean(0) / h.var(0)
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


def _one_scale(h: Tensor, y: Tensor) -> tuple[Tensor, float]:
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


@exercise("Exercise 2 (turn the answer round)", "at least 0.3 %", "at least 1.2 times")
def rows_for_dyt(student) -> None:
    """student(rows, width, seed) -> rows of which DyT is the nearer copy, compared fairly."""
    for width, seed in ((16, 0), (16, 1), (8, 2)):
        old, new = two_samples(student, width, seed)
        outputs = [functional.rms_norm(x, (width,), eps=0.0) for x in (old, new)]
        of_dyt, of_dyisru, of_line = (
            _fair(curve, old, outputs[0], new, outputs[1], knee=knee, line=_line_or_constant)
            for curve, knee in ((torch.tanh, None), (functional.isru, None), (_identity, 1.0))
        )
        if of_line < NO_ERROR:
            raise Slip(
                f"a straight line copies RMSNorm exactly on these rows (width {width}): they need "
                "no curve."
            )
        if of_line < NEEDS_A_CURVE * of_dyt:
            raise Slip(
                f"the straight line has {of_line / of_dyt:.2f} times DyT's error (width {width}): "
                "these rows hardly need a curve, so they cannot tell two curves apart."
            )
        lead = 100 * (1 - of_dyt / of_dyisru)
        if lead < 0:
            raise Slip(
                f"DyISRU is nearer, by {-lead:.1f} % (width {width}). Where does RMSNorm return "
                "nearly the same number, however large the input is?"
            )
        if lead < LEAD:
            raise Slip(f"DyT is nearer by {lead:.2f} % only (width {width}); {LEAD} % are asked.")


def two_samples(student: Callable, width: int, seed: int) -> list[Tensor]:
    """Rows of one seed, and rows of another; a Slip if they are no draws of this shape."""
    rows = 600
    found = []
    for a_seed in (seed, seed, seed + 90):
        x = call(student, rows=rows, width=width, seed=a_seed)
        if not isinstance(x, Tensor) or x.shape != (rows, width):
            shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise Slip(f"expected a tensor ({rows}, {width}), rows and width, got {shape}.")
        x = x.detach().double()
        if not x.isfinite().all() or (x == 0).all(-1).any():
            raise Slip("a row has numbers that are not finite, or is 0: RMSNorm has no output.")
        found.append(x)
    old, again, new = found
    if not torch.equal(old, again):
        raise Slip("two calls with one seed give different rows: draw(..., seed=seed).")
    if torch.equal(old, new):
        raise Slip("the rows are the same for every seed: the score needs rows of its own.")
    return [old, new]


def _identity(z: Tensor) -> Tensor:
    return z


@exercise("Exercise 3 (the backward pass of DyT)", "of shape (1,)", "alpha (1,)")
def dyt_backward(student: Callable) -> None:
    """student(dy, x, alpha, weight, scale) -> (dx, dalpha, dweight, dbias).

    [EQ-DYT-GRAD]
    """
    cases = [_backward_case(3, 5, 0.7, 2.0), _backward_case(6, 4, 1.3, 0.6)]
    slips: dict[str, Callable] = {}
    for part, table in enumerate((DX, DALPHA, DWEIGHT, DBIAS)):
        slips |= {text: _backward_slip(part, wrong) for text, wrong in table.items()}
    names = ("dx", "dalpha", "dweight", "dbias")
    calls(forbid(student, "autograd", "normlib"), _backward, *cases, slips=slips, what=names)


def _backward_case(rows: int, width: int, alpha: float, scale: float) -> dict:
    return {
        "dy": draw(rows, width),
        "x": draw(rows, width, seed=1),
        "alpha": torch.tensor([alpha], dtype=torch.float64),
        "weight": torch.linspace(0.5, 2.5, width, dtype=torch.float64),
        "scale": scale,
    }


def _backward(dy, x, alpha, weight, scale) -> tuple[Tensor, ...]:
    return gradients.dyt_backward(dy, x, alpha, weight, torch.zeros_like(weight), scale=scale)


def _backward_slip(part: int, wrong: Callable) -> Callable:
    """The right answer, but for one part."""

    def answer(dy, x, alpha, weight, scale) -> list[Tensor]:
        t = torch.tanh(alpha * x / scale)
        v = SimpleNamespace(
            dy=dy, x=x, alpha=alpha, scale=scale, t=t, g=weight * dy, slope=1 - t**2
        )
        right = list(_backward(dy, x, alpha, weight, scale))
        right[part] = wrong(v)
        return right

    return answer


def total(t: Tensor) -> Tensor:
    return t.sum().reshape(1)
