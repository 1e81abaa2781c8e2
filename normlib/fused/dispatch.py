"""From tensors of any shape to rows (M, D) and back: Triton's kernels on CUDA, cpu.py elsewhere.

D is the product of the sizes of the last `dims` dimensions. A gradient that nobody wants comes back
empty. Every result is allocated here, in its own shape, and its rows are filled in: a result that
is a view of another tensor could not be changed in place afterwards.
"""

import importlib
import math
from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from normlib.fused import cpu


def norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    dims: int,
    eps: float,
    centre: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """y in input's shape; mean (M,), or empty if not centred; 1 / std or 1 / rms (M,)."""
    x = _rows(input, dims)  # (M, D)
    weight = _flat(weight)  # (D,)
    bias = _flat(bias)
    y = _empty_like(input)
    out = _rows(y, dims)  # (M, D)
    if _on_gpu(input):
        forward = _kernels("rows").norm_forward
        _, mean, rstd = forward(x, weight, bias, eps, centre=centre, out=out)
    else:  # never centred: on the CPU layer_norm is torch's
        rstd = cpu.norm_forward(x, weight, eps, out=out)
        mean = None
    if mean is None:
        mean = rstd.new_empty(0)
    return y, mean, rstd


def norm_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    dims: int,
    eps: float,
    centre: bool,
    mean: Tensor,
    rstd: Tensor,
    wanted: Sequence[bool],
) -> tuple[Tensor, ...]:
    """The gradients of input, weight and bias."""
    dy = _rows(grad, dims)  # (M, D)
    x = _rows(input, dims)
    row = _flat(weight)  # (D,)
    dx = _empty_like(input)
    out = _rows(dx, dims)  # (M, D)
    dw: Tensor | None
    db: Tensor | None
    if _on_gpu(input):
        backward = _kernels("rows").norm_backward
        _, dw, db = backward(dy, x, row, mean if centre else None, rstd, bias=wanted[2], out=out)
    else:
        dw = cpu.norm_backward(dy, x, row, rstd, wanted[:2], out=out)
        db = None
    return _results(dx, (dw, db), (input, weight, bias), dims, wanted)


def curve(
    input: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    kind: str,
) -> Tensor:
    """y in input's shape; kind is "tanh" for DyT or "isru" for DyISRU."""
    dims = _spanned(input, weight, bias)
    x = _rows(input, dims)  # (M, D)
    gain = _as_row(weight, input, dims)  # (D,)
    shift = _as_row(bias, input, dims)  # (D,)
    y = _empty_like(input)
    out = _rows(y, dims)  # (M, D)
    single = parameter.reshape(1)
    if _on_gpu(input):
        forward = _kernels("pointwise").curve_forward
        forward(x, single, gain, shift, scale, kind=kind, out=out)
    else:
        cpu.CURVE_FORWARD[kind](x, single, gain, shift, scale, out=out)
    return y


def curve_backward(
    grad: Tensor,
    input: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    kind: str,
    wanted: Sequence[bool],
) -> tuple[Tensor, ...]:
    """The gradients of input, parameter, weight and bias."""
    dims = _spanned(input, weight, bias)
    dy = _rows(grad, dims)  # (M, D)
    x = _rows(input, dims)
    gain = _as_row(weight, input, dims)  # (D,)
    single = parameter.reshape(1)
    dx = _empty_like(input)
    out = _rows(dx, dims)  # (M, D)
    sums: Sequence[Tensor | None]
    if _on_gpu(input):
        backward = _kernels("pointwise").curve_backward
        _, *sums = backward(dy, x, single, gain, scale, kind=kind, bias=wanted[3], out=out)
    else:
        sums = cpu.CURVE_BACKWARD[kind](dy, x, single, gain, scale, wanted, out=out)
    return _results(dx, sums, (input, parameter, weight, bias), dims, wanted)


def _on_gpu(input: Tensor) -> bool:
    return input.is_cuda


def _kernels(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"normlib.kernels.{name}")
    except ImportError as error:
        raise ImportError(
            "normlib.fused needs triton for tensors on a GPU. Install it, or use "
            "normlib.functional (fused=False in a layer)."
        ) from error


def _empty_like(argument: Tensor) -> Tensor:
    """Memory of argument's shape and dtype, contiguous whatever its strides, to be filled in."""
    return torch.empty(argument.shape, dtype=argument.dtype, device=argument.device)


def _rows(tensor: Tensor, dims: int) -> Tensor:
    """(M, D): a view where the strides allow."""
    lead = tensor.dim() - dims
    rows = math.prod(tensor.shape[:lead])
    columns = math.prod(tensor.shape[lead:])
    return tensor.reshape(rows, columns)


def _flat(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.reshape(-1)


def _spanned(input: Tensor, *parameters: Tensor | None) -> int:
    """The trailing dimensions in which parameters vary: 1 for (D,), 3 for (C, 1, 1)."""
    dims = min(1, input.dim())
    for parameter in parameters:
        if parameter is not None:
            for place, size in enumerate(reversed(parameter.shape), start=1):
                if size != 1:
                    dims = max(dims, place)
    return dims


def _as_row(parameter: Tensor | None, input: Tensor, dims: int) -> Tensor | None:
    """(D,), one entry per feature.

    In float32 or more where entries are repeated: their gradients are added up, before one
    rounding.
    """
    trailing = input.shape[input.dim() - dims :]
    if parameter is None or parameter.shape == trailing:
        return _flat(parameter)
    wide = parameter.to(torch.promote_types(input.dtype, torch.float32))
    varying = wide.reshape(_varying_shape(parameter, dims))
    return varying.expand(trailing).reshape(-1)


def _varying_shape(parameter: Tensor, dims: int) -> torch.Size:
    """Its last dims sizes; those before are all 1."""
    return parameter.shape[max(parameter.dim() - dims, 0) :]


def _results(
    dx: Tensor,
    sums: Sequence[Tensor | None],
    arguments: Sequence[Tensor | None],
    dims: int,
    wanted: Sequence[bool],
) -> tuple[Tensor, ...]:
    """dx, and each wanted sum added up over what was broadcast, in its argument's shape and dtype.

    sums (D,) or (1,) are the gradients of all arguments but the first, the input.
    """
    trailing = dx.shape[dx.dim() - dims :]
    results = [dx if wanted[0] else dx.new_empty(0)]
    for grad, argument, is_wanted in zip(sums, arguments[1:], wanted[1:], strict=True):
        if not is_wanted:
            results.append(dx.new_empty(0))
            continue
        assert grad is not None and argument is not None
        if grad.numel() != argument.numel():
            grad = grad.reshape(trailing).sum_to_size(_varying_shape(argument, dims))
        results.append(_empty_like(argument).copy_(grad.reshape(argument.shape)))
    return tuple(results)
