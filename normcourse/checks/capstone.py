"""Checks of lesson 08: measures of a run,
a paired interval, a rate chosen fairly, a factor per layer.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import mean, median
from types import SimpleNamespace

import torch

from normcourse.checks.probes import call
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
    "stability: that is the median; 10.2 takes the mean.": lambda n: median(n) / n[0],
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
FIRST = torch.tensor([361.0, 352.0, 329.0, 366.0, 343.0], dtype=torch.float64)
SECOND = torch.tensor([350.0, 347.0, 322.0, 351.0, 345.0], dtype=torch.float64)
T = 2.776  # 97.5 % point of Student's t with 4 degrees of freedom
HALVES = {  # v: a, b, their differences d
    "the seeds are paired: take the spread of the differences, not of each norm.": (
        lambda v: T * ((v.a.var() + v.b.var()) / 5).sqrt()
    ),
    "that is where single differences lie; the mean of n has a spread smaller by sqrt(n).": (
        lambda v: T * v.d.std()
    ),
    "divide the squares by n - 1: the mean was taken from the same five.": (
        lambda v: T * v.d.std(correction=0) / 5**0.5
    ),
    "1.96 is for a known spread; with five seeds use t.": lambda v: 1.96 * v.d.std() / 5**0.5,
    "that is the standard error; multiply by t.": lambda v: v.d.std() / 5**0.5,
    "divide by sqrt(n), not by n.": lambda v: T * v.d.std() / 5,
    "divide by sqrt(n); n - 1 is already in the standard deviation.": lambda v: T * v.d.std() / 2,
    "that is the range's half; it covers no stated share.": lambda v: (v.d.max() - v.d.min()) / 2,
    "that is a variance; take its root.": lambda v: T * v.d.var() / 5**0.5,
    "2.132 is the one-sided point; an interval has two ends.": lambda v: 2.132 * v.d.std() / 5**0.5,
}


@exercise("Exercise 1 (the measures of a run)")
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


@exercise("Exercise 2 (a paired interval)")
def interval(student) -> None:
    """student(a, b, t) -> (mean, low, high) of a - b over the seeds."""
    v = SimpleNamespace(a=FIRST, b=SECOND, d=FIRST - SECOND)
    middle = v.d.mean().item()
    half = (T * v.d.std() / 5**0.5).item()
    got = parts(call(student, a=FIRST, b=SECOND, t=T), "mean", "low", "high")
    slips = {
        "mean: that is b - a; positive must mean that a is better.": -middle,
        "mean: keep the signs of the differences.": v.d.abs().mean().item(),
        "mean: that is the median.": v.d.median().item(),
        "mean: that is the sum; divide by the number of seeds.": v.d.sum().item(),
    }
    expect(got[0], middle, slips, "mean")
    for value, sign, end, other in ((got[1], -1, "low", "high"), (got[2], 1, "high", "low")):
        ends = {message: middle + sign * wrong(v).item() for message, wrong in HALVES.items()}
        ends[f"{end}: the ends are exchanged, that is {other}."] = middle - sign * half
        ends[f"{end}: that is half the width; take it off the mean, and add it."] = half
        expect(value, middle + sign * half, ends, end)
    three = parts(call(student, a=FIRST[:3], b=SECOND[:3], t=4.303), "mean", "low", "high")
    middle = v.d[:3].mean().item()
    half = (4.303 * v.d[:3].std() / 3**0.5).item()
    ends = {"mean": middle, "low": middle - half, "high": middle + half}
    for value, (name, want) in zip(three, ends.items(), strict=True):
        expect(value, want, what=f"{name} for three seeds and t = 4.303")


def _final(run: Mapping) -> float:
    return run["validation"][-1] if run["validation"] and not run["diverged"] else 0


def _over(phase: str, value: Callable, combine: Callable = mean) -> Callable:
    """A score of one rate: value of its runs of a phase, combined."""
    return lambda runs: combine([value(run) for run in runs if phase in (run["phase"], "any")])


def _last_seen(run: Mapping) -> float:
    return run["validation"][-1] if run["validation"] else 0


def _survivors(runs: list[dict]) -> float:
    alive = [
        run["validation"][-1] for run in runs if run["phase"] == "tuning" and not run["diverged"]
    ]
    return mean(alive) if alive else 0


LEAKS = {  # the score by which each wrong rate is the best
    "that rate is best on the TEST digits: "
    "whoever tunes on them reports a number chosen to be large.": (
        _over("tuning", lambda run: run["test_right"])
    ),
    "that rate is best on the FINAL seeds: tune on other runs than the ones you report.": (
        _over("final", _final)
    ),
    "tuning and final runs were mixed: choose by the tuning runs alone.": _over("any", _final),
    "that rate has the best single seed: luck. Take the mean over the tuning seeds.": (
        _over("tuning", _final, max)
    ),
    "a diverged run counts as 0, whatever it had reached before.": _over("tuning", _last_seen),
    "a diverged run counts as 0; leaving it out (or a median) "
    "rewards rates that diverge.": _survivors,
    "that rate had the best moment on the way; take the last validation count.": (
        _over("tuning", lambda run: 0 if run["diverged"] else max(run["validation"], default=0))
    ),
    "that rate fits the TRAINING digits best; choose on validation.": (
        _over("tuning", lambda run: run["train_right"])
    ),
    "that rate has the lowest training loss; choose on validation.": (
        _over("tuning", lambda run: -run["loss"] if run["loss"] is not None else -math.inf)
    ),
}


@exercise("Exercise 3 (a rate chosen fairly)")
def fair_rate(student) -> None:
    """student(runs): the rate with the best mean validation count at the end of its tuning runs."""
    runs = made_up_runs()[::-1]  # of equals the lower comes last
    got = student([dict(run, validation=list(run["validation"])) for run in runs])
    grouped = {
        rate: [run for run in runs if run["lr"] == rate] for rate in {run["lr"] for run in runs}
    }
    slips = {
        text: max(sorted(grouped), key=lambda r: score(grouped[r])) for text, score in LEAKS.items()
    }
    slips["of two equal rates take the lower."] = 0.005
    slips["that is the largest rate; nothing chose it."] = max(grouped)
    slips["that is a count of right digits; return the rate that earned it."] = 351.0
    expect(got, 0.003, slips, "the rate")
    fewer = [run for run in runs if run["lr"] not in (0.003, 0.005)]
    expect(student(fewer), 0.015, what="the rate when 0.003 and 0.005 were not tried")


def made_up_runs() -> list[dict]:
    """Tuning and final runs in the form of a record,
    made so that every leak prefers a rate of its own.
    """
    # rate: last validation counts of three tuning runs, of the final runs, test, train, loss
    table = {
        0.0005: ((340, 342, 341), 338, 335, 1000, 0.30),
        0.0007: ((341, 343, 342), 340, 336, 960, 0.01),
        0.001: ((346, 347, 345), 341, 390, 960, 0.30),
        0.002: ((330, 332, 331), 333, 330, 950, 0.40),
        0.003: ((350, 352, 351), 345, 340, 955, 0.35),
        0.005: ((351, 351, 351), 344, 341, 956, 0.34),
        0.01: ((380, 340, 300), 338, 333, 950, 0.36),
        0.015: ((350, 349, 351), 358, 343, 957, 0.33),
        0.02: ((335, 336, 334), 365, 338, 951, 0.37),
        0.03: ((370, 372, 369), 0, 320, 940, 0.39),
        0.05: ((376, 377, None), 0, 310, 930, 0.41),
        0.1: ((210, 200, None), 0, 200, 500, 1.50),
    }
    runs = []
    for rate, (last, final, test, train, loss) in table.items():
        common = {
            "lr": rate,
            "test_right": test,
            "train_right": train,
            "loss": loss,
            "diverged": False,
        }
        for seed, right in zip((100, 101, 102), last, strict=True):
            curve = [374, right] if rate == 0.002 else [300, right]
            own = {"phase": "tuning", "seed": seed, "validation": curve if right else []}
            lost = right is None or (rate, seed) == (0.03, 102)
            runs.append(common | own | ({"diverged": True, "loss": None} if lost else {}))
        runs += [
            common | {"phase": "final", "seed": s, "validation": [300, final]} for s in range(5)
        ]
    return runs


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
    "that is the factor; now let it act.": lambda n, r: r,
    "that is the ratio to layer 1; multiply by its size.": lambda n, r: r ** (DEPTH - 1),
    "the root is missing: that is the factor of all four steps, taken at every one.": (
        lambda n, r: n[0] * (n[-1] / n[0]) ** (DEPTH - 1)
    ),
}


@exercise("Exercise 4 (a factor per layer)")
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
