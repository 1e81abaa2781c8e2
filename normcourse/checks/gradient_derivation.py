"""Checks of lesson 04: sizes, the published RMSNorm gradient, one backward for LN and BN, softmax.

Each table below maps what a check says to the wrong formula that earns it; v holds the values of
one call.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import call
from normcourse.checks.verdict import exercise, expect, parts
from normlib import gradients

EPS = 0.1  # large: an eps in the wrong place must show
# exercise 1: 1 / RMS and (mean / RMS)^2 of its row
PER_RMS = 10.0
TILT = (0.1 / 0.18) ** 2
SIZES = {  # name: (value, {message: wrong value})
    "length": (
        3.0,
        {
            "the mean of the squares is 1, so their sum is D: the sphere has radius sqrt(D).": 1.0,
            "that is the sum of the squares; the length is its root.": 9.0,
        },
    ),
    "variance": (
        1 - TILT,
        {
            "the mean of xhat^2 is 1, not 1 / RMS^2 (a line that was published).": (
                PER_RMS**2 - TILT
            ),
            "RMSNorm sets the mean SQUARE to 1; subtract what the mean takes of it.": 1.0,
            "that is the part the mean takes; the rest is asked for.": TILT,
            "that is the standard deviation; its square is asked for.": math.sqrt(1 - TILT),
        },
    ),
    "spectral norm": (
        PER_RMS,
        {
            "1 / |x| belongs to x / |x|; RMSNorm is sqrt(D) times that.": PER_RMS / 3,
            "divide by the RMS once, not by its square.": PER_RMS**2,
            "an input of RMS below 1 is STRETCHED; no norm caps this at 1.": 1.0,
            "it is 1 / RMS, not RMS.": 1 / PER_RMS,
        },
    ),
    "steepest slope": (
        1e3,
        {
            "eps stands under a root, so it is 1 / sqrt(eps).": 1e6,
            "infinite is the answer without eps, which is there to bound it.": math.inf,
            "that is the slope at this x; the steepest place is x = 0.": PER_RMS,
        },
    ),
}
RMS_DX = {
    "dx: the gain still stands before the whole bracket, which only gain 1 hides: w_i belongs to "
    "the first term, "
    "w_j under the sum.": lambda v: v.w * (v.dy - v.xhat * mean(v.g * v.xhat)) / v.r,
    "dx: this is J times dy; a backward needs J transposed, "
    "and with a gain J is not symmetric.": lambda v: (
        v.w * (v.dy - v.xhat * mean(v.dy * v.xhat)) / v.r
    ),
    "dx: the gain is missing under the sum; each dy_j arrives with its own w_j.": lambda v: (
        (v.g - v.xhat * mean(v.dy * v.xhat)) / v.r
    ),
    "dx: the gain is missing; what reaches xhat is w dy.": lambda v: (
        (v.dy - v.xhat * mean(v.dy * v.xhat)) / v.r
    ),
    "dx: 1/D is missing: a mean over the row, not a sum.": lambda v: (
        (v.g - v.xhat * (v.g * v.xhat).sum(-1, keepdim=True)) / v.r
    ),
    "dx: the sign of the second path: to divide by r makes it negative.": lambda v: (
        (v.g + v.xhat * mean(v.g * v.xhat)) / v.r
    ),
    "dx: r depends on x too; without the second path you hold it constant.": lambda v: v.g / v.r,
    "dx: that is LayerNorm's; RMSNorm subtracts no mean of the gradient.": lambda v: (
        (v.g - mean(v.g) - v.xhat * mean(v.g * v.xhat)) / v.r
    ),
    "dx: one mean for the whole batch; each row has its own, over its last axis.": lambda v: (
        (v.g - v.xhat * (v.g * v.xhat).mean()) / v.r
    ),
    "dx: the second term holds xhat twice, x / r, not x.": lambda v: (
        (v.g - v.x * mean(v.g * v.x)) / v.r
    ),
    "dx: divide by r once, not by its square.": lambda v: (
        (v.g - v.xhat * mean(v.g * v.xhat)) / v.r.square()
    ),
    "dx: eps is missing; r is the root of mean square PLUS eps.": lambda v: projected(
        v, v.rms, v.rms
    ),
    "dx: eps belongs inside the root, added to the mean square.": lambda v: projected(
        v, v.rms + EPS, v.rms + EPS
    ),
    "dx: eps is in r but not in xhat; both divide by the same r.": lambda v: projected(
        v, v.rms, v.r
    ),
}
RMS_DWEIGHT = {
    "dweight: one row a token; the gain is shared by all rows, so sum over them.": lambda v: (
        v.dy * v.xhat
    ),
    "dweight: sum over the rows, do not average.": lambda v: (v.dy * v.xhat).mean(0),
    "dweight: the factor is xhat, what the gain multiplies, not x.": lambda v: (v.dy * v.x).sum(0),
    "dweight: dy, not w dy; the gain is not multiplied by itself.": lambda v: (v.g * v.xhat).sum(0),
}
NORM_DX = {
    "the gain is missing; what reaches xhat is w dy.": lambda v: (
        (v.dy - v.mean(v.dy) - v.xhat * v.mean(v.dy * v.xhat)) / v.s
    ),
    "the statistics are held constant; mean and variance depend on x too.": lambda v: v.g / v.s,
    "the mean of g is missing; without it the rank-one part is RMSNorm's.": lambda v: (
        (v.g - v.xhat * v.mean(v.g * v.xhat)) / v.s
    ),
    "the path through the variance is missing: subtract xhat mean(g xhat).": lambda v: (
        (v.g - v.mean(v.g)) / v.s
    ),
    "divide by the standard deviation s, not by the variance.": lambda v: (
        (v.g - v.mean(v.g) - v.xhat * v.mean(v.g * v.xhat)) / v.s.square()
    ),
    "the sign of the path through the variance.": lambda v: (
        (v.g - v.mean(v.g) + v.xhat * v.mean(v.g * v.xhat)) / v.s
    ),
    "the variance is the biased one: divide by the count, not by one less.": lambda v: (
        centred_and_projected(v, v.centred, v.mean, (v.variance * 4 / 3 + EPS).sqrt())
    ),
    "eps is missing; s is the root of variance PLUS eps.": lambda v: centred_and_projected(
        v, v.centred, v.mean, v.variance.sqrt()
    ),
    "keepdim is missing: a row's mean is subtracted from a column, "
    "and on a square input nothing raises.": (
        lambda v: centred_and_projected(
            v, v.x - v.flat(v.x), v.flat, (v.flat_variance + EPS).sqrt()
        )
    ),
    "keepdim is missing in the means of the gradient; "
    "on a square input nothing raises.": lambda v: (
        (v.g - v.flat(v.g) - v.xhat * v.flat(v.g * v.xhat)) / v.s
    ),
}
SOFTMAX_DX = {
    "the - p p^T is missing: every logit moves every probability.": lambda v: v.p * v.dp,
    "p (1 - p) is only the diagonal; the other probabilities move too.": lambda v: (
        v.p * (1 - v.p) * v.dp
    ),
    "the sum belongs inside the bracket, times p_i.": lambda v: v.p * v.dp - v.total,
    "the sum is weighted: of p_j dp_j, not of dp_j.": lambda v: (
        v.p * (v.dp - v.dp.sum(-1, keepdim=True))
    ),
    "the weights p_j sum to 1 already; no further 1/D.": lambda v: v.p * (v.dp - v.total / 4),
    "the sign of the rank-one part.": lambda v: v.p * (v.dp + v.total),
    "the sign of the whole: it is p (dp - sum), not p (sum - dp).": lambda v: (
        v.p * (v.total - v.dp)
    ),
    "the sum runs along the row (axis -1), not over the rows.": lambda v: (
        v.p * (v.dp - (v.p * v.dp).sum(0))
    ),
    "keepdim is missing: the sums go to the wrong rows, "
    "and on a square input nothing raises.": lambda v: v.p * (v.dp - v.total.squeeze(-1)),
    "the sum runs over the whole batch; each row has its own.": lambda v: (
        v.p * (v.dp - v.total.sum())
    ),
    "p - dp is the gradient of a cross-entropy that contains the softmax.": lambda v: v.p - v.dp,
    "these are probabilities already; no second softmax.": lambda v: gradients.softmax_backward(
        v.dp, v.p
    )[0],
}


@exercise("Exercise 1 (four sizes)")
def sizes(student: tuple) -> None:
    """student: (length, variance, spectral norm,
    steepest slope) for the row of the lesson, by hand.
    """
    for got, (name, (want, slips)) in zip(parts(student, *SIZES), SIZES.items(), strict=True):
        expect(
            got, want, {f"{name}: {text}": v for text, v in slips.items()}, f"the {name}", rtol=5e-3
        )


@exercise("Exercise 2 (repair the published gradient)")
def rms_backward(student: Callable) -> None:
    """student(dy, x, weight, eps) -> (dx, dweight); x and dy (3, 5), weight (5,)."""
    dy = draw(3, 5)
    x = draw(3, 5, seed=1)
    w = _gain(5)
    dx, dweight = parts(call(student, dy=dy, x=x, weight=w, eps=EPS), "dx", "dweight")
    rms = mean(x.square()).sqrt()
    g = w * dy
    r = (rms.square() + EPS).sqrt()
    v = SimpleNamespace(dy=dy, x=x, w=w, g=g, rms=rms, r=r, xhat=x / r)
    want_dx, want_dweight = gradients.rms_norm_backward(dy, x, (5,), w, EPS)
    expect(dx, want_dx, _values(RMS_DX, v), "dx")
    expect(dweight, want_dweight, _values(RMS_DWEIGHT, v), "dweight")


@exercise("Exercise 3 (one backward for LayerNorm and BatchNorm)")
def norm_backward(student: Callable) -> None:
    """student(dy, x, weight, eps, dim) -> dx;
    x and dy (4, 4), weight (4,); dim -1 as in LN, 0 as in BN.
    """
    # square: a lost keepdim raises nothing
    dy = draw(4, 4, seed=2)
    x = draw(4, 4, seed=3) + 1
    w = _gain(4)
    layer = gradients.layer_norm_backward(dy, x, (4,), w, None, EPS)[0]
    batch = gradients.batch_norm_backward(dy, x, w, None, EPS)[0]
    bracket = gradients.layer_norm_backward(dy, x, (4,), None, None, EPS)[0]
    other_axis = "the statistics run over the other axis: use dim."
    outside = "the gain changes along the row: "
    cases = {
        -1: (
            "dim=-1 (LN)",
            layer,
            {other_axis: batch, outside + "it cannot leave the bracket.": w * bracket},
        ),
        0: ("dim=0 (BN)", batch, {other_axis: layer}),
    }
    for dim, (name, want, more) in cases.items():
        slips = _values(NORM_DX, _statistics(dy, x, w, dim)) | more
        if dim == 0:  # without keepdim the means of columns are subtracted from the columns: right
            slips = {text: wrong for text, wrong in slips.items() if "keepdim" not in text}
        dx = call(student, dy=dy, x=x, weight=w, eps=EPS, dim=dim)
        expect(
            dx, want, {f"{name}: {text}": wrong for text, wrong in slips.items()}, f"dx, {name},"
        )


@exercise("Exercise 4 (softmax backward)")
def softmax_backward(student: Callable) -> None:
    """student(dp, p) -> dx; dp and p (4, 4), the rows of p sum to 1."""
    dp = draw(4, 4, seed=4)
    logits = draw(4, 4, seed=5)
    p = logits.softmax(-1)
    v = SimpleNamespace(dp=dp, p=p, total=(p * dp).sum(-1, keepdim=True))
    expect(
        call(student, dp=dp, p=p),
        gradients.softmax_backward(dp, logits)[0],
        _values(SOFTMAX_DX, v),
        "dx",
    )


def mean(t: Tensor) -> Tensor:
    return t.mean(-1, keepdim=True)


def projected(v: SimpleNamespace, divisor: Tensor, outer_divisor: Tensor) -> Tensor:
    xhat = v.x / divisor
    return (v.g - xhat * mean(v.g * xhat)) / outer_divisor


def centred_and_projected(
    v: SimpleNamespace, centred: Tensor, average: Callable, divisor: Tensor
) -> Tensor:
    xhat = centred / divisor
    return (v.g - average(v.g) - xhat * average(v.g * xhat)) / divisor


def _statistics(dy: Tensor, x: Tensor, w: Tensor, dim: int) -> SimpleNamespace:
    def along(t: Tensor) -> Tensor:
        return t.mean(dim, keepdim=True)

    def flat(t: Tensor) -> Tensor:  # without keepdim
        return t.mean(dim)

    centred = x - along(x)
    variance = along(centred.square())
    s = (variance + EPS).sqrt()
    values = {
        "x": x,
        "dy": dy,
        "g": w * dy,
        "mean": along,
        "flat": flat,
        "centred": centred,
        "variance": variance,
    }
    return SimpleNamespace(s=s, xhat=centred / s, flat_variance=x.var(dim, correction=0), **values)


def _values(table: dict[str, Callable], v: SimpleNamespace) -> dict[str, Tensor]:
    return {message: wrong(v) for message, wrong in table.items()}


def _gain(size: int) -> Tensor:
    return torch.linspace(0.5, 2.5, size, dtype=torch.float64)
