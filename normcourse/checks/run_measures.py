"""Checks of lesson 08a: the articles' measures of a run, a factor per layer, an order judged pair
by pair, the share of intervals that hold the truth.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from collections.abc import Callable
from itertools import combinations, pairwise, permutations
from statistics import mean, median

import torch
from torch import Tensor

from normcourse.checks.probes import call
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect, parts

RUN = {
    "norms": [2.0, 2.2, 2.8, 0.8],
    "right": [200, 340, 360, 372, 390],
    "steps": [5, 10, 15, 20, 25],
}
OF = 400  # right answers out of; 360 are exactly 90 %
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
}
SPEEDS = {
    "speed: one over the step, not the step.": 15.0,
    "speed: that counts evaluations; use the step at which the third one was made.": 1 / 3,
    "speed: exactly 90 % counts as reached: >=, not >.": 1 / 20,
    "speed: a count is no share: divide by of before you compare with 0.9.": 1 / 5,
    "speed: the FIRST time at 90 %, not the best or the last.": 1 / 25,
    "speed: the step before it; the first time AT 90 % counts.": 1 / 10,
}
NEVER = {
    "speed of a run that never gets there: 0.0, not one over its last step.": 1 / 25,
    "speed of a run that never gets there: 0.0, not infinity.": math.inf,
    "speed of a run that never gets there: 0.0, not NaN, which would spoil every mean.": math.nan,
    "speed of a run that never gets there: 0.0, not -1.": -1.0,
}


@exercise("Exercise 1 (the measures of a run)", "the level 90 %", "the speed 0")
def measures(student) -> None:
    """student(norms, right, steps, of) -> (stability, peak, speed)."""
    norms = RUN["norms"]
    got = parts(student(*map(list, RUN.values()), OF), "stability", "peak", "speed")
    truth = (mean(norms) / norms[0], max(norms) / norms[0], 1 / 15)
    tables = (STABILITIES, PEAKS, SPEEDS)
    for name, value, want, table in zip(
        ("stability", "peak", "speed"), got, truth, tables, strict=True
    ):
        slips = {
            message: wrong(norms) if callable(wrong) else wrong for message, wrong in table.items()
        }
        expect(value, want, slips, name)
    never = student([1.0, 1.0], [10, 20, 30, 40, 50], RUN["steps"], OF)[2]
    if never is None:
        raise Slip("speed of a run that never gets there: 0.0, not None.")
    expect(never, 0.0, NEVER, "speed of a run that never gets there")
    again = parts(
        student([4.0, 2.0], [500, 925, 850, 950], [5, 10, 20, 30], 1000),
        "stability",
        "peak",
        "speed",
    )
    expect(again[2], 0.1, what="speed of a run that reaches 90 % at step 10 and falls back")
    expect(again[0], 0.75, what="stability of the norms 4, 2")
    expect(again[1], 1.0, what="peak of the norms 4, 2 (the first counts)")


SIZES = torch.tensor([0.8, 0.5, 0.2, 0.11, 0.06], dtype=torch.float64)
DEPTH = 20
PREDICTIONS = {  # n: the sizes, r the right factor per layer
    "layer 1 has passed no factor yet: depth - 1 factors, not depth.": lambda n, r: n[0] * r**DEPTH,
    "five layers have four steps between them: the root is the fourth, not the fifth.": (
        lambda n, r: n[0] * ((n[-1] / n[0]) ** (1 / 5)) ** (DEPTH - 1)
    ),
    "factors multiply: take their geometric mean, not the arithmetic one.": (
        lambda n, r: n[0] * (n[1:] / n[:-1]).mean() ** (DEPTH - 1)
    ),
    "that is a straight line; sizes shrink by a factor per layer.": (
        lambda n, r: n[0] + (n[-1] - n[0]) / 4 * (DEPTH - 1)
    ),
    "one pair of layers decides too much: take the factor from the first to the last.": (
        lambda n, r: n[0] * (n[-1] / n[-2]) ** (DEPTH - 1)
    ),
    "the factor of the first two layers alone; take it from the first to the last.": (
        lambda n, r: n[0] * (n[1] / n[0]) ** (DEPTH - 1)
    ),
    "the factor is upside down: last over first.": lambda n, r: n[0] * r ** (1 - DEPTH),
    "from the LAST layer only depth - 5 factors are left.": lambda n, r: n[-1] * r ** (DEPTH - 1),
    "from the LAST layer only depth - 5 factors are left, not depth.": (
        lambda n, r: n[-1] * r**DEPTH
    ),
    "one pair of layers decides too much, the last; take the factor from the first to the last.": (
        lambda n, r: n[-1] * (n[-1] / n[-2]) ** (DEPTH - 5)
    ),
    "that is the factor; now let it act.": lambda n, r: r,
    "that is the ratio to layer 1; multiply by its size.": lambda n, r: r ** (DEPTH - 1),
    "the root is missing: that is the factor of all four steps, taken at every one.": (
        lambda n, r: n[0] * (n[-1] / n[0]) ** (DEPTH - 1)
    ),
}


@exercise("Exercise 2 (a factor per layer)", "layers 1 to L")
def extrapolate(student) -> None:
    """student(sizes, depth): the size after layer depth, by the mean factor of the layers given."""
    rate = (SIZES[-1] / SIZES[0]) ** 0.25
    slips = {message: float(wrong(SIZES, rate)) for message, wrong in PREDICTIONS.items()}
    want = float(SIZES[0] * rate ** (DEPTH - 1))
    expect(call(student, sizes=SIZES, depth=DEPTH), want, slips, "the size", atol=0.0)
    halves = 0.5 ** torch.arange(12, dtype=torch.float64)
    expect(
        call(student, sizes=halves, depth=21),
        2.0**-20,
        what="the size at layer 21 of halves",
        atol=0.0,
    )


CONFIRMED = "confirmed"
CONTRADICTED = "contradicted"
OPEN = "open"
ORDERS = [  # nine pairs: two confirmed, two contradicted, five open; each slip has words of its own
    {
        "order": ["rms", "ln", "dyt", "none"],
        "results": {
            "dyt": [88.5, 95.5, 88.5, 89.5, 91.5, 93.0],
            "ln": [86.0, 93.5, 87.5, 88.0, 89.5, 91.5],
            "none": [85.5, 94.0, 90.0, 83.5, 90.5, 89.0],
            "rms": [88.5, 96.0, 91.0, 90.5, 92.0, 92.5],
        },
        "t": 2.571,
    },
    {
        "order": ["b", "c", "a"],
        "results": {
            "a": [94.5, 93.0, 93.0, 95.5],
            "b": [93.0, 93.0, 93.5, 92.0],
            "c": [90.5, 90.0, 89.0, 93.0],
        },
        "t": 3.182,
    },
]


def _half(a: Tensor, b: Tensor, t: float) -> float:
    d = a - b
    return t * d.std().item() / len(d) ** 0.5


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


HALVES = {  # a, b: the results of two names
    "seed by seed: the spread is that of the differences, not of each name's results.": (
        lambda a, b, t: t * ((a.var() + b.var()) / len(a)).item() ** 0.5
    ),
    "the spread of a mean is smaller by sqrt(n) than that of single differences.": (
        lambda a, b, t: t * (a - b).std().item()
    ),
    "divide the standard deviation by sqrt(n), not by n.": lambda a, b, t: (
        t * (a - b).std().item() / len(a)
    ),
    "the interval reaches t times s / sqrt(n) to each side, and t was not used.": (
        lambda a, b, t: _half(a, b, 1.0)
    ),
    "1.96 is not the argument t.": lambda a, b, t: _half(a, b, 1.96),
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
    cases = []
    for case in ORDERS:
        results = {
            name: torch.tensor(row, dtype=torch.float64) for name, row in case["results"].items()
        }
        cases.append({**case, "results": results})
    gots = []
    for case in cases:
        got = call(student, **case)
        _pairs(got, case["order"])
        gots.append(got)
    wants = [_judged(**case) for case in cases]
    if gots == wants:
        return
    for message, half in HALVES.items():
        if gots == [_judged(**case, half=half) for case in cases]:
            raise Slip(message)
    for message, word in WORDS.items():
        if gots == [_judged(**case, word=word) for case in cases]:
            raise Slip(message)
    for case, got, want in zip(cases, gots, wants, strict=True):
        for pair, word in want.items():
            if got[pair] != word:
                a, b = (case["results"][name] for name in pair)
                mean = (a - b).mean().item()
                half = _half(a, b, case["t"])
                raise Slip(
                    f"{pair}: the interval goes from {mean - half:.2f} to {mean + half:.2f}, "
                    f'so the word is "{word}", got "{got[pair]}".'
                )


def _share(d: Tensor, t: float, truth: float, correction: int = 1) -> float:
    """Which share of the intervals, one a row of d, holds the truth."""
    error = d.std(-1, correction=correction) / d.shape[-1] ** 0.5
    return ((d.mean(-1) - truth).abs() < t * error).double().mean().item()


def _held(d: Tensor, t: float, truth: float) -> Tensor:
    error = d.std(-1) / d.shape[-1] ** 0.5
    return (d.mean(-1) - truth).abs() < t * error


COVERAGES = {  # d: the differences (trials, n)
    "that is the share that MISSES the truth.": lambda d, t, truth: 1 - _share(d, t, truth),
    "the truth is an argument; it is not always 0.": lambda d, t, truth: _share(d, t, 0.0),
    "the spread of a mean is smaller by sqrt(n) than that of single differences.": (
        lambda d, t, truth: _share(d, t * d.shape[-1] ** 0.5, truth)
    ),
    "divide the squares by n - 1.": lambda d, t, truth: _share(d, t, truth, correction=0),
    "1.96 is not the argument t.": lambda d, t, truth: _share(d, 1.96, truth),
    "divide the standard deviation by sqrt(n), not by n.": (
        lambda d, t, truth: _share(d, t / d.shape[-1] ** 0.5, truth)
    ),
    "n is the number of differences in a row, not the number of trials.": (
        lambda d, t, truth: _share(d, t * (d.shape[-1] / len(d)) ** 0.5, truth)
    ),
    "t standard errors to EACH side; that interval is half as wide.": (
        lambda d, t, truth: _share(d, t / 2, truth)
    ),
    "each trial has a standard deviation of its own: that is one for all rows.": (
        lambda d, t, truth: (
            ((d.mean(-1) - truth).abs() < t * d.std() / d.shape[-1] ** 0.5).double().mean().item()
        )
    ),
    "that is from the smallest to the largest difference; use the mean and t standard errors.": (
        lambda d, t, truth: ((d.amin(-1) < truth) & (truth < d.amax(-1))).double().mean().item()
    ),
    "the interval is to hold the truth, not the single differences.": (
        lambda d, t, truth: (
            ((d - truth).abs() < t * d.std(-1, keepdim=True) / d.shape[-1] ** 0.5)
            .double()
            .mean()
            .item()
        )
    ),
    "return a share, from 0 to 1, not percent.": lambda d, t, truth: 100 * _share(d, t, truth),
    "that is a count; divide by the number of trials.": (
        lambda d, t, truth: _held(d, t, truth).double().sum().item()
    ),
    "one interval for each trial: a trial is a row.": lambda d, t, truth: _share(d.T, t, truth),
    "an interval has two ends: only one was compared.": lambda d, t, truth: (
        ((d.mean(-1) - truth) < t * d.std(-1) / d.shape[-1] ** 0.5).double().mean().item()
    ),
}


@exercise("Exercise 4 (the promise of an interval)")
def coverage(student) -> None:
    """student(d, t, truth): the share of the rows of d whose interval holds the truth."""
    generator = torch.Generator().manual_seed(5)
    many = torch.randn(200, 5, generator=generator, dtype=torch.float64)
    few = torch.randn(150, 3, generator=generator, dtype=torch.float64)
    cases = [
        {"d": 2 * many + 1, "t": 1.2, "truth": 0.6},
        {"d": few, "t": 0.8, "truth": -0.3},
    ]
    for case in cases:
        slips = {text: wrong(**case) for text, wrong in COVERAGES.items()}
        expect(call(student, **case), _share(**case), slips, "the share")
