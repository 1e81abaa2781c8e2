"""Batch, layer, RMS, group and instance normalization."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normlib.functional.arithmetic import (
    accumulate,
    affine,
    channel_affine,
    laid_out,
    nan_where_infinite,
    normalize_with,
    standardize,
    update_running,
)
from normlib.functional.validation import (
    channel_count,
    check_batch,
    check_channel_tensors,
    check_eps,
    check_flag,
    check_group_size,
    check_groups,
    check_momentum,
    check_positions,
    check_row_tensors,
    check_running,
    overridable,
)


@overridable
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
    """Standardize every channel over the batch and the positions.

    [EQ-BN] [EQ-BN-RUNNING] [EQ-BN-EVAL]

        training:  y = w (x - mean) / sqrt(var + eps) + b,   var biased: divided by m, N × positions
                   running <- (1 - momentum) running + momentum batch,   UNBIASED: m / (m - 1) var
        otherwise: the same y with running_mean and running_var in place of the batch's

    >>> x = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    >>> mean, var = torch.zeros(1), torch.ones(1)
    >>> functional.batch_norm(x, mean, var, training=True).flatten()
    tensor([-1.3416, -0.4472,  0.4472,  1.3416])
    >>> mean, var  # 0.9 * 0 + 0.1 * 4, and 0.9 * 1 + 0.1 * 20 / 3
    (tensor([0.4000]), tensor([1.5667]))

    Args:
        input: (N, C, ...).
        running_mean, running_var: (C,), both or neither, without gradient; updated in place in
            training, after everything else.
        weight, bias: (C,) or None for ones and zeros.
        momentum: share of the new batch in the running statistics, 0 to 1.
        eps: added to the variance; positive in training, as in torch.
    Returns: input's shape and dtype.
    Raises: ValueError (one value per channel in training, eps, momentum, one running statistic
        without the other), MismatchError (shapes, dtypes; it is a RuntimeError, ValueError and
        IndexError, since torch raises now one, now another), RuntimeError (no statistics, or some
        that require a gradient), NotImplementedError (no floats), TypeError (training is no bool).
        A call that raises has changed nothing.
    Source: Ioffe & Szegedy 2015, Algorithm 1; Algorithm 2, step 10 for the unbiased variance.
    """
    check_flag("batch_norm", "training", training)
    check_eps("batch_norm", eps, positive=training)
    check_momentum("batch_norm", momentum)
    check_channel_tensors("batch_norm", input, running_mean, running_var, weight, bias)
    check_running("batch_norm", running_mean, running_var, needed=not training)
    if not training:
        assert running_mean is not None and running_var is not None  # check_running
        output = normalize_with(input, running_mean, running_var, weight, bias, eps)
        return laid_out(output, input)

    check_batch("batch_norm", input)
    dims = [0, *range(2, input.dim())]
    xhat, mean, var = standardize(accumulate(input), dims, eps)  # mean, var: (1, C, 1, ...)
    output = channel_affine(xhat, weight, bias, input)
    count = input.shape[0] * math.prod(input.shape[2:])  # values of a channel
    if running_mean is not None and running_var is not None and count > 0:
        unbiased = var * (count / (count - 1))
        update_running(running_mean, mean.flatten(), momentum)
        update_running(running_var, unbiased.flatten(), momentum)
    return laid_out(output, input)


@overridable
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize every sample over its trailing dimensions.

    [EQ-LN]

        y = w (x - mean) / sqrt(var + eps) + b,   mean and biased var over the last dimensions

    >>> functional.layer_norm(torch.tensor([1.0, 3.0, 5.0, 7.0]), (4,))
    tensor([-1.3416, -0.4472,  0.4472,  1.3416])

    Args:
        input: (..., *normalized_shape).
        weight, bias: normalized_shape, or None for ones and zeros.
        eps: added to the variance, so its unit is that of input squared.
    Returns: input's shape and dtype; NaN for a row whose variance overflows, as torch's kernel
        gives (but for sizes whose last vector register is nearly empty: there it gives 0).
    Raises: MismatchError (shapes, dtypes), ValueError (eps).
    Source: Ba, Kiros & Hinton 2016, section 3, equations (3) and (4).
    """
    dims = check_row_tensors("layer_norm", input, normalized_shape, weight, bias)
    check_eps("layer_norm", eps)
    xhat, _, var = standardize(accumulate(input), dims, eps)  # var: (..., 1)
    xhat = nan_where_infinite(xhat, var)
    return affine(xhat, weight, bias).to(input.dtype).contiguous()


@overridable
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide every sample by the root mean square of its trailing dimensions.

    [EQ-RMS]

        y = w x / sqrt(mean(x^2) + eps)

    >>> functional.rms_norm(torch.tensor([1.0, 3.0, 5.0, 7.0]), (4,))
    tensor([0.2182, 0.6547, 1.0911, 1.5275])

    Args:
        input: (..., *normalized_shape).
        weight: normalized_shape, or None for ones. Any floating dtype, as in torch.
        eps: added to the mean square. None means the machine epsilon of the dtype computed in:
            1.19e-7 for float32 and the half types, 2.22e-16 for float64.
    Returns: input's shape and dtype.
    Raises: MismatchError (shapes), ValueError (eps).
    Source: Zhang & Sennrich 2019, equation (4); eps inside the root as in torch.
    """
    dims = check_row_tensors("rms_norm", input, normalized_shape, weight, any_dtype=True)
    if eps is None:
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    check_eps("rms_norm", eps)
    return checked_rms_norm(input, dims, weight, eps)


def checked_rms_norm(input: Tensor, dims: list[int], weight: Tensor | None, eps: float) -> Tensor:
    """The formula of rms_norm, for arguments that have been checked; fused checks its own."""
    x = accumulate(input)
    mean_square = x.square().mean(dims, keepdim=True)  # (..., 1)
    rstd = torch.rsqrt(mean_square + eps)
    output = affine(x * rstd, weight, None).to(input.dtype)
    return laid_out(output, input)


@overridable
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardize every sample over groups of channels and their positions.

    [EQ-GN]

    >>> x = torch.tensor([[1.0, 3.0, 5.0, 9.0]])  # one sample of four channels: two groups of two
    >>> functional.group_norm(x, 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])

    Args:
        input: (N, C, ...), C divisible by num_groups; group k holds channels k C/G to (k+1)
            C/G - 1.
        weight, bias: (C,), or None for ones and zeros: per channel, not per group.
    Returns: input's shape and dtype.
    Raises: MismatchError (shapes, dtypes), RuntimeError (num_groups), ZeroDivisionError (num_groups
        0, as torch), ValueError (eps; one value per group in a batch of one sample, as torch).
    Source: Wu & He 2018, section 3.1, equations (1) to (3) and (7).
    """
    channels = channel_count("group_norm", input)
    check_groups("group_norm", num_groups, channels, RuntimeError)
    check_eps("group_norm", eps)
    check_channel_tensors("group_norm", input, None, None, weight, bias)
    check_group_size("group_norm", input, num_groups)
    group_size = channels // num_groups * math.prod(input.shape[2:])
    groups = accumulate(input).reshape(input.shape[0], num_groups, group_size)  # (N, G, ...)
    xhat, _, var = standardize(groups, [-1], eps)  # var: (N, G, 1)
    xhat = nan_where_infinite(xhat, var).reshape(input.shape)  # (N, C, ...)
    output = channel_affine(xhat, weight, bias, input)
    return laid_out(output, input)


@overridable
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
    """Standardize every channel of every sample over its positions.

    [EQ-IN]

    >>> x = torch.tensor([[[1.0, 3.0], [5.0, 9.0]]])  # one sample, two channels, two positions
    >>> functional.instance_norm(x)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])

    Args:
        input: (N, C, positions...).
        running_mean, running_var: (C,), both or neither; updated in place with the mean over the
            batch of each sample's mean and unbiased variance. An empty batch leaves them alone
            (torch writes NaN).
        weight, bias: (C,) or None for ones and zeros.
        use_input_stats: False normalizes with the running statistics instead.
        momentum, eps: as in batch_norm.
    Returns: input's shape and dtype.
    Raises: as batch_norm; ValueError for a single position.
    Source: Ulyanov, Vedaldi & Lempitsky 2016, equation (2).
    """
    check_flag("instance_norm", "use_input_stats", use_input_stats)
    check_eps("instance_norm", eps)
    check_momentum("instance_norm", momentum)
    check_channel_tensors("instance_norm", input, running_mean, running_var, weight, bias)
    check_running("instance_norm", running_mean, running_var, needed=not use_input_stats)
    if not use_input_stats:
        assert running_mean is not None and running_var is not None  # check_running
        output = normalize_with(input, running_mean, running_var, weight, bias, eps)
        return output.contiguous()

    check_positions("instance_norm", input)
    dims = list(range(2, input.dim()))
    xhat, mean, var = standardize(accumulate(input), dims, eps)  # mean, var: (N, C, 1, ...)
    output = channel_affine(xhat, weight, bias, input)
    if running_mean is not None and running_var is not None and input.numel() > 0:
        positions = math.prod(input.shape[2:])
        unbiased = var * (positions / (positions - 1))
        update_running(running_mean, mean.flatten(1).mean(0), momentum)
        update_running(running_var, unbiased.flatten(1).mean(0), momentum)
    return output.contiguous()
