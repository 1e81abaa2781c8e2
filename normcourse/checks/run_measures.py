"""Checks of lesson 08a: measures of a run, a factor per layer, an order by pairs, coverage, Holm.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from collections.abc import Callable
from itertools import combinations, pairwise, permutations
from statistics import mean, median

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks import intervals
from normcourse.checks.probes import call, calls
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect, expect_all, parts
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
NEVER = {
    "speed of a run that never gets there: 0.0, not one over its last step.": 1 / 25,
    "speed of a run that never gets there: 0.0, not infinity.": math.inf,
    "speed of a run that never gets there: 0.0, not NaN, which would spoil every mean.": math.nan,
    "speed of a run that never gets there: 0.0, not -1.": -1.0,
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
    _, _, never = parts(call(student, **LOST), *MEASURES)
    if never is None:
        raise Slip("speed of a run that never gets there: 0.0, not None.")
    expect(never, 0.0, NEVER, "speed of a run that never gets there")


def _grown(factor: Callable, exponent: Callable = lambda n, depth: depth - 1, start: int = 0):
    """The size at `start` times so many factors: functions of the sizes n and the depth."""
    return lambda n, depth: (n[start] * factor(n) ** exponent(n, depth)).item()


def _rate(n: Tensor) -> Tensor:
    return (n[-1] / n[0]) ** (1 / (len(n) - 1))


PREDICTIONS = {
    "layer 1 has passed no factor yet: depth - 1 factors, not depth.": _grown(
        _rate, lambda n, depth: depth
    ),
    "L layers have L - 1 steps between them: of five layers the root is the fourth.": _grown(
        lambda n: (n[-1] / n[0]) ** (1 / len(n))
    ),
    "factors multiply: take their geometric mean, not the arithmetic one.": _grown(
        lambda n: (n[1:] / n[:-1]).mean()
    ),
    "that is a straight line; sizes shrink by a factor per layer.": lambda n, depth: (
        n[0] + (n[-1] - n[0]) / (len(n) - 1) * (depth - 1)
    ).item(),
    "one pair of layers decides too much: take the factor from the first to the last.": _grown(
        lambda n: n[-1] / n[-2]
    ),
    "the factor of the first two layers alone; take it from the first to the last.": _grown(
        lambda n: n[1] / n[0]
    ),
    "the factor is upside down: last over first.": _grown(lambda n: 1 / _rate(n)),
    "from the LAST layer only depth - L factors are left.": _grown(_rate, start=-1),
    "from the LAST layer only depth - L factors are left, not depth.": _grown(
        _rate, lambda n, depth: depth, start=-1
    ),
    "one pair of layers decides too much, the last; take the factor from the first to the last.": (
        _grown(lambda n: n[-1] / n[-2], lambda n, depth: depth - len(n), start=-1)
    ),
    "that is the factor; now let it act.": lambda n, depth: _rate(n).item(),
    "that is the ratio to layer 1; multiply by its size.": lambda n, depth: (
        _rate(n) ** (depth - 1)
    ).item(),
    "the root is missing: that is the factor of all steps, taken at every one.": _grown(
        lambda n: n[-1] / n[0]
    ),
}


@exercise("Exercise 2 (a factor per layer)", "layers 1 to L")
def extrapolate(student) -> None:
    """student(sizes, depth): the size after layer depth, by the mean factor of the layers given."""
    five = torch.tensor([0.8, 0.5, 0.2, 0.11, 0.06], dtype=torch.float64)
    halves = 0.5 ** torch.arange(12, dtype=torch.float64)
    cases = [{"sizes": five, "depth": 20}, {"sizes": halves, "depth": 21}]
    right = _grown(_rate)
    calls(student, right, *cases, slips=PREDICTIONS, what="the size", atol=0.0)


CONFIRMED = "confirmed"
CONTRADICTED = "contradicted"
OPEN = "open"
NAMES = ("dyt", "ln", "none", "rms")
# number of the draws, names, seeds, t: each slip says another word in one of them at least, and no
# end lies nearer to 0 than 0.02
ORDERS = (
    (2250, 4, 4, 3.182),
    (1140, 4, 9, 2.306),
    (130, 4, 6, 2.571),
    (120, 3, 5, 2.776),
)


def _trial(number: int, names: int, seeds: int, t: float) -> dict:
    """An order of so many names, and accuracies that rise and fall together from seed to seed."""
    gaps = 1.2 * draw(names, seed=number)
    shared = 2 * draw(seeds, seed=number + 1)
    own = 0.8 * draw(names, seeds, seed=number + 2)
    rows = 90 + gaps[:, None] + shared + own
    order = draw(names, seed=number + 3).argsort().tolist()
    return {
        "order": [NAMES[place] for place in order],
        "results": dict(zip(NAMES[:names], rows, strict=True)),
        "t": t,
    }


def _half(a: Tensor, b: Tensor, t: float) -> float:
    return intervals.half(a - b, t).item()


def _word(mean: float, half: float) -> str:
    if mean - half > 0:
        return CONFIRMED
    return CONTRADICTED if mean + half < 0 else OPEN


def _judged(
    order: list[str],
    results: dict[str, Tensor],
    t: float,
    half: Callable = _half,
    word: Callable = _word,
) -> dict[tuple[str, str], str]:
    found = {}
    for first, second in combinations(order, 2):
        a = results[first]
        b = results[second]
        found[first, second] = word((a - b).mean().item(), half(a, b, t))
    return found


BUILT_IN = intervals.built_in(seeds=(5, 6), ts=(2.571, 2.776, 3.182))
HALF_WIDTHS = {  # of a and b, the results of two names, and t
    message: lambda a, b, t, wrong=wrong: wrong(a - b, t).item()
    for message, wrong in (intervals.HALVES | BUILT_IN).items()
} | {
    intervals.PAIRED: lambda a, b, t: intervals.unpaired(a, b, t).item(),
    intervals.TO_EACH_SIDE: lambda a, b, t: _half(a, b, t) / 2,
}
WORDS = {
    "a mean alone decides nothing: where the interval holds 0, the word is open.": (
        lambda mean, half: CONFIRMED if mean > 0 else CONTRADICTED
    ),
    "the difference is first minus second: the two words are exchanged.": (
        lambda mean, half: _word(-mean, half)
    ),
    "the order can be contradicted, too: look at the high end as well.": (
        lambda mean, half: CONFIRMED if mean - half > 0 else OPEN
    ),
    "open is not all that can be said: where an interval lies on one side of 0, say which.": (
        lambda mean, half: OPEN
    ),
    "what is not confirmed is not yet contradicted: between them lies open.": (
        lambda mean, half: CONFIRMED if mean - half > 0 else CONTRADICTED
    ),
    "what is not contradicted is not yet confirmed: the WHOLE interval has to lie above 0.": (
        lambda mean, half: CONTRADICTED if mean + half < 0 else CONFIRMED
    ),
}


def _pairs(got, order: list[str]) -> None:
    """Raise Slip unless got is a dict whose keys are the pairs of the order."""
    if not isinstance(got, dict):
        raise Slip(f"return a dict from each pair to a word, got {describe(got)}.")
    want = set(combinations(order, 2))
    turned = {pair[::-1] for pair in want}
    keys = set(got)
    if keys == set(pairwise(order)):
        raise Slip("an order says something about every pair, not about neighbours alone.")
    if want < keys <= set(permutations(order, 2)):
        raise Slip("each pair once, as it stands in the order: (first, second).")
    if keys & turned:
        raise Slip("a pair stands as in the order you were given: (first, second).")
    if keys != want:
        raise Slip(
            f"the keys are the {len(want)} pairs (first, second) of the names {order}, "
            f"got {sorted(map(str, keys))}."
        )
    strange = [word for word in got.values() if word not in (CONFIRMED, CONTRADICTED, OPEN)]
    if strange:
        raise Slip(f'the words are "confirmed", "contradicted" and "open", got {strange[0]!r}.')


@exercise("Exercise 3 (an order, pair by pair)", "above 0", "below 0")
def judge(student) -> None:
    """student(order, results, t): {(first, second): confirmed, contradicted or open}."""
    cases = [_trial(*numbers) for numbers in ORDERS]
    gots = []
    for case in cases:
        got = call(student, **case)
        _pairs(got, case["order"])
        gots += [got[pair] for pair in combinations(case["order"], 2)]
    slips = {message: _words(cases, half=half) for message, half in HALF_WIDTHS.items()}
    slips |= {message: _words(cases, word=word) for message, word in WORDS.items()}
    expect_all(gots, _words(cases), slips, _intervals(cases), columns=1)


def _words(cases: list[dict], **wrong) -> list[str]:
    return [word for case in cases for word in _judged(**case, **wrong).values()]


def _intervals(cases: list[dict]) -> list[str]:
    """What is said of each pair before the student's word."""
    said = []
    for case in cases:
        for first, second in combinations(case["order"], 2):
            a, b = case["results"][first], case["results"][second]
            middle = (a - b).mean().item()
            half = _half(a, b, case["t"])
            said.append(
                f"the interval of {first} minus {second} goes from {middle - half:.2f} to "
                f"{middle + half:.2f}; your word"
            )
    return said


def _held(d: Tensor, t: float, truth: float, half: Callable = intervals.half) -> Tensor:
    """(trials,): whether the interval, one a row of d, holds the truth."""
    return (d.mean(-1) - truth).abs() < half(d, t)


def _share(d: Tensor, t: float, truth: float, half: Callable = intervals.half) -> float:
    return _held(d, t, truth, half).double().mean().item()


COVERAGES = {  # d: the differences (trials, n)
    message: lambda d, t, truth, wrong=wrong: _share(d, t, truth, wrong)
    for message, wrong in intervals.HALVES.items()
} | {
    intervals.TO_EACH_SIDE: lambda d, t, truth: _share(d, t / 2, truth),
    "that is the share that MISSES the truth.": lambda d, t, truth: 1 - _share(d, t, truth),
    "the truth is an argument; it is not always 0.": lambda d, t, truth: _share(d, t, 0.0),
    "n is the number of differences in a row, not the number of trials.": (
        lambda d, t, truth: _share(d, t * (d.shape[-1] / len(d)) ** 0.5, truth)
    ),
    "each trial has a standard deviation of its own: that is one for all rows.": (
        lambda d, t, truth: _share(d, t, truth, lambda d, t: t * d.std() / d.shape[-1] ** 0.5)
    ),
    "that is from the smallest to the largest difference; use the mean and t standard errors.": (
        lambda d, t, truth: ((d.amin(-1) < truth) & (truth < d.amax(-1))).double().mean().item()
    ),
    "the interval is to hold the truth, not the single differences.": lambda d, t, truth: (
        ((d - truth).abs() < intervals.half(d, t)[:, None]).double().mean().item()
    ),
    "return a share, from 0 to 1, not percent.": lambda d, t, truth: 100 * _share(d, t, truth),
    "that is a count; divide by the number of trials.": (
        lambda d, t, truth: _held(d, t, truth).double().sum().item()
    ),
    "that asks whether ALL intervals hold the truth; count them, and divide by their number.": (
        lambda d, t, truth: float(_held(d, t, truth).all())
    ),
    "that asks whether ANY interval holds the truth; count them, and divide by their number.": (
        lambda d, t, truth: float(_held(d, t, truth).any())
    ),
    "one interval for each trial: a trial is a row.": lambda d, t, truth: _share(d.T, t, truth),
    "an interval has two ends: only one was compared.": lambda d, t, truth: (
        (d.mean(-1) - truth < intervals.half(d, t)).double().mean().item()
    ),
}


@exercise("Exercise 4 (the promise of an interval)")
def coverage(student) -> None:
    """student(d, t, truth): the share of the rows of d whose interval holds the truth."""
    generator = torch.Generator().manual_seed(5)
    many = torch.randn(200, 5, generator=generator, dtype=torch.float64)
    few = torch.randn(150, 3, generator=generator, dtype=torch.float64)
    wide = torch.randn(12, 40, generator=generator, dtype=torch.float64)
    cases = [
        {"d": 2 * many + 1, "t": 1.2, "truth": 0.6},
        {"d": few, "t": 0.8, "truth": -0.3},
        {"d": wide, "t": 2.0, "truth": 0.1},
    ]
    calls(student, _share, *cases, slips=COVERAGES, what="the share")


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


@exercise("Exercise 5 (many comparisons)")
def holm(student) -> None:
    """student(p): Holm's corrected probabilities, in the order in which they came."""
    cases = [
        {"p": torch.tensor([0.012, 0.9, 0.001, 0.3, 0.013, 0.6], dtype=torch.float64)},
        {"p": torch.tensor([0.2, 0.03, 0.04], dtype=torch.float64)},
        # three products that fall one after the other
        {"p": torch.tensor([0.023, 0.02, 0.3, 0.022, 0.021], dtype=torch.float64)},
    ]
    calls(student, comparisons.holm, *cases, slips=CORRECTIONS)
