"""Checks of lesson 08: a rate chosen fairly, a paired interval, Holm's correction, a choice, and
the protocol of a trial.

Each table below maps what a check says to the wrong formula that earns it.
"""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import mean
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import measures, training
from normcourse.checks.probes import call, calls
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect, parts


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
    "that rate has the best WORST seed. Take the mean over the tuning seeds.": (
        _over("tuning", _final, min)
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


@exercise("Exercise 1 (a rate chosen fairly)", "counts as 0")
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
    shorter = [run for run in runs if (run["lr"], run["seed"]) != (0.003, 102)]
    adds_up = {"a rate that was tried with fewer seeds is not worse: take the mean, no sum.": 0.005}
    expect(student(shorter), 0.003, adds_up, "the rate when 0.003 has two tuning runs")


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
        0.003: ((345, 357, 351), 345, 340, 955, 0.35),
        0.004: ((349, 350, 349), 342, 337, 952, 0.37),
        0.005: ((344, 358, 351), 344, 341, 956, 0.34),
        0.01: ((380, 340, 300), 338, 333, 950, 0.36),
        0.015: ((346, 353, 351), 358, 343, 957, 0.33),
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
    "the interval reaches t * s / sqrt(n) to EACH side; yours is half as wide.": (
        lambda v: T * v.d.std() / 5**0.5 / 2
    ),
    "that is the spread of a alone; take that of the differences.": (
        lambda v: T * v.a.std() / 5**0.5
    ),
    "that is a variance; take its root.": lambda v: T * v.d.var() / 5**0.5,
    "2.132 is the one-sided point; an interval has two ends.": lambda v: 2.132 * v.d.std() / 5**0.5,
}


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
        "mean: the order of the three is (mean, low, high); yours begins with low.": middle - half,
    }
    expect(got[0], middle, slips, "mean")
    for value, sign, end, other in ((got[1], -1, "low", "high"), (got[2], 1, "high", "low")):
        ends = {message: middle + sign * wrong(v).item() for message, wrong in HALVES.items()}
        ends[f"{end}: the ends are exchanged, that is {other}."] = middle - sign * half
        ends[f"{end}: that is half the width; take it off the mean, and add it."] = half
        single = (sign * v.d).max().item() * sign
        ends[f"{end}: that is the outermost single difference, not the end of an interval."] = (
            single
        )
        expect(value, middle + sign * half, ends, end)
    _three_seeds(student)


def _three_seeds(student) -> None:
    """Another number of seeds, another t, and pairs whose sizes do not go together."""
    a = FIRST[:3]
    b = SECOND[2:]
    t = 4.303
    d = a - b
    apart = a.sort().values - b.sort().values
    error = d.std() / 3**0.5
    halves = {
        "the number of seeds is not always 5: take it from a.": t * d.std() / 5**0.5,
        "t is an argument, and not always 2.776.": T * error,
        "a pair is one seed: do not sort.": t * apart.std() / 3**0.5,
    }
    middle = d.mean().item()
    half = (t * error).item()
    got = parts(call(student, a=a, b=b, t=t), "mean", "low", "high")
    expect(got[0], middle, what="mean for three seeds")
    for value, sign, end in ((got[1], -1, "low"), (got[2], 1, "high")):
        slips = {message: middle + sign * wrong.item() for message, wrong in halves.items()}
        expect(value, middle + sign * half, slips, f"{end} for three seeds and t = {t}")


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


CORRECTIONS = {  # p: the probabilities
    "that is Bonferroni's correction, k for each; Holm's second factor is k - 1.": (
        lambda p: (len(p) * p).clamp(max=1)
    ),
    "that is Bonferroni's correction, and a probability is at most 1.": lambda p: len(p) * p,
    "that is Benjamini and Hochberg's correction.": measures.benjamini_hochberg,
    "the corrected ones may not fall: none is smaller than the one before it.": (
        lambda p: _in_order(p, _down(p)).clamp(max=1)
    ),
    "a probability is at most 1.": lambda p: torch.empty_like(p).index_copy_(
        0, p.argsort(stable=True), (_down(p) * p.sort(stable=True).values).cummax(0).values
    ),
    "give them back in the order in which they came, not sorted.": (
        lambda p: measures.holm(p).sort().values
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
        lambda p: measures.holm(p).sort().values[p.argsort(stable=True)]
    ),
    "nothing was corrected.": lambda p: p,
    "multiply p; do not divide the level here.": lambda p: _in_order(p, 1 / _down(p)),
}


@exercise("Exercise 3 (many comparisons)")
def holm(student) -> None:
    """student(p): Holm's corrected probabilities, in the order in which they came."""
    cases = [
        {"p": torch.tensor([0.012, 0.9, 0.001, 0.3, 0.013, 0.6], dtype=torch.float64)},
        {"p": torch.tensor([0.2, 0.03, 0.04], dtype=torch.float64)},
    ]
    calls(student, measures.holm, *cases, slips=CORRECTIONS)


MARGIN = 2.0
T10 = 2.262  # 97.5 % point of Student's t with 9 degrees of freedom
NOISE = torch.tensor([1.2, -0.7, 0.4, -1.5, 0.9, -0.2, 1.1, -1.3, 0.6, -0.5], dtype=torch.float64)
WEIGHTS = torch.tensor([0.3, -0.9, 1.4, 0.2, -1.1, 0.8, -0.4, 1.0, -1.2, -0.1], dtype=torch.float64)
BEST = 95 + 2 * WEIGHTS
# name: mean difference to the best, spread of the differences, cost; each tempts another mistake
OFFERS = {
    "Cheap": (-20.0, 1.0, 1.0),
    "Wide": (-4.0, 8.0, 2.5),
    "High": (-5.0, 5.0, 2.0),
    "Near": (-1.0, 4.0, 4.0),
    "Error": (-1.4, 1.5, 5.0),
    "Normal": (-1.35, 1.0, 5.5),
    "Right": (-0.5, 0.5, 6.0),
}


def offers() -> tuple[dict[str, Tensor], dict[str, float]]:
    """Results of ten seeds and costs, made so that every mistake chooses a name of its own."""
    shape = (NOISE - NOISE.mean()) / NOISE.std()
    results = {name: BEST + mean + spread * shape for name, (mean, spread, _) in OFFERS.items()}
    results["Twin"] = 94.8 + 0.2 * NOISE
    results["Best"] = BEST
    costs = {name: cost for name, (_, _, cost) in OFFERS.items()} | {"Twin": 8.0, "Best": 9.0}
    return dict(reversed(results.items())), costs  # the first that qualifies is not the cheapest


def _cheapest(good: Callable) -> Callable:
    """The cheapest name whose differences d to the best are good; `good` gets d."""

    def choose(results: dict, costs: dict, t: float, margin: float) -> str:
        best = max(results, key=lambda name: results[name].mean())
        fine = [name for name in results if name == best or good(results[name] - results[best])]
        return min(fine, key=costs.get)

    return choose


def _unpaired(results: dict, costs: dict, t: float, margin: float) -> str:
    best = max(results, key=lambda name: results[name].mean())

    def low(name: str) -> float:
        a, b = results[name], results[best]
        half = t * ((a.var() + b.var()) / len(a)).sqrt()
        return (a.mean() - b.mean() - half).item()

    return min((n for n in results if n == best or low(n) > -margin), key=costs.get)


def _error(d: Tensor) -> float:
    return (d.std() / len(d) ** 0.5).item()


CHOICES = {  # what the check says: a wrong way to choose
    "that is the cheapest of all, whatever it can do.": _cheapest(lambda d: True),
    "its interval holds 0, and its low end is far below: 'no difference seen' is not 'equal'.": (
        _cheapest(lambda d: d.mean() + T10 * _error(d) > 0)
    ),
    "its HIGH end lies above -margin; the low end has to.": (
        _cheapest(lambda d: d.mean() + T10 * _error(d) > -MARGIN)
    ),
    "its mean is within the margin, its interval is not.": _cheapest(lambda d: d.mean() > -MARGIN),
    "one standard error is not the interval: multiply by t.": (
        _cheapest(lambda d: d.mean() - _error(d) > -MARGIN)
    ),
    "1.96 is for a known spread; use the t that you are given.": (
        lambda results, costs, t, margin: _right(results, costs, 1.96, margin)
    ),
    "the seeds are paired: take the spread of the differences, not of each contender.": (
        lambda results, costs, t, margin: _unpaired(results, costs, t, margin)
    ),
    "that is the best mean; a cheaper one is shown to be within the margin.": (
        _cheapest(lambda d: False)
    ),
}


LATER = {  # slips that only another margin or another number of seeds can show
    "that is where single differences lie; divide by sqrt(n).": (
        lambda results, costs, t, margin: _cheapest(lambda d: d.mean() - t * d.std() > -margin)(
            results, costs, t, margin
        )
    ),
    "t is an argument, and not always 2.776.": (
        lambda results, costs, t, margin: _right(results, costs, T, margin)
    ),
    "t and margin are arguments: your margin stays 2, whatever comes, or your t does.": (
        lambda results, costs, t, margin: _right(results, costs, t, MARGIN)
    ),
}


@exercise("Exercise 4 (a choice)")
def choose(student) -> None:
    """student(results, costs, t, margin): the cheapest that is shown to be within the margin."""
    results, costs = offers()
    arguments = {"results": results, "costs": costs, "t": T10, "margin": MARGIN}
    _same_name(call(student, **arguments), arguments, CHOICES)
    four = {name: values[:4] for name, values in results.items() if name != "Twin"}
    few = {"results": four, "costs": {name: costs[name] for name in four}, "t": 3.182}
    _same_name(call(student, **few, margin=1.4), few | {"margin": 1.4}, LATER, " (four seeds)")
    # a wider margin lets one in that was refused
    _same_name(
        call(student, **arguments | {"margin": 2.5}),
        arguments | {"margin": 2.5},
        LATER,
        " (margin 2.5)",
    )


def _right(results: dict, costs: dict, t: float, margin: float) -> str:
    return _cheapest(lambda d: d.mean() - t * _error(d) > -margin)(results, costs, t, margin)


def _same_name(got, arguments: dict, slips: Mapping, when: str = "") -> None:
    """Raise Slip unless got is the right name."""
    if not isinstance(got, str) or got not in arguments["results"]:
        names = ", ".join(arguments["results"])
        raise Slip(f"return one of the names {names}, got {describe(got)}.")
    want = _right(**arguments)
    if got == want:
        return
    for message, wrong in slips.items():
        if got == wrong(**arguments):
            raise Slip(message)
    raise Slip(f"that is {got!r}; the cheapest shown to be within the margin is another{when}.")


FIELDS = {
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
BUDGET = 60
SEEN = {*range(10), 100, 101, 102}  # seeds of the records: those that judge, those that choose


FORM = """"rates": [0.01, 0.1],
    "tuning_seeds": [0],
    "seeds": [0, 1, 2],
    "margin": 2,"""


@exercise(
    "Exercise 5 (your own trial)",
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
    if not isinstance(student, Mapping):
        raise Slip(f"a protocol is a dict, got {type(student).__name__}.")
    _fields(student)
    _contenders(student)
    _seeds(student)
    _rates(student)
    if not 0 < student["margin"] <= 5:
        raise Slip("margin: how many points are the same to you? More than 0, at most 5, say 2.")
    tuning = len(student["rates"]) * len(student["tuning_seeds"])
    runs = 2 * (tuning + len(student["seeds"]))
    seconds = runs * SECONDS[student["setting"]]
    if seconds > BUDGET:
        raise Slip(
            f"{runs} runs of about {SECONDS[student['setting']]:g} s are {seconds:.0f} s, and the "
            f"budget is {BUDGET} s: fewer rates, fewer seeds, or a faster setting."
        )


def _fields(student: Mapping) -> None:
    for name, kind in FIELDS.items():
        if name not in student:
            raise Slip(
                f"{name} is missing: what is not fixed before the runs is chosen after them."
            )
        if not isinstance(student[name], kind) or isinstance(student[name], bool):
            raise Slip(f"{name} is {type(student[name]).__name__}; the example shows its form.")
    if len(student["question"].split()) < 3:
        raise Slip("question: write the sentence that the trial is to decide.")
    if student["setting"] not in SECONDS:
        raise Slip(f"setting: one of {', '.join(SECONDS)}, got {student['setting']!r}.")


def _contenders(student: Mapping) -> None:
    names = list(student["contenders"])
    if len(names) != 2 or names[0] == names[1]:
        raise Slip("contenders: two different ones; more would be more comparisons to correct for.")
    kind = {"mlp": "mlp", "cnn": "cnn"}.get(student["setting"], "blocks")
    for name in names:
        if name not in training.CONTENDERS:
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
    if not all(isinstance(rate, int | float) and rate > 0 for rate in rates):
        raise Slip("rates: numbers above 0, the same list for both contenders.")
    rates = sorted(set(rates))
    if len(rates) < 3:
        raise Slip("rates: with fewer than three, none has a worse one on either side.")
    if any(high / low > 4 for low, high in pairwise(rates)):
        raise Slip("rates: neighbours more than four times apart can miss what lies between them.")
    if rates[-1] / rates[0] < 8:
        raise Slip("rates: they span less than a factor of 8; the best may lie outside.")
