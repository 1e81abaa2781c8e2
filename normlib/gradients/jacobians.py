"""Jacobians: entry [..., i, j] is the derivative of output i in input j."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normlib.gradients.arithmetic import (
    accumulate,
    identity,
    isru_scale,
    isru_slope,
    outer,
    rms_eps,
    sech_squared,
    softmax,
    standardize,
)


def batch_norm_jacobian(
    input: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(C, m, m) for input (N, C, ...), m = N times positions: how samples are coupled.  [EQ-BN-JACOBIAN]

    Zero between channels. bias has no part in it.
    Source: derived from Ioffe & Szegedy 2015, algorithm 1.
    """
    x = input.transpose(0, 1).reshape(input.shape[1], math.prod(input.shape[:1] + input.shape[2:]))  # (C, m)
    return _norm_jacobian(x, None if weight is None else weight.unsqueeze(1), eps)


def layer_norm_jacobian(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(..., D, D) of rows of D values: w (I - 1 1^T / D - xhat xhat^T / D) / s.  [EQ-LN-JACOBIAN]

    D is the product of normalized_shape; bias has no part in it.
    Source: derived from Ba, Kiros & Hinton 2016, section 3, eq. (3).
    """
    return _norm_jacobian(*_rows(input, normalized_shape, weight), eps)


def rms_norm_jacobian(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """(..., D, D) of rows of D values: w (I - xhat xhat^T / D) / r.  [EQ-RMS-JACOBIAN]

    D is the product of normalized_shape. Source: Zhang & Sennrich 2019, section 4.2; gain and eps are ours.
    """
    return _norm_jacobian(*_rows(input, normalized_shape, weight), rms_eps(input, eps), centre=False)


def unit_vector_jacobian(input: Tensor) -> Tensor:
    """(..., D, D) of u = x / |x| for rows x (..., D): (I - u u^T) / |x|.  [EQ-UNIT-JACOBIAN]

    NaN or infinite at x = 0, where there is no direction. Source: KEXUE blog 10831, section on gradients.
    """
    x = accumulate(input)
    length = x.square().sum(-1, keepdim=True).sqrt()
    return ((identity(x) - outer(x / length, x / length)) / length.unsqueeze(-1)).to(input.dtype)


def softmax_jacobian(input: Tensor) -> Tensor:
    """(..., D, D) of softmax over the last axis: diag(p) - p p^T.  [EQ-SOFTMAX-JACOBIAN]

    Source: Bridle 1990.
    """
    p = softmax(input, -1)
    return (torch.diag_embed(p) - outer(p, p)).to(input.dtype)


def dyt_jacobian(
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """(..., D, D), diagonal: w alpha (1 - tanh(alpha x / scale)^2).  [EQ-DYT-JACOBIAN]

    bias has no part in it. Source: derived from Zhu et al. 2025, section 4.
    """
    slope = alpha * sech_squared(alpha * accumulate(input) / scale)
    return torch.diag_embed(slope if weight is None else slope * weight).to(input.dtype)


def dyisru_jacobian(
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """(..., D, D), diagonal: w scale c / (x^2 + c)^(3/2); scale None means sqrt(D).  [EQ-DYISRU-JACOBIAN]

    bias has no part in it. Source: derived from Stollenwerk 2025 (arXiv 2503.21708).
    """
    slope = isru_slope(accumulate(input), c, isru_scale(input, weight, scale))
    return torch.diag_embed(slope if weight is None else slope * weight).to(input.dtype)


def _rows(input, normalized_shape, weight):
    leading = input.shape[: input.dim() - len(normalized_shape)]
    x = input.reshape(*leading, math.prod(normalized_shape))
    return x, None if weight is None else weight.reshape(-1)


def _norm_jacobian(x, weight, eps, centre=True):
    """(..., D, D) of rows x (..., D); weight broadcasts to x."""
    xhat, rstd = standardize(accumulate(x), (-1,), eps, centre)
    gain = rstd if weight is None else rstd * weight  # (..., 1) or (..., D): one factor per output i
    lost = outer(xhat, xhat) + (1 if centre else 0)
    return (gain.unsqueeze(-1) * (identity(xhat) - lost / x.shape[-1])).to(x.dtype)
