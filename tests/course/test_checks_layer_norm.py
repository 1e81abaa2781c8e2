"""The checks of lesson 02 name what is wrong, and accept unusual right answers."""

import functools
import math
from pathlib import Path

import numpy
import pytest
import torch
from torch.nn import functional as F

from normcourse import draw, training
from normcourse.checks import layer_norm as check
from normlib import gradients
from tests.course.lesson_tables import run_cells
from tests.course.solutions import every_slip, wrong_answers_are_named

RECORDS = Path(__file__).parents[2] / "notebooks" / "records"
pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


# Exercise 1

ROW = {
    "eps outside the root": ([-0.1215, -0.2430, 0.8785, 1.7290], "inside the root"),
    "no eps": ([-0.5774, -1.1547, 0.4226, 4.4641], "eps is missing: add"),
    "eps alone": ([-0.5547, -1.1094, 0.4453, 4.3282], "the variance is missing"),
    "sum of squares": ([-0.2561, -0.5121, 0.7439, 2.5364], "the MEAN of the squares"),
    "divided by D - 1": ([-0.3714, -0.7428, 0.6286, 3.2283], "not by D - 1"),
    "divided by D - 1, no eps": ([-0.5, -1.0, 0.5, 4.0], "two slips"),
    "no root": ([-0.08, -0.16, 0.92, 1.48], "take the root"),
    "the variance itself": ([-0.1667, -0.3333, 0.8333, 2.0], "you divide by the variance"),
    "gain and bias swapped": ([1.0, 2.0, 0.6, 3.2], "have changed places"),
    "normalized only": ([-0.4, -0.4, -0.4, 1.2], "gain and bias are missing"),
    "no bias": ([-0.4, -0.8, -0.4, 2.4], "the bias is missing"),
    "no gain": ([-0.4, -0.4, 0.6, 2.2], "the gain is missing"),
    "gain around the bias": ([-0.4, -0.8, 0.6, 4.4], "the bias comes after the gain"),
    "one entry": ([-0.4, -0.8, -0.4, 3.4], "y3 is not. Its gain is 1 and its bias 1"),
    "RMSNorm": ([0.3123, 0.6247, 1.3123, 4.1235], "that is RMSNorm"),
    "not centred": ([0.4, 0.8, 1.4, 5.0], "the mean is subtracted from the row"),
    "centred only": ([-2.0, -4.0, -1.0, 13.0], "not divided by anything"),
    "sign": ([0.4, 0.8, 1.4, -1.4], "the entry minus the mean"),
    "three numbers": ([-0.4, -0.8, 0.6], "expected a list (y1, y2, y3, y4)"),
    "words": (
        ["-2/5", "-4/5", "3/5", "17/5"],
        "a list of numbers. One is text: leave out the quotes",
    ),
}


BACK = {
    "changed places": (([12, 12, 8, 8], [1, 1, -1, -1]), "changed places"),
    "another start": (([2, 1, -1, -2], [12, 12, 8, 8]), "begins with 1 and 1"),
    "only the squares": (([1, 1, 1, 1], [12, 12, 8, 8]), "add up to 4; they have to give 0"),
    "only the sum": (([1, 1, 0, -2], [12, 12, 8, 8]), "squares add up to 6"),
    "length 1": (([1, 1, -1.5, -0.5], [12, 12, 8, 8]), "squares add up to 4.5"),
    "variance 2": (([1, 1, -1, -1], [11.414, 11.414, 8.586, 8.586]), "VARIANCE is 2"),
    "variance 16": (([1, 1, -1, -1], [14, 14, 6, 6]), "not by 4"),
    "size forgotten": (([1, 1, -1, -1], [11, 11, 9, 9]), "what was divided"),
    "D - 1": (([1, 1, -1, -1], [11.732, 11.732, 8.268, 8.268]), "LayerNorm divides by D"),
    "divided": (([1, 1, -1, -1], [10.5, 10.5, 9.5, 9.5]), "do not divide"),
    "half filled in": (([1, 1, -1, -1], None), "the row that came in is still None"),
    "level forgotten": (([1, 1, -1, -1], [2, 2, -2, -2]), "the second row has the mean 0"),
    "level first": (([1, 1, -1, -1], [22, 22, 18, 18]), "the level comes back last"),
    "flipped": (([1, 1, -1, -1], [8, 8, 12, 12]), "flips it"),
    "one row": ([1, 1, -1, -1], "expected a pair of lists (output, input)"),
    "three numbers": (([1, 1, -1], [12, 12, 8, 8]), "the output is a list of length 3"),
    "the lost two": (([-1, -1], [12, 12, 8, 8]), "the output is a list of length 2"),
    "half a row": (([1, 1, -1, -1], [12, 8]), "the row that came in is a list of length 2"),
    "words": ((["a", 1, 1, 1], [12, 12, 8, 8]), "expected a list of numbers"),
}


@every_slip({check.by_hand: ROW, check.back_to_a_row: BACK})
def test_a_wrong_row_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


def test_a_row_comes_in_any_form():
    numbers = [-0.4, -0.8, 0.6, 3.4]
    for answer in (tuple(numbers), torch.tensor(numbers), numpy.array(numbers)):
        assert check.by_hand(answer).startswith("[ok]")
    output, row = torch.tensor([1.0, 1, -1, -1]), torch.tensor([12.0, 12, 8, 8])
    for answers in ([output, row], torch.stack([output, row]), (output.numpy(), row.tolist())):
        assert check.back_to_a_row(answers).startswith("[ok]")


# Exercise 2


def trailing(shape):
    return tuple(range(-len(shape), 0))


def layer(dims=trailing, correction=0, scale=lambda var, eps: torch.sqrt(var + eps), keepdim=True):
    """A layer norm with one thing to get wrong at a time."""

    def student(x, shape, weight, bias, eps):
        over = dims(shape)
        mean = x.mean(over, keepdim=keepdim)
        var = x.var(over, keepdim=keepdim, correction=correction)
        return (x - mean) / scale(var, eps) * weight + bias

    return student


def affine(combine):
    """A layer norm that uses gain and bias in another way."""

    def student(x, shape, weight, bias, eps):
        centred = x - x.mean(trailing(shape), keepdim=True)
        xhat = centred / torch.sqrt(centred.square().mean(trailing(shape), keepdim=True) + eps)
        return combine(xhat, weight, bias)

    return student


def one_pass(x, shape, weight, bias, eps):
    over = trailing(shape)
    mean = x.mean(over, keepdim=True)
    var = x.square().mean(over, keepdim=True) - mean.square()
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def in_place(x, shape, weight, bias, eps):
    x -= x.mean(trailing(shape), keepdim=True)
    return x / torch.sqrt(x.square().mean(trailing(shape), keepdim=True) + eps) * weight + bias


def divided_in_place(x, shape, weight, bias, eps):
    around = x - x.mean(trailing(shape), keepdim=True)
    around /= torch.sqrt(around.square().mean(trailing(shape), keepdim=True) + eps)
    return around * weight + bias


def rms(x, shape, weight, bias, eps):
    return x / torch.sqrt(x.square().mean(trailing(shape), keepdim=True) + eps) * weight + bias


def detached(mean=False, var=False):
    def student(x, shape, weight, bias, eps):
        level = x.mean(trailing(shape), keepdim=True)
        spread = x.var(trailing(shape), keepdim=True, correction=0)
        level = level.detach() if mean else level
        spread = spread.detach() if var else spread
        return (x - level) / torch.sqrt(spread + eps) * weight + bias

    return student


def no_grad(*arguments):
    with torch.no_grad():
        return layer()(*arguments)


def length_one(x, shape, weight, bias, eps):
    centred = x - x.mean(trailing(shape), keepdim=True)
    return (
        centred / torch.sqrt(centred.square().sum(trailing(shape), keepdim=True) + eps) * weight
        + bias
    )


def affine_first(x, shape, weight, bias, eps):
    return affine(lambda xhat, w, b: xhat)(x * weight + bias, shape, None, None, eps)


def over_all_but_the_first(x, shape, weight, bias, eps):
    over = tuple(range(1, x.dim())) or (0,)
    around = x - x.mean(over, keepdim=True)
    return around / torch.sqrt(around.square().mean(over, keepdim=True) + eps) * weight + bias


def absolute(x, shape, weight, bias, eps):
    around = x - x.mean(trailing(shape), keepdim=True)
    size = around.abs().mean(trailing(shape), keepdim=True)
    return around / (size + eps) * weight + bias


def only_divided(x, shape, weight, bias, eps):
    variance = x.var(trailing(shape), keepdim=True, correction=0)
    return x / torch.sqrt(variance + eps) * weight + bias


def squares_of_x(x, shape, weight, bias, eps):
    around = x - x.mean(trailing(shape), keepdim=True)
    squares = x.square().mean(trailing(shape), keepdim=True)
    return around / torch.sqrt(squares + eps) * weight + bias


def by_rms_norm(x, shape, weight, bias, eps):
    around = x - x.mean(trailing(shape), keepdim=True)
    return F.rms_norm(around, shape, weight, eps) + bias


LAYER_NORM = {
    "unbiased variance": (layer(correction=1), "biased one"),
    "std plus eps": (layer(scale=lambda var, eps: var.sqrt() + eps), "inside the root"),
    "torch's std plus eps": (
        layer(correction=1, scale=lambda var, eps: var.sqrt() + eps),
        "torch's std()",
    ),
    "torch's std, no eps": (
        layer(correction=1, scale=lambda var, eps: var.sqrt()),
        "that is torch's std(): divide",
    ),
    "divided by the variance": (layer(scale=lambda var, eps: var + eps), "square root is missing"),
    "no eps": (layer(scale=lambda var, eps: var.sqrt()), "eps is not used"),
    "own eps": (layer(scale=lambda var, eps: torch.sqrt(var + 1e-5)), "eps is an argument"),
    "a smallest eps": (
        layer(scale=lambda var, eps: torch.sqrt(var + max(eps, 1e-3))),
        "without a smallest value",
    ),
    "sum of squares": (length_one, "that has length 1"),
    "always the last two axes": (
        layer(dims=lambda shape: (-2, -1)),
        "the axes are fixed at the last two",
    ),
    "the last one or two axes": (
        layer(dims=lambda shape: (-1,) if len(shape) == 1 else (-2, -1)),
        "normalized_shape may have any length; yours knows one or two",
    ),
    "centred only": (layer(scale=lambda var, eps: 1.0), "not divided"),
    "RMS norm": (rms, "that is RMSNorm"),
    "over the samples": (layer(dims=lambda shape: (0, 1)), "over the samples"),
    "over the first axis": (layer(dims=lambda shape: (0,)), "as BatchNorm does"),
    "last axis only": (layer(dims=lambda shape: (-1,)), "only the last one"),
    "all but the first axis": (over_all_but_the_first, "all but the first"),
    "mean absolute deviation": (absolute, "mean absolute deviation"),
    "only divided": (only_divided, "has to be centred as well"),
    "squares of x": (squares_of_x, "square the deviations, not x"),
    "one plus the gain": (affine(lambda xhat, w, b: xhat * (1 + w) + b), "1 plus the gain"),
    "no keepdim": (layer(keepdim=False), "keepdim=True is missing"),
    "the first axes": (
        layer(dims=lambda shape: tuple(range(len(shape)))),
        "you count from the front",
    ),
    "divided in place": (divided_in_place, "the gradient needs a tensor that your code has"),
    "axes counted from the front": (
        layer(dims=lambda shape: (2, 3)),
        "your code raised IndexError",
    ),
    "no keepdim, last axis": (
        layer(dims=lambda shape: (-1,), keepdim=False),
        "two shapes do not fit: keepdim=True is missing",
    ),
    "gain and bias swapped": (affine(lambda xhat, w, b: xhat * b + w), "changed places"),
    "no bias": (affine(lambda xhat, w, b: xhat * w), "the bias is missing"),
    "no gain": (affine(lambda xhat, w, b: xhat + b), "gain (weight) is missing"),
    "no affine": (affine(lambda xhat, w, b: xhat), "gain and bias are missing"),
    "gain around the bias": (affine(lambda xhat, w, b: (xhat + b) * w), "multiplied by the gain"),
    "affine first": (affine_first, "after the normalization"),
    "scalar gain": (affine(lambda xhat, w, b: xhat * w.mean() + b), "gain is one number"),
    "one-pass variance": (one_pass, "lost at mean 10,000"),
    "changes x": (in_place, "x was changed in place"),
    "the finished layer": (F.layer_norm, "without layer_norm"),
    "another finished norm": (by_rms_norm, "without rms_norm"),
    "float64 in float32": (lambda x, *rest: layer()(x.float(), *rest).double(), "is off by up to"),
    "statistics cut off": (detached(mean=True, var=True), "mean and variance are cut off"),
    "mean cut off": (detached(mean=True), "the mean is cut off"),
    "variance cut off": (detached(var=True), "the variance is cut off"),
    "no gradient": (no_grad, "no gradient comes back"),
}


# Exercise 4


def the_change(change):
    """The table x W^T before and after a change, in numbers of this test."""
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(6, 5, generator=generator)
    weights = torch.randn(7, 5, generator=generator)
    factors = 0.5 + torch.rand(7, 1, generator=generator)
    vector = torch.randn(5, generator=generator)
    bias = torch.randn(7, generator=generator)
    scaled = x.clone()
    scaled[3] = 5 * scaled[3]
    after = {
        "all weights times 5": x @ (5 * weights).T,
        "all weights times -5": x @ (-5 * weights).T,
        "the weights of each unit times a positive factor of its own": x @ (factors * weights).T,
        "one vector added to the weights of every unit": x @ (weights + vector).T,
        "a bias: a number of its own added to each unit": x @ weights.T + bias,
        "one of the pictures times 5": scaled @ weights.T,
        "one vector added to all pictures": (x + vector) @ weights.T,
    }
    return x @ weights.T, after[change]


def standard(table, axis):
    return (table - table.mean(axis, keepdim=True)) / table.std(axis, keepdim=True, correction=0)


@pytest.mark.parametrize("change", check.CHANGES)
def test_what_each_norm_sees_is_measured(change):
    before, after = the_change(change)
    blind = [
        name
        for name, axis in (("LN", 1), ("BN", 0))
        if torch.allclose(standard(before, axis), standard(after, axis))
    ]
    assert check.CHANGES[change][0] == (" and ".join(blind) or "neither")


SEEN = {change: answer for change, (answer, _) in check.CHANGES.items()}
OTHERS = {
    "changed places": (
        {change: {"LN": "BN", "BN": "LN"}.get(answer, answer) for change, answer in SEEN.items()},
        "LN and BN have changed places",
    ),
    "the sign forgotten": (SEEN | {"all weights times -5": "both"}, "what is left of a factor"),
    "all weights, one norm": (SEEN | {"all weights times 5": "LN"}, "each row and each column"),
    "a bias for LayerNorm": (
        SEEN | {"a bias: a number of its own added to each unit": "neither"},
        "6 of 7 are right",
    ),
    "a vector on the weights": (
        SEEN | {"one vector added to the weights of every unit": "BN"},
        "adds one number to a whole row",
    ),
    "a factor for each unit": (
        SEEN | {"the weights of each unit times a positive factor of its own": "LN and BN"},
        "multiplies a whole column",
    ),
    "one picture": (SEEN | {"one of the pictures times 5": "BN"}, "multiplies a whole row"),
    "all pictures": (
        SEEN | {"one vector added to all pictures": "LN"},
        "adds one number to a whole column",
    ),
    "one line left": (SEEN | {"one of the pictures times 5": None}, "has no answer yet"),
    "other words": (SEEN | {"all weights times 5": "yes"}, 'write "LN", "BN"'),
    "a list": (list(SEEN.values()), "a dict with 7 lines"),
}


@every_slip({check.what_each_sees: OTHERS})
def test_a_change_that_is_judged_wrongly_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


def test_both_norms_are_written_in_any_way():
    for both in ("both", "BN and LN", " ln  and bn ", "LN, BN", "BN & LN"):
        answer = SEEN | {"all weights times 5": both, "all weights times -5": "none"}
        assert check.what_each_sees(answer).startswith("[ok]")
    assert check.what_each_sees(dict.fromkeys(SEEN)).startswith("[ ]")


# Exercise 5


def columns(dy, x, eps):
    """Lesson 01's gradient, as the lesson shows it."""
    xhat = (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + eps)
    s = torch.sqrt(x.var(0, correction=0) + eps)
    return (dy - dy.mean(0) - xhat * (dy * xhat).mean(0)) / s


def turned(g, x, eps):
    return columns(g.T, x.T, eps).T


def by_torchs_kernel(dy, x, w, eps):
    mean, rstd = x.mean(-1, keepdim=True), 1 / size(x, eps)
    dx, *_ = torch.ops.aten.native_layer_norm_backward(
        dy, x, x.shape[-1:], mean, rstd, w, None, [True, False, False]
    )
    return dx


def by_autograd(dy, x, w, eps):
    leaf = x.clone().requires_grad_()
    around = leaf - leaf.mean(-1, keepdim=True)
    y = w * around / torch.sqrt(around.square().mean(-1, keepdim=True) + eps)
    return torch.autograd.grad(y, leaf, dy)[0]


def size(x, eps, correction=0):
    return torch.sqrt(x.var(-1, keepdim=True, correction=correction) + eps)


def along(g, x, eps):
    xhat = (x - x.mean(-1, keepdim=True)) / size(x, eps)
    return xhat * (g * xhat).mean(-1, keepdim=True)


GRADIENT = {
    "no gain": (lambda dy, x, w, eps: turned(dy, x, eps), "the gain is missing"),
    "gain last": (lambda dy, x, w, eps: w * turned(dy, x, eps), "cannot leave the bracket"),
    "gain twice": (lambda dy, x, w, eps: w * turned(w * dy, x, eps), "used twice"),
    "gain squared": (lambda dy, x, w, eps: turned(w * w * dy, x, eps), "the gain is squared"),
    "gain on both": (lambda dy, x, w, eps: turned(w * dy, w * x, eps), "yours multiplies x, too"),
    "gain on the row": (lambda dy, x, w, eps: turned(dy, w * x, eps), "not to the row"),
    "gain after the turn": (
        lambda dy, x, w, eps: columns(w * dy.T, x.T, eps).T,
        "two shapes do not fit: the gain belongs before the turn, (w * dy).T. torch says",
    ),
    "x not turned": (
        lambda dy, x, w, eps: columns((w * dy).T, x, eps).T,
        "two shapes do not fit: x is not turned. torch says",
    ),
    "x and the result not turned": (
        lambda dy, x, w, eps: columns((w * dy).T, x, eps),
        "two shapes do not fit: x is not turned. The result is not turned back. torch says",
    ),
    "dy not turned": (
        lambda dy, x, w, eps: columns(w * dy, x.T, eps).T,
        "two shapes do not fit: dy is not turned. torch says",
    ),
    "x not turned, gain after the turn": (
        lambda dy, x, w, eps: columns(w * dy.T, x, eps).T,
        "the gain belongs before the turn, (w * dy).T. x is not turned. torch says",
    ),
    "x not turned, no gain": (
        lambda dy, x, w, eps: columns(dy.T, x, eps).T,
        "the gain is missing. x is not turned. torch says",
    ),
    "dy not turned, no gain": (
        lambda dy, x, w, eps: columns(dy, x.T, eps).T,
        "the gain is missing, and dy is not turned. torch says",
    ),
    "shapes that no turn explains": (
        lambda dy, x, w, eps: columns(2 * (w * dy).T, x, eps).T,
        "two shapes do not fit: turn both, w * dy and x",
    ),
    "table first": (lambda dy, x, w, eps: turned(x, w * dy, eps), "the table comes second"),
    "gain below": (lambda dy, x, w, eps: turned(dy / w, x, eps), "is divided by"),
    "not turned": (lambda dy, x, w, eps: columns(w * dy, x, eps), "table is not turned: these"),
    "not turned, no gain": (lambda dy, x, w, eps: columns(dy, x, eps), "and the gain is missing"),
    "not turned back": (lambda dy, x, w, eps: columns((w * dy).T, x.T, eps), "has shape (5, 3)"),
    "mean stays": (
        lambda dy, x, w, eps: (w * dy - along(w * dy, x, eps)) / size(x, eps),
        "the mean of g",
    ),
    "only centred": (
        lambda dy, x, w, eps: (w * dy - (w * dy).mean(-1, keepdim=True)) / size(x, eps),
        "the path through the variance is missing",
    ),
    "added": (
        lambda dy, x, w, eps: turned(w * dy, x, eps) + 2 * along(w * dy, x, eps) / size(x, eps),
        "subtracted, not added",
    ),
    "not divided": (lambda dy, x, w, eps: turned(w * dy, x, eps) * size(x, eps), "1/s is missing"),
    "by the variance": (
        lambda dy, x, w, eps: turned(w * dy, x, eps) / size(x, eps),
        "not by the variance",
    ),
    "no eps": (lambda dy, x, w, eps: turned(w * dy, x, 0.0), "eps is missing"),
    "a smallest eps": (
        lambda dy, x, w, eps: turned(w * dy, x, max(eps, 1e-2)),
        "without a smallest value",
    ),
    "no gain below 0": (lambda dy, x, w, eps: turned(abs(w) * dy, x, eps), "may be negative"),
    "own eps": (lambda dy, x, w, eps: turned(w * dy, x, 1e-5), "fixed at 1e-5"),
    "sums": (
        lambda dy, x, w, eps: (
            (w * dy - x.shape[-1] * (w * dy - turned(w * dy, x, eps) * size(x, eps))) / size(x, eps)
        ),
        "sums where means belong",
    ),
    "changed places": (lambda dy, x, w, eps: turned(w * x, dy, eps), "changed places"),
    "sign": (lambda dy, x, w, eps: -turned(w * dy, x, eps), "the sign"),
    "D - 1": (
        lambda dy, x, w, eps: turned(w * dy, x, eps) * size(x, eps) / size(x, eps, 1),
        "not by D - 1",
    ),
    "autograd": (by_autograd, "without autograd"),
    "normlib's": (
        lambda dy, x, w, eps: gradients.layer_norm_backward(dy, x, x.shape[-1:], w, None, eps)[0],
        "without normlib.gradients",
    ),
    "torch's kernel": (by_torchs_kernel, "without backward"),
    "the loss": (lambda dy, x, w, eps: (w * dy).sum(), "expected"),
}


test_a_wrong_answer_is_named = wrong_answers_are_named(
    {
        check.layer_norm: LAYER_NORM,
        check.row_gradient: GRADIENT,
    }
)


def layer_norm_by_einsum(x, shape, weight, bias, eps):
    flat = x.reshape(-1, math.prod(shape))
    around = flat - flat.mean(1, keepdim=True)
    var = torch.einsum("nd,nd->n", around, around) / flat.shape[1]
    return (around * torch.rsqrt(var + eps)[:, None]).reshape(x.shape) * weight + bias


def layer_norm_row_by_row(x, shape, weight, bias, eps):
    rows = []
    for row in x.reshape(-1, *shape):
        around = row - row.mean()
        rows.append(around / (around.square().mean() + eps) ** 0.5)
    return torch.addcmul(bias, torch.stack(rows).view(x.shape), weight)


def layer_norm_by_var_mean(x, shape, weight, bias, eps):
    var, mean = torch.var_mean(x, [-i - 1 for i in range(len(shape))], correction=0, keepdim=True)
    return (x - mean) * (var + eps).rsqrt() * weight + bias


def layer_norm_by_flatten(x, shape, weight, bias, eps):
    flat = x.flatten(-len(shape))
    around = flat - flat.mean(-1, keepdim=True)
    size = torch.linalg.vector_norm(around, dim=-1, keepdim=True) / flat.shape[-1] ** 0.5
    return (around / torch.hypot(size, torch.tensor(eps).sqrt().to(x))).unflatten(-1, shape) * (
        weight
    ) + bias


RIGHT = {
    "einsum": layer_norm_by_einsum,
    "row by row": layer_norm_row_by_row,
    "var_mean": layer_norm_by_var_mean,
    "flatten": layer_norm_by_flatten,
    "compiled": torch.compile(layer_norm_by_var_mean, backend="eager"),
    "partial": functools.partial(layer()),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_an_unusual_right_layer_is_accepted(answer):
    assert check.layer_norm(answer).startswith("[ok]")


def test_an_unusual_right_gradient_is_accepted():
    def by_matrix(dy, x, w, eps):
        features = x.shape[-1]
        xhat = (x - x.mean(-1, keepdim=True)) / size(x, eps)
        outer = xhat[:, :, None] * xhat[:, None, :]
        bracket = torch.eye(features) - 1 / features - outer / features
        return torch.einsum("nij,nj->ni", bracket, w * dy) / size(x, eps)

    assert check.row_gradient(by_matrix).startswith("[ok]")
    assert check.row_gradient(lambda dy, x, w, eps: turned(w * dy, x, eps)).startswith("[ok]")


# Exercise 6

CONTROL = {"norm": "none", "depth": 30, "steps": 600, "batch_size": 1, "rates": [1e-4, 1e-3, 1e-2]}
NO_CONTROLS = {
    "the net itself": (CONTROL | {"norm": "layer_norm"}, "that is the net in question"),
    "BatchNorm": (CONTROL | {"norm": "batch_norm"}, "refuses a batch of one picture"),
    "BatchNorm with pairs": (
        CONTROL | {"norm": "batch_norm", "batch_size": 2},
        "with more pictures two things change",
    ),
    "no name": (CONTROL | {"norm": "RMSNorm"}, '"norm" is "none", "batch_norm"'),
    "None for none": (CONTROL | {"norm": None}, '"norm" is still None; for a net without'),
    "pairs": (CONTROL | {"batch_size": 2}, '"batch_size" was 1, yours is 2'),
    "three layers": (CONTROL | {"depth": 3}, '"depth" was 30, yours is 3: if two things'),
    "more steps": (CONTROL | {"steps": 1600}, '"steps" was 600'),
    "LayerNorm's rate": (CONTROL | {"rates": [0.003]}, "was chosen for LayerNorm"),
    "only smaller rates": (CONTROL | {"rates": [1e-4, 1e-3, 3e-3]}, "highest rate is 0.003"),
    "only larger rates": (CONTROL | {"rates": [0.003, 0.03, 0.3]}, "lowest rate is 0.003"),
    "the best at an end": (CONTROL | {"rates": [3e-4, 3e-3, 3e-2]}, "best at 0.0003"),
    "rates too near": (CONTROL | {"rates": [0.002, 0.003, 0.004]}, "lowest rate is 0.002"),
    "the two ends alone": (CONTROL | {"rates": [1e-4, 1e-2]}, "2 rates are the two ends"),
    "an end twice": (CONTROL | {"rates": [1e-4, 1e-4, 1e-2]}, "2 rates are the two ends"),
    "two far ends": (CONTROL | {"rates": [1e-9, 1e3]}, "2 rates are the two ends"),
    "a gap": (CONTROL | {"rates": [3e-2, 1e-4, 1e-3]}, "between 0.001 and 0.03"),
    "a rate of 0": (CONTROL | {"rates": [0, 0.003, 0.3]}, "a learning rate is above 0"),
    "no rates": (CONTROL | {"rates": []}, "a learning rate is above 0"),
    "one number": (CONTROL | {"rates": 0.003}, "expected a list of numbers"),
    "a field is missing": ({"norm": "none"}, "expected a dict with norm, depth"),
    "a list": (["none", 30, 400, 1, [0.003]], "expected a dict with norm, depth"),
    "words": (CONTROL | {"depth": "thirty"}, "depth is a str, expected a number"),
}


@every_slip({check.control: NO_CONTROLS})
def test_what_is_no_control_is_named(check_, answer, message):
    verdict = check_(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize(
    "rates",
    [(1e-4, 3e-4, 1e-3, 1e-2), torch.logspace(-5, 0, 6), numpy.geomspace(1e-4, 0.1, 7)],
)
def test_the_control_may_try_any_rates_round_the_best(rates):
    assert check.control(CONTROL | {"norm": " None", "rates": rates}).startswith("[ok]")


def test_the_rate_of_the_first_section_is_the_records():
    record = training.load_record(RECORDS / "pairs_deep.json")
    assert {run.lr for run in record.runs if run.norm == "none" and run.phase == "final"} == {
        check.WITHOUT
    }


def test_the_norm_of_the_page_is_the_records():
    """What the lesson shows of the gradient of eps 10 is what the nets were trained with."""
    shown = run_cells("02_layer_norm.ipynb", "setup", "mild")["MildBatchNorm"](6)
    trained = training.CONTENDERS["batch_norm_mild"].rows(6)
    gradients = []
    for layer in (shown, trained):
        with torch.no_grad():
            layer.weight.copy_(1 + draw(6, seed=2))
        pair = draw(2, 6).requires_grad_()
        layer(pair).backward(draw(2, 6, seed=1))
        gradients.append((pair.grad, layer.weight.grad, layer.bias.grad))
    torch.testing.assert_close(*gradients)
