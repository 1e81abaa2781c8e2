"""Checks of lesson 02: each runs the student's answer where the usual slips give different numbers."""

from functools import partial

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import unchanged
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import functional

EPS = 0.5  # large, so that a forgotten or misplaced eps shows
SHAPE = (2, 3)  # normalized_shape; x is (2, 3, 2, 3), so a forgotten keepdim broadcasts without an error
GROUPS = 2  # of 6 channels; images are (2, 6, 2, 6), so a gain left on the last axis broadcasts


@exercise("Exercise 1 (layer norm)")
def layer_norm(student) -> None:
    """student(x, normalized_shape, weight, bias, eps) for x (..., *normalized_shape)."""
    x = 1 + draw(*SHAPE, *SHAPE, seed=1)
    weight = 1 + draw(*SHAPE, seed=2)
    bias = 1 + draw(*SHAPE, seed=3)
    got = _untouched(student, (x, SHAPE, weight, bias, EPS), ("x", "", "weight", "bias", ""))
    want = functional.layer_norm(x, SHAPE, weight, bias, EPS)
    expect(got, want, _layer_norm_slips(x, weight, bias))
    single = "the output for one sample without leading dimensions"
    expect(student(x[0, 0], SHAPE, weight, bias, EPS), want[0, 0], what=single)
    want = functional.layer_norm(x, SHAPE[1:], weight[0], bias[0], EPS)
    fixed = "the axes are fixed at the last two; len(normalized_shape) says how many there are."
    slips = {fixed: _standardize(x, (-2, -1)) * weight[0] + bias[0]}
    expect(
        student(x, SHAPE[1:], weight[0], bias[0], EPS), want, slips, "the output for one trailing dimension"
    )
    _check_large_mean(student)


@exercise("Exercise 2 (group norm)")
def group_norm(student) -> None:
    """student(x, num_groups, weight, bias, eps) for x (N, C, ...)."""
    x = 1 + draw(2, 6, 2, 6, seed=1)
    weight = 1 + draw(6, seed=2)
    bias = 1 + draw(6, seed=3)
    got = _untouched(student, (x, GROUPS, weight, bias, EPS), ("x", "", "weight", "bias", ""))
    expect(got, functional.group_norm(x, GROUPS, weight, bias, EPS), _group_norm_slips(x, weight, bias))
    vectors = x[:, :, 0, 0]
    want = functional.group_norm(vectors, GROUPS, weight, bias, EPS)
    expect(student(vectors, GROUPS, weight, bias, EPS), want, what="the output for vectors (N, C)")


@exercise("Exercise 3 (a Pre-LN stack)")
def pre_ln(student) -> None:
    """student(x, branches, norms): the norms are one more than the branches."""
    x = 1 + draw(3, 4, seed=1)
    branches = [partial(_branch, 1 + draw(4, 4, seed=seed)) for seed in (4, 5)]
    norms = [
        partial(functional.layer_norm, normalized_shape=(4,), weight=2 + draw(4, seed=k)) for k in (6, 7, 8)
    ]
    got = _untouched(student, (x, branches, norms), ("x", "", ""))
    want = x + branches[0](norms[0](x))
    want = norms[2](want + branches[1](norms[1](want)))
    expect(got, want, _pre_ln_slips(x, branches, norms))


@exercise("Exercise 4 (two workers, one variance)")
def merge(student) -> None:
    """student(a, b) with a, b = (count, mean, m2) -> (count, mean, m2), numbers."""
    got = parts(student((2, 3.0, 2.0), (3, 9.0, 6.0)), "count", "mean", "m2")
    expect(got[0], 5.0, {"the counts add up: 2 and 3 values are 5.": 2.0}, "count")
    expect(got[1], 6.6, MEAN_SLIPS, "the mean")
    expect(got[2], 51.2, M2_SLIPS, "m2")
    *_, m2 = parts(student((2, 1e9 + 3, 2.0), (3, 1e9 + 9, 6.0)), "count", "mean", "m2")
    if abs(float(m2) - 51.2) > 0.01:  # means near 1e9 are rounded to 1e-7
        raise Slip("m2 is lost at mean 1e9: no mean may be squared, only the difference of two means.")


def _untouched(student, arguments: tuple, names: tuple):
    """What the student returns, or Slip when a named argument was written into."""
    kept = [value.clone() if name else None for name, value in zip(names, arguments, strict=True)]
    got = student(*arguments)
    for name, before, after in zip(names, kept, arguments, strict=True):
        if name:
            unchanged(name, before, after)
    return got


def _standardize(x, dims, correction=0, eps=EPS) -> Tensor:
    return (x - x.mean(dims, keepdim=True)) * torch.rsqrt(
        x.var(dims, keepdim=True, correction=correction) + eps
    )


# Exercise 1


def _layer_norm_slips(x, w, b) -> dict[str, Tensor]:
    wrong = _row_slips(x, (-2, -1)) | _axis_slips(x, (-2, -1))
    return {message: value * w + b for message, value in wrong.items()} | _affine_slips(x, w, b, (-2, -1))


def _row_slips(x, dims) -> dict[str, Tensor]:
    """Wrong values of xhat: what is done to a row."""
    centred, var = x - x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=0)
    mean_square = x.square().mean(dims, keepdim=True)
    return {
        "the variance is the biased one: divide by D, not by D - 1 (correction=0).": _standardize(x, dims, 1),
        "eps belongs inside the root, added to the variance, not to the standard deviation.": (
            centred / (var.sqrt() + EPS)
        ),
        "that is torch's std() + eps: divide by D, not by D - 1, and put eps inside the root.": (
            centred / (x.std(dims, keepdim=True) + EPS)
        ),
        "that has length 1: the variance is the MEAN of the squares, not their sum.": (
            centred * torch.rsqrt(centred.square().sum(dims, keepdim=True) + EPS)
        ),
        "divide by the standard deviation: the square root is missing.": centred / (var + EPS),
        "eps is not used; add it to the variance.": _standardize(x, dims, eps=0.0),
        "eps is an argument; yours is fixed at 1e-5.": _standardize(x, dims, eps=1e-5),
        "the mean is not subtracted from x: that is RMSNorm.": x * torch.rsqrt(mean_square + EPS),
        "the mean is subtracted, but not divided by anything.": centred,
    }


def _axis_slips(x, dims) -> dict[str, Tensor]:
    """Wrong values of xhat: over which axes."""
    return {
        "wrong axes: these statistics run over the leading dimensions, that is over the samples.": (
            _standardize(x, (0, 1))
        ),
        "wrong axes: only the last one was reduced; normalized_shape has two dimensions here.": (
            _standardize(x, -1)
        ),
        "wrong axes: one mean for the whole tensor; every sample has its own.": _standardize(x, (0, 1, 2, 3)),
        "keepdim=True is missing: the statistics are lined up with the wrong axes.": (
            (x - x.mean(dims)) * torch.rsqrt(x.var(dims, correction=0) + EPS)
        ),
    }


def _affine_slips(x, w, b, dims) -> dict[str, Tensor]:
    xhat = _standardize(x, dims)
    return {
        "the bias is missing.": xhat * w,
        "the gain (weight) is missing.": xhat + b,
        "gain and bias are missing.": xhat,
        "the bias is multiplied by the gain: add it last.": (xhat + b) * w,
        "gain and bias come after the normalization, not before.": _standardize(x * w + b, dims),
        "the gain is one number here; every feature has its own.": xhat * w.mean() + b,
        "gain and bias are one number each here; every feature has its own.": xhat * w.mean() + b.mean(),
    }


def _check_large_mean(student) -> None:
    x = (1e4 + draw(32, 64, seed=1)).float()
    ones, zeros = torch.ones(64, dtype=x.dtype), torch.zeros(64, dtype=x.dtype)
    got, want = student(x, (64,), ones, zeros, 1e-5), functional.layer_norm(x, (64,), ones, zeros)
    tolerance = 1e-2  # the mean is rounded to 1e4 * 6e-8; mean of squares minus squared mean misses by 1
    comparable = isinstance(got, Tensor) and got.shape == want.shape
    if comparable and not torch.allclose(got.to(want.dtype), want, 0, tolerance):
        raise Slip(
            "right on small numbers, lost at mean 10,000 in float32: mean of squares minus squared mean "
            "cancels. Subtract the mean first, then square."
        )
    expect(got, want, what="the output in float32", rtol=0.0, atol=tolerance)


# Exercise 2


def _group_norm_slips(x, w, b) -> dict[str, Tensor]:
    gain, shift = w.reshape(-1, 1, 1), b.reshape(-1, 1, 1)
    xhat = _standardize(x.unflatten(1, (GROUPS, -1)), (2, 3, 4)).flatten(1, 2)
    group = torch.arange(len(w)) // (len(w) // GROUPS)  # of a channel, taken for the index of its gain
    affine = {
        "weight and bias belong to channels: reshape them to (C, 1, 1); they lie on the last axis.": (
            xhat * w + b
        ),
        "there is one gain per channel, not per group.": xhat * gain[group] + shift[group],
        "the bias is missing.": xhat * gain,
        "gain and bias are missing.": xhat,
    }
    wrong = {message: value * gain + shift for message, value in _grouping_slips(x).items()}
    return wrong | affine


def _grouping_slips(x) -> dict[str, Tensor]:
    """Wrong values of xhat."""
    groups, swapped = x.unflatten(1, (GROUPS, -1)), x.unflatten(1, (-1, GROUPS))
    centred = groups - groups.mean((2, 3, 4), keepdim=True)
    grouped = {
        "the statistics also run over the positions, not only over the channels of a group.": (
            _standardize(groups, 2)
        ),
        "the statistics run over the batch, too; every sample has its own.": (
            _standardize(groups, (0, 2, 3, 4))
        ),
        "a group is contiguous channels (0, 1, 2 | 3, 4, 5), not every second one.": (
            _standardize(swapped, (1, 3, 4))
        ),
        "num_groups is the number of groups, not of channels in a group.": _standardize(swapped, (2, 3, 4)),
        "the variance is the biased one: correction=0.": _standardize(groups, (2, 3, 4), 1),
        "eps is not used; add it to the variance.": _standardize(groups, (2, 3, 4), eps=0.0),
        "eps is an argument; yours is fixed at 1e-5.": _standardize(groups, (2, 3, 4), eps=1e-5),
        "eps belongs inside the root, added to the variance, not to the standard deviation.": (
            centred / (groups.std((2, 3, 4), keepdim=True, correction=0) + EPS)
        ),
    }
    return {message: value.flatten(1, 2) for message, value in grouped.items()} | {
        "the statistics leave out the channels of the group: that is InstanceNorm.": _standardize(x, (2, 3)),
        "one group of all channels: num_groups is not used.": _standardize(x, (1, 2, 3)),
    }


# Exercise 3


def _branch(matrix: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(x @ matrix)


def _stack(x, branches, norms, step) -> Tensor:
    h = x
    for branch, norm in zip(branches, norms, strict=False):
        h = step(h, branch, norm)
    return h


def _pre_ln_slips(x, branches, norms) -> dict[str, Tensor]:
    steps = {
        "that is Post-LN: the norm stands on the branch's input, not on the sum.": lambda h, f, n: n(
            h + f(h)
        ),
        "the skip path goes through the norm: add h itself, not norm(h).": lambda h, f, n: n(h) + f(n(h)),
        "the skip is missing: each block adds its branch to h.": lambda h, f, n: f(n(h)),
        "the norm stands on the branch's output; Pre-LN has it on the input.": lambda h, f, n: h + n(f(h)),
        "there is no norm in the blocks.": lambda h, f, n: h + f(h),
        "the sum is normalized, too: the main path stays free of norms.": lambda h, f, n: n(h + f(n(h))),
        "every block adds to the first x; it should add to the output of the block before.": (
            lambda h, f, n: x + f(n(h))
        ),
        "all blocks use the first norm; each has its own.": lambda h, f, n: h + f(norms[0](h)),
    }
    slips = {}
    for message, step in steps.items():
        out = _stack(x, branches, norms, step)
        slips |= {message: norms[-1](out), message + " The last norm is missing as well.": out}
    right = _stack(x, branches, norms, lambda h, f, n: h + f(n(h)))
    return slips | {
        "the last norm is missing: nothing normalizes the sum that leaves the stack.": right,
        "the last norm is the one behind the blocks, norms[-1].": norms[-2](right),
        "only the first block ran: is the return inside the loop?": norms[-1](x + branches[0](norms[0](x))),
    }


# Exercise 4

# Two values of mean 3 and three of mean 9: the means are 6 apart, weighted with 2 * 3 / 5
MEAN_SLIPS = {
    "weigh the means with their counts; that is their plain average.": 6.0,
    "the weights are exchanged: each mean counts as often as it has values.": 5.4,
    "that is the sum of the values; divide by the joint count.": 33.0,
    "the means are added, not averaged.": 12.0,
}
M2_SLIPS = {
    "the two means differ: their distance adds to the squared deviations.": 8.0,
    "the distance of the means comes in squared.": 15.2,
    "the squared distance of the means has a weight made of both counts.": 44.0,
    "the weight of the squared distance is too large: divide it by the joint count.": 224.0,
    "the weight of the squared distance is the PRODUCT of the counts over their sum.": 188.0,
    "weigh the squared distance with both counts, not with one: n_a n_b / n.": 80.0,
    "that is the share of the means alone; m2 of both sides is missing.": 43.2,
    "that is the variance; m2 is the sum, divide it at the very end.": 10.24,
    "that is the unbiased variance; m2 is the sum, divide it at the very end.": 12.8,
}
