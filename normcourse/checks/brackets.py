"""The gradient of a norm in its input, 1/s times a bracket, and the slips with it on any axis."""

from collections.abc import Callable

import torch
from torch import Tensor


def gradient(dy, x, weight, eps, dim, *, keepdim=True, s=None, bracket=None, power=1, g=None):
    """dx of a norm whose statistics run over dim; a slip replaces one part.

    s(variance, count, eps) divides, bracket(g, xhat, mean) is what it divides, and g(dy, weight) is
    what reaches xhat.
    """

    def along(t: Tensor) -> Tensor:
        return t.mean(dim, keepdim=keepdim)

    variance = x.var(dim, correction=0, keepdim=keepdim)
    divisor = (s or (lambda variance, count, eps: (variance + eps).sqrt()))(
        variance, x.shape[dim], eps
    )
    xhat = (x - along(x)) / divisor
    arriving = (g or (lambda dy, w: w * dy))(dy, weight)
    inside = bracket or (lambda g, xhat, m: g - m(g) - xhat * m(g * xhat))
    return inside(arriving, xhat, along) / divisor**power


def changed(**replaced) -> Callable:
    return lambda dy, x, weight, eps, dim: gradient(dy, x, weight, eps, dim, **replaced)


def _with_sums(first: bool, second: bool) -> Callable:
    """Sums in the place of the first mean, of the second or of both."""

    def slip(dy, x, weight, eps, dim):
        count = x.shape[dim]
        one = count if first else 1
        other = count if second else 1
        return gradient(
            dy, x, weight, eps, dim, bracket=lambda g, h, m: g - one * m(g) - other * h * m(g * h)
        )

    return slip


def _mean_of_dy(dy, x, weight, eps, dim):
    return gradient(dy, x, weight, eps, dim, bracket=lambda g, h, m: g - m(dy) - h * m(g * h))


def _gain_in_the_first_term(dy, x, weight, eps, dim):
    return gradient(dy, x, weight, eps, dim, bracket=lambda g, h, m: g - m(dy) - h * m(dy * h))


def _x_for_xhat(dy, x, weight, eps, dim):
    return gradient(dy, x, weight, eps, dim, bracket=lambda g, h, m: g - m(g) - x * m(g * x))


def _deviations_for_xhat(dy, x, weight, eps, dim):
    def bracket(g, h, m):
        deviations = x - m(x)
        return g - m(g) - deviations * m(g * deviations)

    return gradient(dy, x, weight, eps, dim, bracket=bracket)


def _gain_outside(dy, x, weight, eps, dim):
    return weight * gradient(dy, x, torch.ones_like(weight), eps, dim)


BRACKETS: dict[str, Callable] = {  # what a check says: the dx that earns it
    "the gain is missing: g = w dy is what reaches xhat.": changed(g=lambda dy, w: dy),
    "the gain is missing in the two means: under both means stands g = w dy, not dy.": (
        _gain_in_the_first_term
    ),
    "subtract the mean of g, not that of dy.": _mean_of_dy,
    "the statistics are held constant; mean and variance are not constants, they depend on x.": (
        changed(bracket=lambda g, h, m: g)
    ),
    "the mean of g is missing: subtract mean(g), which comes through the mean.": changed(
        bracket=lambda g, h, m: g - h * m(g * h)
    ),
    "the path through the variance is missing: subtract xhat mean(g xhat).": changed(
        bracket=lambda g, h, m: g - m(g)
    ),
    "the sign of the path through the variance: xhat mean(g xhat) is subtracted, not added.": (
        changed(bracket=lambda g, h, m: g - m(g) + h * m(g * h))
    ),
    "the sign of the path through the mean: mean(g) is subtracted, not added.": changed(
        bracket=lambda g, h, m: g + m(g) - h * m(g * h)
    ),
    "the signs: what comes through the statistics is subtracted; yours are added.": changed(
        bracket=lambda g, h, m: g + m(g) + h * m(g * h)
    ),
    "xhat is missing in the last term: mean(g xhat) is alone in yours; multiply it by xhat.": (
        changed(bracket=lambda g, h, m: g - m(g) - m(g * h))
    ),
    "the last term needs xhat in both places, not x.": _x_for_xhat,
    "the last term needs xhat in both places; yours are not yet divided by s.": (
        _deviations_for_xhat
    ),
    "sums where means belong: divide both by the count.": _with_sums(True, True),
    "the first mean is a sum in yours: subtract the MEAN of g.": _with_sums(True, False),
    "the second mean is a sum in yours: xhat times the MEAN of g xhat.": _with_sums(False, True),
    "divide by the standard deviation s, not by the variance.": changed(power=2),
    "1/s is missing before the bracket: it is not divided by s.": changed(power=0),
    "multiply or divide? 1/s stands before the bracket.": changed(power=-1),
    "s is the root of the variance plus eps; yours is without the root.": changed(
        s=lambda v, n, eps: v + eps
    ),
    "the variance is the biased one: divide by the count, not by one less.": changed(
        s=lambda v, n, eps: (v * n / (n - 1) + eps).sqrt()
    ),
    "eps is missing in s, the root of the variance PLUS eps.": changed(
        s=lambda v, n, eps: v.sqrt()
    ),
    "eps belongs inside the root, added to the variance.": changed(
        s=lambda v, n, eps: v.sqrt() + eps
    ),
}
# over the batch a channel's gain is one number, which may leave the bracket
OF_ROWS: dict[str, Callable] = {
    "the gain changes along the row: g = w dy comes first, and w cannot leave the bracket.": (
        _gain_outside
    ),
}
