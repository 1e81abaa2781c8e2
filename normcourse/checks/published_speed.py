"""Checks of lesson 07a, published speed-ups: one per exercise."""

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from normcourse import draw
from normcourse.checks.probes import call, calls, forbid, lined_up
from normcourse.checks.verdict import Slip, every_case, exercise, expect, expect_all, numbers, parts
from normcourse.timing.estimates import ratio


@exercise("Exercise 1 (bytes of a backward)")
def backward_bytes(student: Callable) -> None:
    """student(rows, dim, size, programs): bytes of the backward of add + RMSNorm.

    [EQ-BYTES-BACKWARD]
    """
    with every_case() as cases:
        for sizes in (
            (700, 48, 1, 9),
            (8000, 4096, 16, 132),
        ):  # rows, dim, bytes an element, programs
            got = student(*sizes)
            want = _moved(sizes)
            cases.expect(got, want, _byte_slips(sizes), "the number of bytes", rtol=1e-12)


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
    "the distance of the means has a sign: the second mean may be the smaller one.": lambda v: (
        v.ma + abs(v.d) * v.nb / v.n
    ),
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
        {"a": (4, 2.5, 3.0), "b": (7, -1.0, 5.0)},
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


LONG = 4096  # numbers of a row
OPERATIONS = 200  # of torch, at most, for rows of so many numbers


@exercise(
    "Exercise 3 (a sum that does not see the batch)",
    f"at most {OPERATIONS} of torch's operations for rows of {LONG:,} numbers",
)
def row_sums(student: Callable) -> None:
    """student(x): the sums (N,) of rows (N, D), whose bits depend neither on N nor on the machine.

    A sum by torch itself is refused: in which order it adds is torch's choice.
    """
    own = lined_up(forbid(student, *TORCHS_SUMS), lambda: ODD)
    cases = [{"x": _near_three(16, 1000)}, {"x": _near_three(5, 1)}, {"x": _near_three(3, 7)}]
    calls(own, _sums, *cases, slips=SUM_SLIPS, rtol=1e-5)
    _few_operations(own)
    for count, dim in ((16, 1000), (16, 999), (300, 64)):
        _without_neighbours(own, _near_three(count, dim))


ODD = "where a row has an odd number of values, its two halves are not equally long."
TORCHS_SUMS = (
    *("sum", "mean", "nansum", "nanmean", "cumsum", "matmul", "mm", "mv", "bmm", "dot", "vdot"),
    *("vecdot", "inner", "einsum", "tensordot", "linear", "norm", "var", "std", "logsumexp"),
    *("index_add", "scatter_add", "addmm", "addmv", "trapezoid", "avg_pool1d"),
)


def _sums(x: Tensor) -> Tensor:
    return x.double().sum(1).float()


SUM_SLIPS = {
    "those are means; the sum is asked.": lambda x: _sums(x) / len(x[0]),
    "one sum for each ROW, (N,).": lambda x: _sums(x)[:, None],
    "that is one sum for each column.": lambda x: _sums(x.T),
    "that is the sum of all rows together.": lambda x: _sums(x).sum(),
    "where D is odd, the last number of a row is missing.": lambda x: _sums(
        x[:, : max(1, len(x[0]) // 2 * 2)]
    ),
    "numbers beyond the last power of two are missing.": lambda x: _sums(
        x[:, : 2 ** (len(x[0]).bit_length() - 1)]
    ),
    "half of each row is missing.": lambda x: _sums(x[:, : (len(x[0]) + 1) // 2]),
    "those are sums of squares; the numbers themselves are asked.": lambda x: _sums(x.square()),
}


def _near_three(count: int, dim: int) -> Tensor:
    """Rows whose sums do not cancel: a lost number shows, and a rounding is small beside them."""
    return (draw(count, dim) + 3).float()


def _few_operations(student: Callable) -> None:
    x = _near_three(2, LONG)
    with _Operations() as done:
        student(x)
    if done.count > OPERATIONS:
        raise Slip(
            f"the sums are right, after {done.count} operations for a row of {LONG} numbers, one "
            "number after the other. Add many at once: a row's first half and its second."
        )


class _Operations(TorchDispatchMode):
    """Counts what torch computes; a view is nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += not operation.is_view
        return operation(*args, **(kwargs or {}))


def _without_neighbours(student: Callable, x: Tensor) -> None:
    """Slip if a row has other bits alone, or with one other row, than among all of them."""
    among = torch.as_tensor(call(student, x=x))
    for beside in (0, 1):
        for row in range(len(x) - beside):
            fewer = torch.as_tensor(call(student, x=x[row : row + 1 + beside]))
            if torch.equal(fewer[0], among[row]):
                continue
            company = "alone" if beside == 0 else "with one other row"
            raise Slip(
                f"the sums are right, but not their bits: row {row} of {len(x)}, {company}, has "
                f"another last digit than among all (D = {x.shape[1]}). What in your code "
                "depends on the number of rows, or on the place of a row?"
            )


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
