"""Checks of lesson 04: two derivations of a norm's gradient, a block, a formula that is wrong.

SLIPS tables map what a check says to the wrong formula that earns it.
"""

from collections.abc import Callable

import sympy
import torch

from normcourse import draw
from normcourse.checks.moments import gains, mean, total
from normcourse.checks.probes import calls, forbid, lined_up
from normcourse.checks.verdict import Slip, exercise, expect, numbers

EPS = 0.3  # large: an eps in the wrong place must show
BLOCK_EPS = 1e-5  # that of the lesson's `normalized`


# Exercise 1: the walk with a pencil


X = (1, 1, 3, 5)
GAIN = (3, 1, 1, 1)
ARRIVES = (1, 0, 0, 0)
SIZE = sympy.Integer(3)


def by_pencil(first=GAIN[0], path1=1, path2=1) -> list[float]:
    """dx of the picture's row where 1 arrives at the first output alone.

    A slip has another number in place of the first entry of g, or a factor before one path.
    """
    walked = []
    for i, x in enumerate(X):
        through_r = -first * X[0] * x / (len(X) * SIZE**3)
        walked.append(float(path1 * (first / SIZE if i == 0 else 0) + path2 * through_r))
    return walked


def article_by_pencil() -> list[float]:
    mistake = [
        (1 - w) * GAIN[0] * X[0] * x / (len(X) * SIZE**3) for w, x in zip(GAIN, X, strict=True)
    ]
    return [right + float(off) for right, off in zip(by_pencil(), mistake, strict=True)]


PENCIL = {
    "path 1 alone; x feeds the mean square, too: add what comes back through r.": by_pencil(
        path2=0
    ),
    "path 2 alone; add path 1, straight through the division.": by_pencil(path1=0),
    "the gain is missing: 3 times 1 arrives at the first entry of xhat.": by_pencil(first=1),
    "divided by the gain; going back multiplies by it.": by_pencil(first=sympy.Rational(1, 3)),
    "the sign of path 2: a larger r makes xhat smaller.": by_pencil(path2=-1),
    "path 2 is four times too large: the MEAN square divides by the four entries.": (
        by_pencil(path2=4)
    ),
    "path 2 is six times too large: the root has the derivative 1/(2 r), which is 1/6.": (
        by_pencil(path2=6)
    ),
    "path 2 is three times too large: the root has the derivative 1/(2 r), not 1/2; or xhat = x/r "
    "has -x/r^2, not -x/r.": by_pencil(path2=3),
    "path 2 is twice as large: the 1/2 of the root and the 2 of the square cancel.": (
        by_pencil(path2=2)
    ),
    "half of path 2: the square brings a 2, which cancels the 1/2 of the root.": (
        by_pencil(path2=sympy.Rational(1, 2))
    ),
    "path 2 is too small by a factor 3: there x stands over r^2, and not xhat.": (
        by_pencil(path2=sympy.Rational(1, 3))
    ),
    "path 1 is g, divided by r = 3.": by_pencil(path1=3),
    "all four entries hold the same r, so what comes back through r reaches all four x.": (
        [35 / 36, 0, 0, 0]
    ),
    "that is the article's formula: the gain before the whole bracket.": article_by_pencil(),
    "the gain stands before the bracket, and is missing under the sum: 3 arrives at the first "
    "entry of xhat, and goes through r, too.": [35 / 36, -1 / 108, -3 / 108, -5 / 108],
    "36 times too large: divide by 36.": by_pencil(first=3 * 36),
    "that is the picture's answer; here (1, 0, 0, 0) arrives.": [8 / 9, -1 / 9, 6 / 9, -5 / 9],
}


@exercise("Exercise 1 (with a pencil)", f"= {ARRIVES}")
def pencil(student) -> None:
    """student: dx of the picture's row, four numbers, eps = 0. Two decimals will do."""
    given = torch.tensor(numbers(student, "the answer"), dtype=torch.float64)
    if given.shape != (len(X),):
        raise Slip(f"{len(given)} numbers, expected {len(X)}: one for each entry of x.")
    expect(
        given, torch.tensor(by_pencil(), dtype=torch.float64), PENCIL, "dx", rtol=0.01, atol=0.006
    )


# Exercise 2: three gradients, at xhat, r and x


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


def article_after_the_paths(dy, x, weight, eps):
    g, dr, _ = three_gradients(dy, x, weight, eps)
    r = (mean(x.square()) + eps).sqrt()
    return g, dr, weight * (dy + dr * x / x.shape[-1]) / r


def article_with_the_pages_eps(dy, x, weight, eps):
    """The lesson's own `article`, handed over as dx."""
    g, dr, _ = three_gradients(dy, x, weight, eps)
    return g, dr, article_after_the_paths(dy, x, weight, BLOCK_EPS)[2]


def article_without_eps(dy, x, weight, eps):
    g, dr, _ = three_gradients(dy, x, weight, eps)
    return g, dr, article_after_the_paths(dy, x, weight, 0.0)[2]


def article_with_no_gain_under_the_sum(dy, x, weight, eps):
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


WALK = {
    "the order is g, dr, dx: from right to left.": in_another_order,
    "g: the gain is missing; what reaches xhat is w dy.": node_slip(g=lambda dy, w: dy),
    "g: multiply by the gain; going back does not divide by it.": node_slip(g=lambda dy, w: dy / w),
    "g: the gain stands there twice; y = w xhat has the derivative w.": node_slip(
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
    "dr: the numerator of xhat is x, not xhat.": node_slip(dr=lambda g, x, r: -total(g * x) / r**3),
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
    "dx: path 2 is dr times dr/dx_i = x_i/(D r); yours hands dr down as it is.": node_slip(
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
    "dx: the gain stands before the whole bracket: that is the article's formula.": (
        article_after_the_paths
    ),
    "dx: that is the article's formula, and with another eps than the one you get.": (
        article_with_the_pages_eps
    ),
    "dx: that is the article's formula, and without eps.": article_without_eps,
    "dx: the gain stands before the whole bracket, and not under the sum: a small step of x goes "
    "forward so; going back, path 2 starts from dr, which holds all gains.": (
        article_with_no_gain_under_the_sum
    ),
    "dx: the gain is missing in path 2; it starts from dr, which was made of g.": (
        path_2_without_the_gain
    ),
    "dx: the gain stands there twice; g holds it already.": the_gain_twice,
    "dx: path 2 is dr times x_i/(D r), entry by entry; yours is without x.": node_slip(
        dx=lambda g, dr, x, r: g / r + dr / (x.shape[-1] * r)
    ),
    "eps is missing: r is the root of the mean square PLUS eps.": node_slip(
        r=lambda x, eps: mean(x.square()).sqrt()
    ),
    "r is made with the eps of `normalized`, 1e-5; take the eps that you get.": node_slip(
        r=lambda x, eps: (mean(x.square()) + BLOCK_EPS).sqrt()
    ),
    "eps belongs inside the root, added to the mean square.": node_slip(
        r=lambda x, eps: mean(x.square()).sqrt() + eps
    ),
    "r is the root of q; yours is q itself.": node_slip(r=lambda x, eps: mean(x.square()) + eps),
    "r is made of a sum; it is the root of a MEAN of squares.": node_slip(
        r=lambda x, eps: (total(x.square()) + eps).sqrt()
    ),
    "r is made of the standard deviation; RMSNorm does not centre.": node_slip(
        r=lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    ),
}


@exercise("Exercise 2 (walk back)", "return three gradients", "shape (..., 1)", "each of the three")
def walk(student: Callable) -> None:
    """student(dy, x, weight, eps) -> (g, dr, dx)."""
    cases = [
        {"dy": draw(3, 5), "x": draw(3, 5, seed=1) + 0.5, "weight": gains(5), "eps": EPS},
        {"dy": draw(2, 3, 7), "x": draw(2, 3, 7, seed=1), "weight": gains(7), "eps": 0.1},
        # as in the lesson's network: each of the starts has gains of its own
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
    calls(student, three_gradients, *cases, slips=WALK, what=("g", "dr", "dx"))


def _own(student: Callable, ours: Callable) -> None:
    if student is ours:
        raise Slip("that is the course's function; write one of your own.")


# Exercise 3: back through a block


def branch(dz, h, w, W, norm_gradient):
    """Back through z = (w xhat) W, as in the lesson: the gradients at h, w and W."""
    xhat = h / (mean(h.square()) + BLOCK_EPS).sqrt()
    dy = dz @ W.mT
    dw = (dy * xhat).sum(-2, keepdim=True)
    return norm_gradient(dy, h, w), dw, (w * xhat).mT @ dz


def pre_activation(h, w, W):
    return (w * h / (mean(h.square()) + BLOCK_EPS).sqrt()) @ W


def through_a_block(dh, h, w, W, norm_gradient):
    """Back through h + relu((w xhat) W); it stands in for the reader's until that is right."""
    dz = dh * (pre_activation(h, w, W) > 0)
    below, dw, dW = branch(dz, h, w, W, norm_gradient)
    return dh + below, dw, dW


def block_slip(*, mask=None, at_h=None) -> Callable:
    """mask(dh, h, z) is the gradient at z; at_h(dh, dz, below) the one at h."""

    def slip(dh, h, w, W, norm_gradient):
        z = pre_activation(h, w, W)
        dz = (mask or (lambda dh, h, z: dh * (z > 0)))(dh, h, z)
        below, dw, dW = branch(dz, h, w, W, norm_gradient)
        return (at_h or (lambda dh, dz, below: dh + below))(dh, dz, below), dw, dW

    return slip


def with_the_right_norm(dh, h, w, W, norm_gradient):
    return through_a_block(dh, h, w, W, right_gradient)


def mask_behind_the_branch(dh, h, w, W, norm_gradient):
    """The ReLU's mask put on what the norm hands down, not on what reaches z."""
    below, dw, dW = branch(dh, h, w, W, norm_gradient)
    return dh + below * (pre_activation(h, w, W) > 0), dw, dW


def mask_on_both_sides(dh, h, w, W, norm_gradient):
    z = pre_activation(h, w, W)
    below, dw, dW = branch(dh * (z > 0), h, w, W, norm_gradient)
    return dh + below * (z > 0), dw, dW


def norm_twice(dh, h, w, W, norm_gradient):
    dz = dh * (pre_activation(h, w, W) > 0)
    below, dw, dW = branch(dz, h, w, W, norm_gradient)
    return dh + norm_gradient(below, h, w), dw, dW


def matrix_twice(dh, h, w, W, norm_gradient):
    dz = dh * (pre_activation(h, w, W) > 0)
    below, dw, dW = branch(dz @ W.mT, h, w, W, norm_gradient)
    return dh + below, dw, dW


def shortcut_carries_h(dh, h, w, W, norm_gradient):
    at_h, dw, dW = through_a_block(dh, h, w, W, norm_gradient)
    return at_h - dh + h, dw, dW


def without_the_gain_at_z(dh, h, w, W, norm_gradient):
    dz = dh * (pre_activation(h, torch.ones_like(w), W) > 0)
    below, dw, dW = branch(dz, h, w, W, norm_gradient)
    return dh + below, dw, dW


def norm_forgotten(*, gain: bool) -> Callable:
    """What arrives at y, or at xhat, is handed to h as it is."""

    def slip(dh, h, w, W, norm_gradient):
        dz = dh * (pre_activation(h, w, W) > 0)
        _, dw, dW = branch(dz, h, w, W, norm_gradient)
        at_y = dz @ W.mT
        return dh + (w * at_y if gain else at_y), dw, dW

    return slip


def branch_from(row: Callable) -> Callable:
    """branch gets another row than h."""

    def slip(dh, h, w, W, norm_gradient):
        dz = dh * (pre_activation(h, w, W) > 0)
        xhat = h / (mean(h.square()) + BLOCK_EPS).sqrt()
        below, dw, dW = branch(dz, row(w, xhat), w, W, norm_gradient)
        return dh + below, dw, dW

    return slip


def weights_first(dh, h, w, W, norm_gradient):
    at_h, dw, dW = through_a_block(dh, h, w, W, norm_gradient)
    return at_h, dW, dw


BLOCK = {
    "the order is h, w, W.": weights_first,
    "at h: the shortcut is missing; h feeds two boxes, so two gradients are added.": block_slip(
        at_h=lambda dh, dz, below: below
    ),
    "at h: the branch is missing; h feeds two boxes, so two gradients are added.": block_slip(
        at_h=lambda dh, dz, below: dh
    ),
    "the ReLU is missing: where z is not above 0, nothing comes back through it.": block_slip(
        mask=lambda dh, h, z: dh
    ),
    "at h: only the branch passes the ReLU; along the shortcut dh comes down as it is.": (
        block_slip(at_h=lambda dh, dz, below: dz + below)
    ),
    "the ReLU stands behind the matrix: its mask comes before branch, not behind it.": (
        mask_behind_the_branch
    ),
    "at h: the mask is there twice; it belongs before branch, and not behind it.": (
        mask_on_both_sides
    ),
    "at h: norm_gradient is there twice; branch has called it already.": norm_twice,
    "branch multiplies by W.mT itself; hand it the gradient at z.": matrix_twice,
    "at h: the shortcut hands down the gradient dh, not the value h.": shortcut_carries_h,
    "the ReLU looks at z, not at h: it stands behind the matrix.": block_slip(
        mask=lambda dh, h, z: dh * (h > 0)
    ),
    "the ReLU looks at z, which went forward, not at the gradient that comes back.": block_slip(
        mask=lambda dh, h, z: dh.relu()
    ),
    "the ReLU looks at z, not at the block's output: h + relu(z) is above 0 where h is, too.": (
        block_slip(mask=lambda dh, h, z: dh * (h + z.relu() > 0))
    ),
    "the ReLU's derivative is 1 or 0; yours multiplies by z itself.": block_slip(
        mask=lambda dh, h, z: dh * z.relu()
    ),
    "the wrong half: the ReLU lets through what is above 0.": block_slip(
        mask=lambda dh, h, z: dh * (z <= 0)
    ),
    "at h: where two paths meet they are added, not subtracted.": block_slip(
        at_h=lambda dh, dz, below: dh - below
    ),
    "at h: the shortcut hands dh down once; yours does so twice.": block_slip(
        at_h=lambda dh, dz, below: 2 * dh + below
    ),
    "at h: added, not averaged.": block_slip(at_h=lambda dh, dz, below: (dh + below) / 2),
    "z is made without the gain, or without gain and norm: W multiplies w xhat.": (
        without_the_gain_at_z
    ),
    "at h: the norm is missing on the way back; what leaves the matrix is the gradient at y, and "
    "branch takes it through the norm.": norm_forgotten(gain=False),
    "at h: the norm is missing on the way back; behind the gain you are at xhat, and branch goes "
    "on to h.": norm_forgotten(gain=True),
    "branch gets h, the row in front of the norm: it makes xhat of it itself.": (
        branch_from(lambda w, xhat: xhat)
    ),
    "branch gets h, the row in front of the norm, and not w xhat.": (
        branch_from(lambda w, xhat: w * xhat)
    ),
    "norm_gradient is not used: the lesson puts the article's formula in its place.": (
        with_the_right_norm
    ),
}


def right_gradient(dy, h, w):
    """What comes back through the norm alone, with gain."""
    _, _, at_h = three_gradients(dy, h, w, BLOCK_EPS)
    return at_h


def another_gradient(dy, h, w):
    """A wrong one: whoever builds the right one in does not use what is handed over."""
    return w * dy / (mean(h.square()) + BLOCK_EPS).sqrt()


@exercise("Exercise 3 (a block)", "Use neither autograd nor normlib")
def block(student: Callable) -> None:
    """student(dh, h, w, W, norm_gradient) -> the gradients at h, w and W."""
    _own(student, through_a_block)
    cases = [_block_case(3, 5, norm=right_gradient), _block_case(2, 4, 7, norm=another_gradient)]
    student = forbid(student, "autograd", "normlib")
    calls(student, through_a_block, *cases, slips=BLOCK, what=("at h", "at w", "at W"))


def _block_case(*shape: int, norm: Callable) -> dict:
    nets, width = shape[:-2], shape[-1]
    return {
        "dh": draw(*shape),
        "h": draw(*shape, seed=1) + 0.3,
        "w": gains(width).expand(*nets, 1, width).clone(),
        "W": draw(*nets, width, width, seed=2),
        "norm_gradient": norm,
    }


# Exercise 4: the same gradient in one line


def one_line(dy, weight, xhat, r):
    return (weight * dy - xhat * mean(weight * dy * xhat)) / r


COLLECTED = {
    "the gain stands before the whole bracket, which only gain 1 hides: w_i belongs to the first "
    "term, w_j under the sum.": lambda dy, w, h, r: w * (dy - h * mean(w * dy * h)) / r,
    "the gain stands there twice, before the bracket and in it.": (
        lambda dy, w, h, r: w * (w * dy - h * mean(w * dy * h)) / r
    ),
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
    "the mean of the products is not the product of the means: w_j stands under the sum.": (
        lambda dy, w, h, r: (w * dy - h * mean(w + 0 * h) * mean(dy * h)) / r
    ),
    "divide the sum by D, which the mean square brought; the sum of xhat^2 is less, for eps.": (
        lambda dy, w, h, r: (w * dy - h * total(w * dy * h) / total(h.square())) / r
    ),
    "xhat_i stands before the sum; drawn under it, it becomes a second xhat_j.": (
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
    "a factor 2 in the second term: that of the square and that of the root cancel.": (
        lambda dy, w, h, r: (w * dy - 2 * h * mean(w * dy * h)) / r
    ),
    "xhat_j stands under the sum, beside w_j dy_j: a mean of products, not a product of means.": (
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


@exercise("Exercise 4 (collect)")
def collected(student: Callable) -> None:
    """student(dy, weight, xhat, r) -> dx."""
    cases = [_collected_case(3, 5), _collected_case(2, 3, 7)]
    student = forbid(student, "autograd", "normlib")
    calls(student, one_line, *cases, slips=COLLECTED, what="dx")


def _collected_case(*shape: int) -> dict:
    x = draw(*shape, seed=1) + 0.5
    r = (mean(x.square()) + EPS).sqrt()
    return {"dy": draw(*shape), "weight": gains(shape[-1]), "xhat": x / r, "r": r}


# Exercise 5: gains with which the wrong formula wins


ROWS = 400
AHEAD = 40
LARGER = 0.2  # four times the page's rate


def articles_formula(dy, x, w):
    _, _, at_x = article_after_the_paths(dy, x, w, BLOCK_EPS)
    return at_x


@exercise(
    "Exercise 5 (make the wrong formula win)",
    f"at least {AHEAD} more rows of the {ROWS}",
    "eight gains, none of them 0",
)
def winning(student, descend: Callable) -> str:
    """student: eight gains with which the article's formula brings more rows to their targets.

    descend is the page's.
    """
    gain = torch.tensor(numbers(student, "the gains"), dtype=torch.float64)
    if len(gain) != 8:
        raise Slip(f"{len(gain)} gains, expected 8: one for each number of a row.")
    if (gain == 0).any():
        raise Slip("a gain is 0: that number of a row never comes out.")
    if not gain.isfinite().all():
        raise Slip(f"the gains are {gain.tolist()}, expected eight finite numbers.")
    right, kept = _arrived(descend, right_gradient, gain)
    wrong, grown = _arrived(descend, articles_formula, gain)
    counts = f"the right gradient brings {right} of {ROWS} rows, the article's formula {wrong}"
    if wrong < right + AHEAD:
        raise Slip(f"{counts}. {_why_not(gain, right, wrong)}")
    lengths = f"Their rows end {kept:.1f} and {grown:.1f} times as long as they began"
    faster, _ = _arrived(descend, right_gradient, gain, rate=LARGER)
    return (
        f"{counts}. {lengths}: does your sentence say why, and why that helps? "
        f"At the rate {LARGER} the right gradient brings {faster}."
    )


def _arrived(
    descend: Callable, gradient: Callable, gain: torch.Tensor, **how: float
) -> tuple[int, float]:
    """How many rows arrive, and how long a row ends, compared with its start."""
    losses, lengths = descend(gradient, gain, **how)
    grown = (lengths[-1] / lengths[0]).median().item()
    return int((losses[-1] < 0.01).sum()), grown


def _why_not(gain: torch.Tensor, right: int, wrong: int) -> str:
    if (gain == 1).all():
        return "With gain 1 the article's formula is right."
    if gain.abs().max() < 0.02:  # |xhat - goal|^2 is at most 32
        return "With gains so small each loss is below 0.01 before the first step."
    if gain.mean() <= 0 and wrong < right:
        return "With gains so far below 1 rows shrink by so much that a step goes past the target."
    if gain.mean() >= 1:
        return "The mean gain is 1 or more: which sign has x d then, and does the row grow?"
    if max(right, wrong) < 2 * AHEAD:
        return "Both are slow: small gains make small gradients, too. Take larger ones."
    if right > ROWS - AHEAD:
        return (
            f"Fewer than {AHEAD} are left to win: with which gains is the right gradient slow? "
            "Their sign does not matter to it."
        )
    return (
        "The mean gain is below 1; where gains differ, the direction may cost what the length wins."
    )
