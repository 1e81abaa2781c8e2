"""Checks of lesson 02: layer norm by hand, forward and backward, group norm, and unknown axes."""

import math

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import calls, forbid, same_gradients
from normcourse.checks.values import as_number, describe
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import functional, gradients

FINISHED = ("layer_norm", "group_norm", "instance_norm", "batch_norm", "normlib")


# Exercise 1


@exercise("Exercise 1 (a row by hand)")
def by_hand(answer) -> None:
    """y of the row (1, 1, 1, 5) with eps 1, gain (1, 2, 1, 2) and bias (0, 0, 1, 1).  [EQ-LN]"""
    row = torch.tensor([1.0, 1.0, 1.0, 5.0], dtype=torch.float64)
    weight = torch.tensor([1.0, 2.0, 1.0, 2.0], dtype=torch.float64)
    bias = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    centred = row - 2
    xhat = centred / 2  # the variance is 3, with eps 4, its root 2
    divisors = {
        "eps stands inside the root: the root of 3 + 1, not the root of 3 plus 1.": (
            math.sqrt(3) + 1
        ),
        "eps is missing: add it to the variance before you take the root.": math.sqrt(3),
        "the variance is the MEAN of the squares: divide their sum by 4.": math.sqrt(13),
        "the variance divides by D = 4, not by D - 1 = 3.": math.sqrt(5),
        "take the root of the variance plus eps.": 4.0,
    }
    slips = {text: centred / divisor * weight + bias for text, divisor in divisors.items()}
    slips |= {
        "that is the normalized row; gain and bias are missing.": xhat,
        "the bias is missing: add it last.": xhat * weight,
        "the gain is missing: multiply by it before you add the bias.": xhat + bias,
        "the bias comes after the gain: multiply first, then add.": (xhat + bias) * weight,
        "the mean is not subtracted: that is RMSNorm.": row / math.sqrt(8) * weight + bias,
        "the mean is subtracted from the row; what you divide is still the row.": (
            row / 2 * weight + bias
        ),
    }
    expect(_numbers(answer), xhat * weight + bias, slips, what="the row", rtol=5e-3, atol=5e-3)


def _numbers(answer) -> Tensor:
    """Four numbers in a list, a tuple, an array or a tensor."""
    listed = answer.tolist() if hasattr(answer, "tolist") else answer
    numbers = parts(listed, "y1", "y2", "y3", "y4")
    try:
        return torch.tensor([as_number(number) for number in numbers], dtype=torch.float64)
    except (TypeError, ValueError, OverflowError):
        raise Slip(f"the row is {describe(answer)}, expected four numbers.") from None


# Exercise 2


@exercise("Exercise 2 (layer norm)")
def layer_norm(student) -> None:
    """student(x, normalized_shape, weight, bias, eps) for x (..., *normalized_shape).  [EQ-LN]"""
    cases = [
        _layer_case((2, 3, 2, 3), (2, 3), eps=0.5),  # a lost keepdim broadcasts here
        _layer_case((4, 5, 7), (7,), eps=0.1),
        _layer_case((6,), (6,), eps=0.3),
    ]
    watched = forbid(student, *FINISHED)
    calls(watched, functional.layer_norm, *cases, slips=LAYER_NORM_SLIPS)
    same_gradients(student, functional.layer_norm, cases[0], slips=GRADIENT_SLIPS)
    _check_large_mean(student)


def _layer_case(shape: tuple, normalized_shape: tuple, eps: float) -> dict:
    return {
        "x": 1 + draw(*shape, seed=1),
        "normalized_shape": normalized_shape,
        "weight": 1 + draw(*normalized_shape, seed=2),
        "bias": 1 + draw(*normalized_shape, seed=3),
        "eps": eps,
    }


def _trailing(shape: tuple) -> tuple:
    return tuple(range(-len(shape), 0))


def _standardize(x: Tensor, dims, correction: int = 0, eps: float = 0.5) -> Tensor:
    centred = x - x.mean(dims, keepdim=True)
    return centred / torch.sqrt(x.var(dims, keepdim=True, correction=correction) + eps)


def _row_slip(xhat):
    """A layer norm whose normalized row is xhat(x, axes, eps)."""
    return lambda x, shape, w, b, eps: xhat(x, _trailing(shape), eps) * w + b


def _axis_slip(axes):
    """A layer norm over axes(number of dimensions of x, normalized_shape)."""
    return lambda x, shape, w, b, eps: _standardize(x, axes(x.dim(), shape), eps=eps) * w + b


def _affine_slip(affine):
    """A layer norm whose gain and bias are used in another way."""
    return lambda x, shape, w, b, eps: affine(_standardize(x, _trailing(shape), eps=eps), w, b)


def _centred(x: Tensor, dims) -> Tensor:
    return x - x.mean(dims, keepdim=True)


def _deviation(x: Tensor, dims, correction: int = 0) -> Tensor:
    return x.std(dims, keepdim=True, correction=correction)


def _length(x: Tensor, dims) -> Tensor:
    return _centred(x, dims).square().sum(dims, keepdim=True)


def _mean_square(x: Tensor, dims) -> Tensor:
    return x.square().mean(dims, keepdim=True)


def _unkept(x, shape, w, b, eps) -> Tensor:
    """Without keepdim; NaN where this does not broadcast."""
    dims = _trailing(shape)
    try:
        return (x - x.mean(dims)) / torch.sqrt(x.var(dims, correction=0) + eps) * w + b
    except RuntimeError:
        return torch.full_like(x, math.nan)


def _affine_first(x, shape, w, b, eps) -> Tensor:
    return _standardize(x * w + b, _trailing(shape), eps=eps)


def _leading(dims: int, shape: tuple) -> tuple:
    return tuple(range(dims - len(shape))) or (0,)


def _last_two(dims: int, shape: tuple) -> tuple:
    return (-2, -1) if dims > 1 else (-1,)


LAYER_NORM_SLIPS = {
    "the variance is the biased one: divide by D, not by D - 1 (correction=0).": _row_slip(
        lambda x, dims, eps: _centred(x, dims) / torch.sqrt(_deviation(x, dims, 1).square() + eps)
    ),
    "eps belongs inside the root, added to the variance, not to the standard deviation.": _row_slip(
        lambda x, dims, eps: _centred(x, dims) / (_deviation(x, dims) + eps)
    ),
    "that is torch's std() + eps: divide by D, not by D - 1, "
    "and put eps inside the root.": _row_slip(
        lambda x, dims, eps: _centred(x, dims) / (_deviation(x, dims, 1) + eps)
    ),
    "that has length 1: the variance is the MEAN of the squares, not their sum.": _row_slip(
        lambda x, dims, eps: _centred(x, dims) / torch.sqrt(_length(x, dims) + eps)
    ),
    "divide by the standard deviation: the square root is missing.": _row_slip(
        lambda x, dims, eps: _centred(x, dims) / (_deviation(x, dims).square() + eps)
    ),
    "eps is not used; add it to the variance.": _row_slip(
        lambda x, dims, eps: _centred(x, dims) / _deviation(x, dims)
    ),
    "eps is an argument; yours is fixed at 1e-5.": _row_slip(
        lambda x, dims, eps: _standardize(x, dims, eps=1e-5)
    ),
    "the mean is not subtracted from x: that is RMSNorm.": _row_slip(
        lambda x, dims, eps: x / torch.sqrt(_mean_square(x, dims) + eps)
    ),
    "the mean is subtracted, but not divided by anything.": (
        _row_slip(lambda x, dims, eps: _centred(x, dims))
    ),
    "wrong axes: these statistics run over the leading dimensions, "
    "that is over the samples.": _axis_slip(_leading),
    "wrong axes: only the last one was reduced; normalized_shape may have two.": _axis_slip(
        lambda dims, shape: (-1,)
    ),
    "wrong axes: one mean for the whole tensor; every sample has its own.": _axis_slip(
        lambda dims, shape: tuple(range(dims))
    ),
    "the axes are fixed at the last two; "
    "len(normalized_shape) says how many there are.": _axis_slip(_last_two),
    "keepdim=True is missing: the statistics are lined up with the wrong axes.": _unkept,
    "the bias is missing.": _affine_slip(lambda xhat, w, b: xhat * w),
    "the gain (weight) is missing.": _affine_slip(lambda xhat, w, b: xhat + b),
    "gain and bias are missing.": _affine_slip(lambda xhat, w, b: xhat),
    "the bias is multiplied by the gain: add it last.": (
        _affine_slip(lambda xhat, w, b: (xhat + b) * w)
    ),
    "gain and bias come after the normalization, not before.": _affine_first,
    "the gain is one number here; every feature has its own.": _affine_slip(
        lambda xhat, w, b: xhat * w.mean() + b
    ),
    "gain and bias are one number each here; every feature has its own.": _affine_slip(
        lambda xhat, w, b: xhat * w.mean() + b.mean()
    ),
}
GRADIENT_SLIPS = {
    "the values are right, but mean and variance are cut off from x (detach, no_grad, .item()): "
    "the gradient must flow through them as well.": lambda x, shape, w, b, eps: (
        (x - x.mean(_trailing(shape), keepdim=True).detach())
        / torch.sqrt(x.var(_trailing(shape), keepdim=True, correction=0) + eps).detach()
        * w
        + b
    ),
    "the values are right, but the mean is cut off from x; the gradient must flow through it.": (
        lambda x, shape, w, b, eps: (
            (x - x.mean(_trailing(shape), keepdim=True).detach())
            / torch.sqrt(x.var(_trailing(shape), keepdim=True, correction=0) + eps)
            * w
            + b
        )
    ),
    "the values are right, but the variance is cut off from x; "
    "the gradient must flow through it.": (
        lambda x, shape, w, b, eps: (
            _centred(x, _trailing(shape))
            / torch.sqrt(x.var(_trailing(shape), keepdim=True, correction=0) + eps).detach()
            * w
            + b
        )
    ),
}


def _check_large_mean(student) -> None:
    x = (1e4 + draw(32, 64, seed=1)).float()
    ones = torch.ones(64, dtype=x.dtype)
    zeros = torch.zeros(64, dtype=x.dtype)
    got = student(x, (64,), ones, zeros, 1e-5)
    want = functional.layer_norm(x, (64,), ones, zeros)
    # the mean is rounded to 1e4 * 6e-8; mean of squares minus squared mean misses by 1
    tolerance = 1e-2
    comparable = isinstance(got, Tensor) and got.shape == want.shape
    if comparable and not torch.allclose(got.to(want.dtype), want, 0, tolerance):
        raise Slip(
            "right on small numbers, lost at mean 10,000 in float32: mean of squares minus squared "
            "mean cancels. Subtract the mean first, then square."
        )
    expect(got, want, what="the output in float32", rtol=0.0, atol=tolerance)


# Exercise 3


@exercise("Exercise 3 (how the size moves)")
def size_gradient(student) -> None:
    """student(x, eps) -> the gradient of s = sqrt(variance + eps) for each row of x.
    [EQ-LN-JACOBIAN]
    """
    cases = [
        {"x": 1 + draw(3, 5, seed=1), "eps": 0.5},
        {"x": 2 + draw(2, 4, 7, seed=2), "eps": 0.1},
    ]
    watched = forbid(student, "autograd", "jacobian", "normlib")
    calls(watched, _size_gradient, *cases, slips=SIZE_SLIPS, what="the gradient of s")


def _size(x: Tensor, eps: float) -> Tensor:
    return torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps)


def _size_gradient(x: Tensor, eps: float) -> Tensor:
    return _centred(x, -1) / (x.shape[-1] * _size(x, eps))


SIZE_SLIPS = {
    "that is the normalized row; "
    "the factor 1/D of the mean of squares is missing.": lambda x, eps: (
        _centred(x, -1) / _size(x, eps)
    ),
    "the mean moves with x as well: the centred row stands here, not x.": lambda x, eps: (
        x / (x.shape[-1] * _size(x, eps))
    ),
    "that is the gradient of s squared: divide it by 2 s.": lambda x, eps: (
        2 * _centred(x, -1) / x.shape[-1]
    ),
    "both sides have a factor 2, which cancels: yours is half as large.": lambda x, eps: (
        _size_gradient(x, eps) / 2
    ),
    "both sides have a factor 2, which cancels: yours is twice as large.": lambda x, eps: (
        2 * _size_gradient(x, eps)
    ),
    "divide by s: the derivative of a root is one over twice the root.": lambda x, eps: (
        _centred(x, -1) / x.shape[-1]
    ),
    "divide by s, not by its square.": lambda x, eps: _size_gradient(x, eps) / _size(x, eps),
    "eps is part of s: it stays in the divisor.": lambda x, eps: _size_gradient(x, 0.0),
    "the mean divides by D, not by D - 1.": lambda x, eps: (
        _size_gradient(x, eps) * x.shape[-1] / (x.shape[-1] - 1)
    ),
    "the sign: s grows when an entry moves away from the mean.": lambda x, eps: (
        -_size_gradient(x, eps)
    ),
    "sum over ALL entries i: you kept only i = j; the others cancel the 1/D.": lambda x, eps: (
        _size_gradient(x, eps) * (1 - 1 / x.shape[-1])
    ),
}


# Exercise 4


@exercise("Exercise 4 (the backward pass)")
def backward(student) -> None:
    """student(dy, x, weight, eps) -> dx, dw, db for rows (N, D), without a D x D matrix.
    [EQ-LN-GRAD]
    """
    cases = [_backward_case(5, 3, eps=0.5), _backward_case(2, 7, eps=0.1)]
    watched = forbid(student, "autograd", "jacobian", "normlib", largest=20)  # 7 x 7 is more
    calls(watched, _backward, *cases, slips=BACKWARD_SLIPS, what=("dx", "dw", "db"))


def _backward_case(rows: int, features: int, eps: float) -> dict:
    return {
        "dy": draw(rows, features, seed=4),
        "x": 1 + 2 * draw(rows, features, seed=5),
        "weight": 1 + draw(features, seed=6),
        "eps": eps,
    }


def _backward(dy, x, weight, eps):
    return gradients.layer_norm_backward(dy, x, weight.shape, weight, torch.zeros_like(weight), eps)


def _mean(values: Tensor) -> Tensor:
    return values.mean(-1, keepdim=True)


def _backward_slip(dx=None, dw=None, db=None, size=_size):
    """The backward pass with another dx(g, xhat, s, w, dy), dw(dy, xhat, x, s) or db(dy)."""
    dx = dx or (lambda g, xhat, s, w, dy: (g - _mean(g) - xhat * _mean(g * xhat)) / s)
    dw = dw or (lambda dy, xhat, x, s: (dy * xhat).sum(0))
    db = db or (lambda dy: dy.sum(0))

    def wrong(dy, x, weight, eps):
        s = size(x, eps)
        xhat = _centred(x, -1) / s
        return dx(weight * dy, xhat, s, weight, dy), dw(dy, xhat, x, s), db(dy)

    return wrong


BACKWARD_SLIPS = {
    "dx: the mean of g is not subtracted: the row's mean moves with x, too.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (g - xhat * _mean(g * xhat)) / s
    ),
    "dx: the part along xhat is not subtracted: the size moves with x, too.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (g - _mean(g)) / s
    ),
    "dx: mean and size are taken as constants; both move with x.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: g / s
    ),
    "dx: the gain is missing: g is weight times dy.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (dy - _mean(dy) - xhat * _mean(dy * xhat)) / s
    ),
    "dx: the gain stands inside the means: use g = weight * dy everywhere.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: w * (dy - _mean(dy) - xhat * _mean(dy * xhat)) / s
    ),
    "dx: it is not divided by s.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: g - _mean(g) - xhat * _mean(g * xhat)
    ),
    "dx: divide by the standard deviation s, not by the variance.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (g - _mean(g) - xhat * _mean(g * xhat)) / s**2
    ),
    "dx: the mean of g * xhat is a factor of xhat; xhat is missing.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (g - _mean(g) - _mean(g * xhat)) / s
    ),
    "dx: the two sums have to be divided by D.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (
            (g - g.sum(-1, keepdim=True) - xhat * (g * xhat).sum(-1, keepdim=True)) / s
        )
    ),
    "dx: the last term is subtracted, not added.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (g - _mean(g) + xhat * _mean(g * xhat)) / s
    ),
    "dx: its means run over the rows; they belong to one row, over its features.": _backward_slip(
        dx=lambda g, xhat, s, w, dy: (g - g.mean(0) - xhat * (g * xhat).mean(0)) / s
    ),
    "eps is missing in s.": _backward_slip(size=lambda x, eps: _size(x, 0.0)),
    "the variance divides by D, not by D - 1.": _backward_slip(
        size=lambda x, eps: torch.sqrt(x.var(-1, keepdim=True) + eps)
    ),
    "dw: multiply dy by the normalized row, not by x.": _backward_slip(
        dw=lambda dy, xhat, x, s: (dy * x).sum(0)
    ),
    "dw: divide the centred row by s: xhat belongs here.": _backward_slip(
        dw=lambda dy, xhat, x, s: (dy * xhat * s).sum(0)
    ),
    "dw: sum over the rows, do not average.": (
        _backward_slip(dw=lambda dy, xhat, x, s: (dy * xhat).mean(0))
    ),
    "dw and db: sum over the rows, do not average.": _backward_slip(
        dw=lambda dy, xhat, x, s: (dy * xhat).mean(0), db=lambda dy: dy.mean(0)
    ),
    "db: sum over the rows, do not average.": _backward_slip(db=lambda dy: dy.mean(0)),
}


# Exercise 5


@exercise("Exercise 5 (group norm)")
def group_norm(student) -> None:
    """student(x, num_groups, weight, bias, eps) for x (N, C, ...).  [EQ-GN]"""
    cases = [
        _group_case((2, 6, 2, 6), 2, eps=0.5),  # a gain left on the last axis broadcasts here
        _group_case((5, 6), 3, eps=0.1),
        _group_case((3, 8, 5), 2, eps=0.3),
    ]
    watched = forbid(student, *FINISHED)
    calls(watched, functional.group_norm, *cases, slips=GROUP_NORM_SLIPS)
    same_gradients(student, functional.group_norm, cases[0])


def _group_case(shape: tuple, num_groups: int, eps: float) -> dict:
    return {
        "x": 1 + draw(*shape, seed=1),
        "num_groups": num_groups,
        "weight": 1 + draw(shape[1], seed=2),
        "bias": 1 + draw(shape[1], seed=3),
        "eps": eps,
    }


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (x.dim() - 2))


def _group_slip(xhat):
    """A group norm whose normalized groups are xhat(x as (N, G, C/G, positions), eps)."""

    def wrong(x, num_groups, weight, bias, eps):
        groups = x.reshape(len(x), num_groups, x.shape[1] // num_groups, -1)
        return xhat(groups, eps).reshape(x.shape) * _per_channel(weight, x) + _per_channel(bias, x)

    return wrong


def _group_affine_slip(affine):
    """A group norm whose affine part is affine(xhat, weight, bias, num_groups); NaN if it fails."""

    def wrong(x, num_groups, weight, bias, eps):
        xhat = functional.group_norm(x, num_groups, eps=eps)
        try:
            return affine(xhat, weight, bias, num_groups)
        except RuntimeError:
            return torch.full_like(x, math.nan)

    return wrong


def _every_second(x, num_groups, weight, bias, eps):
    groups = x.reshape(len(x), x.shape[1] // num_groups, num_groups, -1)
    xhat = _standardize(groups, (1, 3), eps=eps).reshape(x.shape)
    return xhat * _per_channel(weight, x) + _per_channel(bias, x)


def _swapped(x, num_groups, weight, bias, eps):
    groups = x.reshape(len(x), x.shape[1] // num_groups, -1)
    xhat = _standardize(groups, -1, eps=eps).reshape(x.shape)
    return xhat * _per_channel(weight, x) + _per_channel(bias, x)


def _of_the_group(values: Tensor, num_groups: int) -> Tensor:
    return values[torch.arange(len(values)) // (len(values) // num_groups)]


GROUP_NORM_SLIPS = {
    "the statistics also run over the positions, "
    "not only over the channels of a group.": _group_slip(
        lambda groups, eps: _standardize(groups, 2, eps=eps)
    ),
    "the statistics run over the batch, too; every sample has its own.": _group_slip(
        lambda groups, eps: _standardize(groups, (0, 2, 3), eps=eps)
    ),
    "a group is contiguous channels (0, 1, 2 | 3, 4, 5), not every second one.": _every_second,
    "num_groups is the number of groups, not of channels in a group.": _swapped,
    "the variance is the biased one: correction=0.": _group_slip(
        lambda groups, eps: _standardize(groups, (2, 3), correction=1, eps=eps)
    ),
    "eps is not used; add it to the variance.": _group_slip(
        lambda groups, eps: _standardize(groups, (2, 3), eps=0.0)
    ),
    "eps is an argument; yours is fixed at 1e-5.": _group_slip(
        lambda groups, eps: _standardize(groups, (2, 3), eps=1e-5)
    ),
    "eps belongs inside the root, added to the variance, "
    "not to the standard deviation.": _group_slip(
        lambda groups, eps: _centred(groups, (2, 3)) / (_deviation(groups, (2, 3)) + eps)
    ),
    "the mean of the group is not subtracted.": _group_slip(
        lambda groups, eps: groups / torch.sqrt(_mean_square(groups, (2, 3)) + eps)
    ),
    "the statistics leave out the channels of the group: that is InstanceNorm.": _group_slip(
        lambda groups, eps: _standardize(groups, 3, eps=eps)
    ),
    "one group of all channels: num_groups is not used.": _group_slip(
        lambda groups, eps: _standardize(groups, (1, 2, 3), eps=eps)
    ),
    "weight and bias belong to channels: reshape them to (C, 1, 1); they lie on the last axis.": (
        _group_affine_slip(lambda xhat, w, b, groups: xhat * w + b)
    ),
    "there is one gain per channel, not per group.": _group_affine_slip(
        lambda xhat, w, b, groups: (
            xhat * _per_channel(_of_the_group(w, groups), xhat)
            + _per_channel(_of_the_group(b, groups), xhat)
        )
    ),
    "the bias is missing.": (
        _group_affine_slip(lambda xhat, w, b, groups: xhat * _per_channel(w, xhat))
    ),
    "the gain (weight) is missing.": _group_affine_slip(
        lambda xhat, w, b, groups: xhat + _per_channel(b, xhat)
    ),
    "gain and bias are missing.": _group_affine_slip(lambda xhat, w, b, groups: xhat),
}


# Exercise 6


UNKNOWN = {  # layers for x of shape (3, 4, 5, 6): the exercise asks for their axes
    "a": lambda x: _standardize(x, (1, 3), eps=1e-5),
    "b": lambda x: x / torch.sqrt(_mean_square(x, 0) + 1e-5),
    "c": lambda x: _standardize(x, (1, 2, 3), eps=1e-5),
}
AXES = {"a": {1, 3}, "b": {0}, "c": {1, 2, 3}}
COUNT = 4


@exercise("Exercise 6 (three unknown layers)")
def unknown_axes(answer) -> None:
    """{"a": axes, "b": axes, "c": axes} of the layers in UNKNOWN."""
    if not isinstance(answer, dict) or set(answer) != set(AXES):
        raise Slip(f'the answer is {describe(answer)}, expected {{"a": (…), "b": (…), "c": (…)}}.')
    for name, right in AXES.items():
        _compare_axes(f"layer {name}", _axes(f"layer {name}", answer[name]), right)


def _axes(name: str, given) -> set[int]:
    listed = (given,) if isinstance(given, int) else given
    whole = isinstance(listed, tuple | list | set) and all(type(axis) is int for axis in listed)
    if not whole or not all(-COUNT <= axis < COUNT for axis in listed):
        raise Slip(f"{name}: {describe(given)} is no tuple of axes from 0 to {COUNT - 1}.")
    return {axis % COUNT for axis in listed}


def _compare_axes(name: str, given: set[int], right: set[int]) -> None:
    if given == right:
        return
    if given == set(range(COUNT)) - right:
        raise Slip(
            f"{name}: those are the axes that it keeps apart; name those that it averages over."
        )
    if not given:
        raise Slip(
            f"{name}: no axis at all would be an element-wise layer, and other inputs do move it."
        )
    if given < right:
        raise Slip(f"{name}: an axis is missing; move an input along each of the others and look.")
    if given > right:
        raise Slip(f"{name}: an axis too many; along one of yours no other input moves the output.")
    raise Slip(f"{name}: other axes; choose one output, and see which inputs move it.")
