"""Checks of lesson 02b: Welford's step, two workers, weight norm's gradient, one power step."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import gradients

TRIPLE = ("count", "mean", "m2")

# Exercise 1


def _step(count, mean, m2, value) -> tuple:
    to_old = value - mean
    new = mean + to_old / (count + 1)
    return count + 1, new, m2 + to_old * (value - new)


def _with_m2(m2_of):
    """A step with another m2, a function of count, m2, distances to the old and the new mean."""

    def wrong(count, mean, m2, value):
        _, new, _ = _step(count, mean, m2, value)
        return count + 1, new, m2_of(count, m2, value - mean, value - new)

    return wrong


def _with_mean(mean_of):
    def wrong(count, mean, m2, value):
        new = mean_of(count, mean, value)
        return count + 1, new, m2 + (value - mean) * (value - new)

    return wrong


STEP_SLIPS = {
    "m2 came back as it was: add the product of the two distances.": (
        _with_m2(lambda n, m2, old, new: m2)
    ),
    "m2: that adds the square of the value itself; what counts are its distances to the means.": (
        lambda n, mean, m2, x: (*_step(n, mean, m2, x)[:2], m2 + x**2)
    ),
    "the order is (count, mean, m2); yours has the count at the end.": (
        lambda n, mean, m2, x: (*_step(n, mean, m2, x)[1:], n + 1)
    ),
    "m2: multiply the distance to the OLD mean with the distance to the NEW one; "
    "yours are both the old.": (_with_m2(lambda n, m2, old, new: m2 + old**2)),
    "m2: multiply the distance to the OLD mean with the distance to the NEW one; "
    "yours are both the new.": (_with_m2(lambda n, m2, old, new: m2 + new**2)),
    "m2 is a sum: add to the old one.": _with_m2(lambda n, m2, old, new: old * new),
    "m2 is the sum of squares, not yet the variance: divide it at the very end.": (
        _with_m2(lambda n, m2, old, new: (m2 + old * new) / (n + 1))
    ),
    "m2: that is the running variance; m2 is not divided by the count.": (
        _with_m2(lambda n, m2, old, new: m2 + old * new / (n + 1))
    ),
    "m2: the distances multiply; yours are added.": (
        _with_m2(lambda n, m2, old, new: m2 + old + new)
    ),
    "the mean moves by the distance over the NEW count.": _with_mean(
        lambda n, mean, x: mean + (x - mean) / n
    ),
    "the mean moves by a part of the distance, not by all of it.": _with_mean(lambda n, mean, x: x),
    "the mean: that is the average of the old mean and the value; "
    "the old mean counts more often.": (_with_mean(lambda n, mean, x: (mean + x) / 2)),
    "the mean moves away from the value: the sign is turned.": (
        _with_mean(lambda n, mean, x: mean - (x - mean) / (n + 1))
    ),
    "the count grows by one.": lambda n, mean, m2, x: (n, *_step(n, mean, m2, x)[1:]),
}


@exercise("Exercise 1 (Welford's step)")
def welford(student) -> None:
    """student(count, mean, m2, value) -> (count, mean, m2)."""
    cases = [
        {"count": 3, "mean": 2.0, "m2": 5.0, "value": 8.0},
        {"count": 9, "mean": -1.0, "m2": 4.0, "value": 2.5},
    ]
    calls(student, _step, *cases, slips=STEP_SLIPS, what=TRIPLE)
    first = parts(student(0, 0.0, 0.0, 7.0), *TRIPLE)
    for got, want, name in zip(first, (1.0, 7.0, 0.0), TRIPLE, strict=True):
        expect(got, want, what=f"{name} after the first value")
    *_, m2 = parts(student(4, 1e9, 4.0, 1e9 + 5), *TRIPLE)
    if abs(float(m2) - 24.0) > 0.01:  # 4 + 5 * 4; means near 1e9 are rounded to 1e-7
        raise Slip("m2 is lost at mean 1e9: no mean may be squared, only distances.")


# Exercise 2


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


# Exercise 3


def _backward(dW, v, g) -> tuple[Tensor, Tensor]:
    return gradients.weight_norm_backward(dW, v, g)


def _pieces(dW, v, g) -> tuple[Tensor, Tensor, Tensor]:
    """The length of each row, the products of dW and v over a row, and the right gradient of v."""
    length = v.norm(dim=1, keepdim=True)
    products = (dW * v).sum(1, keepdim=True)
    return length, products, g / length * (dW - v * products / length**2)


def _with_dv(dv_of):
    def wrong(dW, v, g):
        length, products, _ = _pieces(dW, v, g)
        return dv_of(dW, v, g, length, products), products / length

    return wrong


def _other_rows(sum_of):
    """The gradients with another sum in place of the one over a row."""

    def wrong(dW, v, g):
        length = sum_of(v * v).sqrt()
        products = sum_of(dW * v)
        return g / length * (dW - v * products / length**2), products / length

    return wrong


def _with_dg(dg_of):
    def wrong(dW, v, g):
        length, products, right = _pieces(dW, v, g)
        return right, dg_of(dW, v, g, length, products)

    return wrong


WN_SLIPS = {
    "dv: the length depends on v as well; the part along v is missing.": (
        _with_dv(lambda d, v, g, n, p: g / n * d)
    ),
    "dv: the part along v is divided by the length once too few: by its square.": (
        _with_dv(lambda d, v, g, n, p: g / n * (d - v * p / n))
    ),
    "dv: the part along v is not divided by the squared length.": _with_dv(
        lambda d, v, g, n, p: g / n * (d - v * p)
    ),
    "dv: the gain g is missing.": _with_dv(lambda d, v, g, n, p: (d - v * p / n**2) / n),
    "dv: divide by the length once more, in front of the bracket.": _with_dv(
        lambda d, v, g, n, p: g * (d - v * p / n**2)
    ),
    "dv: the part along v is subtracted, not added.": _with_dv(
        lambda d, v, g, n, p: g / n * (d + v * p / n**2)
    ),
    "dv: the product belongs to one row: sum over the inputs of each unit, not over all.": _with_dv(
        lambda d, v, g, n, p: g / n * (d - v * (d * v).sum() / n**2)
    ),
    "dv: the length belongs to one row: each unit has its own.": _with_dv(
        lambda d, v, g, n, p: g / v.norm() * (d - v * p / v.norm() ** 2)
    ),
    "dv: the products are added up over the inputs, not averaged.": _with_dv(
        lambda d, v, g, n, p: g / n * (d - v * p / v.shape[1] / n**2)
    ),
    "dv: no mean is subtracted: weight normalization has none.": _with_dv(
        lambda d, v, g, n, p: g / n * (d - d.mean(1, keepdim=True) - v * p / n**2)
    ),
    "the sums go over the inputs of one unit (dim 1); yours go over the whole matrix.": (
        _other_rows(lambda t: t.sum())
    ),
    "the sums go over the inputs of one unit (dim 1); yours go over the units (dim 0).": (
        _other_rows(lambda t: t.sum(0, keepdim=True))
    ),
    "the order is (dv, dg); yours is turned round.": lambda dW, v, g: _backward(dW, v, g)[::-1],
    "dg: divide by the length: the weights are g times v over its length.": (
        _with_dg(lambda d, v, g, n, p: p)
    ),
    "dg: g itself is no factor of it.": _with_dg(lambda d, v, g, n, p: g * p / n),
    "dg: sum over the inputs of a unit, keep one number for each: shape (out, 1).": _with_dg(
        lambda d, v, g, n, p: (p / n).squeeze(1)
    ),
    "dg: that is divided by the squared length.": _with_dg(lambda d, v, g, n, p: p / n**2),
}


@exercise("Exercise 3 (the gradient of weight normalization)")
def weight_norm_backward(student) -> None:
    """student(dW, v, g) -> (dv, dg) for dW, v (out, in) and g (out, 1)."""
    cases = [
        {
            "dW": draw(*shape, seed=1),
            "v": 1 + draw(*shape, seed=2),
            "g": (2 + draw(shape[0], 1, seed=3)),
        }
        for shape in ((3, 4), (5, 2))
    ]
    student = forbid(student, "autograd", "normlib")
    calls(student, _backward, *cases, slips=WN_SLIPS, what=("dv", "dg"))


# Exercise 4


def _power(W, u) -> tuple[Tensor, Tensor]:
    b = W @ torch.nn.functional.normalize(u @ W, dim=0)
    return b / b.norm(), b.norm()


def _power_but(step):
    return lambda W, u: step(W, u, u @ W)


POWER_SLIPS = {
    "divide u W by its length before you go back through W: "
    "c is too large by that length.": _power_but(
        lambda W, u, a: ((W @ a) / (W @ a).norm(), (W @ a).norm())
    ),
    "the next u has length 1: divide it by c.": _power_but(
        lambda W, u, a: (W @ (a / a.norm()), (W @ (a / a.norm())).norm())
    ),
    "c: that is the length of u W; take the length after the second product.": _power_but(
        lambda W, u, a: (_power(W, u)[0], a.norm())
    ),
    "c is a length, not its square.": _power_but(
        lambda W, u, a: (_power(W, u)[0], (W @ (a / a.norm())).square().sum())
    ),
    "c: that is the largest entry; take the Euclidean length.": _power_but(
        lambda W, u, a: (_power(W, u)[0], (W @ (a / a.norm())).abs().max())
    ),
    "c: that is the Frobenius norm of W; the power step does not need it.": _power_but(
        lambda W, u, a: (_power(W, u)[0], W.norm())
    ),
    "u came back as it was: the next step would start from the same place.": _power_but(
        lambda W, u, a: (u, _power(W, u)[1])
    ),
    "that is the exact norm; one step gives an estimate that is at most as large.": _power_but(
        lambda W, u, a: (_power(W, u)[0], torch.linalg.matrix_norm(W, 2))
    ),
    "the order is (next u, estimate); yours is turned round.": _power_but(
        lambda W, u, a: _power(W, u)[::-1]
    ),
    "that is v, among the inputs; the next u is the direction of W v.": _power_but(
        lambda W, u, a: (a / a.norm(), _power(W, u)[1])
    ),
    "the next u has Euclidean length 1: divide by c, not by the largest entry.": _power_but(
        lambda W, u, a: (W @ a / (W @ a).max(), _power(W, u)[1])
    ),
    "c: that is the product of the old and the next u; take the length of W v.": _power_but(
        lambda W, u, a: (_power(W, u)[0], u @ _power(W, u)[0])
    ),
    "c: that is half a step too late; take the length of W v, before the next u.": _power_but(
        lambda W, u, a: (_power(W, u)[0], (_power(W, u)[0] @ W).norm())
    ),
    "that is two steps; do one.": _power_but(lambda W, u, a: _power(W, _power(W, u)[0])),
    "the sign of u is turned.": _power_but(lambda W, u, a: (-_power(W, u)[0], _power(W, u)[1])),
    "c is a length, and yours is negative.": (
        _power_but(lambda W, u, a: (_power(W, u)[0], -_power(W, u)[1]))
    ),
}


@exercise("Exercise 4 (one power step)")
def power_step(student) -> None:
    """student(W, u) -> (the next u, the estimate) for W (n, D) and u (n) of length 1."""
    cases = []
    for shape in ((3, 5), (4, 2)):
        u = draw(shape[0], seed=6)
        cases.append({"W": draw(*shape, seed=5), "u": u / u.norm()})
    student = forbid(student, "matrix_norm", "svd", "svdvals")
    calls(student, _power, *cases, slips=POWER_SLIPS, what=("the next u", "the estimate"))
