"""The checks of lesson 02c name what is wrong, and accept unusual right answers."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from normcourse.checks import other_axes as check
from tests.course.solutions import load, wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


# Exercise 1

COUNTS = {
    "channels only": ((8, 64), "their positions share the mean, too"),
    "groups for channels": ((784, 64), "4 is the number of groups"),
    "one channel": ((196, 64), "InstanceNorm"),
    "the whole picture": ((6272, 64), "one group, G = 1"),
    "all pictures": ((25088, 64), "leave out the factor 16"),
    "one side": ((112, 64), "14 times 14 positions"),
    "BatchNorm": ((3136, 64), "BatchNorm"),
    "means of one picture": ((1568, 4), "multiply by the number of pictures"),
    "one a picture": ((1568, 16), "one mean for each picture"),
    "one a channel of a picture": ((1568, 512), "InstanceNorm"),
    "the gains": ((1568, 32), "or the gains"),
    "one a position": ((1568, 12544), "leave 14 times 14 out"),
    "one for all": ((1568, 1), "not one for all"),
    "swapped": ((64, 1568), "did you swap"),
    "words": (("many", 64), "expected a number"),
}


@pytest.mark.parametrize("answers, message", COUNTS.values(), ids=COUNTS)
def test_a_wrong_count_is_named(answers, message):
    verdict = check.counts(*answers)
    assert verdict.startswith("[x]") and message in verdict


# Exercise 2

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


# Exercise 3


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


def by_rms_norm(x, num_groups, weight, bias, eps):
    flat = x.reshape(len(x), num_groups, -1)
    around = flat - flat.mean(-1, keepdim=True)
    return per_channel(F.rms_norm(around, around.shape[-1:], None, eps).view_as(x), weight, bias)


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
    "no root": (group(scale=lambda var, eps: var + eps), "the square root is missing"),
    "not divided": (group(scale=lambda var, eps: 1.0), "not divided by anything"),
    "one plus the gain": (
        group(combine=lambda xhat, w, b: per_channel(xhat, 1 + w, b)),
        "here it is 1 plus the gain",
    ),
    "left in groups": (lambda x, G, w, b, eps: x.reshape(len(x), G, -1), "has shape (2, 2, 36)"),
    "pictures only": (pictures_only, "your code raised ValueError"),
    "the finished layer": (F.group_norm, "without group_norm"),
    "another finished norm": (by_rms_norm, "without rms_norm"),
    "variance cut off": (group_detached, "the values are right, but the gradient"),
}


# Exercise 4


def row_norm(h):
    return F.layer_norm(h, h.shape[-1:])


def net(layer, last=lambda h: h):
    """A net with one layer(h, W) for each weight."""

    def student(x, weights):
        for W in weights:
            x = layer(x, W)
        return last(x)

    return student


def norm_by_hand(h):
    around = h - h.mean(-1, keepdim=True)
    return around / torch.sqrt(around.square().mean(-1, keepdim=True) + 1e-5)


def norm_on_the_sum(x, weights):
    return net(lambda h, W: row_norm(h + torch.relu(h @ W)))(x, weights)


def norm_behind_the_branch(x, weights):
    return net(lambda h, W: h + row_norm(torch.relu(h @ W)))(x, weights)


def two_layers_a_branch(x, weights):
    for W, V in zip(weights[::2], weights[1::2], strict=True):
        x = x + torch.relu(row_norm(x) @ W) @ V
    return row_norm(x)


def pre_norm(h, W):
    return h + torch.relu(row_norm(h) @ W)


def in_place_sum(x, weights):
    for W in weights:
        x += torch.relu(row_norm(x) @ W)
    return row_norm(x)


def batch_statistics(h, W):
    return torch.relu(F.batch_norm(h @ W, None, None, training=True))


def batch_centred(h, W):
    return row_norm(h + torch.relu((h - h.mean(0)) @ W))


KEPT = {
    "plain": (net(lambda h, W: torch.relu(row_norm(h @ W))), "a shortcut has to carry"),
    "no norm, no shortcut": (net(lambda h, W: torch.relu(h @ W)), "a norm would hold their size"),
    # accepted before: another function in the place of ReLU, another norm
    "GELU": (net(lambda h, W: h + F.gelu(row_norm(h) @ W), row_norm), "but not by ReLU"),
    "softplus": (net(lambda h, W: h + F.softplus(row_norm(h) @ W), row_norm), "but not by ReLU"),
    "abs": (net(lambda h, W: h + (row_norm(h) @ W).abs(), row_norm), "but not by ReLU"),
    "leaky ReLU": (
        net(lambda h, W: h + F.leaky_relu(row_norm(h) @ W, 0.1), row_norm),
        "but not by ReLU",
    ),
    "by hand": (
        net(lambda h, W: h + torch.relu(norm_by_hand(h) @ W), norm_by_hand),
        "but not by F.layer_norm",
    ),
    "norm behind the ReLU": (net(lambda h, W: row_norm(torch.relu(h @ W))), "nothing similar"),
    "no last norm": (net(pre_norm), "A last norm takes it out"),
    "no norm": (net(lambda h, W: h + torch.relu(h @ W)), "Put a norm into each branch"),
    "no norm but the last": (
        net(lambda h, W: h + torch.relu(h @ W), row_norm),
        "no norm in front of the weights",
    ),
    "explodes": (net(lambda h, W: h + 1e30 * torch.relu(h @ W)), "NaN or infinity"),
    "dies": (net(lambda h, W: 1e-3 * torch.relu(h @ W)), "have become zero"),
    "no ReLU": (net(lambda h, W: row_norm(h + h @ W)), "no ReLU"),
    "the input": (lambda x, weights: x, "the weights are not used"),
    "detached": (lambda x, weights: norm_on_the_sum(x, weights).detach(), "cut off"),
    "ten layers": (lambda x, w: net(pre_norm, row_norm)(x, w[:10]), "weights[10] is not used"),
    "BatchNorm": (net(batch_statistics), "without batch_norm"),
    "the batch's mean": (net(batch_centred), "changes with the other rows"),
    "in place": (in_place_sum, "changed in place"),
    "ten numbers": (lambda x, weights: norm_on_the_sum(x, weights)[:, :10], "has shape (40, 10)"),
}


# Exercise 5


def size(x, eps):
    return torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps)


def centred(x):
    return x - x.mean(-1, keepdim=True)


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


def with_a_matrix_a_row(dy, x, weight, eps):
    s = size(x, eps)
    xhat = centred(x) / s
    width = x.shape[-1]
    rows = []
    for g, row in zip(weight * dy, xhat, strict=True):
        rows.append(g - g.mean() - torch.outer(row, row) @ g / width)
    return torch.stack(rows) / s, (dy * xhat).sum(0), dy.sum(0)


def backward_of_both_at_once(dy, x, weight, eps):
    """Both means from one stack, which is twice as large as x."""
    s = size(x, eps)
    xhat = centred(x) / s
    g = weight * dy
    level, along = torch.stack([g, g * xhat]).mean(-1, keepdim=True)
    return (g - level - xhat * along) / s, (dy * xhat).sum(0), dy.sum(0)


def gain_in_dw(dy, x, weight, eps):
    dx, dw, db = backward()(dy, x, weight, eps)
    return dx, dw * weight, db


def backward_by_autograd(dy, x, weight, eps):
    leaf = x.clone().requires_grad_()
    (centred(leaf) / size(leaf, eps) * weight).backward(dy)
    return leaf.grad, (dy * centred(x) / size(x, eps)).sum(0), dy.sum(0)


BACKWARD = {
    "mean not subtracted": (backward(level=lambda g: 0), "dx: the mean of g is missing"),
    "along not subtracted": (
        backward(along=lambda g, xhat: 0),
        "dx: the path through the variance is missing",
    ),
    "both constants": (
        backward(level=lambda g: 0, along=lambda g, xhat: 0),
        "the statistics are held constant",
    ),
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
        "sums where means belong",
    ),
    "one sum": (
        backward(along=lambda g, xhat: xhat * (g * xhat).sum(-1, keepdim=True)),
        "the second mean is a sum",
    ),
    "gain in dw": (gain_in_dw, "so dy stands here, not g"),
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
    "a matrix a row": (with_a_matrix_a_row, "at most 48"),
    "a matrix": (with_a_matrix, "at most 48"),
    "autograd": (backward_by_autograd, "without autograd"),
}


def backward_by_einsum(dy, x, weight, eps):
    s = size(x, eps)
    xhat = centred(x) / s
    g = weight * dy
    removed = torch.einsum("nd,nd->n", g, xhat)[:, None] * xhat / x.shape[1]
    return (centred(g) - removed) / s, torch.einsum("nd,nd->d", dy, xhat), dy.sum(dim=0)


test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.group_norm: GROUP_NORM,
        check.unknown_axes: AXES,
        check.kept_apart: KEPT,
        check.backward: BACKWARD,
    }
)


def test_axes_come_in_any_form():
    assert check.unknown_axes({"a": [3, 1], "b": 0, "c": (-1, -2, -3)}).startswith("[ok]")


def group_by_a_loop(x, num_groups, weight, bias, eps):
    parts = []
    for part in x.split(x.shape[1] // num_groups, dim=1):
        over = list(range(1, x.dim()))
        around = part - part.mean(over, keepdim=True)
        parts.append(around * (around.square().mean(over, keepdim=True) + eps) ** -0.5)
    return per_channel(torch.cat(parts, 1), weight, bias)


def group_by_var_mean(x, num_groups, weight, bias, eps):
    groups = x.unflatten(1, (num_groups, -1)).flatten(2)
    var, mean = torch.var_mean(groups, -1, correction=0, keepdim=True)
    xhat = ((groups - mean) / (var + eps).sqrt()).view(x.shape).movedim(1, -1)
    return torch.addcmul(bias, xhat, weight).movedim(-1, 1)


@pytest.mark.parametrize(
    "answer",
    [
        group(),
        group_by_a_loop,
        group_by_var_mean,
        partial(group_by_a_loop),
        torch.compile(group_by_var_mean, backend="eager"),
    ],
    ids=["as above", "a loop", "var_mean", "partial", "compiled"],
)
def test_another_group_norm_is_accepted(answer):
    assert check.group_norm(answer).startswith("[ok]")


class OfModules(torch.nn.Module):
    """nn.LayerNorm and nn.ReLU; a gain that is not used."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(64, elementwise_affine=False)
        self.relu = torch.nn.ReLU()

    def forward(self, x, weights):
        for W in weights:
            x = x + self.relu(F.linear(self.norm(x), W.T))
        return self.norm(x)


RELUS = {
    "clamp": lambda z: z.clamp(min=0),
    "maximum": lambda z: torch.maximum(z, torch.zeros_like(z)),
    "where": lambda z: torch.where(z > 0, z, 0.0),
    "mask": lambda z: z * (z > 0),
    "max": lambda z: z.clip(0),
    "in place": lambda z: z.relu_(),
}


@pytest.mark.parametrize("relu", RELUS.values(), ids=RELUS)
def test_a_relu_may_be_written_otherwise(relu):
    answer = net(lambda h, W: h + relu(row_norm(h) @ W), row_norm)
    assert check.kept_apart(answer).startswith("[ok]")


@pytest.mark.parametrize(
    "answer",
    [
        norm_on_the_sum,
        norm_behind_the_branch,
        two_layers_a_branch,
        OfModules(),
        torch.compile(net(pre_norm, row_norm), backend="eager"),
    ],
    ids=["on the sum", "behind the branch", "two layers a branch", "modules", "compiled"],
)
def test_another_net_is_accepted(answer):
    assert check.kept_apart(answer).startswith("[ok]")


def test_a_solution_by_another_way_is_accepted():
    assert check.group_norm(load("02c_other_axes")["group_norm"]).startswith("[ok]")
    assert check.backward(backward_by_einsum).startswith("[ok]")
    assert check.backward(backward_of_both_at_once).startswith("[ok]")
    assert check.counts(torch.tensor(1568), 64.0).startswith("[ok]")
