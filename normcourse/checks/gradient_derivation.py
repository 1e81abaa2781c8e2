"""Checks of lesson 04: three derivations of a norm's gradient, and a published one that is wrong.

SLIPS tables map what a check says to the wrong formula that earns it.
"""

from collections.abc import Callable

import sympy
import torch

from normcourse import draw
from normcourse.checks.moments import gains, mean, total
from normcourse.checks.probes import calls, forbid
from normcourse.checks.verdict import exercise, expect

EPS = 0.3  # large: an eps in the wrong place must show
P, LENGTH = sympy.symbols("p length", positive=True)


# Exercise 1: three gradients, at xhat, r and x


def nodes(dy, x, weight, eps, *, r=None, g=None, dr=None, dx=None):
    """(g, dr, dx); a slip replaces one formula, and what follows is made with it."""
    divisor = (r or (lambda x, eps: (mean(x.square()) + eps).sqrt()))(x, eps)
    at_xhat = (g or (lambda dy, w: w * dy))(dy, weight)
    at_r = (dr or (lambda g, x, r: -total(g * x) / r**2))(at_xhat, x, divisor)
    at_x = dx or (lambda g, dr, x, r: g / r + dr * x / (x.shape[-1] * r))
    return at_xhat, at_r, at_x(at_xhat, at_r, x, divisor)


def node_slip(**replaced) -> Callable:
    return lambda dy, x, weight, eps: nodes(dy, x, weight, eps, **replaced)


def published_after_the_paths(dy, x, weight, eps):
    g, dr, _ = nodes(dy, x, weight, eps)
    r = (mean(x.square()) + eps).sqrt()
    return g, dr, weight * (dy + dr * x / x.shape[-1]) / r


def without_the_gain_at_r(dy, x, weight, eps):
    """dr made of dy, where g belongs; the rest is right."""
    r = (mean(x.square()) + eps).sqrt()
    dr = -total(dy * x) / r**2
    return nodes(dy, x, weight, eps, dr=lambda g, x, r: dr)


def in_another_order(dy, x, weight, eps):
    g, dr, dx = nodes(dy, x, weight, eps)
    return dx, dr, g


WALK = {
    "the order is g, dr, dx: from right to left.": in_another_order,
    "g: the gain is missing; what reaches xhat is w dy.": node_slip(g=lambda dy, w: dy),
    "g: multiply by the gain; going back does not divide by it.": node_slip(g=lambda dy, w: dy / w),
    "dr: the sign: a larger r makes xhat = x / r smaller.": node_slip(
        dr=lambda g, x, r: total(g * x) / r**2
    ),
    "dr: the derivative of 1/r is -1/r^2, not -1/r.": node_slip(
        dr=lambda g, x, r: -total(g * x) / r
    ),
    "dr: the gain is missing there; what comes back to r came through xhat, so it is g, not dy.": (
        without_the_gain_at_r
    ),
    "dr: every entry of the row holds the same r, so add them up, one number a row.": node_slip(
        dr=lambda g, x, r: -g * x / r**2
    ),
    "dr: a sum over the entries, not their mean; 1/D comes later, from the mean square.": node_slip(
        dr=lambda g, x, r: -mean(g * x) / r**2
    ),
    "dr: the numerator of xhat is x, not xhat.": node_slip(dr=lambda g, x, r: -total(g * x) / r**3),
    "dr: the sum runs along the row, with keepdim, not over everything.": node_slip(
        dr=lambda g, x, r: -(g * x).sum() / r**2
    ),
    "dr: the sum runs along the row; each row has its own r, and so its own dr.": node_slip(
        dr=lambda g, x, r: (-g * x / r**2).sum() * torch.ones_like(r)
    ),
    "dx: path 1 alone; r depends on x, too: add path 2.": node_slip(dx=lambda g, dr, x, r: g / r),
    "dx: path 2 alone; add path 1, through the numerator.": node_slip(
        dx=lambda g, dr, x, r: dr * x / (x.shape[-1] * r)
    ),
    "dx: the mean square has the derivative 2 x / D: D is missing.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / r
    ),
    "dx: the root is missing: r = sqrt(q) has the derivative 1/(2 r).": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * 2 * x / x.shape[-1]
    ),
    "dx: 1/r is missing in path 2: r = sqrt(q) has the derivative 1/(2 r), not 1/2.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / x.shape[-1]
    ),
    "dx: r = sqrt(q) has the derivative 1/(2 r), not 1/(2 q).": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / (x.shape[-1] * r**2)
    ),
    "dx: a factor 2: that of the square and that of the root cancel.": node_slip(
        dx=lambda g, dr, x, r: g / r + 2 * dr * x / (x.shape[-1] * r)
    ),
    "dx: a factor 2: the square brings one, and cancels that of the root.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / (2 * x.shape[-1] * r)
    ),
    "dx: where two paths meet they are added, not subtracted; the sign is in dr.": node_slip(
        dx=lambda g, dr, x, r: g / r - dr * x / (x.shape[-1] * r)
    ),
    "dx: path 1 is multiplied by 1/r, the derivative of x / r.": node_slip(
        dx=lambda g, dr, x, r: g + dr * x / (x.shape[-1] * r)
    ),
    "dx: the gain stands before the whole bracket: that is the published line.": (
        published_after_the_paths
    ),
    "eps is missing: r is the root of the mean square PLUS eps.": node_slip(
        r=lambda x, eps: mean(x.square()).sqrt()
    ),
    "eps belongs inside the root, added to the mean square.": node_slip(
        r=lambda x, eps: mean(x.square()).sqrt() + eps
    ),
    "r is made of a sum; it is the root of a MEAN of squares.": node_slip(
        r=lambda x, eps: (total(x.square()) + eps).sqrt()
    ),
    "r is made of the standard deviation; RMSNorm does not centre.": node_slip(
        r=lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    ),
}


@exercise("Exercise 1 (walk back)", "return three gradients", "shape (..., 1)", "each of the three")
def walk(student: Callable) -> None:
    """student(dy, x, weight, eps) -> (g, dr, dx)."""
    cases = [
        {"dy": draw(3, 5), "x": draw(3, 5, seed=1) + 0.5, "weight": gains(5), "eps": EPS},
        {"dy": draw(2, 3, 7), "x": draw(2, 3, 7, seed=1), "weight": gains(7), "eps": 0.1},
    ]
    student = forbid(student, "autograd", "normlib")
    calls(student, nodes, *cases, slips=WALK, what=("g", "dr", "dx"))


# Exercise 2: the same gradient in one line


def one_line(dy, weight, xhat, r):
    return (weight * dy - xhat * mean(weight * dy * xhat)) / r


COLLECTED = {
    "the gain stands before the whole bracket, which only gain 1 hides: w_i belongs to the first "
    "term, w_j under the sum.": lambda dy, w, h, r: w * (dy - h * mean(w * dy * h)) / r,
    "w_i stands before the bracket, and no gain under the sum: a small step of x goes forward so. "
    "Going back, entry i collects from all outputs j, and each has its own w_j.": (
        lambda dy, w, h, r: w * (dy - h * mean(dy * h)) / r
    ),
    "the gain is missing under the sum; each dy_j arrives with its own w_j.": (
        lambda dy, w, h, r: (w * dy - h * mean(dy * h)) / r
    ),
    "the gain is missing in the first term.": (lambda dy, w, h, r: (dy - h * mean(w * dy * h)) / r),
    "the gain is missing; what reaches xhat is w dy.": (
        lambda dy, w, h, r: (dy - h * mean(dy * h)) / r
    ),
    "1/D is missing: a mean over the row, not a sum.": (
        lambda dy, w, h, r: (w * dy - h * total(w * dy * h)) / r
    ),
    "the sign of the second path: to divide by r makes it negative.": (
        lambda dy, w, h, r: (w * dy + h * mean(w * dy * h)) / r
    ),
    "r depends on x, too; without the second path it counts as a constant.": (
        lambda dy, w, h, r: w * dy / r
    ),
    "that is the second path alone; add the first, g / r.": (
        lambda dy, w, h, r: -h * mean(w * dy * h) / r
    ),
    "the second term holds xhat twice, once outside and once under the sum.": (
        lambda dy, w, h, r: (w * dy - mean(w * dy * h)) / r
    ),
    "that is LayerNorm's; RMSNorm subtracts no mean of the gradient.": (
        lambda dy, w, h, r: (w * dy - mean(w * dy) - h * mean(w * dy * h)) / r
    ),
    "under the sum xhat_j is missing: dr holds x_j.": (
        lambda dy, w, h, r: (w * dy - h * mean(w * dy)) / r
    ),
    "an r too many in the second term: both cancel, and only 1/r before the bracket is left.": (
        lambda dy, w, h, r: w * dy / r - h * mean(w * dy * h)
    ),
    "one mean for the whole batch; each row has its own, over its last axis.": (
        lambda dy, w, h, r: (w * dy - h * (w * dy * h).mean()) / r
    ),
    "divide by r once, not by its square.": (
        lambda dy, w, h, r: (w * dy - h * mean(w * dy * h)) / r**2
    ),
    "1/r stands before the bracket: divide by r, do not multiply.": (
        lambda dy, w, h, r: (w * dy - h * mean(w * dy * h)) * r
    ),
    "the sum over j is missing: entry i needs all products g_j xhat_j, not its own alone.": (
        lambda dy, w, h, r: (w * dy - h * w * dy * h / h.shape[-1]) / r
    ),
    "entry i needs the mean of g_j xhat_j over all j; yours has its own product alone.": (
        lambda dy, w, h, r: (w * dy - h * w * dy * h) / r
    ),
    "xhat stands once before the sum, as xhat_i, and once under it, beside g_j; yours is a square "
    "before the mean of g.": lambda dy, w, h, r: (w * dy - h**2 * mean(w * dy)) / r,
    "the mean divides by D already.": (
        lambda dy, w, h, r: (w * dy - h * mean(w * dy * h) / h.shape[-1]) / r
    ),
    "1/r is missing before the bracket.": lambda dy, w, h, r: w * dy - h * mean(w * dy * h),
    "in the second path both x were replaced by xhat without their r: two factors r cancel.": (
        lambda dy, w, h, r: w * dy / r - h * mean(w * dy * h) / r**3
    ),
    "in the second path an r is left over: x_j and x_i bring one each.": (
        lambda dy, w, h, r: w * dy / r - h * mean(w * dy * h) / r**2
    ),
}


@exercise("Exercise 2 (collect)")
def collected(student: Callable) -> None:
    """student(dy, weight, xhat, r) -> dx."""
    cases = [_collected_case(3, 5), _collected_case(2, 3, 7)]
    student = forbid(student, "autograd", "normlib")
    calls(student, one_line, *cases, slips=COLLECTED, what="dx")


def _collected_case(*shape: int) -> dict:
    x = draw(*shape, seed=1) + 0.5
    r = (mean(x.square()) + EPS).sqrt()
    return {"dy": draw(*shape), "weight": gains(shape[-1]), "xhat": x / r, "r": r}


# Exercise 3: the first order


FIRST_ORDER = {
    "the sign: a longer vector has a smaller one-over-length.": P / LENGTH**2,
    "the root halves: sqrt(1 + h) is about 1 + h/2, and h is 2 p / length^2.": -2 * P / LENGTH**2,
    "one half too many: h is 2 p / length^2, and the root halves it.": -P / (2 * LENGTH**2),
    "p stands over length SQUARED: it was taken out of the square of the length.": -P / LENGTH,
    "1/length stands before the bracket already.": -P / LENGTH**3,
    "no length: that holds for a unit vector only.": -P,
    "that is the whole bracket; c is what is added to 1.": 1 - P / LENGTH**2,
    "that is the whole right side; c is what is added to 1 in the bracket.": (
        (1 - P / LENGTH**2) / LENGTH
    ),
    "that is the change of the length itself; asked is one over it.": P / LENGTH,
    "expand the root, too, and one over it: c is linear in p.": (
        1 / sympy.sqrt(1 + 2 * P / LENGTH**2) - 1
    ),
    "expand one over the bracket, too: c is linear in p.": 1 / (1 + P / LENGTH**2) - 1,
    "that is the next order as well; keep what is linear in p.": (
        -P / LENGTH**2 + sympy.Rational(3, 2) * P**2 / LENGTH**4
    ),
}


@exercise(
    "Exercise 3 (the first order)",
    r"\frac{1}{\lVert x + \Delta \rVert} \approx \frac{1}{\lVert x \rVert} (1 + c)",
)
def first_order(student) -> None:
    """student: c in 1/|x + step| = (1 + c)/|x| to first order, in p = x·step and length."""
    expect(student, -P / LENGTH**2, FIRST_ORDER, "c")
