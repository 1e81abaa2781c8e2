"""Checks of lesson 02: the layer, what each norm sees, the gradient in one line."""

import itertools
import math
import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from normcourse import draw
from normcourse.checks.brackets import BRACKETS, OF_ROWS, gradient
from normcourse.checks.moments import (
    AFFINE,
    FINISHED,
    STATISTICS,
    centred,
    mean_square,
    row_size,
    size,
    standardize,
)
from normcourse.checks.probes import call, calls, forbid, lined_up, same_gradients
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect, is_value
from normlib import functional

# Exercise 1


LARGE_MEAN = 10_000
SMALL = 0.01  # what a row is multiplied by: eps 1e-5 beside a variance near 1e-4
PARAMETERS = ("weight", "bias")


@exercise(
    "Exercise 1 (LayerNorm)",
    "LayerNorm(features, eps=1e-5)",
    f"rows with the mean {LARGE_MEAN:,} in float32",
)
def layer_norm(student) -> None:
    """student: a class; student(features, eps) is a layer for x (..., features).

    [EQ-LN]
    """
    _made(student, 6)(draw(6, 6))  # a stub ends here
    function = _as_function(student)
    cases = [
        _layer_case(4, 5, 7, eps=0.1),
        _layer_case(3, 5, eps=0.5),
        _layer_case(6, eps=0.3),
        _layer_case(4, 3, 2, 5, eps=0.2),
    ]
    watched = forbid(lined_up(function, lambda: "keepdim=True is missing?"), *FINISHED)
    calls(watched, _of_rows, *cases, slips=LAYER_NORM_SLIPS)
    same_gradients(function, _of_rows, cases[0], slips=GRADIENT_SLIPS)
    _as_on_large_rows(function, _of_rows, _layer_case(3, 6, eps=1e-5))
    _check_large_mean(function)
    _check_new(student)


def _made(student, features: int, *eps: float) -> nn.Module:
    """A layer of the student's class; Slip if it is none."""
    if isinstance(student, nn.Module):
        raise Slip("that is a layer; pass the class, which the check calls: LayerNorm.")
    layer = student(features, *eps) if callable(student) else student
    if not isinstance(layer, nn.Module):
        raise Slip(
            f"LayerNorm({features}) is {describe(layer)}, expected a layer: "
            "write class LayerNorm(nn.Module)."
        )
    return layer


def _as_function(student) -> Callable:
    """The student's layer as a function of x, weight, bias and eps."""

    def function(x, weight, bias, eps):
        layer = _made(student, x.shape[-1], eps)
        there = {name: tuple(one.shape) for name, one in layer.named_parameters()}
        expected = dict.fromkeys(PARAMETERS, (x.shape[-1],))
        if there != expected:
            raise Slip(
                f"LayerNorm({x.shape[-1]}) has the parameters {there or 'none'}, expected "
                f"{expected}: self.weight = nn.Parameter(torch.ones(features)), and a bias."
            )
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    return function


def _of_rows(x, weight, bias, eps) -> Tensor:
    return functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def _layer_case(*shape: int, eps: float) -> dict:
    return {
        "x": 1 + draw(*shape, seed=1),
        "weight": 1 + draw(shape[-1], seed=2),
        "bias": 1 + draw(shape[-1], seed=3),
        "eps": eps,
    }


def _as_on_large_rows(student, reference, case: dict) -> None:
    """Slip unless small rows at a small eps come out as well as what was tried before."""
    small = case | {"x": SMALL * case["x"]}
    if not torch.allclose(student(*small.values()), reference(*small.values())):
        raise Slip(
            f"right on larger rows, wrong on rows whose variance is near {SMALL**2:g} with "
            f"eps = {case['eps']:g}: take eps as it comes, without a smallest value."
        )


def _check_large_mean(student) -> None:
    x = (LARGE_MEAN + draw(32, 64, seed=1)).float()
    ones = torch.ones(64, dtype=x.dtype)
    zeros = torch.zeros(64, dtype=x.dtype)
    got = student(x, ones, zeros, 1e-5)
    want = _of_rows(x, ones, zeros, 1e-5)
    # the mean is rounded to 1e4 * 6e-8; mean of squares minus squared mean misses by 1
    comparable = isinstance(got, Tensor) and got.shape == want.shape
    if comparable and not torch.allclose(got.to(want.dtype), want, rtol=0.0, atol=1e-2):
        raise Slip(
            "right on small numbers, lost at mean 10,000 in float32: mean of squares minus squared "
            "mean cancels. Subtract the mean first, then square."
        )
    expect(got, want, what="the output in float32", rtol=0.0, atol=1e-2)


def _check_new(student) -> None:
    """A new layer: its parameters, its default eps, and nothing beside them."""
    layer = _made(student, 6)
    values = dict(layer.named_parameters())
    if not (values["weight"].eq(1).all() and values["bias"].eq(0).all()):
        raise Slip(
            "a new layer's weight is all ones and its bias all zeros; yours begins otherwise."
        )
    stored = [name for name, _ in layer.named_buffers()]
    if stored:
        raise Slip(
            f"the layer stores {', '.join(stored)}: LayerNorm keeps no statistics, each row brings "
            "its own."
        )
    x = SMALL * draw(3, 6)
    trained, evaluated = layer.train()(x), layer.eval()(x)
    expect(evaluated, trained, what="the output after eval()")
    if not is_value(evaluated, functional.layer_norm(x, (6,))):
        raise Slip("the default eps is 1e-5: def __init__(self, features, eps=1e-5).")


def _row_slip(xhat):
    """A layer norm whose normalized row is xhat(x, axes, eps)."""
    return lambda x, w, b, eps: xhat(x, (-1,), eps) * w + b


def _axis_slip(axes):
    """A layer norm over axes(number of dimensions of x)."""
    return lambda x, w, b, eps: standardize(x, axes(x.dim()), eps=eps) * w + b


def _affine_slip(affine):
    """A layer norm whose gain and bias are used in another way."""
    return lambda x, w, b, eps: affine(standardize(x, (-1,), eps=eps), w, b)


def _unkept(x, w, b, eps) -> Tensor:
    """Without keepdim; NaN where this does not broadcast."""
    try:
        return (x - x.mean(-1)) / torch.sqrt(x.var(-1, correction=0) + eps) * w + b
    except RuntimeError:
        return torch.full_like(x, math.nan)


def _affine_first(x, w, b, eps) -> Tensor:
    return standardize(x * w + b, (-1,), eps=eps)


LAYER_NORM_SLIPS = {text: _row_slip(wrong) for text, wrong in STATISTICS.items()}
LAYER_NORM_SLIPS |= {text: _affine_slip(wrong) for text, wrong in AFFINE.items()}
LAYER_NORM_SLIPS |= {
    "wrong axis: the first one was reduced, as BatchNorm does, and the rows see each other.": (
        _axis_slip(lambda dims: (0,))
    ),
    "wrong axes: all but the last were reduced, as BatchNorm does, and the rows see each other.": (
        _axis_slip(lambda dims: tuple(range(dims - 1)) or (0,))
    ),
    "wrong axes: all but the first were reduced. Then a moment sees the others: take the last axis "
    "alone.": _axis_slip(lambda dims: tuple(range(1, dims)) or (0,)),
    "wrong axes: one mean for the whole tensor; every row has its own.": _axis_slip(
        lambda dims: tuple(range(dims))
    ),
    "wrong axis: 1 is the last axis of a table only; write -1.": _axis_slip(
        lambda dims: (min(1, dims - 1),)
    ),
    "wrong axes: the last two were reduced; a row is the last axis alone.": _axis_slip(
        lambda dims: (-2, -1) if dims > 1 else (-1,)
    ),
    "keepdim=True is missing: the statistics are lined up with the wrong axes.": _unkept,
    "the mean is subtracted from x, but not inside the variance: square the deviations, not x.": (
        _row_slip(lambda x, dims, eps: centred(x, dims) / torch.sqrt(mean_square(x, dims) + eps))
    ),
    "gain and bias come after the normalization, not before.": _affine_first,
    "weight and bias have changed places.": _affine_slip(lambda xhat, w, b: xhat * b + w),
}


def _cut_off(mean: bool, variance: bool) -> Callable:
    """A layer norm whose statistics do not send a gradient back."""

    def student(x, w, b, eps):
        level = x.mean(-1, keepdim=True)
        scale = torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps)
        level = level.detach() if mean else level
        scale = scale.detach() if variance else scale
        return (x - level) / scale * w + b

    return student


GRADIENT_SLIPS = {
    "the values are right, but mean and variance are cut off from x (detach, no_grad, .item()): "
    "the gradient must flow through them as well.": _cut_off(mean=True, variance=True),
    "the values are right, but the mean is cut off from x; the gradient must flow through it.": (
        _cut_off(mean=True, variance=False)
    ),
    "the values are right, but the variance is cut off from x; "
    "the gradient must flow through it.": _cut_off(mean=False, variance=True),
}


# Exercise 2

# What a change does to the table x W^T, and which norms give the same output.
ROW_OF_TABLE = "a whole row of the table, one sample"
COLUMN_OF_TABLE = "a whole column of the table, one unit"
CHANGES = {
    "all weights times 5": ("LN and BN", "it multiplies each row and each column by 5."),
    "all weights times -5": ("neither", "a negative factor leaves its sign, so the output flips."),
    "the weights of each unit times a positive factor of its own": (
        "BN",
        f"it multiplies {COLUMN_OF_TABLE}.",
    ),
    "one vector added to the weights of every unit": (
        "LN",
        f"it adds one number to {ROW_OF_TABLE}.",
    ),
    "a bias: a number of its own added to each unit": (
        "BN",
        f"it adds one number to {COLUMN_OF_TABLE}.",
    ),
    "one of the samples times 5": ("LN", f"it multiplies {ROW_OF_TABLE}."),
    "one vector added to all samples": ("BN", f"it adds one number to {COLUMN_OF_TABLE}."),
}
WORDS = {"LN": "LN", "BN": "BN", "LN AND BN": "LN and BN", "BN AND LN": "LN and BN"}
WORDS |= {"BOTH": "LN and BN", "NEITHER": "neither", "NONE": "neither"}
TURNED_ROUND = {"LN": "BN", "BN": "LN"}


@exercise("Exercise 2 (what does each norm see)", "seven changes")
def what_each_sees(student) -> None:
    """student: a dict, for each of CHANGES the norms that give the same output.

    [EQ-LN-INVARIANCE]
    """
    given = _words_of(student)
    right = {change: answer for change, (answer, _) in CHANGES.items()}
    if given == {change: TURNED_ROUND.get(answer, answer) for change, answer in right.items()}:
        raise Slip(
            "LN and BN have changed places: LayerNorm works along a row of the table, "
            "one sample, and BatchNorm down a column, one unit."
        )
    wrong = [change for change, answer in right.items() if given[change] != answer]
    if not wrong:
        return
    first = wrong[0]
    count = len(right) - len(wrong)
    raise Slip(
        f'{count} of {len(right)} are right. "{first}" is not {given[first]!r}: {CHANGES[first][1]}'
    )


def _words_of(student) -> dict[str, str]:
    """The answers as CHANGES writes them; Slip if one is missing, or no answer."""
    if not isinstance(student, dict):
        raise Slip(f"the answers are a dict with {len(CHANGES)} lines, got {describe(student)}.")
    given = {}
    for change in CHANGES:
        answer = student.get(change)
        if answer is None:
            raise Slip(f'"{change}" has no answer yet.')
        short = str(answer).upper().replace("LAYERNORM", "LN").replace("BATCHNORM", "BN")
        word = WORDS.get(" ".join(re.sub("[,&+/]", " AND ", short).split()))
        if word is None:
            raise Slip(f'"{change}": write "LN", "BN", "LN and BN" or "neither", got {answer!r}.')
        given[change] = word
    return given


# Exercise 3


@exercise("Exercise 3 (the gradient in one line)")
def row_gradient(student) -> None:
    """student(dy, x, w, eps) -> the gradient of layer norm for each row of x.

    [EQ-LN-GRAD]
    """
    cases = [_gradient_case(3, 5, eps=0.5), _gradient_case(7, 4, eps=0.1)]
    fitting = lined_up(student, lambda: _not_turned(student))
    watched = forbid(fitting, "autograd", "normlib.gradients", "layer_norm", "backward")
    calls(watched, gradient_of_rows, *cases, slips=ROW_GRADIENT_SLIPS, what="the gradient")
    _as_on_large_rows(student, gradient_of_rows, _gradient_case(3, 5, eps=1e-5))


def _gradient_case(*shape: int, eps: float) -> dict:
    gain = 1 + draw(shape[-1], seed=3)
    gain[0] = -gain[0].abs()
    return {
        "dy": draw(*shape, seed=1),
        "x": 1 + draw(*shape, seed=2),
        "w": gain,
        "eps": eps,
    }


def gradient_of_rows(dy: Tensor, x: Tensor, w: Tensor, eps: float) -> Tensor:
    """The gradient of layer norm, for each row of x.

    [EQ-LN-GRAD]
    """
    return gradient(dy, x, w, eps, -1)


def _of_columns(dy: Tensor, x: Tensor, eps: float) -> Tensor:
    return gradient(dy, x, torch.ones(()), eps, 0)


def _not_turned(student) -> str:
    """What does not fit: found with a square table, where every answer comes through."""
    case = _gradient_case(4, 4, eps=0.5)
    got = call(student, **case)
    for message, wrong in TURNS.items():
        if isinstance(got, Tensor) and is_value(got, wrong(**case)):
            return message
    return (
        "transpose both, w * dy and x, before the call. The gain has one number for each column "
        "of x."
    )


def _turns() -> dict[str, Callable]:
    """What is not transposed, in all mixtures: the gradient that it gives."""
    arriving = {
        "": lambda dy, w: (w * dy).T,
        "the gain comes before the transpose, (w * dy).T.": lambda dy, w: w * dy.T,
        "dy is not transposed.": lambda dy, w: w * dy,
        "the gain is missing.": lambda dy, w: dy.T,
        "the gain is missing, and dy is not transposed.": lambda dy, w: dy,
    }
    tables = {"": lambda x: x.T, "x is not transposed.": lambda x: x}
    results = {"": lambda dx: dx.T, "The result is not transposed back.": lambda dx: dx}

    def made(g, table, result):
        return lambda dy, x, w, eps: result(_of_columns(g(dy, w), table(x), eps))

    mixtures = itertools.product(arriving.items(), tables.items(), results.items())
    found = {}
    for chosen in mixtures:
        messages, functions = zip(*chosen, strict=True)
        found[" ".join(filter(None, messages))] = made(*functions)
    return found


TURNS = _turns()

ROW_GRADIENT_SLIPS = {
    text: partial(wrong, dim=-1) for text, wrong in (BRACKETS | OF_ROWS).items()
} | {
    "the gain is used twice: once, in g = w * dy.": lambda dy, x, w, eps: (
        w * gradient_of_rows(dy, x, w, eps)
    ),
    "the gain multiplies dy alone; yours multiplies x, too.": lambda dy, x, w, eps: (
        gradient_of_rows(w * dy, w * x, torch.ones(()), eps)
    ),
    "the gain is squared: once, in g = w * dy.": lambda dy, x, w, eps: gradient_of_rows(
        w * dy, x, w, eps
    ),
    "the gain multiplies the upstream gradient, not the row.": lambda dy, x, w, eps: (
        gradient_of_rows(dy, w * x, torch.ones(()), eps)
    ),
    "dy and x have changed places: the table comes second.": lambda dy, x, w, eps: gradient_of_rows(
        x, w * dy, torch.ones(()), eps
    ),
    "a gain may be negative: take w as it is, without abs().": lambda dy, x, w, eps: (
        gradient_of_rows(dy, x, w.abs(), eps)
    ),
    "the gain is divided by: g is w times dy.": lambda dy, x, w, eps: gradient_of_rows(
        dy, x, 1 / w, eps
    ),
    "the table is not transposed: these means run down the columns.": lambda dy, x, w, eps: (
        _of_columns(w * dy, x, eps)
    ),
    "the table is not transposed, and the gain is missing.": lambda dy, x, w, eps: _of_columns(
        dy, x, eps
    ),
    "eps is an argument; yours is fixed at 1e-5.": lambda dy, x, w, eps: gradient_of_rows(
        dy, x, w, 1e-5
    ),
    "dy and x have changed places.": lambda dy, x, w, eps: gradient_of_rows(x, dy, w, eps),
    "the sign is reversed.": lambda dy, x, w, eps: -gradient_of_rows(dy, x, w, eps),
    "s contains the variance that divides by D, not by D - 1 (correction=0).": (
        lambda dy, x, w, eps: (
            gradient_of_rows(dy, x, w, eps) * row_size(x, eps) / size(x, -1, eps, correction=1)
        )
    ),
}
