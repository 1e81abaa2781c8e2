"""The checks of lesson 02 name what is wrong; the merge is in test_checks_merge.py."""

import pytest
import torch
from torch.nn import functional as F

from normcourse.checks import layer_norm as check


def trailing(shape):
    return tuple(range(-len(shape), 0))


def layer(dims=trailing, correction=0, scale=lambda var, eps: torch.sqrt(var + eps), keepdim=True):
    """A layer norm with one thing to get wrong at a time."""

    def student(x, shape, weight, bias, eps):
        over = dims(shape)
        mean, var = x.mean(over, keepdim=keepdim), x.var(over, keepdim=keepdim, correction=correction)
        return (x - mean) / scale(var, eps) * weight + bias

    return student


def xhat(x, shape, eps):
    return F.layer_norm(x, shape, eps=eps)


def one_pass(x, shape, weight, bias, eps):
    over = trailing(shape)
    mean = x.mean(over, keepdim=True)
    var = x.square().mean(over, keepdim=True) - mean.square()
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def in_place(x, shape, weight, bias, eps):
    x -= x.mean(trailing(shape), keepdim=True)
    return x / torch.sqrt(x.square().mean(trailing(shape), keepdim=True) + eps) * weight + bias


def fixed_axes(x, shape, weight, bias, eps):
    return layer(lambda shape: (2, 3))(x, shape, weight, bias, eps)


def annotated_transformer(x, shape, weight, bias, eps):
    over = trailing(shape)
    return weight * (x - x.mean(over, keepdim=True)) / (x.std(over, keepdim=True) + eps) + bias


def length_one(x, shape, weight, bias, eps):
    centred = x - x.mean(trailing(shape), keepdim=True)
    return centred / torch.sqrt(centred.square().sum(trailing(shape), keepdim=True) + eps) * weight + bias


LAYER_NORM = {
    "unbiased variance": (layer(correction=1), "biased one"),
    "std plus eps": (layer(scale=lambda var, eps: var.sqrt() + eps), "inside the root"),
    "divided by the variance": (layer(scale=lambda var, eps: var + eps), "square root is missing"),
    "no eps": (layer(scale=lambda var, eps: var.sqrt()), "eps is not used"),
    "own eps": (lambda x, s, w, b, eps: F.layer_norm(x, s, w, b), "eps is an argument"),
    "torch's std plus eps": (annotated_transformer, "that is torch's std() + eps"),
    "sum of squares": (length_one, "that has length 1"),
    "always the last two axes": (layer(dims=lambda shape: (-2, -1)), "the axes are fixed at the last two"),
    "centred only": (layer(scale=lambda var, eps: 1.0), "not divided"),
    "RMS norm": (lambda x, s, w, b, eps: F.rms_norm(x, s, w, eps) + b, "that is RMSNorm"),
    "over the samples": (layer(dims=lambda shape: (0, 1)), "over the samples"),
    "last axis only": (layer(dims=lambda shape: (-1,)), "only the last one"),
    "over everything": (layer(dims=lambda shape: (0, 1, 2, 3)), "whole tensor"),
    "axes counted from the front": (fixed_axes, "your code raised IndexError"),
    "no keepdim": (layer(keepdim=False), "keepdim=True is missing"),
    "no bias": (lambda x, s, w, b, eps: xhat(x, s, eps) * w, "the bias is missing"),
    "no gain": (lambda x, s, w, b, eps: xhat(x, s, eps) + b, "gain (weight) is missing"),
    "no affine": (lambda x, s, w, b, eps: xhat(x, s, eps), "gain and bias are missing"),
    "gain around the bias": (lambda x, s, w, b, eps: (xhat(x, s, eps) + b) * w, "multiplied by the gain"),
    "affine first": (lambda x, s, w, b, eps: xhat(x * w + b, s, eps), "after the normalization"),
    "scalar gain": (lambda x, s, w, b, eps: xhat(x, s, eps) * w.mean() + b, "gain is one number"),
    "scalar gain and bias": (
        lambda x, s, w, b, eps: xhat(x, s, eps) * w.mean() + b.mean(),
        "one number each",
    ),
    "one-pass variance": (one_pass, "lost at mean 10,000"),
    "changes x": (in_place, "x was changed in place"),
    "wrong dtype": (lambda *a: F.layer_norm(*a).double(), "has dtype torch.float64"),
    "wrong shape": (lambda *a: F.layer_norm(*a).flatten(1), "has shape (2, 18)"),
}


@pytest.mark.parametrize("case", LAYER_NORM)
def test_a_wrong_layer_norm_is_named(case):
    student, message = LAYER_NORM[case]
    verdict = check.layer_norm(student)
    assert verdict.startswith("[x]") and message in verdict


def group(
    dims=(-1,),
    correction=0,
    groups=lambda C, G: G,
    affine="channel",
    scale=lambda var, eps: torch.sqrt(var + eps),
):
    """A group norm with one thing to get wrong at a time."""

    def student(x, num_groups, weight, bias, eps):
        flat = x.reshape(len(x), groups(x.shape[1], num_groups), -1)
        mean, var = flat.mean(dims, keepdim=True), flat.var(dims, keepdim=True, correction=correction)
        return on_axis(((flat - mean) / scale(var, eps)).reshape(x.shape), weight, bias, affine)

    return student


def on_axis(xhat, weight, bias, affine):
    if affine == "last":
        return xhat * weight + bias
    shape = (-1, *[1] * (xhat.dim() - 2))
    return xhat * weight.reshape(shape) + bias.reshape(shape)


def interleaved(x, num_groups, weight, bias, eps):
    order = torch.arange(x.shape[1]).reshape(-1, num_groups).T.flatten()  # 0 2 4 1 3 5
    grouped = F.group_norm(x[:, order], num_groups, eps=eps)
    return on_axis(grouped[:, order.argsort()], weight, bias, "channel")


def per_position(x, num_groups, weight, bias, eps):
    grouped = x.unflatten(1, (num_groups, -1))
    centred = grouped - grouped.mean(2, keepdim=True)
    xhat = centred / torch.sqrt(centred.square().mean(2, keepdim=True) + eps)
    return on_axis(xhat.flatten(1, 2), weight, bias, "channel")


def gain_of_the_group(x, num_groups, weight, bias, eps):
    group_of = torch.arange(x.shape[1]) // (x.shape[1] // num_groups)
    return F.group_norm(x, num_groups, weight[group_of], bias[group_of], eps)


def group_in_place(x, num_groups, weight, bias, eps):
    x.copy_(F.group_norm(x, num_groups, weight, bias, eps))
    return x


def images_only(x, num_groups, weight, bias, eps):
    rows, channels, height, width = x.shape
    return F.group_norm(x, num_groups, weight, bias, eps).reshape(rows, channels, height, width)


GROUP_NORM = {
    "interleaved channels": (interleaved, "contiguous channels"),
    "G and C/G swapped": (group(groups=lambda C, G: C // G), "not of channels in a group"),
    "per position": (per_position, "also run over the positions"),
    "one group": (group(groups=lambda C, G: 1), "num_groups is not used"),
    "every channel alone": (group(groups=lambda C, G: C), "that is InstanceNorm"),
    "over the batch": (group(dims=(0, -1)), "over the batch, too"),
    "unbiased variance": (group(correction=1), "biased one"),
    "gain on the last axis": (group(affine="last"), "lie on the last axis"),
    "gain per group": (gain_of_the_group, "not per group"),
    "no bias": (lambda x, G, w, b, eps: F.group_norm(x, G, w, None, eps), "the bias is missing"),
    "no affine": (lambda x, G, w, b, eps: F.group_norm(x, G, None, None, eps), "gain and bias are missing"),
    "no eps": (lambda x, G, w, b, eps: F.group_norm(x, G, w, b, 0.0), "eps is not used"),
    "own eps": (lambda x, G, w, b, eps: F.group_norm(x, G, w, b), "eps is an argument"),
    "std plus eps": (group(scale=lambda var, eps: var.sqrt() + eps), "inside the root"),
    "left in groups": (lambda x, G, w, b, eps: x.reshape(len(x), G, -1), "has shape (2, 2, 36)"),
    "changes x": (group_in_place, "x was changed in place"),
    "images only": (images_only, "your code raised ValueError"),
}


@pytest.mark.parametrize("case", GROUP_NORM)
def test_a_wrong_group_norm_is_named(case):
    student, message = GROUP_NORM[case]
    verdict = check.group_norm(student)
    assert verdict.startswith("[x]") and message in verdict


def stack(step, last=True):
    def student(x, branches, norms):
        h = x
        for branch, norm in zip(branches, norms, strict=False):
            h = step(h, branch, norm)
        return norms[-1](h) if last else h

    return student


def from_the_first_x(x, branches, norms):
    h = x
    for branch, norm in zip(branches, norms, strict=False):
        h = x + branch(norm(h))
    return norms[-1](h)


def adds_in_place(x, branches, norms):
    for branch, norm in zip(branches, norms, strict=False):
        x += branch(norm(x))
    return norms[-1](x)


def one_norm_for_all(x, branches, norms):
    for branch in branches:
        x = x + branch(norms[0](x))
    return norms[-1](x)


def the_loop_variable_ends_it(x, branches, norms):
    for branch, norm in zip(branches, norms, strict=False):
        x = x + branch(norm(x))
    return norm(x)


def returns_in_the_loop(x, branches, norms):
    for branch, norm in zip(branches, norms, strict=False):
        x = x + branch(norm(x))
        return norms[-1](x)


PRE_LN = {
    "Post-LN": (stack(lambda h, f, n: n(h + f(h))), "that is Post-LN"),
    "Post-LN, no last norm": (stack(lambda h, f, n: n(h + f(h)), False), "The last norm is missing as well"),
    "norm on the skip": (stack(lambda h, f, n: n(h) + f(n(h))), "skip path goes through the norm"),
    "no skip": (stack(lambda h, f, n: f(n(h))), "the skip is missing"),
    "norm behind the branch": (stack(lambda h, f, n: h + n(f(h))), "on the branch's output"),
    "no norm in the blocks": (stack(lambda h, f, n: h + f(h)), "no norm in the blocks"),
    "norm on the sum as well": (stack(lambda h, f, n: n(h + f(n(h)))), "the sum is normalized, too"),
    "no last norm": (stack(lambda h, f, n: h + f(n(h)), last=False), "the last norm is missing"),
    "adds to the first x": (from_the_first_x, "adds to the first x"),
    "one norm for all": (one_norm_for_all, "all blocks use the first norm"),
    "last norm of the loop": (the_loop_variable_ends_it, "norms[-1]"),
    "return in the loop": (returns_in_the_loop, "only the first block ran"),
    "adds in place": (adds_in_place, "x was changed in place"),
}


@pytest.mark.parametrize("case", PRE_LN)
def test_a_wrong_pre_ln_stack_is_named(case):
    student, message = PRE_LN[case]
    verdict = check.pre_ln(student)
    assert verdict.startswith("[x]") and message in verdict
