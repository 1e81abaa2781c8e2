"""Checks of lesson 01a: the input gradient, the steepest slope, a fold, and a test of layers."""

import math
from functools import partial

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.brackets import BRACKETS, gradient
from normcourse.checks.moments import mean
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import Slip, exercise
from normlib import functional, gradients

EPS = 0.5  # large, so that a forgotten eps shows


@exercise("Exercise 1 (input gradient)", "1/s times a bracket with three terms")
def input_gradient(student) -> None:
    """student(dy, x, weight, eps) for dy, x (N, C)."""
    watched = forbid(student, "autograd", "normlib", "batch_norm_backward")
    cases = [
        {
            "dy": case["dy"],
            "x": case["x"],
            "weight": draw(case["x"].shape[1], seed=4),
            "eps": (case["eps"]),
        }
        for case in _batches()
    ]
    calls(watched, _input_gradient, *cases, slips=GRADIENT_SLIPS, what="dx")


@exercise("Exercise 2 (the steepest slope)", "the gain is 1")
def steepest(student) -> None:
    """student(eps) -> the largest slope of BatchNorm over two samples, 1 / (2 sqrt(eps))."""
    slips = {
        "1/sqrt(eps) holds the mean fixed; it moves along with the sample, by half of the step.": (
            lambda eps: eps**-0.5
        ),
        "eps stands inside the root: divide by its root, not by eps.": lambda eps: 0.5 / eps,
        "1/eps leaves out the root, and the half that comes through the mean.": lambda eps: 1 / eps,
        "multiply or divide? The smaller eps is, the steeper the slope.": lambda eps: (
            0.5 * eps**0.5
        ),
        "that is the slope for a tiny eps and samples that differ. "
        "Look where they are equal.": lambda eps: 0.0,
        "the 2 stands outside of the root: 1 / (2 sqrt(eps)).": lambda eps: (2 * eps) ** -0.5,
        "1/4 halves twice: at equal samples xhat is 0, "
        "and the last term of the bracket vanishes.": (lambda eps: 0.25 * eps**-0.5),
        "the half divides: at equal samples the bracket is 1 - 1/2.": lambda eps: 2 * eps**-0.5,
        "the variance at the steepest point is 0, not eps: the samples are equal.": (
            lambda eps: eps / (2 * (2 * eps) ** 1.5)
        ),
        "eps is the argument; yours is the slope at 1e-5, whatever it is.": (
            lambda eps: 0.5 * 1e-5**-0.5
        ),
        "that is the slope in the OTHER sample: it is negative.": lambda eps: -0.5 * eps**-0.5,
    }
    calls(
        student,
        lambda eps: 0.5 * eps**-0.5,
        {"eps": 0.04},
        {"eps": 0.3},
        slips=slips,
        what="the slope",
    )


@exercise("Exercise 3 (fold)")
def fold(student) -> None:
    """student(weight, bias, mean, var, gain, shift, eps) -> weight, bias of one Linear layer."""
    # the first is square: there the factor can be put on the columns, and the slip is named
    cases = [_linear_and_norm(4, 4, 0.5), _linear_and_norm(5, 3, 0.1), _linear_and_norm(2, 4, 0.2)]
    names = ("the weight", "the bias")
    calls(forbid(student, "normlib"), _fold, *cases, slips=FOLD_SLIPS, what=names)


@exercise(
    "Exercise 4 (the test that was missing)",
    "five BatchNorm layers",
    "each of the five",
    r"variance as \mathrm{E}(x^{2}) - \mathrm{E}(x)^{2}",
    "lacks two of its three terms",
    "seven patients: four have bugs from the table, one",
)
def bug_clinic(student) -> None:
    """student(layer) raises AssertionError for a wrong layer with F.batch_norm's signature."""
    for name, layer in (
        ("torch's", torch.nn.functional.batch_norm),
        ("normlib's", functional.batch_norm),
    ):
        if reason := _rejects(student, layer):
            raise Slip(
                f"your test rejects {name} batch_norm, which is right up to rounding ({reason}). "
                "Compare with a tolerance, and with a wider one at a large mean."
            )
    for layer, advice in PATIENTS.items():
        if not _rejects(student, layer):
            raise Slip(f"your test lets a wrong layer pass: {advice}")


# Exercise 1


def _batches() -> list[dict]:
    """Two batches (N, C) of x and a gradient, neither square."""
    return [
        {"dy": draw(5, 3, seed=3), "x": 2 * draw(5, 3, seed=1) + 1, "eps": EPS},
        {"dy": draw(4, 7, seed=6), "x": 3 * draw(4, 7, seed=5) - 1, "eps": 0.2},
    ]


def _input_gradient(dy: Tensor, x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return gradients.batch_norm_backward(dy, x, weight, eps=eps)[0]


def _over_features(dy, x, weight, eps):
    return _input_gradient((weight * dy).T, x.T, torch.ones(len(x)), eps).T


def _bracket(change):
    """A gradient whose bracket is change(g, xhat, m)."""
    return lambda dy, x, weight, eps: gradient(
        dy, x, weight, eps, 0, bracket=lambda g, xhat, mean: change(g, xhat, len(x))
    )


GRADIENT_SLIPS = {text: partial(wrong, dim=0) for text, wrong in BRACKETS.items()} | {
    "the gain stands in g already; yours multiplies by it twice.": lambda dy, x, weight, eps: (
        _input_gradient(weight * dy, x, weight, eps)
    ),
    "the sum over the batch is divided by m - 1; the mean divides by m.": _bracket(
        lambda g, h, m: g - (g.sum(0) + h * (g * h).sum(0)) / (m - 1)
    ),
    "the means run over the batch, dim 0; yours run over the features, which is LayerNorm.": (
        _bracket(lambda g, h, m: g - mean(g) - h * mean(g * h))
    ),
    "means per channel; yours run over everything.": _bracket(
        lambda g, h, m: g - g.mean() - h * (g * h).mean()
    ),
    "all statistics run over the batch, dim 0; "
    "yours run over the features, which is LayerNorm.": _over_features,
}


# Exercise 3


def _linear_and_norm(outputs: int, inputs: int, eps: float) -> dict:
    return {
        "weight": draw(outputs, inputs, seed=inputs),
        "bias": draw(outputs, seed=1),
        "mean": draw(outputs, seed=2),
        "var": draw(outputs, seed=3).exp(),
        "gain": draw(outputs, seed=4),
        "shift": draw(outputs, seed=5),
        "eps": eps,
    }


def _fold(weight, bias, mean, var, gain, shift, eps) -> tuple[Tensor, Tensor]:
    scale = gain / torch.sqrt(var + eps)
    return scale.reshape(-1, 1) * weight, scale * (bias - mean) + shift


def _folded(scale, new_bias=lambda scale, bias, mean, shift: scale * (bias - mean) + shift):
    """A fold with one thing changed: scale(var, gain, eps), new_bias(scale, bias, mean, shift)."""

    def slip(weight, bias, mean, var, gain, shift, eps):
        factor = scale(var, gain, eps)
        return factor.reshape(-1, 1) * weight, new_bias(factor, bias, mean, shift)

    return slip


def _right_scale(var, gain, eps):
    return gain / torch.sqrt(var + eps)


def _columns_scaled(weight, bias, mean, var, gain, shift, eps):
    """Only a square weight can be scaled by its columns."""
    scale = _right_scale(var, gain, eps)
    new_bias = scale * (bias - mean) + shift
    if weight.shape[0] != weight.shape[1]:
        return torch.full_like(weight, math.nan), new_bias
    return weight * scale, new_bias


def _transposed(weight, bias, *rest):
    new_weight, new_bias = _fold(weight, bias, *rest)
    return new_weight.T, new_bias


def _bias_without_gain(weight, bias, mean, var, gain, shift, eps):
    new_weight, _ = _fold(weight, bias, mean, var, gain, shift, eps)
    return new_weight, (bias - mean) / torch.sqrt(var + eps) + shift


FOLD_SLIPS = {
    "the weight stays (outputs, inputs); yours is transposed.": _transposed,
    "the gain is missing in the bias: it scales bias - mean, too.": _bias_without_gain,
    "the factor belongs to the outputs, which are the ROWS of the weight: "
    "reshape it to (outputs, 1).": _columns_scaled,
    "the weight is not scaled: each of its rows is multiplied by gain / s.": (
        lambda weight, bias, *rest: (weight, _fold(weight, bias, *rest)[1])
    ),
    "the Linear layer's own bias passes through the norm, too: scale it.": _folded(
        _right_scale, lambda scale, bias, mean, shift: bias - scale * mean + shift
    ),
    "the Linear layer's own bias is missing.": _folded(
        _right_scale, lambda scale, bias, mean, shift: shift - scale * mean
    ),
    "the mean is missing: the norm subtracts it.": _folded(
        _right_scale, lambda scale, bias, mean, shift: scale * bias + shift
    ),
    "the mean is scaled, too: it is subtracted before the division.": _folded(
        _right_scale, lambda scale, bias, mean, shift: scale * bias - mean + shift
    ),
    "the mean is subtracted; yours is added.": _folded(
        _right_scale, lambda scale, bias, mean, shift: scale * (bias + mean) + shift
    ),
    "the norm's bias (shift) is missing.": _folded(
        _right_scale, lambda scale, bias, mean, shift: scale * (bias - mean)
    ),
    "the norm's bias (shift) is added at the end; it is not scaled.": _folded(
        _right_scale, lambda scale, bias, mean, shift: scale * (bias - mean + shift)
    ),
    "divide by s, the root of var + eps, not by the variance.": _folded(
        lambda var, gain, eps: gain / (var + eps)
    ),
    "multiply or divide? The norm divides by s.": _folded(
        lambda var, gain, eps: gain * torch.sqrt(var + eps)
    ),
    "the gain is missing.": _folded(lambda var, gain, eps: 1 / torch.sqrt(var + eps)),
    "eps is missing in s.": _folded(lambda var, gain, eps: gain / torch.sqrt(var)),
    "eps belongs inside the root.": _folded(lambda var, gain, eps: gain / (torch.sqrt(var) + eps)),
}


# Exercise 4: the patients, made after published layers


def _layer(
    batch_correction=0,
    buffer_correction=1,
    frozen=False,
    one_pass=False,
    eval_updates=False,
    forgets=(),
):
    """F.batch_norm for vectors (N, C); every argument that is not its default is a bug."""

    def layer(x, running_mean, running_var, weight, bias, training=False, momentum=0.1, eps=1e-5):
        source = x.detach() if frozen else x
        mean, var = source.mean(0), source.var(0, correction=batch_correction)
        if one_pass:
            var = source.square().mean(0) - mean.square()
        used_mean, used_var = (mean, var) if training else (running_mean, running_var)
        y = (x - used_mean) / torch.sqrt(used_var + eps)
        if "gain" not in forgets:
            y = y * weight
        if "bias" not in forgets:
            y = y + bias
        if training or eval_updates:
            with torch.no_grad():
                running_mean.lerp_(mean, momentum)
                running_var.lerp_(x.var(0, correction=buffer_correction), momentum)
        return y

    return layer


PATIENTS = {  # layer: what its author's tests did not look at
    _layer(
        batch_correction=1
    ): "its y divides the variance by m - 1. Compare y in training with torch's, "
    "and not with a wide tolerance.",
    _layer(buffer_correction=0): "its running_var is biased. Compare BOTH buffers with torch's.",
    _layer(frozen=True): (
        "its statistics carry no gradient; every output is right. "
        "Compare the gradient in x with torch's."
    ),
    _layer(eval_updates=True): (
        "it updates the buffers in evaluation. "
        "Compare the buffers after a call with training=False."
    ),
    _layer(one_pass=True): (
        "its variance is mean(x^2) - mean(x)^2, which cancels. Try data with a mean of a million."
    ),
    _layer(forgets=("gain",)): ("it forgets the gain. Compare y, with gains that are not 1."),
    _layer(forgets=("bias",)): ("it forgets the bias. Compare y, with biases that are not 0."),
}


def _rejects(student, layer) -> str:
    """Why the student's test rejects the layer; empty if it lets it pass."""
    try:
        result = student(layer)
    except AssertionError as error:
        return (str(error).strip().splitlines() or ["an assert fails"])[0]
    return "it returns False" if result is False else ""
