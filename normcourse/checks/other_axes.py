"""Checks of lesson 02b: statistics counted, unknown axes, group norm, AdaLN, a power step."""

import functools
import math

import torch
from torch import Tensor

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
from normcourse.checks.verdict import Slip, exercise, expect
from normlib import functional

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


def _pieces(x, z, A, B, E) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The normalized rows, gamma, beta and the gate."""
    return functional.layer_norm(x, x.shape[-1:]), z @ A.T, z @ B.T, z @ E.T


def _block(x, z, branch, A, B, E) -> Tensor:
    xhat, gamma, beta, gate = _pieces(x, z, A, B, E)
    return x + gate * branch((1 + gamma) * xhat + beta)


def _block_but(out):
    """A block whose output is out(branch, x, the normalized rows, gamma, beta, the gate)."""
    return lambda x, z, branch, A, B, E: out(branch, x, *_pieces(x, z, A, B, E))


def _norm(rows: Tensor) -> Tensor:
    return functional.layer_norm(rows, rows.shape[-1:])


BLOCK_SLIPS = {
    "the gate multiplies what the branch returns, not what it gets.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + f(gate * ((1 + gamma) * h + beta))
    ),
    "A and E are exchanged: A makes gamma, and E makes the gate.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gamma * f((1 + gate) * h + beta)
    ),
    "B and E are exchanged: B makes beta, and E makes the gate.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + beta * f((1 + gamma) * h + gate)
    ),
    "each row has its own condition; yours takes the mean of all.": (
        lambda x, z, branch, A, B, E: _block(x, z.mean(0, keepdim=True), branch, A, B, E)
    ),
    "each row has its own condition; yours takes the first one for all.": (
        lambda x, z, branch, A, B, E: _block(x, z[:1], branch, A, B, E)
    ),
    "the statistics are those of each row, not of all rows.": lambda x, z, branch, A, B, E: (
        x + (z @ E.T) * branch((1 + z @ A.T) * functional.layer_norm(x, x.shape) + z @ B.T)
    ),
    "the gate is missing: it multiplies what the branch returns.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + f((1 + gamma) * h + beta)
    ),
    "the gate is not 1 plus something: with E = 0 the block changes nothing.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + (1 + gate) * f((1 + gamma) * h + beta)
    ),
    "the shortcut is missing: x itself is added.": _block_but(
        lambda f, x, h, gamma, beta, gate: gate * f((1 + gamma) * h + beta)
    ),
    "the shortcut is not gated: the gate multiplies the branch alone.": _block_but(
        lambda f, x, h, gamma, beta, gate: gate * (x + f((1 + gamma) * h + beta))
    ),
    "the shortcut carries x as it came, not the normalized rows.": _block_but(
        lambda f, x, h, gamma, beta, gate: h + gate * f((1 + gamma) * h + beta)
    ),
    "the shortcut carries x as it came, not y.": _block_but(
        lambda f, x, h, gamma, beta, gate: (1 + gamma) * h + beta + gate * f((1 + gamma) * h + beta)
    ),
    "the gain is 1 + gamma: with A = 0 it is plain LayerNorm.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f(gamma * h + beta)
    ),
    "beta is missing.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f((1 + gamma) * h)
    ),
    "gamma is missing: the gain is 1 + gamma.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f(h + beta)
    ),
    "A and B are exchanged: A makes gamma, and B makes beta.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f((1 + beta) * h + gamma)
    ),
    "beta is added behind the gain, not multiplied with it.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f((1 + gamma) * (h + beta))
    ),
    "the norm is missing: the gain multiplies the normalized row.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f((1 + gamma) * x + beta)
    ),
    "the norm comes first, then gain and bias: yours normalizes them away.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * f(_norm((1 + gamma) * x + beta))
    ),
    "gain and bias stand before the branch, not behind it.": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * ((1 + gamma) * f(h) + beta)
    ),
    "the branch gets y, not x.": _block_but(lambda f, x, h, gamma, beta, gate: x + gate * f(x)),
    "the branch is not used: gate times branch(y).": _block_but(
        lambda f, x, h, gamma, beta, gate: x + gate * ((1 + gamma) * h + beta)
    ),
    "that is RMSNorm: LayerNorm subtracts the mean, too.": _block_but(
        lambda f, x, h, gamma, beta, gate: (
            x + gate * f((1 + gamma) * functional.rms_norm(x, x.shape[-1:], eps=1e-5) + beta)
        )
    ),
}


@exercise("Exercise 4 (the block of a diffusion transformer)")
def adaptive_block(student) -> None:
    """student(x, z, branch, A, B, E) for rows (N, D), conditions (N, M) and matrices (D, M).

    [EQ-ADALN]
    """
    cases = [_block_case(3, 5, 2, seed=1), _block_case(4, 6, 3, seed=10)]
    calls(student, _block, *cases, slips=BLOCK_SLIPS)
    same_gradients(student, _block, cases[0])


def _block_case(rows: int, features: int, conditions: int, seed: int) -> dict:
    weight = draw(features, features, seed=seed)
    matrices = [draw(features, conditions, seed=seed + number) for number in (1, 2, 3)]
    return {
        "x": 1000 + 2000 * draw(rows, features, seed=seed + 4),  # torch's eps and DiT's do as well
        "z": draw(rows, conditions, seed=seed + 5),
        "branch": lambda rows: torch.sigmoid(rows @ weight) + 0.5,
        **dict(zip("ABE", matrices, strict=True)),
    }


# Exercise 5


def _power(W, u) -> tuple[Tensor, Tensor]:
    b = W @ torch.nn.functional.normalize(u @ W, dim=0)
    return b / b.norm(), b.norm()


def _power_but(step):
    return lambda W, u: step(W, u, u @ W)


POWER_SLIPS = {
    "divide u W by its length before you go back through W: "
    "the estimate is too large by that length.": _power_but(
        lambda W, u, a: ((W @ a) / (W @ a).norm(), (W @ a).norm())
    ),
    "the next u has length 1: divide it.": _power_but(
        lambda W, u, a: (W @ (a / a.norm()), (W @ (a / a.norm())).norm())
    ),
    "the estimate: the length of u W; take it after the second product.": _power_but(
        lambda W, u, a: (_power(W, u)[0], a.norm())
    ),
    "the estimate is a length, not its square.": _power_but(
        lambda W, u, a: (_power(W, u)[0], (W @ (a / a.norm())).square().sum())
    ),
    "the estimate: that is the largest entry; take the Euclidean length.": _power_but(
        lambda W, u, a: (_power(W, u)[0], (W @ (a / a.norm())).abs().max())
    ),
    "the estimate: that is the Frobenius norm of W; the power step does not need it.": _power_but(
        lambda W, u, a: (_power(W, u)[0], W.norm())
    ),
    "u came back as it was: the next step would start from the same place.": _power_but(
        lambda W, u, a: (u, _power(W, u)[1])
    ),
    "that is the exact norm; one step gives an estimate that is at most as large.": _power_but(
        lambda W, u, a: (_power(W, u)[0], torch.linalg.matrix_norm(W, 2))
    ),
    "the order is (next u, estimate); yours is turned round.": _power_but(
        lambda W, u, a: _power(W, u)[::-1]
    ),
    "that is d, among the inputs; the next u is the direction of W d.": _power_but(
        lambda W, u, a: (a / a.norm(), _power(W, u)[1])
    ),
    "the next u has Euclidean length 1, and not the largest entry 1.": _power_but(
        lambda W, u, a: (W @ a / (W @ a).max(), _power(W, u)[1])
    ),
    "the estimate: the length of W d, not the product of the old and the next u.": _power_but(
        lambda W, u, a: (_power(W, u)[0], u @ _power(W, u)[0])
    ),
    "the estimate: half a step too late; take the length of W d.": _power_but(
        lambda W, u, a: (_power(W, u)[0], (_power(W, u)[0] @ W).norm())
    ),
    "that is two steps; do one.": _power_but(lambda W, u, a: _power(W, _power(W, u)[0])),
    "the sign of u is turned.": _power_but(lambda W, u, a: (-_power(W, u)[0], _power(W, u)[1])),
    "the estimate is a length, and yours is negative.": (
        _power_but(lambda W, u, a: (_power(W, u)[0], -_power(W, u)[1]))
    ),
}


def _with_a_tensor(student):
    """The student's step, with an estimate that is a plain number made a tensor."""

    @functools.wraps(student)
    def step(W, u):
        result = student(W, u)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], float):
            return result[0], u.new_tensor(result[1])
        return result

    return step


@exercise("Exercise 5 (one power step)")
def power_step(student) -> None:
    """student(W, u) -> (the next u, the estimate) for W (R, D) and u (R) of length 1."""
    cases = []
    for shape in ((3, 5), (4, 2)):
        u = draw(shape[0], seed=6)
        cases.append({"W": draw(*shape, seed=5), "u": u / u.norm()})
    student = forbid(student, "matrix_norm", "svd", "svdvals")
    calls(
        _with_a_tensor(student),
        _power,
        *cases,
        slips=POWER_SLIPS,
        what=("the next u", "the estimate"),
    )
