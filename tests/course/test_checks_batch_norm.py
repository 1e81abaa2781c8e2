"""The checks of lesson 01 name the slip of wrong answers."""

import functools
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F

from normcourse.checks import batch_norm as check
from tests.course.solutions import wrong_answers_are_named

DIMS = (0, 2, 3)


pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def channels(*vectors):
    return [v.reshape(-1, 1, 1) for v in vectors]


def norm(
    dims=DIMS,
    correction=0,
    buffer_correction=1,
    eps_factor=1.0,
    outside=0.0,
    reverse=False,
    detach=(),
    keep_graph=False,
    in_place=False,
    train_stats="batch",
    eval_stats="running",
    eval_updates=False,
    gain=True,
    shift=True,
    update_mean=True,
    update_var=True,
    root=False,
    correct_again=False,
):
    """Exercise 3's layer; every argument that is not its default is a slip."""

    def layer(x, running_mean, running_var, weight, bias, training, momentum, eps):
        mean, var = x.mean(dims, keepdim=True), x.var(dims, correction=correction, keepdim=True)
        mean, var = (v.detach() if n in detach else v for n, v in (("mean", mean), ("var", var)))
        new_mean, new_var = x.mean(DIMS), x.var(DIMS, correction=buffer_correction)
        new_var = new_var.sqrt() if root else new_var
        if not keep_graph:
            new_mean, new_var = new_mean.detach(), new_var.detach()
        a = 1 - momentum if reverse else momentum
        old = channels(running_mean, running_var)
        if (training or eval_updates) and update_mean:
            running_mean = torch.lerp(running_mean, new_mean, a)
        if (training or eval_updates) and update_var:
            running_var = torch.lerp(running_var, new_var, a)
        source = train_stats if training else eval_stats
        if source == "running":
            mean, var = old
        if source == "updated":
            mean, var = channels(running_mean, running_var)
        if correct_again and not training:
            m = x[:, 0].numel()
            var = var * m / (m - 1)
        s = torch.sqrt(var + eps * eps_factor * (1 - outside)) + eps * outside
        if in_place:
            x -= mean
            mean = 0
        y = (x - mean) / s
        w, b = channels(weight, bias)
        y = y * w if gain else y
        return (y + b if shift else y), running_mean, running_var

    return layer


def without_root(x, running_mean, running_var, weight, bias, training, momentum, eps):
    _, *buffers = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    mean, var, w, b = channels(x.mean(DIMS), x.var(DIMS, correction=0), weight, bias)
    return (x - mean) / (var + eps) * w + b, *buffers


def bias_first(x, running_mean, running_var, weight, bias, *rest):
    return norm()(x, running_mean, running_var, weight, weight * bias, *rest)


def buffers_exchanged(*given):
    y, mean, var = norm()(*given)
    return y, var, mean


def samples_as_m(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm(buffer_correction=0)(
        x, running_mean, running_var, weight, bias, training, momentum, eps
    )
    biased = x.detach().var(DIMS, correction=0) * len(x) / (len(x) - 1)
    return y, mean, torch.lerp(running_var, biased, momentum) if training else var


def in_place_buffers(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    return y, running_mean.copy_(mean), running_var.copy_(var)


def in_evaluation(scale):
    """Right in training; in evaluation divided by scale(running_var, eps)."""

    def layer(x, running_mean, running_var, weight, bias, training, momentum, eps):
        if training:
            return norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
        mean, var, w, b = channels(running_mean, running_var, weight, bias)
        return (x - mean) / scale(var, eps) * w + b, running_mean, running_var

    return layer


def unshaped(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y = (x - x.mean(DIMS)) / torch.sqrt(x.var(DIMS, correction=0) + eps) * weight + bias
    return y, running_mean, running_var


def unshaped_gain(x, running_mean, running_var, weight, bias, training, momentum, eps):
    ones, zeros = torch.ones_like(weight), torch.zeros_like(bias)
    xhat, *buffers = norm()(x, running_mean, running_var, ones, zeros, training, momentum, eps)
    return xhat * weight + bias, *buffers


def detached(*names, when=(True, False)):
    """Right values; these arguments or results get no gradient in training or evaluation."""

    def layer(x, running_mean, running_var, weight, bias, training, momentum, eps):
        given = {"x": x, "weight": weight, "bias": bias}
        if training in when:
            given |= {name: given[name].detach() for name in names if name in given}
        y, *buffers = norm()(
            given["x"],
            running_mean,
            running_var,
            given["weight"],
            given["bias"],
            training,
            momentum,
            eps,
        )
        return (y.detach() if "y" in names and training in when else y), *buffers

    return layer


def half_of_the_gain(x, running_mean, running_var, weight, bias, *rest):
    half = (weight + weight.detach()) / 2
    return norm()(x, running_mean, running_var, half, bias, *rest)


def library(x, running_mean, running_var, weight, bias, training, momentum, eps):
    mean, var = running_mean.clone(), running_var.clone()
    return F.batch_norm(x, mean, var, weight, bias, training, momentum, eps), mean, var


def sizes_built_in(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm(buffer_correction=0)(
        x, running_mean, running_var, weight, bias, training, momentum, eps
    )
    biased = x.detach().var(DIMS, correction=0)
    return y, mean, torch.lerp(running_var, biased * 24 / 23, momentum) if training else var


def one_pass(x, running_mean, running_var, weight, bias, training, momentum, eps):
    _, *buffers = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    mean = x.mean(DIMS) if training else running_mean
    var = x.square().mean(DIMS) - mean.square() if training else running_var
    mean, var, w, b = channels(mean, var, weight, bias)
    return (x - mean) / torch.sqrt(var + eps) * w + b, *buffers


def with_fixed(momentum=None, eps=None):
    return lambda *given: norm()(*given[:6], momentum or given[6], eps or given[7])


FORWARD = {
    "unbiased in the batch": (norm(correction=1), "divide the variance by m, not by m - 1"),
    "biased in the buffer": (norm(buffer_correction=0), "keeps the UNBIASED variance"),
    "both swapped": (
        norm(correction=1, buffer_correction=0),
        "divide the variance by m, not by m - 1",
    ),
    "eps outside the root": (norm(outside=1.0), "eps belongs inside the root"),
    "eps missing": (norm(eps_factor=0.0), "eps is not used"),
    "InstanceNorm": (norm(dims=(2, 3)), "InstanceNorm"),
    "over the batch alone": (norm(dims=(0,)), "per channel and POSITION"),
    "LayerNorm": (norm(dims=(1, 2, 3)), "per SAMPLE is LayerNorm"),
    "momentum reversed": (norm(reverse=True), "the momentum is reversed"),
    "evaluation statistics in training": (norm(train_stats="running"), "not the running ones"),
    "updated statistics in training": (norm(train_stats="updated"), "not the updated running ones"),
    "statistics detached": (
        norm(detach=("mean", "var")),
        "no gradient flows through mean and variance",
    ),
    "mean detached": (norm(detach=("mean",)), "no gradient flows through the mean:"),
    "no root": (without_root, "the square root is missing"),
    "bias first": (bias_first, "multiplied by the gain"),
    "buffers exchanged": (buffers_exchanged, "the buffers are exchanged"),
    "variance detached": (norm(detach=("var",)), "no gradient flows through the variance"),
    "buffers with a graph": (norm(keep_graph=True), "has a grad_fn"),
    "input changed": (norm(in_place=True), "x was changed in place"),
    "buffers changed": (in_place_buffers, "running_mean was changed in place"),
    "weight ignored": (norm(gain=False), "the gain (weight) is missing"),
    "bias ignored": (norm(shift=False), "the bias is missing"),
    "gain and bias detached": (
        detached("weight", "bias"),
        "in training: no gradient reaches weight",
    ),
    "bias detached": (detached("bias"), "in training: no gradient reaches bias"),
    "half of the gain's gradient": (
        half_of_the_gain,
        "in training: the values are right, but the gradient with respect to weight",
    ),
    "y detached": (detached("y"), "in training: no gradient comes back"),
    "y detached in evaluation": (
        detached("y", when=(False,)),
        "in evaluation: no gradient comes back",
    ),
    "x detached in evaluation": (
        detached("x", when=(False,)),
        "in evaluation: no gradient reaches x",
    ),
    "gain detached in evaluation": (
        detached("weight", when=(False,)),
        "in evaluation: no gradient reaches weight",
    ),
    "both ignored": (norm(gain=False, shift=False), "gain and bias are missing"),
    "mean not updated": (norm(update_mean=False), "running_mean was not updated"),
    "variance not updated": (norm(update_var=False), "running_var was not updated"),
    "m without positions": (samples_as_m, "m counts samples and positions"),
    "standard deviation kept": (norm(root=True), "not a standard deviation"),
    "evaluation uses the batch": (
        norm(eval_stats="batch"),
        "in evaluation use the running statistics",
    ),
    "evaluation updates": (norm(eval_updates=True), "evaluation must not change running_mean"),
    "evaluation corrects again": (norm(correct_again=True), "already unbiased"),
    "eps outside in evaluation": (
        in_evaluation(lambda v, eps: v.sqrt() + eps),
        "in evaluation eps belongs",
    ),
    "momentum fixed": (with_fixed(momentum=0.1), "momentum is an argument"),
    "eps fixed": (with_fixed(eps=1e-5), "eps is an argument"),
    "nothing reshaped": (unshaped, "(C,) lines up with the width"),
    "gain not reshaped": (unshaped_gain, "weight and bias line up with the width"),
    "one-pass variance": (one_pass, "lost at a mean of ten million"),
    "only y": (lambda x, *rest: x, "expected a tuple (y, running_mean, running_var)"),
    "the library": (library, "to be solved without batch_norm"),
    "sizes built in": (sizes_built_in, "running_var for x of shape (5, 2, 3, 2)"),
    "raises": (lambda *inputs: 1 / 0, "your code raised ZeroDivisionError"),
    "None inside": (lambda *inputs: (None, None, None), "None (is the return missing?)"),
}


NUMBER = {
    "biased": (1.0, "with the biased variance nothing would move"),
    "limit": (2.0, "ten steps do not get there"),
    "one batch": (1.1, "after one batch"),
    "start forgotten": (1.3026, "the start is missing"),
    "nine batches": (1.6126, "after nine batches"),
    "eleven batches": (1.6862, "after eleven batches"),
    "start alone": (0.3487, "the ten batches are missing"),
    "share alone": (0.6513, "share of the ten batches"),
    "standard deviation": (1.2850, "a standard deviation"),
    "shares exchanged": (1.3487, "the shares are exchanged"),
    "added up": (3.0, "takes a tenth of the old value away"),
    "anything else": (7.0, "is off by"),
    "text": ("1.65", "expected a number"),
}


def table(
    axis=0,
    correction=0,
    outside=False,
    centre=True,
    sign=1,
    root=True,
    total=False,
    used_eps=None,
    detach=(),
    affine=lambda xhat, w, b: w * xhat + b,
):
    """Exercise 1's norm; every argument that is not its default is a slip."""

    def layer(x, gain, bias, eps):
        eps = eps if used_eps is None else used_eps
        mean = x.mean(axis, keepdim=True)
        var = x.var(axis, correction=correction, keepdim=True)
        mean = mean.detach() if "mean" in detach else mean
        var = var.detach() if "var" in detach else var
        var = var * len(x) if total else var
        s = var.sqrt() + eps if outside else (var + eps) ** (0.5 if root else 1)
        xhat = sign * (x - mean if centre else x) / s
        return affine(xhat, gain, bias)

    return layer


def in_place_table(x, gain, bias, eps):
    x -= x.mean(0)
    return gain * x / torch.sqrt(x.square().mean(0) + eps) + bias


def library_table(x, gain, bias, eps):
    return F.batch_norm(x, None, None, gain, bias, True, eps=eps)


TABLE = {
    "rows": (table(axis=1), "one mean for each ROW"),
    "whole table": (table(axis=(0, 1)), "one mean for the whole table"),
    "unbiased": (table(correction=1), "not by one less"),
    "eps outside": (table(outside=True), "eps belongs inside the root"),
    "eps missing": (table(used_eps=0.0), "eps is not used"),
    "eps fixed": (table(used_eps=1e-5), "eps is an argument"),
    "no root": (table(root=False), "the square root is missing"),
    "sum of squares": (table(total=True), "the MEAN of the squares, not their sum"),
    "mean kept": (table(centre=False), "centred as well"),
    "signs": (table(sign=-1), "the signs are exchanged"),
    "no gain": (table(affine=lambda xhat, w, b: xhat + b), "the gain (weight) is missing"),
    "no bias": (table(affine=lambda xhat, w, b: xhat * w), "the bias is missing"),
    "normalized alone": (table(affine=lambda xhat, w, b: xhat), "gain and bias are missing"),
    "bias first": (table(affine=lambda xhat, w, b: w * (xhat + b)), "add it last"),
    "mean detached": (table(detach=("mean",)), "no gradient flows through the mean:"),
    "variance detached": (table(detach=("var",)), "no gradient flows through the variance"),
    "both detached": (table(detach=("mean", "var")), "no gradient flows through mean and"),
    "input changed": (in_place_table, "x was changed in place"),
    "the library": (library_table, "to be solved without"),
    "nothing returned": (lambda *given: None, "None (is the return missing?)"),
}


WALK = {
    "path 1": ([4, 0, 0, 0], "path 1 alone"),
    "g": ([12, 0, 0, 0], "g as it arrives"),
    "g without its mean": ([9, -3, -3, -3], "g without its mean"),
    "no mean": ([3, -1 / 3, 1 / 3, 1], "path 3 is missing"),
    "no variance": ([3, -1, -1, -1], "path 2 is missing"),
    "no direct path": ([-2, -4 / 3, -2 / 3, 0], "path 1 is missing"),
    "path 2": ([-1, -1 / 3, 1 / 3, 1], "path 2 alone"),
    "path 3": ([-1, -1, -1, -1], "path 3 alone"),
    "all signs": ([-2, 4 / 3, 2 / 3, 0], "all three paths have the wrong sign"),
    "sign of path 2": ([4, -2 / 3, -4 / 3, -2], "the sign of path 2"),
    "sign of path 3": ([4, 2 / 3, 4 / 3, 2], "the sign of path 3"),
    "both signs": ([6, 4 / 3, 2 / 3, 0], "both turned"),
    "no m on path 3": ([-1, -13 / 3, -11 / 3, -3], "divide by m = 4"),
    "no m on path 2": ([-1, -7 / 3, 1 / 3, 3], "the division by m = 4 is missing"),
    "s squared": ([0, -2, 0, 2], "s to the power 3"),
    # with m = 4 the 1/2 of the root and the 2/m of the square are equal: both are named
    "no half": ([1, -5 / 3, -1 / 3, 1], "the 1/2 of the root's derivative is missing, or the 2/m"),
    "no 2": ([2.5, -7 / 6, -5 / 6, -0.5], "the 2 of the square"),
    "not divided": ([6, -4, -2, 0], "not divided by s"),
    "the first sample only": ([2, 0, 0, 0], "are moved as well"),
    "three numbers": ([2, -1.33, -0.67], "that are 3 numbers"),
    "anything else": ([1, 2, 3, 4], "is off by"),
}
TWO = {
    "torch's": ({"eps": 1e-5, "momentum": 0.1}, "is still blown up"),
    "momentum alone": ({"momentum": 0.01}, "is still blown up"),
    "far too large": ({"eps": 100.0, "momentum": 0.1}, "to almost nothing"),
    "a slow buffer": ({"eps": 0.3, "momentum": 1e-4}, "a momentum of 0.1"),
    "a number": (0.3, "write a dict"),
    "another name": ({"epsilon": 0.3}, "write a dict"),
    "negative": ({"eps": -0.1}, "a number above 0"),
    "text": ({"eps": "0.1"}, "a number above 0"),
    "momentum above 1": ({"eps": 0.3, "momentum": 2.0}, "at most 1"),
}

RATE = {
    "twice": (0.2, "twice the rate makes the step as long"),
    "the same": (0.1, "at the same rate the step is HALF as long"),
    "half": (0.05, "the other way round"),
    "a quarter": (0.025, "turned round"),
    "the factor": (4, "that is the factor"),
    "eight": (0.8, "one 2 too many"),
    "two": (2, "and no rate"),
    "added": (4.1, "not added"),
    "anything else": (0.3, "is off by"),
    "text": ("0.4", "expected a number"),
    "a list": ([0.4, 0.4], "expected a number"),
}

WRONG = {
    check.table: TABLE,
    check.running_variance: NUMBER,
    check.forward: FORWARD,
    check.walk_back: WALK,
    check.batch_of_two: TWO,
    check.rate_for_double: RATE,
}


test_a_wrong_answer_is_named = wrong_answers_are_named(WRONG)


def flat(x, running_mean, running_var, weight, bias, training, momentum, eps):
    """By the rows of a table, one a channel."""
    table = x.transpose(0, 1).flatten(1)
    mean, var = running_mean, running_var
    if training:
        var, mean = torch.var_mean(table, 1, correction=0)
        m = table.shape[1]
        running_mean = (1 - momentum) * running_mean + momentum * mean.detach()
        running_var = (1 - momentum) * running_var + momentum * var.detach() * m / (m - 1)
    slope = weight * (var + eps).rsqrt()
    table = (table - mean[:, None]) * slope[:, None] + bias[:, None]
    back = table.unflatten(1, (x.shape[0], *x.shape[2:])).transpose(0, 1)
    return [back, running_mean, running_var]


def by_einsum(x, running_mean, running_var, weight, bias, training, momentum, eps):
    mean, var = running_mean.clone(), running_var.clone()
    if training:
        m = x.numel() // x.shape[1]
        mean = torch.einsum("nchw->c", x) / m
        centred = x - mean.view(1, -1, 1, 1)
        var = torch.einsum("nchw,nchw->c", centred, centred) / m
        running_mean = running_mean + momentum * (mean.data - running_mean)
        running_var = running_var + momentum * (var.data * m / (m - 1) - running_var)
    xhat = (x - mean.view(1, -1, 1, 1)) / (var + eps).view(1, -1, 1, 1) ** 0.5
    return (
        torch.addcmul(bias.view(1, -1, 1, 1), xhat, weight.view(1, -1, 1, 1)),
        running_mean,
        (running_var),
    )


@pytest.mark.parametrize("layer", [norm(), detached(), flat, by_einsum, functools.partial(flat)])
def test_a_right_layer_is_accepted(layer):
    assert check.forward(layer).startswith("[ok]")  # so each slip above is its one argument


def by_rows(x, gain, bias, eps):
    """Column after column, in a loop."""
    columns = []
    for column, w, b in zip(x.T, gain, bias, strict=True):
        deviations = column - column.sum() / len(column)
        variance = (deviations @ deviations) / len(column)
        columns.append(w * deviations * (variance + eps).rsqrt() + b)
    return torch.stack(columns, 1)


def in_one_pass(x, gain, bias, eps):
    mean = x.mean(0)
    scale = gain / (x.square().mean(0) - mean.square() + eps).sqrt()
    return x * scale + (bias - mean * scale)


@pytest.mark.parametrize("norm_of_a_table", [table(), by_rows, in_one_pass])
def test_a_right_norm_of_a_table_is_accepted(norm_of_a_table):
    assert check.table(norm_of_a_table).startswith("[ok]")


@pytest.mark.parametrize("number", [1.65, 1.651, 2 - 0.9**10, torch.tensor(1.6513)], ids=str)
def test_a_rounded_running_variance_is_accepted(number):
    assert check.running_variance(number).startswith("[ok]")


UNUSUAL = {
    "a tensor": (check.walk_back, torch.tensor([2, -4 / 3, -2 / 3, 0])),
    "a column": (check.walk_back, torch.tensor([[2], [-4 / 3], [-2 / 3], [0]])),
    "rounded": (check.walk_back, [2, -1.33, -0.67, 0]),
    "a walk of fractions": (check.walk_back, (2, Fraction(-4, 3), Fraction(-2, 3), 0)),
    "a fraction of a rate": (check.rate_for_double, Fraction(2, 5)),
    "a tensor of a rate": (check.rate_for_double, torch.tensor(0.4)),
    "eps alone": (check.batch_of_two, {"eps": torch.tensor(0.3)}),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_is_accepted(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
