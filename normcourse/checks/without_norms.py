"""Checks of lesson 06a, networks without norms: one per exercise."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import call, calls, forbid
from normcourse.checks.verdict import Slip, exercise, expect, numbers
from normlib import gradients


@exercise("Exercise 1 (growth of the stream)")
def growth(answer) -> None:
    """The factor of the mean square after K blocks with gain a, an expression in both."""
    import sympy

    blocks, alpha = sympy.symbols("K a", positive=True)
    slips = {
        "that is the factor without a gain; the gain multiplies the branch.": 3**blocks,
        "the gain multiplies numbers, and a mean square holds their squares: a^2.": (
            (1 + 2 * alpha) ** blocks
        ),
        "He's weights double the mean square once more: the second Linear has no ReLU behind it.": (
            (1 + alpha**2) ** blocks
        ),
        "He's weights double the mean square, so the last Linear gives 2, not 1/2.": (
            (1 + alpha**2 / 2) ** blocks
        ),
        "lengths do not add up, nor are they asked for: the squares add up, 1 + 2 a^2.": (
            (1 + alpha) ** blocks
        ),
        "lengths do not add up: x and the branch are independent, so their squares do.": (
            (1 + alpha) ** (2 * blocks)
        ),
        "each block multiplies what the blocks before it made: a power, not a sum.": (
            1 + 2 * alpha**2 * blocks
        ),
        "that is the factor of the size; the mean square is asked for.": (
            (1 + 2 * alpha**2) ** (blocks / 2)
        ),
        "that is one block.": 1 + 2 * alpha**2,
        "K blocks multiply K times: a power of the factor, not K times it.": (
            blocks * (1 + 2 * alpha**2)
        ),
        "the shortcut is missing: it adds the mean square of x itself.": (2 * alpha**2) ** blocks,
        "the branch has two Linear layers and one ReLU: 2, then 1/2, then 2 again make 2, not 4.": (
            (1 + 4 * alpha**2) ** blocks
        ),
        "1 + 2 a^2 is a whole block, with both of its layers: one power for each block.": (
            (1 + 2 * alpha**2) ** (2 * blocks)
        ),
        "K blocks, not K - 1: the first one adds its branch, too.": (
            (1 + 2 * alpha**2) ** (blocks - 1)
        ),
        "the mixed product 2 a x F has the mean 0: F's weights know nothing of x.": (
            (1 + 2 * alpha + 2 * alpha**2) ** blocks
        ),
        "each block has its shortcut: the 1 belongs inside of the power.": (
            1 + (2 * alpha**2) ** blocks
        ),
        "that is the limit of many small steps; K blocks are a power of 1 + 2 a^2.": (
            sympy.exp(2 * alpha**2 * blocks)
        ),
        "the gain stands in front of the branch once: 2 times a^2.": ((1 + 4 * alpha**4) ** blocks),
    }
    expect(answer, (1 + 2 * alpha**2) ** blocks, slips, "the factor")


DEPTHS = (15, 60, 240)  # a start that holds the stream does so at any depth
MOST = 10  # times as large may the mean square of the stream become


@exercise("Exercise 2 (numbers of your own)", "none of them 0", "at most 10 times", "15, 60 or 240")
def numbers_in_front(student) -> str:
    """student(blocks) -> one number for each of so many blocks, none of them 0."""
    found = {}
    before = None
    for blocks in DEPTHS:
        given = numbers(call(student, blocks=blocks), "what you return")
        if len(given) != blocks:
            raise Slip(f"for {blocks} blocks you return {len(given)} numbers: one for each block.")
        if not all(map(math.isfinite, given)):
            raise Slip(f"for {blocks} blocks not all of your numbers are finite.")
        if numbers(call(student, blocks=blocks), "what you return") != given:
            raise Slip("a second call returns other numbers: fix them, instead of drawing anew.")
        if not all(given):
            raise Slip("a branch times a fixed 0 never takes part: no number may be 0.")
        found[blocks] = math.prod(1 + 2 * number**2 for number in given)
        if found[blocks] > MOST:
            raise Slip(_grows(blocks, found[blocks], given, before))
        before = given
    return ", ".join(f"{blocks} blocks: {factor:.3g} times" for blocks, factor in found.items())


def _grows(blocks: int, factor: float, given: list[float], before: list[float] | None) -> str:
    told = f"with {blocks} blocks the mean square becomes {factor:.3g} times as large: "
    if before is None:
        return told + "smaller numbers; one block makes it 1 + 2 a^2 times as large."
    if len({*given, *before}) == 1:
        return told + "one number for all depths; let it become smaller where there are more."
    if given[: len(before)] == before:
        return told + "your numbers shrink along the depth, and too slowly: use `blocks`, too."
    return told + "the sum of all a^2 must not grow with the number of blocks."


@exercise(
    "Exercise 3 (Fixup's factor)",
    "The last one is 0, the m - 1 others",
    "left 0 already",
    "as long as it is 0",
)
def fixup_factor(answer) -> None:
    """The scale of the other layers of a branch with m layers in a net with K branches."""
    import sympy

    blocks = sympy.Symbol("K", positive=True)
    layers = sympy.Symbol("m", positive=True, integer=True)
    slips = {
        "the minus sign is lost: more branches need smaller ones.": (
            blocks ** (1 / (2 * layers - 2))
        ),
        "the last layer is 0 and has no scale: m - 1 layers are scaled, not m.": (
            blocks ** (-1 / (2 * layers))
        ),
        "the scale stands in the outputs and in the step: both have the power m - 1.": (
            blocks ** (-1 / (layers - 1))
        ),
        "that is the right scale for m = 2; solve for any m.": blocks ** -sympy.Rational(1, 2),
        "that is the scale of a whole branch; take the root that shares it among the layers.": (
            1 / blocks
        ),
        "m layers, once: the last one is not scaled, and the scale counts twice.": (
            blocks ** (-1 / layers)
        ),
        "K r^(2m-2) has to be 1: take the root of order 2m - 2, not the power.": (
            blocks ** (2 - 2 * layers)
        ),
        "K r^(2m-2) has to be 1: take a root, not a power, and count the step as well.": (
            blocks ** (1 - layers)
        ),
        "the last layer is 0: m - 1 layers are scaled, not m + 1, and the scale counts twice.": (
            blocks ** (-1 / (layers + 1))
        ),
        "twice m - 1 is 2 m - 2.": blocks ** (-1 / (2 * layers - 1)),
        "K r^(2m-2) has to be 1: r is a power of K, not 1/(2 m - 2) of it.": (
            1 / (blocks * (2 * layers - 2))
        ),
    }
    expect(answer, blocks ** (-1 / (2 * layers - 2)), slips, "the scale")


@exercise("Exercise 4 (backward of Derf)", "gain 1 and bias 0")
def derf_backward(student) -> None:
    """student(dy, x, alpha, shift) -> (dx, dalpha, dshift), gain 1.

    [EQ-DERF-GRAD]
    """
    cases = [_derf_case(3, 4), _derf_case(2, 3, 5)]
    slips = {
        "2/sqrt(pi) is missing: the derivative of erf at 0 is 1.128, not 1.": (
            lambda *case: _derf_with(*case, factor=1.0)
        ),
        "sqrt(pi)/2 is upside down: erf rises to 1, and its slope at 0 is 2/sqrt(pi).": (
            lambda *case: _derf_with(*case, factor=math.sqrt(math.pi) / 2)
        ),
        "1/sqrt(2 pi) belongs to the normal density; erf has 2/sqrt(pi), and no 1/2 above.": (
            lambda *case: _derf_with(*case, factor=1 / math.sqrt(2 * math.pi), power=0.5)
        ),
        "the exponent is -u^2, without 1/2.": lambda *case: _derf_with(*case, power=0.5),
        "the sign in the exponent is lost: exp(-u^2).": lambda *case: _derf_with(*case, power=-1.0),
        "the shift is missing inside: u = alpha x + s.": (
            lambda dy, x, alpha, shift: _derf_with(dy, x, alpha, shift, argument=alpha * x)
        ),
        "that is the derivative of tanh.": _tanh_backward,
        "erf itself is not asked for, but its derivative: 2/sqrt(pi) exp(-u^2).": _erf_itself,
        "the shift stands outside of the product: u = alpha x + s, not alpha (x + s).": (
            lambda dy, x, alpha, shift: _derf_with(
                dy, x, alpha, shift, argument=alpha * (x + shift)
            )
        ),
        "the factor is 2 divided by the root of pi, not by pi.": (
            lambda *case: _derf_with(*case, factor=2 / math.pi)
        ),
        "dx: the chain rule leaves the factor alpha.": (
            lambda *case: _derf_changed(*case, dx=lambda dx, alpha: dx / alpha)
        ),
        "the order is dx, dalpha, dshift: the last two are exchanged.": _derf_exchanged,
        "dalpha: alpha is not a factor here: the derivative of alpha x + s by alpha is x.": (
            _derf_alpha_twice
        ),
        "dalpha: x is missing, the derivative of alpha x + s by alpha.": (
            lambda *case: _derf_changed(*case, alpha_from_shift=True)
        ),
        "dalpha: the derivative of alpha x + s by alpha is x, not alpha.": _derf_alpha_for_x,
        "dshift: the derivative of alpha x + s by s is 1; no factor alpha.": _derf_shift_by_alpha,
        "1 - y^2 belongs to tanh; the derivative of erf is 2/sqrt(pi) exp(-u^2).": (
            _one_minus_square
        ),
        "alpha is one number for all places: its gradient is a sum, and so is the shift's.": (
            _derf_not_summed
        ),
        "the gradient of one shared number is a sum, not a mean.": _derf_means,
        "dy is missing: multiply by what comes from above.": (
            lambda dy, x, alpha, shift: _derf(torch.ones_like(dy), x, alpha, shift)
        ),
    }
    names = ("dx", "dalpha", "dshift")
    allowed = forbid(student, "autograd", "normlib")
    calls(allowed, _derf, *cases, slips=slips, what=names)


def _derf_case(*shape: int) -> dict:
    return {
        "dy": draw(*shape),
        "x": draw(*shape, seed=1),
        "alpha": torch.tensor(0.7, dtype=torch.float64),
        "shift": torch.tensor(0.3, dtype=torch.float64),
    }


def _derf(dy: Tensor, x: Tensor, alpha: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
    return gradients.derf_backward(dy, x, alpha, shift)[:3]


def _derf_with(dy, x, alpha, shift, *, factor=None, power=1.0, argument=None) -> tuple:
    """The three gradients with another slope of erf."""
    factor = 2 / math.sqrt(math.pi) if factor is None else factor
    argument = alpha * x + shift if argument is None else argument
    slope = dy * factor * torch.exp(-power * argument.square())
    return slope * alpha, (slope * x).sum(), slope.sum()


def _derf_changed(dy, x, alpha, shift, *, dx=None, alpha_from_shift=False) -> tuple:
    first, by_alpha, by_shift = _derf(dy, x, alpha, shift)
    first = first if dx is None else dx(first, alpha)
    return first, by_shift if alpha_from_shift else by_alpha, by_shift


def _tanh_backward(dy, x, alpha, shift) -> tuple:
    slope = dy * (1 - torch.tanh(alpha * x + shift).square())
    return slope * alpha, (slope * x).sum(), slope.sum()


def _erf_itself(dy, x, alpha, shift) -> tuple:
    slope = dy * torch.erf(alpha * x + shift)
    return slope * alpha, (slope * x).sum(), slope.sum()


def _one_minus_square(dy, x, alpha, shift) -> tuple:
    slope = dy * (1 - torch.erf(alpha * x + shift).square())
    return slope * alpha, (slope * x).sum(), slope.sum()


def _derf_exchanged(dy, x, alpha, shift) -> tuple:
    dx, by_alpha, by_shift = _derf(dy, x, alpha, shift)
    return dx, by_shift, by_alpha


def _derf_alpha_twice(dy, x, alpha, shift) -> tuple:
    dx, by_alpha, by_shift = _derf(dy, x, alpha, shift)
    return dx, alpha * by_alpha, by_shift


def _derf_alpha_for_x(dy, x, alpha, shift) -> tuple:
    dx, _, by_shift = _derf(dy, x, alpha, shift)
    return dx, alpha * by_shift, by_shift


def _derf_shift_by_alpha(dy, x, alpha, shift) -> tuple:
    dx, by_alpha, by_shift = _derf(dy, x, alpha, shift)
    return dx, by_alpha, alpha * by_shift


def _derf_not_summed(dy, x, alpha, shift) -> tuple:
    dx = _derf(dy, x, alpha, shift)[0]
    return dx, dx / alpha * x, dx / alpha


def _derf_means(dy, x, alpha, shift) -> tuple:
    dx, by_alpha, by_shift = _derf(dy, x, alpha, shift)
    return dx, by_alpha / x.numel(), by_shift / x.numel()


@exercise("Exercise 5 (adaptive gradient clipping)")
def clip_by_unit(student) -> None:
    """student(weight, grad, factor, least) -> the clipped gradient, row by row."""
    # the last limit is so low that the norm of the whole matrix is too long as well
    cases = [_clip_case(5, 4, 1.5), _clip_case(7, 3, 0.7), _clip_case(4, 6, 0.1)]
    slips: dict[str, Callable] = {
        "each row of the weight is one unit with its own two norms; "
        "you take one norm of the matrix.": partial(_clipped, dim=(0, 1)),
        "a unit is a row: the weights of one output. You take columns.": partial(_clipped, dim=0),
        "clip only what is too long; shorter gradients stay as they are.": _always_scaled,
        "the weight's norm counts as `least` if it is smaller, or a row of zeros never learns.": (
            lambda weight, grad, factor, least: _clipped(weight, grad, factor, 0.0)
        ),
        "the factor is missing: a gradient may be `factor` times as long as its weights.": (
            lambda weight, grad, factor, least: _clipped(weight, grad, 1.0, least)
        ),
        "that limits each number, not the norm of a row.": _by_value,
        "compare with the weight's norm, not with 1.": (
            lambda weight, grad, factor, least: _clipped(torch.ones_like(weight), grad, factor, 0)
        ),
        "the ratio is upside down: a gradient that is too long is made shorter.": _inverted,
        "norms are roots of sums of squares; you left out the roots.": _without_roots,
        "the limit is factor times the weight's norm; `least` does not add to it.": _added,
        "`least` belongs to the weight's norm: take the larger of the two, then times factor.": (
            _least_of_the_limit
        ),
        "take the larger of the weight's norm and `least`, not the smaller.": _smaller,
        "a row that is too long gets the length factor times the weight's norm, not factor.": (
            _to_the_factor
        ),
        "the comparison is turned: shorten the rows that are longer than the limit.": _turned,
        "compare a row's norm with a row's norm, not number with number.": _by_number,
        "nothing is clipped.": lambda weight, grad, factor, least: grad,
        "take the larger of the weight's norm and `least`; yours adds the two.": (
            lambda weight, grad, factor, least: _limited(grad, factor * (_norms(weight) + least))
        ),
        "`least` counts for each norm that is smaller, not for a norm of 0 alone.": _only_for_zero,
        "no root of a sum with `least`: take the larger of the weight's norm and `least`.": (
            lambda weight, grad, factor, least: _limited(
                grad, factor * (_norms(weight).square() + least).sqrt()
            )
        ),
        "no root of squares with `least`: take the larger of the weight's norm and `least`.": (
            lambda weight, grad, factor, least: _limited(
                grad, factor * (_norms(weight).square() + least**2).sqrt()
            )
        ),
        "`least` belongs to the weight's norm, not to the gradient's.": _least_of_the_gradient,
        "`least` belongs to the weight's norm; yours takes it for the gradient's norm as well.": (
            _least_of_both
        ),
        "shorten the gradient, not the weight.": _weight_in_its_place,
        "the norm is the root of the sum of squares, not of their mean.": _by_mean_squares,
        "the norm is the root of the sum of squares, not the sum of the sizes.": _by_sizes,
        "a row of zeros in the gradient stays as it is; yours is NaN there: 0 divided by 0.": (
            _smaller_of_two_lengths
        ),
    }
    calls(student, _clipped, *cases, slips=slips, what="the clipped gradient")


def _clip_case(rows: int, columns: int, factor: float) -> dict:
    sizes = torch.linspace(0, 3, rows, dtype=torch.float64).unsqueeze(1)  # the first row is zero
    sizes[1] = 0.05  # shorter than `least`, and not 0
    weight = sizes * draw(rows, columns)
    grad = draw(rows, columns, seed=1)
    grad[1] *= 0.25 / grad[1].norm()  # shorter than `least`, and too long where factor is below 0.8
    grad[-1] = 0
    return {"weight": weight, "grad": grad, "factor": factor, "least": 0.3}


def _norms(rows: Tensor) -> Tensor:
    return rows.norm(dim=1, keepdim=True)


def _limited(grad: Tensor, limit: Tensor) -> Tensor:
    return torch.where(_norms(grad) > limit, grad * limit / _norms(grad), grad)


def _only_for_zero(weight, grad, factor, least) -> Tensor:
    norms = _norms(weight)
    return _limited(grad, factor * torch.where(norms == 0, least, norms))


def _least_of_the_gradient(weight, grad, factor, least) -> Tensor:
    limit = factor * _norms(weight).clamp(min=least)
    return torch.where(_norms(grad) > limit, grad * limit / (_norms(grad) + least), grad)


def _least_of_both(weight, grad, factor, least) -> Tensor:
    limit = factor * _norms(weight).clamp(min=least)
    return torch.where(_norms(grad) > limit, grad * limit / _norms(grad).clamp(min=least), grad)


def _weight_in_its_place(weight, grad, factor, least) -> Tensor:
    limit = factor * _norms(weight).clamp(min=least)
    return torch.where(_norms(grad) > limit, weight * limit / _norms(grad), grad)


def _by_mean_squares(weight, grad, factor, least) -> Tensor:
    root = weight.shape[1] ** 0.5
    limit = factor * (_norms(weight) / root).clamp(min=least)
    return torch.where(_norms(grad) / root > limit, grad * limit * root / _norms(grad), grad)


def _by_sizes(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.abs().sum(1, keepdim=True).clamp(min=least)
    length = grad.abs().sum(1, keepdim=True)
    return torch.where(length > limit, grad * limit / length, grad)


def _smaller_of_two_lengths(weight, grad, factor, least) -> Tensor:
    limit = factor * _norms(weight).clamp(min=least)
    return torch.minimum(limit, _norms(grad)) * grad / _norms(grad)


def _clipped(weight: Tensor, grad: Tensor, factor: float, least: float, dim=1) -> Tensor:
    limit = factor * weight.norm(dim=dim, keepdim=True).clamp(min=least)
    length = grad.norm(dim=dim, keepdim=True)
    return torch.where(length > limit, grad * limit / length, grad)


def _always_scaled(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True).clamp(min=least)
    return grad * limit / grad.norm(dim=1, keepdim=True)


def _by_value(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True).clamp(min=least)
    return grad.clamp(-limit, limit)


def _inverted(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True).clamp(min=least)
    length = grad.norm(dim=1, keepdim=True)
    return torch.where(length > limit, grad * length / limit, grad)


def _without_roots(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.square().sum(1, keepdim=True).clamp(min=least)
    length = grad.square().sum(1, keepdim=True)
    return torch.where(length > limit, grad * limit / length, grad)


def _added(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True) + least
    length = grad.norm(dim=1, keepdim=True)
    return torch.where(length > limit, grad * limit / length, grad)


def _least_of_the_limit(weight, grad, factor, least) -> Tensor:
    limit = (factor * weight.norm(dim=1, keepdim=True)).clamp(min=least)
    length = grad.norm(dim=1, keepdim=True)
    return torch.where(length > limit, grad * limit / length, grad)


def _smaller(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True).clamp(max=least)
    length = grad.norm(dim=1, keepdim=True)
    return torch.where(length > limit, grad * limit / length, grad)


def _to_the_factor(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True).clamp(min=least)
    length = grad.norm(dim=1, keepdim=True)
    return torch.where(length > limit, grad * factor / length, grad)


def _turned(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.norm(dim=1, keepdim=True).clamp(min=least)
    length = grad.norm(dim=1, keepdim=True)
    return torch.where(length < limit, grad * limit / length, grad)


def _by_number(weight, grad, factor, least) -> Tensor:
    limit = factor * weight.abs().clamp(min=least)
    return torch.where(grad.abs() > limit, grad * limit / grad.abs(), grad)
