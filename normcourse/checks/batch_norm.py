"""Checks of lesson 01: batch norm of a table, the layer with its memory, and a frozen net."""

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
from normcourse.checks.values import describe
from normcourse.checks.verdict import Cases, Slip, every_case, exercise, expect, parts
from normlib import functional

MOMENTUM, EPS = 0.25, 0.5  # large, so that a forgotten eps or a reversed momentum shows
FAR = 1e7  # a mean of ten million
CHANNEL = (0, 2, 3)  # what is reduced for one channel of (N, C, H, W)
RESULTS = ("y", "running_mean", "running_var")


COLUMN, COLUMN_EPS, GAIN, BIAS, NORMED = (2, 2, 8, 8), 16, 10, 1, (-5, -5, 7, 7)


@exercise(
    "Exercise 1 (your norm)",
    "the four steps",
    "x of shape (samples, features)",
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


@exercise(
    "Exercise 2 (the whole layer)",
    "any number of axes",
    "the three buffers",
    "raises a `ValueError`",
)
def layer(kind) -> None:
    """kind(features, eps, momentum) is a module for x (N, C), (N, C, L) and (N, C, H, W).

    [EQ-BN-RUNNING]
    """
    if getattr(kind, "forward", None) is nn.BatchNorm1d.forward:
        raise Slip("that is torch's layer, a finished batch_norm: write forward yourself.")
    student = forbid(_as_function(kind), "batch_norm", "normlib")
    _check_state(kind)
    inputs = _inputs(4, 3, 2, 3)
    others = _inputs(5, 2, 3, 2, seed=3)  # as wide as there are channels, too
    with every_case() as cases:
        _check_training(student, inputs, cases)
        _check_training(student, others, cases)
    with every_case() as cases:
        _check_evaluation(student, inputs, cases)
        _check_evaluation(student, others, cases)
    _check_gradient(student, inputs)
    _check_large_mean(student, inputs)
    _check_other_shapes(student)
    _check_as_torch(kind)
    _check_one_value(kind)


@exercise(
    "Exercise 3 (freeze it)", "whatever mode the surrounding model is in", "returns the module"
)
def frozen(kind) -> None:
    """kind(net) is a module around a net that nothing moves, and that knows evaluation alone."""
    net = _net_to_freeze()
    wanted = copy.deepcopy(net).eval()
    around = kind(net)
    if not isinstance(around, nn.Module):
        raise Slip(f"Frozen(net) is {describe(around)}, expected a module.")
    model = nn.Sequential(around, nn.Linear(3, 2).double())
    for name, switch in (("train", around.train), ("eval", around.eval)):
        try:
            returned = switch()
        except RecursionError:
            raise Slip(
                f"{name}() never ends: eval() calls train(False), so a train() that calls eval() "
                "calls itself. Put the net inside into eval mode instead: self.net.eval()."
            ) from None
        if returned is not around:
            raise Slip(f"{name}() has to return the module itself, as every module's does.")
    for mode in (True, False, True):
        model.train(mode)
        when = f"with the model around it in {'train' if mode else 'eval'}() mode"
        _check_frozen(around, net, wanted, when)
    if any(parameter.requires_grad for parameter in net.parameters()):
        raise Slip("the parameters inside still ask for a gradient: requires_grad_(False).")


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


def _as_function(kind) -> Callable:
    """One call of a fresh layer, in the manner of F.batch_norm.

    Of x, running_mean, running_var, weight, bias, training, momentum, eps; it returns y and the two
    buffers.
    """

    def student(x, running_mean, running_var, weight, bias, training, momentum, eps):
        module = _module(kind, len(weight), eps, momentum)
        module.get_buffer("running_mean").copy_(running_mean)
        module.get_buffer("running_var").copy_(running_var)
        for name, given in (("weight", weight), ("bias", bias)):
            delattr(module, name)  # autograd asks for the gradient at the tensor that was given
            setattr(module, name, given)
        y = module.train(training)(x)
        return y, module.running_mean, module.running_var

    return student


def _module(kind, features: int, eps: float, momentum: float) -> nn.Module:
    if isinstance(kind, nn.Module):
        raise Slip("that is a layer; hand over the class, without brackets: BatchNorm.")
    module = kind(features, eps, momentum)
    if not isinstance(module, nn.Module):
        raise Slip(f"BatchNorm({features}, …) is {describe(module)}, expected a module.")
    return module.double()


def _check_state(kind) -> None:
    """The state of a fresh layer is that of torch's, name by name."""
    got = _module(kind, 3, 1e-5, 0.1).state_dict()
    wanted = nn.BatchNorm1d(3).double().state_dict()
    for name, value in wanted.items():
        if name not in got:
            raise Slip(f"the layer's state has no {name}; torch's has, so keep __init__ as it is.")
        if got[name].shape != value.shape or not torch.equal(got[name], value):
            raise Slip(f"a fresh layer's {name} is not that of torch: keep __init__ as it is.")
    if more := sorted(set(got) - set(wanted)):
        raise Slip(
            f"torch's layer has no {more[0]}: keep its five names, and checkpoints fit both."
        )


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
    got = parts(_right_shapes(student, inputs, training, MOMENTUM, EPS), *RESULTS)
    for name, place in (("x", 0), ("weight", 3), ("bias", 4)):
        unchanged(name, kept[place], inputs[place])
    return got


def _right_shapes(student, inputs, training: bool, momentum: float, eps: float):
    """What student returns; a Slip that names the axes where torch's shapes do not fit."""
    try:
        return student(*inputs, training, momentum, eps)
    except (Slip, NotImplementedError):
        raise
    except (RuntimeError, IndexError) as error:
        raise Slip(
            f"for x of shape {tuple(inputs[0].shape)}, training={training}, your code raised "
            f"{one_line(error)}. Axis 1 is the channel: reduce over all other axes, however many "
            "there are, so that mean and variance have the shape (C,)."
        ) from None


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
        "the buffers are exchanged: running_mean keeps the mean.": want_var,
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
        "running_var: the factor is upside down: multiply by m / (m - 1).": (
            torch.lerp(old_var, biased.square() / unbiased, MOMENTUM)
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
            raise Slip(f"evaluation must not change {name}: it only reads it.")


OTHER_SHAPES = ((6, 3), (4, 3, 7), (2, 5, 1, 4))  # the last has one row of pixels


def _check_other_shapes(student) -> None:
    """Other sizes and ranks: nothing may be built in or kept from the first call."""
    for shape in OTHER_SHAPES:
        for training in (True, False):
            inputs = _inputs(*shape, seed=2)
            when = f"for x of shape {shape}, training={training},"
            got = parts(_right_shapes(student, inputs, training, 0.1, 0.25), *RESULTS)
            x, mean, var, w, b = inputs
            mean, var = mean.clone(), var.clone()
            y = F.batch_norm(x, mean, var, w, b, training, 0.1, 0.25)
            for name, value, want in zip(RESULTS, got, (y, mean, var), strict=True):
                expect(value, want, what=f"{name} {when}")


def _check_large_mean(student, inputs) -> None:
    x, (w, b) = inputs[0] + FAR, inputs[3:]
    y, *_ = parts(student(x, *inputs[1:], True, MOMENTUM, EPS), *RESULTS)
    _right_far_away(y, functional.batch_norm(x, None, None, w, b, True, eps=EPS))


def _right_far_away(y: Tensor, want: Tensor) -> None:
    if not torch.allclose(y, want, rtol=0.0, atol=1e-6):  # x is rounded to 2e-9, its square to 1e-2
        raise Slip(
            "right, but lost at a mean of ten million: subtract the mean first, then square."
        )


def _check_as_torch(kind) -> None:
    """Three batches, and what is remembered of them: the buffers, the count, the evaluation."""
    ours, theirs = _module(kind, 3, EPS, MOMENTUM), nn.BatchNorm1d(3, EPS, MOMENTUM).double()
    for seed in range(3):
        batch = 1 + draw(5, 3, seed=seed)
        ours(batch)
        theirs(batch)
    counted = ours.state_dict()["num_batches_tracked"]
    if counted.item() != 3:
        raise Slip(
            f"after three batches in training num_batches_tracked is {counted.item()}: add 1 in "
            "each forward pass of training."
        )
    for name, want in theirs.state_dict().items():
        expect(ours.state_dict()[name], want, what=f"{name} after three batches")
    batch = draw(2, 3, seed=9)
    expect(ours.eval()(batch), theirs.eval()(batch), what="evaluation after three batches")
    if ours.state_dict()["num_batches_tracked"].item() != 3:
        raise Slip("evaluation must not count: num_batches_tracked belongs to training.")


def _check_one_value(kind) -> None:
    """One value per channel: a ValueError in training, and nothing is written; fine in evaluation.

    A finished layer divides by m - 1 = 0 here, and running_var would be NaN ever after.
    """
    module = _module(kind, 3, EPS, MOMENTUM)
    module(draw(5, 3, seed=1))
    kept = copy.deepcopy(module.state_dict())
    one = draw(1, 3, seed=2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of var() of one number
            module(one)
    except ValueError:
        pass
    except Exception as error:
        raise Slip(
            f"x of shape (1, 3) has one value per channel: your code raised {one_line(error)}; "
            "raise a ValueError, as torch does."
        ) from None
    else:
        left = "running_var is NaN ever after" if _has_nan(module) else "it has no spread"
        raise Slip(
            f"x of shape (1, 3) has one value per channel, and {left}: raise a ValueError in "
            "training if m is 1, as torch does."
        )
    for name, value in module.state_dict().items():
        if not torch.equal(value, kept[name]):
            raise Slip(f"{name} has changed although the layer raised: check m first, then write.")
    try:
        module.eval()(one)
    except ValueError:
        raise Slip(
            "in evaluation one value per channel is fine: raise in training alone."
        ) from None


def _has_nan(module: nn.Module) -> bool:
    return any(value.isnan().any() for value in module.state_dict().values())


# Exercise 3


def _net_to_freeze() -> nn.Module:
    """A convolution, a BatchNorm that has seen something, dropout, and a head for x (N, 1, 8)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv1d(1, 4, 3, padding=1),
            nn.BatchNorm1d(4),
            nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(32, 3),
        ).double()
        net(draw(16, 1, 8, seed=1))
    return net


def _check_frozen(around, net: nn.Module, wanted: nn.Module, when: str) -> None:
    """Two other batches: the right answers, and nothing has moved."""
    kept = wanted.state_dict()
    for seed in (2, 3):
        batch = 3 * draw(8, 1, 8, seed=seed) + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # dropout
            answer = around(batch)
        for name, value in net.state_dict().items():
            if not torch.equal(value, kept[name]):
                raise Slip(
                    f"{when}, {name} has moved: train() goes through all modules inside, so the "
                    "BatchNorm is in train mode again."
                )
        if not (isinstance(answer, Tensor) and torch.allclose(answer, wanted(batch))):
            raise Slip(
                f"{when}, the answers are not those of evaluation: something inside still drops "
                "numbers out, or measures its batch. Put all of the net inside into eval mode."
            )
