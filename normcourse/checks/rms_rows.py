"""RMSNorm of rows in float64, which lessons 03 and 03a ask for, and the slips with it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from normcourse import draw
from normcourse.checks.probes import call, calls, same_gradients
from normcourse.checks.verdict import Slip
from normlib import functional


def in_float64(student) -> None:
    """The values of rows in two, one and three dimensions, and all gradients."""
    # the first is square, so that a lost keepdim still broadcasts
    cases = [_rms_case(4, 4, eps=0.5), _rms_case(6, eps=0.3), _rms_case(2, 3, 5, eps=0.1)]
    got = call(student, **cases[0])
    want = rms_norm(**cases[0])
    same_kind = isinstance(got, Tensor) and (got.dtype, got.shape) == (want.dtype, want.shape)
    if same_kind and 1e-10 < (got - want).abs().max() < 1e-5:
        raise Slip(
            "float64 is computed in float32: use x.to(torch.promote_types(x.dtype, torch.float32))."
        )
    smallest = {  # rows as small as eps tell it from a missing eps
        "eps is added under the root; you use it as the smallest divisor that is allowed.": (
            _divided_by(lambda x, eps: _root(x, 0.0).clamp(min=eps))
        )
    }
    calls(student, rms_norm, *cases, slips=RMS_SLIPS | smallest)
    slips = {
        "the mean square is detached: it depends on x, so the gradient passes through it.": (
            lambda x, w, eps: x / _root(x, eps).detach() * w
        )
    }
    same_gradients(student, rms_norm, cases[-1], slips)


def _rms_case(*shape: int, eps: float) -> dict:
    return {"x": 1 + draw(*shape), "weight": draw(shape[-1], seed=1), "eps": eps}


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, eps)


def _root(x: Tensor, eps: float) -> Tensor:
    return (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _divided_by(divisor: Callable) -> Callable:
    """RMSNorm with divisor(x, eps) in place of the root mean square."""
    return lambda x, w, eps: x / divisor(x, eps) * w


def _without_keepdim(x: Tensor, w: Tensor, eps: float) -> Tensor:
    """NaN where this does not broadcast."""
    try:
        return x / _root(x, eps).squeeze(-1) * w
    except RuntimeError:
        return torch.full_like(x, math.nan)


def _standardized(x: Tensor, w: Tensor, eps: float) -> Tensor:
    return functional.layer_norm(x, w.shape, w, None, eps)


RMS_SLIPS = {
    "eps belongs under the root, added to the mean square.": _divided_by(
        lambda x, eps: _root(x, 0.0) + eps
    ),
    "eps is missing: add it to the mean square.": _divided_by(lambda x, eps: _root(x, 0.0)),
    "eps is added to the mean square; you use it as the smallest one that is allowed.": _divided_by(
        lambda x, eps: x.square().mean(-1, keepdim=True).clamp(min=eps).sqrt()
    ),
    "eps is added as it is, not squared.": _divided_by(lambda x, eps: _root(x, eps**2)),
    "eps is an argument: use it, not 1e-5.": _divided_by(lambda x, eps: _root(x, 1e-5)),
    "eps is added to the mean; you added it to the sum, before you divided by D.": _divided_by(
        lambda x, eps: ((x.square().sum(-1, keepdim=True) + eps) / x.shape[-1]).sqrt()
    ),
    "divide by the root MEAN square, not by the length: you summed.": _divided_by(
        lambda x, eps: (x.square().sum(-1, keepdim=True) + eps).sqrt()
    ),
    "divide by the root MEAN square, not by the length; and eps is missing.": _divided_by(
        lambda x, eps: x.norm(dim=-1, keepdim=True)
    ),
    "divide by the root MEAN square, not by the length; and eps belongs under the root.": (
        _divided_by(lambda x, eps: x.norm(dim=-1, keepdim=True) + eps)
    ),
    "the mean divides by D, not by D - 1.": _divided_by(
        lambda x, eps: (x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps).sqrt()
    ),
    "take the root of the mean square before you divide.": _divided_by(
        lambda x, eps: _root(x, eps).square()
    ),
    "you multiply by the root mean square; divide by it. "
    "(torch.rsqrt is one over the root already: multiply by it.)": _divided_by(
        lambda x, eps: 1 / _root(x, eps)
    ),
    "you divide by the standard deviation: use the mean of x squared.": _divided_by(
        lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    ),
    "you divide by torch's unbiased deviation: use the mean of x squared.": _divided_by(
        lambda x, eps: (x.var(-1, keepdim=True) + eps).sqrt()
    ),
    "you divide by torch's deviation plus eps: use the root of (mean of x squared, plus eps).": (
        _divided_by(lambda x, eps: x.std(-1, keepdim=True) + eps)
    ),
    "the mean square is over axis 0: each ROW has its own, over the last axis.": _divided_by(
        lambda x, eps: (x.square().mean(0) + eps).sqrt()
    ),
    "square first, then average: you squared the mean.": _divided_by(
        lambda x, eps: (x.mean(-1, keepdim=True).square() + eps).sqrt()
    ),
    "one mean square for the whole batch: each row has its own.": _divided_by(
        lambda x, eps: (x.square().mean() + eps).sqrt()
    ),
    "keepdim=True is missing: (4,) broadcasts along the wrong axis.": _without_keepdim,
    "the mean of the absolute values is not the root mean square.": _divided_by(
        lambda x, eps: x.abs().mean(-1, keepdim=True) + eps
    ),
    "you subtract the mean: that is LayerNorm.": _standardized,
    "the divisor is right, but RMSNorm does not centre x.": (
        lambda x, w, eps: (x - x.mean(-1, keepdim=True)) / _root(x, eps) * w
    ),
    "the gain is missing: multiply by weight.": lambda x, w, eps: x / _root(x, eps),
    "the gain is weight here, not 1 + weight (Gemma's form).": (
        lambda x, w, eps: x / _root(x, eps) * (1 + w)
    ),
    "weight is a gain, not a bias: multiply.": lambda x, w, eps: x / _root(x, eps) + w,
    "the gain comes last: normalize x, then multiply by weight.": (
        lambda x, w, eps: x * w / _root(x * w, eps)
    ),
}
