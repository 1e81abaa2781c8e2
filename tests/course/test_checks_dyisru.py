"""The checks of lesson 06 name the slips people make, and accept what is right in another form."""

from functools import partial

import numpy as np
import pytest
import torch

from normcourse import draw
from normcourse.checks import dyisru as check
from normlib import gradients
from tests.course.solutions import wrong_answers_are_named


def total(x):
    return x.square().sum(-1, keepdim=True)


def others(x):
    return (x.square().unsqueeze(-2) * (1 - torch.eye(x.shape[-1], dtype=x.dtype))).sum(-1)


def c_in_place(x):
    return total(x) - x.square_()


def c_by_the_output(x):
    y = x / x.square().mean(-1, keepdim=True).sqrt()
    return x.shape[-1] * x**2 / y**2 - x**2


CONSTANTS = {
    "two dimensions at least": (
        lambda x: others(x.flatten(0, -2)).view_as(x),
        "for x of shape (6,)",
    ),
    "with its own": (lambda x: total(x).expand_as(x), "own square does not belong"),
    "one a row, keepdim": (total, "keep the shape of x"),
    "one a row": (lambda x: x.square().sum(-1), "one for each row"),
    "values": (lambda x: x.sum(-1, keepdim=True) - x, "not values"),
    "absolute": (lambda x: x.abs().sum(-1, keepdim=True) - x.abs(), "not absolute values"),
    "mean of others": (lambda x: others(x) / (x.shape[-1] - 1), "not their mean"),
    "over D": (lambda x: others(x) / x.shape[-1], "not divided by D"),
    "own square": (lambda x: x.square(), "the coordinate's own square"),
    "mean square": (
        lambda x: x.square().mean(-1, keepdim=True).expand_as(x),
        "mean square of the row",
    ),
    "mean c": (
        lambda x: others(x).mean(-1, keepdim=True).expand_as(x),
        "each coordinate has its own",
    ),
    "by the output": (c_by_the_output, "not a number where x is 0"),
    "the first one's": (
        lambda x: others(x)[..., :1].expand_as(x),
        "the first number's c",
    ),
    "columns": (lambda x: x.square().sum(0) - x.square(), "not the first"),
    "root": (lambda x: others(x).sqrt(), "take none"),
    "negative": (lambda x: x.square() - total(x), "the sign is turned"),
    "mean less own": (
        lambda x: x.square().mean(-1, keepdim=True) - x.square(),
        "not from the mean",
    ),
    "all rows": (lambda x: x.square().sum() - x.square(), "the last axis alone"),
    "total less x": (lambda x: total(x) - x, "x^2, not x"),
    "total less D times": (lambda x: total(x) - x.shape[-1] * x**2, "not D x^2"),
    "total and own": (lambda x: total(x) + x.square(), "once more"),
    "square of the others' sum": (
        lambda x: (x.sum(-1, keepdim=True) - x) ** 2,
        "square each of the others",
    ),
    "square of the others' sizes": (
        lambda x: (x.abs().sum(-1, keepdim=True) - x.abs()) ** 2,
        "the sum of their sizes",
    ),
    "norm less the size": (
        lambda x: x.norm(dim=-1, keepdim=True) - x.abs(),
        "take no root of the total",
    ),
    "no keepdim": (lambda x: x.square().sum(-1) - x.square(), "without keepdim=True"),
    "D less own": (lambda x: x.shape[-1] - x.square(), "not D"),
    "square of sum": (lambda x: x.sum(-1, keepdim=True) ** 2 - x**2, "square first"),
    "roots": (lambda x: total(x).sqrt() - x, "take no root, neither"),
    "norm": (lambda x: x.norm(dim=-1, keepdim=True) - x.square(), "the total of the squares"),
    "D rho": (
        lambda x: x.shape[-1] * x.square().mean(-1, keepdim=True).sqrt() - x.square(),
        "not D rho",
    ),
    "variance": (
        lambda x: x.shape[-1] * x.var(-1, correction=0, keepdim=True) - x.square(),
        "not times the variance",
    ),
    "eps": (lambda x: others(x) + 1e-5 * x.shape[-1], "leave D eps out"),
    "small eps": (lambda x: others(x) + 1e-6 * x.shape[-1], "D * 1e-6"),
    "in place": (c_in_place, "changed in place"),
    "total less the size": (lambda x: total(x) - x.abs(), "not |x|"),
    "up to it": (lambda x: x.square().cumsum(-1) - x.square(), "on both sides"),
    "in float32": (
        lambda x: others(x.float()).to(x.dtype),
        "float32's rounding",
    ),
}


def backward(dx=None, dlog=None):
    """A right answer in which dx or dlog is replaced: functions of (dy, x, c, scale)."""

    def answer(dy, x, log_c, scale):
        c = log_c.exp()
        right = dy * scale * c / (x.square() + c) ** 1.5
        right_log = -(right * x).sum().reshape(1) / 2
        first = right if dx is None else dx(dy, x, c, scale)
        return first, right_log if dlog is None else dlog(dy, x, c, scale)

    return answer


def by_c(dy, x, c, scale):
    return -dy * scale * x / (x.square() + c) ** 1.5 / 2


def one(value):
    return value.sum().reshape(1)


def backward_in_place(dy, x, log_c, scale):
    c = log_c.exp_()
    return dy * scale * c / (x.square() + c) ** 1.5, one(by_c(dy, x, c, scale)) * c


def with_log(dy, x, c, scale):
    return dy * scale * c.log() / (x.square() + c.log()) ** 1.5


def by_autograd(dy, x, log_c, scale):
    x = x.clone().requires_grad_()
    log_c = log_c.clone().requires_grad_()
    y = scale * x / torch.sqrt(x.square() + log_c.exp())
    return torch.autograd.grad(y, (x, log_c), dy)


def by_vjp(dy, x, log_c, scale):
    def layer(x, log_c):
        return scale * x / torch.sqrt(x.square() + log_c.exp())

    return torch.func.vjp(layer, x, log_c)[1](dy)


def by_normlib(dy, x, log_c, scale):
    dx, dc = gradients.dyisru_backward(dy, x, log_c.exp(), scale=scale)
    return dx, dc * log_c.exp()


def by_y(dy, x, log_c, scale):
    """y / x for the slope at 0: 0 / 0 where x is 0."""
    y = scale * x * torch.rsqrt(x.square() + log_c.exp())
    share = 1 - (y / scale) ** 2
    return dy * y / x * share, (-dy * y * share / 2).sum()[None]


BACKWARDS = {
    "autograd": (by_autograd, "without autograd"),
    "vjp": (by_vjp, "without autograd"),
    "the library": (by_normlib, "without normlib"),
    # the slip of the first case alone: in the others the scale is there
    "no scale, once": (
        backward(lambda dy, x, c, s: dy * (1 if x.dim() == 2 else s) * c / (x**2 + c) ** 1.5),
        "dx is off by",
    ),
    "no dy": (backward(lambda dy, x, c, s: s * c / (x**2 + c) ** 1.5), "dy is missing: multiply"),
    "no scale": (backward(lambda dy, x, c, s: dy * c / (x**2 + c) ** 1.5), "the scale is missing"),
    "power 1/2": (
        backward(lambda dy, x, c, s: dy * s * c / (x**2 + c) ** 0.5),
        "the exponent is 3/2:",
    ),
    "root fixed": (
        backward(lambda dy, x, c, s: dy * s / (x**2 + c) ** 0.5),
        "holds the root fixed",
    ),
    "no c": (backward(lambda dy, x, c, s: dy * s / (x**2 + c) ** 1.5), "missing in the numerator"),
    "root of c": (
        backward(lambda dy, x, c, s: dy * s * c.sqrt() / (x**2 + c) ** 1.5),
        "the root of c",
    ),
    "dx sign": (backward(lambda dy, x, c, s: -dy * s * c / (x**2 + c) ** 1.5), "rises everywhere"),
    "log c as c": (backward(with_log), "c = exp(log_c)"),
    "half dx": (
        backward(lambda dy, x, c, s: dy * s * c / (x**2 + c) ** 1.5 / 2),
        "the 2x of the inner derivative",
    ),
    "half dlog": (backward(dlog=lambda *a: one(by_c(*a)) * a[2] / 2), "comes once"),
    "power 2": (backward(lambda dy, x, c, s: dy * s * c / (x**2 + c) ** 2), "not 2."),
    "c twice in dx": (
        backward(lambda dy, x, c, s: dy * s * c**2 / (x**2 + c) ** 1.5),
        "dc/dlog_c belongs to dlog_c alone",
    ),
    "the size of x": (
        backward(dlog=lambda dy, x, *a: one(by_c(dy, x.abs(), *a)) * a[0]),
        "not |x|",
    ),
    "log c on top": (
        backward(lambda dy, x, c, s: dy * s * c.log() / (x**2 + c) ** 1.5),
        "in the numerator, too",
    ),
    "power 1": (backward(lambda dy, x, c, s: dy * s * c / (x**2 + c)), "dx: the exponent is 3/2"),
    "power 1 in dlog": (
        backward(dlog=lambda dy, x, c, s: -one(dy * s * x / (x**2 + c)) * c / 2),
        "dlog_c: the exponent is 3/2, not 1.",
    ),
    "plus": (
        backward(lambda dy, x, c, s: dy * s * (2 * x**2 + c) / (x**2 + c) ** 1.5),
        "is subtracted",
    ),
    "half of the second term": (
        backward(lambda dy, x, c, s: dy * s * (x**2 / 2 + c) / (x**2 + c) ** 1.5),
        "make 1",
    ),
    "no 2x": (
        backward(lambda dy, x, c, s: dy * s * (x**2 + c - x / 2) / (x**2 + c) ** 1.5),
        "inner derivative 2x",
    ),
    "log c": (backward(dlog=lambda *a: one(by_c(*a)) * a[2].log()), "not log_c"),
    "power 1/2 in dlog": (
        backward(dlog=lambda dy, x, c, s: -one(dy * s * x / (x**2 + c) ** 0.5) * c / 2),
        "3/2, not 1/2",
    ),
    "dc": (backward(dlog=lambda *a: one(by_c(*a))), "one factor is left"),
    "dc/c": (backward(dlog=lambda *a: one(by_c(*a)) / a[2]), "multiplies"),
    "sign": (backward(dlog=lambda *a: -one(by_c(*a)) * a[2]), "the sign is lost: a larger c"),
    "c twice": (backward(dlog=lambda *a: one(by_c(*a)) * a[2] ** 2), "multiplies once"),
    "sign and c": (
        backward(dlog=lambda *a: -one(by_c(*a))),
        "two slips: the sign is lost: a larger c makes the output smaller; and one factor is left",
    ),
    "mean and no c": (
        backward(dlog=lambda *a: by_c(*a).mean().reshape(1)),
        "c = c; and you took the mean: the",
    ),
    "mean of rows": (
        backward(dlog=lambda *a: one(by_c(*a)) * a[2] * a[1].shape[-1] / a[1].numel()),
        "mean over the rows",
    ),
    "mean of features": (
        backward(dlog=lambda *a: one(by_c(*a).mean(-1)) * a[2]),
        "mean over the features",
    ),
    "no scale, no 1/2": (
        backward(dlog=lambda *a: 2 * one(by_c(*a)) * a[2] / a[3]),
        "is missing; and the scale",
    ),
    "no 1/2": (backward(dlog=lambda *a: 2 * one(by_c(*a)) * a[2]), "the 1/2 of the root"),
    "no sum": (backward(dlog=lambda *a: by_c(*a) * a[2]), "sum over all rows"),
    "mean": (backward(dlog=lambda *a: by_c(*a).mean().reshape(1) * a[2]), "you took the mean"),
    "no dy in dlog": (
        backward(dlog=lambda dy, *a: one(by_c(torch.ones_like(dy), *a)) * a[1]),
        "under the sum",
    ),
    "no scale in dlog": (
        backward(dlog=lambda *a: one(by_c(*a)) * a[2] / a[3]),
        "the scale is missing",
    ),
    "no x": (backward(dlog=lambda *a: one(by_c(*a) / a[1]) * a[2]), "x is missing"),
    "by y": (by_y, "dx is not a number where x is 0"),
    "no slope at 0": (
        backward(lambda dy, x, c, s: dy * s * c / (x**2 + c) ** 1.5 * x.sign() ** 2),
        "dx is off by",
    ),
    "sum over features": (
        backward(dlog=lambda *a: (by_c(*a) * a[2]).sum(-1)),
        "sum over the rows as well",
    ),
    "sum over rows": (
        backward(dlog=lambda *a: (by_c(*a) * a[2]).sum(0)),
        "sum over the features as well",
    ),
    "no axis": (backward(dlog=lambda *a: by_c(*a).sum() * a[2][0]), "has shape (1,)"),
    "dx alone": (lambda dy, x, log_c, s: dy, "expected a tuple"),
    "in place": (backward_in_place, "changed in place"),
}


def of_root(function, front=lambda d, c: d**0.5):
    return lambda x, d, c: front(d, c) * function(x / c**0.5)


def integral_of_the_whole(x, d, c):
    """By Simpson's rule: no arctangent in it."""
    t = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    slopes = (d * c) ** 0.5 / ((x[..., None] * t).square() + c)
    weights = torch.full_like(t, 2.0)
    weights[1::2] = 4.0
    weights[0] = weights[-1] = 1.0
    return x * (slopes @ weights) / 60_000


WHOLES = {
    "slope": (lambda x, d, c: (d * c) ** 0.5 / (x * x + c), "the slope itself"),
    "the page's numbers": (lambda x, d, c: 8 * torch.atan(x / 8), "the root of 64 on the page"),
    "changed places": (lambda x, d, c: c**0.5 * torch.atan(x / d**0.5), "have changed places"),
    "half": (of_root(torch.atan, lambda d, c: d**0.5 / 2), "half of it"),
    "no root of D": (of_root(torch.atan, lambda d, c: 1.0), "sqrt(D) is missing"),
    "D": (of_root(torch.atan, lambda d, c: d), "not D."),
    "no chain rule": (of_root(torch.atan, lambda d, c: (d * c) ** 0.5), "not sqrt(D c)"),
    "chain rule twice": (of_root(torch.atan, lambda d, c: (d / c) ** 0.5), "counts once"),
    "by c": (lambda x, d, c: d**0.5 * torch.atan(x / c), "not by c"),
    "times the root of c": (lambda x, d, c: d**0.5 * torch.atan(x * c**0.5), "not multiplied"),
    "by c, root of c in front": (
        lambda x, d, c: (d * c) ** 0.5 * torch.atan(x / c),
        "in front sqrt(D) stands alone",
    ),
    "by c, twice": (lambda x, d, c: (d / c) ** 0.5 * torch.atan(x / c), "by no c in front"),
    "double": (of_root(torch.atan, lambda d, c: 2 * d**0.5), "twice too much"),
    "softsign": (of_root(torch.nn.functional.softsign), "softsign has the slope"),
    "x alone": (lambda x, d, c: d**0.5 * torch.atan(x), "is divided by sqrt(c)."),
    "x alone, chain rule": (
        lambda x, d, c: (d / c) ** 0.5 * torch.atan(x),
        "then sqrt(D) stands in front",
    ),
    "x alone, no chain rule": (
        lambda x, d, c: (d * c) ** 0.5 * torch.atan(x),
        "sqrt(D) alone in front",
    ),
    "by the root of D": (lambda x, d, c: d**0.5 * torch.atan(x / d**0.5), "not by sqrt(D)"),
    "minus": (lambda x, d, c: -(d**0.5) * torch.atan(x / c**0.5), "the sign is turned"),
    "height of RMSNorm": (
        of_root(torch.atan, lambda d, c: 2 / torch.pi * d**0.5),
        "its slope too small",
    ),
    "height of RMSNorm, its slope at 0": (
        lambda x, d, c: 2 / torch.pi * d**0.5 * torch.atan(torch.pi / 2 * x / c**0.5),
        "right at 0 alone",
    ),
    "step 1": (lambda x, d, c: d**0.5 * x / (x * x + c) ** 0.5, "step 1's curve"),
    "tanh": (of_root(torch.tanh), "tanh has the slope"),
    "tangent": (of_root(torch.tan), "the tangent is the inverse"),
    "jump": (lambda x, d, c: -(d**0.5) * torch.atan(c**0.5 / x), "jumps at 0"),
    "arsinh": (of_root(torch.asinh), "with a root"),
    "logarithm": (
        lambda x, d, c: (d * c) ** 0.5 * ((x * x + c) / c).log(),
        "has a factor 2x",
    ),
    "x times the slope": (lambda x, d, c: x * (d * c) ** 0.5 / (x * x + c), "x times the slope"),
    "a constant": (lambda x, d, c: d**0.5 * torch.atan(x / c**0.5) + 1, "take its value there"),
    "the size alone": (lambda x, d, c: d**0.5 * torch.atan(x / c**0.5).abs(), "right where x > 0"),
    "acos": (
        lambda x, d, c: d**0.5 * torch.acos((1 + x**2 / c) ** -0.5),
        "right where x > 0",
    ),
    "flat beyond 50 knees": (
        lambda x, d, c: d**0.5 * torch.atan((x / c**0.5).clamp(-50, 50)),
        "the curve for x of shape (3,)",
    ),
    "64 for D": (lambda x, d, c: 8 * torch.atan(x / c**0.5), "the curve for"),
    "in place": (lambda x, d, c: x.div_(c**0.5).atan() * d**0.5, "changed in place"),
}


def test_the_curve_that_hands_back_the_whole_may_be_integrated_by_numbers():
    assert check.whole(integral_of_the_whole).startswith("[ok]")


def one_outlier(rows, width, seed, value=30.0):
    """The same outlier in each row, at a random place."""
    x = draw(rows, width, seed=seed)
    places = draw(rows, width, seed=seed + 300).argmax(-1, keepdim=True)
    return x.scatter(1, places, value)


def some_outliers(rows, width, seed):
    x = draw(rows, width, seed=seed)
    return torch.where(draw(rows, width, seed=seed + 700) > 2.33, 30 * x, x)


def outliers_of_many_sizes(rows, width, seed):
    x = draw(rows, width, seed=seed)
    places = draw(rows, width, seed=seed + 300).argmax(-1, keepdim=True)
    return x.scatter(1, places, 30 * (1 + draw(rows, 1, seed=seed + 1).abs()))


def large_channel(rows, width, seed):
    x = draw(rows, width, seed=seed)
    x[:, 0] = 30 * x[:, 0]
    return x


def rows_of_many_sizes(rows, width, seed):
    return one_outlier(rows, width, seed) * draw(rows, 1, seed=seed + 5).exp()


def two_outliers(rows, width, seed):
    x = draw(rows, width, seed=seed)
    x[:, :2] = 30
    return x


def not_finite(rows, width, seed):
    x = one_outlier(rows, width, seed)
    x[0, 0] = torch.nan
    return x


ROWS = {
    "normal": (lambda rows, width, seed: draw(rows, width, seed=seed), "no number that is 10"),
    "some": (some_outliers, "no number that is 10"),
    "too small": (partial(one_outlier, value=5.0), "no number that is 10"),
    "a channel": (large_channel, "no number that is 10"),
    "many sizes of outliers": (outliers_of_many_sizes, "Give all rows one size"),
    "many sizes of rows": (rows_of_many_sizes, "Give all rows one size"),
    "two": (two_outliers, "two large numbers"),
    "turned": (lambda rows, width, seed: one_outlier(width, rows, seed), "rows and width"),
    "one seed": (lambda rows, width, seed: one_outlier(rows, width, 0), "the same for every seed"),
    "no seed": (lambda rows, width, seed: torch.rand(rows, width), "two calls with one seed"),
    "not finite": (not_finite, "not finite"),
    "none": (lambda rows, width, seed: None, "rows and width"),
}


def of_places(function):
    return lambda rows: function(others(rows))


PLACES = {
    "all": (others, "the mean of all of them"),
    "one a row": (of_places(lambda c: c.mean(-1)), "over the rows, too"),
    "one a channel": (of_places(lambda c: c.mean(0)), "over the numbers of a row, too"),
    "with its own": (lambda rows: total(rows).mean(), "own square does not belong"),
    "mean square": (lambda rows: rows.square().mean(), "that is the mean square"),
    "rho": (lambda rows: rows.square().mean().sqrt(), "that is rho"),
    "sum": (of_places(torch.sum), "sum of all c"),
    "middle": (of_places(torch.median), "the middle c"),
    "knee": (of_places(lambda c: c.mean().sqrt()), "the knee"),
    "mean knee": (of_places(lambda c: c.sqrt().mean()), "the mean knee"),
    "over D": (lambda rows: others(rows).mean() / rows.shape[-1], "not divided by D:"),
    "over D - 1": (lambda rows: others(rows).mean() / (rows.shape[-1] - 1), "not their mean"),
    "the start": (lambda rows: rows.shape[-1], "the start of the layer"),
}


CASES = {
    check.true_c: CONSTANTS,
    check.backward_log: BACKWARDS,
    check.whole: WHOLES,
    check.my_rows: ROWS,
    check.c_of: PLACES,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(CASES)


def by_cumulative_sums(x):
    squares = x.square()
    before = squares.cumsum(-1).roll(1, -1)
    before[..., 0] = 0
    after = squares.flip(-1).cumsum(-1).roll(1, -1)
    after[..., 0] = 0
    return before + after.flip(-1)


def by_loops(x):
    columns = [
        torch.cat([x[..., :i], x[..., i + 1 :]], -1).square().sum(-1) for i in range(x.shape[-1])
    ]
    return torch.stack(columns, -1)


def by_numpy(x):
    squares = x.numpy() ** 2
    size = squares.shape[-1]
    others = [np.delete(squares, i, axis=-1).sum(-1) for i in range(size)]
    return torch.from_numpy(np.stack(others, -1))


def by_where(x):
    diagonal = torch.eye(x.shape[-1], dtype=torch.bool)
    return torch.where(diagonal, 0.0, x.square()[..., None, :]).sum(-1)


def by_masked_fill(x):
    repeated = x.square()[..., None, :].repeat_interleave(x.shape[-1], -2)
    return repeated.masked_fill(torch.eye(x.shape[-1], dtype=torch.bool), 0.0).sum(-1)


def by_subtraction(x):
    return total(x) - x.square()


def by_mean_square(x):
    return x.shape[-1] * x.square().mean(-1, keepdim=True) - x.square()


def by_matrix(x):
    return x.square() @ (1 - torch.eye(x.shape[-1], dtype=x.dtype))


@pytest.mark.parametrize(
    "constants",
    [
        by_cumulative_sums,
        by_loops,
        by_numpy,
        by_where,
        by_masked_fill,
        by_matrix,
        by_subtraction,
        by_mean_square,
        others,
    ],
)
def test_any_sum_of_the_others_will_do(constants):
    assert check.true_c(constants) == "[ok] Exercise 1 (the exact c)"


def by_chain(dy, x, log_c, scale):
    c = torch.exp(log_c)
    root = torch.sqrt(x * x + c)
    dx = dy * scale * (1 / root - x * x / root**3)
    dlog_c = torch.einsum("...i,...i->", dy, -scale * x / root**3 / 2) * c
    return [dx, dlog_c]


def by_root(dy, x, log_c, scale):
    root = torch.rsqrt(x.square() + log_c.exp())
    y = scale * x * root
    share = 1 - (y / scale) ** 2  # c / (x^2 + c)
    return dy * scale * root * share, (-dy * y * share / 2).sum()[None]


@pytest.mark.parametrize(
    "answer",
    [backward(), by_chain, by_root, partial(by_root), torch.compile(by_chain, backend="eager")],
    ids=["direct", "chain", "root", "partial", "compiled"],
)
def test_any_form_of_the_backward_pass_will_do(answer):
    assert check.backward_log(answer).startswith("[ok]")


@pytest.mark.parametrize(
    "rows",
    [
        one_outlier,
        partial(one_outlier, value=-100.0),
        partial(one_outlier, value=1e6),
        lambda rows, width, seed: torch.cat(
            [torch.full((rows, 1), 40.0), draw(rows, width - 1, seed=seed)], 1
        ),
        lambda rows, width, seed: torch.nn.functional.normalize(
            rows_of_many_sizes(rows, width, seed)
        ),
    ],
    ids=["30", "-100", "a million", "a channel", "rows of length 1"],
)
def test_rows_of_one_size_need_no_bend_whatever_their_outliers(rows):
    assert check.my_rows(rows).startswith("[ok]")


@pytest.mark.parametrize(
    "constant",
    [
        lambda rows: others(rows).mean(),
        lambda rows: float((rows.shape[-1] - 1) * rows.square().mean()),
        lambda rows: np.mean(others(rows).numpy()),
        lambda rows: others(rows).sum().item() / rows.numel(),
        lambda rows: others(rows).mean(-1).mean().item(),
    ],
    ids=["tensor", "mean square", "numpy", "sum", "twice"],
)
def test_the_mean_constant_may_be_any_number(constant):
    assert check.c_of(constant).startswith("[ok]")
