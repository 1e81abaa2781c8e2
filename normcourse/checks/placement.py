"""Checks of lesson 02a: four places of a norm, a stream, what is left of the input, warm-up."""

import math

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import call, calls
from normcourse.checks.verdict import exercise, expect
from normlib import functional

# Exercise 1


def _branch(x: Tensor) -> Tensor:
    return torch.sin(2 * x + 0.3).cumsum(-1)


def _norm(x: Tensor) -> Tensor:
    return 1.5 * functional.layer_norm(x, x.shape[-1:], eps=0.1)


PLACES = {
    "pre": lambda x, F, norm: x + F(norm(x)),
    "post": lambda x, F, norm: norm(x + F(x)),
    "output": lambda x, F, norm: x + norm(F(x)),
    "sandwich": lambda x, F, norm: x + norm(F(norm(x))),
}
PLACE_SLIPS = {
    "pre": {
        "pre: that is Post-LN. The norm stands on the branch's input, not on the sum.": (
            PLACES["post"]
        ),
        "pre: the shortcut goes through the norm. Add x itself, not norm(x).": (
            lambda x, F, norm: norm(x) + F(norm(x))
        ),
        "pre: the norm stands behind the branch; here it stands before it.": PLACES["output"],
        "pre: the shortcut is missing.": lambda x, F, norm: F(norm(x)),
        "pre: there is no norm.": lambda x, F, norm: x + F(x),
    },
    "post": {
        "post: that is Pre-LN. The norm stands on the sum.": PLACES["pre"],
        "post: the norm stands on the branch alone; here it stands on the sum.": PLACES["output"],
        "post: the branch reads norm(x); here it reads x.": lambda x, F, norm: norm(x + F(norm(x))),
        "post: the shortcut is missing.": lambda x, F, norm: norm(F(x)),
        "post: there is no norm.": lambda x, F, norm: x + F(x),
        "post: the norm stands on x alone; here it stands on the whole sum.": (
            lambda x, F, norm: norm(x) + F(x)
        ),
    },
    "output": {
        "output: the norm stands on the sum; here only the branch is normalized.": PLACES["post"],
        "output: that is Pre-LN. The norm stands behind the branch.": PLACES["pre"],
        "output: that is the sandwich; here the branch reads x itself.": PLACES["sandwich"],
        "output: there is no norm.": lambda x, F, norm: x + F(x),
        "output: the shortcut is missing.": lambda x, F, norm: norm(F(x)),
        "output: the norm stands on the branch alone, and you normalize x + F(x).": (
            lambda x, F, norm: x + norm(x + F(x))
        ),
    },
    "sandwich": {
        "sandwich: the norm before the branch is missing.": PLACES["output"],
        "sandwich: the norm behind the branch is missing.": PLACES["pre"],
        "sandwich: the second norm stands on the sum; it belongs to the branch alone.": (
            lambda x, F, norm: norm(x + F(norm(x)))
        ),
        "sandwich: that is a third norm, on the sum; only the branch has norms.": (
            lambda x, F, norm: norm(x + norm(F(norm(x))))
        ),
        "sandwich: the shortcut is missing.": lambda x, F, norm: norm(F(norm(x))),
        "sandwich: the shortcut goes through the norm. Add x itself, not norm(x).": (
            lambda x, F, norm: norm(x) + norm(F(norm(x)))
        ),
        "sandwich: both norms stand before the branch; one of them stands behind it.": (
            lambda x, F, norm: x + F(norm(norm(x)))
        ),
    },
}


@exercise("Exercise 1 (four places)", "all four")
def placements(student) -> None:
    """student(placement, x, F, norm) with a placement of PLACES."""
    for placement, reference in PLACES.items():

        def chosen(x, F, norm, placement=placement):
            return student(placement, x, F, norm)

        cases = [
            {"x": 1 + draw(*shape, seed=seed), "F": _branch, "norm": _norm}
            for seed, shape in enumerate([(3, 4), (2, 3, 5)])
        ]
        calls(
            chosen,
            reference,
            *cases,
            slips=PLACE_SLIPS[placement],
            what=f"the output of {placement!r}",
        )


# Exercise 2


SIZE_SLIPS = {  # of block k and the branches' mean square b
    "that is the mean square; the size is its root.": lambda k, b: 1 + k * b,
    "squares add up, sizes do not: add l times b to the square, then take the root.": (
        lambda k, b: 1 + k * math.sqrt(b)
    ),
    "that multiplies from block to block; here each block adds the same amount.": lambda k, b: (
        (1 + b) ** (k / 2)
    ),
    "the stream's own mean square of 1 at the start is missing.": lambda k, b: math.sqrt(k * b),
    "b is a mean square already: do not square it again.": lambda k, b: math.sqrt(1 + k * b**2),
    "count again: behind block l there are l branches in the sum, not l - 1.": (
        lambda k, b: math.sqrt(1 + (k - 1) * b)
    ),
    "count again: behind block l there are l branches in the sum, not l + 1.": (
        lambda k, b: math.sqrt(1 + (k + 1) * b)
    ),
    "that is one block; behind block l there are l of them.": lambda k, b: math.sqrt(1 + b),
    "l divides the branches here; that is LayerNorm scaling, further down.": lambda k, b: math.sqrt(
        1 + b / k
    ),
    "the size grows: that is its inverse.": lambda k, b: 1 / math.sqrt(1 + k * b),
    "the 1 stands under the root, too: it is the stream's own mean square.": lambda k, b: (
        1 + math.sqrt(k * b)
    ),
    "that multiplies mean squares; here each block adds one.": lambda k, b: (1 + b) ** k,
    "that is the first row's share in Post-LN; nothing divides this stream.": lambda k, b: (
        (1 + b) ** (-k / 2)
    ),
}


@exercise("Exercise 2 (the stream's size)", "starts at size 1")
def stream_size(student) -> None:
    """student(l, b) -> the size behind block l of a stream that starts at size 1."""
    calls(
        student,
        lambda k, b: math.sqrt(1 + k * b),
        {"k": 24, "b": 0.5},
        {"k": 7, "b": 3.0},
        slips=SIZE_SLIPS,
        what="the size",
    )


# Exercise 3


def factor_left(added: list[float]) -> float:
    """What the first row is multiplied by; it stands in for the reader's until that is right."""
    return math.prod(1 / math.sqrt(1 + b) for b in added)


LEFT_SLIPS = {  # of the list of the branches' mean squares
    "the stream's SIZE is divided: each norm divides by the root of 1 + b.": lambda added: (
        math.prod(1 / (1 + b) for b in added)
    ),
    "that is the first row's share in Pre-LN; here a norm divides in each block.": lambda added: (
        1 / math.sqrt(1 + sum(added))
    ),
    "squares add up, sizes do not: the root of 1 + b, not 1 + the root of b.": lambda added: (
        math.prod(1 / (1 + math.sqrt(b)) for b in added)
    ),
    "that is the last block's factor alone; each block has one.": lambda added: (
        1 / math.sqrt(1 + added[-1])
    ),
    "that is the first block's factor alone; each block has one.": lambda added: (
        1 / math.sqrt(1 + added[0])
    ),
    "the branches do not add equally much: take each b, not their mean.": lambda added: (
        (1 + sum(added) / len(added)) ** (-len(added) / 2)
    ),
    "that is its inverse: the norm divides.": lambda added: math.prod(
        math.sqrt(1 + b) for b in added
    ),
    "the factors are multiplied, not added.": lambda added: sum(
        1 / math.sqrt(1 + b) for b in added
    ),
    "the stream's own mean square of 1 is missing under the root.": lambda added: math.prod(
        1 / math.sqrt(b) for b in added
    ),
    "b is a mean square already: do not square it again.": lambda added: math.prod(
        1 / math.sqrt(1 + b**2) for b in added
    ),
    "the last block is missing: it has a norm, too.": lambda added: math.prod(
        1 / math.sqrt(1 + b) for b in added[:-1]
    ),
    "the first block is missing: it has a norm, too.": lambda added: math.prod(
        1 / math.sqrt(1 + b) for b in added[1:]
    ),
    "that is what the branches add, not what is left of the first row.": lambda added: (
        1 - math.prod(1 / math.sqrt(1 + b) for b in added)
    ),
}


@exercise("Exercise 3 (what is left of the input)", "starts with the mean square 1")
def what_is_left(student) -> None:
    """student(added) -> the first row's factor behind blocks that add these mean squares."""
    calls(
        student,
        factor_left,
        {"added": [0.5, 3.0, 0.2]},
        {"added": [1.5, 0.25, 2.0, 0.7, 8.0]},
        slips=LEFT_SLIPS,
        what="the factor",
    )


# Exercise 4


def _rate(step: int, warmup: int, peak: float) -> float:
    return peak * min(1.0, (step + 1) / (warmup + 1))


RATE_SLIPS = {  # of the step, the warm-up and the peak
    "step 0 has to move: its rate is not 0. Count the first step as 1.": lambda s, w, p: (
        p * min(1.0, s / w)
    ),
    "step number `warmup` is the first with the full rate; yours is one step early.": (
        lambda s, w, p: p * min(1.0, (s + 1) / w)
    ),
    "0.1 is the first share where warmup is 9; it is 1 / (warmup + 1).": lambda s, w, p: (
        p * min(1.0, 0.1 + 0.9 * s / w)
    ),
    "ten parts are right where warmup is 9; there are warmup + 1.": lambda s, w, p: (
        p * min(1.0, (s + 1) / 10)
    ),
    "it has to stop rising at the peak.": lambda s, w, p: p * (s + 1) / (w + 1),
    "behind the warm-up the rate stays at the peak; yours is 0 there.": lambda s, w, p: (
        p * (s + 1) / (w + 1) * (s <= w)
    ),
    "that starts at the peak and falls.": lambda s, w, p: p * max(0.0, 1 - (s + 1) / (w + 1)),
    "step 0 has to move: its rate is not 0. Step number `warmup` has the full rate.": (
        lambda s, w, p: p * min(1.0, s / (w + 1))
    ),
    "that is the peak from the first step on: no warm-up.": lambda s, w, p: p,
    "the peak is missing: that is its share.": lambda s, w, p: min(1.0, (s + 1) / (w + 1)),
    "a warm-up rises on a straight line; yours has a power.": (
        lambda s, w, p: p * min(1.0, ((s + 1) / (w + 1)) ** 0.5)
    ),
    "a warm-up rises on a straight line; yours has a square.": (
        lambda s, w, p: p * min(1.0, ((s + 1) / (w + 1)) ** 2)
    ),
    "during the warm-up the rate rises; yours stays at 0 until its end.": lambda s, w, p: (
        p * (s >= w)
    ),
    "that falls again behind the peak; stay there.": (
        lambda s, w, p: p * min((s + 1) / (w + 1), (w + 1) / (s + 1))
    ),
    "that falls again behind the peak, with a root; stay there.": (
        lambda s, w, p: p * min((s + 1) / (w + 1), ((w + 1) / (s + 1)) ** 0.5)
    ),
}


@exercise(
    "Exercise 4 (warm-up)",
    "counts from 0",
    "a rate above 0",
    "With warmup = 9 the first ten steps have the shares 0.1, 0.2, … 1 of the peak",
)
def warmup_rate(student) -> None:
    """student(step, warmup, peak) -> the learning rate of that step; the first step is 0."""
    cases = [
        {"step": step, "warmup": warmup, "peak": peak}
        for step, warmup, peak in (
            (0, 9, 0.5),
            (3, 9, 0.5),
            (3, 4, 2.0),
            (4, 4, 0.5),
            (6, 19, 1.5),
            (40, 9, 3.0),
        )
    ]
    calls(student, _rate, *cases, slips=RATE_SLIPS, what="the rate")
    without = call(student, step=5, warmup=0, peak=0.5)
    expect(without, 0.5, what="the rate without a warm-up (warmup = 0)")
