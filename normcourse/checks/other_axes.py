"""Checks of lesson 02c: statistics counted, unknown axes, group norm, rows kept apart, backward."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.brackets import BRACKETS, OF_ROWS, gradient
from normcourse.checks.moments import (
    AFFINE,
    FINISHED,
    STATISTICS,
    centred,
    mean,
    mean_square,
    row_size,
    size,
    standardize,
)
from normcourse.checks.probes import call, calls, forbid, same_gradients, used_by
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect
from normlib import functional, gradients

# Exercise 1


GROUPS, PICTURES, CHANNELS, SIDE = 4, 16, 32, 14


@exercise(
    "Exercise 1 (count the statistics)",
    f"{GROUPS} groups gets {PICTURES} pictures",
    f"{CHANNELS} channels of {SIDE} by {SIDE} positions",
)
def counts(shared, means) -> None:
    """How many numbers share one mean, and how many means there are: (16, 32, 14, 14), G = 4."""
    expect(shared, CHANNELS // GROUPS * SIDE * SIDE, SHARED_SLIPS, "how many numbers share a mean")
    expect(means, PICTURES * GROUPS, MEANS_SLIPS, "how many means there are")


SHARED_SLIPS = {
    "that counts the channels of a group; their positions share the mean, too.": 8,
    "4 is the number of groups; a group has 32/4 channels.": 4 * 14 * 14,
    "that is one channel of one picture: InstanceNorm.": 14 * 14,
    "that is the whole picture: one group, G = 1.": 32 * 14 * 14,
    "the pictures of the batch are kept apart: leave out the factor 16.": 16 * 8 * 14 * 14,
    "that counts one side of the picture; 14 times 14 positions share the mean.": 8 * 14,
    "that is a channel of the whole batch: BatchNorm.": 16 * 14 * 14,
    "that is one position over all its channels: a Transformer's LayerNorm.": 32,
    "that is how many means there are; did you swap the two answers?": 16 * 4,
}
MEANS_SLIPS = {
    "every picture has its own groups: multiply by the number of pictures.": 4,
    "that is one mean for each picture; each of its 4 groups has one.": 16,
    "that is one mean for each channel of each picture: InstanceNorm.": 16 * 32,
    "that is one for each channel: BatchNorm's means, or the gains.": 32,
    "the positions of a group share one mean: leave 14 times 14 out.": 16 * 4 * 14 * 14,
    "there are 4 groups of 8 channels: count the groups.": 16 * 8,
    "there is one mean for each group of each picture, not one for all.": 1,
}


# Exercise 2


UNKNOWN_SHAPE = (3, 4, 5, 6)
UNKNOWN = {  # layers for x of this shape: the exercise asks for their axes
    "a": lambda x: standardize(x, (1, 3), eps=1e-5),
    "b": lambda x: x / torch.sqrt(mean_square(x, 0) + 1e-5),
    "c": lambda x: standardize(x, (1, 2, 3), eps=1e-5),
}
AXES = {"a": {1, 3}, "b": {0}, "c": {1, 2, 3}}
COUNT = 4


@exercise(
    "Exercise 2 (three unknown layers)",
    "three layers",
    f"shape {UNKNOWN_SHAPE}",
    "such as (0, 2, 3)",
)
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


# Exercise 3


@exercise("Exercise 3 (group norm)")
def group_norm(student) -> None:
    """student(x, num_groups, weight, bias, eps) for x (N, C, ...).

    [EQ-GN]
    """
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
    """A group norm whose affine part is affine(xhat, weight, bias), in the shape of channels."""

    def wrong(x, num_groups, weight, bias, eps):
        xhat = functional.group_norm(x, num_groups, eps=eps)
        return affine(xhat, _per_channel(weight, x), _per_channel(bias, x))

    return wrong


def _on_the_last_axis(x, num_groups, weight, bias, eps):
    """NaN where this does not broadcast."""
    try:
        return functional.group_norm(x, num_groups, eps=eps) * weight + bias
    except RuntimeError:
        return torch.full_like(x, math.nan)


def _gain_of_the_group(x, num_groups, weight, bias, eps):
    first = torch.arange(len(weight)) // (len(weight) // num_groups)
    return functional.group_norm(x, num_groups, weight[first], bias[first], eps)


def _every_second(x, num_groups, weight, bias, eps):
    groups = x.reshape(len(x), x.shape[1] // num_groups, num_groups, -1)
    xhat = standardize(groups, (1, 3), eps=eps).reshape(x.shape)
    return xhat * _per_channel(weight, x) + _per_channel(bias, x)


def _swapped(x, num_groups, weight, bias, eps):
    groups = x.reshape(len(x), x.shape[1] // num_groups, -1)
    xhat = standardize(groups, -1, eps=eps).reshape(x.shape)
    return xhat * _per_channel(weight, x) + _per_channel(bias, x)


GROUP_NORM_SLIPS = {
    text: _group_slip(lambda groups, eps, wrong=wrong: wrong(groups, (2, 3), eps))
    for text, wrong in STATISTICS.items()
}
GROUP_NORM_SLIPS |= {text: _group_affine_slip(wrong) for text, wrong in AFFINE.items()}
GROUP_NORM_SLIPS |= {
    "the statistics also run over the positions, not only over the channels of a group.": (
        _group_slip(lambda groups, eps: standardize(groups, 2, eps=eps))
    ),
    "the statistics run over the batch, too; every sample has its own.": _group_slip(
        lambda groups, eps: standardize(groups, (0, 2, 3), eps=eps)
    ),
    "a group is contiguous channels (0, 1, 2 | 3, 4, 5), not every second one.": _every_second,
    "num_groups is the number of groups, not of channels in a group.": _swapped,
    "the statistics leave out the channels of the group: that is InstanceNorm.": _group_slip(
        lambda groups, eps: standardize(groups, 3, eps=eps)
    ),
    "one group of all channels: num_groups is not used.": _group_slip(
        lambda groups, eps: standardize(groups, (1, 2, 3), eps=eps)
    ),
    "weight and bias belong to channels: reshape them to (C, 1, 1); they lie on the last axis.": (
        _on_the_last_axis
    ),
    "there is one gain per channel, not per group.": _gain_of_the_group,
}


# Exercise 4

MOST_ALIKE = 0.6  # mean cosine between different rows
WIDTH, LAYERS = 64, 30
LEAST_ALIKE = 0.9  # mean cosine between a row and its noisy copy


@exercise(
    "Exercise 4 (keep the rows apart)",
    f"shape (N, {WIDTH})",
    f"{LAYERS} random matrices ({WIDTH}, {WIDTH})",
    f"Return (N, {WIDTH})",
    f"at most {MOST_ALIKE}",
    f"at least {LEAST_ALIKE}",
    "no row may look at another one",
)
def kept_apart(student) -> None:
    """student(x, weights) -> rows (N, 64) behind 30 layers, in which rows stay different."""
    watched = forbid(student, "batch_norm", "normlib")
    weights = [draw(WIDTH, WIDTH, seed=number) / 8 for number in range(LAYERS)]
    x = draw(40, WIDTH, seed=40) + 0.5
    rows = call(watched, x=x, weights=weights)
    expect(_finite_rows(rows), torch.zeros(len(x), WIDTH, dtype=x.dtype), atol=math.inf)
    _rows_alone(watched, x, weights, rows)
    _all_weights_used(watched, x, weights)
    if torch.allclose(watched(-x, weights), -rows, atol=1e-6):
        raise Slip("your net has no ReLU: -x gives exactly the opposite rows.")
    noisy = watched(x + 0.05 * draw(40, 64, seed=41), weights)
    used = used_by(watched, x=x, weights=weights)
    _judge_rows(rows, noisy, x, weights, has_a_norm=bool(used & NORMS))
    if "layer_norm" not in used:
        raise Slip("the rows are as they should be, but not by F.layer_norm, which is asked here.")
    if not used & RELU:
        raise Slip("the rows are as they should be, but not by ReLU, which is asked here.")


NORMS = {
    "layer_norm",
    "rms_norm",
    "normalize",
    "norm",
    "vector_norm",
    "rsqrt",
    "sqrt",
    "std",
    "var",
}
RELU = {  # the ways to write it
    "relu",
    "relu_",
    "threshold",
    "clamp",
    "clamp_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clip_",
    "maximum",
    "fmax",
    "where",
    "masked_fill",
    "masked_fill_",
    "gt",
    "ge",
    "__gt__",
    "__ge__",
}


def _finite_rows(rows):
    """The rows; Slip if they have overflowed or died out."""
    if isinstance(rows, Tensor) and not rows.isfinite().all():
        raise Slip("the rows hold NaN or infinity: is there a norm in each layer?")
    if isinstance(rows, Tensor) and rows.numel() and rows.square().mean() < 1e-12:
        raise Slip("the rows have become zero: is there a norm in each layer?")
    return rows


def _rows_alone(student, x: Tensor, weights: list, rows: Tensor) -> None:
    others = x.clone()
    others[1:] = 3 * draw(len(x) - 1, 64, seed=42)
    if not torch.allclose(student(others, weights)[0], rows[0], atol=1e-6):
        raise Slip("a row changes with the other rows: no statistic may run over the batch.")


def _all_weights_used(student, x: Tensor, weights: list) -> None:
    leaves = [weight.clone().requires_grad_() for weight in weights]
    rows = student(x, leaves)
    if not rows.requires_grad:
        raise Slip("the weights are not used, or cut off (detach, no_grad).")
    slopes = torch.autograd.grad(rows.square().sum() + rows.sum(), leaves, allow_unused=True)
    unused = [place for place, slope in enumerate(slopes) if slope is None]
    if unused:
        raise Slip(f"weights[{unused[0]}] is not used: each of the {len(weights)} makes a layer.")


def _by_shortcut_alone(rows: Tensor, x: Tensor, weights: list) -> bool:
    """Whether the rows point where a net without a norm in its branches sends them."""
    for turned in (False, True):
        h = x
        for weight in weights:
            h = h + torch.relu(h @ (weight.T if turned else weight))
        if torch.allclose(_row_norm(h), _row_norm(rows), atol=1e-3):
            return True
    return False


def _judge_rows(rows: Tensor, noisy: Tensor, x: Tensor, weights: list, has_a_norm: bool) -> None:
    different = _alike(rows)
    copies = torch.cosine_similarity(rows, noisy).mean().item()
    if different <= MOST_ALIKE and copies >= LEAST_ALIKE:
        return
    if different <= MOST_ALIKE:
        raise Slip(
            f"different rows stay apart, and so do a row and its noisy copy (cosine {copies:.2f}): "
            "nothing similar stays similar. Let a shortcut carry the row past each layer."
        )
    size = rows.square().mean().sqrt()
    if size > 1e3 or _by_shortcut_alone(rows, x, weights):
        raise Slip(
            "there is a shortcut, and no norm in front of the weights: what the ReLUs add to all "
            "rows grows with the rows. Put a norm into each branch."
        )
    if _alike(_row_norm(rows)) <= MOST_ALIKE:
        raise Slip(
            f"the rows have become alike (mean cosine {different:.2f}) by a level that the ReLUs "
            "added to all of them. A last norm takes it out."
        )
    of_the_norm = "the norm holds their size" if has_a_norm else "a norm would hold their size"
    raise Slip(
        f"the rows have become alike (mean cosine {different:.2f}): "
        f"{of_the_norm}, and a shortcut has to carry what is different past each layer."
    )


def _alike(rows: Tensor) -> float:
    """The mean cosine between two different rows."""
    directions = torch.nn.functional.normalize(rows, dim=1)
    count = len(rows)
    return (((directions @ directions.T).sum() - count) / (count * (count - 1))).item()


def _row_norm(rows: Tensor) -> Tensor:
    return functional.layer_norm(rows, rows.shape[-1:])


# Exercise 5


@exercise("Exercise 5 (the backward pass)")
def backward(student) -> None:
    """student(dy, x, weight, eps) -> dx, dw, db for rows (N, D), without a D x D matrix.

    [EQ-LN-GRAD]
    """
    cases = [_backward_case(5, 3, eps=0.5), _backward_case(2, 7, eps=0.1)]
    watched = forbid(student, "autograd", "jacobian", "normlib", largest=48)  # 7 x 7 is more
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


def _with(dx: Callable | None = None, dw: Callable | None = None, db: Callable | None = None):
    """The backward pass with another dx(dy, x, weight, eps), dw(dy, xhat, x, s) or db(dy)."""

    def wrong(dy, x, weight, eps):
        right = _backward(dy, x, weight, eps)
        s = row_size(x, eps)
        return (
            dx(dy, x, weight, eps) if dx else right[0],
            dw(dy, centred(x, -1) / s, x, s) if dw else right[1],
            db(dy) if db else right[2],
        )

    return wrong


def _with_gain_in_dw(dy, x, weight, eps):
    dx, dw, db = _backward(dy, x, weight, eps)
    return dx, dw * weight, db


def _with_another_size(correction: int, used: float):
    """s made of another variance, or of another eps, in dx and in dw."""

    def wrong(dy, x, weight, eps):
        s = size(x, -1, used * eps, correction)
        xhat = centred(x, -1) / s
        g = weight * dy
        return (g - mean(g) - xhat * mean(g * xhat)) / s, (dy * xhat).sum(0), dy.sum(0)

    return wrong


def _down_the_columns(dy, x, weight, eps):
    return gradient(
        dy, x, weight, eps, -1, bracket=lambda g, h, m: g - g.mean(0) - h * (g * h).mean(0)
    )


BACKWARD_SLIPS = {
    f"dx: {text}": _with(dx=partial(wrong, dim=-1)) for text, wrong in (BRACKETS | OF_ROWS).items()
} | {
    "dx: its means run over the rows; they belong to one row, over its features.": _with(
        dx=_down_the_columns
    ),
    "eps is missing in s.": _with_another_size(0, used=0.0),
    "the variance divides by D, not by D - 1.": _with_another_size(1, used=1.0),
    "dw: multiply dy by the normalized row, not by x.": _with(
        dw=lambda dy, xhat, x, s: (dy * x).sum(0)
    ),
    "dw: the gain is no part of it: y is w times xhat plus b, so dy stands here, not g.": (
        _with_gain_in_dw
    ),
    "dw: divide the centred row by s: xhat belongs here.": _with(
        dw=lambda dy, xhat, x, s: (dy * xhat * s).sum(0)
    ),
    "dw: sum over the rows, do not average.": _with(dw=lambda dy, xhat, x, s: (dy * xhat).mean(0)),
    "dw and db: sum over the rows, do not average.": _with(
        dw=lambda dy, xhat, x, s: (dy * xhat).mean(0), db=lambda dy: dy.mean(0)
    ),
    "db: sum over the rows, do not average.": _with(db=lambda dy: dy.mean(0)),
}
