"""The checks of lesson 07a name the slips people make."""

import math
from fractions import Fraction

import numpy
import pytest
import torch

from normcourse.checks import published_speed as check

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
    "distance without its sign": (
        merged(mean=lambda na, ma, nb, mb: ma + abs(mb - ma) * nb / (na + nb)),
        "the distance of the means has a sign",
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


def halves(x):
    """The first half of each row to its second, a number left over behind them."""
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        x = torch.cat([x[:, :half] + x[:, half : 2 * half], x[:, 2 * half :]], dim=1)
    return x[:, 0]


def in_parts(x, parts):
    """Each part is added up number after number, then the parts."""
    rest = -x.shape[1] % parts
    padded = torch.cat([x, x.new_zeros(len(x), rest)], dim=1).unflatten(1, (parts, -1))
    total = x.new_zeros(len(x), parts)
    for number in padded.unbind(-1):
        total = total + number
    result = total[:, 0]
    for part in total.unbind(1)[1:]:
        result = result + part
    return result


def number_after_number(x):
    total = x.new_zeros(len(x))
    for number in x.unbind(1):
        total = total + number
    return total


def by_place(x):
    """Every other row is added up from its end."""
    turned = torch.stack([x[i].flip(0) if i % 2 else x[i] for i in range(len(x))])
    return halves(turned)


def carried_on(x):
    """The sum of all numbers so far, less that of the row before."""
    sums = halves(x)
    total, found = torch.zeros_like(sums[0]), []
    for value in sums:
        found.append((total + value) - total)
        total = total + value
    return torch.stack(found)


def kept():
    seen = []

    def student(x):
        seen.append(halves(x))
        return seen[0]

    return student


def written_into(x):
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        x[:, :half] += x[:, half : 2 * half]
        x = torch.cat([x[:, :half], x[:, 2 * half :]], dim=1)
    return x[:, 0]


SUMS = {
    "torch's sum": (lambda x: x.sum(1), "without sum"),
    "torch's mean": (lambda x: x.mean(1) * x.shape[1], "without mean"),
    "a product with ones": (lambda x: x @ torch.ones(x.shape[1]), "without matmul"),
    "einsum": (lambda x: torch.einsum("nd->n", x), "without einsum"),
    "cumsum": (lambda x: x.cumsum(1)[:, -1], "without cumsum"),
    "a linear layer": (
        lambda x: torch.nn.functional.linear(x, torch.ones(1, x.shape[1]))[:, 0],
        "without linear",
    ),
    "threads of few rows share them": (
        lambda x: in_parts(x, 64 if len(x) < 8 else 32),
        "has another last digit than among all",
    ),
    "idle threads": (lambda x: in_parts(x, max(32, 64 // len(x))), "row 0 of 16, alone"),
    "more for pairs alone": (
        lambda x: in_parts(x, 64 if len(x) == 2 else 32),
        "with one other row",
    ),
    "by the place of a row": (by_place, "place of a row"),
    "the sum so far": (carried_on, "another last digit"),
    "number after number": (number_after_number, "4097 operations"),
    "means": (lambda x: halves(x) / x.shape[1], "those are means"),
    "halves of odd D": (
        lambda x: x[:, : x.shape[1] // 2] + x[:, x.shape[1] // 2 :],
        "an odd number of values",
    ),
    "a column": (lambda x: halves(x)[:, None], "one sum for each ROW"),
    "columns": (lambda x: halves(x.T), "one sum for each column"),
    "one number": (lambda x: halves(halves(x)[None])[0], "all rows together"),
    "odd D": (
        lambda x: halves(x[:, : max(1, x.shape[1] // 2 * 2)]),
        "the last number of a row is missing",
    ),
    "a power of two": (
        lambda x: halves(x[:, : 2 ** (x.shape[1].bit_length() - 1)]),
        "beyond the last power of two",
    ),
    "the first half": (lambda x: halves(x[:, : (x.shape[1] + 1) // 2]), "half of each row"),
    "squares": (lambda x: halves(x * x), "sums of squares"),
    "the first answer": (kept(), "gives the result of the first one"),
    "halves that do not fit": (
        lambda x: halves(x) if x.shape[1] % 2 == 0 else x[:, :2] + x[:, 2:],
        "[x]",
    ),
    "in place": (written_into, "x was changed in place"),
}


@pytest.mark.parametrize("answer, message", SUMS.values(), ids=SUMS)
def test_a_wrong_row_sum_is_named(answer, message):
    verdict = check.row_sums(answer)
    assert verdict.startswith("[x]") and message in verdict


def by_numpy(x):
    values = x.numpy()
    while values.shape[1] > 1:
        if values.shape[1] % 2:
            values = numpy.concatenate([values, numpy.zeros_like(values[:, :1])], axis=1)
        values = values[:, ::2] + values[:, 1::2]
    return torch.from_numpy(values[:, 0].copy())


def by_recursion(x):
    dim = x.shape[1]
    if dim == 1:
        return x[:, 0]
    return by_recursion(x[:, : dim // 2]) + by_recursion(x[:, dim // 2 :])


ROW_SUMS = {
    "halves": halves,
    "64 parts": lambda x: in_parts(x, 64),
    "in float64": lambda x: halves(x.double()).float(),
    "numpy": by_numpy,
    "exact": lambda x: torch.tensor([math.fsum(row) for row in x.tolist()]).float(),
    "by the length of a row": lambda x: in_parts(x, 64 if x.shape[1] > 100 else 3),
}


@pytest.mark.parametrize("answer", ROW_SUMS.values(), ids=ROW_SUMS)
def test_an_unusual_right_row_sum_passes(answer):
    assert check.row_sums(answer).startswith("[ok]")


def test_so_many_operations_are_too_many():
    """By recursion a row of 4096 numbers takes 4095 additions, though each is of halves."""
    assert "after 4095 operations" in check.row_sums(by_recursion)


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
