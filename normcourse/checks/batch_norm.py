"""Checks of lesson 01: each runs the student's answer where the usual slips give different numbers."""

import torch
from torch import Tensor

from normcourse.checks.probes import unchanged
from normcourse.checks.verdict import Slip, exercise, expect, parts
from normlib import functional, gradients

MOMENTUM, EPS = 0.25, 0.5  # large, so that a forgotten eps or a reversed momentum shows
NAMES = ("x", "running_mean", "running_var", "weight", "bias")
CHANNEL = (0, 2, 3)  # what is reduced for one channel of (N, C, H, W)
RESULTS = ("y", "running_mean", "running_var")


@exercise("Exercise 1 (batch norm, training and evaluation)")
def forward(student) -> None:
    """student(x, running_mean, running_var, weight, bias, training, momentum, eps) for x (N, C, H, W)."""
    inputs = _inputs(4, 3, 2, 3)
    _check_training(student, inputs)
    _check_gradient(student, inputs)
    _check_evaluation(student, inputs)
    _check_large_mean(student, inputs)


@exercise("Exercise 2 (input gradient)")
def input_gradient(student) -> None:
    """student(dy, x, weight, eps) for dy, x (N, C)."""
    x, _, _, weight, _ = _inputs(5, 3)
    dy = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(3))
    kept = [t.clone() for t in (dy, x, weight)]
    got = student(dy, x, weight, EPS)
    for name, before, after in zip(("dy", "x", "weight"), kept, (dy, x, weight), strict=True):
        unchanged(name, before, after)
    want = gradients.batch_norm_backward(dy, x, weight, eps=EPS)[0]
    no_eps = gradients.batch_norm_backward(dy, x, weight, eps=0.0)[0]
    expect(got, want, _gradient_slips(dy, x, weight) | {"eps is missing in s.": no_eps}, "dx")


@exercise("Exercise 3 (running variance after ten batches)")
def running_variance(student) -> None:
    """A number: running_var after ten batches {-1, 1} from 1, momentum 0.1."""
    kept = 0.9**10
    slips = {
        "with the biased variance nothing would move; the buffer takes the unbiased one, here 2.": 1.0,
        "that is the limit; ten steps do not get there, 0.9**10 of the start is left. Or is the momentum "
        "reversed? torch's momentum 0.1 is the weight of the NEW batch.": 2.0,
        "that is after one batch; there are ten.": 1.1,
        "the start is missing: 0.9**10 of the initial 1 is still there.": 2 * (1 - kept),
        "that is after nine batches; there are ten.": 2 - 0.9**9,
        "that is the share of the ten batches; weigh the variance 2 and the initial 1 with it.": 1 - kept,
        "that is a standard deviation; the buffer holds a variance.": (2 - kept) ** 0.5,
        "the shares are exchanged: 0.9**10 is what is left of the initial 1.": 1 + kept,
    }
    expect(student, 2 - kept, slips, "running_var", rtol=2e-3)  # 1.65 is good enough for pencil and paper


@exercise("Exercise 4 (a test that five published layers would have needed)")
def bug_clinic(student) -> None:
    """student(layer) raises AssertionError for a wrong layer; layer has the signature of F.batch_norm."""
    for name, layer in (("torch's", torch.nn.functional.batch_norm), ("normlib's", functional.batch_norm)):
        if reason := _rejects(student, layer):
            raise Slip(f"your test rejects {name} batch_norm, which is right ({reason}).")
    for layer, advice in PATIENTS.items():
        if not _rejects(student, layer):
            raise Slip(f"your test lets a wrong layer pass: {advice}")


# Exercise 1


def _inputs(*shape: int) -> tuple[Tensor, ...]:
    """x of this shape; running_mean, running_var, weight, bias of (C,)."""
    generator = torch.Generator().manual_seed(1)
    x, *vectors = (
        torch.randn(size, dtype=torch.float64, generator=generator) for size in (shape, *[shape[1]] * 4)
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
        "momentum is an argument; yours is fixed at 0.1.": torch.lerp(old_mean, x.mean(CHANNEL), 0.1),
    }
    expect(mean, want_mean, slips, "running_mean")
    expect(var, want_var, _running_var_slips(x, old_var), "running_var")


def _axis_slips(x, w, b) -> dict[str, Tensor]:
    over_batch = (x - x.mean(0)) * torch.rsqrt(x.var(0, correction=0) + EPS)
    return {
        "wrong axes: one mean per channel AND sample is InstanceNorm; reduce over the batch, too.": (
            functional.instance_norm(x, weight=w, bias=b, eps=EPS)
        ),
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
        "in the batch divide the variance by m, not by m - 1: unbiased belongs in the buffer only.": (
            _normalized(x, mean, unbiased, w, b)
        ),
        "eps belongs inside the root: sqrt(var + eps).": _normalized(x, mean, outside, w, b, 0.0),
        "eps is missing in the root.": _normalized(x, mean, biased, w, b, 0.0),
        "eps is an argument; yours is fixed at 1e-5.": _normalized(x, mean, biased, w, b, 1e-5),
        "(C,) lines up with the width; reshape to (C, 1, 1).": (x - mean) / (biased + EPS).sqrt() * w + b,
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
            raise Slip(f"{name} has a grad_fn: detach it, or every batch keeps all earlier ones in memory.")
    if not y.requires_grad:
        raise Slip("y has no grad_fn: nothing in front of the layer would learn.")
    dy = x.cos()
    s = (x.var(CHANNEL, correction=0) + EPS).sqrt()
    g = dy * (w / s).reshape(-1, 1, 1)
    frozen = "no gradient flows through {}: compute it outside torch.no_grad() and do not detach it."
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


def _check_large_mean(student, inputs) -> None:
    x, (w, b) = inputs[0] + 1e7, inputs[3:]
    y, *_ = parts(student(x, *inputs[1:], True, MOMENTUM, EPS), *RESULTS)
    want = functional.batch_norm(x, None, None, w, b, True, eps=EPS)
    if not torch.allclose(y, want, rtol=0.0, atol=1e-6):  # x is rounded to 2e-9, its square to 1e-2
        raise Slip("right, but lost at a mean of ten million: subtract the mean first, then square.")


# Exercise 2


def _gradient_slips(dy: Tensor, x: Tensor, weight: Tensor) -> dict[str, Tensor]:
    s, unbiased = ((x.var(0, correction=k) + EPS).sqrt() for k in (0, 1))
    xhat, g, m = (x - x.mean(0)) / s, weight * dy, len(x)
    mean, along = g.mean(0), xhat * (g * xhat).mean(0)
    right = g - mean - along
    features = g.mean(1, keepdim=True) + xhat * (g * xhat).mean(1, keepdim=True)
    numerators = {
        "mean and variance are not constants: they depend on x, and two terms are missing.": g,
        "the term mean(g) is missing: it comes through the mean.": g - along,
        "the term xhat mean(g xhat) is missing: it comes through the variance.": g - mean,
        "divide by s, the root; you divided by the variance.": right / s,
        "the result is not divided by s.": right * s,
        "average over the batch: both terms have a mean where you have a sum.": g - m * (mean + along),
        "the gain is missing: g = w dy.": right / weight,
        "the gain is missing in the two means: g = w dy stands in all three terms.": (
            g - (mean + along) / weight
        ),
        "the means run over the batch, dim 0; yours run over the features, which is LayerNorm.": g - features,
        "means per channel; yours run over everything.": g - g.mean() - xhat * (g * xhat).mean(),
        "the last term needs xhat in both places, not x.": g - mean - x * (g * x).mean(0),
        "both correction terms are subtracted; yours are added.": g + mean + along,
        "the batch's variance is biased: divide by m, not by m - 1.": (
            (g - mean - along * (s / unbiased).square()) * s / unbiased
        ),
    }
    return {message: numerator / s for message, numerator in numerators.items()}


# Exercise 4: the patients, made after published layers


def _layer(batch_correction=0, buffer_correction=1, frozen=False, one_pass=False, eval_updates=False):
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
    _layer(batch_correction=1): "its y divides the variance by m - 1. Compare y in training with torch's.",
    _layer(buffer_correction=0): "its running_var is biased. Compare BOTH buffers with torch's.",
    _layer(frozen=True): (
        "its statistics carry no gradient; every output is right. Compare the gradient in x with torch's."
    ),
    _layer(eval_updates=True): (
        "it updates the buffers in evaluation. Compare the buffers after a call with training=False."
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
