"""Backwards of the norms with statistics and of weight normalization."""

import math
from collections.abc import Sequence

from torch import Tensor

from normlib.functional.validation import (
    check_batch,
    check_channel_tensors,
    check_eps,
    check_group_size,
    check_groups,
    check_positions,
    check_row_tensors,
    normalized_dims,
)
from normlib.gradients.arithmetic import accumulate, check_gradient, like, rms_eps, standardize


def batch_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of batch_norm in training; input (N, C, ...), weight and bias (C,).

    [EQ-BN-GRAD]

        g = w dy,   dx = (g - mean(g) - xhat mean(g xhat)) / s,   means per channel
        dw = sum dy xhat,   db = sum dy

    >>> x = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    >>> dy = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    >>> dx, dw = gradients.batch_norm_backward(dy, x, torch.ones(1))
    >>> dx.flatten(), dw
    (tensor([ 0.1342, -0.1789, -0.0447,  0.0894]), tensor([-1.3416]))

    Raises: as functional.batch_norm in training; RuntimeError (grad_output's shape).
    Source: Ioffe & Szegedy 2015, section 3, collected into one line.
    """
    caller = "batch_norm_backward"
    check_eps(caller, eps, positive=True)
    check_channel_tensors(caller, input, None, None, weight, bias)
    check_batch(caller, input)
    check_gradient(caller, grad_output, input)
    groups = input.shape[1]
    return _channel_norm_backward(grad_output, input, groups, weight, bias, (0, 3), eps)


def layer_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of layer_norm; weight and bias have the shape normalized_shape.

    [EQ-LN-GRAD]

        g = w dy,   dx = (g - mean(g) - xhat mean(g xhat)) / s,   means per row
        dw, db sum over the rows

    >>> x = torch.tensor([1.0, 3.0, 5.0, 7.0])
    >>> dy = torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> gradients.layer_norm_backward(dy, x, (4,))
    (tensor([ 0.1342, -0.1789, -0.0447,  0.0894]),)

    Raises: as functional.layer_norm; RuntimeError (grad_output's shape).
    Source: derived from Ba, Kiros & Hinton 2016, section 3, eq. (3).
    """
    caller = "layer_norm_backward"
    dims = check_row_tensors(caller, input, normalized_shape, weight, bias)
    check_eps(caller, eps)
    check_gradient(caller, grad_output, input)
    return _norm_backward(grad_output, input, weight, bias, dims, eps)


def rms_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of rms_norm; weight has the shape normalized_shape.

    [EQ-RMS-GRAD]

        g = w dy,   dx = (g - xhat mean(g xhat)) / r,   dw = sum over the rows of dy xhat

    >>> x = torch.tensor([1.0, 3.0, 5.0, 7.0])
    >>> dy = torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> gradients.rms_norm_backward(dy, x, (4,))
    (tensor([ 0.2156, -0.0078, -0.0130, -0.0182]),)

    Raises: as functional.rms_norm; RuntimeError (grad_output's shape).
    Source: Zhang & Sennrich 2019, section 4.2; gain and eps are ours, as in torch.
    """
    caller = "rms_norm_backward"
    dims = check_row_tensors(caller, input, normalized_shape, weight, any_dtype=True)
    eps = rms_eps(input, eps)
    check_eps(caller, eps)
    check_gradient(caller, grad_output, input)
    return _norm_backward(grad_output, input, weight, None, dims, eps, centre=False)


def group_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of group_norm; input (N, C, ...), weight and bias (C,).

    [EQ-GN-GRAD]

    As layer_norm_backward, with means per sample and group.

    >>> x = torch.tensor([[1.0, 3.0, 5.0, 7.0]])
    >>> dy = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    >>> gradients.group_norm_backward(dy, x, 1)
    (tensor([[ 0.1342, -0.1789, -0.0447,  0.0894]]),)

    Raises: as functional.group_norm; RuntimeError (grad_output's shape).
    Source: derived from Wu & He 2018, section 3.1.
    """
    caller = "group_norm_backward"
    check_eps(caller, eps)
    check_channel_tensors(caller, input, None, None, weight, bias)
    check_groups(caller, num_groups, input.shape[1], RuntimeError)
    check_group_size(caller, input, num_groups)
    check_gradient(caller, grad_output, input)
    return _channel_norm_backward(grad_output, input, num_groups, weight, bias, (2, 3), eps)


def instance_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, ...]:
    """Gradients of instance_norm with the input's statistics; input (N, C, ...).

    [EQ-IN-GRAD]

    As batch_norm_backward, with means per sample and channel.

    >>> x = torch.tensor([[[1.0, 3.0, 5.0, 7.0]]])  # one sample, one channel, four positions
    >>> dy = torch.tensor([[[1.0, 0.0, 0.0, 0.0]]])
    >>> gradients.instance_norm_backward(dy, x)
    (tensor([[[ 0.1342, -0.1789, -0.0447,  0.0894]]]),)

    Raises: as functional.instance_norm; RuntimeError (grad_output's shape).
    Source: derived from Ulyanov, Vedaldi & Lempitsky 2016, section 2.
    """
    caller = "instance_norm_backward"
    check_eps(caller, eps)
    check_channel_tensors(caller, input, None, None, weight, bias)
    check_positions(caller, input)
    check_gradient(caller, grad_output, input)
    groups = input.shape[1]
    return _channel_norm_backward(grad_output, input, groups, weight, bias, (3,), eps)


def _channel_norm_backward(
    grad_output: Tensor,
    input: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    dims: tuple[int, ...],
    eps: float,
) -> tuple[Tensor, ...]:
    """The backward on a view (N, groups, C / groups, positions): dims tells BN, GN and IN apart."""
    samples = input.shape[0]
    per_group = input.shape[1] // groups
    positions = math.prod(input.shape[2:])
    dy = grad_output.reshape(samples, groups, per_group, positions)
    x = input.reshape(samples, groups, per_group, positions)
    gain = None if weight is None else weight.reshape(groups, per_group, 1)
    shift = None if bias is None else bias.reshape(groups, per_group, 1)
    dx, *rest = _norm_backward(dy, x, gain, shift, dims, eps)
    return dx.reshape(input.shape), *(grad.reshape(-1) for grad in rest)


def _norm_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    dims: Sequence[int],
    eps: float,
    centre: bool = True,
) -> tuple[Tensor, ...]:
    """The one formula, with statistics over dims; weight and bias broadcast to input."""
    over = tuple(dims)
    dy = accumulate(grad_output)
    xhat, rstd = standardize(accumulate(input), over, eps, centre)
    g = dy if weight is None else dy * weight
    projected = g - xhat * (g * xhat).mean(over, keepdim=True)
    if centre:
        projected = projected - g.mean(over, keepdim=True)
    grads = [like(rstd * projected, input)]
    if weight is not None:
        grads.append(like(dy * xhat, weight))
    if bias is not None:
        grads.append(like(dy, bias))
    return tuple(grads)


def weight_norm_backward(
    grad_output: Tensor, v: Tensor, g: Tensor, dim: int | None = 0
) -> tuple[Tensor, Tensor]:
    """Gradients of weight_norm in v and in g; u = v / |v|.

    [EQ-WN-GRAD]

        dv = (g dW - u sum(g dW u)) / |v|,   dg = sum dW u,   sums over every dimension but dim

    >>> v = torch.tensor([[3.0, 4.0]])
    >>> dw = torch.tensor([[1.0, 0.0]])
    >>> gradients.weight_norm_backward(dw, v, torch.tensor([[10.0]]))
    (tensor([[ 1.2800, -0.9600]]), tensor([[0.6000]]))

    dim None or -1: one norm for the whole tensor, torch's convention.
    Raises: as functional.weight_norm; RuntimeError (grad_output's shape).
    Source: Salimans & Kingma 2016, section 2, eq. (3).
    """
    caller = "weight_norm_backward"
    others = normalized_dims(caller, v, g, dim)
    check_gradient(caller, grad_output, v)
    dw = accumulate(grad_output)
    direction = accumulate(v)
    length = direction.square().sum(others, keepdim=True).sqrt()
    u = direction / length
    h = g * dw
    dv = (h - u * (h * u).sum(others, keepdim=True)) / length
    return like(dv, v), like(dw * u, g)
