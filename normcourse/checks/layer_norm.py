"""Checks of lesson 02: a row by hand, layer norm, its output, what it sees, gradient, control."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

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
from normcourse.checks.verdict import Slip, exercise, expect, is_value, numbers, parts, real
from normlib import functional

NEAR = 5e-3  # of numbers that a reader writes down


def _listed(answer):
    """A tensor or an array as lists; anything else as it is."""
    return answer.tolist() if hasattr(answer, "tolist") else answer


# Exercise 1

# The variance is 12, with D - 1 it is 16: no two slips together divide by the right 5.
ROW, ROW_EPS, ROW_GAIN, ROW_BIAS = (2, 2, 2, 10), 13, (1, 2, 1, 2), (0, 0, 1, 1)


RESULTS = ("y1", "y2", "y3", "y4")


@exercise(
    "Exercise 1 (a row by hand)",
    f"row is {ROW}",
    rf"\varepsilon = {ROW_EPS}",
    f"gain {ROW_GAIN} and bias {ROW_BIAS}",
    "Write four numbers",
)
def by_hand(answer) -> None:
    """y of the row (2, 2, 2, 10) with eps 13, gain (1, 2, 1, 2) and bias (0, 0, 1, 1).

    [EQ-LN]
    """
    row = torch.tensor(ROW).double()
    weight = torch.tensor(ROW_GAIN).double()
    bias = torch.tensor(ROW_BIAS).double()
    centred = row - row.mean()
    variance, eps = 12, ROW_EPS
    root = math.sqrt(variance + eps)
    xhat = centred / root
    divisors = {
        "eps stands inside the root: the root of 12 + 13, not the root of 12 plus 13.": (
            math.sqrt(variance) + eps
        ),
        "eps is missing: add it to the variance before you take the root.": math.sqrt(variance),
        "the variance is missing: add it to eps before you take the root.": math.sqrt(eps),
        "the variance is the MEAN of the squares: divide their sum by 4.": (
            math.sqrt(4 * variance + eps)
        ),
        "the variance divides by D = 4, not by D - 1 = 3.": math.sqrt(16 + eps),
        "two slips: the variance divides by D = 4, not by D - 1 = 3, and eps is missing.": (
            math.sqrt(16)
        ),
        "take the root of the variance plus eps.": variance + eps,
        "you divide by the variance: add eps to it, and take the root.": variance,
    }
    slips = {text: centred / divisor * weight + bias for text, divisor in divisors.items()}
    slips |= {
        "that is the normalized row; gain and bias are missing.": xhat,
        "the bias is missing: add it last.": xhat * weight,
        "the gain is missing: multiply by it before you add the bias.": xhat + bias,
        "the bias comes after the gain: multiply first, then add.": (xhat + bias) * weight,
        "gain and bias have changed places: the gain is (1, 2, 1, 2).": xhat * bias + weight,
        "the mean is not subtracted: that is RMSNorm.": (
            row / math.sqrt(28 + eps) * weight + bias  # 28 is the mean of the row's squares
        ),
        "the mean is subtracted from the row; what you divide is still the row.": (
            row / root * weight + bias
        ),
        "the deviations are not divided by anything yet.": centred * weight + bias,
        "the sign: a deviation is the entry minus the mean.": bias - xhat * weight,
    }
    given = parts(_listed(answer), *RESULTS, kind="list")
    got = torch.tensor(numbers(given, "the row"), dtype=torch.float64)
    want = xhat * weight + bias
    named = any(torch.allclose(got, slip, rtol=NEAR, atol=NEAR) for slip in slips.values())
    wrong = ~torch.isclose(got, want, rtol=NEAR, atol=NEAR)
    if wrong.sum() == 1 and not named:
        place = int(wrong.nonzero())
        raise Slip(
            f"three of the four are right; {RESULTS[place]} is not. "
            f"Its gain is {ROW_GAIN[place]} and its bias {ROW_BIAS[place]}."
        )
    expect(got, want, slips, what="the row", rtol=NEAR, atol=NEAR)


# Exercise 2


LARGE_MEAN = 10_000
SMALL = 0.01  # what a row is multiplied by: eps 1e-5 stands beside a variance near 1e-4


@exercise("Exercise 2 (layer norm)", f"rows with the mean {LARGE_MEAN:,} in float32")
def layer_norm(student) -> None:
    """student(x, normalized_shape, weight, bias, eps) for x (..., *normalized_shape).

    [EQ-LN]
    """
    cases = [
        _layer_case((2, 3, 2, 3), (2, 3), eps=0.5),  # a lost keepdim broadcasts here
        _layer_case((4, 5, 7), (7,), eps=0.1),
        _layer_case((6,), (6,), eps=0.3),
        _layer_case((4, 3, 2, 5), (3, 2, 5), eps=0.2),
    ]
    watched = forbid(lined_up(student, lambda: "keepdim=True is missing?"), *FINISHED)
    calls(watched, functional.layer_norm, *cases, slips=LAYER_NORM_SLIPS)
    same_gradients(student, functional.layer_norm, cases[0], slips=GRADIENT_SLIPS)
    _as_on_large_rows(student, functional.layer_norm, _layer_case((3, 6), (6,), eps=1e-5))
    _check_large_mean(student)


def _layer_case(shape: tuple, normalized_shape: tuple, eps: float) -> dict:
    return {
        "x": 1 + draw(*shape, seed=1),
        "normalized_shape": normalized_shape,
        "weight": 1 + draw(*normalized_shape, seed=2),
        "bias": 1 + draw(*normalized_shape, seed=3),
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


def _trailing(shape: tuple) -> tuple:
    return tuple(range(-len(shape), 0))


def _row_slip(xhat):
    """A layer norm whose normalized row is xhat(x, axes, eps)."""
    return lambda x, shape, w, b, eps: xhat(x, _trailing(shape), eps) * w + b


def _axis_slip(axes):
    """A layer norm over axes(number of dimensions of x, normalized_shape)."""
    return lambda x, shape, w, b, eps: standardize(x, axes(x.dim(), shape), eps=eps) * w + b


def _affine_slip(affine):
    """A layer norm whose gain and bias are used in another way."""
    return lambda x, shape, w, b, eps: affine(standardize(x, _trailing(shape), eps=eps), w, b)


def _unkept(x, shape, w, b, eps) -> Tensor:
    """Without keepdim; NaN where this does not broadcast."""
    dims = _trailing(shape)
    try:
        return (x - x.mean(dims)) / torch.sqrt(x.var(dims, correction=0) + eps) * w + b
    except RuntimeError:
        return torch.full_like(x, math.nan)


def _affine_first(x, shape, w, b, eps) -> Tensor:
    return standardize(x * w + b, _trailing(shape), eps=eps)


def _leading(dims: int, shape: tuple) -> tuple:
    return tuple(range(dims - len(shape))) or (0,)


def _from_the_front(dims: int, shape: tuple) -> tuple:
    return tuple(range(len(shape)))


def _all_but_first(dims: int, shape: tuple) -> tuple:
    return tuple(range(1, dims)) or (0,)


def _one_or_two(dims: int, shape: tuple) -> tuple:
    return (-1,) if len(shape) == 1 else (-2, -1)


def _last_two(dims: int, shape: tuple) -> tuple:
    return (-2, -1) if dims > 1 else (-1,)


LAYER_NORM_SLIPS = {text: _row_slip(wrong) for text, wrong in STATISTICS.items()}
LAYER_NORM_SLIPS |= {text: _affine_slip(wrong) for text, wrong in AFFINE.items()}
LAYER_NORM_SLIPS |= {
    "wrong axes: these statistics run over the leading dimensions, "
    "that is over the samples.": _axis_slip(_leading),
    "wrong axes: you count from the front; normalized_shape names the LAST dimensions, "
    "range(-len(normalized_shape), 0).": _axis_slip(_from_the_front),
    "wrong axes: the first one was reduced, as BatchNorm does: "
    "these statistics run over the samples.": _axis_slip(lambda dims, shape: (0,)),
    "wrong axes: only the last one was reduced; normalized_shape may have two.": _axis_slip(
        lambda dims, shape: (-1,)
    ),
    "wrong axes: one mean for the whole tensor; every sample has its own.": _axis_slip(
        lambda dims, shape: tuple(range(dims))
    ),
    "wrong axes: all but the first; normalized_shape says how many to take from the end.": (
        _axis_slip(_all_but_first)
    ),
    "the axes are fixed at the last two; "
    "len(normalized_shape) says how many there are.": _axis_slip(_last_two),
    "normalized_shape may have any length; yours knows one or two: "
    "range(-len(normalized_shape), 0).": _axis_slip(_one_or_two),
    "keepdim=True is missing: the statistics are lined up with the wrong axes.": _unkept,
    "the mean is subtracted from x, but not inside the variance: square the deviations, not x.": (
        _row_slip(lambda x, dims, eps: centred(x, dims) / torch.sqrt(mean_square(x, dims) + eps))
    ),
    "gain and bias come after the normalization, not before.": _affine_first,
    "gain and bias have changed places.": _affine_slip(lambda xhat, w, b: xhat * b + w),
}
GRADIENT_SLIPS = {
    "the values are right, but mean and variance are cut off from x (detach, no_grad, .item()): "
    "the gradient must flow through them as well.": lambda x, shape, w, b, eps: (
        (x - x.mean(_trailing(shape), keepdim=True).detach())
        / torch.sqrt(x.var(_trailing(shape), keepdim=True, correction=0) + eps).detach()
        * w
        + b
    ),
    "the values are right, but the mean is cut off from x; the gradient must flow through it.": (
        lambda x, shape, w, b, eps: (
            (x - x.mean(_trailing(shape), keepdim=True).detach())
            / torch.sqrt(x.var(_trailing(shape), keepdim=True, correction=0) + eps)
            * w
            + b
        )
    ),
    "the values are right, but the variance is cut off from x; "
    "the gradient must flow through it.": (
        lambda x, shape, w, b, eps: (
            centred(x, _trailing(shape))
            / torch.sqrt(x.var(_trailing(shape), keepdim=True, correction=0) + eps).detach()
            * w
            + b
        )
    ),
}


def _check_large_mean(student) -> None:
    x = (LARGE_MEAN + draw(32, 64, seed=1)).float()
    ones = torch.ones(64, dtype=x.dtype)
    zeros = torch.zeros(64, dtype=x.dtype)
    got = student(x, (64,), ones, zeros, 1e-5)
    want = functional.layer_norm(x, (64,), ones, zeros)
    # the mean is rounded to 1e4 * 6e-8; mean of squares minus squared mean misses by 1
    comparable = isinstance(got, Tensor) and got.shape == want.shape
    if comparable and not torch.allclose(got.to(want.dtype), want, rtol=0.0, atol=1e-2):
        raise Slip(
            "right on small numbers, lost at mean 10,000 in float32: mean of squares minus squared "
            "mean cancels. Subtract the mean first, then square."
        )
    expect(got, want, what="the output in float32", rtol=0.0, atol=1e-2)


# Exercise 3


OUTPUT, INPUT = (1, 1, -1, -1), (12, 12, 8, 8)


@exercise(
    "Exercise 3 (from an output back to a row)",
    "LayerNorm (gain 1, no bias, $\\varepsilon = 0$) has made a row of four numbers",
    "The first two are 1 and 1",
    "mean 10 and the standard deviation 2",
    "the output first",
)
def back_to_a_row(answer) -> None:
    """The output (1, 1, -1, -1), and the row with mean 10 and standard deviation 2 that gives it.

    [EQ-LN-CONSTRAINTS] [EQ-LN-INVARIANCE]
    """
    given = parts(_listed(answer), "output", "input", kind="pair of lists")
    output = _four_numbers(given[0], "the output")
    row = _four_numbers(given[1], "the row that came in")
    xhat, x = torch.tensor(OUTPUT).double(), torch.tensor(INPUT).double()
    if torch.allclose(output, x, rtol=NEAR, atol=NEAR) and torch.allclose(
        row, xhat, rtol=NEAR, atol=NEAR
    ):
        raise Slip("the two rows have changed places: the output first.")
    if not torch.allclose(output[:2], xhat[:2], rtol=NEAR, atol=NEAR):
        raise Slip("the output begins with 1 and 1; only the other two are lost.")
    if abs(output.sum()) > NEAR:
        raise Slip(f"the output's four numbers add up to {output.sum():.3g}; they have to give 0.")
    if abs(output.square().sum() - 4) > NEAR:
        raise Slip(
            f"the output's squares add up to {output.square().sum():.3g}; they have to give D = 4."
        )
    slips = {
        "the second row's mean is right; its VARIANCE is 2. The standard deviation has to be 2.": (
            10 + math.sqrt(2) * xhat
        ),
        "the second row has the standard deviation 4: multiply the output by 2, not by 4.": 10
        + 4 * xhat,
        "the second row has the standard deviation 1: what was divided has to come back, too.": 10
        + xhat,
        "the second row has the standard deviation 0.5: multiply by 2, do not divide.": 10
        + xhat / 2,
        "2 is the second row's standard deviation with D - 1; LayerNorm divides by D.": (
            10 + math.sqrt(3) * xhat
        ),
        "the second row has the mean 0: what was subtracted has to come back, too.": 2 * xhat,
        "the second row: the level comes back last: multiply by 2 first, then add 10.": 2
        * (10 + xhat),
        "the second row gives the output with the other sign: a factor below 0 flips it.": 10
        - 2 * xhat,
    }
    expect(row, x, slips, what="the row that came in", rtol=NEAR, atol=NEAR)


def _four_numbers(answer, name: str) -> Tensor:
    if answer is None:
        raise Slip(f"{name} is still None.")
    given = parts(_listed(answer), *RESULTS, kind="list", what=name)
    return torch.tensor(numbers(given, name), dtype=torch.float64)


# Exercise 4

# What a change does to the table x W^T, and which norms give the same output.
ROW_OF_TABLE = "a whole row of the table, one picture"
COLUMN_OF_TABLE = "a whole column of the table, one unit"
CHANGES = {
    "all weights times 5": ("LN and BN", "it multiplies each row and each column by 5."),
    "all weights times -5": ("neither", "what is left of a factor below 0? The output flips."),
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
    "one of the pictures times 5": ("LN", f"it multiplies {ROW_OF_TABLE}."),
    "one vector added to all pictures": ("BN", f"it adds one number to {COLUMN_OF_TABLE}."),
}
WORDS = {"LN": "LN", "BN": "BN", "LN AND BN": "LN and BN", "BN AND LN": "LN and BN"}
WORDS |= {"BOTH": "LN and BN", "NEITHER": "neither", "NONE": "neither"}
TURNED_ROUND = {"LN": "BN", "BN": "LN"}


@exercise("Exercise 4 (what does each norm see)", "seven changes")
def what_each_sees(student) -> None:
    """student: a dict, for each of CHANGES the norms that give the same output.

    [EQ-LN-INVARIANCE]
    """
    given = _words_of(student)
    right = {change: answer for change, (answer, _) in CHANGES.items()}
    if given == {change: TURNED_ROUND.get(answer, answer) for change, answer in right.items()}:
        raise Slip(
            "LN and BN have changed places: LayerNorm works along a row of the table, "
            "one picture, and BatchNorm down a column, one unit."
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
        joined = str(answer).upper().replace(",", " AND ").replace("&", " AND ")
        word = WORDS.get(" ".join(joined.split()))
        if word is None:
            raise Slip(f'"{change}": write "LN", "BN", "LN and BN" or "neither", got {answer!r}.')
        given[change] = word
    return given


# Exercise 5


@exercise("Exercise 5 (the gradient in one line)")
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
    return "turn both, w * dy and x, before the call. The gain has one number for each column of x."


def _turns() -> dict[str, Callable]:
    """What is not turned, in all mixtures: the gradient that it gives."""
    arriving = {
        "": lambda dy, w: (w * dy).T,
        "the gain belongs before the turn, (w * dy).T.": lambda dy, w: w * dy.T,
        "dy is not turned.": lambda dy, w: w * dy,
        "the gain is missing.": lambda dy, w: dy.T,
        "the gain is missing, and dy is not turned.": lambda dy, w: dy,
    }
    tables = {"": lambda x: x.T, "x is not turned.": lambda x: x}
    results = {"": lambda dx: dx.T, "The result is not turned back.": lambda dx: dx}

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
    "the gain belongs to dy alone; yours multiplies x, too.": lambda dy, x, w, eps: (
        gradient_of_rows(w * dy, w * x, torch.ones(()), eps)
    ),
    "the gain is squared: once, in g = w * dy.": lambda dy, x, w, eps: gradient_of_rows(
        w * dy, x, w, eps
    ),
    "the gain belongs to the gradient that arrives, not to the row.": lambda dy, x, w, eps: (
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
    "the table is not turned: these means run down the columns.": lambda dy, x, w, eps: _of_columns(
        w * dy, x, eps
    ),
    "the table is not turned, and the gain is missing.": lambda dy, x, w, eps: _of_columns(
        dy, x, eps
    ),
    "eps is an argument; yours is fixed at 1e-5.": lambda dy, x, w, eps: gradient_of_rows(
        dy, x, w, 1e-5
    ),
    "dy and x have changed places.": lambda dy, x, w, eps: gradient_of_rows(x, dy, w, eps),
    "the sign is turned round.": lambda dy, x, w, eps: -gradient_of_rows(dy, x, w, eps),
    "s holds the variance that divides by D, not by D - 1 (correction=0).": (
        lambda dy, x, w, eps: (
            gradient_of_rows(dy, x, w, eps) * row_size(x, eps) / size(x, -1, eps, correction=1)
        )
    ),
}


# Exercise 6

TRAINED = {"depth": 30, "steps": 600, "batch_size": 1}
RATE = 0.003
WITHOUT = 0.0003  # the best rate of the first section's nets without a norm: no end of a search
HIGHEST = 0.01  # a search goes on beyond RATE
APART = 10  # the largest factor between a rate and the next one
FEWEST = 3  # rates: two ends are no search
NOT_THE_CONTROL = {
    "layer_norm": "that is the net in question. Its control is a net without LayerNorm.",
    "batch_norm": "BatchNorm refuses a batch of one picture; with more pictures two things change.",
}


@exercise(
    "Exercise 6 (the control)",
    f"has {TRAINED['depth']} layers",
    f"in {TRAINED['steps']} steps with one picture each",
    f"at the rate {RATE}",
)
def control(student) -> None:
    """student: a dict. The net without a norm, trained as the other, at rates on both sides."""
    fields = ("norm", *TRAINED, "rates")
    if not isinstance(student, dict) or set(student) != set(fields):
        raise Slip(f"expected a dict with {', '.join(fields)}, got {describe(student)}.")
    for field, value in student.items():
        if value is None:
            raise Slip(f'"{field}" is still None; for a net without a norm write "none" (text).')
    norm = str(student["norm"]).strip().lower()
    if norm in NOT_THE_CONTROL:
        raise Slip(f'"{norm}": {NOT_THE_CONTROL[norm]}')
    if norm != "none":
        raise Slip(f'"norm" is "none", "batch_norm" or "layer_norm", got {norm!r}.')
    for field, value in TRAINED.items():
        if real(student[field], field) != value:
            raise Slip(
                f'"{field}" was {value}, yours is {student[field]}: if two things change, '
                "nobody knows which of them made the difference."
            )
    _rates_that_search(numbers(student["rates"], "rates"))


def _rates_that_search(rates: list[float]) -> None:
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise Slip(f"a learning rate is above 0, got {rates}.")
    if set(rates) == {RATE}:
        raise Slip(
            f"the rate {RATE} was chosen for LayerNorm, and may not suit the other net: "
            "try several, smaller and larger."
        )
    if min(rates) > 0.99 * WITHOUT:
        raise Slip(
            f"your lowest rate is {min(rates):g}. In the first section nets without a norm were "
            f"best at {WITHOUT:g}: if the best one is the lowest that you tried, try a lower one."
        )
    if max(rates) < 0.99 * HIGHEST:
        raise Slip(
            f"your highest rate is {max(rates):g}. Somebody who doubts your result will ask for "
            f"rates above {RATE}: go to {HIGHEST:g} at least."
        )
    ordered = sorted(set(rates))
    if len(ordered) < FEWEST:
        raise Slip(f"{len(ordered)} rates are the two ends, and no search: try one between them.")
    for lower, higher in itertools.pairwise(ordered):
        if higher > 1.01 * APART * lower:
            raise Slip(
                f"no rate lies between {lower:g} and {higher:g}, and the best one may: "
                f"neighbours lie at most a factor of {APART} apart."
            )
