"""Checks of lesson 08: a fair rate, a paired interval, a choice, a protocol, a decision card.

Each table below maps what a check says to the wrong formula that earns it.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from statistics import mean, stdev
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw, training
from normcourse.checks import intervals
from normcourse.checks.probes import calls
from normcourse.checks.verdict import Slip, exercise
from normcourse.training.records import Run


def _final(run: Run) -> float:
    return run.validation[-1] if run.validation and not run.diverged else 0


def _over(phase: str, value: Callable, combine: Callable = mean) -> Callable:
    """A score of one rate: value of its runs of a phase, combined."""
    return lambda runs: combine([value(run) for run in runs if phase in (run.phase, "any")])


def _last_seen(run: Run) -> float:
    return run.validation[-1] if run.validation else 0


def _over_time(run: Run) -> float:
    return mean(run.validation) if run.validation and not run.diverged else 0


def _survivors(runs: list[Run]) -> float:
    alive = [run.validation[-1] for run in runs if run.phase == "tuning" and not run.diverged]
    return mean(alive) if alive else 0


LEAKS = {  # the score by which each wrong rate is the best
    "that rate is best on the TEST digits: "
    "whoever tunes on them reports a number chosen to be large.": (
        _over("tuning", lambda run: run.test_right)
    ),
    "that rate is best on the FINAL seeds: tune on other runs than the ones you report.": (
        _over("final", _final)
    ),
    "tuning and final runs were mixed: choose by the tuning runs alone.": _over("any", _final),
    "that rate has the best single seed: luck. Take the mean over the tuning seeds.": (
        _over("tuning", _final, max)
    ),
    "that rate has the best WORST seed. Take the mean over the tuning seeds.": (
        _over("tuning", _final, min)
    ),
    "a diverged run counts as 0, whatever it had reached before.": _over("tuning", _last_seen),
    "a diverged run counts as 0; leaving it out (or a median) "
    "rewards rates that diverge.": _survivors,
    "that rate had the best moment on the way; take the last validation count.": (
        _over("tuning", lambda run: 0 if run.diverged else max(run.validation, default=0))
    ),
    "that is a mean over TIME; take the last validation count of each run.": (
        _over("tuning", _over_time)
    ),
    "that is the FIRST validation count of each run; take the last.": (
        _over("tuning", lambda run: 0 if run.diverged else run.validation[0])
    ),
    "that is a mean over some of the seeds; take all tuning runs of each rate.": (
        _over("tuning", _final, lambda counts: sum(counts[:2]))
    ),
    "that is the mean less its spread; take the mean alone.": (
        _over("tuning", _final, lambda counts: mean(counts) - stdev(counts))
    ),
    "do not round the mean: two rates become equal that are not.": (
        _over("tuning", _final, lambda counts: round(mean(counts)))
    ),
    "that rate fits the TRAINING digits best; choose on validation.": (
        _over("tuning", lambda run: run.train_right)
    ),
    "that rate has the lowest training loss; choose on validation.": (
        _over("tuning", lambda run: -run.loss if run.loss is not None else -math.inf)
    ),
}


@exercise("Exercise 1 (a rate chosen fairly)", "counts as 0")
def fair_rate(student) -> None:
    """student(runs): the rate with the best mean validation count at the end of its tuning runs."""
    runs = made_up_runs()[::-1]  # of equals the lower comes last
    others = [run for run in runs if run.lr not in (0.003, 0.005)]
    shorter = [run for run in runs if run in others or run.seed != 102]
    fair = _over("tuning", _final)
    slips = {text: _best(score) for text, score in LEAKS.items()} | {
        "of two equal rates take the lower.": lambda runs: max(
            sorted(_by_rate(runs), reverse=True), key=lambda rate: fair(_by_rate(runs)[rate])
        ),
        "that is the largest rate; nothing chose it.": lambda runs: max(_by_rate(runs)),
        "that is a count of right digits; return the rate that earned it.": lambda runs: max(
            map(fair, _by_rate(runs).values())
        ),
        "a rate that was tried with fewer seeds is not worse: take the mean, no sum.": _best(
            _over("tuning", _final, sum)
        ),
    }
    cases = [{"runs": runs}, {"runs": others}, {"runs": shorter}]
    calls(_of_lost_runs(student), _best(fair), *cases, slips=slips, what="the rate")


def _of_lost_runs(student: Callable) -> Callable:
    """The student; an error that only runs which overflowed bring about is a Slip."""

    @functools.wraps(student)
    def watched(runs: list[Run]):
        try:
            return student(runs)
        except (TypeError, IndexError, ValueError) as error:
            try:
                student([run for run in runs if not run.diverged])
            except Exception:
                raise error from None
            raise Slip(
                "your rule breaks at a run that overflowed: its `loss` is None, and its "
                "`validation` may be empty. Such a run counts as 0, and validation chooses."
            ) from error

    return watched


def _by_rate(runs: list[Run]) -> dict[float, list[Run]]:
    return {rate: [run for run in runs if run.lr == rate] for rate in {r.lr for r in runs}}


def _best(score: Callable) -> Callable:
    """The lowest rate whose runs have the best score."""

    def rate(runs: list[Run]) -> float:
        grouped = _by_rate(runs)
        return max(sorted(grouped), key=lambda rate: score(grouped[rate]))

    return rate


EARLY = {
    0.0006: [345],
    0.0008: [350, 100],
    0.002: [200, 374],
}  # validation counts before the last; of others 300


def made_up_runs() -> list[Run]:
    """Tuning and final runs of a record, made so that every leak prefers a rate of its own."""
    # rate: last validation counts of three tuning runs, of the final runs, test, train, loss
    table = {
        0.0004: ((361, 330, 361), 337, 334, 945, 0.42),
        0.0005: ((340, 342, 341), 338, 335, 1000, 0.30),
        0.0006: ((344, 343, 345), 340, 336, 950, 0.38),
        0.0007: ((341, 343, 342), 340, 336, 960, 0.01),
        0.0008: ((339, 340, 338), 334, 330, 945, 0.40),
        0.0009: ((300, 356, 358), 332, 331, 945, 0.40),
        0.001: ((346, 347, 345), 341, 390, 960, 0.30),
        0.002: ((330, 332, 331), 333, 330, 950, 0.40),
        0.003: ((345, 357, 351), 345, 340, 955, 0.35),
        0.004: ((348, 348, 353), 342, 337, 952, 0.37),
        0.005: ((345, 357, 351), 344, 341, 956, 0.34),
        0.006: ((378, 379, 290), 330, 331, 945, 0.40),
        0.007: ((347, 349, 349), 335, 331, 945, 0.40),
        0.01: ((380, 340, 300), 338, 333, 950, 0.36),
        0.015: ((346, 353, 351), 358, 343, 957, 0.33),
        0.02: ((335, 336, 334), 365, 338, 951, 0.37),
        0.03: ((370, 372, 369), 0, 320, 940, 0.39),
        0.05: ((376, 377, None), 0, 310, 930, 0.41),
        0.1: ((210, 200, None), 0, 200, 500, 1.50),
    }
    unused: dict = dict.fromkeys(("gradient_first", "gradient_mean", "gradient_largest"))
    runs = []
    for rate, (last, final, test, train, loss) in table.items():
        common: dict = {"train_right": train, "test_right": test, **unused}
        for seed, right in zip((100, 101, 102), last, strict=True):
            early = EARLY.get(rate, [300])
            curve = [*early, right]
            common["validation"] = curve if right else []
            lost = right is None or (rate, seed) == (0.03, 102)
            outcome: dict = {"diverged": lost, "loss": None if lost else loss}
            runs.append(Run("rms_norm", "tuning", None, rate, seed, **outcome, **common))
        common["validation"] = [300, final]
        for seed in range(5):
            cell = ("rms_norm", "final", None, rate, seed)
            runs.append(Run(*cell, diverged=False, loss=loss, **common))
    return runs


FIRST = torch.tensor([361.0, 352.0, 329.0, 366.0, 343.0], dtype=torch.float64)
SECOND = torch.tensor([350.0, 347.0, 322.0, 351.0, 345.0], dtype=torch.float64)
T = 2.776  # 97.5 % point of Student's t with 4 degrees of freedom
HALF_WIDTHS = {  # of v: a, b, their differences d, their number n, t
    message: lambda v, wrong=wrong: wrong(v.d, v.t)
    for message, wrong in (intervals.HALVES | intervals.built_in(seeds=(5,), ts=(T,))).items()
} | {
    intervals.PAIRED: lambda v: intervals.unpaired(v.a, v.b, v.t),
    intervals.TO_EACH_SIDE: lambda v: _half(v) / 2,
    "half the width is t * s / sqrt(n); yours is twice that.": lambda v: 2 * _half(v),
    intervals.SORTED: lambda v: intervals.half(v.a.sort().values - v.b.sort().values, v.t),
    "that is the range's half; it covers no stated share.": lambda v: (v.d.max() - v.d.min()) / 2,
    "that is the spread of a alone; take that of the differences.": lambda v: intervals.half(
        v.a, v.t
    ),
    "2.132 is the one-sided point; an interval has two ends.": lambda v: intervals.half(v.d, 2.132),
    "that is the spread of b alone; take that of the differences.": lambda v: intervals.half(
        v.b, v.t
    ),
    "that is a mean absolute deviation; square the distances, divide by n - 1, take the root.": (
        lambda v: v.t * (v.d - v.d.mean()).abs().mean() / v.n**0.5
    ),
    "that is a difference of two spreads; take the spread of the differences.": (
        lambda v: v.t * (v.a.std() - v.b.std()) / v.n**0.5
    ),
    "that pools the spreads of a and b into one; the seeds are paired: take the spread of the "
    "differences.": lambda v: v.t * ((v.a.var() + v.b.var()) / 2 / v.n).sqrt(),
    "that is the spread of all results in one heap, a's and b's; take that of the differences.": (
        lambda v: v.t * torch.cat([v.a, v.b]).std() / v.n**0.5
    ),
    "that is the spread of all results in one heap, over the root of 2 n; take that of the n "
    "differences.": lambda v: intervals.half(torch.cat([v.a, v.b]), v.t),
}
MIDDLES = {
    "mean: that is b - a; positive must mean that a is better.": lambda v: -v.d.mean(),
    "mean: keep the signs of the differences.": lambda v: v.d.abs().mean(),
    "mean: that is the median.": lambda v: v.d.median(),
    "mean: that is the sum; divide by the number of seeds.": lambda v: v.d.sum(),
    "mean: the order of the three is (mean, low, high); yours begins with low.": (
        lambda v: v.d.mean() - _half(v)
    ),
}
ENDS = {  # the name of an end, its sign, the other's name: what stands in its place
    "{end}: the ends are exchanged, that is {other}.": lambda v, sign: v.d.mean() - sign * _half(v),
    "{end}: that is half the width; take it off the mean, and add it.": lambda v, sign: _half(v),
    "{end}: that is the mean; take half the width off it for low, and add it for high.": (
        lambda v, sign: v.d.mean()
    ),
    "{end}: that is the outermost single difference, not the end of an interval.": (
        lambda v, sign: v.d.max() if sign > 0 else v.d.min()
    ),
}


@exercise("Exercise 2 (a paired interval)")
def interval(student) -> None:
    """student(a, b, t) -> (mean, low, high) of a - b over the seeds."""
    cases = [
        {"a": FIRST, "b": SECOND, "t": T},
        {"a": FIRST[:3], "b": SECOND[2:], "t": 4.303},  # sizes that do not go together
        {"a": FIRST.flip(0), "b": 2 * SECOND - FIRST, "t": 1.1},
    ]
    calls(student, _triple(), *cases, slips=_triples(), what=("mean", "low", "high"))


def _half(v: SimpleNamespace) -> Tensor:
    return intervals.half(v.d, v.t)


def _triple(middle=None, low=None, high=None) -> Callable:
    """The right answer, but for what is given: functions of v."""

    def answer(a: Tensor, b: Tensor, t: float) -> tuple[float, float, float]:
        v = SimpleNamespace(a=a, b=b, d=a - b, n=len(a), t=t)
        middle_ = v.d.mean() if middle is None else middle(v)
        low_ = v.d.mean() - _half(v) if low is None else low(v)
        high_ = v.d.mean() + _half(v) if high is None else high(v)
        return middle_.item(), low_.item(), high_.item()

    return answer


def _triples() -> dict[str, Callable]:
    slips = {message: _triple(middle=wrong) for message, wrong in MIDDLES.items()}
    slips["low: that lies half the width from 0, not from the mean."] = _triple(
        low=lambda v: -_half(v)
    )
    for message, half in HALF_WIDTHS.items():
        slips[message] = _triple(
            low=lambda v, half=half: v.d.mean() - half(v),
            high=lambda v, half=half: v.d.mean() + half(v),
        )
        slips[f"high: {message}"] = _triple(high=lambda v, half=half: v.d.mean() + half(v))
    for message, wrong in ENDS.items():
        low = message.format(end="low", other="high")
        high = message.format(end="high", other="low")
        slips[low] = _triple(low=lambda v, wrong=wrong: wrong(v, -1))
        slips[high] = _triple(high=lambda v, wrong=wrong: wrong(v, 1))
    return slips


NAMES = ("Amber", "Birch", "Cedar", "Dune", "Ebony", "Fern", "Gale", "Hazel")
# number of the draws, seeds, t, margin: each slip chooses another name in one of them at least, and
# no low end lies nearer to -margin than 0.03
OFFERS = (
    (1960, 10, 2.262, 2.0),
    (2760, 5, 2.776, 2.5),
    (350, 4, 3.182, 2.0),
    (420, 4, 3.182, 2.0),  # only the best qualifies
    (40, 10, 2.262, 2.0),
    (10, 10, 2.262, 2.0),
)


def offer(number: int, seeds: int, t: float, margin: float) -> dict:
    """Accuracies that rise and fall together from seed to seed; the worse are mostly cheaper."""
    gaps = -1.5 * draw(len(NAMES), seed=number).abs()
    spreads = (0.8 * draw(len(NAMES), seed=number + 1)).exp()
    shared = 2 * draw(seeds, seed=number + 2)
    own = draw(len(NAMES), seeds, seed=number + 3)
    accuracies = 95 + shared + gaps[:, None] + spreads[:, None] * own
    order = (gaps + 0.7 * draw(len(NAMES), seed=number + 4)).argsort()
    return {
        "results": dict(zip(NAMES, accuracies, strict=True)),
        "costs": {NAMES[place]: 1.0 + rank for rank, place in enumerate(order.tolist())},
        "t": t,
        "margin": margin,
    }


def _best_of(results: dict, by: Callable = torch.mean) -> str:
    return max(results, key=lambda name: by(results[name]))


def _second(results: dict, *others) -> str:
    return sorted(results, key=lambda name: results[name].mean())[-2]


def _qualify(results: dict, reference: str, good: Callable) -> list[str]:
    """The best, and the names whose differences to the reference are good."""
    best = _best_of(results)
    return [n for n in results if n == best or good(results[n] - results[reference])]


def _cheapest(low: Callable, by: Callable = torch.mean) -> Callable:
    """The cheapest whose low end is above -margin; low gets its differences to the best, and t."""

    def choose(results: dict, costs: dict, t: float, margin: float) -> str:
        best = _best_of(results, by)
        fine = [n for n in results if n == best or low(results[n] - results[best], t) > -margin]
        return _least(fine, costs)

    return choose


def _least(names: Iterable[str], costs: dict) -> str:
    return min(names, key=lambda name: costs[name])


def _low(d: Tensor, t: float) -> Tensor:
    return d.mean() - intervals.half(d, t)


def _with(half: Callable) -> Callable:
    """The low end is half(d, t) below the mean."""
    return _cheapest(lambda d, t: d.mean() - half(d, t))


def _with_low(low: Callable) -> Callable:
    """The cheapest whose low(a, b, t) is above -margin, b being the results of the best."""

    def choose(results: dict, costs: dict, t: float, margin: float) -> str:
        best = _best_of(results)
        fine = [n for n in results if n == best or low(results[n], results[best], t) > -margin]
        return _least(fine, costs)

    return choose


def _against_the_second(results: dict, costs: dict, t: float, margin: float) -> str:
    fine = _qualify(results, _second(results), lambda d: _low(d, t) > -margin)
    return _least({*fine, _second(results)}, costs)


def _of_those_shown(pick: Callable) -> Callable:
    """pick(names that qualify, costs)."""

    def choose(results: dict, costs: dict, t: float, margin: float) -> str:
        fine = _qualify(results, _best_of(results), lambda d: _low(d, t) > -margin)
        return pick(fine, costs)

    return choose


def _sorted_first(results: dict, *others) -> str:
    return _cheapest(_low)({name: v.sort().values for name, v in results.items()}, *others)


BUILT_IN = intervals.built_in(seeds=(5, 10), ts=(2.262, T))
CHOICES: dict[str, Callable] = {
    **{message: _with(half) for message, half in (intervals.HALVES | BUILT_IN).items()},
    "that is the first name of the alphabet: min and max compare names, unless they get a key.": (
        lambda results, *_: min(results)
    ),
    "that is the cheapest of all, whatever it can do.": (
        lambda results, costs, *_: _least(costs, costs)
    ),
    "its interval holds 0, and its low end is far below: 'no difference seen' is not 'equal'.": (
        lambda results, costs, t, margin: _least(
            _qualify(results, _best_of(results), lambda d: _low(-d, t) < 0), costs
        )
    ),
    "its HIGH end lies above -margin; the low end has to.": _cheapest(lambda d, t: -_low(-d, t)),
    "its mean is within the margin, its interval is not.": _cheapest(lambda d, t: d.mean()),
    "margin is an argument, and not always 2.": lambda results, costs, t, margin: _cheapest(_low)(
        results, costs, t, 2.0
    ),
    intervals.PAIRED: _with_low(lambda a, b, t: (a - b).mean() - intervals.unpaired(a, b, t)),
    "those are the low ends of two intervals; take the one interval of the differences.": _with_low(
        lambda a, b, t: _low(a, t) - _low(b, t)
    ),
    "that is the spread of the contender; take that of its differences to the best.": _with_low(
        lambda a, b, t: (a - b).mean() - intervals.half(a, t)
    ),
    intervals.SORTED: _sorted_first,
    "that is the best mean; a cheaper one is shown to be within the margin.": (
        lambda results, *_: _best_of(results)
    ),
    "that is the second best mean; the cheapest that is within the margin is asked.": _second,
    "compare with the best mean; yours compares with the second best.": _against_the_second,
    "the best is the one with the largest MEAN; you took the median.": _cheapest(
        _low, by=torch.median
    ),
    "the best is the one with the largest MEAN; you took the largest single result.": _cheapest(
        _low, by=torch.max
    ),
    "the interval stands round the MEAN of the differences; you took their median.": _cheapest(
        lambda d, t: d.median() - t * d.std() / len(d) ** 0.5
    ),
    "that is the worst single difference; the interval is that of the mean.": _cheapest(
        lambda d, t: d.min()
    ),
    "that is a variance over n; take the root of both.": _with(lambda d, t: t * d.var() / len(d)),
    "the difference is contender minus best; yours is turned round.": _cheapest(
        lambda d, t: _low(-d, t)
    ),
    "a narrow interval is not enough: its low end has to be above -margin.": _cheapest(
        lambda d, t: -t * d.std() / len(d) ** 0.5
    ),
    "that is the first name that qualifies; take the cheapest of them.": _of_those_shown(
        lambda fine, costs: fine[0]
    ),
    "that is the last name that qualifies; take the cheapest of them.": _of_those_shown(
        lambda fine, costs: fine[-1]
    ),
    "that is the dearest that qualifies; take the cheapest of them.": _of_those_shown(
        lambda fine, costs: max(fine, key=costs.get)
    ),
}


@exercise("Exercise 3 (a choice)")
def choose(student) -> None:
    """student(results, costs, t, margin): the cheapest that is shown to be within the margin."""
    cases = [offer(*numbers) for numbers in OFFERS]
    calls(student, _cheapest(_low), *cases, slips=CHOICES, what="the choice")


FIELDS: dict[str, type | tuple[type, ...]] = {
    "question": str,
    "setting": str,
    "contenders": (list, tuple),
    "rates": (list, tuple),
    "tuning_seeds": (list, tuple, range),
    "seeds": (list, tuple, range),
    "margin": (int, float),
}
SECONDS = {  # of one run, on the machine that made the records
    "mlp": 2.0,
    "cnn": 1.6,
    "residual": 0.7,
    "residual_sgd": 0.5,
    "pre": 1.1,
    "post": 1.1,
}
CHOSEN = {  # the rate that validation chose in the records, for most contenders of a net
    "mlp": 0.003,
    "cnn": 0.03,
    "residual": 0.01,
    "residual_sgd": 0.3,
    "pre": 0.01,
    "post": 0.01,
}
CHOSEN_BY = {  # and for the others
    ("mlp", "none"): 0.01,
    ("mlp", "batch_norm"): 0.01,
    ("cnn", "rms_norm"): 0.01,
    ("cnn", "dyt_sqrt_d"): 0.01,
    ("residual", "none"): 0.03,
    ("residual", "group_norm"): 0.03,
    ("residual", "weight_norm"): 0.03,
    ("residual_sgd", "none"): 0.01,
    ("residual_sgd", "skip_init"): 0.1,
    ("pre", "derf"): 0.03,
    ("pre", "qk_norm"): 0.03,
    ("pre", "rms_norm_qk"): 0.03,
    ("post", "qk_norm"): 0.03,
}
# By what a question names them, in lower case, with spaces for hyphens and underscores.
NET_WORDS = {  # how we name the net, and all that is accepted
    "mlp": ("plain MLP", r"plain|(?<!residual )\bmlp\b"),
    "cnn": ("CNN", r"\bcnn\b|convol"),
    "residual": ("residual MLP", r"^(?=.*residual)(?:(?=.*\badam\b)|(?!.*\bsgd\b))"),
    "residual_sgd": ("residual, SGD", r"\bsgd\b"),
    "pre": ("Pre-LN", r"\bpre\b|\bpreln\b"),
    "post": ("Post-LN", r"\bpost\b|\bpostln\b"),
}
OTHER_NETS = {  # words that can mean no other net
    "mlp": r"plain mlp",
    "cnn": r"\bcnn\b",
    "residual": r"residual",
    "pre": r"\bpre ?ln\b",
    "post": r"\bpost ?ln\b",
}
NAME_WORDS = {  # of others the first word of their name
    "none": r"\bnone\b|\bno norm|\bwithout\b",
    "batch_norm": r"batch ?norm|\bbn\b",
    "group_norm": r"group ?norm|\bgn\b",
    "layer_norm": r"layer ?norm|\bln\b",
    "rms_norm": r"rms",
}
ONE_DIGIT = 0.25  # points: the test has 400 digits
BUDGET = 60
SEEN = {*range(10), 100, 101, 102}  # seeds of the records: those that judge, those that choose


FORM = """"rates": [0.01, 0.1],
    "tuning_seeds": [0],
    "seeds": [0, 1, 2],
    "margin": 2,"""


@exercise(
    "Exercise 4 (your own trial)",
    FORM,
    f"{SECONDS['residual_sgd']:g} s in residual_sgd",
    f"{SECONDS['residual']:g} s in residual",
    f"{SECONDS['pre']:g} s in pre and post",
    f"{SECONDS['cnn']:g} s in cnn",
    f"{SECONDS['mlp']:g} s in mlp",
    "compare the interval with 0",
    "all on one side of 0",
)
def protocol(student) -> None:
    """student: a dict with FIELDS, the design of a comparison that can be believed."""
    _is_dict(student, "protocol")
    _fields(student)
    _contenders(student)
    _seeds(student)
    _rates(student)
    _margin(student["margin"])
    tuning = len(student["rates"]) * len(student["tuning_seeds"])
    runs = 2 * (tuning + len(student["seeds"]))
    seconds = runs * SECONDS[student["setting"]]
    if seconds > BUDGET:
        raise Slip(
            f"{runs} runs of about {SECONDS[student['setting']]:g} s are {seconds:.0f} s, and the "
            f"budget is {BUDGET} s: fewer rates, fewer seeds, or a faster setting."
        )
    _question(student)


def _is_dict(student, what: str) -> None:
    if not isinstance(student, Mapping):
        raise Slip(f"a {what} is a dict, got {type(student).__name__}.")


def _fields(student: Mapping) -> None:
    for name, kind in FIELDS.items():
        if name not in student:
            raise Slip(
                f"{name} is missing: what is not fixed before the runs is chosen after them."
            )
        if not isinstance(student[name], kind) or isinstance(student[name], bool):
            raise Slip(f"{name} is {type(student[name]).__name__}; the example shows its form.")
    if len(student["question"].split()) < 5:
        raise Slip("question: write the sentence that the trial is to decide.")
    if student["setting"] not in SECONDS:
        raise Slip(f"setting: one of {', '.join(SECONDS)}, got {student['setting']!r}.")


def _question(student: Mapping) -> None:
    """The question names the net and both contenders that the other fields name."""
    words = re.sub(r"[-_\s]+", " ", student["question"].lower())
    net, pattern = NET_WORDS[student["setting"]]
    if not re.search(pattern, words):
        raise Slip(
            f"question: the setting is {student['setting']!r}, and the question does not name this "
            f"net ({net}). They have to speak about the same one."
        )
    own = student["setting"].removesuffix("_sgd")
    for other, pattern in OTHER_NETS.items():
        if other != own and re.search(pattern, words):
            raise Slip(f"question: it names two nets, {net} and {other!r}; one trial has one net.")
    words = re.sub(r"\b(pre|post) ?ln\b", "", words)  # a net, no LayerNorm
    for name in student["contenders"]:
        if not re.search(NAME_WORDS.get(name, name.split("_")[0]), words):
            raise Slip(f"question: {name!r} competes, and the question does not name it.")


def _contenders(student: Mapping) -> None:
    names = list(student["contenders"])
    if len(names) != 2 or names[0] == names[1]:
        raise Slip("contenders: two different ones; more would be more comparisons to correct for.")
    kind = {"mlp": "mlp", "cnn": "cnn"}.get(student["setting"], "blocks")
    for name in names:
        if not isinstance(name, str) or name not in training.CONTENDERS:
            raise Slip(f"{name!r} is no contender: list(training.CONTENDERS) has the names.")
        contender = training.CONTENDERS[name]
        if contender.skip_init and kind != "blocks":
            raise Slip(f"{name} needs shortcuts, and this net has none.")
        if contender.fixup or (contender.qk and student["setting"] not in ("pre", "post")):
            raise Slip(f"{name} has no place in this net: take another.")
        if name.endswith("_tuned"):
            raise Slip(f"{name} needs its slope tuned as well, which this trial does not do.")


def _seeds(student: Mapping) -> None:
    seeds = list(student["seeds"])
    tuning = list(student["tuning_seeds"])
    if not all(type(seed) is int for seed in seeds + tuning):
        raise Slip("seeds are whole numbers.")
    if min(seeds + tuning, default=0) < 0:
        raise Slip("seeds are whole numbers from 0 on.")
    if len(set(seeds)) < len(seeds) or len(set(tuning)) < len(tuning):
        raise Slip("the same seed twice is the same run twice, and looks surer than it is.")
    if set(seeds) & set(tuning):
        raise Slip("a seed that chose the rate cannot judge it: use other seeds for the verdict.")
    if len(tuning) < 2:
        raise Slip("tuning_seeds: one run a rate is luck; take two at least.")
    if len(seeds) < 5:
        raise Slip(f"seeds: {len(seeds)} differences say little; take five at least.")
    if set(seeds) & SEEN:
        raise Slip(
            "seeds: the records have shown you 0 to 9 and 100 to 102; "
            "take seeds that nobody has seen."
        )


def _rates(student: Mapping) -> None:
    rates = student["rates"]
    if not all(type(rate) in (int, float) and rate > 0 for rate in rates):
        raise Slip("rates: numbers above 0, the same list for both contenders.")
    if len(set(rates)) < len(rates):
        raise Slip("rates: the same rate twice is the same run twice.")
    rates = sorted(rates)
    if len(rates) < 3:
        raise Slip("rates: with fewer than three, none has a worse one on either side.")
    if any(high / low > 4 for low, high in pairwise(rates)):
        raise Slip("rates: neighbours more than four times apart can miss what lies between them.")
    if rates[-1] / rates[0] < 8:
        raise Slip("rates: they span less than a factor of 8; the best may lie outside.")
    for name in student["contenders"]:
        best = CHOSEN_BY.get((student["setting"], name), CHOSEN[student["setting"]])
        if not rates[0] < best < rates[-1]:
            raise Slip(
                f"rates: in the records the best one for {name} in {student['setting']} was "
                f"{best:g}, and yours go from {rates[0]:g} to {rates[-1]:g}. A best rate at an end "
                "of its list, or beyond it, is no best rate: begin below it and end above it."
            )


def _margin(margin: float) -> None:
    if not 0 < margin <= 5:
        raise Slip("margin: how many points are the same to you? More than 0, at most 5, say 2.")
    if margin < ONE_DIGIT:
        raise Slip(
            f"margin: one test digit is {ONE_DIGIT:g} points, so {margin:g} is less than one "
            "picture. No trial here could show that two are equal, and nobody needs it: say 2."
        )


CURVES = ("dyt", "dyisru", "derf")
NO_STATISTIC = (*CURVES, "none")  # they divide by nothing: no eps
CARD = {  # what a card says, and what may stand there; None where the field says it in words
    "model": None,
    "reads": ("images", "text", "other"),
    "batch": None,
    "norm": ("batch_norm", "group_norm", "layer_norm", "rms_norm", *NO_STATISTIC),
    "place": ("before", "after", "output", "both", "none"),
    "eps": None,
    "mean_square": None,
    "statistics": ("float16", "bfloat16", "float32", "float64"),
    "gain": ("w", "1 + w", "none"),
    "decay_on_gains": (True, False),
    "code": ("one kernel", "compiled", "formula"),
    "convert": ("no", "fold", "replace and train"),
    "convert_from": ("none", "batch_norm", "group_norm", "layer_norm", "rms_norm"),
    "sure": None,
}
ROWS = ("norm", "place", "eps", "statistics", "decay_on_gains", "code", "convert")
KINDS = ("proven", "measured here", "reported", "disputed", "my own trial", "a guess")
OWN_WORDS = ("my own trial", "a guess")
CARD_WORDS = {  # how sure the card is, row by row; a test reads it there
    "norm": ("measured here", "reported", "disputed"),
    "place": ("measured here", "reported"),
    "eps": ("proven", "reported"),
    "statistics": ("proven",),
    "decay_on_gains": ("measured here", "reported", "disputed"),
    "code": ("measured here", "reported"),
    "convert": ("proven", "measured here"),
}
# These rows say what trains well or runs fast. No proof says that.
NOT_PROVEN = ("norm", "place", "decay_on_gains", "code")
SMALL_EPS = 100  # times eps is at most the mean square: the output shrinks by half a percent
HALF = {  # why the card's row asks for float32
    "float16": "float16 ends at 65504, so a number of 256 has a square that is infinite",
    "bfloat16": "bfloat16 has 8 significant bits: a sum of equal squares stops at 256 of them",
}
FEW = 2  # pictures in a batch, with which the card's row saw BatchNorm fail
TRIAL_BATCH = 64  # pictures in a batch of the trial
EXACT_FOLDS = {("layer_norm", "rms_norm"), ("batch_norm", "none")}


@exercise(
    "Exercise 5 (your decision card)",
    '"batch": 8,',
    '"eps": 1e-8,\n    "mean_square": 1e-9,',
    "1 + w",
    "print(inputs[0].float().square().mean(-1).min().item())",
)
def card(student) -> None:
    """student: a dict with the fields of CARD, which may not contradict each other."""
    _is_dict(student, "card")
    _card_fields(student)
    _card_numbers(student)
    _card_norm(student)
    _card_conversion(student)
    _card_sure(student["sure"])
    _card_evidence(student)


def _card_fields(student: Mapping) -> None:
    for name, allowed in CARD.items():
        if name not in student:
            raise Slip(f"{name} is missing: a card with a hole is filled by the next default.")
        if allowed and student[name] not in allowed:
            words = ", ".join(map(repr, allowed))
            raise Slip(f"{name} is {student[name]!r}; one of {words}.")
    if not isinstance(student["model"], str) or len(student["model"].split()) < 3:
        raise Slip("model: say in a sentence what it is and what it is for.")
    batch = student["batch"]
    if type(batch) is not int or batch < 1:
        raise Slip("batch: the smallest one that a device sees, a whole number from 1 on.")


def _card_numbers(student: Mapping) -> None:
    """eps against what it is added to, in the type in which it is added."""
    eps = student["eps"]
    if student["norm"] in NO_STATISTIC:
        if eps is not None:
            raise Slip(f"eps: {student['norm']} divides by nothing that could be 0; write None.")
        if student["mean_square"] is not None:
            raise Slip(f"mean_square: {student['norm']} has no eps beside it; write None.")
        return
    for name in ("eps", "mean_square"):
        value = student[name]
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise Slip(f"{name}: a number above 0, got {value!r}. Without one a default decides.")
    square = student["mean_square"]
    dtype = getattr(torch, student["statistics"])
    if torch.tensor(eps, dtype=dtype).item() == 0:
        raise Slip(
            f"eps: {eps:g} is 0 in {student['statistics']}; add the squares in float32, or take a "
            "larger one."
        )
    if eps > square / SMALL_EPS:
        shrunk = 100 - 100 * math.sqrt(square / (square + eps))
        raise Slip(
            f"eps: {eps:g} is more than a hundredth of the mean square, {square:g}. It shrinks the "
            f"output by {shrunk:.2g} %, and the norm does not normalize such rows. (A checkpoint "
            "keeps the eps that it was trained with. Fill the card for norms whose eps you choose.)"
        )
    if square > torch.finfo(dtype).max:
        raise Slip(
            f"statistics: a mean square of {square:g} is infinite in {student['statistics']}, and "
            "the row comes out as zeros. Add the squares in float32."
        )
    if student["statistics"] in HALF:
        raise Slip(f"statistics: {HALF[student['statistics']]}. Add the squares in float32.")


def _card_norm(student: Mapping) -> None:
    norm = student["norm"]
    if norm == "batch_norm" and student["batch"] == 1:
        raise Slip(
            "norm: BatchNorm with a batch of 1 measures the spread of one sample: there is none. "
            "Take a norm of the row, or larger batches."
        )
    if norm == "batch_norm" and student["batch"] <= FEW:
        raise Slip(
            f"norm: with {FEW} pictures a step BatchNorm read 18 to 60 % of the digits, LayerNorm "
            "89 to 94 % (the card's row on small batches). Take a norm of the row, or GroupNorm in "
            "a CNN, or larger batches."
        )
    if (norm == "none") != (student["place"] == "none"):
        raise Slip(f"place: {student['place']!r} and the norm {norm!r} do not go together.")
    if norm == "none" and student["gain"] != "none":
        raise Slip(f"gain: there is no norm, so who has the gain {student['gain']!r}?")
    if student["decay_on_gains"] and student["gain"] == "none":
        raise Slip("decay_on_gains: there is no gain that could decay.")


def _card_conversion(student: Mapping) -> None:
    old = student["convert_from"]
    norm = student["norm"]
    how = student["convert"]
    if (how == "no") != (old == "none"):
        raise Slip(f"convert: {how!r} from {old!r}: a conversion has a norm that it comes from.")
    if how != "no" and old == norm:
        raise Slip(f"convert: from {old} to {norm} there is nothing to convert.")
    if how == "fold" and (old, norm) not in EXACT_FOLDS:
        raise Slip(
            f"convert: nothing folds {old} into {norm} exactly. Replace it, and train on; then "
            "measure what was lost."
        )
    if how == "fold" and old == "layer_norm" and student["place"] != "before":
        raise Slip("convert: the fold of LayerNorm is exact for Pre-LN, place 'before', alone.")


def _card_sure(sure) -> None:
    if not isinstance(sure, Mapping):
        raise Slip(f"sure: a dict from {', '.join(ROWS)} to one of {', '.join(KINDS)}.")
    for row in ROWS:
        if sure.get(row) not in KINDS:
            raise Slip(f"sure: {row} is {sure.get(row)!r}; one of {', '.join(KINDS)}.")
        if row in NOT_PROVEN and sure[row] == "proven":
            raise Slip(
                f"sure: {row} cannot be 'proven'. What trains well or runs fast is measured, "
                "reported or disputed."
            )
    if all(kind == "a guess" for kind in sure.values()):
        raise Slip("sure: all rows are guesses. Take the evidence of the card above, row by row.")


def _card_evidence(student: Mapping) -> None:
    """Where the card above speaks against this one. Who tried it may know better."""
    sure = student["sure"]
    for row in ROWS:
        if student[row] != "no" and sure[row] not in CARD_WORDS[row] + OWN_WORDS:
            words = " or ".join(map(repr, CARD_WORDS[row]))
            raise Slip(
                f"sure: {row} is {sure[row]!r}, and the card above says {words} there. What you "
                "measured yourself is 'my own trial'."
            )
    tried = sure["norm"] == "my own trial"
    if student["norm"] == "batch_norm" and student["reads"] == "text" and not tried:
        raise Slip(
            "norm: for text the card above has RMSNorm or LayerNorm. BatchNorm mixes padding and "
            "other sentences into each row. Take one of the two, or try it yourself."
        )
    if sure["norm"] == "measured here":
        _card_measured_norm(student)
    if student["place"] == "after" and sure["place"] == "measured here":
        raise Slip(
            "sure: what was measured here speaks against 'after' (Post-LN), in one small net."
        )
    if student["decay_on_gains"] and sure["decay_on_gains"] == "measured here":
        raise Slip(
            "sure: measured here, decay of the blocks' gains changed nothing that one could see, "
            "and strong decay of the last norm's gain and the head together cost digits."
        )


def _card_measured_norm(student: Mapping) -> None:
    """The course's trial had other conditions than this card, or spoke against it."""
    if student["norm"] in CURVES and student["place"] == "after":
        raise Slip(
            "sure: a curve after the sum was measured here, and it speaks against it: in Post-LN "
            "DyT is 6.92 points worse than no norm, and Derf and DyISRU lie below it, too."
        )
    if student["norm"] == "batch_norm" and student["batch"] < TRIAL_BATCH:
        raise Slip(
            f"sure: BatchNorm was measured here with {TRIAL_BATCH} and with {FEW} pictures a step, "
            f"and not with {student['batch']}: what lies between is reported, or a guess, or your "
            "own trial."
        )
