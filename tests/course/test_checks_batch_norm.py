"""The checks of lesson 01 name the slip of wrong answers."""

from fractions import Fraction

import pytest
import sympy
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
    "eps missing": (norm(eps_factor=0.0), "eps is missing in the root"),
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
    "sizes built in": (sizes_built_in, "running_var for 2 images of 5 channels"),
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
    return gradient(lambda d, x, w, g, h, s: (dy - dy.mean(0) - xhat_part(dy, h)) / s)(
        dy, x, weight, eps
    )


def unbiased(dy, x, weight, eps):
    s = torch.sqrt(x.var(0) + eps)
    g, xhat = weight * dy, (x - x.mean(0)) / s
    return (g - g.mean(0) - xhat_part(g, xhat)) / s


def three_terms(d, x, w, g, h, s):  # right
    return (g - g.mean(0) - xhat_part(g, h)) / s


def by_autograd(dy, x, weight, eps):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(
        F.batch_norm(leaf, None, None, weight, training=True, eps=eps), leaf, dy
    )[0]


GRADIENT = {
    "second mean a sum": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - h * (g * h).sum(0)) / s),
        "the second mean is a sum",
    ),
    "first mean a sum": (
        gradient(lambda d, x, w, g, h, s: (g - g.sum(0) - xhat_part(g, h)) / s),
        "the first mean is a sum",
    ),
    "no xhat in front": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) - (g * h).mean(0)) / s),
        "multiply it by xhat",
    ),
    "last sign": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0) + xhat_part(g, h)) / s),
        "the last term is subtracted; yours is added",
    ),
    "autograd": (by_autograd, "to be solved without autograd"),
    "the library": (
        lambda dy, x, w, eps: gradients.batch_norm_backward(dy, x, w, eps=eps)[0],
        "to be solved without normlib",
    ),
    "constants": (gradient(lambda d, x, w, g, h, s: g / s), "are not constants"),
    "no mean term": (
        gradient(lambda d, x, w, g, h, s: (g - xhat_part(g, h)) / s),
        "mean(g) is missing",
    ),
    "no xhat term": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean(0)) / s),
        "through the variance",
    ),
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
        lambda dy, x, w, eps: gradient(three_terms)(dy, x, w, 0.0),
        "eps is missing in s",
    ),
    "means over everything": (
        gradient(lambda d, x, w, g, h, s: (g - g.mean() - h * (g * h).mean()) / s),
        "yours run over everything",
    ),
    "one number per channel": (
        gradient(lambda d, x, w, g, h, s: (g / s).sum(0)),
        "dx has shape (3,)",
    ),
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


COLUMN = {
    "normalized alone": ([-0.6, -0.6, 0.6, 0.6], "gain and bias are missing"),
    "no gain": ([0.4, 0.4, 1.6, 1.6], "the gain is missing"),
    "no bias": ([-6, -6, 6, 6], "the bias is missing"),
    "no eps": ([-9, -9, 11, 11], "eps is missing"),
    "eps outside": (
        [1 - 30 / 19, 1 - 30 / 19, 1 + 30 / 19, 1 + 30 / 19],
        "eps belongs inside the root",
    ),
    "unbiased": ([1 - 30 / 28**0.5] * 2 + [1 + 30 / 28**0.5] * 2, "not by m - 1"),
    "no root": ([-0.2, -0.2, 2.2, 2.2], "take the root"),
    "roots added": ([1 - 30 / 7] * 2 + [1 + 30 / 7] * 2, "not 3 + 4"),
    "bias first": ([4, 4, 16, 16], "the bias is added before the gain"),
    "mean kept": ([5, 5, 17, 17], "the mean is not subtracted"),
    "signs": ([7, 7, -5, -5], "the signs are exchanged"),
    "sum of squares": ([1 - 30 / 52**0.5] * 2 + [1 + 30 / 52**0.5] * 2, "divide their sum 36 by 4"),
    "two numbers": ([-5, 7], "that are 2 numbers"),
}


def at_variance(change):
    """Exercise 4 with one thing changed: change(g, deviations, s, m)."""

    def student(g, x, eps):
        deviations = x - x.mean(0)
        return change(g, deviations, torch.sqrt(deviations.square().mean(0) + eps), len(x))

    return student


def variance_by_autograd(g, x, eps):
    var = x.var(0, correction=0).requires_grad_()
    return torch.autograd.grad((x - x.mean(0)) / torch.sqrt(var + eps), var, g)[0]


VARIANCE = {
    "sign": (at_variance(lambda g, d, s, m: (g * d).sum(0) / (2 * s**3)), "the sign"),
    "no half": (at_variance(lambda g, d, s, m: -(g * d).sum(0) / s**3), "the factor 1/2"),
    "square": (at_variance(lambda g, d, s, m: -(g * d).sum(0) / (2 * s**2)), "not 2"),
    "root": (at_variance(lambda g, d, s, m: -(g * d).sum(0) / (2 * s)), "not 1"),
    "sixth power": (
        at_variance(lambda g, d, s, m: -(g * d).sum(0) / (2 * s**6)),
        "is s to the power -3",
    ),
    "mean": (at_variance(lambda g, d, s, m: -(g * d).mean(0) / (2 * s**3)), "a sum over the batch"),
    "not added up": (
        at_variance(lambda g, d, s, m: -(g * d) / (2 * s**3)),
        "one number for each channel",
    ),
    "features": (
        at_variance(lambda g, d, s, m: (-(g * d) / (2 * s**3)).sum(1)),
        "over the features",
    ),
    "xhat": (
        at_variance(lambda g, d, s, m: -(g * d / s).sum(0) / (2 * s**3)),
        "xhat is divided by s already",
    ),
    "no g": (at_variance(lambda g, d, s, m: -d.sum(0) / (2 * s**3)), "g is missing"),
    "no mean": (
        lambda g, x, eps: -(g * x).sum(0) / (2 * torch.sqrt(x.var(0, correction=0) + eps) ** 3),
        "the mean is not subtracted",
    ),
    "no eps": (lambda g, x, eps: at_variance(right_variance)(g, x, 0.0), "eps is missing"),
    "unbiased": (
        lambda g, x, eps: -(g * (x - x.mean(0))).sum(0) / (2 * torch.sqrt(x.var(0) + eps) ** 3),
        "not by m - 1",
    ),
    "autograd": (variance_by_autograd, "to be solved without autograd"),
}


def right_variance(g, d, s, m):
    return -(g * d).sum(0) / (2 * s**3)


SLOPE = {
    "mean fixed": (lambda eps: 1 / eps**0.5, "holds the mean fixed"),
    "no root": (lambda eps: 1 / (2 * eps), "divide by its root"),
    "neither": (lambda eps: 1 / eps, "leaves out the root"),
    "multiplied": (lambda eps: eps**0.5 / 2, "the steeper the slope"),
    "zero": (lambda eps: 0.0, "Look where they are equal"),
    "two inside": (lambda eps: 1 / (2 * eps) ** 0.5, "outside of the root"),
    "quarter": (lambda eps: 1 / (4 * eps**0.5), "halves twice"),
    "other sample": (lambda eps: -1 / (2 * eps**0.5), "in the OTHER sample"),
}


def folded(scale=lambda v, gain, eps: gain / torch.sqrt(v + eps), shifted=None):
    def student(weight, bias, mean, var, gain, shift, eps):
        factor = scale(var, gain, eps)
        new_bias = factor * (bias - mean) + shift
        if shifted is not None:
            new_bias = shifted(factor, bias, mean, shift)
        return factor[:, None] * weight, new_bias

    return student


def columns_scaled(weight, bias, mean, var, gain, shift, eps):
    factor = gain / torch.sqrt(var + eps)
    return weight * factor, factor * (bias - mean) + shift


def weight_kept(weight, *rest):
    return weight, folded()(weight, *rest)[1]


FOLD = {
    "weight kept": (weight_kept, "the weight is not scaled"),
    "columns scaled": (columns_scaled, "your code raised RuntimeError"),
    "bias not scaled": (
        folded(shifted=lambda f, b, m, s: b - f * m + s),
        "own bias passes through",
    ),
    "bias forgotten": (folded(shifted=lambda f, b, m, s: s - f * m), "own bias is missing"),
    "mean forgotten": (folded(shifted=lambda f, b, m, s: f * b + s), "the mean is missing"),
    "mean not scaled": (
        folded(shifted=lambda f, b, m, s: f * b - m + s),
        "the mean is scaled, too",
    ),
    "mean added": (folded(shifted=lambda f, b, m, s: f * (b + m) + s), "the mean is subtracted"),
    "shift forgotten": (folded(shifted=lambda f, b, m, s: f * (b - m)), "(shift) is missing"),
    "shift scaled": (folded(shifted=lambda f, b, m, s: f * (b - m + s)), "it is not scaled"),
    "by the variance": (folded(lambda v, gain, eps: gain / (v + eps)), "not by the variance"),
    "multiplied": (folded(lambda v, gain, eps: gain * torch.sqrt(v + eps)), "multiply or divide"),
    "no gain": (folded(lambda v, gain, eps: 1 / torch.sqrt(v + eps)), "the gain is missing"),
    "no eps": (folded(lambda v, gain, eps: gain / torch.sqrt(v)), "eps is missing"),
    "eps outside": (folded(lambda v, gain, eps: gain / (torch.sqrt(v) + eps)), "inside the root"),
    "weight alone": (lambda weight, *rest: weight, "expected a tuple"),
}

WRONG = {
    check.column: COLUMN,
    check.running_variance: NUMBER,
    check.forward: FORWARD,
    check.variance_gradient: VARIANCE,
    check.input_gradient: GRADIENT,
    check.steepest: SLOPE,
    check.fold: FOLD,
}


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


UNUSUAL = {
    "a tensor": (check.column, torch.tensor([-5.0, -5.0, 7.0, 7.0])),
    "a column": (check.column, torch.tensor([[-5.0], [-5.0], [7.0], [7.0]])),
    "fractions": (check.column, (Fraction(-5), Fraction(-5), Fraction(7), Fraction(7))),
    "powers": (
        check.variance_gradient,
        lambda g, x, eps: (
            -0.5
            * torch.einsum("nc,nc->c", g, x - x.mean(0))
            * (x.var(0, correction=0) + eps) ** -1.5
        ),
    ),
    "paths": (check.input_gradient, lambda dy, x, w, eps: by_paths(w * dy, x, eps)),
    "SymPy": (check.steepest, lambda eps: 1 / (2 * sympy.sqrt(eps))),
    "a matrix": (
        check.fold,
        lambda weight, bias, mean, var, gain, shift, eps: (
            torch.diag(gain * (var + eps) ** -0.5) @ weight,
            shift + (bias - mean) * gain * (var + eps) ** -0.5,
        ),
    ),
}


def by_paths(g, x, eps):
    d, m = x - x.mean(0), len(x)
    s = (d.square().mean(0) + eps).sqrt()
    return g / s - (g * d).sum(0) / s**3 * d / m - g.sum(0) / s / m


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_right_answer_is_accepted(name):
    check_, answer = UNUSUAL[name]
    assert check_(answer).startswith("[ok]")
