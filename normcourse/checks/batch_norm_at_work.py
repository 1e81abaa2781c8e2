"""Checks of lesson 01a: statistics of several GPUs, an epsilon for pairs, and a fold."""

import math

import torch
from torch import Tensor, nn

from normcourse import draw
from normcourse.checks.probes import calls, forbid, same_gradients
from normcourse.checks.verdict import Slip, exercise, real
from normcourse.training import digits, stacked_accuracy, stacked_mlp, train_stacked

COUNTS = (1, 3)  # images on the two GPUs of the text's second example
GPUS, BATCH, STEPS, LR = 8, 16, 200, 0.2
REACHED = 0.8


@exercise(
    "Exercise 1 (merge the statistics)",
    "$(1, 3, 5, 7)$, split into $(1, 3)$ and $(5, 7)$, gives the two means 2 and 6 and the two "
    "variances 1 and 1; the batch has the mean 4 and the variance 5",
    "into $(1)$ and $(3, 5, 7)$",
    f"counts $({COUNTS[0]}, {COUNTS[1]})$, means $(1, 5)$, variances $(0, 8/3)$",
)
def merge(student) -> None:
    """student(means, variances, counts) -> mean, variance of the whole batch, per feature.

    means and variances are (GPUs, features), counts is (GPUs,).
    """
    cases = [_gpus(3, 2, 4, 3), _gpus(1, 3, features=2), _gpus(2, 5, 1, 2, features=5)]
    calls(student, merged, *cases, slips=MERGE_SLIPS, what=("the mean", "the variance"))
    for place, name in enumerate(("mean", "variance")):
        same_gradients(
            lambda *case, place=place: student(*case)[place],
            lambda *case, place=place: merged(*case)[place],
            cases[0],
            when=f"the {name}: ",
        )


@exercise(
    "Exercise 2 (rescue the pairs)",
    f"after {STEPS} steps at the learning rate {LR}, each of the five networks reaches at least "
    f"{REACHED:.0%}",
    f"gpus={GPUS}, eps=…), lr={LR}, steps={STEPS}",
)
def rescue(eps) -> str:
    """eps: with it, BatchNorm on 8 GPUs with two images each reaches 80% in all five networks.

    Returns, in words, what they reached.
    """
    eps = real(eps, "eps")
    if not 0 < eps < math.inf:
        raise Slip(f"eps is a number above 0, got {eps:g}.")
    reached = _on_pairs(eps)
    worst = reached.min()
    if worst < REACHED:
        side = (
            "So small an eps still stops the gradient of a pair: try a larger one."
            if eps < 0.5
            else "So large an eps leaves too little at this learning rate: try a smaller one."
        )
        raise Slip(f"the worst network reaches {worst:.0%}, wanted at least {REACHED:.0%}. {side}")
    return f"the five networks reach {worst:.0%} to {reached.max():.0%}."


@exercise("Exercise 3 (fold)")
def fold(student) -> None:
    """student(weight, bias, mean, var, gain, shift, eps) -> weight, bias of one Linear layer.

    [EQ-BN-FOLD]
    """
    # the first is square: there the factor can be put on the columns, and the slip is named
    cases = [_linear_and_norm(4, 4, 0.5), _linear_and_norm(5, 3, 0.1), _linear_and_norm(2, 4, 0.2)]
    names = ("the weight", "the bias")
    calls(forbid(student, "normlib"), _fold, *cases, slips=FOLD_SLIPS, what=names)


# Exercise 1


def _gpus(*counts: int, features: int = 4) -> dict:
    """The statistics of so many images on each GPU."""
    images = [
        draw(count, features, seed=seed) * (1 + seed) + seed for seed, count in enumerate(counts)
    ]
    return {
        "means": torch.stack([x.mean(0) for x in images]),
        "variances": torch.stack([x.var(0, correction=0) for x in images]),
        "counts": torch.tensor(counts),
    }


def _shares(counts: Tensor) -> Tensor:
    return (counts / counts.sum()).to(torch.float64)[:, None]


def merged(means: Tensor, variances: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of all images: exercise 1's answer, for layers that need one."""
    share = _shares(counts)
    mean = (share * means).sum(0)
    return mean, (share * (variances + (means - mean).square())).sum(0)


def _unweighted(means, variances, counts):
    mean = means.mean(0)
    return mean, (variances + (means - mean).square()).mean(0)


def _only_mean_weighted(means, variances, counts):
    mean, _ = merged(means, variances, counts)
    return mean, (variances + (means - mean).square()).mean(0)


def _with_variance(change):
    """The right mean, and change(share, means, mean, variances, counts) for the variance."""

    def slip(means, variances, counts):
        mean, _ = merged(means, variances, counts)
        return mean, change(_shares(counts), means, mean, variances, counts)

    return slip


MERGE_SLIPS = {
    "mean and variance are swapped.": lambda *case: merged(*case)[::-1],
    "the variances are averaged, and what lies between the GPUs is lost: each GPU measures around "
    "its own mean.": _with_variance(lambda share, m, mean, v, n: (share * v).sum(0)),
    "the variances are averaged without weights, and what lies between the GPUs is lost.": (
        _with_variance(lambda share, m, mean, v, n: v.mean(0))
    ),
    "each GPU counts the same in yours; weight it by its number of images.": _unweighted,
    "the mean is weighted by the counts, the variance is not.": _only_mean_weighted,
    "that is what lies between the GPUs; add what lies within each of them.": (
        _with_variance(lambda share, m, mean, v, n: (share * (m - mean).square()).sum(0))
    ),
    "the distance of the means is not squared.": (
        _with_variance(lambda share, m, mean, v, n: (share * (v + (m - mean).abs())).sum(0))
    ),
    "the batch divides by m, as in torch's train mode; yours divides by m - 1.": (
        _with_variance(
            lambda share, m, mean, v, n: (
                (share * (v + (m - mean).square())).sum(0) * n.sum() / (n.sum() - 1)
            )
        )
    ),
    "the mean of the squares is not yet the variance: subtract the squared mean.": (
        _with_variance(lambda share, m, mean, v, n: (share * (v + m.square())).sum(0))
    ),
    "these are sums over the images; divide by their number.": lambda means, variances, counts: (
        tuple(counts.sum() * part for part in merged(means, variances, counts))
    ),
    "that is the standard deviation; the variance is its square.": (
        _with_variance(
            lambda share, m, mean, v, n: (share * (v + (m - mean).square())).sum(0).sqrt()
        )
    ),
}


# Exercise 2


class _OnGPUs(nn.Module):
    """BatchNorm of the lesson: each of the GPUs measures its part of the batch, axis 1."""

    def __init__(self, shape: tuple[int, ...], eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(shape, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(shape, dtype=torch.float64))
        self.mean = torch.zeros(shape, dtype=torch.float64)
        self.var = torch.ones(shape, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self._affine(x, self.mean, self.var)
        parts = []
        for gpu, part in enumerate(x.chunk(GPUS, 1)):
            var, mean = torch.var_mean(part, 1, correction=0, keepdim=True)
            parts.append(self._affine(part, mean, var))
            if gpu == 0:
                m = part.shape[1]
                self.mean = torch.lerp(self.mean, mean.detach(), 0.1)
                self.var = torch.lerp(self.var, m / (m - 1) * var.detach(), 0.1)
        return torch.cat(parts, 1)

    def _affine(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias


def _on_pairs(eps: float) -> Tensor:
    nets = stacked_mlp(2, lambda shape: _OnGPUs(shape, eps)).double()
    data = digits()
    train_stacked(nets, data, steps=STEPS, lr=LR, batch_size=BATCH)
    return stacked_accuracy(nets, data)


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
