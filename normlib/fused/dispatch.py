"""From tensors of any shape to rows (M, D) and back; Triton's kernels on CUDA, blocked.py elsewhere."""

import importlib
import math
from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from normlib.fused import blocked


def norm(input, weight, bias, dims, eps, centre):
    """y, mean (M,) or empty, 1 / std or 1 / rms (M,)."""
    x, weight, bias = _rows(input, dims), _flat(weight), _flat(bias)
    if _on_gpu(input):
        y, mean, rstd = _kernels("rows").norm_forward(x, weight, bias, eps, centre=centre)
    else:  # never centred: on the CPU layer_norm is torch's
        mean, (y, rstd) = None, blocked.norm_forward(x, weight, eps)
    return y.reshape(input.shape), rstd.new_empty(0) if mean is None else mean, rstd


def norm_backward(grad, input, weight, bias, dims, eps, centre, mean, rstd, wanted):
    """The wanted ones of the gradients of input, weight and bias, the others empty."""
    dy, x, row = _rows(grad, dims), _rows(input, dims), _flat(weight)
    if _on_gpu(input):
        backward = _kernels("rows").norm_backward
        grads = backward(dy, x, row, mean if centre else None, rstd, bias=wanted[2])
    else:
        grads = *blocked.norm_backward(dy, x, row, rstd, wanted[:2]), None
    return _results(grads, (input, weight, bias), dims, wanted)


def curve(input, parameter, weight, bias, scale, curve):
    """y."""
    dims = _spanned(input, weight, bias)
    row, shift = (_as_row(p, input, dims) for p in (weight, bias))
    x, module = _rows(input, dims), _kernels("pointwise") if _on_gpu(input) else blocked
    y = module.curve_forward(x, parameter.reshape(1), row, shift, scale, curve=curve)
    return y.reshape(input.shape)


def curve_backward(grad, input, parameter, weight, bias, scale, curve, wanted):
    """The wanted ones of the gradients of input, parameter, weight and bias, the others empty."""
    dims = _spanned(input, weight, bias)
    dy, x = _rows(grad, dims), _rows(input, dims)
    arguments = (dy, x, parameter.reshape(1), _as_row(weight, input, dims), scale)
    if _on_gpu(input):
        grads = _kernels("pointwise").curve_backward(*arguments, curve=curve, bias=wanted[3])
    else:
        grads = blocked.curve_backward(*arguments, wanted, curve=curve)
    return _results(grads, (input, parameter, weight, bias), dims, wanted)


def _on_gpu(input: Tensor) -> bool:
    return input.is_cuda


def _kernels(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"normlib.kernels.{name}")
    except ImportError as error:
        raise ImportError(
            "normlib.fused needs triton for tensors on a GPU. Install it, or use normlib.functional "
            "(fused=False in a layer)."
        ) from error


def _rows(tensor: Tensor, dims: int) -> Tensor:
    """(M, D), D the product of the last dims sizes: a view where the strides allow."""
    lead = tensor.dim() - dims
    return tensor.reshape(math.prod(tensor.shape[:lead]), math.prod(tensor.shape[lead:]))


def _flat(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.reshape(-1)


def _spanned(input: Tensor, *parameters: Tensor | None) -> int:
    """How many trailing dimensions the parameters vary over: 1 for (D,), 3 for (C, 1, 1) or (1, C, 1, 1)."""
    dims = min(1, input.dim())
    for parameter in parameters:
        if parameter is not None:
            varying = [place for place, size in enumerate(reversed(parameter.shape), 1) if size != 1]
            dims = max([dims, *varying])
    return dims


def _as_row(parameter: Tensor | None, input: Tensor, dims: int) -> Tensor | None:
    """(D,): one entry per feature, in float32 or more where entries are repeated, for their sum's sake."""
    trailing = input.shape[input.dim() - dims :]
    if parameter is None or parameter.shape == trailing:
        return _flat(parameter)
    wide = parameter.to(torch.promote_types(input.dtype, torch.float32))
    return wide.reshape(parameter.shape[max(parameter.dim() - dims, 0) :]).expand(trailing).reshape(-1)


def _results(
    grads: Sequence[Tensor | None], arguments: Sequence[Tensor | None], dims: int, wanted: Sequence[bool]
) -> tuple[Tensor, ...]:
    """Each wanted gradient summed over what was broadcast, in its argument's shape and dtype."""
    input = arguments[0]
    trailing = input.shape[input.dim() - dims :]

    def result(grad, argument):
        if grad.numel() != argument.numel():
            kept = argument.shape[max(argument.dim() - dims, 0) :]
            grad = grad.reshape(trailing).sum_to_size(kept)
        return grad.to(argument.dtype).reshape(argument.shape)

    triples = zip(grads, arguments, wanted, strict=True)
    return tuple(result(grad, argument) if asked else input.new_empty(0) for grad, argument, asked in triples)
