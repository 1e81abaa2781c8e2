"""The checks of lesson 01 name the slip of wrong answers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

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


def upside_down(x, running_mean, running_var, weight, bias, training, momentum, eps):
    y, mean, var = norm()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    m = x[:, 0].numel()
    less = x.detach().var(DIMS, correction=0) * (m - 1) / m
    return y, mean, torch.lerp(running_var, less, momentum) if training else var


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


def by_rank(x, running_mean, running_var, weight, bias, training, momentum, eps):
    """The right layer, for any number of axes."""
    others = [axis for axis in range(x.dim()) if axis != 1]
    shape = [-1] + [1] * (x.dim() - 2)
    mean, var = running_mean, running_var
    if training:
        mean, var = x.mean(others), x.var(others, correction=0)
        running_mean = torch.lerp(running_mean, mean.detach(), momentum)
        running_var = torch.lerp(running_var, x.detach().var(others), momentum)
    mean, var, w, b = (vector.reshape(shape) for vector in (mean, var, weight, bias))
    return w * (x - mean) / torch.sqrt(var + eps) + b, running_mean, running_var


def refuse_one_value(x):
    if x.numel() == x.shape[1]:
        raise ValueError("one value per channel has no spread")


def as_module(call, refuse=refuse_one_value):
    """The class of a layer that computes as this function does; its state is torch's."""

    class Layer(nn.Module):
        def __init__(self, features, eps=1e-5, momentum=0.1):
            super().__init__()
            self.eps, self.momentum = eps, momentum
            self.weight = nn.Parameter(torch.ones(features))
            self.bias = nn.Parameter(torch.zeros(features))
            self.register_buffer("running_mean", torch.zeros(features))
            self.register_buffer("running_var", torch.ones(features))
            self.register_buffer("num_batches_tracked", torch.tensor(0))

        def forward(self, x):
            if self.training:
                refuse(x)
            buffers = (self.running_mean, self.running_var)
            given = (self.weight, self.bias, self.training, self.momentum, self.eps)
            y, self.running_mean, self.running_var = call(x, *buffers, *given)
            if self.training:
                self.num_batches_tracked += 1
            return y

    return Layer


FORWARD = {
    "unbiased in the batch": (norm(correction=1), "divide the variance by m, not by m - 1"),
    "biased in the buffer": (norm(buffer_correction=0), "keeps the UNBIASED variance"),
    "both swapped": (
        norm(correction=1, buffer_correction=0),
        "divide the variance by m, not by m - 1",
    ),
    "eps outside the root": (norm(outside=1.0), "eps belongs inside the root"),
    "eps missing": (norm(eps_factor=0.0), "eps is not used"),
    "upside down": (upside_down, "the factor is upside down"),
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
    "the library": (library, "to be solved without batch_norm"),
    "sizes built in": (sizes_built_in, "running_var for x of shape (5, 2, 3, 2)"),
    "raises": (lambda *inputs: 1 / 0, "your code raised ZeroDivisionError"),
    "y is None": (lambda x, *rest: (None, *rest[:2]), "None (is the return missing?)"),
    "images alone": (norm(), "for x of shape (6, 3)"),
}


class Counts(as_module(by_rank)):
    """A right layer but for what it counts, and when."""

    in_training, in_evaluation = 1, 0

    def forward(self, x):
        before = self.num_batches_tracked.clone()
        y = super().forward(x)
        self.num_batches_tracked = before + (
            self.in_training if self.training else self.in_evaluation
        )
        return y


class Uncounted(Counts):
    in_training = 0


class CountsEvaluation(Counts):
    in_evaluation = 1


class Renamed(as_module(by_rank)):
    def __init__(self, *given):
        super().__init__(*given)
        self.gain = self.weight
        del self.weight


class Unbuffered(as_module(by_rank)):
    def __init__(self, *given):
        super().__init__(*given)
        del self.running_mean
        self.running_mean = torch.zeros(given[0])


class More(as_module(by_rank)):
    def __init__(self, *given):
        super().__init__(*given)
        self.register_buffer("last_mean", torch.zeros(1))


class OverTheBatch(as_module(by_rank)):
    """The most common wrong answer: mean(0) for every number of axes."""

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0, correction=0)
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(var.detach() * len(x) / (len(x) - 1), self.momentum)
            self.num_batches_tracked += 1
        shape = (-1,) + (1,) * (x.dim() - 2)
        xhat = (x - mean.reshape(shape)) / torch.sqrt(var.reshape(shape) + self.eps)
        return self.weight.reshape(shape) * xhat + self.bias.reshape(shape)


class OverTheBatchAssigned(OverTheBatch):
    def forward(self, x):
        if self.training:
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * x.mean(0)
        return super().forward(x)


class RefusesLate(as_module(by_rank, refuse=lambda x: None)):
    def forward(self, x):
        y = super().forward(x)
        if self.training:
            refuse_one_value(x)
        return y


class RefusesAlways(as_module(by_rank)):
    def forward(self, x):
        refuse_one_value(x)
        return super().forward(x)


def divided_by_zero(x):
    1 / (x.numel() // x.shape[1] - 1)


LAYER = {name: (as_module(call), message) for name, (call, message) in FORWARD.items()} | {
    "not counted": (Uncounted, "after three batches in training num_batches_tracked is 0"),
    "evaluation counted": (CountsEvaluation, "evaluation must not count"),
    "another name": (Renamed, "the layer's state has no weight"),
    "a plain tensor": (Unbuffered, "the layer's state has no running_mean"),
    "more state": (More, "torch's layer has no last_mean"),
    "a layer": (Counts(3), "hand over the class"),
    "torch's layer": (nn.BatchNorm1d, "that is torch's layer"),
    "mean(0)": (OverTheBatch, "reduce over all other axes"),
    "mean(0), assigned": (OverTheBatchAssigned, "reduce over all other axes"),
    "one value": (as_module(by_rank, lambda x: None), "running_var is NaN ever after"),
    "one value, late": (RefusesLate, "check m first, then write"),
    "one value, in evaluation": (RefusesAlways, "raise in training alone"),
    "one value, another error": (
        as_module(by_rank, divided_by_zero),
        "your code raised ZeroDivisionError",
    ),
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


def frozen(train, learns=False):
    """Exercise 3's module with this train()."""

    class Frozen(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net.eval().requires_grad_(learns)

        def forward(self, x):
            return self.net(x)

    Frozen.train = train
    return Frozen


def eval_first(self, mode=True):
    self.net.eval()
    return nn.Module.train(self, mode)


def all_but(change):
    """Ordinary train(), and then this to the layers inside."""

    def train(self, mode=True):
        nn.Module.train(self, mode)
        _, batch_norm, dropout, *_ = self.net
        change(batch_norm, dropout)
        return self

    return train


def slow_buffers(batch_norm, dropout):
    batch_norm.momentum = 0.0


def no_buffers(batch_norm, dropout):
    batch_norm.track_running_stats = False
    dropout.eval()


FROZEN = {
    "nothing overridden": (frozen(nn.Module.train), "1.running_mean has moved"),
    "eval before train": (frozen(eval_first), "1.running_mean has moved"),
    "nothing returned": (frozen(lambda self, mode=True: None), "train() has to return the module"),
    "the net returned": (
        frozen(lambda self, mode=True: self.net.eval()),
        "return the module itself",
    ),
    "BatchNorm alone": (frozen(all_but(lambda norm, dropout: norm.eval())), "drops numbers out"),
    "momentum 0": (frozen(all_but(slow_buffers)), "1.num_batches_tracked has moved"),
    "no buffers": (frozen(all_but(no_buffers)), "or measures its batch"),
    "eval of itself": (frozen(lambda self, mode=True: self.eval()), "calls itself"),
    "parameters learn": (frozen(lambda self, mode=True: self, learns=True), "ask for a gradient"),
    "no module": (lambda net: net.eval, "expected a module"),
}

WRONG = {check.table: TABLE, check.layer: LAYER, check.frozen: FROZEN}


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
    shape = (1, -1, *[1] * (x.dim() - 2))
    if training:
        m = x.numel() // x.shape[1]
        mean = torch.einsum("nc...->c", x) / m
        centred = x - mean.view(shape)
        var = torch.einsum("nc...,nc...->c", centred, centred) / m
        running_mean = running_mean + momentum * (mean.data - running_mean)
        running_var = running_var + momentum * (var.data * m / (m - 1) - running_var)
    xhat = (x - mean.view(shape)) / (var + eps).view(shape) ** 0.5
    y = torch.addcmul(bias.view(shape), xhat, weight.view(shape))
    return y, running_mean, running_var


class InPlace(nn.Module):
    """The buffers are written into, under no_grad, and the moments come from one call."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        rows = x.movedim(1, -1)
        var, mean = self.running_var, self.running_mean
        if self.training:
            refuse_one_value(x)
            table = rows.flatten(0, -2)
            var, mean = torch.var_mean(table, 0, correction=0)
            with torch.no_grad():
                self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
                self.running_var.lerp_(var * len(table) / (len(table) - 1), self.momentum)
                self.num_batches_tracked.add_(1)
        y = (rows - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias
        return y.movedim(-1, 1)


@pytest.mark.parametrize(
    "kind", [as_module(by_rank), as_module(flat), as_module(by_einsum), Counts, InPlace]
)
def test_a_right_layer_is_accepted(kind):
    assert check.layer(kind).startswith("[ok]")  # so each slip above is its one argument


def and_the_flag(self, mode=True):
    nn.Module.train(self, mode)
    self.net.eval()
    return self


@pytest.mark.parametrize(
    "train",
    [lambda self, mode=True: self, and_the_flag, lambda self, mode=True: eval_first(self, False)],
)
def test_a_frozen_net_is_accepted(train):
    assert check.frozen(frozen(train)).startswith("[ok]")


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
