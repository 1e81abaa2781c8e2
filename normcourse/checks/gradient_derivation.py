"""Checks of lesson 04: RMSNorm's backward pass along its graph, and in one line.

SLIPS tables map what a check says to the wrong formula that earns it.
"""

from collections.abc import Callable

import torch

from normcourse import draw
from normcourse.checks.moments import gains, mean, total
from normcourse.checks.probes import calls, forbid, lined_up
from normcourse.checks.verdict import Slip, exercise

EPS = 0.3  # large: an eps in the wrong place must show
PAGES_EPS = 1e-5  # that of the lesson's `normalized`


# Exercise 1: three gradients, at xhat, r and x


def three_gradients(dy, x, weight, eps, *, r=None, g=None, dr=None, dx=None):
    """(g, dr, dx); it stands in for the reader's until that is right.

    A slip replaces one formula, and what follows is made with it.
    """
    divisor = (r or (lambda x, eps: (mean(x.square()) + eps).sqrt()))(x, eps)
    at_xhat = (g or (lambda dy, w: w * dy))(dy, weight)
    at_r = (dr or (lambda g, x, r: -total(g * x) / r**2))(at_xhat, x, divisor)
    at_x = dx or (lambda g, dr, x, r: g / r + dr * x / (x.shape[-1] * r))
    return at_xhat, at_r, at_x(at_xhat, at_r, x, divisor)


def node_slip(**replaced) -> Callable:
    return lambda dy, x, weight, eps: three_gradients(dy, x, weight, eps, **replaced)


def megatrons_line(dy, x, weight, eps):
    g, dr, _ = three_gradients(dy, x, weight, eps)
    r = (mean(x.square()) + eps).sqrt()
    return g, dr, weight * (dy + dr * x / x.shape[-1]) / r


def megatrons_with_the_pages_eps(dy, x, weight, eps):
    """The lesson's own `megatron`, returned as dx."""
    g, dr, _ = three_gradients(dy, x, weight, eps)
    return g, dr, megatrons_line(dy, x, weight, PAGES_EPS)[2]


def megatrons_without_eps(dy, x, weight, eps):
    g, dr, _ = three_gradients(dy, x, weight, eps)
    return g, dr, megatrons_line(dy, x, weight, 0.0)[2]


def gain_outside_alone(dy, x, weight, eps):
    """A small step of x goes forward so; going back takes the matrix by its columns."""
    g, dr, _ = three_gradients(dy, x, weight, eps)
    r = (mean(x.square()) + eps).sqrt()
    xhat = x / r
    return g, dr, weight * (dy - xhat * mean(dy * xhat)) / r


def path_2_without_the_gain(dy, x, weight, eps):
    g, dr, _ = three_gradients(dy, x, weight, eps)
    r = (mean(x.square()) + eps).sqrt()
    return g, dr, g / r - x * mean(dy * x) / r**3


def without_the_gain_at_r(dy, x, weight, eps):
    """dr made of dy, where g belongs; the rest is right."""
    r = (mean(x.square()) + eps).sqrt()
    dr = -total(dy * x) / r**2
    return three_gradients(dy, x, weight, eps, dr=lambda g, x, r: dr)


def in_another_order(dy, x, weight, eps):
    g, dr, dx = three_gradients(dy, x, weight, eps)
    return dx, dr, g


def at_q(dy, x, weight, eps):
    """The gradient at q where that at r belongs; the rest is right."""
    g, dr, dx = three_gradients(dy, x, weight, eps)
    return g, dr / (2 * (mean(x.square()) + eps).sqrt()), dx


def path_1_without_the_gain(dy, x, weight, eps):
    g, dr, dx = three_gradients(dy, x, weight, eps)
    return g, dr, dx + (dy - g) / (mean(x.square()) + eps).sqrt()


def the_gain_twice(dy, x, weight, eps):
    g, dr, dx = three_gradients(dy, x, weight, eps)
    return g, dr, weight * dx


def with_another_width(width: Callable) -> Callable:
    """D taken from the weight, which may have more axes than one."""

    def slip(dy, x, weight, eps):
        def at_x(g, dr, x, r):
            return g / r + dr * x / (width(weight) * r)

        return three_gradients(dy, x, weight, eps, dx=at_x)

    return slip


OF_THE_WEIGHT = "dx: D is x.shape[-1]; the {} of weight is D only while it has a single axis."


BACKWARD = {
    "the order is g, dr, dx: from right to left.": in_another_order,
    "g: the gain is missing; what reaches xhat is w dy.": node_slip(g=lambda dy, w: dy),
    "g: multiply by the gain; going back does not divide by it.": node_slip(g=lambda dy, w: dy / w),
    "g: the gain is there twice; y = w xhat has the derivative w.": node_slip(
        g=lambda dy, w: w * w * dy
    ),
    "dr: the sign: a larger r makes xhat = x / r smaller.": node_slip(
        dr=lambda g, x, r: total(g * x) / r**2
    ),
    "dr: the derivative of 1/r is -1/r^2, not -1/r.": node_slip(
        dr=lambda g, x, r: -total(g * x) / r
    ),
    "dr: the gain is missing there; what comes back to r came through xhat, so it is g, not dy.": (
        without_the_gain_at_r
    ),
    "dr: that is the gradient at q; at r itself there is no 1/(2 r) yet.": at_q,
    "dr: half of it; the 1/2 of the root comes one box later, on the way to q.": node_slip(
        dr=lambda g, x, r: -total(g * x) / (2 * r**2),
        dx=lambda g, dr, x, r: g / r + 2 * dr * x / (x.shape[-1] * r),
    ),
    "dr: every entry of the row holds the same r, so add them up, one number a row.": node_slip(
        dr=lambda g, x, r: -g * x / r**2
    ),
    "dr: a sum over the entries, not their mean; 1/D comes later, from the mean square.": node_slip(
        dr=lambda g, x, r: -mean(g * x) / r**2
    ),
    "dr: x is missing; each entry contributes -g x / r^2.": node_slip(
        dr=lambda g, x, r: -total(g) / r**2
    ),
    "dr: an r too many; the derivative of x / r is -x / r^2, with x on top and not xhat.": (
        node_slip(dr=lambda g, x, r: -total(g * x) / r**3)
    ),
    "dr: the sum runs along the row, with keepdim, not over everything.": node_slip(
        dr=lambda g, x, r: -(g * x).sum() / r**2
    ),
    "dr: the sum runs along the row; each row has its own r, and so its own dr.": node_slip(
        dr=lambda g, x, r: (-g * x / r**2).sum() * torch.ones_like(r)
    ),
    "dx: path 1 starts from g = w dy, not from dy.": path_1_without_the_gain,
    "dx: D is the number of entries of a row, x.shape[-1]; yours is another axis.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / (x.shape[0] * r)
    ),
    "dx: a D is built in: it is the number of entries of a row, x.shape[-1].": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / (4 * r)
    ),
    "dx: D is x.shape[-1]; x.shape[1] is D only where x has two axes.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * x / (x.shape[1] * r)
    ),
    "dx: that is LayerNorm's; RMSNorm subtracts no mean of the gradient.": node_slip(
        dx=lambda g, dr, x, r: (g - mean(g)) / r + dr * x / (x.shape[-1] * r)
    ),
    OF_THE_WEIGHT.format("length"): with_another_width(len),
    OF_THE_WEIGHT.format("size"): with_another_width(torch.numel),
    "dx: path 2 is dr times dr/dx_i = x_i/(D r); yours passes dr on as it is.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr
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
    "dx: path 2 multiplies by r; r = sqrt(q) has the derivative 1/(2 r).": node_slip(
        dx=lambda g, dr, x, r: g / r + 2 * dr * x * r / x.shape[-1]
    ),
    "dx: in path 2 entry i gets its own x_i; yours is the sum of the row.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr * total(x) / (x.shape[-1] * r)
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
    "dx: where two paths meet they are added, not averaged.": node_slip(
        dx=lambda g, dr, x, r: (g / r + dr * x / (x.shape[-1] * r)) / 2
    ),
    "dx: path 1 is multiplied by 1/r, the derivative of x / r.": node_slip(
        dx=lambda g, dr, x, r: g + dr * x / (x.shape[-1] * r)
    ),
    "dx: the gain comes before the whole bracket: that is Megatron's line.": megatrons_line,
    "dx: that is Megatron's line, and with another eps than the one you get.": (
        megatrons_with_the_pages_eps
    ),
    "dx: that is Megatron's line, and without eps.": megatrons_without_eps,
    "dx: the gain comes before the whole bracket, and not under the sum: a small step of x goes "
    "forward so; going back, path 2 starts from dr, which holds all gains.": (gain_outside_alone),
    "dx: the gain is missing in path 2; it starts from dr, which was made of g.": (
        path_2_without_the_gain
    ),
    "dx: the gain is there twice; g holds it already.": the_gain_twice,
    "dx: path 2 is dr times x_i/(D r), entry by entry; yours is without x.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr / (x.shape[-1] * r)
    ),
    "eps is missing: r is the root of the mean square PLUS eps.": node_slip(
        r=lambda x, eps: mean(x.square()).sqrt()
    ),
    "r is made with the eps of `normalized`, 1e-5; take the eps that you get.": node_slip(
        r=lambda x, eps: (mean(x.square()) + PAGES_EPS).sqrt()
    ),
    "eps belongs inside the root, added to the mean square.": node_slip(
        r=lambda x, eps: mean(x.square()).sqrt() + eps
    ),
    "r is the root of q; yours is q itself.": node_slip(r=lambda x, eps: mean(x.square()) + eps),
    "r is made of a sum; it is the root of a MEAN of squares.": node_slip(
        r=lambda x, eps: (total(x.square()) + eps).sqrt()
    ),
    "r is made of the standard deviation; RMSNorm does not center.": node_slip(
        r=lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    ),
}


@exercise(
    "Exercise 1 (backward along the graph)",
    "return three gradients",
    "shape (..., 1)",
    "each of the three",
)
def backward(student: Callable) -> None:
    """student(dy, x, weight, eps) -> (g, dr, dx)."""
    cases = [
        {"dy": draw(3, 5), "x": draw(3, 5, seed=1) + 0.5, "weight": gains(5), "eps": EPS},
        {"dy": draw(2, 3, 7), "x": draw(2, 3, 7, seed=1), "weight": gains(7), "eps": 0.1},
        # a gain of its own for each of two stacks of rows
        {
            "dy": draw(2, 4, 6),
            "x": draw(2, 4, 6, seed=1),
            "weight": gains(12).reshape(2, 1, 6),
            "eps": EPS,
        },
    ]
    _own(student, three_gradients)
    fitting = lined_up(student, lambda: "keepdim=True is missing?")
    student = forbid(fitting, "autograd", "normlib")
    calls(student, three_gradients, *cases, slips=BACKWARD, what=("g", "dr", "dx"))


def _own(student: Callable, ours: Callable) -> None:
    if student is ours:
        raise Slip("that is the course's function; write one of your own.")


# Exercise 2: the same gradient in one line


def one_line(dy, weight, xhat, r):
    return (weight * dy - xhat * mean(weight * dy * xhat)) / r


COLLECTED = {
    "the gain comes before the whole bracket, which only gain 1 hides: w_i belongs to the first "
    "term, w_j under the sum.": lambda dy, w, h, r: w * (dy - h * mean(w * dy * h)) / r,
    "the gain is there twice, before the bracket and in it.": (
        lambda dy, w, h, r: w * (w * dy - h * mean(w * dy * h)) / r
    ),
    "w_i comes before the bracket, and no gain under the sum: that is the forward derivative. "
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
    "multiply by the gain; going back does not divide by it.": (
        lambda dy, w, h, r: (dy / w - h * mean(dy / w * h)) / r
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
    "the mean of the products is not the product of the means: w_j belongs under the sum.": (
        lambda dy, w, h, r: (w * dy - h * mean(w + 0 * h) * mean(dy * h)) / r
    ),
    "divide the sum by D, which the mean square brought; the sum of xhat^2 is less, for eps.": (
        lambda dy, w, h, r: (w * dy - h * total(w * dy * h) / total(h.square())) / r
    ),
    "xhat_i comes before the sum; drawn under it, it becomes a second xhat_j.": (
        lambda dy, w, h, r: (w * dy - mean(w * dy * h**2)) / r
    ),
    "one mean for the whole batch; each row has its own, over its last axis.": (
        lambda dy, w, h, r: (w * dy - h * (w * dy * h).mean()) / r
    ),
    "the mean runs over the first axis, mean(0); each row has its own, over its last axis.": (
        lambda dy, w, h, r: (w * dy - h * (w * dy * h).mean(0)) / r
    ),
    "divide by r once, not by its square.": (
        lambda dy, w, h, r: (w * dy - h * mean(w * dy * h)) / r**2
    ),
    "1/r comes before the bracket: divide by r, do not multiply.": (
        lambda dy, w, h, r: (w * dy - h * mean(w * dy * h)) * r
    ),
    "the sum over j is missing: entry i needs all products g_j xhat_j, not its own alone.": (
        lambda dy, w, h, r: (w * dy - h * w * dy * h / h.shape[-1]) / r
    ),
    "entry i needs the mean of g_j xhat_j over all j; yours has its own product alone.": (
        lambda dy, w, h, r: (w * dy - h * w * dy * h) / r
    ),
    "xhat occurs once before the sum, as xhat_i, and once under it, beside g_j; yours is a square "
    "before the mean of g.": lambda dy, w, h, r: (w * dy - h**2 * mean(w * dy)) / r,
    "a factor 2 in the second term: that of the square and that of the root cancel.": (
        lambda dy, w, h, r: (w * dy - 2 * h * mean(w * dy * h)) / r
    ),
    "xhat_j belongs under the sum, beside w_j dy_j: a mean of products, not a product of means.": (
        lambda dy, w, h, r: (w * dy - h * mean(h) * mean(w * dy)) / r
    ),
    "1/D is missing, and the sum runs over the whole batch: a mean over each row.": (
        lambda dy, w, h, r: (w * dy - h * (w * dy * h).sum()) / r
    ),
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


@exercise("Exercise 2 (collect the terms)")
def collected(student: Callable) -> None:
    """student(dy, weight, xhat, r) -> dx."""
    cases = [_collected_case(3, 5), _collected_case(2, 3, 7)]
    student = forbid(student, "autograd", "normlib")
    calls(student, one_line, *cases, slips=COLLECTED, what="dx")


def _collected_case(*shape: int) -> dict:
    x = draw(*shape, seed=1) + 0.5
    r = (mean(x.square()) + EPS).sqrt()
    return {"dy": draw(*shape), "weight": gains(shape[-1]), "xhat": x / r, "r": r}
