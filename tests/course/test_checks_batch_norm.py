"""The checks of lesson 01 name the slip of wrong answers."""

import pytest
import torch
import torch.nn.functional as F

from normcourse.checks import batch_norm as check
from normlib import gradients
from tests.course.solutions import every_slip

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
    """Exercise 1's layer; every argument that is not its default is a slip."""

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


def samples_as_m(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm(buffer_correction=0)(
        x, running_mean, running_var, weight, bias, training, momentum, eps
    )
    biased = x.detach().var(DIMS, correction=0) * len(x) / (len(x) - 1)
    return y, mean, torch.lerp(running_var, biased, momentum) if training else var


def in_place_buffers(x, running_mean, running_var, weight, bias, training, momentum, eps):
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps), running_mean, 0


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
    return F.batch_norm(x, None, None, training=True, eps=eps) * weight + bias, running_mean, running_var


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
    "both swapped": (norm(correction=1, buffer_correction=0), "divide the variance by m, not by m - 1"),
    "eps outside the root": (norm(outside=1.0), "eps belongs inside the root"),
    "eps missing": (norm(eps_factor=0.0), "eps is missing in the root"),
    "InstanceNorm": (norm(dims=(2, 3)), "InstanceNorm"),
    "over the batch alone": (norm(dims=(0,)), "per channel and POSITION"),
    "LayerNorm": (norm(dims=(1, 2, 3)), "per SAMPLE is LayerNorm"),
    "momentum reversed": (norm(reverse=True), "the momentum is reversed"),
    "evaluation statistics in training": (norm(train_stats="running"), "not the running ones"),
    "updated statistics in training": (norm(train_stats="updated"), "not the updated running ones"),
    "statistics detached": (norm(detach=("mean", "var")), "no gradient flows through mean and variance"),
    "variance detached": (norm(detach=("var",)), "no gradient flows through the variance"),
    "buffers with a graph": (norm(keep_graph=True), "has a grad_fn"),
    "input changed": (norm(in_place=True), "x was changed in place"),
    "buffers changed": (in_place_buffers, "running_mean was changed in place"),
    "weight ignored": (norm(gain=False), "weight is ignored"),
    "bias ignored": (norm(shift=False), "bias is ignored"),
    "both ignored": (norm(gain=False, shift=False), "weight and bias are ignored"),
    "mean not updated": (norm(update_mean=False), "running_mean was not updated"),
    "variance not updated": (norm(update_var=False), "running_var was not updated"),
    "m without positions": (samples_as_m, "m counts samples and positions"),
    "standard deviation kept": (norm(root=True), "not a standard deviation"),
    "evaluation uses the batch": (norm(eval_stats="batch"), "in evaluation use the running statistics"),
    "evaluation updates": (norm(eval_updates=True), "evaluation must not change running_mean"),
    "evaluation corrects again": (norm(correct_again=True), "already unbiased"),
    "eps outside in evaluation": (in_evaluation(lambda v, eps: v.sqrt() + eps), "in evaluation eps belongs"),
    "momentum fixed": (with_fixed(momentum=0.1), "momentum is an argument"),
    "eps fixed": (with_fixed(eps=1e-5), "eps is an argument"),
    "nothing reshaped": (unshaped, "(C,) lines up with the width"),
    "gain not reshaped": (unshaped_gain, "weight and bias line up with the width"),
    "one-pass variance": (one_pass, "lost at a mean of ten million"),
    "only y": (lambda x, *rest: x, "expected a tuple (y, running_mean, running_var)"),
    "raises": (lambda *inputs: 1 / 0, "your code raised ZeroDivisionError"),
    "None inside": (lambda *inputs: (None, None, None), "None (is the return missing?)"),
}


def gradient(change):
    """Exercise 2's gradient with one thing changed: change(dy, x, weight, g, xhat, s) -> dx."""

    def student(dy, x, weight, eps):
        s = torch.sqrt(x.var(0, correction=0) + eps)
        return change(dy, x, weight, weight * dy, (x - x.mean(0)) / s, s)

    return student


def xhat_part(g, xhat):
    return xhat * (g * xhat).mean(0)


def overwrites(dy, x, weight, eps):
    dy *= weight
    return gradient(lambda d, x, w, g, h, s: (dy - dy.mean(0) - xhat_part(dy, h)) / s)(dy, x, weight, eps)


def unbiased(dy, x, weight, eps):
    s = torch.sqrt(x.var(0) + eps)
    g, xhat = weight * dy, (x - x.mean(0)) / s
    return (g - g.mean(0) - xhat_part(g, xhat)) / s


GRADIENT = {
    "constants": (gradient(lambda d, x, w, g, h, s: g / s), "are not constants"),
    "no mean term": (gradient(lambda d, x, w, g, h, s: (g - xhat_part(g, h)) / s), "mean(g) is missing"),
    "no xhat term": (gradient(lambda d, x, w, g, h, s: (g - g.mean(0)) / s), "through the variance"),
    "by the variance": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - xhat_part(g, h)) / s**2),
        "you divided by the variance",
    ),
    "not divided": (
        gradient(lambda d, x, w, g, h, s: g - g.mean(0) - xhat_part(g, h)),
        "not divided by s",
    ),
    "sums": (
        gradient(lambda d, x, w, g, h, s: (g - g.sum(0) - h * (g * h).sum(0)) / s),
        "have a mean where you have a sum",
    ),
    "no gain": (
        gradient(lambda d, x, w, g, h, s: (d - d.mean(0) - xhat_part(d, h)) / s),
        "the gain is missing: g = w dy",
    ),
    "gain in the first term": (
        gradient(lambda d, x, w, g, h, s: (g - d.mean(0) - xhat_part(d, h)) / s),
        "missing in the two means",
    ),
    "means over features": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(1, True) - h * (g * h).mean(1, True)) / s),
        "which is LayerNorm",
    ),
    "x for xhat": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - x * (g * x).mean(0)) / s),
        "xhat in both places",
    ),
    "signs": (
        gradient(lambda d, x, w, g, h, s: (g + g.mean(0) + xhat_part(g, h)) / s),
        "subtracted; yours are added",
    ),
    "unbiased variance": (unbiased, "divide by m, not by m - 1"),
    "no eps": (
        lambda dy, x, w, eps: gradients.batch_norm_backward(dy, x, w, eps=0.0)[0],
        "eps is missing in s",
    ),
    "means over everything": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean() - h * (g * h).mean()) / s),
        "yours run over everything",
    ),
    "one number per channel": (gradient(lambda d, x, w, g, h, s: (g / s).sum(0)), "dx has shape (3,)"),
    "in place": (overwrites, "dy was changed in place"),
    "returns nothing": (gradient(lambda *_: None), "None (is the return missing?)"),
}

NUMBER = {
    "biased": (1.0, "with the biased variance nothing would move"),
    "limit": (2.0, "ten steps do not get there"),
    "one batch": (1.1, "after one batch"),
    "start forgotten": (1.3026, "the start is missing"),
    "nine batches": (1.6126, "after nine batches"),
    "share alone": (0.6513, "share of the ten batches"),
    "standard deviation": (1.2850, "a standard deviation"),
    "shares exchanged": (1.3487, "the shares are exchanged"),
    "anything else": (7.0, "is off by"),
    "text": ("1.65", "expected a number"),
}


WRONG = {check.forward: FORWARD, check.input_gradient: GRADIENT, check.running_variance: NUMBER}


@every_slip(WRONG)
def test_a_wrong_answer_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]")
    assert message in verdict


def test_the_unchanged_layer_of_these_tests_is_accepted():
    assert check.forward(norm()).startswith("[ok]")  # so each slip above is its one argument


@pytest.mark.parametrize("number", [1.65, 1.651, 2 - 0.9**10, torch.tensor(1.6513)], ids=str)
def test_a_rounded_running_variance_is_accepted(number):
    assert check.running_variance(number).startswith("[ok]")
