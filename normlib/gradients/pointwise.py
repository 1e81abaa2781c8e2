"""Backwards of softmax and of the element-wise functions."""

import torch
from torch import Tensor

from normlib.gradients.arithmetic import (
    accumulate,
    check_shapes,
    isru_length,
    isru_scale,
    isru_slope,
    like,
    sech_squared,
    softmax,
)


def softmax_backward(grad_output: Tensor, input: Tensor, dim: int = -1) -> tuple[Tensor]:
    """Gradient of softmax along dim: dx = p (dp - sum(p dp)).  [EQ-SOFTMAX-GRAD]

    Source: derived from EQ-SOFTMAX-JACOBIAN.
    """
    check_shapes(grad_output, input)
    p, dp = softmax(input, dim), accumulate(grad_output)
    return (like(p * (dp - (p * dp).sum(dim, keepdim=True)), input),)


def dyt_backward(
    grad_output: Tensor,
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, ...]:
    """Gradients of dyt = w scale tanh(alpha x / scale) + b in input, alpha, weight, bias.  [EQ-DYT-GRAD]

    dx = w dy alpha (1 - t^2),   dalpha = sum w dy x (1 - t^2),   t = tanh(alpha x / scale)
    dw = sum dy scale t,   db = sum dy

    Source: derived from Zhu et al. 2025, section 4.
    """
    x = accumulate(input)
    slope = sech_squared(alpha * x / scale)
    value = scale * torch.tanh(alpha * x / scale)
    return _pointwise_backward(grad_output, input, alpha, weight, bias, value, alpha * slope, x * slope)


def dyisru_backward(
    grad_output: Tensor,
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of dyisru = w scale x / sqrt(x^2 + c) + b in input, c, weight, bias.  [EQ-DYISRU-GRAD]

    dx = w dy scale c / (x^2 + c)^(3/2),   dc = -sum w dy scale x / (2 (x^2 + c)^(3/2))

    c must be positive; scale None means sqrt(D), D the size of weight, or of input's last dimension without.
    Source: derived from Stollenwerk 2025 (arXiv 2503.21708).
    """
    x, scale = accumulate(input), isru_scale(input, weight, scale)
    length = isru_length(x, c)
    value, by_c = scale * (x / length), -scale * (x / length) / length / length / 2
    return _pointwise_backward(grad_output, input, c, weight, bias, value, isru_slope(x, c, scale), by_c)


def _pointwise_backward(grad_output, input, parameter, weight, bias, value, by_input, by_parameter):
    """Gradients of w value(x, parameter) + b from the two derivatives of value."""
    check_shapes(grad_output, input)
    dy = accumulate(grad_output)
    g = dy if weight is None else dy * weight
    grads = [like(g * by_input, input), like(g * by_parameter, parameter)]
    if weight is not None:
        grads.append(like(dy * value, weight))
    if bias is not None:
        grads.append(like(dy, bias))
    return tuple(grads)


def softcap_backward(grad_output: Tensor, input: Tensor, cap: float) -> tuple[Tensor]:
    """Gradient of softcap = cap tanh(x / cap): dx = dy (1 - tanh(x / cap)^2).  [EQ-SOFTCAP-GRAD]

    Source: derived from Bello et al. 2016.
    """
    check_shapes(grad_output, input)
    return (like(accumulate(grad_output) * sech_squared(accumulate(input) / cap), input),)
