"""The checks of lesson 02 name what is wrong, and accept unusual right answers."""

import math

import numpy
import pytest
import torch
from torch.nn import functional as F

from normcourse.checks import layer_norm as check
from tests.course.solutions import every_slip, load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


# Exercise 1

ROW = {
    "eps outside the root": ([-0.366, -0.732, 0.634, 3.196], "inside the root"),
    "no eps": ([-0.577, -1.155, 0.423, 4.464], "eps is missing"),
    "sum of squares": ([-0.277, -0.555, 0.723, 2.664], "the MEAN of the squares"),
    "divided by D - 1": ([-0.447, -0.894, 0.553, 3.683], "not by D - 1"),
    "no root": ([-0.25, -0.5, 0.75, 2.5], "take the root"),
    "normalized only": ([-0.5, -0.5, -0.5, 1.5], "gain and bias are missing"),
    "no bias": ([-0.5, -1.0, -0.5, 3.0], "the bias is missing"),
    "no gain": ([-0.5, -0.5, 0.5, 2.5], "the gain is missing"),
    "gain around the bias": ([-0.5, -1.0, 0.5, 5.0], "the bias comes after the gain"),
    "RMSNorm": ([0.354, 0.707, 1.354, 4.536], "that is RMSNorm"),
    "not centred": ([0.5, 1.0, 1.5, 6.0], "the mean is subtracted from the row"),
    "three numbers": ([-0.5, -1.0, 0.5], "expected a tuple (y1, y2, y3, y4)"),
    "words": (["a", "b", "c", "d"], "expected four numbers"),
}


@every_slip({check.by_hand: ROW})
def test_a_wrong_row_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


def test_a_row_comes_in_any_form():
    numbers = [-0.5, -1, 0.5, 4]
    for answer in (tuple(numbers), torch.tensor(numbers), numpy.array(numbers)):
        assert check.by_hand(answer).startswith("[ok]")


# Exercise 2


def trailing(shape):
    return tuple(range(-len(shape), 0))


def layer(dims=trailing, correction=0, scale=lambda var, eps: torch.sqrt(var + eps), keepdim=True):
    """A layer norm with one thing to get wrong at a time."""

    def student(x, shape, weight, bias, eps):
        over = dims(shape)
        mean = x.mean(over, keepdim=keepdim)
        var = x.var(over, keepdim=keepdim, correction=correction)
        return (x - mean) / scale(var, eps) * weight + bias

    return student


def affine(combine):
    """A layer norm that uses gain and bias in another way."""

    def student(x, shape, weight, bias, eps):
        centred = x - x.mean(trailing(shape), keepdim=True)
        xhat = centred / torch.sqrt(centred.square().mean(trailing(shape), keepdim=True) + eps)
        return combine(xhat, weight, bias)

    return student


def one_pass(x, shape, weight, bias, eps):
    over = trailing(shape)
    mean = x.mean(over, keepdim=True)
    var = x.square().mean(over, keepdim=True) - mean.square()
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def in_place(x, shape, weight, bias, eps):
    x -= x.mean(trailing(shape), keepdim=True)
    return x / torch.sqrt(x.square().mean(trailing(shape), keepdim=True) + eps) * weight + bias


def rms(x, shape, weight, bias, eps):
    return x / torch.sqrt(x.square().mean(trailing(shape), keepdim=True) + eps) * weight + bias


def detached(mean=False, var=False):
    def student(x, shape, weight, bias, eps):
        level = x.mean(trailing(shape), keepdim=True)
        spread = x.var(trailing(shape), keepdim=True, correction=0)
        level = level.detach() if mean else level
        spread = spread.detach() if var else spread
        return (x - level) / torch.sqrt(spread + eps) * weight + bias

    return student


def no_grad(*arguments):
    with torch.no_grad():
        return layer()(*arguments)


def length_one(x, shape, weight, bias, eps):
    centred = x - x.mean(trailing(shape), keepdim=True)
    return (
        centred / torch.sqrt(centred.square().sum(trailing(shape), keepdim=True) + eps) * weight
        + bias
    )


def affine_first(x, shape, weight, bias, eps):
    return affine(lambda xhat, w, b: xhat)(x * weight + bias, shape, None, None, eps)


LAYER_NORM = {
    "unbiased variance": (layer(correction=1), "biased one"),
    "std plus eps": (layer(scale=lambda var, eps: var.sqrt() + eps), "inside the root"),
    "torch's std plus eps": (
        layer(correction=1, scale=lambda var, eps: var.sqrt() + eps),
        "torch's std()",
    ),
    "divided by the variance": (layer(scale=lambda var, eps: var + eps), "square root is missing"),
    "no eps": (layer(scale=lambda var, eps: var.sqrt()), "eps is not used"),
    "own eps": (layer(scale=lambda var, eps: torch.sqrt(var + 1e-5)), "eps is an argument"),
    "sum of squares": (length_one, "that has length 1"),
    "always the last two axes": (
        layer(dims=lambda shape: (-2, -1)),
        "the axes are fixed at the last two",
    ),
    "centred only": (layer(scale=lambda var, eps: 1.0), "not divided"),
    "RMS norm": (rms, "that is RMSNorm"),
    "over the samples": (layer(dims=lambda shape: (0, 1)), "over the samples"),
    "last axis only": (layer(dims=lambda shape: (-1,)), "only the last one"),
    "no keepdim": (layer(keepdim=False), "keepdim=True is missing"),
    "axes counted from the front": (
        layer(dims=lambda shape: (2, 3)),
        "your code raised IndexError",
    ),
    "no bias": (affine(lambda xhat, w, b: xhat * w), "the bias is missing"),
    "no gain": (affine(lambda xhat, w, b: xhat + b), "gain (weight) is missing"),
    "no affine": (affine(lambda xhat, w, b: xhat), "gain and bias are missing"),
    "gain around the bias": (affine(lambda xhat, w, b: (xhat + b) * w), "multiplied by the gain"),
    "affine first": (affine_first, "after the normalization"),
    "scalar gain": (affine(lambda xhat, w, b: xhat * w.mean() + b), "gain is one number"),
    "one-pass variance": (one_pass, "lost at mean 10,000"),
    "changes x": (in_place, "x was changed in place"),
    "the finished layer": (F.layer_norm, "without layer_norm"),
    "float64 in float32": (lambda x, *rest: layer()(x.float(), *rest).double(), "is off by up to"),
    "statistics cut off": (detached(mean=True, var=True), "mean and variance are cut off"),
    "mean cut off": (detached(mean=True), "the mean is cut off"),
    "variance cut off": (detached(var=True), "the variance is cut off"),
    "no gradient": (no_grad, "no gradient comes back"),
}


# Exercise 3


def size(x, eps):
    return torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps)


def centred(x):
    return x - x.mean(-1, keepdim=True)


def by_autograd(x, eps):
    leaf = x.clone().requires_grad_()
    size(leaf, eps).sum().backward()
    return leaf.grad


SIZE = {
    "no 1/D": (lambda x, eps: centred(x) / size(x, eps), "the factor 1/D"),
    "not centred": (lambda x, eps: x / x.shape[-1] / size(x, eps), "the centred row stands here"),
    "of the square": (lambda x, eps: 2 * centred(x) / x.shape[-1], "gradient of s squared"),
    "half": (lambda x, eps: centred(x) / x.shape[-1] / size(x, eps) / 2, "half as large"),
    "twice": (lambda x, eps: 2 * centred(x) / x.shape[-1] / size(x, eps), "twice as large"),
    "not divided by s": (lambda x, eps: centred(x) / x.shape[-1], "divide by s"),
    "divided by the variance": (
        lambda x, eps: centred(x) / x.shape[-1] / size(x, eps) ** 2,
        "its square",
    ),
    "no eps": (lambda x, eps: centred(x) / x.shape[-1] / size(x, 0.0), "eps is part of s"),
    "D - 1": (lambda x, eps: centred(x) / (x.shape[-1] - 1) / size(x, eps), "not by D - 1"),
    "sign": (lambda x, eps: -centred(x) / x.shape[-1] / size(x, eps), "the sign"),
    "only i = j": (
        lambda x, eps: centred(x) / x.shape[-1] / size(x, eps) * (1 - 1 / x.shape[-1]),
        "sum over ALL entries",
    ),
    "autograd": (by_autograd, "without autograd"),
    "one row only": (lambda x, eps: (x - x.mean()) / (x.numel() * x.std()), "is off by up to"),
    "one number a row": (lambda x, eps: size(x, eps), "has shape (3, 1)"),
}


# Exercise 4


def backward(
    g=lambda w, dy: w * dy,
    level=lambda g: g.mean(-1, keepdim=True),
    along=lambda g, xhat: xhat * (g * xhat).mean(-1, keepdim=True),
    over=lambda s: s,
    size=size,
    dw=lambda dy, xhat, x: (dy * xhat).sum(0),
    db=lambda dy: dy.sum(0),
):
    """The backward pass with one thing to get wrong at a time."""

    def student(dy, x, weight, eps):
        s = size(x, eps)
        xhat = centred(x) / s
        arriving = g(weight, dy)
        dx = (arriving - level(arriving) - along(arriving, xhat)) / over(s)
        return dx, dw(dy, xhat, x), db(dy)

    return student


def with_a_matrix(dy, x, weight, eps):
    s = size(x, eps)
    xhat = centred(x) / s
    features = x.shape[-1]
    pairs = torch.eye(features) - 1 / features - xhat[:, :, None] * xhat[:, None, :] / features
    dx = ((weight * dy)[:, None, :] @ pairs).squeeze(1) / s
    return dx, (dy * xhat).sum(0), dy.sum(0)


def backward_by_autograd(dy, x, weight, eps):
    leaf = x.clone().requires_grad_()
    (centred(leaf) / size(leaf, eps) * weight).backward(dy)
    return leaf.grad, (dy * centred(x) / size(x, eps)).sum(0), dy.sum(0)


BACKWARD = {
    "mean not subtracted": (backward(level=lambda g: 0), "the mean of g is not subtracted"),
    "along not subtracted": (
        backward(along=lambda g, xhat: 0),
        "the part along xhat is not subtracted",
    ),
    "both constants": (backward(level=lambda g: 0, along=lambda g, xhat: 0), "taken as constants"),
    "no gain": (backward(g=lambda w, dy: dy), "the gain is missing"),
    "not divided": (backward(over=lambda s: 1), "not divided by s"),
    "by the variance": (backward(over=lambda s: s**2), "not by the variance"),
    "no xhat": (
        backward(along=lambda g, xhat: (g * xhat).mean(-1, keepdim=True)),
        "xhat is missing",
    ),
    "sums": (
        backward(
            lambda w, dy: w * dy,
            lambda g: g.sum(-1, keepdim=True),
            lambda g, xhat: xhat * (g * xhat).sum(-1, keepdim=True),
        ),
        "divided by D",
    ),
    "plus": (
        backward(along=lambda g, xhat: -xhat * (g * xhat).mean(-1, keepdim=True)),
        "subtracted, not added",
    ),
    "no eps": (backward(size=lambda x, eps: size(x, 0.0)), "eps is missing in s"),
    "unbiased": (
        backward(size=lambda x, eps: torch.sqrt(x.var(-1, keepdim=True) + eps)),
        "not by D - 1",
    ),
    "dw with x": (backward(dw=lambda dy, xhat, x: (dy * x).sum(0)), "not by x"),
    "dw mean": (backward(dw=lambda dy, xhat, x: (dy * xhat).mean(0)), "dw: sum over the rows"),
    "db mean": (backward(db=lambda dy: dy.mean(0)), "db: sum over the rows"),
    "dw not summed": (backward(dw=lambda dy, xhat, x: dy * xhat), "dw has shape (5, 3)"),
    "two parts": (lambda *arguments: backward()(*arguments)[:2], "expected a tuple (dx, dw, db)"),
    "a matrix": (with_a_matrix, "at most 20"),
    "autograd": (backward_by_autograd, "without autograd"),
}


# Exercise 5


def group(
    dims=(-1,),
    correction=0,
    groups=lambda C, G: G,
    scale=lambda var, eps: torch.sqrt(var + eps),
    combine=None,
):
    """A group norm with one thing to get wrong at a time."""

    def student(x, num_groups, weight, bias, eps):
        flat = x.reshape(len(x), groups(x.shape[1], num_groups), -1)
        mean = flat.mean(dims, keepdim=True)
        var = flat.var(dims, keepdim=True, correction=correction)
        xhat = ((flat - mean) / scale(var, eps)).reshape(x.shape)
        return (combine or per_channel)(xhat, weight, bias)

    return student


def per_channel(xhat, weight, bias):
    shape = (-1, *[1] * (xhat.dim() - 2))
    return xhat * weight.reshape(shape) + bias.reshape(shape)


def interleaved(x, num_groups, weight, bias, eps):
    order = torch.arange(x.shape[1]).reshape(-1, num_groups).T.flatten()  # 0 2 4 1 3 5
    ones = torch.ones_like(weight)
    grouped = group()(x[:, order], num_groups, ones, 0 * ones, eps)
    return per_channel(grouped[:, order.argsort()], weight, bias)


def per_position(x, num_groups, weight, bias, eps):
    grouped = x.unflatten(1, (num_groups, -1))
    around = grouped - grouped.mean(2, keepdim=True)
    xhat = around / torch.sqrt(around.square().mean(2, keepdim=True) + eps)
    return per_channel(xhat.flatten(1, 2), weight, bias)


def gain_of_the_group(x, num_groups, weight, bias, eps):
    group_of = torch.arange(x.shape[1]) // (x.shape[1] // num_groups)
    return group()(x, num_groups, weight[group_of], bias[group_of], eps)


def pictures_only(x, num_groups, weight, bias, eps):
    rows, channels, height, width = x.shape
    return group()(x, num_groups, weight, bias, eps).reshape(rows, channels, height, width)


def group_detached(x, num_groups, weight, bias, eps):
    flat = x.reshape(len(x), num_groups, -1)
    var = flat.var(-1, keepdim=True, correction=0).detach()
    return per_channel(
        ((flat - flat.mean(-1, keepdim=True)) / torch.sqrt(var + eps)).reshape(x.shape),
        weight,
        bias,
    )


GROUP_NORM = {
    "interleaved channels": (interleaved, "contiguous channels"),
    "G and C/G swapped": (group(groups=lambda C, G: C // G), "not of channels in a group"),
    "per position": (per_position, "also run over the positions"),
    "one group": (group(groups=lambda C, G: 1), "num_groups is not used"),
    "every channel alone": (group(groups=lambda C, G: C), "that is InstanceNorm"),
    "over the batch": (group(dims=(0, -1)), "over the batch, too"),
    "unbiased variance": (group(correction=1), "biased one"),
    "gain on the last axis": (
        group(combine=lambda xhat, w, b: xhat * w + b),
        "lie on the last axis",
    ),
    "gain per group": (gain_of_the_group, "not per group"),
    "no bias": (
        group(combine=lambda xhat, w, b: per_channel(xhat, w, 0 * b)),
        "the bias is missing",
    ),
    "no affine": (group(combine=lambda xhat, w, b: xhat), "gain and bias are missing"),
    "no eps": (group(scale=lambda var, eps: torch.sqrt(var)), "eps is not used"),
    "own eps": (group(scale=lambda var, eps: torch.sqrt(var + 1e-5)), "eps is an argument"),
    "std plus eps": (group(scale=lambda var, eps: var.sqrt() + eps), "inside the root"),
    "left in groups": (lambda x, G, w, b, eps: x.reshape(len(x), G, -1), "has shape (2, 2, 36)"),
    "pictures only": (pictures_only, "your code raised ValueError"),
    "the finished layer": (F.group_norm, "without group_norm"),
    "variance cut off": (group_detached, "the values are right, but the gradient"),
}


# Exercise 6

RIGHT = {"a": (1, 3), "b": (0,), "c": (1, 2, 3)}
AXES = {
    "the others": (RIGHT | {"a": (0, 2)}, "layer a: those are the axes that it keeps apart"),
    "one missing": (RIGHT | {"c": (1, 2)}, "layer c: an axis is missing"),
    "one too many": (RIGHT | {"b": (0, 1)}, "layer b: an axis too many"),
    "none": (RIGHT | {"b": ()}, "layer b: no axis at all"),
    "other axes": (RIGHT | {"a": (0, 1)}, "layer a: other axes"),
    "no such axis": (RIGHT | {"a": (1, 4)}, "layer a: "),
    "words": (RIGHT | {"a": "1, 3"}, "layer a: "),
    "a list": ([(1, 3), (0,), (1, 2, 3)], "expected {"),
}


@every_slip(
    {
        check.layer_norm: LAYER_NORM,
        check.size_gradient: SIZE,
        check.backward: BACKWARD,
        check.group_norm: GROUP_NORM,
        check.unknown_axes: AXES,
    }
)
def test_a_wrong_answer_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


def test_axes_come_in_any_form():
    assert check.unknown_axes({"a": [3, 1], "b": 0, "c": (-1, -2, -3)}).startswith("[ok]")


def layer_norm_by_einsum(x, shape, weight, bias, eps):
    flat = x.reshape(-1, math.prod(shape))
    around = flat - flat.mean(1, keepdim=True)
    var = torch.einsum("nd,nd->n", around, around) / flat.shape[1]
    return (around * torch.rsqrt(var + eps)[:, None]).reshape(x.shape) * weight + bias


def backward_by_einsum(dy, x, weight, eps):
    s = size(x, eps)
    xhat = centred(x) / s
    g = weight * dy
    removed = torch.einsum("nd,nd->n", g, xhat)[:, None] * xhat / x.shape[1]
    return (centred(g) - removed) / s, torch.einsum("nd,nd->d", dy, xhat), dy.sum(dim=0)


def test_unusual_right_answers_are_accepted():
    assert check.layer_norm(layer_norm_by_einsum).startswith("[ok]")
    assert check.backward(backward_by_einsum).startswith("[ok]")
    assert check.size_gradient(
        lambda x, eps: centred(x) / x.shape[-1] * size(x, eps) ** -1
    ).startswith("[ok]")
    assert check.group_norm(load("02_layer_norm")["group_norm"]).startswith("[ok]")
