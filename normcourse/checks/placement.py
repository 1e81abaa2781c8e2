"""Checks of lesson 02a: four places of a norm, the scale of a stream, what is left of the input."""

import math

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import calls, same_gradients
from normcourse.checks.verdict import exercise
from normlib import functional

# Exercise 1


def _branch(x: Tensor) -> Tensor:
    return torch.sin(2 * x + 0.3).cumsum(-1)


def _norm(x: Tensor) -> Tensor:
    return 1.5 * functional.layer_norm(x, x.shape[-1:], eps=0.1)


def _own_norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


PLACES = {
    "pre": lambda x, F, norm: x + F(norm(x)),
    "post": lambda x, F, norm: norm(x + F(x)),
    "output": lambda x, F, norm: x + norm(F(x)),
    "sandwich": lambda x, F, norm: x + norm(F(norm(x))),
}
DETACHED = {
    "pre": lambda x, F, norm: x.detach() + F(norm(x)),
    "post": lambda x, F, norm: norm(x.detach() + F(x)),
    "output": lambda x, F, norm: x.detach() + norm(F(x)),
    "sandwich": lambda x, F, norm: x.detach() + norm(F(norm(x))),
}
PLACE_SLIPS = {
    "pre": {
        "pre: that is Post-LN. The norm belongs to the branch's input, not to the sum.": (
            PLACES["post"]
        ),
        "pre: the residual connection passes through the norm. Add x itself, not norm(x).": (
            lambda x, F, norm: norm(x) + F(norm(x))
        ),
        "pre: the norm comes after the branch; it should come before it.": PLACES["output"],
        "pre: the residual connection is missing.": lambda x, F, norm: F(norm(x)),
        "pre: there is no norm.": lambda x, F, norm: x + F(x),
    },
    "post": {
        "post: that is Pre-LN. The norm belongs to the sum.": PLACES["pre"],
        "post: the norm is on the branch alone; it belongs to the sum.": PLACES["output"],
        "post: the branch reads norm(x); it should read x.": lambda x, F, norm: norm(
            x + F(norm(x))
        ),
        "post: the residual connection is missing.": lambda x, F, norm: norm(F(x)),
        "post: there is no norm.": lambda x, F, norm: x + F(x),
        "post: the norm is on x alone; it belongs to the whole sum.": (
            lambda x, F, norm: norm(x) + F(x)
        ),
        "post: normalize the sum once; you normalize its two parts.": (
            lambda x, F, norm: norm(x) + norm(F(x))
        ),
    },
    "output": {
        "output: the norm is on the sum; only the branch should be normalized.": PLACES["post"],
        "output: that is Pre-LN. The norm comes after the branch.": PLACES["pre"],
        "output: that is the sandwich; the branch should read x itself.": PLACES["sandwich"],
        "output: there is no norm.": lambda x, F, norm: x + F(x),
        "output: the residual connection is missing.": lambda x, F, norm: norm(F(x)),
        "output: normalize the branch F(x) alone; you normalize x + F(x).": (
            lambda x, F, norm: x + norm(x + F(x))
        ),
        "output: the residual connection passes through the norm. Add x itself, not norm(x).": (
            lambda x, F, norm: norm(x) + norm(F(x))
        ),
    },
    "sandwich": {
        "sandwich: the norm before the branch is missing.": PLACES["output"],
        "sandwich: the norm after the branch is missing.": PLACES["pre"],
        "sandwich: the second norm is on the sum; it belongs to the branch alone.": (
            lambda x, F, norm: norm(x + F(norm(x)))
        ),
        "sandwich: that is a third norm, on the sum; only the branch has norms.": (
            lambda x, F, norm: norm(x + norm(F(norm(x))))
        ),
        "sandwich: the residual connection is missing.": lambda x, F, norm: norm(F(norm(x))),
        "sandwich: the residual connection passes through the norm. Add x itself, not norm(x).": (
            lambda x, F, norm: norm(x) + norm(F(norm(x)))
        ),
        "sandwich: both norms come before the branch; one of them should follow it.": (
            lambda x, F, norm: x + F(norm(norm(x)))
        ),
    },
}


def place(placement: str, x: Tensor, branch, norm) -> Tensor:
    """The block's output; it stands in for the reader's until that is right.

    [EQ-PRE-LN] [EQ-POST-LN] [EQ-OUTPUT-LN] [EQ-SANDWICH-LN]
    """
    return PLACES[placement](x, branch, norm)


@exercise("Exercise 1 (four places)", "all four")
def placements(student) -> None:
    """student(placement, x, F, norm) with a placement of PLACES."""
    cases = [
        {"x": 1 + draw(*shape, seed=seed), "F": _branch, "norm": _norm}
        for seed, shape in enumerate([(3, 4), (2, 3, 5)])
    ]
    for placement, reference in PLACES.items():

        def chosen(x, F, norm, placement=placement):
            return student(placement, x, F, norm)

        own = f"{placement}: call the norm that you are given, instead of one of your own."
        slips = PLACE_SLIPS[placement] | {
            own: lambda x, F, norm, reference=reference: reference(x, F, _own_norm)
        }
        calls(chosen, reference, *cases, slips=slips, what=f"the output of {placement!r}")
        cut = {"the residual connection is detached: no gradient passes it.": DETACHED[placement]}
        same_gradients(chosen, reference, cases[0], cut, when=f"{placement}: ")


# Exercise 2


SIZE_SLIPS = {  # of block k and the branches' mean square b
    "that is the mean square; the RMS is its root.": lambda k, b: 1 + k * b,
    "mean squares add up, RMS values do not: add l times b to the square, then take the root.": (
        lambda k, b: 1 + k * math.sqrt(b)
    ),
    "that multiplies from block to block; here each block adds the same amount.": lambda k, b: (
        (1 + b) ** (k / 2)
    ),
    "the stream's own mean square of 1, before the first block, is missing.": lambda k, b: (
        math.sqrt(k * b)
    ),
    "b is a mean square already: do not square it again.": lambda k, b: math.sqrt(1 + k * b**2),
    "count again: after block l there are l branches in the sum, not l - 1.": (
        lambda k, b: math.sqrt(1 + (k - 1) * b)
    ),
    "count again: after block l there are l branches in the sum, not l + 1.": (
        lambda k, b: math.sqrt(1 + (k + 1) * b)
    ),
    "that is one block; after block l there are l of them.": lambda k, b: math.sqrt(1 + b),
    "you divide b by l; that is LayerNorm scaling, further down.": lambda k, b: math.sqrt(
        1 + b / k
    ),
    "the stream grows: that is its inverse.": lambda k, b: 1 / math.sqrt(1 + k * b),
    "the 1 belongs under the root, too: it is the stream's own mean square.": lambda k, b: (
        1 + math.sqrt(k * b)
    ),
    "that multiplies mean squares; here each block adds one.": lambda k, b: (1 + b) ** k,
    "that is the share in Post-LN; nothing divides this stream.": lambda k, b: (1 + b) ** (-k / 2),
}


@exercise("Exercise 2 (the scale of the stream)", "an RMS of 1")
def stream_size(student) -> None:
    """student(l, b) -> the RMS after block l of a stream that starts with an RMS of 1."""
    calls(
        student,
        lambda k, b: math.sqrt(1 + k * b),
        {"k": 24, "b": 0.5},
        {"k": 7, "b": 3.0},
        slips=SIZE_SLIPS,
        what="the RMS",
    )


# Exercise 3


def factor_left(added: list[float]) -> float:
    """What the initial stream is multiplied by; it is used until the reader has one."""
    return math.prod(1 / math.sqrt(1 + b) for b in added)


LEFT_SLIPS = {  # of the list of the branches' mean squares
    "the norm divides by the RMS of the sum, the root of 1 + b.": lambda added: math.prod(
        1 / (1 + b) for b in added
    ),
    "that is the share in Pre-LN; here each block has a norm.": lambda added: (
        1 / math.sqrt(1 + sum(added))
    ),
    "mean squares add up, RMS values do not: the root of 1 + b, not 1 + the root of b.": (
        lambda added: math.prod(1 / (1 + math.sqrt(b)) for b in added)
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
    "that is its inverse, without the root: each norm divides by the root of 1 + b.": (
        lambda added: math.prod(1 + b for b in added)
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
    "that is what the branches add, not what is left of the initial stream.": lambda added: (
        1 - math.prod(1 / math.sqrt(1 + b) for b in added)
    ),
}


@exercise("Exercise 3 (what is left of the input)", "starts with mean square 1")
def what_is_left(student) -> None:
    """student(added) -> the initial stream's factor after blocks that add these mean squares."""
    calls(
        student,
        factor_left,
        {"added": [0.5, 3.0, 0.2]},
        {"added": [1.5, 0.25, 2.0, 0.7, 8.0]},
        slips=LEFT_SLIPS,
        what="the factor",
    )
