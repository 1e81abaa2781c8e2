"""The checks of lesson 02b name what is wrong, and accept unusual right answers."""

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
    "no such axis": (RIGHT | {"a": (1, 4)}, "layer a: the axes are 0 to 3, and 4 is none"),
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


def block(out):
    """A block that ends in out(branch, x, xhat, gamma, beta, gate)."""

    def student(x, z, branch, A, B, E):
        xhat = F.layer_norm(x, x.shape[-1:])
        return out(branch, x, xhat, z @ A.T, z @ B.T, z @ E.T)

    return student


def gated(f, x, h, gamma, beta, gate):
    return x + gate * f((1 + gamma) * h + beta)


def modulated(f, x, h, gamma, beta, gate):
    y = (1 + gamma) * h + beta
    return y + gate * f(y)


def no_mean(x, z, branch, A, B, E):
    h = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5)
    return gated(branch, x, h, z @ A.T, z @ B.T, z @ E.T)


def gate_cut_off(x, z, branch, A, B, E):
    h = F.layer_norm(x, x.shape[-1:])
    return gated(branch, x, h, z @ A.T, z @ B.T, (z @ E.T).detach())


BLOCK = {
    "no gate": (block(lambda f, x, h, c, b, e: x + f((1 + c) * h + b)), "the gate is missing"),
    "one plus the gate": (
        block(lambda f, x, h, c, b, e: x + (1 + e) * f((1 + c) * h + b)),
        "with E = 0 the block changes nothing",
    ),
    "no shortcut": (block(lambda f, x, h, c, b, e: e * f((1 + c) * h + b)), "x itself is added"),
    "gated shortcut": (
        block(lambda f, x, h, c, b, e: e * (x + f((1 + c) * h + b))),
        "the shortcut is not gated",
    ),
    "normalized shortcut": (
        block(lambda f, x, h, c, b, e: h + e * f((1 + c) * h + b)),
        "not the normalized rows",
    ),
    "modulated shortcut": (block(modulated), "not y"),
    "gamma alone": (block(lambda f, x, h, c, b, e: x + e * f(c * h + b)), "the gain is 1 + gamma"),
    "no gamma": (block(lambda f, x, h, c, b, e: x + e * f(h + b)), "gamma is missing"),
    "no beta": (block(lambda f, x, h, c, b, e: x + e * f((1 + c) * h)), "beta is missing"),
    "exchanged": (block(lambda f, x, h, c, b, e: x + e * f((1 + b) * h + c)), "exchanged"),
    "beta multiplied": (
        block(lambda f, x, h, c, b, e: x + e * f((1 + c) * (h + b))),
        "behind the gain",
    ),
    "no norm": (block(lambda f, x, h, c, b, e: x + e * f((1 + c) * x + b)), "the norm is missing"),
    "behind the branch": (
        block(lambda f, x, h, c, b, e: x + e * ((1 + c) * f(h) + b)),
        "before the branch",
    ),
    "branch of x": (block(lambda f, x, h, c, b, e: x + e * f(x)), "the branch gets y"),
    "no branch": (block(lambda f, x, h, c, b, e: x + e * ((1 + c) * h + b)), "branch is not used"),
    "no mean": (no_mean, "that is RMSNorm"),
    "gate before the branch": (
        block(lambda f, x, h, c, b, e: x + f(e * ((1 + c) * h + b))),
        "not what it gets",
    ),
    "A and E exchanged": (
        block(lambda f, x, h, c, b, e: x + c * f((1 + e) * h + b)),
        "E makes the gate",
    ),
    "B and E exchanged": (
        block(lambda f, x, h, c, b, e: x + b * f((1 + c) * h + e)),
        "B makes beta",
    ),
    "the mean condition": (
        lambda x, z, branch, A, B, E: by_einsum(x, z.mean(0)[None], branch, A, B, E),
        "takes the mean of all",
    ),
    "the first condition": (
        lambda x, z, branch, A, B, E: by_einsum(x, z[:1], branch, A, B, E),
        "takes the first one",
    ),
    "all rows together": (
        lambda x, z, branch, A, B, E: gated(
            branch, x, F.layer_norm(x, x.shape), z @ A.T, z @ B.T, z @ E.T
        ),
        "not of all rows",
    ),
    "gate cut off": (gate_cut_off, "no gradient reaches E"),
    "x alone": (lambda x, z, branch, A, B, E: x, "[x]"),
    "one gate for all": (
        block(lambda f, x, h, c, b, e: x + e.mean(-1, keepdim=True) * f((1 + c) * h + b)),
        "[x]",
    ),
}


def by_einsum(x, z, branch, A, B, E):
    gamma, beta, gate = (torch.einsum("nm,dm->nd", z, matrix) for matrix in (A, B, E))
    centred = x - x.mean(-1, keepdim=True)
    h = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    return x + gate * branch(h + gamma * h + beta)


def row_by_row(x, z, branch, A, B, E):
    rows = []
    for row, condition in zip(x, z, strict=True):
        h = F.layer_norm(row, row.shape)
        y = h * (1 + A @ condition) + B @ condition
        rows.append(row + (E @ condition) * branch(y))
    return torch.stack(rows)


def with_the_eps_of_dit(x, z, branch, A, B, E):
    h = F.layer_norm(x, x.shape[-1:], eps=1e-6)
    return gated(branch, x, h, z @ A.T, z @ B.T, z @ E.T)


@pytest.mark.parametrize("answer", [block(gated), by_einsum, row_by_row, with_the_eps_of_dit])
def test_another_block_is_accepted(answer):
    assert check.adaptive_block(answer).startswith("[ok]")


# Exercise 5


def power(finish):
    """A power step that ends in another way: of W, u, v and b = W v."""

    def student(W, u):
        a = u @ W
        v = a / a.norm()
        return finish(W, u, v, W @ v)

    return student


def without_length(W, u):
    b = W @ (u @ W)
    return b / b.norm(), b.norm()


def by_svd(W, u):
    left, sizes, _ = torch.linalg.svd(W)
    return left[:, 0], sizes[0]


POWER = {
    "no length in between": (without_length, "too large by that length"),
    "u not normalized": (power(lambda W, u, v, b: (b, b.norm())), "the next u has length 1"),
    "first length": (
        power(lambda W, u, v, b: (b / b.norm(), (u @ W).norm())),
        "after the second",
    ),
    "squared": (power(lambda W, u, v, b: (b / b.norm(), b @ b)), "not its square"),
    "largest entry": (power(lambda W, u, v, b: (b / b.norm(), b.abs().max())), "largest entry"),
    "Frobenius": (power(lambda W, u, v, b: (b / b.norm(), W.norm())), "Frobenius"),
    "order": (
        power(lambda W, u, v, b: (b.norm(), b / b.norm())),
        "the order is (next u, estimate)",
    ),
    "v for u": (power(lambda W, u, v, b: (v, b.norm())), "that is d"),
    "largest entry of u": (power(lambda W, u, v, b: (b / b.max(), b.norm())), "Euclidean length 1"),
    "old times next": (
        power(lambda W, u, v, b: (b / b.norm(), u @ b / b.norm())),
        "old and the next",
    ),
    "half a step late": (
        power(lambda W, u, v, b: (b / b.norm(), (b @ W).norm() / b.norm())),
        "half a step too late",
    ),
    "old u": (power(lambda W, u, v, b: (u, b.norm())), "u came back as it was"),
    "sign": (power(lambda W, u, v, b: (-b / b.norm(), b.norm())), "the sign of u"),
    "svd": (by_svd, "without svd"),
}


test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.unknown_axes: AXES,
        check.group_norm: GROUP_NORM,
        check.adaptive_block: BLOCK,
        check.power_step: POWER,
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


def with_columns(W, u):
    v = torch.nn.functional.normalize(W.T @ u[:, None], dim=0)
    b = W @ v
    return (b / b.norm())[:, 0], u.new_tensor(b.square().sum().sqrt().item())


def with_a_plain_number(W, u):
    h = W @ torch.nn.functional.normalize(u @ W, dim=0)
    return h / h.norm(), h.norm().item()


def test_a_solution_by_another_way_is_accepted():
    assert check.group_norm(load("02b_other_axes")["group_norm"]).startswith("[ok]")
    assert check.counts(torch.tensor(1568), 64.0).startswith("[ok]")
    assert check.power_step(with_columns).startswith("[ok]")
    assert check.power_step(with_a_plain_number).startswith("[ok]")
