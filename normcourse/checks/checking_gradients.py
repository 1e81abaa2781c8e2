"""Checks of lesson 04a: differences, complex steps, planted errors, a backward of one's own.

SLIPS tables map what a check says to the wrong formula that earns it.
"""

from collections.abc import Callable
from functools import partial

import sympy
import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.moments import gains, mean
from normcourse.checks.probes import calls, forbid, same_gradients
from normcourse.checks.rms_rows import RMS_SLIPS, rms_norm
from normcourse.checks.values import describe
from normcourse.checks.verdict import Slip, exercise, expect, is_value
from normlib import gradients

EPS = 0.3
H, F1, F2, F3, A, B = sympy.symbols("h f1 f2 f3 A B", positive=True)


# Exercises 1 and 2


CENTRAL_ERROR = {
    "that is the forward difference's; in the central one the even terms cancel.": H * F2 / 2,
    "the even terms cancel: f'' is the same on both sides.": H**2 * F2 / 2,
    "the cube's term comes twice, and is divided by 2 h: h^2 / 6.": H**2 * F3 / 3,
    "divided by 2 h, not by h alone twice: h^2 / 6.": H**2 * F3 / 12,
    "h^3 is divided by 2 h, so one power goes.": H**3 * F3 / 6,
    "2 h^3 / 6 is still to be divided by 2 h.": H**3 * F3 / 3,
    "the sign: difference minus derivative.": -(H**2) * F3 / 6,
    "that is the difference itself; take f1 off.": F1 + H**2 * F3 / 6,
    "the 6 is missing: Taylor's third term is h^3 / 6 times f'''.": H**2 * F3,
    "Taylor's third term has 3! = 6 below, not 2 or 3.": H**2 * F3 / 2,
}


@exercise("Exercise 1 (what the central difference leaves out)")
def central_error(student) -> None:
    """student: the largest term of the error, in h, f1, f2, f3."""
    _named_in_advance(student)
    expect(student, H**2 * F3 / 6, CENTRAL_ERROR, "the error")


def _named_in_advance(student) -> None:
    """Slips with f1 or f2 in them, which the right expression does not hold."""
    for message, wrong in CENTRAL_ERROR.items():
        if wrong.has(F1, F2) and is_value(student, wrong):
            raise Slip(message)


BEST_STEP = {
    "that is the forward difference's (A h + B / h): here h is squared.": sympy.sqrt(B / A),
    "the derivative of A h^2 is 2 A h: the 2 is missing.": (B / A) ** sympy.Rational(1, 3),
    "h^3 = B / (2 A): the root is the third, not the second.": sympy.sqrt(B / (2 * A)),
    "the third root is missing.": B / (2 * A),
    "upside down: a larger B, more rounding, asks for a larger step.": (
        (2 * A / B) ** sympy.Rational(1, 3)
    ),
    "upside down, and the derivative of A h^2 is 2 A h.": (A / B) ** sympy.Rational(1, 3),
    "that is the error; asked is the step.": (
        A * (B / (2 * A)) ** sympy.Rational(2, 3) + B / (B / (2 * A)) ** sympy.Rational(1, 3)
    ),
    "the 2 belongs below: 2 A h^3 = B.": (2 * B / A) ** sympy.Rational(1, 3),
    "the derivative of B / h is -B / h^2: the powers add up to 3.": (
        (B / (2 * A)) ** sympy.Rational(1, 4)
    ),
}


@exercise("Exercise 2 (the best step)", "A h^{2} + B/h")
def best_step(student) -> None:
    """student: the h that makes A h^2 + B / h smallest."""
    expect(student, (B / (2 * A)) ** sympy.Rational(1, 3), BEST_STEP, "the step")


# Exercise 3


def analytic(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return weight * x / torch.sqrt(mean(x * x) + eps)


ANALYTIC = {
    "abs() is real and loses the imaginary part: square with x * x.": lambda x, w, eps: (
        w * x / torch.sqrt(mean(x.abs().square()) + eps)
    ),
    "without .real: the imaginary part carries the derivative.": lambda x, w, eps: (
        analytic(x.real, w, eps) + 0 * x
    ),
    "only the numerator is complex: the size has to be, too.": lambda x, w, eps: (
        w * x / torch.sqrt(mean(x.real * x.real) + eps)
    ),
    "the gain is missing.": lambda x, w, eps: analytic(x, torch.ones_like(w), eps),
    "eps is missing.": lambda x, w, eps: analytic(x, w, 0.0),
    "eps belongs inside the root.": lambda x, w, eps: w * x / (torch.sqrt(mean(x * x)) + eps),
    "a mean of the squares, not their sum.": lambda x, w, eps: (
        w * x / torch.sqrt((x * x).sum(-1, keepdim=True) + eps)
    ),
    "the root is missing.": lambda x, w, eps: w * x / (mean(x * x) + eps),
    "RMSNorm subtracts no mean.": lambda x, w, eps: analytic(x - mean(x), w, eps),
    "the mean runs along the last axis, for each row.": lambda x, w, eps: (
        w * x / torch.sqrt((x * x).mean() + eps)
    ),
}


@exercise("Exercise 3 (RMSNorm for the complex step)")
def analytic_rms_norm(student: Callable) -> None:
    """student(x, weight, eps) for complex x; the imaginary part is not small here."""
    cases = [_complex_case(3, 5), _complex_case(2, 3, 4)]
    calls(student, analytic, *cases, slips=ANALYTIC)


def _complex_case(*shape: int) -> dict:
    x = torch.complex(draw(*shape) + 0.5, 0.3 * draw(*shape, seed=1))
    return {"x": x, "weight": gains(shape[-1]), "eps": EPS}


# Exercise 4


def _backward(dy, x, w, eps, gain_outside=False, square=False, numerator=False, rows=True):
    r = torch.sqrt(mean(x * x) + eps)
    xhat = x if numerator else x / r
    if gain_outside:
        dx = w * (dy - xhat * mean(w * dy * xhat)) / r
    else:
        dx = (w * dy - xhat * mean(w * dy * xhat)) / r
    dw = (dy * xhat).sum(0) if rows else dy * xhat
    return (dx / r if square else dx), dw


PLANTED: dict[str, Callable] = {
    "gain_outside: your gains are too much alike": partial(_backward, gain_outside=True),
    "no_eps: your eps is too small beside the squares of your rows": lambda dy, x, w, eps: (
        _backward(dy, x, w, 0.0)
    ),
    "by_the_square: your rows have a size of nearly 1": partial(_backward, square=True),
    "x_for_xhat: your rows have a size of nearly 1": partial(_backward, numerator=True),
    "no_sum: you have one row only": partial(_backward, rows=False),
}


COLUMNS = 3


@exercise(
    "Exercise 4 (an input that catches all)",
    f"D = {COLUMNS}",
    "each of the 5 errors",
    "off by 1 % or more",
)
def revealing_case(dy, x, w, eps) -> None:
    """Whether every planted error is off by 1 % on this case."""
    case = (_table(dy, "dy", 2), _table(x, "x", 2), _table(w, "w", 1), float(eps))
    if case[0].shape != case[1].shape:
        shapes = f"{tuple(case[0].shape)} and {tuple(case[1].shape)}"
        raise Slip(f"dy and x have the shapes {shapes}, expected the same.")
    if case[1].shape[-1] != COLUMNS or case[2].shape != (COLUMNS,):
        raise Slip(f"each row and the gain have {COLUMNS} numbers here.")
    if not case[3] > 0:
        raise Slip("eps is to be larger than 0: an eps of 0 cannot be missed.")
    truth = _backward(*case)
    if not all(part.any() for part in truth):
        raise Slip("a gradient that is 0 shows nothing: change dy.")
    for name, backward in PLANTED.items():
        if not any(
            _differs(wrong, right) for wrong, right in zip(backward(*case), truth, strict=True)
        ):
            raise Slip(f"{name}; this error slips through.")
    if case[1].shape[0] == case[1].shape[1]:
        raise Slip("a square table hides a lost keepdim: take another number of rows.")


def _differs(wrong: Tensor, right: Tensor) -> bool:
    """By 1 % or more, as a comparison that broadcasts sees it."""
    return bool(((wrong - right).norm() >= 0.01 * right.norm()).item())


def _table(value, name: str, axes: int) -> Tensor:
    try:
        table = torch.as_tensor(value, dtype=torch.float64).detach()
    except (TypeError, ValueError, RuntimeError):
        raise Slip(
            f"{name} is {describe(value)}, expected numbers in rows of one length."
        ) from None
    if table.dim() != axes or not table.isfinite().all():
        raise Slip(f"{name} has shape {tuple(table.shape)}, expected finite numbers, {axes} axes.")
    return table


# Exercise 5


def _replaced(backward: Callable) -> Callable:
    """RMSNorm whose gradients are those that backward(dy, x, weight, eps) returns."""

    class Replaced(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            ctx.save_for_backward(x, weight)
            ctx.eps = eps
            return rms_norm(x, weight, eps)

        @staticmethod
        def backward(ctx, dy):
            dx, dw = backward(dy, *ctx.saved_tensors, ctx.eps)
            return dx, dw, None

    return Replaced.apply


def _pair(dx: Callable | None = None, dw: Callable | None = None) -> Callable:
    """A slip: one of both gradients is made by another formula of (g or dy, xhat, r, w)."""

    def backward(dy, x, w, eps):
        r = torch.sqrt(mean(x * x) + eps)
        xhat = x / r
        g = w * dy
        of_x = dx or (lambda dy, g, xhat, r, w: (g - xhat * mean(g * xhat)) / r)
        of_w = dw or (lambda dy, g, xhat, r, w: (dy * xhat).flatten(0, -2).sum(0))
        return of_x(dy, g, xhat, r, w), of_w(dy, g, xhat, r, w)

    return _replaced(backward)


FUNCTION = {
    "dx: the gain stands before the whole bracket.": _pair(
        dx=lambda dy, g, h, r, w: w * (dy - h * mean(g * h)) / r
    ),
    "dx: r is held constant; the second path is missing.": _pair(dx=lambda dy, g, h, r, w: g / r),
    "dx: the gain is missing.": _pair(dx=lambda dy, g, h, r, w: (dy - h * mean(dy * h)) / r),
    "dx: 1/D is missing: a mean over the row.": _pair(
        dx=lambda dy, g, h, r, w: (g - h * (g * h).sum(-1, keepdim=True)) / r
    ),
    "dx: the sign of the second path.": _pair(dx=lambda dy, g, h, r, w: (g + h * mean(g * h)) / r),
    "dx: divide by r, not by its square.": _pair(
        dx=lambda dy, g, h, r, w: (g - h * mean(g * h)) / r**2
    ),
    "dx: the second term holds xhat, not x.": _pair(
        dx=lambda dy, g, h, r, w: (g - h * r * mean(g * h * r)) / r
    ),
    "dx: eps is missing on the way back.": _replaced(
        lambda dy, x, w, eps: (
            _backward(dy, x, w, 0.0)[0],
            (dy * x / torch.sqrt(mean(x * x) + eps)).flatten(0, -2).sum(0),
        )
    ),
    "dweight: a sum over the rows, not their mean.": _pair(
        dw=lambda dy, g, h, r, w: (dy * h).flatten(0, -2).mean(0)
    ),
    "dweight: the factor is xhat, not x.": _pair(
        dw=lambda dy, g, h, r, w: (dy * h * r).flatten(0, -2).sum(0)
    ),
    "dweight: dy, not w dy; the gain is not multiplied by itself.": _pair(
        dw=lambda dy, g, h, r, w: (g * h).flatten(0, -2).sum(0)
    ),
}


@exercise("Exercise 5 (RMSNorm, forward and back)")
def rms_norm_function(student) -> None:
    """student: a torch.autograd.Function of (x, weight, eps)."""
    if not (isinstance(student, type) and issubclass(student, torch.autograd.Function)):
        if callable(student):
            student(*_function_case(3, 5).values())  # a stub raises
        raise Slip(f"that is {describe(student)}, expected a class of torch.autograd.Function.")

    def apply(x, weight, eps):
        return student.apply(x, weight, eps)

    cases = [_function_case(3, 5), _function_case(2, 3, 4)]
    calls(apply, rms_norm, *cases, slips=RMS_SLIPS, what="forward: the output")
    for case in cases:
        dx, dweight, *_ = _returned_by_backward(student, case)
        for name, gradient in (("x", dx), ("weight", dweight)):
            if gradient is None:
                raise Slip(
                    f"backward returns None for {name}: return one gradient for each argument of "
                    "forward, and None for eps alone."
                )
        same_gradients(apply, rms_norm, case, FUNCTION)
        # autograd sums a gradient that is too large
        if dweight.shape != case["weight"].shape:
            shapes = f"{tuple(dweight.shape)}, expected {tuple(case['weight'].shape)}"
            raise Slip(
                f"dweight has shape {shapes}: sum over all leading axes; torch did it for you."
            )


def _returned_by_backward(student, case: dict) -> tuple:
    returned: list = []

    class Watched(student):
        @staticmethod
        def backward(ctx, *arriving):
            gradients = student.backward(ctx, *arriving)
            returned.extend(gradients if isinstance(gradients, tuple | list) else [gradients])
            return gradients

    x = case["x"].clone().requires_grad_()
    weight = case["weight"].clone().requires_grad_()
    Watched.apply(x, weight, case["eps"]).sum().backward()
    return tuple(returned)


def _function_case(*shape: int) -> dict:
    return {"x": draw(*shape, seed=2) + 0.5, "weight": gains(shape[-1]), "eps": EPS}


# Exercise 6


SOFTMAX = {
    "the second term is missing: every logit moves every probability.": lambda dp, p: p * dp,
    "p (1 - p) is the diagonal only; the other probabilities move, too.": lambda dp, p: (
        p * (1 - p) * dp
    ),
    "the sum belongs inside the bracket, times p_i.": lambda dp, p: p * dp - _weighted(dp, p),
    "the sum is weighted: of p_j dp_j, not of dp_j.": lambda dp, p: (
        p * (dp - dp.sum(-1, keepdim=True))
    ),
    "the weights p_j add up to 1 already; no further 1/D.": lambda dp, p: (
        p * (dp - _weighted(dp, p) / p.shape[-1])
    ),
    "the p_i before the bracket is missing.": lambda dp, p: dp - _weighted(dp, p),
    "that is the backward pass of the logarithm of a softmax.": lambda dp, p: (
        dp - p * dp.sum(-1, keepdim=True)
    ),
    "the sign of the second term.": lambda dp, p: p * (dp + _weighted(dp, p)),
    "the sign of the whole: p (dp - sum), not p (sum - dp).": lambda dp, p: (
        p * (_weighted(dp, p) - dp)
    ),
    "the sum runs along the row (axis -1), not over the rows.": lambda dp, p: (
        p * (dp - (p * dp).sum(0))
    ),
    "the sum runs over the whole batch; each row has its own.": lambda dp, p: (
        p * (dp - (p * dp).sum())
    ),
    "p - dp is the gradient of a cross-entropy that contains the softmax.": lambda dp, p: p - dp,
    "these are probabilities already; no second softmax.": lambda dp, p: gradients.softmax_backward(
        dp, p
    )[0],
}


def _weighted(dp: Tensor, p: Tensor) -> Tensor:
    return (p * dp).sum(-1, keepdim=True)


def _softmax_dx(dp: Tensor, p: Tensor) -> Tensor:
    return p * (dp - _weighted(dp, p))


@exercise("Exercise 6 (softmax, backward)")
def softmax_backward(student: Callable) -> None:
    """student(dp, p) -> dx; the rows of p sum to 1."""
    cases = [_softmax_case(4, 4), _softmax_case(2, 9)]
    student = forbid(student, "autograd", "normlib", "softmax", largest=80)  # 9 x 9 is more
    calls(student, _softmax_dx, *cases, slips=SOFTMAX, what="dx")


def _softmax_case(*shape: int) -> dict:
    return {"dp": draw(*shape, seed=4), "p": draw(*shape, seed=5).softmax(-1)}
