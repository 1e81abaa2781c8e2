"""The checks of lesson 02b name the slips people make."""

from fractions import Fraction

import pytest
import torch

from normcourse.checks import relatives as check
from tests.course.solutions import every_slip

EMPTY = (0, 0.0, 0.0)

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def step(mean=None, m2=None, count=None):
    """Welford's step with one thing to get wrong at a time."""

    def student(n, old_mean, old_m2, value):
        new = mean(n, old_mean, value) if mean else old_mean + (value - old_mean) / (n + 1)
        to_old = value - old_mean
        to_new = value - new
        joint = m2(n, old_m2, to_old, to_new) if m2 else old_m2 + to_old * to_new
        return count(n) if count else n + 1, new, joint

    return student


def through_squares(n, mean, m2, value):
    new = (n * mean + value) / (n + 1)
    squares = m2 + n * mean**2 + value**2
    return n + 1, new, squares - (n + 1) * new**2


WELFORD = {
    "both old": (step(m2=lambda n, m2, old, new: m2 + old**2), "yours are both the old"),
    "both new": (step(m2=lambda n, m2, old, new: m2 + new**2), "yours are both the new"),
    "no sum": (step(m2=lambda n, m2, old, new: old * new), "add to the old one"),
    "variance": (
        step(m2=lambda n, m2, old, new: (m2 + old * new) / (n + 1)),
        "not yet the variance",
    ),
    "divided term": (
        step(m2=lambda n, m2, old, new: m2 + old * new / (n + 1)),
        "not divided by the count",
    ),
    "old count": (
        step(mean=lambda n, mean, x: mean + (x - mean) / n if n else x),
        "over the NEW count",
    ),
    "plain average": (step(mean=lambda n, mean, x: (mean + x) / 2), "counts more often"),
    "sign": (step(mean=lambda n, mean, x: mean - (x - mean) / (n + 1)), "the sign is turned"),
    "count stays": (step(count=lambda n: n), "the count grows"),
    "m2 stays": (step(m2=lambda n, m2, old, new: m2), "m2 came back as it was"),
    "value squared": (
        lambda n, mean, m2, x: (n + 1, mean + (x - mean) / (n + 1), m2 + x**2),
        "the square of the value itself",
    ),
    "count at the end": (
        lambda n, mean, m2, x: (*step()(n, mean, m2, x)[1:], n + 1),
        "the order is (count, mean, m2)",
    ),
    "through squares": (through_squares, "lost at mean 1e9"),
}


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


def backward(dv=None, dg=None):
    def student(dW, v, g):
        length = v.norm(dim=1, keepdim=True)
        products = (dW * v).sum(1, keepdim=True)
        first = (
            dv(dW, v, g, length, products) if dv else g / length * (dW - v * products / length**2)
        )
        return first, dg(g, length, products) if dg else products / length

    return student


def by_autograd(dW, v, g):
    v = v.requires_grad_()
    g = g.requires_grad_()
    weight = g * v / v.norm(dim=1, keepdim=True)
    return torch.autograd.grad(weight, (v, g), dW)


def one_row(dW, v, g):
    length = v.norm()
    dg = (dW * v).sum() / length
    return g / length * (dW - v * dg / length), dg


def columns(dW, v, g):
    length = v.norm(dim=0, keepdim=True)
    dg = (dW * v).sum(0, keepdim=True) / length
    return g / length * (dW - v * dg / length), dg


WEIGHT_NORM = {
    "length is constant": (
        backward(dv=lambda d, v, g, n, p: g / n * d),
        "the part along v is missing",
    ),
    "one length too few": (
        backward(dv=lambda d, v, g, n, p: g / n * (d - v * p / n)),
        "by its square",
    ),
    "no g": (backward(dv=lambda d, v, g, n, p: (d - v * p / n**2) / n), "the gain g is missing"),
    "no front length": (
        backward(dv=lambda d, v, g, n, p: g * (d - v * p / n**2)),
        "in front of the bracket",
    ),
    "sign": (
        backward(dv=lambda d, v, g, n, p: g / n * (d + v * p / n**2)),
        "subtracted, not added",
    ),
    "all rows": (
        backward(dv=lambda d, v, g, n, p: g / n * (d - v * (d * v).sum() / n**2)),
        "not over all",
    ),
    "averaged products": (
        backward(dv=lambda d, v, g, n, p: g / n * (d - v * (d * v).mean(1, keepdim=True) / n**2)),
        "added up over the inputs, not averaged",
    ),
    "centred": (
        backward(dv=lambda d, v, g, n, p: g / n * (d - d.mean(1, keepdim=True) - v * p / n**2)),
        "no mean is subtracted",
    ),
    "whole matrix": (one_row, "over the whole matrix"),
    "columns": (columns, "over the units (dim 0)"),
    "order": (lambda dW, v, g: backward()(dW, v, g)[::-1], "the order is (dv, dg)"),
    "dg without length": (backward(dg=lambda g, n, p: p), "dg: divide by the length"),
    "dg with g": (backward(dg=lambda g, n, p: g * p / n), "g itself is no factor"),
    "dg flat": (backward(dg=lambda g, n, p: (p / n)[:, 0]), "shape (out, 1)"),
    "autograd": (by_autograd, "without autograd"),
}


def power(finish):
    """A power step that ends in another way: of W, u, v and b = W v."""

    def student(W, u):
        a = u @ W
        v = a / a.norm()
        return finish(W, u, v, W @ v)

    return student


def without_length(W, u):
    b = W @ (u @ W)
    return b / b.norm(), b.norm()


def by_svd(W, u):
    left, sizes, _ = torch.linalg.svd(W)
    return left[:, 0], sizes[0]


POWER = {
    "no length in between": (without_length, "too large by that length"),
    "u not normalized": (power(lambda W, u, v, b: (b, b.norm())), "the next u has length 1"),
    "first length": (
        power(lambda W, u, v, b: (b / b.norm(), (u @ W).norm())),
        "after the second product",
    ),
    "squared": (power(lambda W, u, v, b: (b / b.norm(), b @ b)), "not its square"),
    "largest entry": (power(lambda W, u, v, b: (b / b.norm(), b.abs().max())), "largest entry"),
    "Frobenius": (power(lambda W, u, v, b: (b / b.norm(), W.norm())), "Frobenius"),
    "order": (
        power(lambda W, u, v, b: (b.norm(), b / b.norm())),
        "the order is (next u, estimate)",
    ),
    "v for u": (power(lambda W, u, v, b: (v, b.norm())), "that is v"),
    "largest entry of u": (power(lambda W, u, v, b: (b / b.max(), b.norm())), "Euclidean length 1"),
    "old times next": (
        power(lambda W, u, v, b: (b / b.norm(), u @ b / b.norm())),
        "old and the next",
    ),
    "half a step late": (
        power(lambda W, u, v, b: (b / b.norm(), (b @ W).norm() / b.norm())),
        "half a step too late",
    ),
    "old u": (power(lambda W, u, v, b: (u, b.norm())), "u came back as it was"),
    "sign": (power(lambda W, u, v, b: (-b / b.norm(), b.norm())), "the sign of u"),
    "svd": (by_svd, "without svd"),
}


@every_slip(
    {
        check.welford: WELFORD,
        check.merge: MERGE,
        check.weight_norm_backward: WEIGHT_NORM,
        check.power_step: POWER,
    }
)
def test_a_slip_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


def weighted_mean(n, mean, m2, value):
    new = (n * mean + value) / (n + 1)
    return n + 1, new, m2 + n / (n + 1) * (value - mean) ** 2


def by_directions(dW, v, g):
    unit = torch.nn.functional.normalize(v, dim=1)
    dg = torch.linalg.vecdot(dW, unit)[:, None]
    return (dW - unit * dg) * g / torch.linalg.vector_norm(v, dim=1, keepdim=True), dg


def with_columns(W, u):
    v = torch.nn.functional.normalize(W.T @ u[:, None], dim=0)
    b = W @ v
    return (b / b.norm())[:, 0], u.new_tensor(b.square().sum().sqrt().item())


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


UNUSUAL = {
    "one formula for m2": (check.welford, weighted_mean),
    "lists": (check.merge, lambda a, b: list(careful(a, b))),
    "by sums": (check.merge, merged_by_sums),
    "by fractions": (check.merge, merged_by_fractions),
    "value by value": (check.merge, merged_value_by_value),
    "by tensors": (check.merge, lambda a, b: tuple(map(torch.tensor, careful(a, b)))),
    "unit vectors": (check.weight_norm_backward, by_directions),
    "columns": (check.power_step, with_columns),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_passes(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
