"""What autograd and torch.compile see: normlib::norm, normlib::curve and their backwards.

Each takes any shape; dispatch.py makes rows (M, D) of it, for the Triton kernels on CUDA and for
cpu.py elsewhere. A gradient that is not required is skipped and returned as an empty
tensor.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from normlib import gradients
from normlib.fused import dispatch

_NORM = "Tensor input, Tensor? weight, Tensor? bias, int dims, float eps, bool centre"
_CURVE = "Tensor input, Tensor parameter, Tensor? weight, Tensor? bias, float scale, str kind"
_SCHEMAS = (
    f"norm({_NORM}) -> (Tensor, Tensor, Tensor)",
    (
        f"norm_backward(Tensor grad, {_NORM}, Tensor mean, Tensor rstd, bool[] wanted)"
        " -> (Tensor, Tensor, Tensor)"
    ),
    f"curve({_CURVE}) -> Tensor",
    f"curve_backward(Tensor grad, {_CURVE}, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
)
_LIBRARY = torch.library.Library("normlib", "DEF")
for _schema in _SCHEMAS:
    _LIBRARY.define(_schema, tags=torch.Tag.pt2_compliant_tag)

# On an AMD EPYC functional takes 0.3 of the operators' time for 2^10 elements, 0.9 to 1.5 for 2^18
# and 1.2 to 1.9 for 2^19, by norm and dtype: forward and backward.
SMALL = 1 << 18
# A lone row of so many numbers torch shares among its threads, and adds up in another order.
LONG_ROW = 1 << 15

Tensors = Sequence[Tensor | None]
Optional = TypeVar("Optional", Tensor, Tensor | None)


def layer_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, dims: int, eps: float
) -> Tensor:
    """LayerNorm over the last dims dimensions: on CUDA only."""
    y, _, _ = torch.ops.normlib.norm.default(input, weight, bias, dims, eps, centre=True)
    return y


def rms_norm(input: Tensor, weight: Tensor | None, dims: int, eps: float) -> Tensor:
    """RMSNorm over the last dims dimensions."""
    y, _, _ = torch.ops.normlib.norm.default(input, weight, None, dims, eps, centre=False)
    return y


def dyt(
    input: Tensor, alpha: Tensor, weight: Tensor | None, bias: Tensor | None, scale: float
) -> Tensor:
    return torch.ops.normlib.curve.default(input, alpha, weight, bias, scale, kind="tanh")


def dyisru(
    input: Tensor, c: Tensor, weight: Tensor | None, bias: Tensor | None, scale: float
) -> Tensor:
    return torch.ops.normlib.curve.default(input, c, weight, bias, scale, kind="isru")


def is_for_functional(*tensors: Tensor | None, is_quick: bool = True) -> bool:
    """True if functional has to do the work, or does it more quickly.

    The operators support neither torch.func's transforms nor complex tensors nor other devices, and
    in forward mode they would silently drop the tangent. An input (the first tensor) of up to SMALL
    elements is quicker in functional's few operations, unless torch.compile fuses them anyway.
    is_quick=False: ignore that reason.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    is_small = given[0].is_cpu and given[0].numel() <= SMALL
    if is_quick and is_small and not torch.compiler.is_compiling():
        return True
    if given[0].device.type not in ("cpu", "cuda", "meta"):
        return True
    if any(tensor.is_complex() for tensor in given):
        return True
    if torch._C._are_functorch_transforms_active():
        return True
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in given)


def check_devices(caller: str, input: Tensor, **tensors: Tensor | None) -> None:
    """All on input's device.

    The operators would not notice: of a tensor without values they take shapes.
    """
    for name, tensor in tensors.items():
        if tensor is not None and tensor.device != input.device:
            raise RuntimeError(
                f"fused.{caller} needs all tensors on one device, got input on {input.device} and "
                f"{name} on {tensor.device}. Move one with .to({str(input.device)!r}); "
                "a layer built on meta "
                "needs its weights loaded first."
            )


# Shapes and dtypes of the results, for tensors without values


def _norm_shapes(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    dims: int,
    eps: float,
    centre: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = math.prod(input.shape[: input.dim() - dims])
    dtype = torch.promote_types(input.dtype, torch.float32)
    mean = input.new_empty(rows if centre else 0, dtype=dtype)
    rstd = input.new_empty(rows, dtype=dtype)
    return _like(input), mean, rstd


def _norm_backward_shapes(
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
    return _shapes_of((input, weight, bias), wanted)


def _curve_shapes(
    input: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    kind: str,
) -> Tensor:
    return _like(input)


def _curve_backward_shapes(
    grad: Tensor,
    input: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    kind: str,
    wanted: Sequence[bool],
) -> tuple[Tensor, ...]:
    return _shapes_of((input, parameter, weight, bias), wanted)


def _shapes_of(arguments: Tensors, wanted: Sequence[bool]) -> tuple[Tensor, ...]:
    input = arguments[0]
    assert input is not None
    shapes = []
    for argument, is_wanted in zip(arguments, wanted, strict=True):
        if is_wanted:
            assert argument is not None
            shapes.append(_like(argument))
        else:
            shapes.append(input.new_empty(0))
    return tuple(shapes)


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


# What is kept for a backward: tensors whose values it reads, and others of which it reads shape and
# dtype


def _keep(ctx: Any, tensors: Tensors, read: Sequence[bool], results: Sequence[Tensor] = ()) -> None:
    """Save what is read.

    The others may be changed before the backward, as with torch's own functions.
    """
    kept = [
        savable(tensor) if is_read else None for tensor, is_read in zip(tensors, read, strict=True)
    ]
    ctx.save_for_backward(*kept, *results)
    ctx.unread = [
        None if tensor is None or is_read else tensor.detach()
        for tensor, is_read in zip(tensors, read, strict=True)
    ]


def savable(tensor: Optional) -> Optional:
    """The tensor, or a copy of one made in inference mode, which autograd refuses to save."""
    return tensor.clone() if tensor is not None and tensor.is_inference() else tensor


def _kept(ctx: Any) -> tuple[list[Tensor | None], list[Tensor]]:
    """The tensors, read or not, and the results."""
    count = len(ctx.unread)
    saved = ctx.saved_tensors
    tensors = [
        read if unread is None else unread for read, unread in zip(saved, ctx.unread, strict=False)
    ]
    return tensors, list(saved[count:])


# First derivatives


def _keep_norm(ctx: Any, inputs: Sequence[Any], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.dims, ctx.eps, ctx.centre = inputs
    _, mean, rstd = output
    ctx.mark_non_differentiable(mean, rstd)
    reads_weight = ctx.needs_input_grad[0]
    _keep(ctx, tensors, [True, reads_weight, False], [mean, rstd])


def _norm_gradients(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    tensors, (mean, rstd) = _kept(ctx)
    wanted = ctx.needs_input_grad[:3]
    backward = torch.ops.normlib.norm_backward.default
    grads = backward(grad, *tensors, ctx.dims, ctx.eps, ctx.centre, mean, rstd, wanted)
    return *_asked(grads, wanted), None, None, None


def _keep_curve(ctx: Any, inputs: Sequence[Any], output: Tensor) -> None:
    *tensors, ctx.scale, ctx.kind = inputs
    reads_weight = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
    _keep(ctx, tensors, [True, True, reads_weight, False])


def _curve_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    tensors, _ = _kept(ctx)
    wanted = ctx.needs_input_grad[:4]
    backward = torch.ops.normlib.curve_backward.default
    grads = backward(grad, *tensors, ctx.scale, ctx.kind, wanted)
    return *_asked(grads, wanted), None, None


def _asked(grads: Sequence[Tensor], wanted: Sequence[bool]) -> list[Tensor | None]:
    return [grad if is_wanted else None for grad, is_wanted in zip(grads, wanted, strict=True)]


# Second derivatives: those of the closed forms in normlib.gradients, taken from the inputs. The
# saved rstd is a number to the backward, so to differentiate the backward itself would lose how
# rstd depends on the input.


def _keep_norm_backward(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
    *tensors, ctx.dims, ctx.eps, ctx.centre, _mean, _rstd, ctx.wanted = inputs
    ctx.save_for_backward(*map(savable, tensors))


def _norm_second(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
    def backward(
        grad: Tensor, input: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, ...]:
        shape = input.shape[input.dim() - ctx.dims :]
        if ctx.centre:
            return gradients.layer_norm_backward(grad, input, shape, weight, bias, ctx.eps)
        return gradients.rms_norm_backward(grad, input, shape, weight, ctx.eps)

    pulled = _pulled_back(backward, ctx.saved_tensors, above, ctx.wanted)
    not_tensors = [None] * 6  # dims, eps, centre, mean, rstd, wanted
    return *pulled, *not_tensors


def _keep_curve_backward(ctx: Any, inputs: Sequence[Any], output: Sequence[Tensor]) -> None:
    *tensors, ctx.scale, ctx.kind, ctx.wanted = inputs
    ctx.save_for_backward(*map(savable, tensors))


def _curve_second(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
    def backward(
        grad: Tensor, input: Tensor, parameter: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, ...]:
        if ctx.kind == "tanh":
            return gradients.dyt_backward(grad, input, parameter, weight, bias, ctx.scale)
        return gradients.dyisru_backward(grad, input, parameter, weight, bias, ctx.scale)

    pulled = _pulled_back(backward, ctx.saved_tensors, above, ctx.wanted)
    not_tensors = [None] * 3  # scale, kind, wanted
    return *pulled, *not_tensors


def _pulled_back(
    backward: Callable[..., tuple[Tensor, ...]],
    tensors: Tensors,
    above: Sequence[Tensor],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients, in tensors, of those results of backward that are wanted.

    tensors are grad, then the arguments. backward leaves out the gradients of those that are None.
    """
    is_given = [tensor is not None for tensor in tensors]
    given = [tensor for tensor in tensors if tensor is not None]

    def results(*present: Tensor) -> tuple[Tensor, ...]:
        values = iter(present)
        grads = backward(*(next(values) if here else None for here in is_given))
        asked = [is_wanted for is_wanted, here in zip(wanted, is_given[1:], strict=True) if here]
        return tuple(grad for grad, is_wanted in zip(grads, asked, strict=True) if is_wanted)

    pull = torch.func.vjp(results, *given)[1]
    into = tuple(grad for grad, is_wanted in zip(above, wanted, strict=True) if is_wanted)
    pulled = iter(pull(into))
    return [next(pulled) if here else None for here in is_given]


def _register(
    name: str, run: Callable, shapes: Callable, keep: Callable, differentiate: Callable
) -> None:
    for device in ("CPU", "CUDA"):
        _LIBRARY.impl(name, run, device)
    qualified = f"normlib::{name}"
    torch.library.register_fake(qualified, shapes, lib=_LIBRARY)
    torch.library.register_autograd(qualified, differentiate, setup_context=keep, lib=_LIBRARY)


_register("norm", dispatch.norm, _norm_shapes, _keep_norm, _norm_gradients)
_register(
    "norm_backward",
    dispatch.norm_backward,
    _norm_backward_shapes,
    _keep_norm_backward,
    _norm_second,
)
_register("curve", dispatch.curve, _curve_shapes, _keep_curve, _curve_gradients)
_register(
    "curve_backward",
    dispatch.curve_backward,
    _curve_backward_shapes,
    _keep_curve_backward,
    _curve_second,
)
