"""Jacobians: entry [..., i, j] is the derivative of output i in input j."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normlib.functional.validation import (
    check_all_positive,
    check_batch,
    check_broadcast,
    check_channel_tensors,
    check_eps,
    check_positive,
    check_row_tensors,
    check_rows,
)
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
    """(C, m, m) for input (N, C, ...), m = N times positions: how samples are coupled.

    [EQ-BN-JACOBIAN]

    Zero between channels. bias has no part in it.

    >>> x = torch.tensor([[1.0], [3.0], [5.0]])
    >>> gradients.batch_norm_jacobian(x)
    tensor([[[ 0.1021, -0.2041,  0.1021],
             [-0.2041,  0.4082, -0.2041],
             [ 0.1021, -0.2041,  0.1021]]])

    Raises: as functional.batch_norm in training.
    Source: derived from Ioffe & Szegedy 2015, algorithm 1.
    """
    check_eps("batch_norm_jacobian", eps, positive=True)
    check_channel_tensors("batch_norm_jacobian", input, None, None, weight, bias)
    check_batch("batch_norm_jacobian", input)
    samples, channels, *positions = input.shape
    x = input.transpose(0, 1).reshape(channels, samples * math.prod(positions))  # (C, m)
    gain = None if weight is None else weight.unsqueeze(1)  # (C, 1)
    return _norm_jacobian(x, gain, eps)


def layer_norm_jacobian(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(..., D, D) of rows of D values: w (I - 1 1^T / D - xhat xhat^T / D) / s.

    [EQ-LN-JACOBIAN]

    D is the product of normalized_shape; bias has no part in it.

    >>> gradients.layer_norm_jacobian(torch.tensor([1.0, 3.0, 5.0]), (3,))
    tensor([[ 0.1021, -0.2041,  0.1021],
            [-0.2041,  0.4082, -0.2041],
            [ 0.1021, -0.2041,  0.1021]])

    Raises: as functional.layer_norm.
    Source: derived from Ba, Kiros & Hinton 2016, section 3, eq. (3).
    """
    check_row_tensors("layer_norm_jacobian", input, normalized_shape, weight, bias)
    check_eps("layer_norm_jacobian", eps)
    x = _rows(input, normalized_shape)
    gain = None if weight is None else weight.reshape(-1)  # (D,)
    return _norm_jacobian(x, gain, eps)


def rms_norm_jacobian(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """(..., D, D) of rows of D values: w (I - xhat xhat^T / D) / r.

    [EQ-RMS-JACOBIAN]

    D is the product of normalized_shape.

    >>> gradients.rms_norm_jacobian(torch.tensor([3.0, 4.0]), (2,))
    tensor([[ 0.1810, -0.1358],
            [-0.1358,  0.1018]])

    Raises: as functional.rms_norm.
    Source: Zhang & Sennrich 2019, section 4.2; gain and eps are ours.
    """
    check_row_tensors("rms_norm_jacobian", input, normalized_shape, weight, any_dtype=True)
    eps = rms_eps(input, eps)
    check_eps("rms_norm_jacobian", eps)
    x = _rows(input, normalized_shape)
    gain = None if weight is None else weight.reshape(-1)  # (D,)
    return _norm_jacobian(x, gain, eps, centre=False)


def softmax_jacobian(input: Tensor) -> Tensor:
    """(..., D, D) of softmax over the last axis: diag(p) - p p^T.

    [EQ-SOFTMAX-JACOBIAN]

    >>> gradients.softmax_jacobian(torch.zeros(2))
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])

    Raises: RuntimeError (no rows), NotImplementedError (no floats).
    Source: Bridle 1990.
    """
    check_rows("softmax_jacobian", input)
    p = softmax(input, -1)
    jacobian = torch.diag_embed(p) - outer(p, p)  # (..., D, D)
    return jacobian.to(input.dtype)


def dyt_jacobian(
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """(..., D, D), diagonal: w alpha (1 - tanh(alpha x / scale)^2).

    [EQ-DYT-JACOBIAN]

    bias has no part in it.

    >>> gradients.dyt_jacobian(torch.tensor([0.0, 1.0]), torch.tensor(0.5))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.3932]])

    Raises: as functional.dyt; RuntimeError (no rows).
    Source: derived from Zhu et al. 2025, section 4.
    """
    check_rows("dyt_jacobian", input)
    check_positive("dyt_jacobian", scale=scale)
    check_broadcast("dyt_jacobian", input, alpha=alpha, weight=weight, bias=bias)
    slope = alpha * sech_squared(alpha * accumulate(input) / scale)
    return _diagonal(slope, weight, input)


def dyisru_jacobian(
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """(..., D, D), diagonal: w scale c / (x^2 + c)^(3/2); scale None means sqrt(D).

    [EQ-DYISRU-JACOBIAN]

    bias has no part in it.

    >>> gradients.dyisru_jacobian(torch.tensor([0.0, 1.0]), torch.tensor(4.0), scale=1.0)
    tensor([[0.5000, 0.0000],
            [0.0000, 0.3578]])

    Raises: as functional.dyisru; RuntimeError (no rows).
    Source: derived from Stollenwerk 2025 (arXiv 2503.21708).
    """
    check_rows("dyisru_jacobian", input)
    check_broadcast("dyisru_jacobian", input, c=c, weight=weight, bias=bias)
    check_all_positive("dyisru_jacobian", c=c)
    level = isru_scale(input, weight, scale)
    check_positive("dyisru_jacobian", scale=level)
    slope = isru_slope(accumulate(input), c, level)
    return _diagonal(slope, weight, input)


def _diagonal(slope: Tensor, weight: Tensor | None, input: Tensor) -> Tensor:
    """(..., D, D) with w slope on the diagonal, in the input's dtype."""
    gained = slope if weight is None else slope * weight
    return torch.diag_embed(gained).to(input.dtype)


def _rows(input: Tensor, normalized_shape: Sequence[int]) -> Tensor:
    """(..., *normalized_shape) -> (..., D)."""
    leading = input.shape[: input.dim() - len(normalized_shape)]
    return input.reshape(*leading, math.prod(normalized_shape))


def _norm_jacobian(x: Tensor, weight: Tensor | None, eps: float, centre: bool = True) -> Tensor:
    """(..., D, D) of rows x (..., D); weight broadcasts to x."""
    xhat, rstd = standardize(accumulate(x), (-1,), eps, centre)
    # (..., 1) or (..., D): one factor per output i
    gain = rstd if weight is None else rstd * weight
    lost = outer(xhat, xhat)  # (..., D, D)
    if centre:
        lost = lost + 1
    jacobian = gain.unsqueeze(-1) * (identity(xhat) - lost / x.shape[-1])
    return jacobian.to(x.dtype)
