"""Checks of lesson 02b: group norm, unknown axes, a group norm that leaves padding out."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from normcourse import draw
from normcourse.checks.moments import (
    AFFINE,
    FINISHED,
    STATISTICS,
    mean_square,
    standardize,
)
from normcourse.checks.probes import calls, forbid, same_gradients
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect, is_value
from normlib import functional

# Exercise 1


PARAMETERS = ("weight", "bias")


@exercise("Exercise 1 (GroupNorm)", "GroupNorm(num_groups, num_channels, eps=1e-5)")
def group_norm(student) -> None:
    """student: a class; student(num_groups, num_channels, eps) is a layer for x (N, C, ...).

    [EQ-GN]
    """
    _made(student, 2, 6)(draw(3, 6))  # a stub ends here
    function = _as_function(student)
    cases = [
        _group_case((2, 6, 2, 6), 2, eps=0.5),  # a gain left on the last axis broadcasts here
        _group_case((5, 6), 3, eps=0.1),
        _group_case((3, 8, 5), 2, eps=0.3),
    ]
    watched = forbid(function, *FINISHED)
    calls(watched, functional.group_norm, *cases, slips=GROUP_NORM_SLIPS)
    same_gradients(function, functional.group_norm, cases[0])
    _check_new(student)


def _made(student, groups: int, channels: int, *eps: float) -> nn.Module:
    """A layer of the student's class; Slip if it is none."""
    if isinstance(student, nn.Module):
        raise Slip("that is a layer; pass the class, which the check calls: GroupNorm.")
    layer = student(groups, channels, *eps) if callable(student) else student
    if not isinstance(layer, nn.Module):
        raise Slip(
            f"GroupNorm({groups}, {channels}) is {describe(layer)}, expected a layer: "
            "write class GroupNorm(nn.Module)."
        )
    return layer


def _as_function(student) -> Callable:
    """The student's layer as a function of x, num_groups, weight, bias and eps."""

    def function(x, num_groups, weight, bias, eps):
        channels = x.shape[1]
        layer = _made(student, num_groups, channels, eps)
        there = {name: tuple(one.shape) for name, one in layer.named_parameters()}
        expected = dict.fromkeys(PARAMETERS, (channels,))
        if there != expected:
            raise Slip(
                f"GroupNorm({num_groups}, {channels}) has the parameters {there or 'none'}, "
                f"expected {expected}: self.weight = nn.Parameter(torch.ones(num_channels)), and "
                "a bias."
            )
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    return function


def _check_new(student) -> None:
    """A new layer: its parameters, its default eps, and nothing beside them."""
    layer = _made(student, 2, 6)
    values = dict(layer.named_parameters())
    if not (values["weight"].eq(1).all() and values["bias"].eq(0).all()):
        raise Slip(
            "a new layer's weight is all ones and its bias all zeros; yours begins otherwise."
        )
    stored = [name for name, _ in layer.named_buffers()]
    if stored:
        raise Slip(
            f"the layer stores {', '.join(stored)}: GroupNorm keeps no statistics, each group "
            "brings its own."
        )
    x = 0.01 * draw(3, 6)
    trained, evaluated = layer.train()(x), layer.eval()(x)
    expect(evaluated, trained, what="the output after eval()")
    if not is_value(evaluated, functional.group_norm(x, 2)):
        raise Slip(
            "wrong on small numbers with the default eps, which is 1e-5: "
            "def __init__(self, num_groups, num_channels, eps=1e-5)."
        )


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
    if given is None:
        raise Slip(f"{name} is not answered yet.")
    listed = (given,) if isinstance(given, int) else given
    if not isinstance(listed, tuple | list | set) or any(type(axis) is not int for axis in listed):
        raise Slip(f"{name}: {describe(given)} is no tuple of axes from 0 to {COUNT - 1}.")
    strange = [axis for axis in listed if not -COUNT <= axis < COUNT]
    if strange:
        raise Slip(f"{name}: the axes are 0 to {COUNT - 1}, and {strange[0]} is none of them.")
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
        raise Slip(f"{name}: an axis is missing; along another one, too, several inputs matter.")
    if given > right:
        raise Slip(f"{name}: an axis too many; along one of yours no other input moves the output.")
    raise Slip(f"{name}: other axes; choose one output, and see which inputs move it.")


# Exercise 3


def over_real_positions(h, real, num_groups, weight, bias, eps) -> Tensor:
    """Group norm for padded h (N, C, P): real (N, P) is False at padding, where the output is 0."""
    groups = h.unflatten(1, (num_groups, -1))
    mask = real[:, None, None].to(h.dtype)
    members = groups.shape[2] * mask.sum(-1, keepdim=True)
    mean = (groups * mask).sum((2, 3), keepdim=True) / members
    around = groups - mean
    variance = (around.square() * mask).sum((2, 3), keepdim=True) / members
    xhat = (around / torch.sqrt(variance + eps)).flatten(1, 2)
    return (xhat * weight[:, None] + bias[:, None]) * real[:, None]


@exercise("Exercise 3 (padding)", "the output is 0 at the padding")
def masked_group_norm(student) -> None:
    """student(h, real, num_groups, weight, bias, eps) for h (N, C, P) and real (N, P)."""
    cases = [
        _padded_case((3, 6, 5), 2, ["11111", "11100", "11000"], eps=0.5),
        _padded_case((2, 4, 7), 4, ["0001111", "1111110"], eps=0.1),
        _padded_case((4, 8, 6), 2, ["111111", "001000", "110010", "111110"], eps=0.3),
    ]
    watched = forbid(student, *FINISHED)
    calls(watched, over_real_positions, *cases, slips=MASKED_SLIPS)
    same_gradients(student, over_real_positions, cases[0])


def _padded_case(shape: tuple, num_groups: int, real: list[str], eps: float) -> dict:
    """A case whose real positions are the ones in real, a string for each sequence."""
    return {
        "h": 1 + draw(*shape, seed=1),  # at the padding, too: a bias has been added there
        "real": torch.tensor([[mark == "1" for mark in row] for row in real]),
        "num_groups": num_groups,
        "weight": 1 + draw(shape[1], seed=2),
        "bias": 1 + draw(shape[1], seed=3),
        "eps": eps,
    }


def _masked_slip(moments, zeroed: bool = True):
    """A wrong answer; moments(groups, mask) gives mean and variance over the last two axes."""

    def wrong(h, real, num_groups, weight, bias, eps):
        groups = h.unflatten(1, (num_groups, -1))
        mask = real[:, None, None].to(h.dtype).expand_as(groups)
        mean, variance = moments(groups, mask)
        xhat = ((groups - mean) / torch.sqrt(variance + eps)).flatten(1, 2)
        out = xhat * weight[:, None] + bias[:, None]
        return out * real[:, None] if zeroed else out

    return wrong


def _counted_from_0(h, real, num_groups, weight, bias, eps):
    first = torch.arange(real.shape[1]) < real.sum(-1, keepdim=True)
    return over_real_positions(h, first, num_groups, weight, bias, eps)


def _bias_last(h, real, num_groups, weight, bias, eps):
    no_bias = torch.zeros_like(bias)
    return over_real_positions(h, real, num_groups, weight, no_bias, eps) + bias[:, None]


def _total(t: Tensor) -> Tensor:
    return t.sum((2, 3), keepdim=True)


def _real_moments(groups, mask) -> tuple[Tensor, Tensor]:
    mean = _total(groups * mask) / _total(mask)
    return mean, _total((groups - mean).square() * mask) / _total(mask)


def _all_moments(groups, mask) -> tuple[Tensor, Tensor]:
    mean = groups.mean((2, 3), keepdim=True)
    return mean, (groups - mean).square().mean((2, 3), keepdim=True)


def _zeros_counted(groups, mask) -> tuple[Tensor, Tensor]:
    return _all_moments(groups * mask, mask)


def _mean_alone(groups, mask) -> tuple[Tensor, Tensor]:
    mean, _ = _real_moments(groups, mask)
    return mean, (groups - mean).square().mean((2, 3), keepdim=True)


def _masked_before(groups, mask) -> tuple[Tensor, Tensor]:
    mean, _ = _real_moments(groups, mask)
    return mean, _total((groups * mask - mean).square()) / _total(mask)


def _positions_counted(groups, mask) -> tuple[Tensor, Tensor]:
    members = _total(mask) / groups.shape[2]
    mean = _total(groups * mask) / members
    return mean, _total((groups - mean).square() * mask) / members


def _all_counted(groups, mask) -> tuple[Tensor, Tensor]:
    members = groups.shape[2] * groups.shape[3]
    mean = _total(groups * mask) / members
    return mean, _total((groups - mean).square() * mask) / members


def _of_batch(groups, mask) -> tuple[Tensor, Tensor]:
    members = mask.sum((0, 2, 3), keepdim=True)
    mean = (groups * mask).sum((0, 2, 3), keepdim=True) / members
    return mean, ((groups - mean).square() * mask).sum((0, 2, 3), keepdim=True) / members


def _of_channels(groups, mask) -> tuple[Tensor, Tensor]:
    mean = (groups * mask).sum(3, keepdim=True) / mask.sum(3, keepdim=True)
    around = (groups - mean).square() * mask
    return mean, around.sum(3, keepdim=True) / mask.sum(3, keepdim=True)


def _unbiased(groups, mask) -> tuple[Tensor, Tensor]:
    mean, variance = _real_moments(groups, mask)
    return mean, variance * _total(mask) / (_total(mask) - 1)


MASKED_SLIPS = {
    "the padding still counts: mean and variance run over the real positions only.": _masked_slip(
        _all_moments
    ),
    "zeros are numbers, too: set to 0, the padding still counts in the mean.": _masked_slip(
        _zeros_counted
    ),
    "the mean is right, and the variance still counts the padding.": _masked_slip(_mean_alone),
    "the variance: subtract the mean before you mask, or each padded position adds the mean's "
    "square.": _masked_slip(_masked_before),
    "divide by the number of real members: the channels of the group times the real positions.": (
        _masked_slip(_positions_counted)
    ),
    "the sums are right; divide them by the number of real members, not of all.": _masked_slip(
        _all_counted
    ),
    "the statistics run over the batch, too; every sample has its own.": _masked_slip(_of_batch),
    "the statistics leave out the channels of the group: that is InstanceNorm.": _masked_slip(
        _of_channels
    ),
    "the variance is the biased one: divide by the number of real members, not by one less.": (
        _masked_slip(_unbiased)
    ),
    "at the padding the output is 0: multiply by the mask last, after the bias.": _masked_slip(
        _real_moments, zeroed=False
    ),
    "add the bias before the last mask: at the padding your output is the bias, expected 0.": (
        _bias_last
    ),
    "real also says where: padding may come first or in between, not only at the end.": (
        _counted_from_0
    ),
    "gain and bias are missing.": lambda h, real, G, w, b, eps: over_real_positions(
        h, real, G, torch.ones_like(w), torch.zeros_like(b), eps
    ),
    "eps is not used; add it to the variance.": lambda h, real, G, w, b, eps: over_real_positions(
        h, real, G, w, b, 0.0
    ),
    "eps is an argument; yours is fixed at 1e-5.": (
        lambda h, real, G, w, b, eps: over_real_positions(h, real, G, w, b, 1e-5)
    ),
}
