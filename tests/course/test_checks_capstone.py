"""The checks of lesson 08 name the slips people make."""

import math
from statistics import mean, median

import pytest

from normcourse.checks import capstone as check
from tests.course.solutions import load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def solved(name):
    return load("08_capstone")[name]


def measures(stability=None, peak=None, speed=None):
    """Exercise 1's answer; each argument replaces one part by a slip."""

    def student(norms, right, steps, of):
        got = list(solved("measures")(norms, right, steps, of))
        if stability:
            got[0] = stability(norms)
        if peak:
            got[1] = peak(norms)
        if speed:
            got[2] = speed(right, steps, of)
        return tuple(got)

    return student


def first(right, steps, of, met=lambda share: share >= 0.9):
    return next((s for r, s in zip(right, steps, strict=True) if met(r / of)), None)


def or_else(value):
    """Right where 90 % is reached; value where it is not."""
    return lambda right, steps, of: 1 / s if (s := first(right, steps, of)) else value(steps)


MEASURES = {
    "by the last": (measures(stability=lambda n: mean(n) / n[-1]), "divide by the FIRST norm"),
    "successive": (
        measures(stability=lambda n: mean(n[i + 1] / n[i] for i in range(len(n) - 1))),
        "not with the one before",
    ),
    "last over first": (measures(stability=lambda n: n[-1] / n[0]), "the last norm over the first"),
    "not divided": (measures(stability=mean), "that is the mean norm"),
    "sum": (
        measures(stability=lambda n: sum(v / n[0] for v in n)),
        "divide by the number of steps",
    ),
    "without step 1": (measures(stability=lambda n: mean(n[1:]) / n[0]), "step 1 counts"),
    "median": (measures(stability=lambda n: median(n) / n[0]), "that is the median"),
    "squared": (
        measures(stability=lambda n: mean((v / n[0]) ** 2 for v in n)),
        "not squared norms",
    ),
    "exchanged": (measures(stability=lambda n: max(n) / n[0]), "that is the peak"),
    "peak not divided": (measures(peak=max), "divide the largest norm by the first"),
    "peak by smallest": (measures(peak=lambda n: max(n) / min(n)), "not by the smallest"),
    "peak by mean": (measures(peak=lambda n: max(n) / mean(n)), "not by the mean"),
    "peak's place": (measures(peak=lambda n: n.index(max(n)) + 1), "the place of the largest"),
    "peak by the one before": (
        measures(peak=lambda n: max(n[i + 1] / n[i] for i in range(len(n) - 1))),
        "peak: each norm is compared with the first",
    ),
    "peak without step 1": (measures(peak=lambda n: max(n[1:]) / n[0]), "the first counts"),
    "four steps for ever": (
        measures(stability=lambda n: sum(n) / n[0] / 4),
        "stability of the norms 4, 2",
    ),
    "the step": (measures(speed=lambda r, s, of: first(r, s, of)), "one over the step"),
    "evaluations": (
        measures(speed=lambda r, s, of: 1 / (s.index(first(r, s, of)) + 1)),
        "that counts evaluations",
    ),
    "more than 90 %": (
        measures(speed=lambda r, s, of: 1 / first(r, s, of, lambda a: a > 0.9)),
        ">=, not >",
    ),
    "count for share": (measures(speed=lambda r, s, of: 1 / first(r, s, 1)), "a count is no share"),
    "best": (measures(speed=lambda r, s, of: 1 / s[r.index(max(r))]), "the FIRST time at 90 %"),
    "never: last step": (
        measures(speed=or_else(lambda s: 1 / s[-1])),
        "not one over its last step",
    ),
    "never: infinity": (measures(speed=or_else(lambda s: math.inf)), "not infinity"),
    "never: NaN": (measures(speed=or_else(lambda s: math.nan)), "not NaN"),
    "never: None": (measures(speed=or_else(lambda s: None)), "0.0, not None"),
    "of 400 for ever": (
        measures(speed=lambda r, s, of: 1 / f if (f := first(r, s, 400)) else 0.0),
        "reaches 90 % at step 10",
    ),
    "last time below": (
        measures(
            speed=lambda r, s, of: next(
                (1 / s[i] for i in range(len(r)) if all(v / of >= 0.9 for v in r[i:])),
                0.0,
            )
        ),
        "reaches 90 % at step 10 and falls back",
    ),
}


def interval(half, middle=lambda a, b: (a - b).mean()):
    return lambda a, b, t: (
        middle(a, b),
        middle(a, b) - half(a, b, t),
        middle(a, b) + half(a, b, t),
    )


def right_half(a, b, t):
    return t * (a - b).std() / len(a) ** 0.5


def as_numbers(a, b, t):
    return [value.item() for value in interval(right_half)(a, b, t)]


INTERVALS = {
    "unpaired": (
        interval(lambda a, b, t: t * (a.var() / len(a) + b.var() / len(b)).sqrt()),
        "the seeds are paired",
    ),
    "of single differences": (interval(lambda a, b, t: t * (a - b).std()), "smaller by sqrt(n)"),
    "divided by n": (
        interval(lambda a, b, t: t * (a - b).std(correction=0) / len(a) ** 0.5),
        "by n - 1",
    ),
    "normal": (
        interval(lambda a, b, t: 1.96 * (a - b).std() / len(a) ** 0.5),
        "with five seeds use t",
    ),
    "standard error": (interval(lambda a, b, t: (a - b).std() / len(a) ** 0.5), "multiply by t"),
    "n for root": (
        interval(lambda a, b, t: t * (a - b).std() / len(a)),
        "divide by sqrt(n), not by n",
    ),
    "root of n - 1": (
        interval(lambda a, b, t: t * (a - b).std() / (len(a) - 1) ** 0.5),
        "already in the standard deviation",
    ),
    "range": (interval(lambda a, b, t: ((a - b).max() - (a - b).min()) / 2), "the range's half"),
    "variance": (interval(lambda a, b, t: t * (a - b).var() / len(a) ** 0.5), "take its root"),
    "one-sided": (interval(lambda a, b, t: 2.132 * (a - b).std() / len(a) ** 0.5), "has two ends"),
    "b - a": (interval(right_half, lambda a, b: (b - a).mean()), "positive must mean"),
    "without signs": (interval(right_half, lambda a, b: (a - b).abs().mean()), "keep the signs"),
    "median": (interval(right_half, lambda a, b: (a - b).median()), "that is the median"),
    "sum": (interval(right_half, lambda a, b: (a - b).sum()), "divide by the number of seeds"),
    "ends exchanged": (interval(lambda a, b, t: -right_half(a, b, t)), "the ends are exchanged"),
    "half the width": (
        lambda a, b, t: ((a - b).mean(), right_half(a, b, t), 0.0),
        "half the width",
    ),
    "low of five for ever": (
        lambda a, b, t: (
            (a - b).mean(),
            (a - b).mean() - t * (a - b).std() / 5**0.5,
            (a - b).mean() + right_half(a, b, t),
        ),
        "low for three seeds",
    ),
    "five for ever": (interval(lambda a, b, t: t * (a - b).std() / 5**0.5), "for three seeds"),
}


def choose(score, phase="tuning", pick=max):
    def student(runs):
        rates = sorted({run["lr"] for run in runs})
        return pick(
            rates,
            key=lambda rate: score(
                [r for r in runs if r["lr"] == rate and phase in (r["phase"], "any")]
            ),
        )

    return student


def last(run):
    return run["validation"][-1] if run["validation"] and not run["diverged"] else 0


def of_equals_the_higher(runs):
    return choose(
        lambda group: mean(map(last, group)), pick=lambda rates, key: max(rates[::-1], key=key)
    )(runs)


def best_count(runs):
    rate = solved("fair_rate")(runs)
    return mean(last(run) for run in runs if run["lr"] == rate and run["phase"] == "tuning")


RATES = {
    "on the test digits": (
        choose(lambda g: mean(r["test_right"] for r in g)),
        "best on the TEST digits",
    ),
    "on the final seeds": (
        choose(lambda g: mean(map(last, g)), "final"),
        "best on the FINAL seeds",
    ),
    "on all runs": (choose(lambda g: mean(map(last, g)), "any"), "were mixed"),
    "best seed": (choose(lambda g: max(map(last, g))), "the best single seed"),
    "diverged not seen": (
        choose(lambda g: mean(r["validation"][-1] if r["validation"] else 0 for r in g)),
        "a diverged run counts as 0, whatever",
    ),
    "survivors": (
        choose(lambda g: mean([r["validation"][-1] for r in g if not r["diverged"]] or [0])),
        "rewards rates that diverge",
    ),
    "best moment": (
        choose(lambda g: mean(0 if r["diverged"] else max(r["validation"]) for r in g)),
        "the best moment",
    ),
    "training digits": (
        choose(lambda g: mean(r["train_right"] for r in g)),
        "fits the TRAINING digits",
    ),
    "training loss": (
        choose(lambda g: -mean(math.inf if r["loss"] is None else r["loss"] for r in g)),
        "lowest training loss",
    ),
    "the higher of equals": (of_equals_the_higher, "take the lower"),
    "the largest": (lambda runs: max(run["lr"] for run in runs), "the largest rate"),
    "the count": (best_count, "return the rate that earned it"),
    "the first met of equals": (
        lambda runs: max(
            {run["lr"]: 0 for run in runs},
            key=lambda rate: mean(
                last(r) for r in runs if (r["lr"], r["phase"]) == (rate, "tuning")
            ),
        ),
        "take the lower",
    ),
    "always 0.003": (lambda runs: 0.003, "when 0.003 and 0.005 were not tried"),
    "empty curve": (choose(lambda g: mean(r["validation"][-1] for r in g)), "raised IndexError"),
}


def power(factor, exponent=lambda sizes, depth: depth - 1, start=0):
    return lambda sizes, depth: sizes[start] * factor(sizes) ** exponent(sizes, depth)


def geometric(sizes):
    return (sizes[-1] / sizes[0]) ** (1 / (len(sizes) - 1))


SIZES = {
    "depth factors": (power(geometric, lambda s, depth: depth), "depth - 1 factors"),
    "fifth root": (power(lambda s: (s[-1] / s[0]) ** (1 / len(s))), "four steps between them"),
    "arithmetic": (power(lambda s: (s[1:] / s[:-1]).mean()), "geometric mean"),
    "straight line": (
        lambda s, d: s[0] + (s[-1] - s[0]) / (len(s) - 1) * (d - 1),
        "a straight line",
    ),
    "last pair": (power(lambda s: s[-1] / s[-2]), "one pair of layers"),
    "first pair": (power(lambda s: s[1] / s[0]), "the first two layers"),
    "upside down": (power(lambda s: 1 / geometric(s)), "upside down"),
    "from the last": (power(geometric, start=-1), "from the LAST layer"),
    "factor alone": (lambda s, d: geometric(s), "now let it act"),
    "ratio": (lambda s, d: geometric(s) ** (d - 1), "the ratio to layer 1"),
    "no root": (power(lambda s: s[-1] / s[0]), "the root is missing"),
    "zero": (lambda s, d: 0.0, "is off by"),
}


def named(table):
    return pytest.mark.parametrize(("answer", "message"), table.values(), ids=table)


@named(MEASURES)
def test_measures(answer, message):
    assert message in check.measures(answer)


@named(INTERVALS)
def test_interval(answer, message):
    assert message in check.interval(answer)


@named(RATES)
def test_fair_rate(answer, message):
    assert message in check.fair_rate(answer)


@named(SIZES)
def test_extrapolate(answer, message):
    assert message in check.extrapolate(answer)


def test_every_leak_prefers_a_rate_of_its_own():
    runs = check.made_up_runs()
    rates = sorted({run["lr"] for run in runs})
    chosen = [
        max(rates, key=lambda rate: score([run for run in runs if run["lr"] == rate]))
        for score in check.LEAKS.values()
    ]
    assert len({*chosen, 0.003, 0.005, max(rates)}) == len(check.LEAKS) + 3


def logarithms(sizes, depth):
    rate = sizes.log().diff().mean()
    return (sizes[0].log() + (depth - 1) * rate).exp()


ACCEPTED = {
    "speeds by a loop": (check.measures, measures(speed=or_else(lambda steps: 0.0))),
    "an interval of numbers": (check.interval, as_numbers),
    "by logarithms": (check.extrapolate, logarithms),
    "by a sorted table": (check.fair_rate, choose(lambda g: sum(map(last, g)))),
}


@pytest.mark.parametrize(("accepts", "answer"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_written_otherwise_is_accepted(accepts, answer):
    assert accepts(answer).startswith("[ok]")
