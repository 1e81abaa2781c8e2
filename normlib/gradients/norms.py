"""Backwards of the norms with statistics and of weight normalization."""

import math
from collections.abc import Sequence

from torch import Tensor

from normlib.gradients.arithmetic import accumulate, check_shapes, like, rms_eps, standardize


def batch_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of batch_norm in training; input (N, C, ...), weight and bias (C,).  [EQ-BN-GRAD]

    g = w dy,   dx = (g - mean(g) - xhat mean(g xhat)) / s,   means per channel
    dw = sum dy xhat,   db = sum dy

    Source: Ioffe & Szegedy 2015, section 3, collected into one line.
    """
    return _channel_norm_backward(grad_output, input, input.shape[1], weight, bias, (0, 3), eps)


def layer_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of layer_norm; weight and bias have the shape normalized_shape.  [EQ-LN-GRAD]

    g = w dy,   dx = (g - mean(g) - xhat mean(g xhat)) / s,   means per row;   dw, db sum over the rows

    Source: derived from Ba, Kiros & Hinton 2016, section 3, eq. (3).
    """
    dims = tuple(range(-len(normalized_shape), 0))
    return _norm_backward(grad_output, input, weight, bias, dims, eps)


def rms_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of rms_norm; weight has the shape normalized_shape.  [EQ-RMS-GRAD]

    g = w dy,   dx = (g - xhat mean(g xhat)) / r,   dw = sum over the rows of dy xhat

    Source: Zhang & Sennrich 2019, section 4.2; gain and eps are ours, as in torch.
    """
    dims = tuple(range(-len(normalized_shape), 0))
    return _norm_backward(grad_output, input, weight, None, dims, rms_eps(input, eps), centre=False)


def group_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of group_norm; input (N, C, ...), weight and bias (C,).  [EQ-GN-GRAD]

    As layer_norm_backward, with means per sample and group.
    Source: derived from Wu & He 2018, section 3.1.
    """
    return _channel_norm_backward(grad_output, input, num_groups, weight, bias, (2, 3), eps)


def instance_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of instance_norm with the input's statistics; input (N, C, ...).  [EQ-IN-GRAD]

    As batch_norm_backward, with means per sample and channel.
    Source: derived from Ulyanov, Vedaldi & Lempitsky 2016, section 2.
    """
    return _channel_norm_backward(grad_output, input, input.shape[1], weight, bias, (3,), eps)


def _channel_norm_backward(grad_output, input, groups, weight, bias, dims, eps):
    """View (N, C, ...) as (N, groups, C / groups, positions), so that dims tells BN, GN, IN apart."""
    check_shapes(grad_output, input)
    per_group, positions = input.shape[1] // groups, math.prod(input.shape[2:])
    dy, x = (t.reshape(input.shape[0], groups, per_group, positions) for t in (grad_output, input))
    weight, bias = (None if p is None else p.reshape(groups, per_group, 1) for p in (weight, bias))
    dx, *rest = _norm_backward(dy, x, weight, bias, dims, eps)
    return dx.reshape(input.shape), *(grad.reshape(-1) for grad in rest)


def _norm_backward(grad_output, input, weight, bias, dims, eps, centre=True):
    """The one formula: statistics over dims, weight and bias of any shape that broadcasts to input."""
    check_shapes(grad_output, input)
    dy = accumulate(grad_output)
    xhat, rstd = standardize(accumulate(input), dims, eps, centre)
    g = dy if weight is None else dy * weight
    projected = g - xhat * (g * xhat).mean(dims, keepdim=True)
    if centre:
        projected = projected - g.mean(dims, keepdim=True)
    grads = [like(rstd * projected, input)]
    if weight is not None:
        grads.append(like(dy * xhat, weight))
    if bias is not None:
        grads.append(like(dy, bias))
    return tuple(grads)


def weight_norm_backward(
    grad_output: Tensor, v: Tensor, g: Tensor, dim: int | None = 0
) -> tuple[Tensor, Tensor]:
    """Gradients of weight_norm in v and in g (broadcastable to v); u = v / |v|.  [EQ-WN-GRAD]

    dv = (g dW - u sum(g dW u)) / |v|,   dg = sum dW u,   sums over every dimension but dim

    dim None or -1: one norm for the whole tensor, torch's convention.
    Source: Salimans & Kingma 2016, section 2, eq. (3).
    """
    check_shapes(grad_output, v)
    whole = dim is None or dim == -1
    others = [d for d in range(v.dim()) if whole or d != dim % v.dim()]
    dw, direction = accumulate(grad_output), accumulate(v)
    length = direction.square().sum(others, keepdim=True).sqrt()
    u, h = direction / length, g * dw
    dv = (h - u * (h * u).sum(others, keepdim=True)) / length
    return like(dv, v), like(dw * u, g)
