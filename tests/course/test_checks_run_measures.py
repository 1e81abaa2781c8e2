"""The checks of lesson 08a name the slips people make."""

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
    "nothing if it falls again": (
        measures(speed=lambda r, s, of: 0.0 if r[-1] / of < 0.9 else 1 / first(r, s, of)),
        "where the run ends below the level",
    ),
    "the least of none": (
        measures(
            speed=lambda r, s, of: 1 / min(b for a, b in zip(r, s, strict=True) if a >= 0.9 * of)
        ),
        "and there is none",
    ),
    "the next of none": (
        measures(
            speed=lambda r, s, of: 1 / next(b for a, b in zip(r, s, strict=True) if a >= 0.9 * of)
        ),
        "and there is none",
    ),
    "one over the first step": (
        measures(speed=or_else(lambda steps: 1 / steps[0])),
        "not one over its first step",
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


def named(table):
    return pytest.mark.parametrize(("answer", "message"), table.values(), ids=table)


@named(MEASURES)
def test_measures(answer, message):
    assert message in check.measures(answer)


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


def left_out(d, t, axis=-1):
    """(families, k): whether the interval of each comparison leaves 0 out."""
    error = d.std(axis) / d.shape[axis] ** 0.5
    return d.mean(axis).abs() > t * error


def at_least_one(found):
    return found.any(-1).double().mean()


def of_all(reach, t):
    """Families whose largest distance, in these errors, is more than t."""
    return (reach.amax(-1) > t).double().mean()


FAMILIES = {
    "single comparisons": (lambda d, t: left_out(d, t).double().mean(), "any(-1) before the mean"),
    "all of a family": (lambda d, t: left_out(d, t).all(-1).double().mean(), "whether ALL"),
    "families without": (lambda d, t: 1 - at_least_one(left_out(d, t)), "WITHOUT"),
    "those that hold": (lambda d, t: at_least_one(~left_out(d, t)), "that HOLDS 0"),
    "too high": (
        lambda d, t: at_least_one(d.mean(-1) > t * d.std(-1) / d.shape[-1] ** 0.5),
        "far below 0 is a false finding, too",
    ),
    "too low": (
        lambda d, t: at_least_one(d.mean(-1) < -t * d.std(-1) / d.shape[-1] ** 0.5),
        "far above 0 is a false finding, too",
    ),
    "findings of a family": (
        lambda d, t: left_out(d, t).double().sum(-1).mean(),
        "how many false findings a family has on average",
    ),
    "calculated": (
        lambda d, t: 1 - (1 - left_out(d, t).double().mean()) ** d.shape[1],
        "count the families",
    ),
    "percent": (lambda d, t: 100 * at_least_one(left_out(d, t)), "not percent"),
    "count": (lambda d, t: left_out(d, t).any(-1).sum(), "that is a count"),
    "by all comparisons": (
        lambda d, t: left_out(d, t).any(-1).sum() / left_out(d, t).numel(),
        "not by that of all comparisons",
    ),
    "any family": (
        lambda d, t: left_out(d, t).any(0).double().mean(),
        "goes through the families for each comparison",
    ),
    "any at all": (lambda d, t: left_out(d, t).any().double(), "in all families together"),
    "over the comparisons": (
        lambda d, t: at_least_one(left_out(d, t, axis=1)),
        "n is the last axis",
    ),
    "over the families": (lambda d, t: at_least_one(left_out(d, t, axis=0)), "is off by"),
    "all differences of a family in one": (
        lambda d, t: left_out(d.reshape(len(d), -1), t).double().mean(),
        "do not pool a family",
    ),
    "one spread a family": (
        lambda d, t: of_all(
            d.mean(-1).abs() / d.flatten(1).std(-1, keepdim=True) * d.shape[-1] ** 0.5, t
        ),
        "that is one for the family",
    ),
    "one spread": (
        lambda d, t: of_all(d.mean(-1).abs() / d.std() * d.shape[-1] ** 0.5, t),
        "that is one for all",
    ),
    "range": (
        lambda d, t: at_least_one((d > 0).all(-1) | (d < 0).all(-1)),
        "from the smallest to the largest",
    ),
    "mean of a family": (
        lambda d, t: left_out(d.mean(1), t).double().mean(),
        "says nothing about one of them",
    ),
    "single differences": (
        lambda d, t: of_all(d.mean(-1).abs() / d.std(-1), t),
        "smaller by sqrt(n)",
    ),
    "numpy's spread": (
        lambda d, t: at_least_one(left_out(d, t * ((d.shape[-1] - 1) / d.shape[-1]) ** 0.5)),
        "divide the squares by n - 1",
    ),
    "root of n - 1": (
        lambda d, t: of_all(d.mean(-1).abs() / d.std(-1) * (d.shape[-1] - 1) ** 0.5, t),
        "already in the standard deviation",
    ),
    "a variance": (
        lambda d, t: of_all(d.mean(-1).abs() / d.var(-1) * d.shape[-1] ** 0.5, t),
        "take its root",
    ),
    "1.96": (lambda d, t: at_least_one(left_out(d, 1.96)), "1.96 is not the argument t"),
    "2.262": (lambda d, t: at_least_one(left_out(d, 2.262)), "not always 2.262"),
    "one standard error": (lambda d, t: at_least_one(left_out(d, 1)), "multiply by t"),
    "half as wide": (lambda d, t: at_least_one(left_out(d, t / 2)), "yours is half as wide"),
    "divided by n": (
        lambda d, t: at_least_one(left_out(d, t / d.shape[-1] ** 0.5)),
        "by sqrt(n), not by n",
    ),
    "five for ever": (
        lambda d, t: of_all(d.mean(-1).abs() / d.std(-1) * 5**0.5, t),
        "not always 5",
    ),
    "ten for ever": (
        lambda d, t: of_all(d.mean(-1).abs() / d.std(-1) * 10**0.5, t),
        "not always 10",
    ),
    "sizes before the mean": (
        lambda d, t: of_all(d.abs().mean(-1) / d.std(-1) * d.shape[-1] ** 0.5, t),
        "differences of both signs cancel",
    ),
    "root of k": (
        lambda d, t: of_all(d.mean(-1).abs() / d.std(-1) * d.shape[1] ** 0.5, t),
        "divides by the root of k",
    ),
    "the first comparison": (
        lambda d, t: left_out(d[:, 0], t).double().mean(),
        "looks at the first alone",
    ),
    "a table": (left_out, "expected a number"),
    "in place": (lambda d, t: at_least_one(left_out(d.mul_(2), t)), "changed in place"),
}


@named(FAMILIES)
def test_family(answer, message):
    assert message in check.family(answer)


def family_by_a_loop(d, t):
    count = 0
    for rows in d.tolist():
        reach = [abs(mean(row)) / (stdev(row) / math.sqrt(len(row))) for row in rows]
        count += max(reach) > t
    return count / len(d)


def family_by_sums(d, t):
    n = d.shape[-1]
    middle = d.sum(-1) / n
    square = (d - middle[..., None]).square().sum(-1) / (n - 1) / n
    return (middle.square() > t * t * square).any(1).float().mean()


def family_as_a_fraction(d, t):
    hits = sum(bool(left_out(rows, t).any()) for rows in d)
    return Fraction(hits, len(d))


def family_by_numpy(d, t):
    d = d.numpy()
    error = d.std(axis=2, ddof=1) / d.shape[2] ** 0.5
    return (abs(d.mean(axis=2)) > t * error).any(axis=1).mean()


def by_a_while_loop(norms, right, steps, of):
    i = 0
    while i < len(right) and 10 * right[i] < 9 * of:
        i += 1
    speed = Fraction(1, steps[i]) if i < len(right) else 0
    return numpy.mean(norms) / norms[0], torch.tensor(norms).max() / norms[0], speed


ACCEPTED = {
    "Holm by numpy": (check.holm, holm_by_numpy),
    "Holm by ranks": (check.holm, holm_by_ranks),
    "Holm by a loop": (check.holm, holm_by_a_loop),
    "a family by numpy": (check.family, family_by_numpy),
    "a family, bound": (check.family, partial(lambda t, d, q: family_by_sums(d, q), None)),
    "a family by sums, in float32": (check.family, family_by_sums),
    "a family as a fraction": (check.family, family_as_a_fraction),
    "a family by a loop": (check.family, family_by_a_loop),
    "measures by a while loop": (check.measures, by_a_while_loop),
    "speeds by a loop": (check.measures, measures(speed=or_else(lambda steps: 0.0))),
}


@pytest.mark.parametrize(("accepts", "answer"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_written_otherwise_is_accepted(accepts, answer):
    assert accepts(answer).startswith("[ok]")
