"""Checks of lesson 07a, published speed-ups: one per exercise."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

import torch

from normcourse import timing
from normcourse.checks.probes import calls
from normcourse.checks.values import UNITS
from normcourse.checks.verdict import Slip, every_case, exercise, expect, expect_all, numbers, parts
from normcourse.timing.devices import resolve
from normcourse.timing.estimates import ratio
from normcourse.timing.results import in_words


@exercise("Exercise 1 (bytes of a backward)")
def backward_bytes(student: Callable) -> None:
    """student(rows, dim, size, programs): bytes of the backward of add + RMSNorm.

    [EQ-BYTES-BACKWARD]
    """
    with every_case():
        for sizes in (
            (700, 48, 1, 9),
            (8000, 4096, 16, 132),
        ):  # rows, dim, bytes an element, programs
            got = student(*sizes)
            want = _moved(sizes)
            expect(got, want, _byte_slips(sizes), "the number of bytes", rtol=1e-12)


def _moved(
    sizes, large=4, gain=2, stats=0, stat_size=4, partials=0, partial_size=4, passes=2
) -> float:
    """Bytes of large tensors, gain and its gradient, one number a row, and partial sums."""
    rows, dim, size, programs = sizes
    tensors = (large * rows + gain) * dim * size
    sums = passes * (partials or programs) * dim * partial_size
    return float(tensors + (stats or rows) * stat_size + sums)


def _byte_slips(sizes: tuple[int, int, int, int]) -> dict[str, float]:
    rows, dim, size, programs = sizes
    moved = partial(_moved, sizes)
    slips = {
        "3 large tensors are plain RMSNorm. Here h goes on too, with a gradient dh.": (
            moved(large=3)
        ),
        "5 large tensors: dx and dr are the same numbers, so one tensor is written for both.": (
            moved(large=5)
        ),
        "2 large tensors are a forward: h, dy and dh are read, one gradient is written.": (
            moved(large=2)
        ),
        "6 large tensors: x and r are not read again, their sum h was kept.": moved(large=6),
        "the partial sums of dw are missing: each program writes a row, and all are read.": (
            moved(passes=0)
        ),
        "the partial sums are written AND read again.": moved(passes=1),
        "partial sums are fp32: 4 bytes each, whatever the tensors are.": moved(partial_size=size),
        "one partial row per PROGRAM, not per row of h.": moved(partials=rows),
        "rstd is missing: 4 bytes a row.": moved(stat_size=0),
        "rstd is fp32: 4 bytes a row, whatever the tensors are.": moved(stat_size=size),
        "RMSNorm keeps no mean: 4 bytes a row, not 8.": moved(stat_size=8),
        "rstd is one number a ROW, not a feature.": moved(stats=dim),
        "w is read and dw is written; you count one of the two.": moved(gain=1),
        "w is read and dw is written; you count neither.": moved(gain=0),
        "RMSNorm has no bias, so no db.": moved(gain=3),
        "the least: w is read once, not by each program.": moved(gain=programs + 1),
        "only dw is a sum over rows: one row of partial sums for each program.": moved(passes=4),
        "the small parts are missing: w and dw, rstd, and the partial sums of dw.": (
            4.0 * rows * dim * size
        ),
        "bytes, not bits.": 8 * moved(),
        "those are elements, not bytes.": 4.0 * rows * dim + 2 * dim + rows + 2 * programs * dim,
    }
    no_size = {
        "the large tensors have `size` bytes a number.": moved() - 4.0 * rows * dim * (size - 1)
    }
    return slips | no_size if size > 1 else slips


TRIPLE = ("count", "mean", "m2")


def _merged(a: tuple, b: tuple, mean: Callable | None = None, m2: Callable | None = None) -> tuple:
    """The right answer, but for what is given: functions of v."""
    v = SimpleNamespace(na=a[0], nb=b[0], n=a[0] + b[0], ma=a[1], mb=b[1], d=b[1] - a[1])
    v.inside = a[2] + b[2]
    v.between = v.d**2 * v.na * v.nb / v.n
    v.sa, v.sb = a[2], b[2]
    joint = (v.na * v.ma + v.nb * v.mb) / v.n
    return v.n, joint if mean is None else mean(v), v.inside + v.between if m2 is None else m2(v)


COUNT_SLIPS = {
    "the counts add up: 2 and 3 values are 5.": lambda a, b: (a[0], *_merged(a, b)[1:]),
    "the count is that of both sides; yours is the second one's.": lambda a, b: (
        b[0],
        *_merged(a, b)[1:],
    ),
    "the counts are arguments, and not always 2 and 3.": lambda a, b: (5, *_merged(a, b)[1:]),
}
MEAN_SLIPS = {
    "weigh the means with their counts; that is their plain average.": lambda v: (v.ma + v.mb) / 2,
    "the weights are exchanged: each mean counts as often as it has values.": lambda v: (
        (v.nb * v.ma + v.na * v.mb) / v.n
    ),
    "that is the sum of the values; divide by the joint count.": lambda v: (
        v.na * v.ma + v.nb * v.mb
    ),
    "the means are added, not averaged.": lambda v: v.ma + v.mb,
    "the joint count is not always 5: take it from the triples.": lambda v: (
        (v.na * v.ma + v.nb * v.mb) / 5
    ),
}
M2_SLIPS = {
    "the two means differ: their distance adds to the squared deviations.": lambda v: v.inside,
    "the distance of the means comes in squared.": lambda v: v.inside + v.d * v.na * v.nb / v.n,
    "the squared distance of the means has a weight made of both counts.": lambda v: (
        v.inside + v.d**2
    ),
    "the weight of the squared distance is too large: divide it by the joint count.": lambda v: (
        v.inside + v.d**2 * v.na * v.nb
    ),
    "the weight of the squared distance is the PRODUCT of the counts over their sum.": lambda v: (
        v.inside + v.d**2 * v.n
    ),
    "the weight of the squared distance is the PRODUCT of the counts over their sum; theirs was "
    "the sum plus 1 for 2 and 3 alone.": lambda v: v.inside + v.d**2 * (v.n + 1) / v.n,
    "weigh the squared distance with both counts, not with one: n_a n_b / n.": lambda v: (
        v.inside + v.d**2 * v.na
    ),
    "the squared distance needs both counts: n_a n_b / n; your weight is n_a / n.": lambda v: (
        v.inside + v.d**2 * v.na / v.n
    ),
    "the squared distance needs both counts: n_a n_b / n; your weight is n_b / n.": lambda v: (
        v.inside + v.d**2 * v.nb / v.n
    ),
    "weigh the squared distance with both counts, n_a n_b / n, not with n_b alone.": lambda v: (
        v.inside + v.d**2 * v.nb
    ),
    "the weight n_a n_b is divided by the joint count once, not by its square.": lambda v: (
        v.inside + v.between / v.n
    ),
    "the joint count below n_a n_b is not always 5: take it from the triples.": lambda v: (
        v.inside + v.d**2 * v.na * v.nb / 5
    ),
    "the squared distance is added, not subtracted: apart, the values vary more.": lambda v: (
        v.inside - v.between
    ),
    "m2 is a sum: the two are added, not averaged; and the distance of the means is missing.": (
        lambda v: (v.na * v.sa + v.nb * v.sb) / v.n
    ),
    "that is the share of the means alone; m2 of both sides is missing.": lambda v: v.between,
    "that is the variance; m2 is the sum, divide it at the very end.": lambda v: (
        (v.inside + v.between) / v.n
    ),
    "that is the unbiased variance; m2 is the sum, divide it at the very end.": lambda v: (
        (v.inside + v.between) / (v.n - 1)
    ),
}
EMPTY = (0, 0.0, 0.0)


@exercise("Exercise 2 (two workers, one variance)", f"ends with {EMPTY}")
def merge(student) -> None:
    """student(a, b) with a, b = (count, mean, m2) -> (count, mean, m2), numbers."""
    cases = [
        {"a": (2, 3.0, 2.0), "b": (3, 9.0, 6.0)},
        {"a": (4, -1.0, 3.0), "b": (7, 2.5, 5.0)},
        {"a": (8, 2.0, 4.0), "b": (1, 7.0, 0.0)},
    ]
    slips = COUNT_SLIPS | {text: partial(_merged, mean=wrong) for text, wrong in MEAN_SLIPS.items()}
    slips |= {text: partial(_merged, m2=wrong) for text, wrong in M2_SLIPS.items()}
    calls(student, _merged, *cases, slips=slips, what=TRIPLE)
    *_, m2 = parts(student((2, 1e9 + 3, 2.0), (3, 1e9 + 9, 6.0)), *TRIPLE)
    if abs(float(m2) - 51.2) > 0.01:  # means near 1e9 are rounded to 1e-7
        raise Slip(
            "m2 is lost at mean 1e9: no mean may be squared, only the difference of two means."
        )
    _with_empty_shares(student)


def _with_empty_shares(student) -> None:
    some = (2, 3.0, 2.0)
    for a, b, want in ((some, EMPTY, some), (EMPTY, some, some), (EMPTY, EMPTY, EMPTY)):
        try:
            got = student(a, b)
        except ZeroDivisionError:
            raise Slip(
                f"{a} and {b} make {want}, and yours divides by a count of 0: "
                "where one worker has no values, the triple of the other one is the answer."
            ) from None
        for value, right, name in zip(parts(got, *TRIPLE), want, TRIPLE, strict=True):
            expect(value, right, what=f"{name} of {a} and {b}")


SPAN = 1000  # the largest size over the smallest
SLOWEST = 1e8  # bytes a second: no memory of today is slower
FASTEST = 1e14  # and none, caches among them, is faster
SCATTER = 1e-4  # measured times are farther from any line than this share of themselves
CHECKED = 2**27  # bytes: the check makes no larger copy itself
FASTER = 4  # than the best of the check's copies: other work slows the check down at most so much
SLOWER = 50  # than it: the reader's machine may have been busy, or new memory was written
STEADY = 1e-4  # seconds: on a busy machine shorter times scatter by factors up to 5


@exercise(
    "Exercise 3 (your own machine)",
    "at least six sizes",
    f"the largest {SPAN} times the smallest",
    "the seven errors",
)
def own_line(sizes, seconds, machine: timing.Cpu | None = None) -> None:
    """Bytes moved by a copy, and the seconds that it took, for sizes of the reader's choice.

    `machine` is where the check makes its own copies: this one, unless a simulated one is given.
    """
    sizes = _positive(sizes, "sizes")
    seconds = _positive(seconds, "seconds")
    if len(sizes) != len(seconds):
        raise Slip(f"{len(sizes)} sizes and {len(seconds)} times: one time for each size.")
    if len(set(sizes)) < 6:
        raise Slip("measure 6 different sizes or more: a line through few points fits anything.")
    if max(sizes) < 1e6:
        raise Slip("the sizes are bytes, as numbers: the largest should be a megabyte or more.")
    if max(sizes) < SPAN * min(sizes):
        raise Slip("the largest size should be 1000 times the smallest: both ends of the line.")
    largest = sizes.index(max(sizes))
    smallest = sizes.index(min(sizes))
    _seconds(max(sizes) / seconds[largest])
    if seconds[largest] < 3 * seconds[smallest]:
        raise Slip(
            "1000 times the bytes in less than 3 times the time: was the device waited for, "
            "and does the copy depend on the size?"
        )
    _grows(sizes, seconds)
    _scatters(sizes, seconds)
    _as_here(sizes, seconds, [machine] if machine else _machines())


def _grows(sizes: list[float], seconds: list[float]) -> None:
    """Slip where more bytes take less than half the time of fewer."""
    points = sorted(zip(sizes, seconds, strict=True))
    for (fewer, before), (more, after) in itertools.pairwise(points):
        if before > STEADY and after < before / 2:
            raise Slip(
                f"{more:.3g} bytes take {in_words(after)}, "
                f"and {fewer:.3g} bytes {in_words(before)}. Do the two lists have one order? "
                "If so, something disturbed the smaller one: measure again."
            )


def _scatters(sizes: list[float], seconds: list[float]) -> None:
    """Slip for times that lie on one line: a formula made them, and no clock."""
    try:
        start, bandwidth = timing.fit_line(sizes, seconds)
    except timing.TimingError as error:
        raise Slip(str(error)) from None
    distances = []
    for size, took in zip(sizes, seconds, strict=True):
        fitted = start + size / bandwidth
        distances.append(abs(fitted / took - 1))
    if max(distances) < SCATTER:
        raise Slip(
            "all times lie on one straight line, to four digits. Measured times scatter: "
            "put in what your clock says, and not what the line says."
        )


def _machines() -> list:
    """This CPU, and the GPU if there is one."""
    places = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return [resolve(place) for place in places]


def _as_here(sizes: list[float], seconds: list[float], machines: list) -> None:
    """Slip where the check's own copies of as many bytes take another time."""
    checked = [size for size in sizes if size <= CHECKED]
    for size in {max(checked), min(checked)} if checked else ():
        claimed = seconds[sizes.index(size)]
        own = [_copy_time(size, machine) for machine in machines]
        if any(best / FASTER <= claimed <= SLOWER * best for best in own):
            continue
        found = (
            f"you say {in_words(claimed)} for {size:.3g} bytes. The check has just copied as many "
            f"on this machine, in {' or '.join(in_words(best) for best in own)}."
        )
        if claimed < min(own):
            raise Slip(f"{found} Was every copy made, and was it waited for?")
        raise Slip(f"{found} Does yours write into new memory (error 6), or count many calls?")


def _copy_time(nbytes: float, machine) -> float:
    """The shortest of nine copies that read and write so many bytes."""
    x = torch.ones(max(1, round(nbytes / 8)), dtype=torch.float32, device=machine.place)
    y = x.clone()
    copies = [partial(machine.copy, y, x)] * 9
    machine.round(copies)
    return min(sample.device_s for sample in machine.round(copies))


def _seconds(speed: float) -> None:
    """Slip unless so many bytes a second can be."""
    for unit, scale in UNITS.items():
        if speed < SLOWEST and speed * scale <= FASTEST and speed * scale >= SLOWEST:
            raise Slip(f"the largest copy moves {speed:.2g} bytes a second: are these {unit}?")
    if not SLOWEST <= speed <= FASTEST:
        raise Slip(f"the largest copy moves {speed:.2g} bytes a second, which no memory does.")


@exercise("Exercise 4 (DyT by its bytes)")
def dyt_by_bytes(unfused, fused) -> None:
    """DyT's forward time over RMSNorm's by their bytes: not fused in bfloat16, and fused."""
    slips = {
        "turn both round: DyT over RMSNorm.": [18 / 8, 1.0],
        "turn it round, and fused both move the same: their ratio is 1.": [18 / 8, 18 / 8],
        "that is what is reported; the bytes say a little less.": [0.48, 1.0],
        "fused, both move two large tensors: what is their ratio?": [8 / 18, 8 / 18],
        "fused: the RATIO of the two, not the number of tensors.": [8 / 18, 2.0],
        "that is forward and backward together; only the forward is asked.": [24 / 64, 1.0],
        "that is the backward alone; only the forward is asked.": [16 / 46, 1.0],
        "RMSNorm is the float32 line `rms_norm`; the paper's is `llama` in bfloat16.": (
            [8 / 7, 1.0]
        ),
        "RMSNorm is the line `F.rms_norm`; the paper's is `llama`.": [8 / 20, 1.0],
        "`dyt` is normlib's; the paper's layer is the line `DyT's code`.": [12 / 18, 1.0],
        "those two are normlib's; the paper's are `DyT's code` and `llama`.": [12 / 7, 1.0],
        "that is RMSNorm over LayerNorm; DyT over RMSNorm is asked.": [7 / 12, 1.0],
        "the saving is 1 minus the ratio; the ratio is asked.": [1 - 8 / 18, 0.0],
        "ratios, please, not percent.": [100 * 8 / 18, 100.0],
    }
    labels = ["the ratio, not fused", "the ratio, fused"]
    expect_all([unfused, fused], [8 / 18, 1.0], slips, labels, rtol=0.015)


ROUNDS = 20


@exercise("Exercise 5 (the sign turned)", f"at least {ROUNDS} rounds")
def turned(rms, layer) -> None:
    """Paired times: RMSNorm's are longer, with the 95 % interval of the ratio."""
    rms = _positive(rms, "my_rms")
    layer = _positive(layer, "my_layer")
    if len(rms) != len(layer):
        raise Slip(f"{len(rms)} and {len(layer)} times: they are pairs, one of each round.")
    if len(rms) < ROUNDS:
        raise Slip(f"{len(rms)} rounds; measure {ROUNDS} or more.")
    if rms == layer:
        raise Slip("both lists are the same: they belong to two different pieces of code.")
    if len(set(rms)) == 1 or len(set(layer)) == 1:
        raise Slip("all times of one list are equal: give every round, not its median.")
    found = ratio(rms, layer)
    if found.high < 1:
        raise Slip(f"RMSNorm is the faster one: its time is {found} of LayerNorm's. Other code?")
    if found.low <= 1:
        raise Slip(f"the interval of the ratio, {found}, includes 1: more rounds, or other code.")


def _positive(values: Sequence, name: str) -> list[float]:
    found = numbers(values, name)
    if any(not 0 < number < float("inf") for number in found):
        raise Slip(f"{name} holds what is no positive number.")
    return found
