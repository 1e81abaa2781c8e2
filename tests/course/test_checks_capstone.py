"""The checks of lesson 08 name the slips people make."""

import math
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import numpy
import pytest
import torch

from normcourse import capstone
from normcourse.checks import capstone as check
from tests.course.solutions import load

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RECORDS = NOTEBOOKS / "records"
CHOOSE = NOTEBOOKS / "reference" / "choose.md"  # the lesson's card
pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def solved(name):
    return load("08_capstone")[name]


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
        "for a known spread",
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
        "not always 5",
    ),
    "five for ever": (interval(lambda a, b, t: t * (a - b).std() / 5**0.5), "not always 5"),
    "2.776 for ever": (
        interval(lambda a, b, t: 2.776 * (a - b).std() / len(a) ** 0.5),
        "not always 2.776",
    ),
    "sorted": (
        lambda a, b, t: interval(right_half)(a.sort().values, b.sort().values, t),
        "do not sort",
    ),
    "pooled spread": (
        interval(lambda a, b, t: t * ((a.var() + b.var()) / 2).sqrt() / len(a) ** 0.5),
        "pools the spreads of a and b",
    ),
    "pooled, for two samples": (
        interval(lambda a, b, t: t * ((a.var() + b.var()) / 2).sqrt() * (2 / len(a)) ** 0.5),
        "the seeds are paired",
    ),
    "all in one heap": (
        interval(lambda a, b, t: t * torch.cat([a, b]).std() / len(a) ** 0.5),
        "in one heap, a's and b's",
    ),
    "one heap of 2 n": (
        interval(lambda a, b, t: t * torch.cat([a, b]).std() / (2 * len(a)) ** 0.5),
        "the root of 2 n",
    ),
    "half as wide": (interval(lambda a, b, t: right_half(a, b, t) / 2), "to EACH side"),
    "twice as wide": (interval(lambda a, b, t: 2 * right_half(a, b, t)), "yours is twice that"),
    "low is the mean": (
        lambda a, b, t: ((a - b).mean(), *interval(right_half)(a, b, t)[::2]),
        "low: that is the mean",
    ),
    "round 0": (
        lambda a, b, t: ((a - b).mean(), -right_half(a, b, t), right_half(a, b, t)),
        "low: that lies half the width from 0",
    ),
    "spread of b": (interval(lambda a, b, t: t * b.std() / len(a) ** 0.5), "of b alone"),
    "mean absolute deviation": (
        interval(lambda a, b, t: t * (a - b - (a - b).mean()).abs().mean() / len(a) ** 0.5),
        "a mean absolute deviation",
    ),
    "difference of spreads": (
        interval(lambda a, b, t: t * (a.std() - b.std()) / len(a) ** 0.5),
        "a difference of two spreads",
    ),
    "spread of a": (interval(lambda a, b, t: t * a.std() / len(a) ** 0.5), "of a alone"),
    "low first": (
        lambda a, b, t: sorted(interval(right_half)(a, b, t)),
        "yours begins with low",
    ),
    "single differences": (
        lambda a, b, t: ((a - b).mean(), (a - b).min(), (a - b).max()),
        "the outermost single difference",
    ),
}


def choose(score, phase="tuning", pick=max):
    def student(runs):
        rates = sorted({run.lr for run in runs})
        return pick(
            rates,
            key=lambda rate: score([r for r in runs if r.lr == rate and phase in (r.phase, "any")]),
        )

    return student


def last(run):
    return run.validation[-1] if run.validation and not run.diverged else 0


def of_equals_the_higher(runs):
    return choose(
        lambda group: mean(map(last, group)), pick=lambda rates, key: max(rates[::-1], key=key)
    )(runs)


def best_count(runs):
    rate = solved("fair_rate")(runs)
    return mean(last(run) for run in runs if run.lr == rate and run.phase == "tuning")


RATES = {
    "on the test digits": (
        choose(lambda g: mean(r.test_right for r in g)),
        "best on the TEST digits",
    ),
    "on the final seeds": (
        choose(lambda g: mean(map(last, g)), "final"),
        "best on the FINAL seeds",
    ),
    "on all runs": (choose(lambda g: mean(map(last, g)), "any"), "were mixed"),
    "best seed": (choose(lambda g: max(map(last, g))), "the best single seed"),
    "worst seed": (choose(lambda g: min(map(last, g))), "the best WORST seed"),
    "diverged not seen": (
        choose(lambda g: mean(r.validation[-1] if r.validation else 0 for r in g)),
        "a diverged run counts as 0, whatever",
    ),
    "survivors": (
        choose(lambda g: mean([r.validation[-1] for r in g if not r.diverged] or [0])),
        "rewards rates that diverge",
    ),
    "best moment": (
        choose(lambda g: mean(0 if r.diverged else max(r.validation) for r in g)),
        "the best moment",
    ),
    "over time": (
        choose(lambda g: mean(0 if r.diverged else mean(r.validation) for r in g)),
        "a mean over TIME",
    ),
    "first count": (
        choose(lambda g: mean(0 if r.diverged else r.validation[0] for r in g)),
        "the FIRST validation count",
    ),
    "two of the seeds": (choose(lambda g: mean(map(last, g[:2]))), "mean over some of the seeds"),
    "mean less spread": (
        choose(lambda g: mean(map(last, g)) - stdev(map(last, g))),
        "the mean less its spread",
    ),
    "rounded": (choose(lambda g: round(mean(map(last, g)))), "do not round"),
    "training digits": (
        choose(lambda g: mean(r.train_right for r in g)),
        "fits the TRAINING digits",
    ),
    "training loss": (
        choose(lambda g: -mean(math.inf if r.loss is None else r.loss for r in g)),
        "lowest training loss",
    ),
    "the higher of equals": (of_equals_the_higher, "take the lower"),
    "the largest": (lambda runs: max(run.lr for run in runs), "the largest rate"),
    "the count": (best_count, "return the rate that earned it"),
    "the first met of equals": (
        lambda runs: max(
            {run.lr: 0 for run in runs},
            key=lambda rate: mean(last(r) for r in runs if (r.lr, r.phase) == (rate, "tuning")),
        ),
        "take the lower",
    ),
    "sum": (choose(lambda g: sum(map(last, g))), "take the mean, no sum"),
    "always 0.003": (lambda runs: 0.003, "every call gives the result of the first one"),
    "empty curve": (choose(lambda g: mean(r.validation[-1] for r in g)), "run that overflowed"),
    "no loss": (lambda runs: min(runs, key=lambda run: run.loss).lr, "run that overflowed"),
    "no best moment": (
        choose(lambda g: mean(max(r.validation) for r in g)),
        "run that overflowed",
    ),
    "an error in every run": (
        choose(lambda g: mean(r.validation for r in g)),
        "pick one number of it first",
    ),
}


def named(table):
    return pytest.mark.parametrize(("answer", "message"), table.values(), ids=table)


@named(INTERVALS)
def test_interval(answer, message):
    assert message in check.interval(answer)


@named(RATES)
def test_fair_rate(answer, message):
    assert message in check.fair_rate(answer)


def test_every_leak_prefers_a_rate_of_its_own():
    runs = check.made_up_runs()
    rates = sorted({run.lr for run in runs})
    chosen = [
        max(rates, key=lambda rate: score([run for run in runs if run.lr == rate]))
        for score in check.LEAKS.values()
    ]
    assert len({*chosen, 0.003, 0.005, max(rates)}) == len(check.LEAKS) + 3


def chooser(good, by=torch.mean):
    def choose(results, costs, t, margin):
        best = max(results, key=lambda name: by(results[name]))
        fine = {n for n in results if n == best or good(results[n] - results[best], t, margin)}
        return min(fine, key=costs.get)

    return choose


def low_end(d, t):
    return d.mean() - t * d.std() / len(d) ** 0.5


def by_gap(results, costs, t, margin):
    """The best mean for its cost."""
    return max(results, key=lambda name: results[name].mean() / costs[name])


def best_among_cheap(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())
    fine = [n for n in results if n != best and low_end(results[n] - results[best], t) > -margin]
    return min(fine, key=costs.get)


def first_that_qualifies(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())
    for name in results:
        if name == best or low_end(results[name] - results[best], t) > -margin:
            return name


def last_that_qualifies(results, costs, t, margin):
    """The costs are ignored."""
    best = max(results, key=lambda name: results[name].mean())
    chosen = best
    for name in results:
        if name == best or low_end(results[name] - results[best], t) > -margin:
            chosen = name
    return chosen


def dearest(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())
    fine = [n for n in results if n == best or low_end(results[n] - results[best], t) > -margin]
    return max(fine, key=costs.get)


def compared_with_the_second(results, costs, t, margin):
    *_, second, best = sorted(results, key=lambda name: results[name].mean())
    others = set(results) - {second, best}
    fine = [n for n in others if low_end(results[n] - results[second], t) > -margin]
    return min([*fine, second, best], key=costs.get)


def unpaired(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())

    def low(name):
        a, b = results[name], results[best]
        return a.mean() - b.mean() - t * (a.var() / len(a) + b.var() / len(b)) ** 0.5

    return min((n for n in results if n == best or low(n) > -margin), key=costs.get)


def two_low_ends(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())
    least = low_end(results[best], t) - margin
    return min((n for n in results if n == best or low_end(results[n], t) > least), key=costs.get)


def own_spread(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())

    def low(name):
        a = results[name]
        return a.mean() - results[best].mean() - t * a.std() / len(a) ** 0.5

    return min((n for n in results if n == best or low(n) > -margin), key=costs.get)


def kept_choice():
    kept = []

    def choose(*given):
        kept.append(solved("choose")(*given))
        return kept[0]

    return choose


CHOICES = {
    "cheapest": (lambda results, costs, t, margin: min(costs, key=costs.get), "cheapest of all"),
    "no key": (lambda results, costs, t, margin: min(costs), "min and max compare names"),
    "best": (
        lambda results, costs, t, margin: max(results, key=lambda n: results[n].mean()),
        "that is the best mean",
    ),
    "interval holds 0": (
        chooser(lambda d, t, margin: d.mean().abs() < t * d.std() / len(d) ** 0.5),
        "'no difference seen' is not 'equal'",
    ),
    "high end": (
        chooser(lambda d, t, margin: d.mean() + t * d.std() / len(d) ** 0.5 > -margin),
        "the low end has to",
    ),
    "mean within": (chooser(lambda d, t, margin: d.mean() > -margin), "its interval is not"),
    "standard error": (
        chooser(lambda d, t, margin: low_end(d, 1) > -margin),
        "one standard error",
    ),
    "normal": (chooser(lambda d, t, margin: low_end(d, 1.96) > -margin), "1.96"),
    "t of ten for ever": (
        chooser(lambda d, t, margin: low_end(d, 2.262) > -margin),
        "t is an argument, and not always 2.262",
    ),
    "margin 2 for ever": (
        chooser(lambda d, t, margin: low_end(d, t) > -2),
        "margin is an argument, and not always 2",
    ),
    "2.776 for ever": (
        chooser(lambda d, t, margin: low_end(d, 2.776) > -margin),
        "not always 2.776",
    ),
    "the first that qualifies": (first_that_qualifies, "the first name that qualifies"),
    "spread of one difference": (
        chooser(lambda d, t, margin: d.mean() - t * d.std() > -margin),
        "smaller by sqrt(n)",
    ),
    "without the best": (best_among_cheap, "raised ValueError"),
    "value for money": (by_gap, "cheapest of all"),
    "a place": (lambda results, costs, t, margin: 6, "is an int, expected a name in quotes"),
    "no such name": (lambda results, costs, t, margin: "Zeta", "the choice is 'Zeta', and it"),
    # accepted before: costs ignored, numpy's spread, the median
    "the last that qualifies": (last_that_qualifies, "the last name that qualifies"),
    "numpy's spread": (
        chooser(lambda d, t, margin: d.mean() - t * numpy.std(d.numpy()) / len(d) ** 0.5 > -margin),
        "divide the squares by n - 1",
    ),
    "best by median": (
        chooser(lambda d, t, margin: low_end(d, t) > -margin, by=torch.median),
        "the largest MEAN; you took the median",
    ),
    # named as another mistake before, because it chose the same name
    "a variance": (
        chooser(lambda d, t, margin: d.mean() - t * d.var() / len(d) ** 0.5 > -margin),
        "that is a variance; take its root",
    ),
    "a variance over n": (
        chooser(lambda d, t, margin: d.mean() - t * d.var() / len(d) > -margin),
        "take the root of both",
    ),
    "ten seeds built in": (
        chooser(lambda d, t, margin: d.mean() - t * d.std() / 10**0.5 > -margin),
        "not always 10",
    ),
    "five seeds built in": (
        chooser(lambda d, t, margin: d.mean() - t * d.std() / 5**0.5 > -margin),
        "not always 5",
    ),
    "second best": (
        lambda results, costs, t, margin: sorted(results, key=lambda n: results[n].mean())[-2],
        "the second best mean",
    ),
    "root of n - 1": (
        chooser(lambda d, t, margin: d.mean() - t * d.std() / (len(d) - 1) ** 0.5 > -margin),
        "n - 1 is already in the standard deviation",
    ),
    "n for its root": (
        chooser(lambda d, t, margin: d.mean() - t * d.std() / len(d) > -margin),
        "divide by sqrt(n), not by n",
    ),
    "median of d": (
        chooser(lambda d, t, margin: d.median() - t * d.std() / len(d) ** 0.5 > -margin),
        "you took their median",
    ),
    "turned round": (chooser(lambda d, t, margin: low_end(-d, t) > -margin), "is turned round"),
    "a narrow interval": (
        chooser(lambda d, t, margin: t * d.std() / len(d) ** 0.5 < margin),
        "a narrow interval is not enough",
    ),
    "worst seed": (chooser(lambda d, t, margin: d.min() > -margin), "the worst single difference"),
    "the dearest": (dearest, "the dearest that qualifies"),
    "compared with the second": (compared_with_the_second, "compares with the second best"),
    "sorted": (
        lambda results, *others: solved("choose")(
            {name: values.sort().values for name, values in results.items()}, *others
        ),
        "do not sort",
    ),
    "unpaired": (unpaired, "the seeds are paired"),
    "its own spread": (own_spread, "the spread of the contender"),
    "two low ends": (two_low_ends, "the low ends of two intervals"),
    "two mistakes": (
        chooser(lambda d, t, margin: d.median() - 2 * d.var() > -margin),
        "the choice",
    ),
    "the first choice for ever": (kept_choice(), "every call gives the result of the first one"),
}


@named(CHOICES)
def test_choose(answer, message):
    assert message in check.choose(answer)


def design(**changes):
    return solved("my_protocol") | changes


PROTOCOLS = {
    "no dict": (["dyt", "none"], "a protocol is a dict"),
    "seed for both": ({"seeds": [100, 101, 20, 21, 22]}, "cannot judge it"),
    "seen": ({"seeds": [0, 1, 2, 3, 4]}, "nobody has seen"),
    "seen when the records chose": (
        {"tuning_seeds": [200, 201], "seeds": [100, 20, 21, 22, 23]},
        "nobody has seen",
    ),
    "three seeds": ({"seeds": [20, 21, 22]}, "take five at least"),
    "one tuning seed": ({"tuning_seeds": [100]}, "one run a rate is luck"),
    "the same seed twice": ({"seeds": [20, 20, 21, 22, 23]}, "the same run twice"),
    "one rate": ({"rates": [0.1]}, "fewer than three"),
    "rates far apart": ({"rates": [0.01, 0.1, 1.0]}, "four times apart"),
    "rates too close": ({"rates": [0.1, 0.2, 0.3]}, "factor of 8"),
    # accepted before, although nobody could defend them
    "rates at which nothing moves": ({"rates": [1e-9, 3e-9, 9e-9]}, "no best rate"),
    "rates at which all is lost": ({"rates": [3.0, 9.0, 27.0]}, "yours go from 3 to 27"),
    "the best ends the list": ({"rates": [0.03, 0.1, 0.3]}, "begin below it and end above it"),
    "the best begins the list": ({"rates": [0.3, 1.0, 3.0]}, "begin below it and end above it"),
    "the best of one alone": (
        {"contenders": ["derf", "none"]},
        "the best one for none in residual_sgd was 0.01",
    ),
    "a rate that is True": ({"rates": [True, 0.3, 0.1]}, "numbers above 0"),
    "a margin of no digit": ({"margin": 0.0001}, "less than one picture"),
    "a rate of 0": ({"rates": [0.0, 0.1, 0.3]}, "numbers above 0"),
    "no margin given": ({"margin": 0}, "how many points"),
    "margin 50": ({"margin": 50}, "how many points"),
    "three contenders": ({"contenders": ["dyt", "none", "derf"]}, "two different ones"),
    "twice the same": ({"contenders": ["dyt", "dyt"]}, "two different ones"),
    "unknown": ({"contenders": ["dyt", "tanh"]}, "no contender"),
    "no name": ({"contenders": [["dyt"], "none"]}, "no contender"),
    "no shortcut": ({"contenders": ["skip_init", "none"], "setting": "mlp"}, "needs shortcuts"),
    "no attention": ({"contenders": ["qk_norm", "none"]}, "no place in this net"),
    "tuned slope": ({"contenders": ["dyt_tuned", "none"]}, "slope tuned as well"),
    "too much": ({"seeds": list(range(20, 80))}, "budget is 60 s"),
    "another net": ({"setting": "resnet"}, "one of mlp"),
    "no question": ({"question": "DyT?"}, "the sentence that the trial is to decide"),
    "a question about nothing": (
        {"question": "hello world is this a question?"},
        "does not name this net (residual, SGD)",
    ),
    "a question about another net": (
        {"question": "is Derf better than DyT in the CNN?"},
        "does not name this net",
    ),
    "a question with SGD, a setting with Adam": (
        {"setting": "residual", "rates": [0.003, 0.01, 0.03]},
        "does not name this net (residual MLP)",
    ),
    "a question about others": (
        {"question": "is LN better than DyT in the residual MLP with SGD?"},
        "'derf' competes",
    ),
    "a place is no LayerNorm": (
        {
            "question": "is DyT better in Pre-LN?",
            "setting": "pre",
            "contenders": ["dyt", "layer_norm"],
            "rates": [0.003, 0.01, 0.03],
        },
        "'layer_norm' competes",
    ),
    "three words": ({"question": "sgd dyt derf"}, "the sentence that the trial is to decide"),
    "two nets": (
        {"question": "is Derf better than DyT with SGD or in the CNN?"},
        "names two nets",
    ),
    "the same rate twice": ({"rates": [0.1, 0.1, 0.3, 1.0]}, "the same rate twice"),
    "a seed below 0": ({"seeds": [-1, 20, 21, 22, 23]}, "from 0 on"),
    "rates as text": ({"rates": "0.1"}, "shows its form"),
}


@named(PROTOCOLS)
def test_protocol(answer, message):
    answer = design(**answer) if isinstance(answer, dict) else answer
    assert message in check.protocol(answer)


@pytest.mark.parametrize("name", check.FIELDS)
def test_a_protocol_without_a_field_is_named(name):
    rest = {key: value for key, value in design().items() if key != name}
    assert f"{name} is missing" in check.protocol(rest)


def tuned_by_a_table(runs):
    return choose(lambda group: sum(map(last, group)) / len(group))(runs)


def filled(**changes):
    return solved("my_card") | changes


def sure(**changes):
    return {"sure": solved("my_card")["sure"] | changes}


BATCH_NORM = {"norm": "batch_norm", "batch": 64, "convert": "no", "convert_from": "none"}
DYT = {"norm": "dyt", "eps": None, "mean_square": None}
NO_NORM = {
    "norm": "none",
    "eps": None,
    "mean_square": None,
    "gain": "none",
    "convert": "no",
    "convert_from": "none",
}
MEASURED_NORM = sure(norm="measured here")
CARDS = {
    "no dict": ("rms_norm", "a card is a dict"),
    "empty": ({}, "model is missing"),
    "no model": (filled(model="GPT"), "say in a sentence"),
    "no batch": (filled(batch=0), "a whole number from 1 on"),
    "half a batch": (filled(batch=0.5), "a whole number from 1 on"),
    "another norm": (filled(norm="RMSNorm"), "norm is 'RMSNorm'; one of"),
    "another dtype": (filled(statistics="half"), "statistics is 'half'; one of"),
    "eps left to the default": (filled(eps=None), "Without one a default decides"),
    "nothing measured": (filled(mean_square=0), "mean_square: a number above 0"),
    "eps is the size": (filled(eps=1e-5, mean_square=1e-6), "does not normalize"),
    "eps above a hundredth": (filled(eps=0.4, mean_square=0.5), "shrinks the output by 25 %"),
    "eps just above a hundredth": (filled(eps=0.0051, mean_square=0.5), "a hundredth of"),
    "squares added in float16": (filled(statistics="float16"), "float16 ends at 65504"),
    "squares added in bfloat16": (filled(statistics="bfloat16"), "8 significant bits"),
    "BatchNorm for two": (
        filled(norm="batch_norm", batch=2, convert="no", convert_from="none"),
        "with 2 pictures a step",
    ),
    "eps that is 0": (filled(eps=1e-8, statistics="float16"), "is 0 in float16"),
    "squares that overflow": (
        filled(mean_square=90000.0, statistics="float16"),
        "is infinite in float16",
    ),
    "an eps for DyT": (filled(norm="dyt"), "dyt divides by nothing"),
    "a mean square for DyT": (filled(norm="dyt", eps=None), "dyt has no eps beside it"),
    "another input": (filled(reads="mails"), "reads is 'mails'; one of"),
    "BatchNorm for text": (filled(**BATCH_NORM), "for text the card above has RMSNorm"),
    "Post-LN by the course": (
        filled(**BATCH_NORM, reads="images", place="after", **sure(place="measured here")),
        "speaks against 'after'",
    ),
    "a curve after the sum by the course": (
        filled(**DYT, place="after", convert="no", convert_from="none", **MEASURED_NORM),
        "DyT is 6.92 points worse",
    ),
    "BatchNorm for three by the course": (
        filled(**BATCH_NORM | {"batch": 3}, reads="other", **MEASURED_NORM),
        "with 64 and with 2 pictures a step, and not with 3",
    ),
    "decay by the course": (
        filled(decay_on_gains=True, **sure(decay_on_gains="measured here")),
        "cost digits",
    ),
    "all measured here": (
        filled(sure=dict.fromkeys(check.ROWS, "measured here")),
        "eps is 'measured here', and the card above says 'proven' or 'reported' there",
    ),
    "a float that is reported": (filled(**sure(statistics="reported")), "says 'proven' there"),
    "BatchNorm for one": (filled(norm="batch_norm", batch=1), "the spread of one sample"),
    "no norm, somewhere": (filled(**NO_NORM), "do not go together"),
    "a norm, nowhere": (filled(place="none"), "do not go together"),
    "a gain of nothing": (filled(**NO_NORM | {"gain": "w", "place": "none"}), "who has the gain"),
    "nothing that decays": (filled(gain="none", decay_on_gains=True), "no gain that could decay"),
    "from nowhere": (filled(convert_from="none"), "a norm that it comes from"),
    "without a way": (filled(convert="no"), "a norm that it comes from"),
    "into itself": (filled(convert_from="rms_norm"), "nothing to convert"),
    "a fold into DyT": (filled(**DYT), "nothing folds layer_norm into dyt"),
    "a fold in Post-LN": (filled(place="after"), "exact for Pre-LN"),
    "sure in one word": (filled(sure="reported"), "sure: a dict"),
    "a row left out": (filled(sure={"norm": "reported"}), "place is None"),
    "another kind": (filled(**sure(eps="certain")), "eps is 'certain'"),
    "a norm proven best": (filled(**sure(norm="proven")), "cannot be 'proven'"),
    "all guessed": (filled(sure=dict.fromkeys(check.ROWS, "a guess")), "all rows are guesses"),
}


@named(CARDS)
def test_card(answer, message):
    assert message in check.card(answer)


@pytest.mark.parametrize("name", check.CARD)
def test_a_card_without_a_field_is_named(name):
    rest = {key: value for key, value in filled().items() if key != name}
    assert f"{name} is missing" in check.card(rest)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"eps": 1e-8},  # in float32 it is not 0
        {"eps": 0.005, "mean_square": 0.5},  # a hundredth
        BATCH_NORM | {"reads": "images"},
        BATCH_NORM | sure(norm="my own trial"),
        BATCH_NORM | {"reads": "images"} | MEASURED_NORM,
        DYT | {"convert": "no", "convert_from": "none"} | MEASURED_NORM,  # before the branch
        NO_NORM | {"place": "none"} | sure(convert="a guess"),
        NO_NORM | {"place": "none"} | sure(convert="reported"),  # nothing is converted
        DYT | {"convert": "replace and train"} | sure(convert="measured here"),
        NO_NORM | {"place": "none", "convert": "fold", "convert_from": "batch_norm"},
        {"decay_on_gains": True} | sure(decay_on_gains="disputed"),
    ],
)
def test_another_card_is_accepted_too(other):
    assert check.card(filled(**other)).startswith("[ok]")


CARD_ROWS = {  # how the card names what the check calls a row
    "norm": "norm",
    "place": "place",
    "ε": "eps",
    "dtype": "statistics",
    "weight decay on gains": "decay_on_gains",
    "fused or not": "code",
    "convert": "convert",
}


def test_how_sure_the_card_is_stands_in_the_check():
    said = {row: set() for row in check.ROWS}
    for line in CHOOSE.read_text("utf-8").splitlines():
        if found := re.match(r"\| \*\*(.+?)\*\*.*\|(.+)\|$", line):
            kinds = {kind for kind in check.KINDS if f"*{kind}*" in found[2]}
            said[CARD_ROWS[found[1]]] |= kinds
    for row in check.NOT_PROVEN:
        said[row] -= {"proven"}  # what is proven there is no choice
    assert said == {row: set(words) for row, words in check.CARD_WORDS.items()}


def sorted_by_cost(results, costs, t, margin):
    best = max(results, key=lambda name: results[name].mean())
    for name in sorted(costs, key=costs.get):
        if name == best or low_end(results[name] - results[best], t) > -margin:
            return name


def by_numpy(results, costs, t, margin):
    table = numpy.array([values.tolist() for values in results.values()])
    names = numpy.array(list(results))
    d = table - table[table.mean(1).argmax()]
    low = d.mean(1) - t * d.std(1, ddof=1) / math.sqrt(d.shape[1])
    return min(names[low > -margin], key=lambda name: costs[name])


def by_fractions(results, costs, t, margin):
    exact = {n: [Fraction(x) for x in values.tolist()] for n, values in results.items()}
    best = max(exact, key=lambda name: mean(exact[name]))

    def qualifies(name):
        d = [a - b for a, b in zip(exact[name], exact[best], strict=True)]
        return mean(d) + Fraction(margin) > t * stdev(d) / len(d) ** 0.5

    return min(filter(qualifies, exact), key=costs.__getitem__)


def interval_by_statistics(a, b, t):
    d = [x - y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    half = t * stdev(d) / math.sqrt(len(d))
    return [mean(d), mean(d) - half, mean(d) + half]


def interval_in_float32(a, b, t):
    d = (a - b).float()
    half = t * d.std() / len(d) ** 0.5
    return d.mean(), d.mean() - half, d.mean() + half


class Rate:
    """An object that is called."""

    def __call__(self, runs):
        found = {}
        for run in sorted(runs, key=lambda run: run.lr):
            if run.phase == "tuning":
                found.setdefault(run.lr, []).append(last(run))
        return max(found, key=lambda rate: Fraction(sum(found[rate]), len(found[rate])))


ACCEPTED = {
    "a choice by numpy": (check.choose, by_numpy),
    "a choice by fractions": (check.choose, by_fractions),
    "the lesson's choice, bound": (check.choose, partial(sorted_by_cost)),
    "an interval by statistics": (check.interval, interval_by_statistics),
    "an interval in float32": (check.interval, interval_in_float32),
    "a rate by an object": (check.fair_rate, Rate()),
    "a rate by shares": (check.fair_rate, choose(lambda g: sum(last(r) / 397 for r in g) / len(g))),
    "an interval of numbers": (check.interval, as_numbers),
    "by a sorted table": (check.fair_rate, tuned_by_a_table),
    "the first in order of cost": (check.choose, sorted_by_cost),
}


@pytest.mark.parametrize(("accepts", "answer"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_written_otherwise_is_accepted(accepts, answer):
    assert accepts(answer).startswith("[ok]")


def test_ten_seeds_and_other_names_are_a_protocol_too():
    other = design(contenders=("derf", "layer_norm"), seeds=range(30, 40), rates=(0.1, 0.3, 1))
    other["question"] = "Derf and LayerNorm with SGD, are they equal?"
    assert check.protocol(other).startswith("[ok]")


ASKED = {
    ("pre", "dyt", "none"): "is DyT better than no norm in the Pre-LN Transformer?",
    ("post", "layer_norm", "rms_norm"): "LN or RMSNorm in post_ln?",
    ("residual", "batch_norm", "none"): "residual MLP, Adam and not SGD: BN against none",
    ("cnn", "group_norm", "batch_norm"): "does GroupNorm replace batch norm in the CNN?",
    ("mlp", "layer_norm", "none"): "is an MLP better with layer_norm than without?",
}


@pytest.mark.parametrize(("named", "question"), ASKED.items(), ids=map("-".join, ASKED))
def test_a_question_may_name_them_in_other_words(named, question):
    setting, *pair = named
    rates = (0.001, 0.003, 0.01, 0.03, 0.06)
    asked = design(question=question, setting=setting, contenders=pair, rates=rates)
    assert check.protocol(asked | {"seeds": range(20, 25)}).startswith("[ok]")


def test_the_best_rates_are_those_that_the_records_chose():
    trial = capstone.Trial(RECORDS)
    for net, usual in check.CHOSEN.items():
        for name in capstone.NAMES:
            chosen = {run.lr for run in trial.finals(net, name)}
            assert chosen <= {check.CHOSEN_BY.get((net, name), usual)}, (net, name)
