"""The checks of lesson 08a name the slips people make."""

import itertools
import math
from fractions import Fraction
from functools import partial
from statistics import mean, median, stdev

import numpy
import pytest
import torch

from normcourse.checks import run_measures as check
from normcourse.measures import comparisons
from tests.course.solutions import load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def solved(name):
    return load("08a_run_measures")[name]


def measures(stability=None, peak=None, speed=None):
    """Exercise 1's answer; each argument replaces one part by a slip."""

    def student(norms, right, steps, of):
        got = list(solved("measures_of_run")(norms, right, steps, of))
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
    "peak without step 1": (measures(peak=lambda n: max(n[1:]) / n[0]), "peak: step 1 counts"),
    "four steps for ever": (
        measures(stability=lambda n: sum(n) / n[0] / 4),
        "the number of steps is not always 4",
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
    "best": (measures(speed=lambda r, s, of: 1 / s[r.index(max(r))]), "not the best"),
    "evenly spaced looks": (
        measures(speed=lambda r, s, of: 1 / ((s.index(first(r, s, of)) + 1) * s[0])),
        "looks need not be evenly spaced",
    ),
    "evenly spaced looks, by the last": (
        measures(speed=lambda r, s, of: len(s) / ((s.index(first(r, s, of)) + 1) * s[-1])),
        "looks need not be evenly spaced",
    ),
    "evenly spaced looks, by the distance": (
        measures(speed=lambda r, s, of: 1 / ((s.index(first(r, s, of)) + 1) * (s[1] - s[0]))),
        "speed for of = 1000 is off by",
    ),
    "level 95 %": (
        measures(speed=lambda r, s, of: 1 / first(r, s, of, lambda a: a >= 0.95)),
        "the level is 90 %, not 95 %",
    ),
    "last look": (
        measures(
            speed=lambda r, s, of: 1 / max(b for a, b in zip(r, s, strict=True) if a / of >= 0.9)
        ),
        "not the last one",
    ),
    "never: last step": (
        measures(speed=or_else(lambda s: 1 / s[-1])),
        "not one over its last step",
    ),
    "never: infinity": (measures(speed=or_else(lambda s: math.inf)), "not infinity"),
    "never: NaN": (measures(speed=or_else(lambda s: math.nan)), "not NaN"),
    "never: None": (measures(speed=or_else(lambda s: None)), "0.0, not None"),
    "of 400 for ever": (
        measures(speed=lambda r, s, of: 1 / f if (f := first(r, s, 400)) else 0.0),
        "`of` is an argument, and not always 400",
    ),
    "last time below": (
        measures(
            speed=lambda r, s, of: next(
                (1 / s[i] for i in range(len(r)) if all(v / of >= 0.9 for v in r[i:])),
                0.0,
            )
        ),
        "also where the run falls back after it",
    ),
}


def power(factor, exponent=lambda sizes, depth: depth - 1, start=0):
    return lambda sizes, depth: sizes[start] * factor(sizes) ** exponent(sizes, depth)


def geometric(sizes):
    return (sizes[-1] / sizes[0]) ** (1 / (len(sizes) - 1))


SIZES = {
    "depth factors": (power(geometric, lambda s, depth: depth), "depth - 1 factors"),
    "fifth root": (power(lambda s: (s[-1] / s[0]) ** (1 / len(s))), "L - 1 steps between them"),
    "arithmetic": (power(lambda s: (s[1:] / s[:-1]).mean()), "geometric mean"),
    "straight line": (
        lambda s, d: s[0] + (s[-1] - s[0]) / (len(s) - 1) * (d - 1),
        "a straight line",
    ),
    "last pair": (power(lambda s: s[-1] / s[-2]), "one pair of layers"),
    "first pair": (power(lambda s: s[1] / s[0]), "the first two layers"),
    "upside down": (power(lambda s: 1 / geometric(s)), "upside down"),
    "from the last": (power(geometric, start=-1), "from the LAST layer"),
    "from the last, all factors": (
        power(geometric, lambda s, depth: depth, start=-1),
        "are left, not depth",
    ),
    "on with the last pair": (
        power(lambda s: s[-1] / s[-2], lambda s, depth: depth - len(s), start=-1),
        "the last; take the factor",
    ),
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


@named(SIZES)
def test_extrapolate(answer, message):
    assert message in check.extrapolate(answer)


def student_error(a, b):
    return (a - b).std() / len(a) ** 0.5


def three_words(low, high):
    if low > 0:
        return "confirmed"
    return "contradicted" if high < 0 else "open"


def judged(
    pairs=lambda order: itertools.combinations(order, 2), error=student_error, word=three_words
):
    def student(order, results, t):
        words = {}
        for first, second in pairs(order):
            a = results[first]
            b = results[second]
            mean = (a - b).mean()
            half = t * error(a, b)
            words[first, second] = word(mean - half, mean + half)
        return words

    return student


def fixed(factor):
    """An interval of the width that belongs to this factor, whatever t is."""

    def student(order, results, t):
        return judged()(order, results, factor)

    return student


JUDGES = {
    "neighbours": (judged(itertools.pairwise), "not about neighbours alone"),
    "both directions": (
        judged(lambda order: itertools.permutations(order, 2)),
        "each pair once",
    ),
    "sorted names": (
        judged(lambda order: itertools.combinations(sorted(order), 2)),
        "as in the order you were given",
    ),
    "from the last": (
        judged(lambda order: itertools.combinations(order[::-1], 2)),
        "as in the order you were given",
    ),
    "with the best alone": (
        judged(lambda order: [(order[0], other) for other in order[1:]]),
        "the keys are the 6 pairs",
    ),
    "means": (
        judged(word=lambda low, high: "confirmed" if low + high > 0 else "contradicted"),
        "a mean alone decides nothing",
    ),
    "second minus first": (
        judged(word=lambda low, high: three_words(-high, -low)),
        "first minus second",
    ),
    "never contradicted": (
        judged(word=lambda low, high: "confirmed" if low > 0 else "open"),
        "can be contradicted, too",
    ),
    "never open": (
        judged(word=lambda low, high: "confirmed" if low > 0 else "contradicted"),
        "is not yet contradicted",
    ),
    "not contradicted": (
        judged(word=lambda low, high: "contradicted" if high < 0 else "confirmed"),
        "is not yet confirmed",
    ),
    "the other end": (
        judged(word=lambda low, high: three_words(high, low)),
        "the WHOLE interval has to",
    ),
    "unpaired": (
        judged(error=lambda a, b: ((a.var() + b.var()) / len(a)) ** 0.5),
        "the seeds are paired",
    ),
    "single differences": (judged(error=lambda a, b: (a - b).std()), "smaller by sqrt(n)"),
    "by n": (judged(error=lambda a, b: (a - b).std() / len(a)), "not by n"),
    "without t": (fixed(1), "multiply by t"),
    "1.96": (fixed(1.96), "1.96 is not the argument t"),
    # accepted before
    "numpy's spread": (
        judged(error=lambda a, b: numpy.std((a - b).numpy()) / len(a) ** 0.5),
        "divide the squares by n - 1",
    ),
    "root of n - 1": (
        judged(error=lambda a, b: (a - b).std() / (len(a) - 1) ** 0.5),
        "already in the standard deviation",
    ),
    "2.571": (fixed(2.571), "not always 2.571"),
    "2.776": (fixed(2.776), "not always 2.776"),
    "3.182": (fixed(3.182), "not always 3.182"),
    "six seeds built in": (judged(error=lambda a, b: (a - b).std() / 6**0.5), "not always 6"),
    "five seeds built in": (judged(error=lambda a, b: (a - b).std() / 5**0.5), "not always 5"),
    "a variance": (judged(error=lambda a, b: (a - b).var() / len(a) ** 0.5), "take its root"),
    "half as wide": (
        judged(error=lambda a, b: (a - b).std() / len(a) ** 0.5 / 2),
        "yours is half as wide",
    ),
    "all open": (judged(word=lambda low, high: "open"), "open is not all that can be said"),
    "at random": (
        judged(word=lambda low, high: "confirmed" if low > -0.4 else "open"),
        "your word is 'confirmed', and it should be another one",
    ),
    "other words": (judged(word=lambda low, high: "better"), "the words are"),
    "a list": (lambda order, results, t: ["open"] * 6, "return a dict"),
    "one word": (lambda order, results, t: "open", "return a dict"),
    "sorts the caller's list": (
        lambda order, results, t: judged()(order.sort() or order, results, t),
        "was changed in place",
    ),
}


@named(JUDGES)
def test_judge(answer, message):
    assert message in check.judge(answer)


def judged_by_lists(order, results, t):
    words = {}
    for i, first in enumerate(order):
        for second in order[i + 1 :]:
            d = [
                a - b
                for a, b in zip(results[first].tolist(), results[second].tolist(), strict=True)
            ]
            center = mean(d)
            reach = t * stdev(d) / math.sqrt(len(d))
            words[first, second] = three_words(center - reach, center + reach)
    return dict(reversed(words.items()))


def logarithms(sizes, depth):
    rate = sizes.log().diff().mean()
    return (sizes[0].log() + (depth - 1) * rate).exp()


def held(d, t, truth, axis=-1):
    error = d.std(axis) / d.shape[axis] ** 0.5
    return (d.mean(axis) - truth).abs() < t * error


COVERAGES = {
    "misses": (lambda d, t, truth: 1 - held(d, t, truth).double().mean(), "MISSES"),
    "0 for ever": (lambda d, t, truth: held(d, t, 0.0).double().mean(), "not always 0"),
    "single differences": (
        lambda d, t, truth: held(d, t * d.shape[-1] ** 0.5, truth).double().mean(),
        "smaller by sqrt(n)",
    ),
    "divided by n": (
        lambda d, t, truth: (
            ((d.mean(-1) - truth).abs() < t * d.std(-1, correction=0) / d.shape[-1] ** 0.5)
            .double()
            .mean()
        ),
        "by n - 1",
    ),
    "1.96": (lambda d, t, truth: held(d, 1.96, truth).double().mean(), "not the argument t"),
    "count": (lambda d, t, truth: held(d, t, truth).sum(), "that is a count"),
    "all of them": (lambda d, t, truth: held(d, t, truth).all().double(), "whether ALL intervals"),
    "any of them": (lambda d, t, truth: held(d, t, truth).any().double(), "whether ANY interval"),
    "columns": (lambda d, t, truth: held(d, t, truth, axis=0).double().mean(), "a trial is a row"),
    "one end": (
        lambda d, t, truth: (
            ((d.mean(-1) - truth) < t * d.std(-1) / d.shape[-1] ** 0.5).double().mean()
        ),
        "only one was compared",
    ),
    "percent": (lambda d, t, truth: 100 * held(d, t, truth).double().mean(), "not percent"),
    "by n": (
        lambda d, t, truth: held(d, t / d.shape[-1] ** 0.5, truth).double().mean(),
        "by sqrt(n), not by n",
    ),
    "root of the trials": (
        lambda d, t, truth: held(d, t * (d.shape[-1] / len(d)) ** 0.5, truth).double().mean(),
        "not the number of trials",
    ),
    "half as wide": (lambda d, t, truth: held(d, t / 2, truth).double().mean(), "half as wide"),
    "one spread for all": (
        lambda d, t, truth: (
            ((d.mean(-1) - truth).abs() < t * d.std() / d.shape[-1] ** 0.5).double().mean()
        ),
        "one for all rows",
    ),
    "range": (
        lambda d, t, truth: ((d.amin(-1) < truth) & (d.amax(-1) > truth)).double().mean(),
        "from the smallest to the largest",
    ),
    "single differences held": (
        lambda d, t, truth: (
            ((d - truth).abs() < t * d.std(-1, keepdim=True) / d.shape[-1] ** 0.5).double().mean()
        ),
        "not the single differences",
    ),
    "five for ever": (
        lambda d, t, truth: ((d.mean(-1) - truth).abs() < t * d.std(-1) / 5**0.5).double().mean(),
        "is off by",
    ),
}


@named(COVERAGES)
def test_coverage(answer, message):
    assert message in check.coverage(answer)


def coverage_by_a_loop(d, t, truth):
    count = 0
    for row in d.tolist():
        middle = mean(row)
        spread = math.sqrt(sum((v - middle) ** 2 for v in row) / (len(row) - 1))
        count += abs(middle - truth) < t * spread / math.sqrt(len(row))
    return count / len(d)


def judged_by_numpy(order, results, t):
    words = {}
    for pair in itertools.combinations(order, 2):
        d = numpy.subtract(*(results[name].numpy() for name in pair))
        middle, reach = d.mean(), t * d.std(ddof=1) / len(d) ** 0.5
        words[pair] = {1: "confirmed", -1: "contradicted", 0: "open"}[
            int(middle > reach) - int(middle < -reach)
        ]
    return words


def by_sums(d, t, truth):
    n = d.shape[1]
    middle = d.sum(1) / n
    square = (d - middle[:, None]).square().sum(1) / (n - 1) / n
    return ((middle - truth).square() < t * t * square).float().mean()


def coverage_as_a_fraction(d, t, truth):
    hits = sum(held(row, t, truth).item() for row in d)
    return Fraction(hits, len(d))


def by_numpy(sizes, depth):
    logs = numpy.log(sizes.numpy())
    return numpy.exp(logs[0] + (logs[-1] - logs[0]) / (len(logs) - 1) * (depth - 1))


def by_a_while_loop(norms, right, steps, of):
    i = 0
    while i < len(right) and 10 * right[i] < 9 * of:
        i += 1
    speed = Fraction(1, steps[i]) if i < len(right) else 0
    return numpy.mean(norms) / norms[0], torch.tensor(norms).max() / norms[0], speed


def sorted_only(p):
    return comparisons.holm(p).sort().values


def running(p, factors, clip=True):
    order = p.argsort()
    corrected = (factors * p[order]).cummax(0).values
    result = torch.empty_like(p)
    result[order] = corrected.clamp(max=1) if clip else corrected
    return result


def down(p):
    return torch.arange(len(p), 0, -1, dtype=p.dtype)


def from_large(p):
    order = p.argsort(descending=True)
    result = torch.empty_like(p)
    result[order] = (down(p) * p[order]).cummax(0).values.clamp(max=1)
    return result


def backwards(p):
    """The smallest of what follows, as in the other correction."""
    order = p.argsort()
    smallest = (down(p) * p[order]).flip(0).cummin(0).values.flip(0)
    result = torch.empty_like(p)
    result[order] = smallest.clamp(max=1)
    return result


def neighbours(p):
    """No smaller than the product before it: one fall is mended, and the second is not."""
    order = p.argsort()
    products = down(p) * p[order]
    corrected = torch.maximum(products, products.roll(1).index_fill(0, torch.tensor([0]), 0.0))
    result = torch.empty_like(p)
    result[order] = corrected.clamp(max=1)
    return result


CORRECTIONS = {
    "Bonferroni": (lambda p: (len(p) * p).clamp(max=1), "Bonferroni"),
    "Bonferroni above 1": (lambda p: len(p) * p, "Bonferroni's correction, and"),
    "not sorted at all": (
        lambda p: (down(p) * p).cummax(0).values.clamp(max=1),
        "sort before you multiply",
    ),
    "from large to small": (
        from_large,
        "yours goes from large to small",
    ),
    "m + 1": (lambda p: running(p, down(p) + 1), "by k, not by k + 1"),
    "back from the largest": (backwards, "goes back from the largest"),
    "the other one": (comparisons.benjamini_hochberg, "Benjamini and Hochberg's"),
    "not above 1": (lambda p: running(p, down(p), clip=False), "at most 1"),
    "may fall": (
        lambda p: torch.stack([(v * (p >= v).sum()).clamp(max=1) for v in p]),
        "may not fall",
    ),
    "sorted": (sorted_only, "not sorted"),
    "factors from the other end": (
        lambda p: running(p, down(p).flip(0)),
        "began at the other end",
    ),
    "factors in the order of coming": (
        lambda p: (down(p) * p).clamp(max=1),
        "not the order in which they came",
    ),
    "m - 1": (lambda p: running(p, down(p) - 1), "by k, not by k - 1"),
    "taken with the order, not put back": (
        lambda p: comparisons.holm(p).sort().values[p.argsort()],
        "result[order] = corrected",
    ),
    "as they are": (lambda p: p.clone(), "nothing was corrected"),
    "six for ever": (lambda p: running(p, torch.arange(6, 6 - len(p), -1)), "is off by"),
    "step 3 with the neighbour's product": (neighbours, "compare with the VALUE"),
    "in place": (lambda p: p.mul_(len(p)), "in place"),
    "a list": (lambda p: comparisons.holm(p).tolist(), "expected a tensor"),
}


@named(CORRECTIONS)
def test_holm(answer, message):
    assert message in check.holm(answer)


def holm_by_a_loop(p):
    largest = 0.0
    result = [0.0] * len(p)
    for done, i in enumerate(sorted(range(len(p)), key=p.tolist().__getitem__)):
        largest = max(largest, min(1.0, (len(p) - done) * p[i].item()))
        result[i] = largest
    return torch.tensor(result)


def holm_by_numpy(p):
    order = numpy.argsort(p.numpy())
    products = numpy.arange(len(p), 0, -1) * p.numpy()[order]
    result = numpy.empty(len(p))
    result[order] = numpy.minimum(numpy.maximum.accumulate(products), 1)
    return torch.from_numpy(result)


def holm_by_ranks(p):
    rank = p.argsort().argsort()
    products = p * (len(p) - rank)
    return torch.stack([products[rank <= r].max().clamp(max=1) for r in rank])


ACCEPTED = {
    "Holm by numpy": (check.holm, holm_by_numpy),
    "Holm by ranks": (check.holm, holm_by_ranks),
    "Holm by a loop": (check.holm, holm_by_a_loop),
    "an order by numpy": (check.judge, judged_by_numpy),
    "an order, bound": (check.judge, partial(judged())),
    "a share by sums, in float32": (check.coverage, by_sums),
    "a share as a fraction": (check.coverage, coverage_as_a_fraction),
    "logarithms by numpy": (check.extrapolate, by_numpy),
    "measures by a while loop": (check.measures, by_a_while_loop),
    "an order by lists": (check.judge, judged_by_lists),
    "speeds by a loop": (check.measures, measures(speed=or_else(lambda steps: 0.0))),
    "by logarithms": (check.extrapolate, logarithms),
    "a share by a loop": (check.coverage, coverage_by_a_loop),
}


@pytest.mark.parametrize(("accepts", "answer"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_written_otherwise_is_accepted(accepts, answer):
    assert accepts(answer).startswith("[ok]")
