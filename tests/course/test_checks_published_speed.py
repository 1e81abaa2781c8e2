"""The checks of lesson 07a name the slips people make."""

from fractions import Fraction
from unittest import mock

import numpy
import pytest
import torch

from normcourse import timing
from normcourse.checks import published_speed as check
from normcourse.timing.simulated import Host

EMPTY = (0, 0.0, 0.0)

BYTES = {
    "plain RMSNorm": (
        lambda n, d, s, p: 3 * n * d * s + 2 * d * s + 4 * n + 8 * p * d,
        "plain RMSNorm",
    ),
    "dx and dr": (
        lambda n, d, s, p: 5 * n * d * s + 2 * d * s + 4 * n + 8 * p * d,
        "one tensor is written",
    ),
    "a forward": (
        lambda n, d, s, p: 2 * n * d * s + 2 * d * s + 4 * n + 8 * p * d,
        "are a forward",
    ),
    "x and r again": (
        lambda n, d, s, p: 6 * n * d * s + 2 * d * s + 4 * n + 8 * p * d,
        "h was kept",
    ),
    "no partials": (
        lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 4 * n,
        "partial sums of dw are missing",
    ),
    "partials once": (
        lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 4 * n + 4 * p * d,
        "AND read again",
    ),
    "partials in s": (
        lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 4 * n + 2 * s * p * d,
        "sums are fp32",
    ),
    "a partial a row": (
        lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 4 * n + 8 * n * d,
        "per PROGRAM",
    ),
    "no rstd": (lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 8 * p * d, "rstd is missing"),
    "rstd in s": (lambda n, d, s, p: 4 * n * d * s + 2 * d * s + s * n + 8 * p * d, "rstd is fp32"),
    "a mean": (lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 8 * n + 8 * p * d, "no mean"),
    "rstd a feature": (
        lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 4 * d + 8 * p * d,
        "number a ROW",
    ),
    "no dw": (lambda n, d, s, p: 4 * n * d * s + d * s + 4 * n + 8 * p * d, "one of the two"),
    "no w": (lambda n, d, s, p: 4 * n * d * s + 4 * n + 8 * p * d, "neither"),
    "db": (lambda n, d, s, p: 4 * n * d * s + 3 * d * s + 4 * n + 8 * p * d, "no db"),
    "elements": (lambda n, d, s, p: 4 * n * d + 2 * d + n + 2 * p * d, "not bytes"),
    "w for each program": (
        lambda n, d, s, p: 4 * n * d * s + (p + 1) * d * s + 4 * n + 8 * p * d,
        "read once",
    ),
    "sums of dx": (
        lambda n, d, s, p: 4 * n * d * s + 2 * d * s + 4 * n + 16 * p * d,
        "only dw is a sum",
    ),
    "large alone": (lambda n, d, s, p: 4 * n * d * s, "small parts are missing"),
    "no size": (lambda n, d, s, p: 4 * n * d + 2 * d * s + 4 * n + 8 * p * d, "`size` bytes"),
    "bits": (
        lambda n, d, s, p: 8 * (4 * n * d * s + 2 * d * s + 4 * n + 8 * p * d),
        "not bits",
    ),
    "something": (lambda n, d, s, p: n * d, "off by"),
}


@pytest.mark.parametrize("answer, message", BYTES.values(), ids=BYTES)
def test_wrong_byte_count_is_named(answer, message):
    verdict = check.backward_bytes(answer)
    assert verdict.startswith("[x]") and message in verdict


def merged(count=None, mean=None, between=None, final=lambda m2, n: m2):
    """A merge with one thing to get wrong at a time."""

    def student(a, b):
        na, ma, sa = a
        nb, mb, sb = b
        n = na + nb
        d = mb - ma
        joint = mean(na, ma, nb, mb) if mean else ma + d * nb / n
        apart = between(na, nb, d) if between else d**2 * na * nb / n
        return count(na, nb) if count else n, joint, final(sa + sb + apart, n)

    return student


def between_alone(a, b):
    count, mean, m2 = merged()(a, b)
    return count, mean, m2 - a[2] - b[2]


def first_for_ever():
    kept = []

    def student(a, b):
        kept.append(merged()(a, b))
        return kept[0]

    return student


def careful(a, b):
    """An empty side changes nothing."""
    if a[0] == 0 or b[0] == 0:
        return max(a, b)
    return merged()(a, b)


def merged_through_squares(a, b):
    na, ma, sa = a
    nb, mb, sb = b
    n = na + nb
    mean = (na * ma + nb * mb) / n
    return n, mean, sa + na * ma**2 + sb + nb * mb**2 - n * mean**2


MERGE = {
    "count of one side": (merged(count=lambda na, nb: na), "the counts add up"),
    "plain average": (merged(mean=lambda na, ma, nb, mb: (ma + mb) / 2), "plain average"),
    "weights exchanged": (
        merged(mean=lambda na, ma, nb, mb: (nb * ma + na * mb) / (na + nb)),
        "are exchanged",
    ),
    "sum for the mean": (
        merged(mean=lambda na, ma, nb, mb: na * ma + nb * mb),
        "sum of the values",
    ),
    "means added": (merged(mean=lambda na, ma, nb, mb: ma + mb), "added, not averaged"),
    "no distance": (merged(between=lambda na, nb, d: 0.0), "their distance adds"),
    "distance not squared": (
        merged(between=lambda na, nb, d: d * na * nb / (na + nb)),
        "comes in squared",
    ),
    "no weight": (merged(between=lambda na, nb, d: d**2), "has a weight"),
    "weight not divided": (merged(between=lambda na, nb, d: d**2 * na * nb), "is too large"),
    "sum of the counts": (
        merged(between=lambda na, nb, d: d**2 * (na + nb)),
        "PRODUCT of the counts",
    ),
    "one count": (merged(between=lambda na, nb, d: d**2 * na), "not with one"),
    "share of the first": (
        merged(between=lambda na, nb, d: d**2 * na / (na + nb)),
        "your weight is n_a / n",
    ),
    "share of the second": (
        merged(between=lambda na, nb, d: d**2 * nb / (na + nb)),
        "your weight is n_b / n",
    ),
    "second count": (merged(between=lambda na, nb, d: d**2 * nb), "not with n_b alone"),
    "divided twice": (
        merged(between=lambda na, nb, d: d**2 * na * nb / (na + nb) ** 2),
        "not by its square",
    ),
    "distance subtracted": (
        merged(between=lambda na, nb, d: -(d**2) * na * nb / (na + nb)),
        "added, not subtracted",
    ),
    "m2 averaged": (
        lambda a, b: (*merged()(a, b)[:2], (a[0] * a[2] + b[0] * b[2]) / (a[0] + b[0])),
        "added, not averaged; and the distance",
    ),
    "distance only": (between_alone, "m2 of both sides is missing"),
    # accepted before
    "five built in": (
        merged(between=lambda na, nb, d: d**2 * na * nb / 5),
        "the joint count below n_a n_b is not always 5",
    ),
    "five in the mean": (
        merged(mean=lambda na, ma, nb, mb: (na * ma + nb * mb) / 5),
        "the joint count is not always 5",
    ),
    "the sum plus one": (
        merged(between=lambda na, nb, d: d**2 * (na + nb + 1) / (na + nb)),
        "the sum plus 1 for 2 and 3 alone",
    ),
    "the first answer": (first_for_ever(), "every call gives the result of the first one"),
    "count of the other side": (merged(count=lambda na, nb: nb), "the second one's"),
    "both empty": (merged(), "(0, 0.0, 0.0) and (0, 0.0, 0.0) make (0, 0.0, 0.0)"),
    "both empty, by tensors": (
        lambda a, b: merged()(torch.tensor(a).double(), torch.tensor(b).double()),
        "[x]",
    ),
    "an empty side": (
        lambda a, b: merged(between=lambda na, nb, d: d**2 / (1 / na + 1 / nb))(a, b),
        "divides by a count of 0",
    ),
    "an empty side gives nothing": (
        lambda a, b: merged()(a, b) if a[0] and b[0] else (0, 0.0, 0.0),
        "count of (2, 3.0, 2.0) and (0, 0.0, 0.0) is off",
    ),
    "variance": (merged(final=lambda m2, n: m2 / n), "that is the variance"),
    "unbiased variance": (
        merged(final=lambda m2, n: m2 / (n - 1)),
        "that is the unbiased variance",
    ),
    "through squares": (merged_through_squares, "lost at mean 1e9"),
    "two results": (lambda a, b: (6.6, 51.2), "expected a tuple (count, mean, m2)"),
}


@pytest.mark.parametrize("answer, message", MERGE.values(), ids=MERGE)
def test_a_wrong_merge_is_named(answer, message):
    verdict = check.merge(answer)
    assert verdict.startswith("[x]") and message in verdict


def weighted_mean(n, mean, m2, value):
    new = (n * mean + value) / (n + 1)
    return n + 1, new, m2 + n / (n + 1) * (value - mean) ** 2


def merged_by_sums(a, b):
    n = a[0] + b[0] or 1
    mean = (a[0] * a[1] + b[0] * b[1]) / n
    around = a[0] * (a[1] - mean) ** 2 + b[0] * (b[1] - mean) ** 2
    return a[0] + b[0], mean, a[2] + b[2] + around


def merged_by_fractions(a, b):
    na, ma, sa = map(Fraction, a)
    nb, mb, sb = map(Fraction, b)
    if not na + nb:
        return EMPTY
    return na + nb, (na * ma + nb * mb) / (na + nb), sa + sb + (mb - ma) ** 2 * na * nb / (na + nb)


def merged_value_by_value(a, b):
    """The second side as values that have its mean and its sum of squares."""
    triple = a
    for i in range(b[0]):
        away = (b[2] / 2) ** 0.5 if b[0] > 1 and i < 2 else 0.0
        triple = weighted_mean(*triple, b[1] + (away if i % 2 else -away))
    return triple


MERGED = {
    "lists": lambda a, b: list(careful(a, b)),
    "by sums": merged_by_sums,
    "by fractions": merged_by_fractions,
    "value by value": merged_value_by_value,
    "by tensors": lambda a, b: tuple(map(torch.tensor, careful(a, b))),
}


@pytest.mark.parametrize("answer", MERGED.values(), ids=MERGED)
def test_an_unusual_right_merge_passes(answer):
    assert check.merge(answer).startswith("[ok]")


SIZES = [8e3, 8e4, 8e5, 8e6, 8e7, 1.6e8]
WOBBLE = [1.1, 0.9, 1.04, 0.97, 1.02, 0.99]  # as no two measurements are equal
ON_THE_LINE = [1e-6 + size / 1e10 for size in SIZES]
SECONDS = [wobble * t for wobble, t in zip(WOBBLE, ON_THE_LINE, strict=True)]
GPU = [wobble * (5e-6 + size / 3e12) for wobble, size in zip(WOBBLE, SIZES, strict=True)]
LINES = {
    "a number": (8e6, SECONDS, "expected a list"),
    "one time too few": (SIZES, SECONDS[1:], "one time for each size"),
    "five sizes": (SIZES[1:], SECONDS[1:], "6 different sizes"),
    "a size twice": ([*SIZES[:5], 8e3], SECONDS, "6 different sizes"),
    "megabytes": ([size / 1e6 for size in SIZES], SECONDS, "sizes are bytes"),
    "narrow": ([1e6 + size for size in SIZES], SECONDS, "1000 times the smallest"),
    "milliseconds": (SIZES, [1e3 * t for t in SECONDS], "are these milliseconds"),
    "microseconds": (SIZES, [1e6 * t for t in SECONDS], "are these microseconds"),
    "no wait": (SIZES, [1.6e-5] * 6, "waited for"),
    "a negative time": (SIZES, [-1e-6, *SECONDS[1:]], "no positive number"),
    "a text": (SIZES, ["fast"] * 6, "expected a list of numbers"),
    "too fast": (SIZES, [1e-15] * 6, "no memory does"),
    "a formula": (SIZES, ON_THE_LINE, "Measured times scatter"),
    "one speed": (SIZES, [size / 1e10 for size in SIZES], "Measured times scatter"),
    "two exchanged": (SIZES, [*SECONDS[:3], SECONDS[4], SECONDS[3], SECONDS[5]], "one order"),
    "invented": (SIZES, [t / 5 for t in SECONDS], "Was every copy made"),
    "a GPU's, and none here": (SIZES, GPU, "Was every copy made"),
    "all calls together": (SIZES, [60 * t for t in SECONDS], "count many calls"),
    "counted up": (SIZES, [1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3], "count many calls"),
}


def own_line(sizes, seconds, *machines):
    """The check, whose own copies run at 10 GB/s, or on these machines."""
    there = mock.patch.object(check, "_machines", lambda: list(machines) or [Host()])
    small = mock.patch.object(check, "CHECKED", 2**20)  # copies take real seconds here
    with there, small:
        return check.own_line(sizes, seconds)


@pytest.mark.parametrize("sizes, seconds, message", LINES.values(), ids=LINES)
def test_an_impossible_line_is_named(sizes, seconds, message):
    verdict = own_line(sizes, seconds)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(
    "kind",
    [list, tuple, torch.tensor, numpy.array, lambda values: [Fraction(v) for v in values]],
    ids=["list", "tuple", "tensor", "array", "fractions"],
)
def test_a_measured_line_is_right(kind):
    assert own_line(kind(SIZES), kind(SECONDS)).startswith("[ok]")
    busy = [3 * t for t in SECONDS]
    assert own_line(kind(SIZES), kind(busy)).startswith("[ok]")
    slow_start = [5 * SECONDS[1], *SECONDS[1:]]  # seen: 4 kB that took longer than 40 kB
    assert own_line(kind(SIZES), kind(slow_start)).startswith("[ok]")


def test_a_line_of_the_gpu_is_right_where_there_is_one():
    gpu = Host(bandwidth=3e12, start=5e-6)
    assert own_line(SIZES, GPU, Host(), gpu).startswith("[ok]")
    assert own_line(SIZES, SECONDS, Host(), gpu).startswith("[ok]")
    invented = [t / 200 for t in SECONDS]
    assert "on this machine, in" in own_line(SIZES, invented, Host(), gpu)


def test_a_size_that_the_check_does_not_copy_is_not_compared():
    sizes = [1e9 * size for size in SIZES]
    assert own_line(sizes, [1e9 * t for t in SECONDS]).startswith("[ok]")


def test_the_check_copies_where_it_is_told():
    """A machine as an argument; without one, this CPU, and the GPU if there is one."""
    assert check.own_line(SIZES, SECONDS, Host()).startswith("[ok]")
    assert "Was every copy made" in check.own_line(SIZES, SECONDS, Host(bandwidth=1e9))
    kinds = [type(machine) for machine in check._machines()]
    assert kinds == [timing.Cpu, timing.Cuda][: 1 + torch.cuda.is_available()]


def test_the_own_copies_are_timed_by_the_clock_of_the_machine():
    host = Host(bandwidth=1e10, start=1e-6)
    small = check._copy_time(8e3, host)
    large = check._copy_time(8e7, host)
    assert small == pytest.approx(0.95 * (1e-6 + 8e3 / 1e10), rel=0.01)  # the shortest of nine
    assert large == pytest.approx(0.95 * (1e-6 + 8e7 / 1e10), rel=0.01)
    assert check._copy_time(8e3, timing.Cpu()) >= 0  # a real clock, of which nothing is asked


RATIOS = {
    "upside down": (2.25, 1.0, "turn both round"),
    "both upside down": (2.25, 2.25, "fused both move the same"),
    "reported": (0.48, 1.0, "what is reported"),
    "fused as not fused": (0.444, 0.444, "two large tensors"),
    "two tensors": (0.444, 2.0, "not the number of tensors"),
    "both passes": (0.375, 1.0, "only the forward"),
    "the backward": (16 / 46, 1.0, "the backward alone"),
    "float32": (8 / 7, 1.0, "the paper's is `llama` in"),
    "torch's": (0.4, 1.0, "the line `F.rms_norm`"),
    "normlib's DyT": (12 / 18, 1.0, "normlib's; the paper's layer"),
    "both normlib's": (12 / 7, 1.0, "those two are normlib's"),
    "RMSNorm over LayerNorm": (7 / 12, 1.0, "RMSNorm over LayerNorm"),
    "the saving": (1 - 8 / 18, 0.0, "1 minus the ratio"),
    "percent": (44.4, 100, "not percent"),
    "a text": ("half", 1.0, "expected a number"),
}


@pytest.mark.parametrize("unfused, fused, message", RATIOS.values(), ids=RATIOS)
def test_wrong_ratios_are_named(unfused, fused, message):
    verdict = check.dyt_by_bytes(unfused, fused)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize("answer", [(0.44, 1), (8 / 18, 1.0), (torch.tensor(0.4444), 1.0)], ids=str)
def test_right_ratios_may_be_rounded(answer):
    assert check.dyt_by_bytes(*answer).startswith("[ok]")


LAYER = [1e-3 * (1 + 0.01 * (i % 7)) for i in range(24)]
SLOWER = [1.5 * t + 1e-6 * (i % 5) for i, t in enumerate(LAYER)]
NOISY = [t * (1.3 if i % 2 else 0.7) for i, t in enumerate(LAYER)]
TURNED = {
    "exchanged": (LAYER, SLOWER, "the faster one"),
    "undecided": (NOISY, LAYER, "includes 1"),
    "medians": (1.5e-3, 1e-3, "expected a list"),
    "twelve rounds": (SLOWER[:12], LAYER[:12], "measure 20"),
    "other lengths": (SLOWER[:22], LAYER, "they are pairs"),
    "one list twice": (LAYER, LAYER, "are the same"),
    "a median repeated": ([1.5e-3] * 24, LAYER, "every round"),
    "a negative time": ([-1.0, *SLOWER[1:]], LAYER, "no positive number"),
    "texts": (["slow"] * 24, LAYER, "expected a list of numbers"),
}


@pytest.mark.parametrize("rms, layer, message", TURNED.values(), ids=TURNED)
def test_a_sign_that_is_not_turned_is_named(rms, layer, message):
    verdict = check.turned(rms, layer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize("kind", [list, tuple, torch.tensor], ids=["list", "tuple", "tensor"])
def test_a_turned_sign_is_right(kind):
    assert check.turned(kind(SLOWER), kind(LAYER)).startswith("[ok]")
