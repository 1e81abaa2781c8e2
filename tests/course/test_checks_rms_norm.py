"""The checks of lesson 03 name the slips people make, and accept a rounded answer."""

import pytest
import torch
from torch.nn import functional as F

from normcourse.checks import rms_norm as check
from normlib import functional


def inverse_rms(x, eps):
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def upcast(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


@pytest.mark.parametrize("value", [0.56, 0.5556, torch.tensor(5 / 9)], ids=str)
def test_variance_may_be_rounded_or_a_tensor(value):
    assert check.variance_left(value).startswith("[ok]")


VARIANCES = [
    (1.0, "what LayerNorm leaves"),
    (4 / 9, "share of the mean"),
    (5 / 3, "divided by its square"),
    (1 / 3, "square of mean/RMS"),
    (-1 / 3, "no variance is negative"),
    (5 / 81, "twice"),
    (5 / 4, "divides by the squared mean"),
    (5 / 7, "SQUARED mean"),
    (5, "variance of the input"),
    (9, "mean square of the row"),
    (1 / 9, "divides 1 by the mean square"),
    (7 / 9, "the SQUARED mean over it"),
    (0.6, "two digits"),
    (3, "the RMS of the row"),
    (0.309, "squares that"),
    (5 / 25, "divides by the squared variance"),
    (5 / 29, "squares the variance"),
    (2 / 3, "is mean/RMS"),
    (5 / 21, "squares the squared mean"),
    (0.745, "standard deviation"),
    (1.8, "upside down"),
    (2.5, "divides by the mean;"),
    (0, "constant row"),
    (0.5, "off by"),
    (1.32, "which is 140 % of"),
]


@pytest.mark.parametrize("value, message", VARIANCES)
def test_wrong_variance_is_named(value, message):
    verdict = check.variance_left(value)
    assert verdict.startswith("[x]") and message in verdict


def always_float(x, weight, eps):
    return (weight * (x.float() * inverse_rms(x.float(), eps))).type_as(x)


def in_place(x, weight, eps):
    x.data *= inverse_rms(x.data, eps)
    return x * weight


def statistic_without_gradient(x, weight, eps):
    with torch.no_grad():
        rstd = inverse_rms(upcast(x), eps)
    return (upcast(x) * rstd * weight).to(x.dtype)


def of_a_module(x, weight, eps):
    norm = torch.nn.RMSNorm(weight.shape, eps, elementwise_affine=False)
    return norm(x) * weight


RMS_NORMS = {
    "eps outside": (
        lambda x, w, e: x / (x.square().mean(-1, keepdim=True).sqrt() + e) * w,
        "under the root",
    ),
    "no eps": (lambda x, w, e: x * inverse_rms(x, 0.0) * w, "eps is missing"),
    "eps as a floor": (
        lambda x, w, e: x / x.square().mean(-1, keepdim=True).clamp(min=e).sqrt() * w,
        "the smallest one that is allowed",
    ),
    "eps squared": (lambda x, w, e: x * inverse_rms(x, e**2) * w, "not squared"),
    "eps is built in": (lambda x, w, e: x * inverse_rms(x, 1e-5) * w, "not 1e-5"),
    "eps in the sum": (
        lambda x, w, e: x / ((x.square().sum(-1, keepdim=True) + e) / x.shape[-1]).sqrt() * w,
        "you added it to the sum",
    ),
    "std plus eps": (lambda x, w, e: x / (x.std(-1, keepdim=True) + e) * w, "deviation plus eps"),
    "divides by the norm": (
        lambda x, w, e: x / (x.square().sum(-1, keepdim=True) + e).sqrt() * w,
        "MEAN square",
    ),
    "divides by the norm, no eps": (
        lambda x, w, e: F.normalize(x, dim=-1) * w,
        "and eps is missing",
    ),
    "divides by the norm, eps outside": (
        lambda x, w, e: x / (x.norm(dim=-1, keepdim=True) + e) * w,
        "not by the length; and eps belongs",
    ),
    "eps as the smallest divisor": (
        lambda x, w, e: x / x.square().mean(-1, keepdim=True).sqrt().clamp(min=e) * w,
        "smallest divisor",
    ),
    "divisor D - 1": (
        lambda x, w, e: x / (x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1) + e).sqrt() * w,
        "D - 1",
    ),
    "no root": (lambda x, w, e: x / (x.square().mean(-1, keepdim=True) + e) * w, "take the root"),
    "multiplies": (lambda x, w, e: x / inverse_rms(x, e) * w, "divide by it"),
    "layer norm": (lambda x, w, e: F.layer_norm(x, x.shape[-1:], w, None, e), "that is LayerNorm"),
    "centres x only": (
        lambda x, w, e: (x - x.mean(-1, keepdim=True)) * inverse_rms(x, e) * w,
        "does not centre",
    ),
    "variance": (
        lambda x, w, e: x / (x.var(-1, correction=0, keepdim=True) + e).sqrt() * w,
        "standard deviation",
    ),
    "torch.var": (lambda x, w, e: x / (x.var(-1, keepdim=True) + e).sqrt() * w, "torch's unbiased"),
    "no gain": (lambda x, w, e: x * inverse_rms(x, e), "gain is missing"),
    "1 + weight": (lambda x, w, e: x * inverse_rms(x, e) * (1 + w), "Gemma's form"),
    "adds the weight": (lambda x, w, e: x * inverse_rms(x, e) + w, "not a bias"),
    "gain first": (lambda x, w, e: x * w * inverse_rms(x * w, e), "the gain comes last"),
    "axis 0": (lambda x, w, e: x * torch.rsqrt(x.square().mean(0) + e) * w, "each ROW"),
    "whole batch": (lambda x, w, e: x * torch.rsqrt(x.square().mean() + e) * w, "whole batch"),
    "no keepdim": (lambda x, w, e: x * torch.rsqrt(x.square().mean(-1) + e) * w, "keepdim=True"),
    "mean of |x|": (
        lambda x, w, e: x / (x.abs().mean(-1, keepdim=True) + e) * w,
        "absolute values",
    ),
    "root of the squared mean": (
        lambda x, w, e: x / (x.mean(-1, keepdim=True).square() + e).sqrt() * w,
        "you squared the mean",
    ),
    "x.float() for float64": (always_float, "computed in float32"),
    "float32 for float64": (
        lambda x, w, e: x.float() * inverse_rms(x.float(), e) * w.float(),
        "dtype torch.float32",
    ),
    "in place": (in_place, "changed in place"),
    "detached": (lambda x, w, e: (x * inverse_rms(x, e) * w).detach(), "no gradient comes back"),
    "torch's": (lambda x, w, e: F.rms_norm(x, w.shape, w, e), "solved without rms_norm"),
    "torch's module": (of_a_module, "solved without rms_norm"),
    "normlib's": (lambda x, w, e: functional.rms_norm(x, w.shape, w, e), "solved without"),
    "two dimensions at least": (
        lambda x, w, e: (x.flatten(0, -2) * inverse_rms(x.flatten(0, -2), e) * w).view_as(x),
        "for x of shape (6,), weight of shape (6,), eps = 0.3: your code raised IndexError",
    ),
    "dim 1": (
        lambda x, w, e: x * torch.rsqrt(x.square().mean(1, keepdim=True) + e) * w,
        "for x of shape (6,)",
    ),
    "divided by rsqrt": (
        lambda x, w, e: x / torch.rsqrt(x.square().mean(-1, keepdim=True) + e) * w,
        "torch.rsqrt is one over the root already",
    ),
    "complex": (lambda x, w, e: x * inverse_rms(x, e) * w + 0j, "the output is complex"),
    "half of the gain's gradient": (
        lambda x, w, e: x * inverse_rms(x, e) * (w + w.detach()) / 2,
        "the gradient with respect to weight is off",
    ),
    "no_grad statistic": (statistic_without_gradient, "is detached"),
    "weight.data": (lambda x, w, e: x * inverse_rms(x, e) * w.data, "reaches weight"),
    "x.data": (lambda x, w, e: x.data * inverse_rms(x.data, e) * w, "reaches x"),
}


@pytest.mark.parametrize("answer, message", RMS_NORMS.values(), ids=RMS_NORMS)
def test_wrong_rms_norm_is_named(answer, message):
    verdict = check.rms_norm(answer)
    assert verdict.startswith("[x]") and message in verdict


def by_norm(x, weight, eps):
    mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return weight * (x / (mean_square + eps) ** 0.5)


def by_einsum(x, weight, eps):
    mean_square = torch.einsum("...i,...i->...", x, x) / len(weight)
    return torch.einsum("...i,i,...->...i", x, weight, (mean_square + eps).rsqrt())


def row_by_row(x, weight, eps):
    rows = [row / torch.sqrt((row @ row) / len(row) + eps) for row in x.reshape(-1, len(weight))]
    return torch.stack(rows).reshape(x.shape) * weight


class AsAModule(torch.nn.Module):
    def forward(self, x, weight, eps):
        return inverse_rms(x, eps) * x * weight


@pytest.mark.parametrize(
    "answer",
    [by_norm, by_einsum, row_by_row, AsAModule(), torch.compile(by_norm, backend="eager")],
    ids=["norm", "einsum", "rows", "module", "compiled"],
)
def test_right_norms_are_accepted(answer):
    assert check.rms_norm(answer).startswith("[ok]")


PARTS = {
    42: "without a norm",
    0: "behind LayerNorm",
    42 / 5**0.5: "divides by the deviation",
    14 / 3: "divides by its root",
    7: "the mean is a factor, too",
    2 / 3: "multiplied by the reader's sum",
    9.3: "the mean's share",
    63: "the sum times the RMS",
    28: "the mean twice",
    13: "off by",
}


@pytest.mark.parametrize("answer, message", PARTS.items())
def test_a_wrong_part_of_the_mean_is_named(answer, message):
    verdict = check.part_of_the_mean(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize("answer", [14, 14.0, torch.tensor(14.0), 2 / 3 * 21, 13.9])
def test_the_right_part_of_the_mean_is_accepted(answer):
    assert check.part_of_the_mean(answer).startswith("[ok]")


def centred(weight):
    return weight - weight.mean(-1, keepdim=True)


def convert(weights):
    first, *middle, head = weights
    new = [centred(first)]
    for reader, writer in zip(middle[::2], middle[1::2], strict=True):
        new += [reader, centred(writer)]
    return [*new, head]


def every_writer(change):
    """An answer: the head, the last of an even number of matrices, stands on an odd place."""
    return lambda weights: [change(w) if i % 2 == 0 else w for i, w in enumerate(weights)]


def written_into(weights):
    for weight in weights[0::2]:
        weight -= weight.mean(-1, keepdim=True)
    return weights


def into_the_list(weights):
    for writer in range(0, len(weights), 2):
        weights[writer] = centred(weights[writer])
    return weights


CONVERTED = {text: (wrong, text) for text, wrong in check.CONVERT_SLIPS.items()}
CONVERTED |= {
    "in place": (written_into, "a matrix of weights was changed in place"),
    "into the list": (into_the_list, "the list was changed in place"),
    "nothing": (lambda weights: None, "is the return missing"),
    "one is lost": (lambda weights: convert(weights)[:-1], "a list of length 3, expected a list ("),
    "transposed": (
        lambda weights: [weight.mT for weight in convert(weights)],
        "expected the shape",
    ),
    "first axis is lost": (lambda weights: [w[0] for w in convert(weights)], "expected the shape"),
    "scaled": (lambda weights: [w / w.std(-1, keepdim=True) for w in convert(weights)], "off by"),
    # as readers write them
    "odd places": (
        lambda weights: [centred(w) if i % 2 else w for i, w in enumerate(weights)],
        "you centred the first matrix of each block and the head:",
    ),
    "all but the first": (
        lambda weights: [weights[0], *map(centred, weights[1:])],
        "you centred the first matrix of each block and the second matrix of each block and the",
    ),
    "the axis of the starts": (
        every_writer(lambda w: w - w.mean(0)),
        "counts the starts: each has",
    ),
    "no keepdim": (every_writer(lambda w: w - w.mean(-1)), "two shapes do not fit: keepdim=True"),
    "one number": (every_writer(lambda w: w - w.mean()), "not one mean of all numbers"),
    "plus": (every_writer(lambda w: 2 * w - centred(w)), "you added the mean"),
    "a LayerNorm": (every_writer(lambda w: F.layer_norm(w, w.shape[-1:])), "divides them, too"),
    "an RMSNorm": (every_writer(lambda w: F.rms_norm(w, w.shape[-1:])), "RMSNorms already"),
    "places 0, 2 and 4": (
        lambda weights: [centred(w) if i in (0, 2, 4) else w for i, w in enumerate(weights)],
        "the list may be longer",
    ),
    "two axes": (every_writer(lambda w: centred(centred(w.mT).mT)), "over both axes"),
    "stops too early": (
        lambda weights: [*convert(weights)[:-2], weights[-2], weights[-1]],
        "the last block writes as well",
    ),
    "readers first": (
        lambda weights: [
            centred(weights[0]),
            *weights[1:-1:2],
            *map(centred, weights[2:-1:2]),
            weights[-1],
        ],
        "all readers come before",
    ),
}


@pytest.mark.parametrize("answer, message", CONVERTED.values(), ids=range(len(CONVERTED)))
def test_wrong_conversion_is_named(answer, message):
    verdict = check.convert(answer)
    assert verdict.startswith("[x]") and message in verdict


def by_a_matrix(weights):
    """Centring as a matrix; a tuple comes back."""
    width = weights[0].shape[-1]
    centring = torch.eye(width, dtype=weights[0].dtype) - 1 / width
    first, *middle, head = weights
    written = [weight @ centring if number % 2 else weight for number, weight in enumerate(middle)]
    return (first @ centring, *written, head)


def readers_as_well(weights):
    """Readers are centred over their inputs: behind centred rows that changes nothing."""
    return [centred(w) if i % 2 == 0 else centred(w.mT).mT for i, w in enumerate(weights)]


@pytest.mark.parametrize("answer", [convert, by_a_matrix, readers_as_well])
def test_right_conversions_are_accepted(answer):
    assert check.convert(answer).startswith("[ok]")


def moved(change, places=slice(0, None, 2)):
    """An answer of exercise 4: the matrices of these places are changed."""

    def ruin(weights):
        new = list(weights)
        for place in range(len(weights))[places]:
            new[place] = change(weights[place])
        return new

    return ruin


def all_in_place(weights):
    for weight in weights[::2]:
        weight += 0.1
    return list(weights)


NOT_RUINED = {
    "nothing": (list, "as they were"),
    "a copy": (lambda weights: [1 * w for w in weights], "as they were"),
    "longer": (moved(lambda w: 7 * w), "LayerNorm sees what you changed in matrix 0"),
    "too little": (moved(lambda w: w + 0.001), "a larger mean"),
    "centred": (moved(centred), "you took the means out"),
    "readers": (moved(lambda w: w + 0.001, slice(1, None, 2)), "needs a mean that it meets"),
    "each output its own": (
        moved(lambda w: w + torch.arange(w.shape[-1])),
        "matrix 0, a writer",
    ),
    "one output": (
        moved(lambda w: w + F.one_hot(torch.tensor(3), w.shape[-1])),
        "the last axis",
    ),
    "the head's inputs": (
        lambda weights: [*weights[:-1], weights[-1] + torch.arange(64.0)[:, None]],
        ", a reader: change what is",
    ),
    "a ReLU in the writers": (moved(torch.relu), "matrix 0, a writer"),
    "zeros": (moved(torch.zeros_like), "matrix 0, a writer"),
    "far too much": (moved(lambda w: w + 1e12), "add less"),
    "in place": (all_in_place, "a matrix of weights was changed in place"),
    "one is lost": (lambda weights: weights[:-1], "a list of length 21, expected a list ("),
    "no list": (lambda weights: None, "is the return missing"),
    "no keepdim": (moved(lambda w: w + w.mean(-1)), "two shapes do not fit"),
}


@pytest.mark.parametrize("answer, message", NOT_RUINED.values(), ids=NOT_RUINED)
def test_an_exchange_that_is_not_ruined_is_named(answer, message):
    verdict = check.ruin(answer)
    assert verdict.startswith("[x]") and message in verdict


RUINED = {
    "writers": moved(lambda w: w + 0.1),
    "minus": moved(lambda w: w - 0.3),
    "the first alone": moved(lambda w: w + 1, slice(0, 1)),
    "everywhere": lambda weights: tuple(w + 0.1 for w in weights),
    "each input its own": moved(lambda w: w + torch.arange(w.shape[-2])[:, None]),
    "the readers' sums": moved(lambda w: w + 10, slice(1, None, 2)),
}


@pytest.mark.parametrize("answer", RUINED.values(), ids=RUINED)
def test_an_exchange_that_is_ruined_is_accepted(answer):
    assert check.ruin(answer).startswith("[ok]")
