"""Checks of lesson 01: batch norm of a table and of images, backward, and for a batch of two."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.moments import (
    AFFINE,
    BIASED,
    FINISHED,
    STATISTICS,
    centred,
    gains,
    size,
    standardize,
)
from normcourse.checks.probes import call, calls, forbid, same_gradients, unchanged
from normcourse.checks.raised import one_line
from normcourse.checks.values import as_number
from normcourse.checks.verdict import Cases, Slip, every_case, exercise, expect, parts
from normcourse.training import digits, stacked_accuracy, stacked_mlp, train_stacked
from normlib import functional

MOMENTUM, EPS = 0.25, 0.5  # large, so that a forgotten eps or a reversed momentum shows
NAMES = ("x", "running_mean", "running_var", "weight", "bias")
FAR = 1e7  # a mean of ten million
CHANNEL = (0, 2, 3)  # what is reduced for one channel of (N, C, H, W)
RESULTS = ("y", "running_mean", "running_var")


COLUMN, COLUMN_EPS, GAIN, BIAS, NORMED = (2, 2, 8, 8), 16, 10, 1, (-5, -5, 7, 7)


@exercise(
    "Exercise 1 (your norm)",
    "the four steps",
    "x of shape (samples, features)",
    "one number for each feature",
    f"column {COLUMN}",
    rf"\varepsilon = {COLUMN_EPS}, the gain {GAIN} and the bias {BIAS}",
    f"it becomes {NORMED}",
    "a mean of ten million",
)
def table(student) -> None:
    """student(x, gain, bias, eps) for x (samples, features) and gain, bias (features,).

    [EQ-BN]
    """
    cases = [
        _table_case(4, 3, eps=0.5),
        _table_case(5, 5, eps=0.1),  # as many samples as features
        _table_case(2, 7, eps=0.3),
    ]
    watched = forbid(student, *FINISHED)
    calls(watched, _table, *cases, slips=TABLE_SLIPS)
    same_gradients(student, _table, cases[0], slips=TABLE_GRADIENTS)
    _stands_alone(student)
    far = cases[0] | {"x": cases[0]["x"] + FAR}
    _right_far_away(student(*far.values()), _table(**far))


HIDDEN_RATE, FACTOR = 0.1, 2


@exercise(
    "Exercise 2 (which rate)",
    f"learn by plain SGD at the rate {HIDDEN_RATE}",
    f"start as ${FACTOR} W$",
    "write down a number",
)
def rate_for_double(answer) -> None:
    """The rate with which double weights stay double those that learn at 0.1."""
    expect(answer, FACTOR**2 * HIDDEN_RATE, RATE_SLIPS, "the rate", rtol=1e-3)


@exercise(
    "Exercise 3 (batch norm, training and evaluation)",
    "the two buffers are *new* tensors",
    "Change no input",
)
def forward(student) -> None:
    """student(x, running_mean, running_var, weight, bias, training, momentum, eps).

    x is (N, C, H, W).
    """
    watched = forbid(student, "batch_norm", "normlib")
    inputs = _inputs(4, 3, 2, 3)
    others = _inputs(5, 2, 3, 2, seed=3)  # as wide as there are channels, too
    with every_case() as cases:
        _check_training(watched, inputs, cases)
        _check_training(watched, others, cases)
    with every_case() as cases:
        _check_evaluation(watched, inputs, cases)
        _check_evaluation(watched, others, cases)
    _check_gradient(watched, inputs)
    _check_other_shapes(watched)
    _check_large_mean(watched, inputs)


WALKED, WALKED_EPS, ARRIVING = (2, 4, 6, 8, 10), 1, (27, 0, 0, 0, 0)


@exercise(
    "Exercise 4 (walk back with numbers)",
    "missing on path 2",
    f"column {WALKED}",
    rf"\varepsilon = {WALKED_EPS}: the mean is 6, s = 3 and m = 5",
    f"g = {ARRIVING}",
    "each of the five inputs",
    "the three paths",
    "a list of five numbers",
)
def walk_back(answer) -> None:
    """Five numbers: the gradient at the column WALKED, where ARRIVING comes to xhat."""
    got = _five_numbers(answer)
    slips = {message: _walked(**change) for message, change in WALK_SLIPS.items()}
    slips |= {message: torch.tensor(wrong).double() for message, wrong in WALK_VALUES.items()}
    slips["the whole is not divided by s: path 1 hands on 27/3."] = 3 * _walked()
    expect(got, _walked(), slips, "the gradient", rtol=1e-3, atol=6e-3)


REACHED, TRAINED, RATE = 0.8, 400, 0.05


@exercise(
    "Exercise 5 (rescue the batch of two)",
    f"each of the five nets has to reach {REACHED}",
    f"after {TRAINED} steps at the rate {RATE}",
    "trained(layer, 0.05, batch_size=2, steps=400)",
)
def batch_of_two(settings) -> str:
    """settings: {"eps": …, "momentum": …}; five nets have to reach 0.8 with batches of two.

    Returns, in words, what they reached.
    """
    if not isinstance(settings, Mapping):
        raise Slip('write a dict such as {"eps": 1e-5, "momentum": 0.1}.')
    for name in settings:
        if name not in ("eps", "momentum"):
            raise Slip(f'there is no setting {name!r}: the names are "eps" and "momentum".')
    try:
        eps = as_number(settings.get("eps", 1e-5))
        momentum = as_number(settings.get("momentum", 0.1))
    except TypeError:
        eps = momentum = math.nan
    if not (eps > 0 and 0 < momentum <= 1):
        raise Slip("eps is a number above 0, momentum a number above 0 and at most 1.")
    reached = _five_accuracies(eps, momentum)
    worst = reached.min()
    if worst < REACHED:
        raise Slip(
            f"the worst of the five nets reached {worst:.2f}, wanted {REACHED}. "
            f"{_advice(eps, momentum)}"
        )
    return f"the five nets reach {worst:.2f} to {reached.max():.2f}."


# Exercise 1


def _table_case(samples: int, features: int, eps: float) -> dict:
    return {
        "x": 3 + 2 * draw(samples, features, seed=1),
        "gain": gains(features),
        "bias": 1 + draw(features, seed=3),
        "eps": eps,
    }


def _stands_alone(student) -> None:
    """One sample is the mean of its column: its deviations are 0, and the bias is left."""
    case = _table_case(1, 3, eps=0.5)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of var() of one number; we say what to do
            got = call(student, **case)
    except (Slip, NotImplementedError):
        raise
    except Exception as error:
        raise Slip(f"a table of one sample: your code raised {one_line(error)}") from None
    if isinstance(got, Tensor) and got.isnan().any():
        raise Slip(
            "a table of one sample becomes NaN: x.var(0) divides by m - 1, which is 0 then. "
            "Divide by m (correction=0)."
        )
    expect(got, case["bias"][None], what="the output for a table of one sample")


def _table(x, gain, bias, eps) -> Tensor:
    return functional.batch_norm(x, None, None, gain, bias, True, eps=eps)


def _of_columns(xhat):
    """A norm whose normalized table is xhat(x, axes, eps)."""
    return lambda x, gain, bias, eps: xhat(x, 0, eps) * gain + bias


def _about(x, middle, m, eps) -> Tensor:
    """Deviations from this middle, divided by their size with this m."""
    deviations = x - middle
    return deviations / torch.sqrt(deviations.square().sum(0) / m + eps)


def _of_gain(affine):
    """A norm that uses gain and bias in another way."""
    return lambda x, gain, bias, eps: affine(standardize(x, 0, eps=eps), gain, bias)


def _frozen_table(*names: str):
    """A norm whose mean, variance or both are constants for autograd."""

    def y(x, gain, bias, eps):
        mean = x.mean(0)
        variance = x.var(0, correction=0)
        if "mean" in names:
            mean = mean.detach()
        if "variance" in names:
            variance = variance.detach()
        return gain * (x - mean) / torch.sqrt(variance + eps) + bias

    return y


TABLE_SLIPS = {text: _of_columns(wrong) for text, wrong in STATISTICS.items()}
TABLE_SLIPS |= {text: _of_gain(wrong) for text, wrong in AFFINE.items()}
TABLE_SLIPS |= {
    "that is one mean for each ROW; each column gets its own: reduce over the samples, axis 0.": (
        lambda x, gain, bias, eps: standardize(x, 1, eps=eps) * gain + bias
    ),
    "that is one mean for the whole table; each column gets its own: reduce over axis 0.": (
        lambda x, gain, bias, eps: standardize(x, (0, 1), eps=eps) * gain + bias
    ),
    "the variance is the whole table's; each column gets its own: reduce over axis 0.": (
        lambda x, gain, bias, eps: (
            (x - x.mean(0)) / (x.var(correction=0) + eps).sqrt() * gain + bias
        )
    ),
    "the signs are exchanged: subtract the mean from the number, not the number from the mean.": (
        lambda x, gain, bias, eps: bias - standardize(x, 0, eps=eps) * gain
    ),
    "gain and bias are exchanged: multiply by the gain, then add the bias.": (
        lambda x, gain, bias, eps: standardize(x, 0, eps=eps) * bias + gain
    ),
    "eps is squared; add it to the variance as it is.": (
        lambda x, gain, bias, eps: standardize(x, 0, eps=eps**2) * gain + bias
    ),
    "eps is added to the variance in every case; it is no lower bound of it.": _of_columns(
        lambda x, dims, eps: centred(x, dims) / x.var(dims, correction=0).clamp_min(eps).sqrt()
    ),
    "the variance is the mean of the squared DEVIATIONS; yours squares x itself.": _of_columns(
        lambda x, dims, eps: centred(x, dims) / (x.square().mean(dims) + eps).sqrt()
    ),
    "that is the median; subtract the mean.": _of_columns(
        lambda x, dims, eps: (x - x.median(dims).values) / size(x, dims, eps)
    ),
    "that is the median; subtract the mean, also where you square.": _of_columns(
        lambda x, dims, eps: _about(x, x.median(dims).values, x.shape[dims], eps)
    ),
    "the variance is divided by 4; divide by the number of samples that came.": _of_columns(
        lambda x, dims, eps: _about(x, x.mean(dims), 4, eps)
    ),
    "the sums are divided by 4; divide by the number of samples that came.": _of_columns(
        lambda x, dims, eps: _about(x, x.sum(dims) / 4, 4, eps)
    ),
}
FROZEN = "no gradient flows through {}: compute it outside torch.no_grad() and do not detach it."
TABLE_GRADIENTS = {
    FROZEN.format("mean and variance"): _frozen_table("mean", "variance"),
    FROZEN.format("the mean"): _frozen_table("mean"),
    FROZEN.format("the variance"): _frozen_table("variance"),
}


# Exercise 2


RATE_SLIPS = {
    "twice the rate makes the step as long as the first net's, for the gradient is half as "
    "large; the step has to be twice as long.": FACTOR * HIDDEN_RATE,
    "at the same rate the step is HALF as long as the first net's, for the gradient is half as "
    "large; it has to be twice as long.": HIDDEN_RATE,
    "the other way round: with twice as large weights the gradient is smaller, so the rate has "
    "to be larger.": HIDDEN_RATE / FACTOR,
    "the factor 4 is right, and turned round: the gradient is half as large and the step has to "
    "be twice as long, so the rate grows.": HIDDEN_RATE / FACTOR**2,
    "that is a factor, and no rate of these nets.": float(FACTOR**2),
    "that is one 2 too many: one for the gradient, one for the step.": FACTOR**3 * HIDDEN_RATE,
    "that is one 2, and no rate: one 2 for the gradient, one for the step, times 0.1.": float(
        FACTOR
    ),
    "those are two 2 too many: one for the gradient, one for the step.": FACTOR**4 * HIDDEN_RATE,
    "the rate itself is not squared; what it is multiplied by may be.": (FACTOR * HIDDEN_RATE) ** 2,
    "those are two 2 for the rate, which is then squared; it is not.": (
        (FACTOR**2 * HIDDEN_RATE) ** 2
    ),
    "the factors are multiplied, not added to the rate.": FACTOR**2 + HIDDEN_RATE,
}


# Exercise 3


def _inputs(*shape: int, seed: int = 1) -> tuple[Tensor, ...]:
    """x of this shape; running_mean, running_var, weight, bias of (C,)."""
    generator = torch.Generator().manual_seed(seed)
    x, *vectors = (
        torch.randn(size, dtype=torch.float64, generator=generator)
        for size in (shape, *[shape[1:2]] * 4)
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


def _check_training(student, inputs, cases: Cases) -> None:
    y, mean, var = _call(student, inputs, True)
    x, old_mean, old_var, w, b = inputs
    want_mean, want_var = old_mean.clone(), old_var.clone()
    want = functional.batch_norm(x, want_mean, want_var, w, b, True, MOMENTUM, EPS)
    updated = "in training use the statistics of the batch, not the updated running ones."
    slips = _axis_slips(x, w, b) | _training_slips(inputs)
    slips[updated] = _normalized(x, want_mean, want_var, w, b)
    shape = f"for x of shape {tuple(x.shape)}"
    cases.expect(y, want, slips, f"y in training {shape}")
    slips = {
        "running_mean was not updated.": old_mean,
        "the buffers are exchanged: return y, running_mean, running_var.": want_var,
        "running_mean: the momentum is reversed: it is the weight of the NEW batch.": (
            torch.lerp(old_mean, x.mean(CHANNEL), 1 - MOMENTUM)
        ),
        "momentum is an argument; yours is fixed at 0.1.": (
            torch.lerp(old_mean, x.mean(CHANNEL), 0.1)
        ),
        "running_mean is the batch's; (1 - momentum) of the old value stays in it.": (
            x.mean(CHANNEL)
        ),
    }
    cases.expect(mean, want_mean, slips, f"running_mean {shape}")
    cases.expect(var, want_var, _running_var_slips(x, old_var), f"running_var {shape}")


def _axis_slips(x, w, b) -> dict[str, Tensor]:
    over_batch = (x - x.mean(0)) * torch.rsqrt(x.var(0, correction=0) + EPS)
    over_columns = standardize(x, (0, 1, 2), eps=EPS)
    of_images = x.var((2, 3), correction=0).mean(0)
    return {
        "wrong axes: one mean per COLUMN of pixels; keep the channel, reduce over 0, 2 and 3.": (
            over_columns * w.reshape(-1, 1, 1) + b.reshape(-1, 1, 1)
        ),
        "the variance is the mean of the images' own variances; "
        "measure the squares round the channel's mean, over all images.": (
            _normalized(x, x.mean(CHANNEL), of_images, w, b)
        ),
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
    gain = w.reshape(-1, 1, 1)
    shift = b.reshape(-1, 1, 1)
    mean = x.mean(CHANNEL)
    biased = x.var(CHANNEL, correction=0)
    unbiased = x.var(CHANNEL)
    xhat = _normalized(x, mean, biased)
    slips = {text: wrong(x, CHANNEL, EPS) * gain + shift for text, wrong in STATISTICS.items()}
    slips |= {text: wrong(xhat, gain, shift) for text, wrong in AFFINE.items()}
    del slips[BIASED]
    return slips | {
        "in the batch divide the variance by m, not by m - 1: "
        "unbiased belongs in the buffer only.": _normalized(x, mean, unbiased, w, b),
        "(C,) lines up with the width; reshape to (C, 1, 1).": (
            (x - mean) / (biased + EPS).sqrt() * w + b
        ),
        "weight and bias line up with the width.": xhat * w + b,
        "in training use the statistics of the batch, not the running ones.": (
            _normalized(x, old_mean, old_var, w, b)
        ),
    }


def _running_var_slips(x: Tensor, old_var: Tensor) -> dict[str, Tensor]:
    biased, unbiased = x.var(CHANNEL, correction=0), x.var(CHANNEL)
    samples = len(x)
    by_samples = biased * samples / (samples - 1)
    positions = x[0, 0].numel()
    by_positions = biased * positions / (positions - 1)
    rows = samples * x.shape[2]
    by_rows = biased * rows / (rows - 1)
    by_all = biased * x.numel() / (x.numel() - 1)
    return {
        "m counts the numbers of ONE channel, not all numbers of x.": (
            torch.lerp(old_var, by_all, MOMENTUM)
        ),
        "running_var is the batch's; (1 - momentum) of the old value stays in it.": unbiased,
        "running_var was not updated.": old_var,
        "running_var keeps the UNBIASED variance: multiply by m / (m - 1).": (
            torch.lerp(old_var, biased, MOMENTUM)
        ),
        "running_var: the momentum is reversed: it is the weight of the NEW batch.": (
            torch.lerp(old_var, unbiased, 1 - MOMENTUM)
        ),
        "m counts samples and positions, not samples alone.": (
            torch.lerp(old_var, by_samples, MOMENTUM)
        ),
        "m counts samples and positions, not the positions of one image alone.": (
            torch.lerp(old_var, by_positions, MOMENTUM)
        ),
        "m counts samples, height and width; the width is missing.": (
            torch.lerp(old_var, by_rows, MOMENTUM)
        ),
        "running_var holds a variance, not a standard deviation.": (
            torch.lerp(old_var, unbiased.sqrt(), MOMENTUM)
        ),
        "running_var holds a variance; yours ends with a root.": (
            torch.lerp(old_var, unbiased, MOMENTUM).sqrt()
        ),
        "eps does not belong in running_var; it is added when the buffer is used.": (
            torch.lerp(old_var, unbiased + EPS, MOMENTUM)
        ),
    }


def _check_gradient(student, inputs) -> None:
    x, mean, var, w, b = inputs
    asked = [leaf.clone().requires_grad_() for leaf in (x, w, b)]
    _, *buffers = _returned(student, inputs, True, *asked)
    for name, buffer in zip(RESULTS[1:], buffers, strict=True):
        if buffer.requires_grad:
            raise Slip(
                f"{name} has a grad_fn: detach it, or every batch keeps all earlier ones in memory."
            )
    slips = {
        FROZEN.format("mean and variance"): _with_constants("mean", "variance"),
        FROZEN.format("the mean"): _with_constants("mean"),
        FROZEN.format("the variance"): _with_constants("variance"),
    }
    for training, when in ((True, "in training: "), (False, "in evaluation: ")):

        def y(x, weight, bias, training=training):
            return _returned(student, inputs, training, x, weight, bias)[0]

        def want(x, weight, bias, training=training):
            return functional.batch_norm(
                x, mean.clone(), var.clone(), weight, bias, training, MOMENTUM, EPS
            )

        case = {"x": x, "weight": w, "bias": b}
        same_gradients(y, want, case, slips if training else None, when)


def _returned(student, inputs, training: bool, x, weight, bias) -> tuple:
    _, mean, var, _, _ = inputs
    result = student(x, mean.clone(), var.clone(), weight, bias, training, MOMENTUM, EPS)
    return parts(result, *RESULTS)


def _with_constants(*names: str):
    """Batch norm in training whose mean, variance or both are constants for autograd."""

    def y(x, weight, bias):
        mean = x.mean(CHANNEL, keepdim=True)
        variance = x.var(CHANNEL, correction=0, keepdim=True)
        if "mean" in names:
            mean = mean.detach()
        if "variance" in names:
            variance = variance.detach()
        xhat = (x - mean) / torch.sqrt(variance + EPS)
        return weight.reshape(-1, 1, 1) * xhat + bias.reshape(-1, 1, 1)

    return y


def _check_evaluation(student, inputs, cases: Cases) -> None:
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
    cases.expect(y, _normalized(x, old_mean, old_var, w, b), slips, "y in evaluation")
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
    x, (w, b) = inputs[0] + FAR, inputs[3:]
    y, *_ = parts(student(x, *inputs[1:], True, MOMENTUM, EPS), *RESULTS)
    _right_far_away(y, functional.batch_norm(x, None, None, w, b, True, eps=EPS))


def _right_far_away(y: Tensor, want: Tensor) -> None:
    if not torch.allclose(y, want, rtol=0.0, atol=1e-6):  # x is rounded to 2e-9, its square to 1e-2
        raise Slip(
            "right, but lost at a mean of ten million: subtract the mean first, then square."
        )


# Exercise 4


def _five_numbers(answer) -> Tensor:
    """A list, a tuple, an array or a tensor, lying or standing."""
    advice = "write a list of five numbers, for example [0, 0, 1, 1, 1]."
    try:
        numbers = torch.as_tensor([float(number) for number in _flat(answer)], dtype=torch.float64)
    except (TypeError, ValueError):
        raise Slip(advice) from None
    if len(numbers) != len(WALKED):
        raise Slip(f"you gave {len(numbers)} of them; {advice}")
    return numbers


def _flat(answer) -> list:
    if hasattr(answer, "flatten"):
        return answer.flatten().tolist()
    return [
        part for entry in answer for part in (entry if isinstance(entry, list | tuple) else [entry])
    ]


def _walked(
    s: float = 3.0,
    direct: float = 1.0,
    by_variance: float = 1.0,
    by_mean: float = 1.0,
    variance_to: Sequence[float] = (1, 1, 1, 1, 1),
    mean_to: Sequence[float] = (1, 1, 1, 1, 1),
) -> Tensor:
    """The three paths added up, each with a factor; …_to says whom the paths 2 and 3 reach."""
    column = torch.tensor(WALKED).double()
    g = torch.tensor(ARRIVING).double()
    m = len(column)
    deviations = column - column.mean()
    at_variance = -(g * deviations).sum() / (2 * s**3)
    path_1 = g / s
    path_2 = at_variance * 2 / m * deviations * torch.tensor(variance_to)
    path_3 = -g.sum() / s / m * torch.tensor(mean_to)
    return direct * path_1 + by_variance * path_2 + by_mean * path_3


FIRST_ALONE = (1, 0, 0, 0, 0)
WALK_VALUES = {
    "that is g as it arrives; walk the three paths back to the inputs.": [27, 0, 0, 0, 0],
    "that is g without its mean; path 2 and the division by s are missing.": (
        [21.6, -5.4, -5.4, -5.4, -5.4]
    ),
    "path 1 reaches the first sample only: g is 0 at the others.": [4, 5.6, 7.2, 8.8, 10.4],
    "path 2: x - mean stands in both of its derivatives; yours have x.": (
        [6.4, -3.4, -4.2, -5, -5.8]
    ),
    "path 2: x - mean stands in both of its derivatives; at the variance yours has x.": (
        [8.8, -1, -1.8, -2.6, -3.4]
    ),
    "path 2: x - mean stands in both of its derivatives; from the variance yours has x.": (
        [8.8, 1.4, 3, 4.6, 6.2]
    ),
    "the other samples are moved as well: they share the mean and the variance.": [4, 0, 0, 0, 0],
}
WALK_SLIPS: dict[str, dict[str, Any]] = {  # what is changed in the walk
    "that is path 1 alone; the mean and the variance depend on the inputs, too.": {
        "by_variance": 0.0,
        "by_mean": 0.0,
    },
    "path 3 is missing, the one over the mean.": {"by_mean": 0.0},
    "path 2 is missing, the one over the variance.": {"by_variance": 0.0},
    "path 1 is missing, the direct one.": {"direct": 0.0},
    "that is path 2 alone, or path 3 went to the first sample only, undivided by m = 5.": {
        "direct": 0.0,
        "by_mean": 0.0,
    },
    "that is path 3 alone; add the paths 1 and 2.": {"direct": 0.0, "by_variance": 0.0},
    "all three paths have the wrong sign.": {
        "direct": -1.0,
        "by_variance": -1.0,
        "by_mean": -1.0,
    },
    "the sign of path 2: at the variance arrives -(27)(-4)/(2 * 27), which is positive.": {
        "by_variance": -1.0
    },
    "the sign of path 3: the derivative from the mean to each xhat is -1/s.": {"by_mean": -1.0},
    "the signs of the paths 2 and 3 are both turned.": {"by_variance": -1.0, "by_mean": -1.0},
    "path 3: each sample moves the mean by a fifth only; divide by m = 5.": {"by_mean": 5.0},
    "path 3 reaches all samples, not the first alone.": {"mean_to": FIRST_ALONE},
    "path 2 reaches all samples, not the first alone.": {"variance_to": FIRST_ALONE},
    "path 2: divide the variance by m = 5, not by m - 1.": {"by_variance": 5 / 4},
    "path 3: divide the mean by m = 5, not by m - 1.": {"by_mean": 5 / 4},
    "the paths 2 and 3: divide by m = 5, not by m - 1.": {"by_variance": 5 / 4, "by_mean": 5 / 4},
    "path 2: the derivative from a sample to the variance is 2 (x - mean)/m; "
    "the division by m = 5 is missing.": {"by_variance": 5.0},
    "the division by m = 5 is missing on the paths 2 and 3.": {"by_variance": 5.0, "by_mean": 5.0},
    "path 2: the factor 2/m = 2/5 of the mean square is missing.": {"by_variance": 5 / 2},
    "path 2: the 1/2 of the root's derivative is missing.": {"by_variance": 2.0},
    "path 2: the 2 of the square's derivative is missing.": {"by_variance": 0.5},
    "path 2: s to the power 3, not 2, stands in the derivative at the variance.": {
        "by_variance": 3.0
    },
    "path 2: s to the power 3, not 1, stands in the derivative at the variance.": {
        "by_variance": 9.0
    },
    "path 2: x - mean stands in both of its derivatives; one of yours has xhat.": {
        "by_variance": 1 / 3
    },
    "path 2: x - mean stands in both of its derivatives; yours have xhat.": {"by_variance": 1 / 9},
    "eps is missing: s is the root of 8 + 1.": {"s": math.sqrt(8.0)},
    "s is the root of 9, which is 3.": {"s": 9.0},
}


# Exercise 5


class _Layer(torch.nn.Module):
    """The lesson's layer, once more: shape (nets, 1, width) of gain, bias and buffers."""

    def __init__(self, shape: tuple[int, ...], eps: float, momentum: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(shape, dtype=torch.float64))
        self.bias = torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        self.mean = torch.zeros(shape, dtype=torch.float64)
        self.var = torch.ones(shape, dtype=torch.float64)
        self.eps = eps
        self.momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.mean, self.var
        if self.training:
            mean = x.mean(1, keepdim=True)
            var = x.var(1, correction=0, keepdim=True)
            unbiased = var.detach() * x.shape[1] / (x.shape[1] - 1)
            self.mean = torch.lerp(self.mean, mean.detach(), self.momentum)
            self.var = torch.lerp(self.var, unbiased, self.momentum)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


def _five_accuracies(eps: float, momentum: float) -> Tensor:
    nets = stacked_mlp(1, lambda shape: _Layer(shape, eps, momentum)).double()
    data = digits()
    train_stacked(nets, data, steps=TRAINED, lr=RATE, batch_size=2)
    return stacked_accuracy(nets, data)


def _advice(eps: float, momentum: float) -> str:
    if eps < 0.1:
        return "With so small an eps a pair that almost agrees is still blown up: try a larger one."
    if eps > 2:
        return (
            "With so large an eps the layer shrinks its input to almost nothing: try a smaller one."
        )
    if momentum > 0.1:
        return "The buffers hold the last few pairs alone: try a smaller momentum."
    return "The buffers still hold what they began with: try a momentum of 0.1."
