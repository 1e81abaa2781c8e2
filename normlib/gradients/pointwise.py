"""Backwards of softmax and of the element-wise functions."""

import torch
from torch import Tensor

from normlib.functional.validation import (
    check_all_positive,
    check_broadcast,
    check_dim,
    check_floating,
    check_positive,
)
from normlib.gradients.arithmetic import (
    accumulate,
    check_gradient,
    erf_slope,
    isru_length,
    isru_scale,
    isru_slope,
    like,
    sech_squared,
    softmax,
)


def softmax_backward(grad_output: Tensor, input: Tensor, dim: int = -1) -> tuple[Tensor]:
    """Gradient of softmax along dim.

    [EQ-SOFTMAX-GRAD]

        dx = p (dp - sum(p dp))

    >>> x = torch.zeros(4)
    >>> dp = torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> gradients.softmax_backward(dp, x)
    (tensor([ 0.1875, -0.0625, -0.0625, -0.0625]),)

    Raises: RuntimeError (grad_output's shape), IndexError (dim), NotImplementedError (no floats).
    Source: derived from EQ-SOFTMAX-JACOBIAN.
    """
    check_dim("softmax_backward", input, dim)
    check_gradient("softmax_backward", grad_output, input)
    p = softmax(input, dim)
    dp = accumulate(grad_output)
    dx = p * (dp - (p * dp).sum(dim, keepdim=True))
    return (like(dx, input),)


def dyt_backward(
    grad_output: Tensor,
    input: Tensor,
    alpha: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, ...]:
    """Gradients of dyt = w scale tanh(alpha x / scale) + b in input, alpha, weight, bias.

    [EQ-DYT-GRAD]

        dx = w dy alpha (1 - t^2),   dalpha = sum w dy x (1 - t^2),   t = tanh(alpha x / scale)
        dw = sum dy scale t,   db = sum dy

    >>> x = torch.tensor([0.0, 1.0, 8.0])
    >>> dx, dalpha = gradients.dyt_backward(torch.ones(3), x, torch.tensor(0.5))
    >>> dx, dalpha
    (tensor([0.5000, 0.3932, 0.0007]), tensor(0.7972))

    Raises: as functional.dyt; RuntimeError (grad_output's shape).
    Source: derived from Zhu et al. 2025, section 4.
    """
    check_floating("dyt_backward", input)
    check_positive("dyt_backward", scale=scale)
    check_broadcast("dyt_backward", input, alpha=alpha, weight=weight, bias=bias)
    check_gradient("dyt_backward", grad_output, input)
    x = accumulate(input)
    u = alpha * x / scale
    slope = sech_squared(u)
    value = scale * torch.tanh(u)
    learned = [(alpha, x * slope)]
    return _pointwise_backward(grad_output, input, alpha * slope, learned, value, weight, bias)


def dyisru_backward(
    grad_output: Tensor,
    input: Tensor,
    c: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of dyisru = w scale x / sqrt(x^2 + c) + b in input, c, weight, bias.

    [EQ-DYISRU-GRAD]

        dx = w dy scale c / (x^2 + c)^(3/2),   dc = -sum w dy scale x / (2 (x^2 + c)^(3/2))

    >>> x = torch.tensor([0.0, 1.0, 8.0])
    >>> dx, dc = gradients.dyisru_backward(torch.ones(3), x, torch.tensor(4.0), scale=1.0)
    >>> dx, dc
    (tensor([0.5000, 0.3578, 0.0071]), tensor(-0.0519))

    c must be positive, as in the forward. scale None means sqrt(D), D the size of
    weight, or without one of input's last dimension.
    Raises: as functional.dyisru; RuntimeError (grad_output's shape).
    Source: derived from Stollenwerk 2025 (arXiv 2503.21708).
    """
    check_floating("dyisru_backward", input)
    check_broadcast("dyisru_backward", input, c=c, weight=weight, bias=bias)
    check_all_positive("dyisru_backward", c=c)
    level = isru_scale(input, weight, scale)
    check_positive("dyisru_backward", scale=level)
    check_gradient("dyisru_backward", grad_output, input)
    x = accumulate(input)
    length = isru_length(x, c)
    value = level * (x / length)
    by_input = isru_slope(x, c, level)
    by_c = -value / length / length / 2
    return _pointwise_backward(grad_output, input, by_input, [(c, by_c)], value, weight, bias)


def derf_backward(
    grad_output: Tensor,
    input: Tensor,
    alpha: Tensor,
    shift: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of derf = w erf(alpha x + s) + b in input, alpha, shift, weight, bias.

    [EQ-DERF-GRAD]

        h = 2 / sqrt(pi) exp(-(alpha x + s)^2)
        dx = w dy alpha h,   dalpha = sum w dy x h,   ds = sum w dy h
        dw = sum dy erf(alpha x + s),   db = sum dy

    >>> x = torch.tensor([0.0, 1.0, 2.0])
    >>> dx, dalpha, dshift = gradients.derf_backward(
    ...     torch.ones(3), x, alpha=torch.tensor(0.5), shift=torch.tensor(0.0)
    ... )
    >>> dx, dalpha, dshift
    (tensor([0.5642, 0.4394, 0.2076]), tensor(1.7090), tensor(2.4223))

    Raises: as functional.derf; RuntimeError (grad_output's shape).
    Source: derived from Chen et al. 2025 (arXiv 2512.10938).
    """
    check_floating("derf_backward", input)
    check_broadcast("derf_backward", input, alpha=alpha, shift=shift, weight=weight, bias=bias)
    check_gradient("derf_backward", grad_output, input)
    x = accumulate(input)
    u = alpha * x + shift
    slope = erf_slope(u)
    learned = [(alpha, x * slope), (shift, slope)]
    return _pointwise_backward(
        grad_output, input, alpha * slope, learned, torch.erf(u), weight, bias
    )


def _pointwise_backward(
    grad_output: Tensor,
    input: Tensor,
    by_input: Tensor,
    learned: list[tuple[Tensor, Tensor]],
    value: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, ...]:
    """Gradients of w value + b from value's derivatives.

    learned: each parameter of value with its own.
    """
    dy = accumulate(grad_output)
    g = dy if weight is None else dy * weight
    grads = [like(g * by_input, input)]
    grads += [like(g * by_parameter, parameter) for parameter, by_parameter in learned]
    if weight is not None:
        grads.append(like(dy * value, weight))
    if bias is not None:
        grads.append(like(dy, bias))
    return tuple(grads)


def softcap_backward(grad_output: Tensor, input: Tensor, cap: float) -> tuple[Tensor]:
    """Gradient of softcap in input.

    [EQ-SOFTCAP-GRAD]

        softcap = cap tanh(x / cap),   dx = dy (1 - tanh(x / cap)^2)

    >>> x = torch.tensor([0.0, 1.0, 8.0])
    >>> gradients.softcap_backward(torch.ones(3), x, cap=2.0)
    (tensor([1.0000, 0.7864, 0.0013]),)

    Raises: as functional.softcap; RuntimeError (grad_output's shape).
    Source: derived from Bello et al. 2016.
    """
    check_floating("softcap_backward", input)
    check_positive("softcap_backward", cap=cap)
    check_gradient("softcap_backward", grad_output, input)
    slope = sech_squared(accumulate(input) / cap)
    dx = accumulate(grad_output) * slope
    return (like(dx, input),)
