"""Batch, layer, RMS, group and instance normalization."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normlib.functional.arithmetic import (
    accumulate,
    affine,
    normalize_with,
    per_channel,
    standardize,
    update_running,
)
from normlib.functional.validation import (
    channel_count,
    check_eps,
    check_groups,
    check_momentum,
    check_parameter,
    check_running,
    check_shape,
    named,
    trailing_dims,
)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize every channel over the batch and the positions.  [EQ-BN] [EQ-BN-RUNNING] [EQ-BN-EVAL]

        training:  y = w (x - mean) / sqrt(var + eps) + b,   var biased: divided by m = N times positions
                   running <- (1 - momentum) running + momentum batch,   with the UNBIASED m / (m - 1) var
        otherwise: the same y with running_mean and running_var in place of the batch's

    Args:
        input: (N, C, ...).
        running_mean, running_var: (C,), both or neither; updated in place in training, after everything else.
        weight, bias: (C,) or None for ones and zeros.
        momentum: share of the new batch in the running statistics, 0 to 1.
        eps: added to the variance; positive in training, as in torch.
    Returns: input's shape and dtype.
    Raises: ValueError (one value per channel in training, eps, momentum, one running statistic without
        the other), MismatchError (shapes, dtypes; it is a RuntimeError, ValueError and IndexError, since
        torch raises now one, now another), RuntimeError (no statistics), NotImplementedError (no floats).
        A call that raises has changed nothing.
    Source: Ioffe & Szegedy 2015, Algorithm 1; Algorithm 2, step 10 for the unbiased variance.
    """
    check_eps("batch_norm", eps, positive=training)
    check_momentum("batch_norm", momentum)
    channels = channel_count("batch_norm", input)
    for name, value in named(running_mean=running_mean, running_var=running_var, weight=weight, bias=bias):
        check_parameter("batch_norm", name, value, (channels,), input)
    check_running("batch_norm", running_mean, running_var, needed=not training)
    if not training:
        return normalize_with(input, running_mean, running_var, weight, bias, eps)

    values_per_channel = input.shape[0] * math.prod(input.shape[2:])
    if values_per_channel == 1:
        raise ValueError(
            f"batch_norm needs more than 1 value per channel when training, got size {tuple(input.shape)}: "
            "the variance of one value is 0. Use a larger batch (drop_last=True in the loader) or eval mode."
        )
    dims = [0, *range(2, input.dim())]
    xhat, mean, var = standardize(accumulate(input), dims, eps)
    output = affine(xhat, per_channel(weight, input), per_channel(bias, input)).to(input.dtype)
    if running_mean is not None and values_per_channel > 0:
        update_running(running_mean, mean.flatten(), momentum)
        unbiased = var * (values_per_channel / (values_per_channel - 1))
        update_running(running_var, unbiased.flatten(), momentum)
    return output


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize every sample over its trailing dimensions.  [EQ-LN]

        y = w (x - mean) / sqrt(var + eps) + b,   mean and biased var over the dimensions of normalized_shape

    Args:
        input: (..., *normalized_shape).
        weight, bias: normalized_shape, or None for ones and zeros.
        eps: added to the variance, so its unit is that of input squared.
    Returns: input's shape and dtype.
    Raises: MismatchError (shapes, dtypes), ValueError (eps).
    Source: Ba, Kiros & Hinton 2016, section 3, equations (3) and (4).
    """
    dims = trailing_dims("layer_norm", input, normalized_shape)
    check_eps("layer_norm", eps)
    for name, value in named(weight=weight, bias=bias):
        check_parameter("layer_norm", name, value, tuple(normalized_shape), input)
    xhat, _, _ = standardize(accumulate(input), dims, eps)
    return affine(xhat, weight, bias).to(input.dtype)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide every sample by the root mean square of its trailing dimensions.  [EQ-RMS]

        y = w x / sqrt(mean(x^2) + eps)

    Args:
        input: (..., *normalized_shape).
        weight: normalized_shape, or None for ones. Any floating dtype, as in torch.
        eps: added to the mean square. None means the machine epsilon of the dtype computed in: 1.19e-7 for
            float32 and the half types, 2.22e-16 for float64.
    Returns: input's shape and dtype.
    Raises: MismatchError (shapes), ValueError (eps).
    Source: Zhang & Sennrich 2019, equation (4); eps inside the root as in torch.
    """
    dims = trailing_dims("rms_norm", input, normalized_shape)
    if weight is not None:
        check_shape("rms_norm", "weight", weight, tuple(normalized_shape))
    x = accumulate(input)
    if eps is None:
        eps = torch.finfo(x.dtype).eps
    check_eps("rms_norm", eps)
    rstd = torch.rsqrt(x.square().mean(dims, keepdim=True) + eps)  # (..., 1)
    return affine(x * rstd, weight, None).to(input.dtype)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize every sample over groups of channels and their positions.  [EQ-GN]

    Args:
        input: (N, C, ...), C divisible by num_groups; group k holds channels k C/G to (k+1) C/G - 1.
        weight, bias: (C,), or None for ones and zeros: per channel, not per group.
    Returns: input's shape and dtype.
    Raises: MismatchError (shapes, dtypes), RuntimeError (num_groups), ZeroDivisionError (num_groups 0, as
        torch), ValueError (eps; one value per group in a batch of one sample, as torch).
    Source: Wu & He 2018, section 3.1, equations (1) to (3) and (7).
    """
    channels = channel_count("group_norm", input)
    check_groups("group_norm", num_groups, channels, RuntimeError)
    check_eps("group_norm", eps)
    for name, value in named(weight=weight, bias=bias):
        check_parameter("group_norm", name, value, (channels,), input)
    if input.numel() == num_groups:
        raise ValueError(
            f"group_norm needs more than 1 value per group, got size {tuple(input.shape)} in {num_groups} "
            "groups: every output would be the bias. Use fewer groups."
        )
    group_size = channels // num_groups * math.prod(input.shape[2:])
    groups = accumulate(input).reshape(input.shape[0], num_groups, group_size)
    xhat, _, _ = standardize(groups, [-1], eps)
    xhat = xhat.reshape(input.shape)
    return affine(xhat, per_channel(weight, input), per_channel(bias, input)).to(input.dtype)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize every channel of every sample over its positions.  [EQ-IN]

    Args:
        input: (N, C, positions...).
        running_mean, running_var: (C,), both or neither; updated in place with the mean over the batch of
            each sample's mean and unbiased variance. An empty batch leaves them alone (torch writes NaN).
        weight, bias: (C,) or None for ones and zeros.
        use_input_stats: False normalizes with the running statistics instead.
        momentum, eps: as in batch_norm.
    Returns: input's shape and dtype.
    Raises: as batch_norm; ValueError for a single position.
    Source: Ulyanov, Vedaldi & Lempitsky 2016, equation (2).
    """
    check_eps("instance_norm", eps)
    check_momentum("instance_norm", momentum)
    channels, positions = channel_count("instance_norm", input), math.prod(input.shape[2:])
    for name, value in named(running_mean=running_mean, running_var=running_var, weight=weight, bias=bias):
        check_parameter("instance_norm", name, value, (channels,), input)
    check_running("instance_norm", running_mean, running_var, needed=not use_input_stats)
    if not use_input_stats:
        return normalize_with(input, running_mean, running_var, weight, bias, eps)

    if positions == 1:
        raise ValueError(
            f"instance_norm needs more than 1 position per channel, got size {tuple(input.shape)}: the "
            "variance of one value is 0. Use layer_norm or group_norm for data without positions."
        )
    xhat, mean, var = standardize(accumulate(input), list(range(2, input.dim())), eps)
    output = affine(xhat, per_channel(weight, input), per_channel(bias, input)).to(input.dtype)
    if running_mean is not None and input.numel() > 0:
        unbiased = var * (positions / (positions - 1))
        update_running(running_mean, mean.flatten(1).mean(0), momentum)
        update_running(running_var, unbiased.flatten(1).mean(0), momentum)
    return output
