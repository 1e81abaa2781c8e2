"""The checks of lesson 02b name what is wrong, and accept unusual right answers."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import draw
from normcourse.checks import other_axes as check
from tests.course.solutions import load, wrong_answers_are_named

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


# Exercise 1


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


def layer(function, names=("weight", "bias"), starts=(1.0, 0.0), buffer=False):
    """A class GroupNorm whose forward is function(x, num_groups, weight, bias, eps)."""

    class GroupNorm(nn.Module):
        def __init__(self, num_groups, num_channels, eps=1e-5):
            super().__init__()
            self.num_groups = num_groups
            self.eps = eps
            self.names = names
            for name, start in zip(names, starts, strict=True):
                self.register_parameter(name, nn.Parameter(torch.full((num_channels,), start)))
            if buffer:
                self.register_buffer("running_mean", torch.zeros(num_channels))

        def forward(self, x):
            affine = [getattr(self, name) for name in self.names]
            return function(x, self.num_groups, *affine, self.eps)

    return GroupNorm


class Default(nn.Module):
    """Right but for the eps that it takes where none is given."""

    def __init__(self, num_groups, num_channels, eps=1e-3):
        super().__init__()
        self.num_groups = num_groups
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_channels))
        self.bias = nn.Parameter(torch.zeros(num_channels))

    def forward(self, x):
        return group()(x, self.num_groups, self.weight, self.bias, self.eps)


FUNCTIONS = {
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
GROUP_NORM = {name: (layer(wrong), message) for name, (wrong, message) in FUNCTIONS.items()}
GROUP_NORM |= {
    "a layer": (layer(group())(2, 6), "pass the class"),
    "a function": (lambda num_groups, num_channels, eps=1e-5: F.relu, "expected a layer"),
    "other names": (layer(group(), names=("gain", "bias")), "has the parameters"),
    "zeros for ones": (layer(group(), starts=(0.0, 0.0)), "a new layer's weight is all ones"),
    "a buffer": (layer(group(), buffer=True), "keeps no statistics"),
    "another default": (Default, "the default eps, which is 1e-5"),
}


# Exercise 2

RIGHT = {"a": (1, 3), "b": (0,), "c": (1, 2, 3)}
AXES = {
    "the others": (RIGHT | {"a": (0, 2)}, "layer a: those are the axes that it keeps apart"),
    "one missing": (RIGHT | {"c": (1, 2)}, "layer c: an axis is missing"),
    "one too many": (RIGHT | {"b": (0, 1)}, "layer b: an axis too many"),
    "none": (RIGHT | {"b": ()}, "layer b: no axis at all"),
    "other axes": (RIGHT | {"a": (0, 1)}, "layer a: other axes"),
    "no such axis": (RIGHT | {"a": (1, 4)}, "layer a: the axes are 0 to 3, and 4 is none"),
    "not answered": (RIGHT | {"b": None}, "layer b is not answered yet"),
    "words": (RIGHT | {"a": "1, 3"}, "layer a: "),
    "a list": ([(1, 3), (0,), (1, 2, 3)], "expected {"),
}


# Exercise 3


def keep_out(h, real, num_groups, weight, bias, eps, *, inside=None, count=None, last=True):
    """Exercise 3 with one thing to get wrong at a time."""
    groups = h.unflatten(1, (num_groups, -1))
    mask = real[:, None, None]
    members = (count or real_members)(groups, mask)
    mean = (groups * mask).sum((2, 3), keepdim=True) / members
    around = (inside or (lambda g, m, mean: (g - mean) * m))(groups, mask, mean)
    var = around.square().sum((2, 3), keepdim=True) / members
    out = ((groups - mean) / (var + eps).sqrt()).reshape(h.shape) * weight[:, None]
    out = out + bias[:, None]
    return out * real[:, None] if last else out


def real_members(groups, mask):
    return groups.shape[2] * mask.sum(-1, keepdim=True)


def unmasked(h, real, num_groups, weight, bias, eps):
    return group()(h, num_groups, weight, bias, eps) * real[:, None]


def zeroed_first(h, real, num_groups, weight, bias, eps):
    return unmasked(h * real[:, None], real, num_groups, weight, bias, eps)


def padded_at_the_end(h, real, num_groups, weight, bias, eps):
    first = torch.arange(real.shape[1]) < real.sum(-1, keepdim=True)
    return keep_out(h, first, num_groups, weight, bias, eps)


def bias_after_the_mask(h, real, num_groups, weight, bias, eps):
    return keep_out(h, real, num_groups, weight, 0 * bias, eps) + bias[:, None]


def one_by_one(h, real, num_groups, weight, bias, eps):
    """Each sequence without its padding, by another group norm."""
    out = torch.zeros_like(h)
    for sample, kept in enumerate(real):
        cut = h[sample : sample + 1, :, kept]
        out[sample, :, kept] = group_by_a_loop(cut, num_groups, weight, bias, eps)[0]
    return out


def by_einsum(h, real, num_groups, weight, bias, eps):
    rows = h.unflatten(1, (num_groups, -1))
    share = real / real.sum(-1, keepdim=True) / rows.shape[2]  # (N, P): of each real member
    mean = torch.einsum("ngkp,np->ng", rows, share)[:, :, None, None]
    around = torch.where(real[:, None, None], rows - mean, 0.0)
    var = torch.einsum("ngkp,ngkp,np->ng", around, around, share)[:, :, None, None]
    xhat = (around * torch.rsqrt(var + eps)).flatten(1, 2)
    return torch.where(real[:, None], per_channel(xhat, weight, bias), 0.0)


MASKED = {
    "no mask": (unmasked, "the padding still counts"),
    "zeros": (zeroed_first, "zeros are numbers, too"),
    "variance of all": (
        partial(keep_out, inside=lambda g, m, mean: g - mean),
        "[x]",
    ),
    "masked before": (
        partial(keep_out, inside=lambda g, m, mean: g * m - mean),
        "subtract the mean before you mask",
    ),
    "positions": (
        partial(keep_out, count=lambda g, m: m.sum(-1, keepdim=True)),
        "the channels of the group times the real positions",
    ),
    "all members": (
        partial(keep_out, count=lambda g, m: g.shape[2] * g.shape[3]),
        "not of all",
    ),
    "bias after the mask": (bias_after_the_mask, "the bias before the last mask"),
    "padding at the end": (padded_at_the_end, "real also says where"),
    "bias at the padding": (partial(keep_out, last=False), "at the padding the output is 0"),
    "each channel": (
        lambda h, real, G, w, b, eps: keep_out(h, real, h.shape[1], w, b, eps),
        "that is InstanceNorm",
    ),
    "no eps": (lambda h, real, G, w, b, eps: keep_out(h, real, G, w, b, 0.0), "eps is not used"),
    "own eps": (
        lambda h, real, G, w, b, eps: keep_out(h, real, G, w, b, 1e-5),
        "eps is an argument",
    ),
    "no affine": (
        lambda h, real, G, w, b, eps: keep_out(h, real, G, 0 * w + 1, 0 * b, eps),
        "gain and bias are missing",
    ),
    "the finished layer": (
        lambda h, real, G, w, b, eps: F.group_norm(h, G, w, b, eps),
        "without group_norm",
    ),
    "cut off": (
        lambda h, real, G, w, b, eps: keep_out(h.detach(), real, G, w, b, eps),
        "no gradient reaches h",
    ),
}


test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.group_norm: GROUP_NORM,
        check.unknown_axes: AXES,
        check.masked_group_norm: MASKED,
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


@pytest.mark.parametrize("function", [group(), group_by_a_loop, group_by_var_mean])
def test_another_group_norm_is_accepted(function):
    assert check.group_norm(layer(function)).startswith("[ok]")


@pytest.mark.parametrize("answer", [keep_out, one_by_one, by_einsum])
def test_another_masked_norm_is_accepted(answer):
    assert check.masked_group_norm(answer).startswith("[ok]")


def test_what_stands_in_for_the_reader_leaves_padding_out():
    h = draw(3, 6, 7, seed=1)
    real = torch.tensor(
        [[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]]
    ).bool()
    arguments = (h, real, 2, draw(6, seed=2), draw(6, seed=3), 0.1)
    torch.testing.assert_close(check.over_real_positions(*arguments), one_by_one(*arguments))


def test_the_solutions_are_accepted():
    solved = load("02b_other_axes")
    assert check.group_norm(solved["GroupNorm"]).startswith("[ok]")
    assert check.masked_group_norm(solved["masked_group_norm"]).startswith("[ok]")
