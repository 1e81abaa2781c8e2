"""Checks of lesson 03, RMSNorm: one per exercise."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import forbid, lined_up, unchanged
from normcourse.checks.rms_rows import in_float64
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, every_case, exercise, expect, parts
from normlib import functional


@exercise("Exercise 1 (rms_norm)")
def rms_norm(student) -> None:
    """student(x, weight, eps) in float64, and its gradient.

    [EQ-RMS] [EQ-RMS-GRAD]
    """
    in_float64(forbid(student, "rms_norm", "normlib"))


MEAN, VARIANCE = 2, 5


@exercise(
    "Exercise 2 (variance that is left)", f"mean {MEAN} and variance {VARIANCE}", r"\varepsilon = 0"
)
def variance_left(answer) -> None:
    """Variance of RMSNorm's output for a row of mean 2 and variance 5, eps = 0.

    [EQ-RMS-VAR]
    """
    slips = {
        "1 is what LayerNorm leaves. RMSNorm divides by the root mean square, "
        "not by the deviation.": 1.0,
        "4/9 is the share of the mean in the mean square; the variance is the other part.": 4 / 9,
        "5/3 divides the variance by the RMS; a variance is divided by its square.": 5 / 3,
        "1/3 is 1 - mean/RMS; the mean's share is the square of mean/RMS.": 1 / 3,
        "-1/3 starts from 1/9 in place of 1; the output's mean square is 1, "
        "and no variance is negative.": -1 / 3,
        "5/81 divides by the mean square twice.": 5 / 81,
        "5/4 divides by the squared mean; the mean square is variance plus squared mean.": 5 / 4,
        "5/7 adds the mean, not its square: the mean square is variance plus SQUARED mean.": 5 / 7,
        "5 is the variance of the input.": 5.0,
        "9 is the mean square of the row; divide the variance by it.": 9.0,
        "9/5 is upside down: the variance is divided by the mean square.": 9 / 5,
        "5/2 divides by the mean; divide by the mean square.": 5 / 2,
        "0 would be a constant row; this one keeps a part of its variance.": 0.0,
        "7/9 takes mean/mean square from 1; the mean's share is the SQUARED mean over it.": 7 / 9,
        "0.6 is rounded too far: give two digits.": 0.6,
        "3 is the RMS of the row.": 3.0,
        "25/81 divides the variance by the mean square, and squares that: do not.": 25 / 81,
        "2/3 is mean/RMS; the mean's share is its square, and the variance is the rest.": 2 / 3,
        "5/21 squares the squared mean: the mean square is the variance plus 2 squared.": 5 / 21,
        "1/9 divides 1 by the mean square; divide the variance of the row, 5.": 1 / 9,
        "5/25 divides by the squared variance; the mean square is variance plus squared mean.": 1
        / 5,
        "5/29 squares the variance: the mean square is the variance plus the squared mean.": 5 / 29,
        "that is the standard deviation of the output; its square is asked for.": math.sqrt(5) / 3,
    }
    right = VARIANCE / (VARIANCE + MEAN**2)
    expect(answer, right, slips, what="the variance", rtol=0.015)  # two digits will do


READERS_SUM = 21


@exercise(
    "Exercise 3 (a mean meets a reader)",
    f"mean {MEAN} and variance {VARIANCE}",
    f"the sum {READERS_SUM}",
    r"\varepsilon = 0",
)
def part_of_the_mean(answer) -> None:
    """What a row's mean brings to a reader's output behind RMSNorm, eps = 0.

    [EQ-RMS] [EQ-RMS-MOMENTS]
    """
    product = MEAN * READERS_SUM
    slips = {
        "42 is what the mean brings without a norm: RMSNorm divides it, too.": 42.0,
        "0 is what is left behind LayerNorm; RMSNorm leaves the mean in the row.": 0.0,
        "42/√5 divides by the deviation; RMSNorm divides by the RMS.": 42 / math.sqrt(5),
        "42/9 divides by the mean square; RMSNorm divides by its root.": 42 / 9,
        "42/5 divides by the variance; RMSNorm divides by the RMS.": 42 / 5,
        "42/√7 adds the mean, not its square: the mean square is variance plus SQUARED mean.": (
            42 / math.sqrt(7)
        ),
        "28/3 takes the mean's share; what meets the reader is the mean over the RMS.": 28 / 3,
        "2/3 is the mean behind RMSNorm; it is multiplied by the reader's sum.": 2 / 3,
        "7 is the sum over the RMS; the mean is a factor, too.": 7.0,
        "6 is the mean times the RMS; divide by the RMS, and multiply by the reader's sum.": 6.0,
        "63 is the sum times the RMS; asked for is the mean over the RMS, times the sum.": 63.0,
        "28 multiplies by the mean twice.": 28.0,
        "126 multiplies by the RMS; RMSNorm divides by it.": 126.0,
        "21 is the reader's sum; what meets it is the mean behind RMSNorm.": 21.0,
        "35/3 takes the variance's part of the mean square; asked for is the mean's part.": 35 / 3,
        "7√5 takes the deviation; asked for is the mean's part.": 7 * math.sqrt(5),
    }
    rms = math.sqrt(VARIANCE + MEAN**2)
    expect(answer, product / rms, slips, what="the part", rtol=0.015)  # two digits will do


@exercise("Exercise 4 (ruin an exchange)", "the same logits", "fewer than half", "*new* list")
def ruin(student) -> None:
    """student(weights) -> LayerNorm gives the same logits, RMSNorm names other digits.

    [EQ-RMS-LN]
    """
    for starts, blocks in ((2, 10), (3, 3)):
        weights = _fresh(starts, [(64, 64)] + 2 * blocks * [(64, 64)] + [(64, 10)], size=2 / 64)
        x = draw(200, 64, seed=50).abs()
        got = _new_list(student, weights)
        want = _logits(weights, x, _layer_norm)
        if not torch.allclose(_logits(got, x, _layer_norm), want, rtol=1e-6, atol=1e-8):
            raise Slip(_what_layer_norm_sees(weights, got))
        kept = (_logits(got, x, _rescaled).argmax(-1) == want.argmax(-1)).double().mean(-1)
        if kept.max() >= 0.5:
            raise Slip(_what_is_missing(weights, got, kept.max().item()))


def _what_layer_norm_sees(weights: list[Tensor], got: list[Tensor]) -> str:
    for number, (old, new) in enumerate(zip(weights, got, strict=True)):
        added = new - old
        if number % 2 == 0 and (added - added.mean(-1, keepdim=True)).abs().max() > 1e-8:
            return (
                f"LayerNorm sees what you changed in matrix {number}, a writer: what each row gets "
                "must be one number, the same in all its places. In x @ W they are the last axis."
            )
        if number % 2 == 1 and (added - added.mean(-2, keepdim=True)).abs().max() > 1e-8:
            return (
                f"LayerNorm sees what you changed in matrix {number}, a reader: change what is "
                "WRITTEN."
            )
    return "LayerNorm's logits change: the numbers are so large that rounding shows; add less."


def _what_is_missing(weights: list[Tensor], got: list[Tensor], kept: float) -> str:
    changed = [not torch.equal(old, new) for old, new in zip(weights, got, strict=True)]
    left = f"after the exchange one start still names {kept:.0%} as before"
    if not any(changed):
        return "the weights are as they were: which change does LayerNorm not see, and RMSNorm do?"
    if not any(changed[::2]):
        return f"{left}: a reader's sum needs a mean that it meets. Change what is WRITTEN."
    if all(
        new.mean(-1).abs().mean() <= old.mean(-1).abs().mean()
        for old, new in zip(weights[::2], got[::2], strict=True)
    ):
        return f"{left}: you took the means out of what is written; put a large one in."
    return f"{left}: let the writers write a larger mean."


def _fresh(starts: int, shapes: list[tuple[int, int]], size: float) -> list[Tensor]:
    return [size**0.5 * draw(starts, *shape, seed=seed) for seed, shape in enumerate(shapes)]


def _new_list(student, weights: list[Tensor]) -> list[Tensor]:
    """What student returns for a list of weights: as many matrices, and these are unchanged."""
    handed = list(weights)
    before = [weight.clone() for weight in weights]
    got = lined_up(student, lambda: "keepdim=True is missing?")(weights)
    if [id(weight) for weight in weights] != [id(weight) for weight in handed]:
        raise Slip(
            "the list was changed in place; the caller still needs it. Begin with list(weights)."
        )
    for old, now in zip(before, handed, strict=True):
        unchanged("a matrix of weights", old, now)
    got = parts(got, *(f"matrix {number}" for number in range(len(weights))), kind="list")
    for number, (old, new) in enumerate(zip(weights, got, strict=True)):
        if not isinstance(new, Tensor) or new.shape != old.shape:
            what = tuple(new.shape) if isinstance(new, Tensor) else describe(new)
            raise Slip(f"matrix {number} is {what}, expected the shape {tuple(old.shape)}.")
    return list(got)


@exercise("Exercise 5 (convert a network)", "Return a new list")
def convert(student) -> None:
    """student(weights) -> weights with which RMSNorm gives LayerNorm's logits.

    [EQ-RMS-FOLD]
    """
    with every_case() as cases:
        for starts, blocks in ((2, 1), (3, 2), (1, 10)):
            shapes = [(4, 6)] + blocks * [(6, 6), (6, 6)] + [(6, 3)]
            weights = []
            for seed, shape in enumerate(shapes):
                weights.append(0.5 + draw(starts, *shape, seed=seed))
            x = draw(7, 4, seed=50)
            got = _new_list(student, weights)
            want = _logits(weights, x, _layer_norm)
            slips = {}
            for text, wrong in CONVERT_SLIPS.items():
                slips[text] = _logits(wrong(weights), x, _rescaled)
            cases.expect(_logits(got, x, _rescaled), want, slips, "the tensor of the logits")


KINDS = {  # what a matrix is, in words
    "first": "`first`",
    "reader": "the first matrix of each block",
    "second": "the second matrix of each block",
    "head": "the head",
}
WRITERS = ("first", "second")
Change = Callable[[Tensor], Tensor]
Conversion = Callable[[list[Tensor]], list[Tensor]]


def _minus_mean(axis) -> Change:
    return lambda weight: weight - weight.mean(axis, keepdim=True)


_over_outputs = _minus_mean(-1)


def _changed(kinds: Iterable[str], change: Change = _over_outputs) -> Conversion:
    """The matrices of these kinds are changed."""

    def conversion(weights: list[Tensor]) -> list[Tensor]:
        blocks = (len(weights) - 2) // 2
        new = []
        names = ["first", *blocks * ["reader", "second"], "head"]
        for kind, weight in zip(names, weights, strict=True):
            new.append(change(weight) if kind in kinds else weight)
        return new

    return conversion


_right = _changed(WRITERS)


def _without_last(weights: list[Tensor]) -> list[Tensor]:
    """The last block's writer is as it was."""
    return [*_right(weights)[:-2], *weights[-2:]]


def _first_block(weights: list[Tensor]) -> list[Tensor]:
    """The other blocks' writers are as they were."""
    return [*_right(weights)[:3], *weights[3:]]


def _first_two_blocks(weights: list[Tensor]) -> list[Tensor]:
    """Places that were counted by hand; a longer list has more writers."""
    return [*_right(weights)[:5], *weights[5:]]


def _grouped(weights: list[Tensor]) -> list[Tensor]:
    """All readers, then all writers."""
    first, *middle, head = _right(weights)
    return [first, *middle[::2], *middle[1::2], head]


def _swapped(weights: list[Tensor]) -> list[Tensor]:
    """Of each block the writer, then the reader."""
    first, *middle, head = _right(weights)
    pairs = zip(middle[::2], middle[1::2], strict=True)
    return [first, *(matrix for reader, writer in pairs for matrix in (writer, reader)), head]


CONVERT_SLIPS: dict[str, Conversion] = {
    "the weights are as they were: centre what each writer writes.": _changed(()),
    "the first matrix is a writer, too: it starts the stream.": _changed(["second"]),
    "the second matrix of each block writes to the stream: centre it.": _changed(["first"]),
    "the first matrix of a block reads the stream, the second one writes to it.": _changed(
        ["first", "reader"]
    ),
    "what reads is centred, and what writes is not: it must be the other way round.": _changed(
        ["reader"]
    ),
    "the first matrix of a block only reads: what it makes goes into a ReLU.": _changed(
        ["first", "reader", "second"]
    ),
    "the head only reads: leave it as it is.": _changed(["first", "second", "head"]),
    "each matrix is centred, but only writers are: `first` and the second one of each block.": (
        _changed(KINDS)
    ),
    "the last block writes as well, and the head reads that: centre its second matrix.": (
        _without_last
    ),
    "each block writes, not the first one alone.": _first_block,
    "each block writes, not the first two alone: the list may be longer.": _first_two_blocks,
    "that centres what the readers take in, behind the norm, which has measured the row with its "
    "mean: centre what is WRITTEN.": _changed(["reader", "head"], _minus_mean(-2)),
    "that centres what the blocks take in, behind the norm, and leaves the head out: "
    "centre what is WRITTEN, before a norm measures it.": _changed(["reader"], _minus_mean(-2)),
    "in x @ W the outputs stand on the last axis: "
    "over the other one you centre the layer's input.": _changed(WRITERS, _minus_mean(-2)),
    "you centre the input of every matrix: in x @ W the outputs stand on the last axis, "
    "and only writers are centred.": _changed(KINDS, _minus_mean(-2)),
    "you centre the input of every matrix but the head: in x @ W the outputs stand on the last "
    "axis, and only writers are centred.": _changed(["first", "reader", "second"], _minus_mean(-2)),
    "you centre the input of every matrix but `first`: in x @ W the outputs stand on the last "
    "axis, and only writers are centred.": _changed(["reader", "second", "head"], _minus_mean(-2)),
    "you centre what the head takes in, and that alone: centre what is WRITTEN.": _changed(
        ["head"], _minus_mean(-2)
    ),
    "the first axis counts the starts: each has a mean of its own.": _changed(
        WRITERS, _minus_mean(0)
    ),
    "the first axis counts the starts, and only writers are centred.": _changed(
        KINDS, _minus_mean(0)
    ),
    "the first axis counts the starts, and what only reads stays as it is.": _changed(
        ["first", "reader", "second"], _minus_mean(0)
    ),
    "the first axis counts the starts: average over the outputs alone.": _changed(
        WRITERS, _minus_mean((0, -1))
    ),
    "one mean for each input, over the outputs, not one mean of the whole matrix.": _changed(
        WRITERS, _minus_mean((-2, -1))
    ),
    "one mean for each input and start, not one mean of all numbers.": _changed(
        WRITERS, _minus_mean((0, 1, 2))
    ),
    "over both axes you centre the layer's input, too: over the last one only.": _changed(
        WRITERS, lambda weight: _over_outputs(_minus_mean(-2)(weight))
    ),
    "you added the mean: subtract it.": _changed(
        WRITERS, lambda weight: weight + weight.mean(-1, keepdim=True)
    ),
    "subtract the mean over the outputs, not their sum.": _changed(
        WRITERS, lambda weight: weight - weight.sum(-1, keepdim=True)
    ),
    "that is the mean itself: subtract it from the weight.": _changed(
        WRITERS, lambda weight: weight.mean(-1, keepdim=True).expand_as(weight)
    ),
    "centring only: no division by the deviation.": _changed(
        WRITERS,
        lambda weight: _over_outputs(weight) / weight.std(-1, correction=0, keepdim=True),
    ),
    "centring only: no division by torch's deviation.": _changed(
        WRITERS, lambda weight: _over_outputs(weight) / weight.std(-1, keepdim=True)
    ),
    "centring only: a LayerNorm of the weights divides them, too.": _changed(
        WRITERS, lambda weight: _layer_norm(weight)
    ),
    "the network has its RMSNorms already: subtract a mean from the weights, divide nothing.": (
        _changed(WRITERS, lambda weight: weight / weight.square().mean(-1, keepdim=True).sqrt())
    ),
    "the matrices are right, their order is not: all readers come before all writers.": _grouped,
    "the matrices are right, their order is not: in each block the writer comes first.": _swapped,
}


OTHER_CHOICES = [
    ("head",),
    ("first", "head"),
    ("second", "head"),
    ("reader", "head"),
    ("reader", "second"),
    ("first", "reader", "head"),
    ("reader", "second", "head"),
]
for choice in OTHER_CHOICES:
    chosen = " and ".join(KINDS[kind] for kind in choice)
    text = f"you centred {chosen}: centre what writes to the stream, and only that."
    CONVERT_SLIPS[text] = _changed(choice)


def _logits(weights: list, x: Tensor, norm) -> Tensor:
    """The lesson's linear_writes."""
    first, *middle, head = weights
    h = x @ first
    for reader, writer in zip(middle[::2], middle[1::2], strict=True):
        h = h + torch.relu(norm(h) @ reader) @ writer
    return norm(h) @ head


def _rescaled(h: Tensor) -> Tensor:
    return functional.rms_norm(h, h.shape[-1:], eps=1e-5)


def _layer_norm(h: Tensor) -> Tensor:
    return functional.layer_norm(h, h.shape[-1:], eps=1e-5)
