"""Checks of lesson 05: bounds of tanh layers,
DyT's backward, RMSNorm to DyT, attention with a softcap.

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
from normlib import functional, gradients

BEND = 4 / (3 * math.sqrt(3))
CAP = 3.0  # not sqrt(d) = 2: a scale in the wrong place must show
BOUNDS = {  # name: (value, {message: wrong value}); sqrt(D) tanh(alpha x), D = 64, alpha = 2
    "Lipschitz constant": (
        16.0,
        {
            "that is EQ-DYT's form; here the factor sqrt(D) is not undone inside tanh.": 2.0,
            "the derivative of tanh(alpha x) brings down an alpha.": 8.0,
            "one factor sqrt(D) stands outside tanh, none inside.": 128.0,
            "the slope is steepest at 0, where it is not 0.": 0.0,
        },
    ),
    "smoothness": (
        BEND * 32,
        {
            "that is the Lipschitz constant, as an article has it; "
            "ask how fast the SLOPE changes.": 16.0,
            "the factor 4 / (3 sqrt(3)) is missing: "
            "2 t (1 - t^2) is largest at t = 1/sqrt(3).": 32.0,
            "a factor 2 is missing, that of 2 t (1 - t^2) or one alpha of alpha^2.": BEND * 16,
            "that is EQ-DYT's form at scale sqrt(D) with this alpha; "
            "first turn alpha into alpha sqrt(D).": (BEND / 2),
            "sqrt(D) is missing.": BEND * 4,
            "sqrt(D) stands there once, not squared.": BEND * 256,
        },
    ),
    "spectral norm": (
        64.0,
        {
            "an article's alpha |w|: its own sqrt(D) is missing, "
            "and |w| where max|w_i| belongs.": 10.0,
            "the Jacobian is diagonal: its longest entry counts, so max|w_i|, not |w|.": 80.0,
            "sqrt(D) is missing.": 8.0,
            "alpha is missing.": 32.0,
            "the LARGEST gain counts, not their sum.": 112.0,
            "the gain is missing.": 16.0,
        },
    ),
    "output length": (
        13.0,
        {
            "an article's sqrt(D) |w|: the official form has no sqrt(D), "
            "and the bias is missing.": 40.0,
            "the bias moves the output too.": 5.0,
            "|w| + |b| is a bound, but never near: "
            "gain and bias act on different coordinates.": 17.0,
            "the official form has no sqrt(D).": math.hypot(40, 12),
            "tanh reaches at most 1, whatever alpha is.": math.hypot(10, 12),
            "that is the bias alone.": 12.0,
        },
    ),
}
DX = {
    "dx: the factor alpha is missing; it comes down from inside tanh.": lambda v: v.g * v.slope,
    "dx: the gain is missing.": lambda v: v.dy * v.alpha * v.slope,
    "dx: tanh' is 1 - tanh^2, not 1 - tanh.": lambda v: v.g * v.alpha * (1 - v.t),
    "dx: tanh' is 1 - tanh^2, not tanh.": lambda v: v.g * v.alpha * v.t,
    "dx: tanh' takes alpha x / scale, and you gave it x.": lambda v: (
        v.g * v.alpha * (1 - torch.tanh(v.x) ** 2)
    ),
    "dx: scale is missing inside tanh.": lambda v: (
        v.g * v.alpha * (1 - torch.tanh(v.alpha * v.x) ** 2)
    ),
    "dx: the scale outside and the 1/scale inside cancel: the factor is alpha.": lambda v: (
        v.g * v.alpha * v.slope * 2
    ),
    "dx: the scale outside and the 1/scale inside cancel; you kept the one inside.": lambda v: (
        v.g * v.alpha * v.slope / 2
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
    "dalpha: the inner derivative in alpha is x.": lambda v: total(v.g * v.slope),
    "dalpha: the gain is missing.": lambda v: total(v.dy * v.x * v.slope),
    "dalpha: scale outside and 1/scale inside cancel.": lambda v: total(v.g * v.x * v.slope) * 2,
    "dalpha: scale outside and 1/scale inside cancel; you kept the one inside.": lambda v: (
        total(v.g * v.x * v.slope) / 2
    ),
}
DWEIGHT = {
    "dweight: one row a token; sum over the rows.": lambda v: v.dy * 2 * v.t,
    "dweight: the gain multiplies scale tanh, so scale stays.": lambda v: (v.dy * v.t).sum(0),
    "dweight: sum over the rows, do not average.": lambda v: (v.dy * 2 * v.t).mean(0),
    "dweight: the factor is what the gain multiplies, scale tanh, not x.": lambda v: (
        v.dy * v.x
    ).sum(0),
    "dweight: dy, not w dy; the gain is not multiplied by itself.": lambda v: (v.g * 2 * v.t).sum(
        0
    ),
}
DBIAS = {
    "dbias: one row a token; sum over the rows.": lambda v: v.dy,
    "dbias: sum over the rows, do not average.": lambda v: v.dy.mean(0),
    "dbias: the bias is added after the gain; dy, not w dy.": lambda v: v.g.sum(0),
}
OFFICIAL_ALPHA = {
    "alpha: 1/rho belongs to scale sqrt(D); folded, sqrt(D) divides it as well.": lambda v: (
        1 / v.rho
    ),
    "alpha: sqrt(D) divides x inside tanh, so it divides alpha.": lambda v: v.root / v.rho,
    "alpha: rho divides x; a larger rho means a smaller alpha.": lambda v: v.rho / v.root,
    "alpha: the root of D, not D.": lambda v: 1 / (v.rho * v.root**2),
    "alpha: 0.5 is the official start, not the derived curve.": lambda v: 0.5,
    "alpha: rho is the root mean square already; no further root.": lambda v: (
        1 / (v.rho**0.5 * v.root)
    ),
    "alpha: rho is a root mean square, and enters once, not squared.": lambda v: (
        1 / (v.rho**2 * v.root)
    ),
}
OFFICIAL_WEIGHT = {
    "weight: the level is |w| sqrt(D); with this gain it is |w|, and the slope at 0 is sqrt(D) "
    "times too small.": lambda v: v.w,
    "weight: the trained gain is left behind; it multiplies sqrt(D).": lambda v: torch.full_like(
        v.w, v.root
    ),
    "weight: the trained gain is left behind, and sqrt(D) is missing.": lambda v: torch.ones_like(
        v.w
    ),
    "weight: multiply by sqrt(D); alpha is what is divided.": lambda v: v.w / v.root,
    "weight: the root of D, not D.": lambda v: v.w * v.root**2,
    "weight: rho is in alpha already; the level is |w| sqrt(D) for every rho.": lambda v: (
        v.w * v.root / v.rho
    ),
}
ATTENTION = {
    "masked before the cap: softcap turns -inf into -cap, "
    "and the future leaks in (onnx #7865).": lambda v: v.cap_of(masked(v.logits)).softmax(-1),
    "the cap is missing; tanh lies between -1 and 1, so multiply by cap.": lambda v: attend(
        (v.logits / v.cap).tanh()
    ),
    "divide by cap inside tanh, or the slope at 0 is not 1.": lambda v: attend(
        v.cap * v.logits.tanh()
    ),
    "logit times tanh caps nothing; the factor is cap (unsloth-zoo #593).": lambda v: attend(
        v.logits * (v.logits / v.cap).tanh()
    ),
    "that is a hard clip; softcap is smooth.": lambda v: attend(v.logits.clamp(-v.cap, v.cap)),
    "there is no cap in it.": lambda v: attend(v.logits),
    "divide the logits by sqrt(d).": lambda v: attend(v.cap_of(v.logits * v.root)),
    "divide by sqrt(d), not by d.": lambda v: attend(v.cap_of(v.logits / v.root)),
    "scale first, then cap; in your order the cap is cap / sqrt(d).": lambda v: attend(
        v.cap_of(v.logits * v.root) / v.root
    ),
    "no causal mask: row i may look at columns 0 to i.": lambda v: v.cap_of(v.logits).softmax(-1),
    "a token may see itself; mask only what comes after it.": lambda v: masked(
        v.cap_of(v.logits), 0
    ).softmax(-1),
    "masked after the softmax: the rows no longer sum to 1.": lambda v: (
        v.cap_of(v.logits).softmax(-1).tril()
    ),
    "masked with 0 before the softmax: exp(0) is 1; fill with -inf.": lambda v: (
        v.cap_of(v.logits).tril().softmax(-1)
    ),
    "the mask is upside down: row i may look at columns 0 to i.": lambda v: (
        v.cap_of(v.logits).masked_fill(~v.past.T, -math.inf).softmax(-1)
    ),
    "rows are queries, columns keys: q @ k.T, not k @ q.T.": lambda v: attend(v.cap_of(v.logits.T)),
    "softmax runs over the keys, the last axis.": lambda v: masked(v.cap_of(v.logits)).softmax(0),
    "the cap belongs on the logits, before the softmax.": lambda v: v.cap_of(attend(v.logits)),
    "these are logits; the softmax is missing.": lambda v: masked(v.cap_of(v.logits)),
}


@exercise("Exercise 1 (four bounds)")
def bounds(student: tuple) -> None:
    """student: (Lipschitz constant, smoothness, spectral norm, output length), by hand."""
    for got, (name, (want, slips)) in zip(parts(student, *BOUNDS), BOUNDS.items(), strict=True):
        expect(
            got, want, {f"{name}: {text}": v for text, v in slips.items()}, f"the {name}", rtol=5e-3
        )


@exercise("Exercise 2 (the backward of DyT)")
def dyt_backward(student: Callable) -> None:
    """student(dy, x, alpha, weight, scale) -> (dx, dalpha, dweight, dbias); dy and x (3, 5)."""
    dy = draw(3, 5)
    x = draw(3, 5, seed=1)
    w = torch.linspace(0.5, 2.5, 5, dtype=torch.float64)
    alpha = torch.tensor([0.7], dtype=torch.float64)
    got = call(student, dy=dy, x=x, alpha=alpha, weight=w, scale=2.0)
    names = ("dx", "dalpha", "dweight", "dbias")
    want = gradients.dyt_backward(dy, x, alpha, w, torch.zeros_like(w), scale=2.0)
    t = torch.tanh(alpha * x / 2)
    v = SimpleNamespace(dy=dy, x=x, alpha=alpha, g=w * dy, t=t, slope=1 - t**2)
    tables = (DX, DALPHA, DWEIGHT, DBIAS)
    for name, part, truth, table in zip(names, parts(got, *names), want, tables, strict=True):
        expect(part, truth, _values(table, v), name)


@exercise("Exercise 3 (RMSNorm to the official DyT)")
def official(student: Callable) -> None:
    """student(weight, rho) -> (alpha (1,), weight (D,)); D = 16."""
    w = draw(16, seed=2)
    rho = 3.0
    alpha, weight = parts(call(student, weight=w, rho=rho), "alpha", "weight")
    v = SimpleNamespace(w=w, rho=rho, root=4.0)
    one = torch.ones(1, dtype=torch.float64)
    if isinstance(alpha, float):
        alpha = one * alpha
    alphas = {message: one * wrong for message, wrong in _values(OFFICIAL_ALPHA, v).items()}
    expect(alpha, one / (rho * v.root), alphas, "alpha")
    expect(weight, w * v.root, _values(OFFICIAL_WEIGHT, v), "the weight")


@exercise("Exercise 4 (causal attention with a cap)")
def capped_attention(student: Callable) -> None:
    """student(q, k, cap) -> probabilities (6, 6); q and k (6, 4)."""
    q = 3 * draw(6, 4, seed=3)
    k = draw(6, 4, seed=4)
    logits = q @ k.T / 2
    past = torch.ones(6, 6, dtype=torch.bool).tril()
    v = SimpleNamespace(logits=logits, cap=CAP, root=2.0, past=past, cap_of=_capped)
    want = attend(_capped(logits))
    expect(call(student, q=q, k=k, cap=CAP), want, _values(ATTENTION, v), "the probabilities")


def total(t: Tensor) -> Tensor:
    return t.sum().reshape(1)


def masked(logits: Tensor, diagonal: int = 1) -> Tensor:
    """-inf from the given diagonal on."""
    future = torch.ones(logits.shape, dtype=torch.bool).triu(diagonal)
    return logits.masked_fill(future, -math.inf)


def attend(logits: Tensor) -> Tensor:
    return masked(logits).softmax(-1)


def _capped(logits: Tensor) -> Tensor:
    return functional.softcap(logits, CAP)


def _values(table: dict[str, Callable], v: SimpleNamespace) -> dict[str, Tensor]:
    return {message: wrong(v) for message, wrong in table.items()}
