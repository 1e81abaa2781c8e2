"""Checks of lesson 01: each runs the student's answer
where the usual slips give different numbers.
"""

import math

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import calls, forbid, unchanged
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import functional, gradients

MOMENTUM, EPS = 0.25, 0.5  # large, so that a forgotten eps or a reversed momentum shows
NAMES = ("x", "running_mean", "running_var", "weight", "bias")
CHANNEL = (0, 2, 3)  # what is reduced for one channel of (N, C, H, W)
RESULTS = ("y", "running_mean", "running_var")


@exercise("Exercise 1 (a column)")
def column(answer) -> None:
    """Four numbers: the column (2, 2, 8, 8) with eps = 16, gain 10, bias 1."""
    got = _four_numbers(answer)
    slips = {message: _column(*where) for message, where in COLUMN_SLIPS.items()}
    slips[
        "all four steps are there, but the bias is added before the gain multiplies: w * xhat + b."
    ] = torch.tensor([4.0, 4.0, 16.0, 16.0])
    slips["the mean is not subtracted."] = 10 * torch.tensor([2.0, 2.0, 8.0, 8.0]) / 5 + 1
    slips[
        "the signs are exchanged: subtract the mean from the number, not the number from the mean."
    ] = torch.tensor([7.0, 7.0, -5.0, -5.0])
    expect(got, _column(5.0), slips, "the column", rtol=1e-3)


@exercise("Exercise 2 (running variance after ten batches)")
def running_variance(student) -> None:
    """A number: running_var after ten batches {-1, 1} from 1, momentum 0.1."""
    kept = 0.9**10
    slips = {
        "with the biased variance nothing would move; "
        "the buffer takes the unbiased one, here 2.": 1.0,
        "that is the limit; ten steps do not get there, 0.9**10 of the start is left. Or is the "
        "momentum reversed? torch's momentum 0.1 is the weight of the NEW batch.": 2.0,
        "that is after one batch; there are ten.": 1.1,
        "the start is missing: 0.9**10 of the initial 1 is still there.": 2 * (1 - kept),
        "that is after nine batches; there are ten.": 2 - 0.9**9,
        "that is the share of the ten batches; weigh the variance 2 and the initial 1 with it.": (
            1 - kept
        ),
        "that is a standard deviation; the buffer holds a variance.": (2 - kept) ** 0.5,
        "the shares are exchanged: 0.9**10 is what is left of the initial 1.": 1 + kept,
    }
    # 1.65 is good enough for pencil and paper
    expect(student, 2 - kept, slips, "running_var", rtol=2e-3)


@exercise("Exercise 3 (batch norm, training and evaluation)")
def forward(student) -> None:
    """student(x, running_mean, running_var, weight,
    bias, training, momentum, eps) for x (N, C, H, W).
    """
    watched = forbid(student, "batch_norm", "normlib")
    inputs = _inputs(4, 3, 2, 3)
    _check_training(watched, inputs)
    _check_gradient(watched, inputs)
    _check_evaluation(watched, inputs)
    _check_other_shapes(watched)
    _check_large_mean(watched, inputs)


@exercise("Exercise 4 (gradient at the variance)")
def variance_gradient(student) -> None:
    """student(g, x, eps) for g, x (N, C) -> (C,)."""
    watched = forbid(student, "autograd", "normlib")
    calls(watched, _variance_gradient, *_batches("g"), slips=VARIANCE_SLIPS, what="dL/dv")


@exercise("Exercise 5 (input gradient)")
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
        for case in _batches("dy")
    ]
    calls(watched, _input_gradient, *cases, slips=GRADIENT_SLIPS, what="dx")


@exercise("Exercise 6 (the steepest slope)")
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
        "the variance at the steepest point is 0, not eps: the samples are equal.": (
            lambda eps: eps / (2 * (2 * eps) ** 1.5)
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


@exercise("Exercise 7 (fold)")
def fold(student) -> None:
    """student(weight, bias, mean, var, gain, shift, eps) -> weight, bias of one Linear layer."""
    cases = [_linear_and_norm(5, 3, 0.5), _linear_and_norm(2, 4, 0.1)]
    names = ("the weight", "the bias")
    calls(forbid(student, "normlib"), _fold, *cases, slips=FOLD_SLIPS, what=names)


@exercise("Exercise 8 (the test that was missing)")
def bug_clinic(student) -> None:
    """student(layer) raises AssertionError for a wrong layer;
    layer has the signature of F.batch_norm.
    """
    for name, layer in (
        ("torch's", torch.nn.functional.batch_norm),
        ("normlib's", functional.batch_norm),
    ):
        if reason := _rejects(student, layer):
            raise Slip(f"your test rejects {name} batch_norm, which is right ({reason}).")
    for layer, advice in PATIENTS.items():
        if not _rejects(student, layer):
            raise Slip(f"your test lets a wrong layer pass: {advice}")


# Exercise 1


COLUMN_SLIPS = {  # what is divided by, gain, bias
    "eps belongs inside the root: the root of 9 + 16, not 3 + 16.": (19.0,),
    "divide the variance by m = 4, not by m - 1: it is 9 here, not 12.": (math.sqrt(28),),
    "eps is missing: the root of 9 + 16.": (3.0,),
    "take the root of 9 + 16 before you divide.": (25.0,),
    "the variance is the MEAN of the squared deviations: divide their sum 36 by 4.": (
        math.sqrt(52),
    ),
    "the gain is missing: multiply by 10 before you add 1.": (5.0, 1.0),
    "the bias is missing: add 1 at the end.": (5.0, 10.0, 0.0),
    "gain and bias are missing: multiply by 10, then add 1.": (5.0, 1.0, 0.0),
    "eps is added to the variance, not to the deviation: the root of 9 + 16, not 3 + 4.": (7.0,),
}


def _column(divisor: float, gain: float = 10.0, bias: float = 1.0) -> Tensor:
    deviations = torch.tensor([-3.0, -3.0, 3.0, 3.0], dtype=torch.float64)
    return gain * deviations / divisor + bias


def _four_numbers(answer) -> Tensor:
    """A list, a tuple, an array or a tensor, lying or standing."""
    advice = "write a list of four numbers, for example [0, 0, 1, 1]."
    try:
        numbers = torch.as_tensor([float(number) for number in _flat(answer)], dtype=torch.float64)
    except (TypeError, ValueError):
        raise Slip(advice) from None
    if len(numbers) != 4:
        raise Slip(f"that are {len(numbers)} numbers; {advice}")
    return numbers


def _flat(answer) -> list:
    if hasattr(answer, "flatten"):
        return answer.flatten().tolist()
    return [
        part for entry in answer for part in (entry if isinstance(entry, list | tuple) else [entry])
    ]


# Exercise 3


def _inputs(*shape: int, seed: int = 1) -> tuple[Tensor, ...]:
    """x of this shape; running_mean, running_var, weight, bias of (C,)."""
    generator = torch.Generator().manual_seed(seed)
    x, *vectors = (
        torch.randn(size, dtype=torch.float64, generator=generator)
        for size in (shape, *[shape[1]] * 4)
    )
    return 2 * x + 1, vectors[0], vectors[1].exp(), vectors[2], vectors[3]


def _call(student, inputs, training: bool) -> tuple:
    kept = [t.clone() for t in inputs]
    got = parts(student(*inputs, training, MOMENTUM, EPS), *RESULTS)
    for name, before, after in zip(NAMES, kept, inputs, strict=True):
        unchanged(name, before, after)
    return got


def _normalized(x, mean, var, weight=None, bias=None, eps=EPS):
    return functional.batch_norm(x, mean, var, weight, bias, eps=eps)


def _check_training(student, inputs) -> None:
    y, mean, var = _call(student, inputs, True)
    x, old_mean, old_var, w, b = inputs
    want_mean, want_var = old_mean.clone(), old_var.clone()
    want = functional.batch_norm(x, want_mean, want_var, w, b, True, MOMENTUM, EPS)
    updated = "in training use the statistics of the batch, not the updated running ones."
    slips = _axis_slips(x, w, b) | _training_slips(inputs)
    expect(y, want, slips | {updated: _normalized(x, want_mean, want_var, w, b)}, "y in training")
    slips = {
        "running_mean was not updated.": old_mean,
        "the momentum is reversed: it is the weight of the NEW batch.": (
            torch.lerp(old_mean, x.mean(CHANNEL), 1 - MOMENTUM)
        ),
        "momentum is an argument; yours is fixed at 0.1.": (
            torch.lerp(old_mean, x.mean(CHANNEL), 0.1)
        ),
    }
    expect(mean, want_mean, slips, "running_mean")
    expect(var, want_var, _running_var_slips(x, old_var), "running_var")


def _axis_slips(x, w, b) -> dict[str, Tensor]:
    over_batch = (x - x.mean(0)) * torch.rsqrt(x.var(0, correction=0) + EPS)
    return {
        "wrong axes: one mean per channel AND sample is InstanceNorm; "
        "reduce over the batch, too.": (functional.instance_norm(x, weight=w, bias=b, eps=EPS)),
        "wrong axes: one mean per channel and POSITION; reduce over batch, height and width.": (
            over_batch * w.reshape(-1, 1, 1) + b.reshape(-1, 1, 1)
        ),
        "wrong axes: one mean per SAMPLE is LayerNorm; reduce over the batch, keep the channel.": (
            functional.group_norm(x, 1, w, b, EPS)
        ),
    }


def _training_slips(inputs) -> dict[str, Tensor]:
    x, old_mean, old_var, w, b = inputs
    mean, biased, unbiased = x.mean(CHANNEL), x.var(CHANNEL, correction=0), x.var(CHANNEL)
    outside = (biased.sqrt() + EPS).square()
    return {
        "in the batch divide the variance by m, not by m - 1: "
        "unbiased belongs in the buffer only.": (_normalized(x, mean, unbiased, w, b)),
        "eps belongs inside the root: sqrt(var + eps).": _normalized(x, mean, outside, w, b, 0.0),
        "eps is missing in the root.": _normalized(x, mean, biased, w, b, 0.0),
        "eps is an argument; yours is fixed at 1e-5.": _normalized(x, mean, biased, w, b, 1e-5),
        "(C,) lines up with the width; reshape to (C, 1, 1).": (
            (x - mean) / (biased + EPS).sqrt() * w + b
        ),
        "weight and bias line up with the width.": _normalized(x, mean, biased) * w + b,
        "in training use the statistics of the batch, not the running ones.": (
            _normalized(x, old_mean, old_var, w, b)
        ),
        "weight is ignored.": _normalized(x, mean, biased, None, b),
        "bias is ignored.": _normalized(x, mean, biased, w),
        "weight and bias are ignored.": _normalized(x, mean, biased),
    }


def _running_var_slips(x: Tensor, old_var: Tensor) -> dict[str, Tensor]:
    biased, unbiased = x.var(CHANNEL, correction=0), x.var(CHANNEL)
    m, samples = x[:, 0].numel(), len(x)
    by_samples = biased * samples / (samples - 1)
    return {
        "running_var was not updated.": old_var,
        "running_var keeps the UNBIASED variance: multiply by m / (m - 1).": (
            torch.lerp(old_var, biased, MOMENTUM)
        ),
        "the momentum is reversed: it is the weight of the NEW batch.": (
            torch.lerp(old_var, unbiased, 1 - MOMENTUM)
        ),
        f"m counts samples and positions: it is {m} here, not {samples}.": (
            torch.lerp(old_var, by_samples, MOMENTUM)
        ),
        "running_var holds a variance, not a standard deviation.": (
            torch.lerp(old_var, unbiased.sqrt(), MOMENTUM)
        ),
        "eps does not belong in running_var; it is added when the buffer is used.": (
            torch.lerp(old_var, unbiased + EPS, MOMENTUM)
        ),
    }


def _check_gradient(student, inputs) -> None:
    x, _, _, w, b = inputs
    leaf = x.clone().requires_grad_()
    y, *buffers = parts(student(leaf, *inputs[1:], True, MOMENTUM, EPS), *RESULTS)
    for name, buffer in zip(RESULTS[1:], buffers, strict=True):
        if buffer.requires_grad:
            raise Slip(
                f"{name} has a grad_fn: detach it, or every batch keeps all earlier ones in memory."
            )
    if not y.requires_grad:
        raise Slip("y has no grad_fn: nothing in front of the layer would learn.")
    dy = x.cos()
    s = (x.var(CHANNEL, correction=0) + EPS).sqrt()
    g = dy * (w / s).reshape(-1, 1, 1)
    frozen = (
        "no gradient flows through {}: compute it outside torch.no_grad() and do not detach it."
    )
    slips = {
        frozen.format("mean and variance"): g,
        frozen.format("the variance"): g - g.mean(CHANNEL, keepdim=True),
    }
    want = gradients.batch_norm_backward(dy, x, w, b, EPS)[0]
    expect(torch.autograd.grad(y, leaf, dy)[0], want, slips, "the gradient in x")


def _check_evaluation(student, inputs) -> None:
    y, mean, var = _call(student, inputs, False)
    x, old_mean, old_var, w, b = inputs
    m, outside = x[:, 0].numel(), (old_var.sqrt() + EPS).square()
    slips = {
        "in evaluation use the running statistics, not the batch's.": functional.batch_norm(
            x, None, None, w, b, True, eps=EPS
        ),
        "in evaluation eps is missing in the root.": _normalized(x, old_mean, old_var, w, b, 0.0),
        "in evaluation eps belongs inside the root.": _normalized(x, old_mean, outside, w, b, 0.0),
        "running_var is already unbiased: do not correct it again in evaluation.": _normalized(
            x, old_mean, old_var * m / (m - 1), w, b
        ),
        "running_var is a variance: in evaluation take its root.": (
            _normalized(x, old_mean, (old_var + EPS).square(), w, b, 0.0)
        ),
        "in evaluation weight and bias are ignored.": _normalized(x, old_mean, old_var),
    }
    expect(y, _normalized(x, old_mean, old_var, w, b), slips, "y in evaluation")
    for name, got, old in (("running_mean", mean, old_mean), ("running_var", var, old_var)):
        if not (isinstance(got, Tensor) and got.shape == old.shape and torch.equal(got, old)):
            raise Slip(f"evaluation must not change {name}: return it as it came.")


def _check_other_shapes(student) -> None:
    """Other sizes, one row of pixels: nothing may be built in or kept from the first call."""
    for training in (True, False):
        inputs = _inputs(2, 5, 1, 4, seed=2)
        got = parts(student(*inputs, training, 0.1, 0.25), *RESULTS)
        x, mean, var, w, b = inputs
        mean, var = mean.clone(), var.clone()
        y = functional.batch_norm(x, mean, var, w, b, training, 0.1, 0.25)
        for name, value, want in zip(RESULTS, got, (y, mean, var), strict=True):
            expect(value, want, what=f"{name} for 2 images of 5 channels, training={training},")


def _check_large_mean(student, inputs) -> None:
    x, (w, b) = inputs[0] + 1e7, inputs[3:]
    y, *_ = parts(student(x, *inputs[1:], True, MOMENTUM, EPS), *RESULTS)
    want = functional.batch_norm(x, None, None, w, b, True, eps=EPS)
    if not torch.allclose(y, want, rtol=0.0, atol=1e-6):  # x is rounded to 2e-9, its square to 1e-2
        raise Slip(
            "right, but lost at a mean of ten million: subtract the mean first, then square."
        )


# Exercises 4 and 5


def _batches(first: str) -> list[dict]:
    """Two batches (N, C) of x and a gradient, neither square."""
    return [
        {first: draw(5, 3, seed=3), "x": 2 * draw(5, 3, seed=1) + 1, "eps": EPS},
        {first: draw(4, 7, seed=6), "x": 3 * draw(4, 7, seed=5) - 1, "eps": 0.2},
    ]


def _variance_gradient(g: Tensor, x: Tensor, eps: float) -> Tensor:
    return -(g * (x - x.mean(0))).sum(0) / 2 * _root(x, eps) ** -3


def _root(x: Tensor, eps: float, correction: int = 0) -> Tensor:
    return torch.sqrt(x.var(0, correction=correction) + eps)


VARIANCE_SLIPS = {
    "the sign: the larger the variance, the smaller every xhat.": lambda g, x, eps: (
        -_variance_gradient(g, x, eps)
    ),
    "the factor 1/2 of the power -1/2 is missing.": lambda g, x, eps: (
        2 * _variance_gradient(g, x, eps)
    ),
    "s to the power 3, not 2: the derivative of (v + "
    "eps)^(-1/2) holds (v + eps)^(-3/2).": lambda g, x, eps: (
        _variance_gradient(g, x, eps) * _root(x, eps)
    ),
    "s to the power 3, not 1: a derivative lowers the power -1/2 to -3/2.": lambda g, x, eps: (
        _variance_gradient(g, x, eps) * _root(x, eps) ** 2
    ),
    "(v + eps)^(-3/2) is s to the power -3, "
    "and yours is (v + eps) to the power -3.": lambda g, x, eps: (
        _variance_gradient(g, x, eps) * _root(x, eps) ** -3
    ),
    "a sum over the batch, not a mean: each sample sends its part.": lambda g, x, eps: (
        _variance_gradient(g, x, eps) / len(x)
    ),
    "one number for each channel: add up over the samples, dim 0.": lambda g, x, eps: (
        -(g * (x - x.mean(0))) / 2 * _root(x, eps) ** -3
    ),
    "the mean is not subtracted from x.": lambda g, x, eps: (
        -(g * x).sum(0) / 2 * _root(x, eps) ** -3
    ),
    "xhat is divided by s already; the formula has x - mean, "
    "or xhat with s squared.": lambda g, x, eps: _variance_gradient(g, x, eps) / _root(x, eps),
    "eps is missing in s.": lambda g, x, eps: _variance_gradient(g, x, 0.0),
    "the batch's variance is biased: divide by m, not by m - 1.": lambda g, x, eps: (
        -(g * (x - x.mean(0))).sum(0) / 2 * _root(x, eps, correction=1) ** -3
    ),
    "the sum runs over the features; add up over the samples, dim 0.": lambda g, x, eps: (
        -(g * (x - x.mean(0))) / 2 * _root(x, eps) ** -3
    ).sum(1),
    "g is missing: multiply each derivative by the gradient that arrives.": lambda g, x, eps: (
        -(x - x.mean(0)).sum(0) / 2 * _root(x, eps) ** -3
    ),
}


def _input_gradient(dy: Tensor, x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return gradients.batch_norm_backward(dy, x, weight, eps=eps)[0]


def _changed(change):
    """A gradient with one thing changed: change(g, xhat, m) is the bracket, divided by s."""

    def slip(dy, x, weight, eps):
        s = _root(x, eps)
        return change(weight * dy, (x - x.mean(0)) / s, len(x)) / s

    return slip


def _along(g: Tensor, xhat: Tensor) -> Tensor:
    return xhat * (g * xhat).mean(0)


def _without_gain(dy, x, weight, eps):
    return _input_gradient(dy, x, torch.ones_like(weight), eps)


def _gain_in_the_first_term(dy, x, weight, eps):
    s = _root(x, eps)
    return weight * dy / s - dy / s + _without_gain(dy, x, weight, eps)


def _x_for_xhat(dy, x, weight, eps):
    g = weight * dy
    return (g - g.mean(0) - _along(g, x)) / _root(x, eps)


def _unbiased(dy, x, weight, eps):
    g = weight * dy
    s = _root(x, eps, correction=1)
    return (g - g.mean(0) - _along(g, (x - x.mean(0)) / s)) / s


def _no_eps(dy, x, weight, eps):
    return _changed(lambda g, xhat, m: g - g.mean(0) - _along(g, xhat))(dy, x, weight, 0.0)


GRADIENT_SLIPS = {
    "mean and variance are not constants: they depend on x, and two terms are missing.": _changed(
        lambda g, xhat, m: g
    ),
    "the term mean(g) is missing: it comes through the mean.": _changed(
        lambda g, xhat, m: g - _along(g, xhat)
    ),
    "the term xhat mean(g xhat) is missing: it comes through the variance.": _changed(
        lambda g, xhat, m: g - g.mean(0)
    ),
    "divide by s, the root; you divided by the variance.": lambda dy, x, weight, eps: (
        _input_gradient(dy, x, weight, eps) / _root(x, eps)
    ),
    "the result is not divided by s.": lambda dy, x, weight, eps: (
        _input_gradient(dy, x, weight, eps) * _root(x, eps)
    ),
    "average over the batch: both terms have a mean where you have a sum.": _changed(
        lambda g, xhat, m: g - m * g.mean(0) - m * _along(g, xhat)
    ),
    "the second mean is a sum in yours: xhat times the MEAN of g xhat.": _changed(
        lambda g, xhat, m: g - g.mean(0) - m * _along(g, xhat)
    ),
    "the first mean is a sum in yours: subtract the MEAN of g.": _changed(
        lambda g, xhat, m: g - m * g.mean(0) - _along(g, xhat)
    ),
    "the gain is missing: g = w dy.": _without_gain,
    "the gain is missing in the two means: "
    "g = w dy stands in all three terms.": _gain_in_the_first_term,
    "the means run over the batch, dim 0; yours run over the features, "
    "which is LayerNorm.": _changed(
        lambda g, xhat, m: g - g.mean(1, True) - xhat * (g * xhat).mean(1, True)
    ),
    "means per channel; yours run over everything.": _changed(
        lambda g, xhat, m: g - g.mean() - xhat * (g * xhat).mean()
    ),
    "the last term needs xhat in both places, not x.": _x_for_xhat,
    "the last term is mean(g xhat) alone in yours; multiply it by xhat.": _changed(
        lambda g, xhat, m: g - g.mean(0) - (g * xhat).mean(0)
    ),
    "both correction terms are subtracted; yours are added.": _changed(
        lambda g, xhat, m: g + g.mean(0) + _along(g, xhat)
    ),
    "the last term is subtracted; yours is added.": _changed(
        lambda g, xhat, m: g - g.mean(0) + _along(g, xhat)
    ),
    "the batch's variance is biased: divide by m, not by m - 1.": _unbiased,
    "eps is missing in s.": _no_eps,
}


# Exercise 7


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


FOLD_SLIPS = {
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


# Exercise 8: the patients, made after published layers


def _layer(
    batch_correction=0, buffer_correction=1, frozen=False, one_pass=False, eval_updates=False
):
    """F.batch_norm for vectors (N, C); every argument that is not its default is a bug."""

    def layer(x, running_mean, running_var, weight, bias, training=False, momentum=0.1, eps=1e-5):
        source = x.detach() if frozen else x
        mean, var = source.mean(0), source.var(0, correction=batch_correction)
        if one_pass:
            var = source.square().mean(0) - mean.square()
        used_mean, used_var = (mean, var) if training else (running_mean, running_var)
        y = (x - used_mean) / torch.sqrt(used_var + eps) * weight + bias
        if training or eval_updates:
            with torch.no_grad():
                running_mean.lerp_(mean, momentum)
                running_var.lerp_(x.var(0, correction=buffer_correction), momentum)
        return y

    return layer


PATIENTS = {  # layer: what its author's tests did not look at
    _layer(
        batch_correction=1
    ): "its y divides the variance by m - 1. Compare y in training with torch's.",
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
}


def _rejects(student, layer) -> str:
    """Why the student's test rejects the layer; empty if it lets it pass."""
    try:
        result = student(layer)
    except AssertionError as error:
        return (str(error).strip().splitlines() or ["an assert fails"])[0]
    return "it returns False" if result is False else ""
