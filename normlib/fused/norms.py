"""LayerNorm and RMSNorm."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from normlib import functional
from normlib.functional.validation import check_eps, check_parameter, check_shape, named, trailing_dims
from normlib.fused import operators


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """functional.layer_norm: on the CPU torch's own kernel, on CUDA one read and one write.  [EQ-LN]

        y = w (x - mean) / sqrt(var + eps) + b;   saved for backward: input, weight, mean and rstd

    Args:
        input: (..., *normalized_shape).
        weight, bias: normalized_shape, or None for ones and zeros.
        eps: added to the variance.
    Returns: input's shape and dtype.
    Raises: as functional.layer_norm; ImportError (CUDA without triton).
    On the CPU two things are torch's own: the weight's and the bias's gradients of half types are added up
    in half precision (in bfloat16 a tenth off at 2048 rows), and third derivatives are wrong. functional's
    are right.
    Source: Ba, Kiros & Hinton 2016, section 3, equations (3) and (4).
    """
    dims = len(trailing_dims("layer_norm", input, normalized_shape))
    check_eps("layer_norm", eps)
    for name, value in named(weight=weight, bias=bias):
        check_parameter("layer_norm", name, value, tuple(normalized_shape), input)
    if input.device.type == "cuda" and not operators.needs_formula(input, weight, bias):
        return operators.layer_norm(input, weight, bias, dims, eps)
    if any(value.dtype != input.dtype for _, value in named(weight=weight, bias=bias)):
        # torch wants both parameters of one dtype, and a weight if the bias is in float32
        dtype = torch.promote_types(input.dtype, torch.float32)
        weight = input.new_ones(normalized_shape, dtype=dtype) if weight is None else weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    return F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """functional.rms_norm with the least memory and traffic.  [EQ-RMS] [EQ-RMS-GRAD]

        y = w x / sqrt(mean(x^2) + eps);   saved for backward: input, weight and 1 / rms of every row

    Args:
        input: (..., *normalized_shape).
        weight: normalized_shape, or None for ones. Any floating dtype.
        eps: added to the mean square; None means the machine epsilon of the dtype computed in.
    Returns: input's shape and dtype.
    Raises: as functional.rms_norm; ImportError (CUDA without triton).
    Source: Zhang & Sennrich 2019, equation (4) and section 4.2.
    """
    dims = len(trailing_dims("rms_norm", input, normalized_shape))
    if weight is not None:
        check_shape("rms_norm", "weight", weight, tuple(normalized_shape))
    if eps is None:
        eps = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps
    check_eps("rms_norm", eps)
    if operators.needs_formula(input, weight):
        return functional.rms_norm(input, normalized_shape, weight, eps)
    return operators.rms_norm(input, weight, dims, eps)
