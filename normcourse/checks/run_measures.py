"""Checks of lesson 08a: the measures of a run, Holm's correction, a family of intervals.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import mean, median

import torch
from torch import Tensor

from normcourse.checks import intervals
from normcourse.checks.probes import call, calls
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normcourse.measures import comparisons

RUNS = [  # of the first, 360 are exactly 90 %; the second falls back after it was there
    {
        "norms": [2.0, 2.2, 2.8, 0.8],
        "right": [200, 340, 360, 372, 390],
        "steps": [5, 10, 15, 20, 25],
        "of": 400,
    },
    {
        "norms": [4.0, 2.0],
        "right": [500, 925, 850, 955, 970, 940],
        "steps": [3, 10, 30, 45, 70, 80],
        "of": 1000,
    },
]
LOST = {"norms": [1.0, 1.5], "right": [10, 20, 30], "steps": [5, 10, 25], "of": 400}
FALLEN = LOST | {"right": [100, 372, 200]}  # at the level at step 10, and not at the end
NEVER = {
    "speed of a run that never gets there: 0.0, not one over its last step.": 1 / 25,
    "speed of a run that never gets there: 0.0, not one over its first step.": 1 / 5,
    "speed of a run that never gets there: 0.0, not infinity.": math.inf,
    "speed of a run that never gets there: 0.0, not NaN, which would spoil every mean.": math.nan,
    "speed of a run that never gets there: 0.0, not -1.": -1.0,
}
FELL = {
    "speed: the FIRST time at 90 % counts, also where the run ends below the level.": 0.0,
}
MEASURES = ("stability", "peak", "speed")
STABILITIES = {  # n: the gradient norms
    "stability: divide by the FIRST norm, not by the last.": lambda n: mean(n) / n[-1],
    "stability: each norm is compared with the first, not with the one before.": (
        lambda n: mean(b / a for a, b in pairwise(n))
    ),
    "stability: that is the last norm over the first; take the mean over all steps.": lambda n: (
        n[-1] / n[0]
    ),
    "stability: that is the mean norm; divide by the first.": mean,
    "stability: that is the sum; divide by the number of steps.": lambda n: sum(n) / n[0],
    "stability: step 1 counts, too (its ratio is 1).": lambda n: mean(n[1:]) / n[0],
    "stability: that is the median; S is a mean.": lambda n: median(n) / n[0],
    "stability: norms, not squared norms.": lambda n: mean(v * v for v in n) / n[0] ** 2,
    "stability: that is the peak; return (stability, peak, speed).": lambda n: max(n) / n[0],
    "stability: the number of steps is not always 4.": lambda n: sum(n) / n[0] / 4,
}
PEAKS = {
    "peak: divide the largest norm by the first.": max,
    "peak: divide by the first norm, not by the smallest.": lambda n: max(n) / min(n),
    "peak: divide by the first norm, not by the mean.": lambda n: max(n) / mean(n),
    "peak: that is the place of the largest norm; return its ratio to the first.": lambda n: (
        n.index(max(n)) + 1
    ),
    "peak: that is the last norm; take the largest.": lambda n: n[-1] / n[0],
    "peak: each norm is compared with the first, not with the one before.": (
        lambda n: max(b / a for a, b in pairwise(n))
    ),
    "peak: step 1 counts, too (its ratio is 1).": lambda n: max(n[1:]) / n[0],
}


def _first(right: list, steps: list, of: float, level: float = 0.9) -> int:
    """The place of the first look that reaches the level."""
    return next(i for i, count in enumerate(right) if count / of >= level)


def _at(place: Callable) -> Callable:
    """One over the step at place(right, steps, of)."""
    return lambda right, steps, of: 1 / steps[place(right, steps, of)]


def _instead(value: Callable) -> Callable:
    """value(place of the first look that reaches 90 %, steps)."""
    return lambda right, steps, of: value(_first(right, steps, of), steps)


def _last_rise(right: list, steps: list, of: float) -> int:
    """The place from which on all looks reach the level."""
    return max(i for i, count in enumerate(right) if count / of < 0.9) + 1


def _last_reached(right: list, steps: list, of: float) -> int:
    return max(i for i, count in enumerate(right) if count / of >= 0.9)


RIGHT_SPEED = _at(_first)
SPEEDS = {  # of right, steps, of
    "speed: one over the step, not the step.": _instead(lambda i, steps: steps[i]),
    "speed: that counts evaluations; use the step at which it was made.": _instead(
        lambda i, steps: 1 / (i + 1)
    ),
    "speed: looks need not be evenly spaced; take the step from `steps`, not the number of the "
    "look times the first step.": _instead(lambda i, steps: 1 / ((i + 1) * steps[0])),
    "speed: looks need not be evenly spaced; take the step from `steps`, not the number of the "
    "look times a share of the last step.": _instead(
        lambda i, steps: len(steps) / ((i + 1) * steps[-1])
    ),
    "speed: exactly 90 % counts as reached: >=, not >.": _at(
        lambda right, steps, of: _first(right, steps, of, math.nextafter(0.9, 1))
    ),
    "speed: the level is 90 %, not 95 %.": _at(
        lambda right, steps, of: _first(right, steps, of, 0.95)
    ),
    "speed: a count is no share: divide by of before you compare with 0.9.": _at(
        lambda right, steps, of: _first(right, steps, 1)
    ),
    "speed: `of` is an argument, and not always 400.": _at(
        lambda right, steps, of: _first(right, steps, 400)
    ),
    "speed: the FIRST time at 90 %, not the best.": _at(
        lambda right, steps, of: right.index(max(right))
    ),
    "speed: the FIRST time at 90 %, not the last one.": _at(_last_reached),
    "speed: the FIRST time at 90 % counts, also where the run falls back after it.": _at(
        _last_rise
    ),
    "speed: the step before it; the first time AT 90 % counts.": _instead(
        lambda i, steps: 1 / steps[i - 1]
    ),
}


def _run_measures(stability: Callable | None = None, peak=None, speed=None) -> Callable:
    """The right answer, but for what is given."""

    def answer(norms: list, right: list, steps: list, of: float) -> tuple[float, float, float]:
        return (
            mean(norms) / norms[0] if stability is None else stability(norms),
            max(norms) / norms[0] if peak is None else peak(norms),
            (speed or RIGHT_SPEED)(right, steps, of),
        )

    return answer


@exercise("Exercise 1 (the measures of a run)", "the level 90 %", "the speed 0")
def measures(student) -> None:
    """student(norms, right, steps, of) -> (stability, peak, speed)."""

    slips = {text: _run_measures(stability=wrong) for text, wrong in STABILITIES.items()}
    slips |= {text: _run_measures(peak=wrong) for text, wrong in PEAKS.items()}
    slips |= {text: _run_measures(speed=wrong) for text, wrong in SPEEDS.items()}
    calls(student, _run_measures(), *RUNS, slips=slips, what=MEASURES)
    *_, fallen = parts(call(student, **FALLEN), *MEASURES)
    expect(fallen, 1 / 10, FELL, "speed of a run that falls below the level again")
    try:
        _, _, never = parts(call(student, **LOST), *MEASURES)
    except (IndexError, StopIteration, ValueError) as error:
        raise Slip(
            "speed of a run that never gets there: 0.0. Your code looks for its first time at "
            "90 %, and there is none."
        ) from error
    if never is None:
        raise Slip("speed of a run that never gets there: 0.0, not None.")
    expect(never, 0.0, NEVER, "speed of a run that never gets there")


def _in_order(p: Tensor, factors: Tensor) -> Tensor:
    """The probabilities times factors that go from the smallest to the largest, in p's order."""
    order = p.argsort(stable=True)
    return torch.empty_like(p).index_copy_(0, order, factors * p[order])


def _down(p: Tensor) -> Tensor:
    """k, k - 1, ... 1."""
    return torch.arange(len(p), 0, -1, dtype=p.dtype)


def _by(p: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """p in this order times the factors, never falling, at most 1, put back in its place."""
    corrected = (factors * p[order]).cummax(0).values.clamp(max=1)
    return torch.empty_like(p).index_copy_(0, order, corrected)


def _after_its_neighbour(p: Tensor) -> Tensor:
    """Each product at least the one before it, but no more than that."""
    order = p.argsort(stable=True)
    products = _down(p) * p[order]
    before = torch.cat([products[:1], products[:-1]])
    corrected = torch.maximum(products, before).clamp(max=1)
    return torch.empty_like(p).index_copy_(0, order, corrected)


CORRECTIONS = {  # p: the probabilities
    "that is Bonferroni's correction, k for each; Holm's second factor is k - 1.": (
        lambda p: (len(p) * p).clamp(max=1)
    ),
    "that is Bonferroni's correction, and a probability is at most 1.": lambda p: len(p) * p,
    "that is Benjamini and Hochberg's correction.": comparisons.benjamini_hochberg,
    "the corrected ones may not fall: none is smaller than the one before it.": (
        lambda p: _in_order(p, _down(p)).clamp(max=1)
    ),
    "the corrected ones may not fall: compare with the VALUE that the one before it got, not with "
    "its product (cummax does).": _after_its_neighbour,
    "a probability is at most 1.": lambda p: torch.empty_like(p).index_copy_(
        0, p.argsort(stable=True), (_down(p) * p.sort(stable=True).values).cummax(0).values
    ),
    "give them back in the order in which they came, not sorted.": (
        lambda p: comparisons.holm(p).sort().values
    ),
    "the smallest gets the largest factor, k; you began at the other end.": (
        lambda p: _in_order(p, _down(p).flip(0)).clamp(max=1)
    ),
    "the factors follow the size of p, not the order in which they came.": (
        lambda p: (_down(p) * p).clamp(max=1)
    ),
    "the factors follow the size of p: sort before you multiply.": lambda p: (
        (_down(p) * p).cummax(0).values.clamp(max=1)
    ),
    "sort from small to large; yours goes from large to small.": (
        lambda p: _by(p, _down(p), p.argsort(descending=True))
    ),
    "the smallest is multiplied by k, not by k - 1.": (
        lambda p: _by(p, _down(p) - 1, p.argsort(stable=True))
    ),
    "the smallest is multiplied by k, not by k + 1.": (
        lambda p: _by(p, _down(p) + 1, p.argsort(stable=True))
    ),
    "go from the smallest on, with the largest so far; yours goes back from the largest.": (
        lambda p: torch.empty_like(p).index_copy_(
            0,
            p.argsort(stable=True),
            (_down(p) * p.sort(stable=True).values).flip(0).cummin(0).values.flip(0).clamp(max=1),
        )
    ),
    "that takes with the order; to put back write result[order] = corrected.": (
        lambda p: comparisons.holm(p).sort().values[p.argsort(stable=True)]
    ),
    "nothing was corrected.": lambda p: p,
    "multiply p; do not divide the level here.": lambda p: _in_order(p, 1 / _down(p)),
}


@exercise("Exercise 2 (many comparisons)")
def holm(student) -> None:
    """student(p): Holm's corrected probabilities, in the order in which they came."""
    cases = [
        {"p": torch.tensor([0.012, 0.9, 0.001, 0.3, 0.013, 0.6], dtype=torch.float64)},
        {"p": torch.tensor([0.2, 0.03, 0.04], dtype=torch.float64)},
        # three products that fall one after the other
        {"p": torch.tensor([0.023, 0.02, 0.3, 0.022, 0.021], dtype=torch.float64)},
    ]
    calls(student, comparisons.holm, *cases, slips=CORRECTIONS)


def _false(d: Tensor, t: float, half: Callable = intervals.half) -> Tensor:
    """(families, k): whether the interval of each comparison leaves 0 out."""
    return d.mean(-1).abs() > half(d, t)


def _families(d: Tensor, t: float, half: Callable = intervals.half) -> float:
    return _false(d, t, half).any(-1).double().mean().item()


def _whole(d: Tensor, axes: int | tuple[int, ...]) -> Callable:
    """A half-width with one standard deviation for all that lies along these axes."""
    spread = d.std(axes, keepdim=True).flatten(1)
    return lambda d, t: t * spread / d.shape[-1] ** 0.5


def _share_alone(d: Tensor, t: float) -> float:
    return _false(d, t).double().mean().item()


WIDTHS_OF_A_FAMILY = {  # d: the differences (families, k, n)
    message: lambda d, t, wrong=wrong: _families(d, t, wrong)
    for message, wrong in (
        intervals.HALVES | intervals.built_in(seeds=(5, 10), ts=(2.262,))
    ).items()
}
FAMILIES = {
    intervals.TO_EACH_SIDE: lambda d, t: _families(d, t / 2),
    "that is the share of the families WITHOUT a false finding.": lambda d, t: 1 - _families(d, t),
    "that is the share of the single comparisons. In a family one false finding is enough: any(-1) "
    "before the mean.": _share_alone,
    "that asks whether ALL comparisons of a family leave 0 out; one is enough.": lambda d, t: (
        _false(d, t).all(-1).double().mean().item()
    ),
    "an interval that HOLDS 0 is no false finding.": lambda d, t: (
        (~_false(d, t)).any(-1).double().mean().item()
    ),
    "a mean far below 0 is a false finding, too: only one side was compared.": lambda d, t: (
        (d.mean(-1) > intervals.half(d, t)).any(-1).double().mean().item()
    ),
    "a mean far above 0 is a false finding, too: only one side was compared.": lambda d, t: (
        (-d.mean(-1) > intervals.half(d, t)).any(-1).double().mean().item()
    ),
    "that is how many false findings a family has on average; count the families that have one.": (
        lambda d, t: _false(d, t).double().sum(-1).mean().item()
    ),
    "do not calculate it from the share of single comparisons: count the families.": lambda d, t: (
        1 - (1 - _share_alone(d, t)) ** d.shape[1]
    ),
    "return a share, from 0 to 1, not percent.": lambda d, t: 100 * _families(d, t),
    "that is a count; divide by the number of families.": lambda d, t: len(d) * _families(d, t),
    "divide by the number of families, not by that of all comparisons.": lambda d, t: (
        _families(d, t) / d.shape[1]
    ),
    "that goes through the families for each comparison; go through the comparisons of each "
    "family: any(-1).": lambda d, t: _false(d, t).any(0).double().mean().item(),
    "that is ANY false finding in all families together: any(-1), then the mean.": lambda d, t: (
        float(_false(d, t).any())
    ),
    "n is the last axis: one interval for each comparison, over its seeds.": lambda d, t: _families(
        d.transpose(1, 2), t
    ),
    "each comparison has an interval of its own; do not pool a family.": (
        lambda d, t: _families(d.flatten(1)[:, None], t)
    ),
    "each comparison has a standard deviation of its own; that is one for the family.": (
        lambda d, t: _families(d, t, _whole(d, (1, 2)))
    ),
    "each comparison has a standard deviation of its own; that is one for all.": lambda d, t: (
        _families(d, t, _whole(d, (0, 1, 2)))
    ),
    "that is from the smallest to the largest difference; use the mean and t standard errors.": (
        lambda d, t: ((d.amin(-1) > 0) | (d.amax(-1) < 0)).any(-1).double().mean().item()
    ),
    "first the mean, then its size: differences of both signs cancel.": lambda d, t: (
        (d.abs().mean(-1) > intervals.half(d, t)).any(-1).double().mean().item()
    ),
    "n is the size of the last axis; yours divides by the root of k.": lambda d, t: _families(
        d, t * (d.shape[-1] / d.shape[1]) ** 0.5
    ),
    "each family has k comparisons; yours looks at the first alone.": lambda d, t: _families(
        d[:, :1], t
    ),
    "the mean of all comparisons of a family says nothing about one of them.": lambda d, t: (
        _families(d.mean(1, keepdim=True), t)
    ),
}


@exercise("Exercise 3 (the promise of a family)")
def family(student) -> None:
    """student(d, t): the share of the families with an interval that leaves 0 out."""
    generator = torch.Generator().manual_seed(8)

    def draws(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    cases = [
        {"d": draws(80, 3, 5), "t": 2.2},
        {"d": 3 * draws(60, 7, 4), "t": 3.0},
        {"d": draws(30, 2, 4), "t": 0.8},  # here some families have nothing but false findings
        {"d": draws(50, 4, 9), "t": 1.9},
    ]
    calls(student, _families, *cases, slips=WIDTHS_OF_A_FAMILY | FAMILIES, what="the share")
