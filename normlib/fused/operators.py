"""The operators normlib::norm and normlib::curve with their backwards: what autograd and torch.compile see.

Each takes any shape; dispatch.py makes rows (M, D) of it, for the Triton kernels on CUDA and for blocked.py
elsewhere. A gradient that nobody wants is not computed and comes back as an empty tensor.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from normlib import gradients
from normlib.fused import dispatch

_NORM = "Tensor input, Tensor? weight, Tensor? bias, int dims, float eps, bool centre"
_CURVE = "Tensor input, Tensor parameter, Tensor? weight, Tensor? bias, float scale, str curve"
_LIBRARY = torch.library.Library("normlib", "DEF")
_SCHEMAS = (
    f"norm({_NORM}) -> (Tensor, Tensor, Tensor)",
    f"norm_backward(Tensor grad, {_NORM}, Tensor mean, Tensor rstd, bool[] wanted)"
    " -> (Tensor, Tensor, Tensor)",
    f"curve({_CURVE}) -> Tensor",
    f"curve_backward(Tensor grad, {_CURVE}, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
)
for _schema in _SCHEMAS:
    _LIBRARY.define(_schema, tags=torch.Tag.pt2_compliant_tag)


def needs_formula(*tensors: Tensor | None) -> bool:
    """Whether functional must do it: under vmap, torch.func or forward mode, and on other devices.

    There the operators have no rule, and in forward mode would drop the tangent without a word.
    """
    given = [t for t in tensors if t is not None]
    if given[0].device.type not in ("cpu", "cuda", "meta") or torch._C._are_functorch_transforms_active():
        return True
    return any(forward_ad.unpack_dual(t).tangent is not None for t in given)


# Shapes and dtypes of the results, for tensors without values


def _norm_shapes(input, weight, bias, dims, eps, centre):
    rows = math.prod(input.shape[: input.dim() - dims])
    dtype = torch.promote_types(input.dtype, torch.float32)
    return (
        _like(input),
        input.new_empty(rows if centre else 0, dtype=dtype),
        input.new_empty(rows, dtype=dtype),
    )


def _norm_backward_shapes(grad, input, weight, bias, dims, eps, centre, mean, rstd, wanted):
    return tuple(
        _like(t) if asked else input.new_empty(0)
        for t, asked in zip((input, weight, bias), wanted, strict=True)
    )


def _curve_shapes(input, parameter, weight, bias, scale, curve):
    return _like(input)


def _curve_backward_shapes(grad, input, parameter, weight, bias, scale, curve, wanted):
    arguments = (input, parameter, weight, bias)
    return tuple(
        _like(t) if asked else input.new_empty(0) for t, asked in zip(arguments, wanted, strict=True)
    )


def _like(tensor):
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


# First derivatives


def _keep_norm(ctx, inputs, output):
    *tensors, ctx.dims, ctx.eps, ctx.centre = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*tensors, *output[1:])


def _norm_gradients(ctx, grad, *_):
    *tensors, mean, rstd = ctx.saved_tensors
    wanted = ctx.needs_input_grad[:3]
    options = (ctx.dims, ctx.eps, ctx.centre, mean, rstd, wanted)
    return (
        *_asked(torch.ops.normlib.norm_backward.default(grad, *tensors, *options), wanted),
        None,
        None,
        None,
    )


def _keep_curve(ctx, inputs, output):
    *tensors, ctx.scale, ctx.curve = inputs
    ctx.save_for_backward(*tensors)


def _curve_gradients(ctx, grad):
    wanted = ctx.needs_input_grad[:4]
    options = (ctx.scale, ctx.curve, wanted)
    grads = torch.ops.normlib.curve_backward.default(grad, *ctx.saved_tensors, *options)
    return *_asked(grads, wanted), None, None


def _asked(grads, wanted):
    return (grad if asked else None for grad, asked in zip(grads, wanted, strict=True))


# Second derivatives: those of the closed forms in gradients.py, taken from the inputs. The saved rstd is a
# number to the backward, so to differentiate the backward itself would lose how rstd depends on the input.


def _keep_norm_backward(ctx, inputs, output):
    *tensors, ctx.dims, ctx.eps, ctx.centre, _, _, ctx.wanted = inputs
    ctx.save_for_backward(*tensors)


def _norm_second(ctx, *above):
    def backward(grad, input, weight, bias):
        shape = input.shape[input.dim() - ctx.dims :]
        if ctx.centre:
            return gradients.layer_norm_backward(grad, input, shape, weight, bias, ctx.eps)
        return gradients.rms_norm_backward(grad, input, shape, weight, ctx.eps)

    return *_pulled_back(backward, ctx.saved_tensors, above, ctx.wanted), *[None] * 6


def _keep_curve_backward(ctx, inputs, output):
    *tensors, ctx.scale, ctx.curve, ctx.wanted = inputs
    ctx.save_for_backward(*tensors)


def _curve_second(ctx, *above):
    closed_form = gradients.dyt_backward if ctx.curve == "tanh" else gradients.dyisru_backward

    def backward(*tensors):
        return closed_form(*tensors, ctx.scale)

    return *_pulled_back(backward, ctx.saved_tensors, above, ctx.wanted), None, None, None


def _pulled_back(
    backward: Callable, tensors: Sequence[Tensor | None], above: Sequence[Tensor], wanted: Sequence[bool]
) -> list[Tensor | None]:
    """Gradients in tensors (grad, arguments) of the wanted ones of backward's results; None where None."""
    given = [t is not None for t in tensors]

    def results(*present):
        values = iter(present)
        grads = backward(*(next(values) if is_given else None for is_given in given))
        asked = (w for w, is_given in zip(wanted, given[1:], strict=True) if is_given)
        return tuple(grad for grad, is_asked in zip(grads, asked, strict=True) if is_asked)

    _, pull = torch.func.vjp(results, *(t for t in tensors if t is not None))
    pulled = iter(pull(tuple(grad for grad, asked in zip(above, wanted, strict=True) if asked)))
    return [next(pulled) if is_given else None for is_given in given]


_REGISTERED = {
    "norm": (dispatch.norm, _norm_shapes, _keep_norm, _norm_gradients),
    "norm_backward": (dispatch.norm_backward, _norm_backward_shapes, _keep_norm_backward, _norm_second),
    "curve": (dispatch.curve, _curve_shapes, _keep_curve, _curve_gradients),
    "curve_backward": (dispatch.curve_backward, _curve_backward_shapes, _keep_curve_backward, _curve_second),
}
for _name, (_run, _shapes, _keep, _differentiate) in _REGISTERED.items():
    for _device in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _run, _device)
    torch.library.register_fake(f"normlib::{_name}", _shapes, lib=_LIBRARY)
    torch.library.register_autograd(f"normlib::{_name}", _differentiate, setup_context=_keep, lib=_LIBRARY)
norm, curve = torch.ops.normlib.norm.default, torch.ops.normlib.curve.default
