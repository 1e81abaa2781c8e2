"""LayerNorm and RMSNorm."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from normlib.functional.norms import checked_rms_norm
from normlib.functional.validation import (
    check_eps,
    check_row_tensors,
    named,
    overridable,
)
from normlib.fused import operators


@overridable
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """functional.layer_norm: on the CPU torch's own kernel, on CUDA one read and one write.

    [EQ-LN]

        y = w (x - mean) / sqrt(var + eps) + b;   saved for backward: input, weight, mean and rstd

    >>> fused.layer_norm(torch.tensor([1.0, 3.0, 5.0, 7.0]), (4,))
    tensor([-1.3416, -0.4472,  0.4472,  1.3416])

    Args:
        input: (..., *normalized_shape).
        weight, bias: normalized_shape, or None for ones and zeros.
        eps: added to the variance.
    Returns: input's shape and dtype.
    Raises: as functional.layer_norm; RuntimeError (several devices), ImportError (CUDA without
        triton).

    On the CPU three things are torch's own: the weight's and the bias's gradients of half types are
    added up in half precision (in bfloat16 a tenth off at 2048 rows), third derivatives are wrong,
    and a row whose variance overflows is NaN or 0, by its length. functional's are right, and NaN.
    The result of a row has the same bits whatever rows stand beside it.

    Source: Ba, Kiros & Hinton 2016, section 3, equations (3) and (4).
    """
    dims = len(check_row_tensors("layer_norm", input, normalized_shape, weight, bias))
    check_eps("layer_norm", eps)
    operators.check_devices("layer_norm", input, weight=weight, bias=bias)
    if input.device.type == "cuda" and not operators.is_for_functional(input, weight, bias):
        return operators.layer_norm(input, weight, bias, dims, eps)
    if any(value.dtype != input.dtype for _, value in named(weight=weight, bias=bias)):
        # torch wants both parameters of one dtype, and a weight if the bias is in float32
        dtype = torch.promote_types(input.dtype, torch.float32)
        if weight is None:
            weight = input.new_ones(tuple(normalized_shape))
        weight = weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        input = operators.savable(input)
        weight = operators.savable(weight)
        bias = operators.savable(bias)
    return F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


@overridable
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """functional.rms_norm with the least memory and traffic.

    [EQ-RMS] [EQ-RMS-GRAD]

        y = w x / sqrt(mean(x^2) + eps);   for backward it saves input, weight, 1 / rms of each row

    >>> x = torch.tensor([1.0, 3.0, 5.0, 7.0], requires_grad=True)
    >>> y = fused.rms_norm(x, (4,))
    >>> y.detach()
    tensor([0.2182, 0.6547, 1.0911, 1.5275])
    >>> torch.autograd.grad(y[3], x)[0]  # how y_4 depends on every x
    tensor([-0.0182, -0.0546, -0.0909,  0.0909])

    Args:
        input: (..., *normalized_shape).
        weight: normalized_shape, or None for ones. Any floating dtype.
        eps: added to the mean square; None means the machine epsilon of the dtype computed in.
    Returns: input's shape and dtype.
    Raises: as functional.rms_norm; RuntimeError (several devices), ImportError (CUDA without
        triton).

    The result of a row has the same bits whatever rows stand beside it. Its gradient on the CPU has
    not: that of up to operators.SMALL elements is functional's.

    Source: Zhang & Sennrich 2019, equation (4) and section 4.2.
    """
    dims = check_row_tensors("rms_norm", input, normalized_shape, weight, any_dtype=True)
    if eps is None:
        computed_in = torch.promote_types(input.dtype, torch.float32)
        eps = torch.finfo(computed_in).eps
    check_eps("rms_norm", eps)
    operators.check_devices("rms_norm", input, weight=weight)
    is_long = math.prod(normalized_shape) >= operators.LONG_ROW
    if operators.is_for_functional(input, weight, is_quick=not is_long):
        return checked_rms_norm(input, dims, weight, eps)
    return operators.rms_norm(input, weight, len(dims), eps)
