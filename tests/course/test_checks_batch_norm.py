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


def positions_as_m(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    m = x[0, 0].numel()
    by_positions = x.detach().var(DIMS, correction=0) * m / (m - 1)
    return y, mean, torch.lerp(running_var, by_positions, momentum) if training else var


def rows_as_m(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    m = len(x) * x.shape[2]
    by_rows = x.detach().var(DIMS, correction=0) * m / (m - 1)
    return y, mean, torch.lerp(running_var, by_rows, momentum) if training else var


def all_as_m(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    m = x.numel()
    by_all = x.detach().var(DIMS, correction=0) * m / (m - 1)
    return y, mean, torch.lerp(running_var, by_all, momentum) if training else var


def of_images(x, running_mean, running_var, weight, bias, training, momentum, eps):
    _, *buffers = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    mean = x.mean(DIMS) if training else running_mean
    var = x.var((2, 3), correction=0).mean(0) if training else running_var
    mean, var, w, b = channels(mean, var, weight, bias)
    return (x - mean) / torch.sqrt(var + eps) * w + b, *buffers


def var_replaced(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    return y, mean, x.detach().var(DIMS) if training else var


def root_of_the_buffer(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    return y, mean, var.sqrt() if training else var


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
    "over batch, channels and height": (norm(dims=(0, 1, 2)), "per COLUMN of pixels"),
    "the images' own variances": (of_images, "the mean of the images' own variances"),
    "m of all numbers": (all_as_m, "m counts the numbers of ONE channel"),
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
    "m without samples": (positions_as_m, "not the positions of one image alone"),
    "m without the width": (rows_as_m, "the width is missing"),
    "buffers replaced": (with_fixed(momentum=1.0), "running_mean is the batch's"),
    "running_var replaced": (var_replaced, "running_var is the batch's"),
    "standard deviation kept": (norm(root=True), "not a standard deviation"),
    "the root of the buffer": (root_of_the_buffer, "yours ends with a root"),
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


def in_one_pass(x, gain, bias, eps):
    mean = x.mean(0)
    scale = gain / (x.square().mean(0) - mean.square() + eps).sqrt()
    return x * scale + (bias - mean * scale)


def lower_bound(x, gain, bias, eps):
    var = torch.maximum(x.var(0, correction=0), torch.tensor(eps))
    return gain * (x - x.mean(0)) / var.sqrt() + bias


def squares_of_x(x, gain, bias, eps):
    return gain * (x - x.mean(0)) / (x.square().mean(0) + eps).sqrt() + bias


def median(x, gain, bias, eps):
    return gain * (x - x.median(0)[0]) / (x.var(0, correction=0) + eps).sqrt() + bias


def median_throughout(x, gain, bias, eps):
    deviations = x - x.median(0)[0]
    return gain * deviations / (deviations.square().mean(0) + eps).sqrt() + bias


def by_four(of_the_mean):
    def layer(x, gain, bias, eps):
        mean = x.sum(0) / 4 if of_the_mean else x.mean(0)
        deviations = x - mean
        return gain * deviations / ((deviations**2).sum(0) / 4 + eps).sqrt() + bias

    return layer


def refuses_one_sample(x, gain, bias, eps):
    if len(x) == 1:
        raise ValueError("too few")
    return table()(x, gain, bias, eps)


TABLE = {
    "rows": (table(axis=1), "one mean for each ROW"),
    "whole table": (table(axis=(0, 1)), "one mean for the whole table"),
    "whole table's variance": (
        lambda x, gain, bias, eps: (
            gain * (x - x.mean(0)) / (x.var(correction=0) + eps).sqrt() + bias
        ),
        "the variance is the whole table's",
    ),
    "one sample": (
        lambda x, gain, bias, eps: (
            gain * (x - x.mean(0)) / (x.var(0) * (len(x) - 1) / len(x) + eps).sqrt() + bias
        ),
        "a table of one sample becomes NaN",
    ),
    "one sample refused": (refuses_one_sample, "a table of one sample: your code raised"),
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
    "gain and bias exchanged": (
        table(affine=lambda xhat, w, b: b * xhat + w),
        "gain and bias are exchanged",
    ),
    "eps squared": (
        lambda x, gain, bias, eps: table()(x, gain, bias, eps * eps),
        "eps is squared",
    ),
    "eps as a lower bound": (lower_bound, "it is no lower bound"),
    "squares of x": (squares_of_x, "yours squares x itself"),
    "median": (median, "that is the median; subtract the mean."),
    "median throughout": (median_throughout, "also where you square"),
    "variance by 4": (by_four(of_the_mean=False), "the variance is divided by 4"),
    "sums by 4": (by_four(of_the_mean=True), "the sums are divided by 4"),
    "one pass": (in_one_pass, "lost at a mean of ten million"),
}


def walked(two=1.0, three=1.0, one=1.0, s=Fraction(3)):
    """The answer in fractions, path by path; each argument that is not its default is a slip."""
    column = (2, 4, 6, 8, 10)
    paths = []
    for place, x in enumerate(column):
        path_1 = 27 / s if place == 0 else 0
        path_2 = Fraction(27 * 4, 2) / s**3 * Fraction(2, 5) * (x - 6)
        path_3 = -27 / s / 5
        paths.append(one * path_1 + two * path_2 + three * path_3)
    return paths


def test_the_walk_is_what_autograd_finds():
    x = torch.tensor([[2.0], [4.0], [6.0], [8.0], [10.0]], requires_grad=True)
    xhat = F.batch_norm(x, None, None, training=True, eps=1.0)
    (gradient,) = torch.autograd.grad(xhat, x, torch.tensor([[27.0], [0], [0], [0], [0]]))
    torch.testing.assert_close(gradient.flatten(), torch.tensor([4, -3.4, -1.8, -0.2, 1.4]))
    assert [float(number) for number in walked()] == pytest.approx(gradient.flatten().tolist())


WALK = {
    "path 1": ([9, 0, 0, 0, 0], "path 1 alone"),
    "g": ([27, 0, 0, 0, 0], "g as it arrives"),
    "g without its mean": ([21.6, -5.4, -5.4, -5.4, -5.4], "g without its mean"),
    "no mean": (walked(three=0), "path 3 is missing"),
    "no variance": ([7.2, -1.8, -1.8, -1.8, -1.8], "path 2 is missing"),
    "no direct path": (walked(one=0), "path 1 is missing"),
    "path 2": ([-3.2, -1.6, 0, 1.6, 3.2], "path 2 alone"),
    "path 3": ([-1.8] * 5, "path 3 alone"),
    "all signs": ([-4, 3.4, 1.8, 0.2, -1.4], "all three paths have the wrong sign"),
    "sign of path 2": (walked(two=-1), "the sign of path 2"),
    "sign of path 3": (walked(three=-1), "the sign of path 3"),
    "both signs": (walked(two=-1, three=-1), "both turned"),
    "no m on path 3": (walked(three=5), "moves the mean by a fifth only"),
    "path 3 to the first alone": ([4, -1.6, 0, 1.6, 3.2], "path 3 reaches all samples"),
    "path 2 to the first alone": ([4, -1.8, -1.8, -1.8, -1.8], "path 2 reaches all samples"),
    "path 3 to the first alone, no m": ([-3.2, -1.6, 0, 1.6, 3.2], "path 2 alone"),  # 9 - 9 = 0
    "m - 1 on path 2": (walked(two=1.25), "path 2: divide the variance by m = 5, not by m - 1"),
    "m - 1 on path 3": (walked(three=1.25), "path 3: divide the mean by m = 5, not by m - 1"),
    "m - 1 on both": (walked(1.25, 1.25), "the paths 2 and 3: divide by m = 5"),
    "no m on path 2": (walked(two=5), "the division by m = 5 is missing"),
    "no m on both": (walked(5, 5), "missing on the paths 2 and 3"),
    "no 2/m": (walked(two=2.5), "the factor 2/m = 2/5"),
    "no half": (walked(two=2), "the 1/2 of the root's derivative is missing"),
    "no 2": (walked(two=0.5), "the 2 of the square"),
    "s squared": (walked(two=3), "s to the power 3, not 2"),
    "s alone": (walked(two=9), "s to the power 3, not 1"),
    "one xhat": (walked(two=1 / 3), "one of yours has xhat"),
    "two xhat": (walked(two=1 / 9), "yours have xhat"),
    "no eps": (walked(s=8**0.5), "eps is missing"),
    "no root": (walked(s=9), "s is the root of 9"),
    "not divided": ([12, -10.2, -5.4, -0.6, 4.2], "not divided by s"),
    "the first sample only": ([4, 0, 0, 0, 0], "are moved as well"),
    "path 1 to all": ([4, 5.6, 7.2, 8.8, 10.4], "path 1 reaches the first sample only"),
    "x twice": ([6.4, -3.4, -4.2, -5, -5.8], "yours have x."),
    "x at the variance": ([8.8, -1, -1.8, -2.6, -3.4], "at the variance yours has x."),
    "x from the variance": ([8.8, 1.4, 3, 4.6, 6.2], "from the variance yours has x."),
    "four numbers": ([4, -3.4, -1.8, -0.2], "you gave 4 of them"),
    "one decimal is exact, one wrong": ([4, -3.4, -1.8, -0.2, 1.5], "is off by"),
    "anything else": ([1, 2, 3, 4, 5], "is off by"),
}
TWO = {
    "torch's": ({"eps": 1e-5, "momentum": 0.1}, "is still blown up"),
    "momentum alone": ({"momentum": 0.01}, "is still blown up"),
    "far too large": ({"eps": 100.0, "momentum": 0.1}, "to almost nothing"),
    "a slow buffer": ({"eps": 0.3, "momentum": 1e-4}, "a momentum of 0.1"),
    "a number": (0.3, "write a dict"),
    "another name": ({"epsilon": 0.3}, "there is no setting 'epsilon'"),
    "a little too small": ({"eps": 0.03}, "try a larger one"),
    "the last pair alone": ({"eps": 0.3, "momentum": 1.0}, "a smaller momentum"),
    "negative": ({"eps": -0.1}, "a number above 0"),
    "text": ({"eps": "0.1"}, "a number above 0"),
    "momentum above 1": ({"eps": 0.3, "momentum": 2.0}, "at most 1"),
}

RATE = {
    "twice": (0.2, "twice the rate makes the step as long"),
    "the same": (0.1, "at the same rate the step is HALF as long"),
    "half": (0.05, "the other way round"),
    "a quarter": (0.025, "turned round"),
    "the factor": (4, "that is a factor"),
    "sixteen": (1.6, "two 2 too many"),
    "squared": (0.04, "is not squared"),
    "eight": (0.8, "one 2 too many"),
    "two": (2, "and no rate"),
    "added": (4.1, "not added"),
    "0.4 squared": (0.16, "which is then squared"),
    "anything else": (0.3, "is off by"),
    "text": ("0.4", "expected a number"),
    "a list": ([0.4, 0.4], "expected a number"),
}

WRONG = {
    check.table: TABLE,
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


def by_other_names(h, w, b, e):
    return by_rows(h, w, b, e)


@pytest.mark.parametrize("norm_of_a_table", [table(), by_rows, by_other_names])
def test_a_right_norm_of_a_table_is_accepted(norm_of_a_table):
    assert check.table(norm_of_a_table).startswith("[ok]")


UNUSUAL = {
    "a tensor": (check.walk_back, torch.tensor([4, -3.4, -1.8, -0.2, 1.4])),
    "a column": (check.walk_back, torch.tensor([[4], [-3.4], [-1.8], [-0.2], [1.4]])),
    "rounded": (check.walk_back, [4, -3.4, -1.8, -0.2, 1.4]),
    "a walk of fractions": (check.walk_back, tuple(walked())),
    "a fraction of a rate": (check.rate_for_double, Fraction(2, 5)),
    "a tensor of a rate": (check.rate_for_double, torch.tensor(0.4)),
    "eps alone": (check.batch_of_two, {"eps": torch.tensor(0.3)}),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_is_accepted(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
