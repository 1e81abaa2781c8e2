"""Checks of lesson 04a: planted errors, a backward of one's own, eigenvalues, a step.

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
from normcourse.checks.verdict import Slip, exercise, expect, is_value, parts, real

EPS = 0.3
R, EPSILON = sympy.symbols("r eps", positive=True)


# Exercise 1: an input that catches all


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
    "gain_outside: your gains are near 1, the mean of g xhat is near 0 in your rows, or your eps "
    "drowns their squares": partial(_backward, gain_outside=True),
    "no_eps: your eps is too small beside the squares of your rows": lambda dy, x, w, eps: (
        _backward(dy, x, w, 0.0)
    ),
    "by_the_square: your rows have a size of nearly 1": partial(_backward, square=True),
    "x_for_xhat: your rows have a size of nearly 1": partial(_backward, numerator=True),
    "no_sum: you have one row only": partial(_backward, rows=False),
}


COLUMNS = 3


@exercise(
    "Exercise 1 (an input that catches all)",
    f"D = {COLUMNS}",
    "each of the 5 errors",
    "off by 1 % or more",
    "Take no square table",
)
def revealing_case(dy, x, w, eps) -> None:
    """Whether every planted error is off by 1 % on this case."""
    case = (_table(dy, "dy", 2), _table(x, "x", 2), _table(w, "w", 1), real(eps, "eps"))
    if case[0].shape != case[1].shape:
        shapes = f"{tuple(case[0].shape)} and {tuple(case[1].shape)}"
        raise Slip(f"dy and x have the shapes {shapes}, expected the same.")
    if case[1].shape[-1] != COLUMNS or case[2].shape != (COLUMNS,):
        raise Slip(f"each row and the gain have {COLUMNS} numbers here.")
    if not case[3] > 0:
        raise Slip("eps is to be larger than 0: an eps of 0 cannot be missed.")
    truth = _backward(*case)
    if not case[1].any(-1).all():
        raise Slip("a row of x is 0: there dx shows nothing but dy, divided by the root of eps.")
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


# Exercise 2: a backward pass of one's own


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
    "dx: the second term holds xhat twice; one of yours is x.": _pair(
        dx=lambda dy, g, h, r, w: (g - h * r * mean(g * h)) / r
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


@exercise("Exercise 2 (RMSNorm, forward and back)", "Use no autograd inside backward")
def rms_norm_function(student) -> None:
    """student: a torch.autograd.Function of (x, weight, eps)."""
    if not (isinstance(student, type) and issubclass(student, torch.autograd.Function)):
        if isinstance(student, torch.autograd.Function):
            raise Slip("that is an instance: hand over the class itself, without brackets.")
        if isinstance(student, type):
            raise Slip("that class does not inherit: class MyRMSNorm(torch.autograd.Function).")
        if callable(student):
            student(*_function_case(3, 5).values())  # a stub raises
        raise Slip(f"that is {describe(student)}, expected a class of torch.autograd.Function.")

    def apply(x, weight, eps):
        return student.apply(x, weight, eps)

    cases = [_function_case(3, 5), _function_case(2, 3, 4)]
    calls(apply, rms_norm, *cases, slips=RMS_SLIPS, what="forward: the output")
    for case in cases:
        backward = forbid(student.backward, "autograd")
        dx, dweight, *_ = _returned_by_backward(student, backward, case)
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


def _returned_by_backward(student, backward: Callable, case: dict) -> tuple:
    returned: list = []

    def noted(ctx, *arriving):
        gradients = backward(ctx, *arriving)
        returned.extend(gradients if isinstance(gradients, tuple | list) else [gradients])
        if len(returned) != len(case):
            raise Slip(
                f"backward returns {len(returned)} of {len(case)} gradients: one for each argument "
                "of forward, in their order, and None for eps."
            )
        if returned[0] is not None and returned[0].shape != case["x"].shape:
            raise Slip(
                f"the first gradient is that of x, expected shape {tuple(case['x'].shape)}, got "
                f"{tuple(returned[0].shape)}: one for each argument of forward, in their order."
            )
        return gradients

    # of the same name: torch names the class in its errors
    watched = type(student)(student.__name__, (student,), {"backward": staticmethod(noted)})
    x = case["x"].clone().requires_grad_()
    weight = case["weight"].clone().requires_grad_()
    watched.apply(x, weight, case["eps"]).sum().backward()
    return tuple(returned)


def _function_case(*shape: int) -> dict:
    return {"x": draw(*shape, seed=2) + 0.5, "weight": gains(shape[-1]), "eps": EPS}


# Exercise 3: what gets through


ACROSS = {
    "it is divided by r, not multiplied.": R,
    "1/r is missing: it stands before the bracket.": sympy.Integer(1),
    "divide by r once, not by its square.": 1 / R**2,
    "for a vector across, xhat^T z is 0: the second term gives nothing.": sympy.Integer(0),
}
ALONG = {
    "that holds for eps = 0 only: here the mean of xhat^2 is a little below 1.": sympy.Integer(0),
    "1/r stands before the bracket, too.": EPSILON / R**2,
    "one power of r is missing: 1 - mean(xhat^2) is eps / r^2, and 1/r stands before it.": (
        EPSILON / R
    ),
    "one power of r too many: eps / r^2 is left in the bracket, and 1/r stands before it.": (
        EPSILON / R**4
    ),
    "that is the part that is taken away; asked is what is left.": (R**2 - EPSILON) / R**3,
    "that is the mean of xhat^2; asked is what J makes of xhat.": 1 - EPSILON / R**2,
    "it is divided by r^3, not multiplied by r: r is large for a long row.": EPSILON * R,
    "that is across; along xhat the second term takes nearly all.": 1 / R,
    "the mean of xhat^2 is (r^2 - eps) / r^2, not r^2 - eps.": (1 - R**2 + EPSILON) / R,
    "the mean of x^2 is r^2 - eps, not r^2 + eps: eps is a part of r^2.": -EPSILON / R**3,
}


@exercise("Exercise 3 (across and along)")
def eigenvalues(student: tuple) -> None:
    """student: (across, along), in r and eps."""
    across, along = parts(student, "across", "along")
    if is_value(across, EPSILON / R**3):
        raise Slip("across comes first, then along: that is the other way round.")
    expect(across, 1 / R, {f"across: {text}": v for text, v in ACROSS.items()}, "across")
    expect(along, EPSILON / R**3, {f"along: {text}": v for text, v in ALONG.items()}, "along")


# Exercise 4: a step that does not depend on the length


def fitted(x: Tensor, dx: Tensor, rate: float) -> Tensor:
    return x - rate * mean(x.square()) * dx


def with_factor(factor: Callable) -> Callable:
    """The answer whose step is multiplied by something else than the mean square."""
    return lambda x, dx, rate: x - rate * factor(x) * dx


def size(x: Tensor) -> Tensor:
    return mean(x.square()).sqrt()


def at_the_old_length(x, dx, rate):
    moved = x - rate * dx
    return moved * size(x) / size(moved)


def brought_back(x, dx, rate):
    moved = fitted(x, dx, rate)
    return moved * size(x) / size(moved)


STEP = {
    "that is the plain step: it does not look at the size of the row.": with_factor(lambda x: 1),
    "one power too few: the gradient is c times shorter AND the way c times longer.": (
        with_factor(size)
    ),
    "one power too many: the square of the size is enough.": with_factor(lambda x: size(x) ** 3),
    "the wrong way round: a longer row needs a longer step.": with_factor(lambda x: size(x) ** -2),
    "the wrong way round, and one power too few.": with_factor(lambda x: 1 / size(x)),
    "an eps too many: short rows would make a step that is too long.": (
        with_factor(lambda x: mean(x.square()) + 1e-5)
    ),
    "D is missing: for a root mean square of 1 that is D times the plain step.": (
        with_factor(lambda x: x.square().sum(-1, keepdim=True))
    ),
    "that is the length in the place of the mean square.": (
        with_factor(lambda x: x.norm(dim=-1, keepdim=True))
    ),
    "one size for the whole batch; each row has its own.": with_factor(lambda x: x.square().mean()),
    "each entry has its own factor there; the mean square is one number a row.": (
        with_factor(lambda x: x.square())
    ),
    "that is the variance: RMSNorm subtracts no mean.": (
        with_factor(lambda x: x.var(-1, correction=0, keepdim=True))
    ),
    "that is the row of size 1 with the gradient of the old row; its own is r times as long.": (
        lambda x, dx, rate: x / size(x) - rate * dx
    ),
    "the sign: the step goes against the gradient.": with_factor(lambda x: -(size(x) ** 2)),
    "that is the step alone; return the row after it.": (
        lambda x, dx, rate: -rate * size(x) ** 2 * dx
    ),
    "that is the step alone, with the other sign; return x minus it.": (
        lambda x, dx, rate: rate * size(x) ** 2 * dx
    ),
    "that is the row of size 1 after its step; go back to the old length.": (
        lambda x, dx, rate: x / size(x) - rate * size(x) * dx
    ),
    "the plain step, brought back to the old length: it turns the row as far as before.": (
        at_the_old_length
    ),
    "the right step, but brought back to the old length; it lands a little farther out.": (
        brought_back
    ),
    "divided by the gradient's own size: near the goal the step has to become short.": (
        lambda x, dx, rate: x - rate * size(x) * dx / size(dx)
    ),
}


@exercise("Exercise 4 (a step that suits every row)", "root mean square of 1")
def step(student: Callable) -> None:
    """student(x, dx, rate) -> the rows after the step."""
    cases = [_step_case(3, 5, rate=0.1), _step_case(2, 3, 7, rate=0.03)]
    student = forbid(student, "autograd", "normlib")
    calls(student, fitted, *cases, slips=STEP, what="the row")


def _step_case(*shape: int, rate: float) -> dict:
    each = torch.linspace(0.2, 4.0, shape[-2])[:, None]  # the rows have different sizes
    return {"x": each * draw(*shape, seed=4), "dx": draw(*shape, seed=5), "rate": rate}
