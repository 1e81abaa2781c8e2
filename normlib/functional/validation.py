"""Checks of arguments: each error names what came, what was expected and the fix.

The gradients use them, too.
"""

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class MismatchError(RuntimeError, ValueError, IndexError):
    """Shapes or dtypes that do not fit together.

    Torch raises one of these three, depending on the norm.
    """


def overridable(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorator: dispatch to an argument's __torch_function__, as torch's own functions do.

    torch.fx, whose proxies have no shape to check, then records one call of the function.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        given = (*args, *kwargs.values())
        if has_torch_function(given):
            return handle_torch_function(call, given, *args, **kwargs)
        return function(*args, **kwargs)

    return call


# Numbers


def check_number(caller: str, name: str, value: float) -> None:
    if not isinstance(value, Real | torch.SymFloat | torch.SymInt | Tensor):
        raise TypeError(f"{caller} needs a number as {name}, got {name}={value!r}. Pass 0.1, say.")


def check_eps(caller: str, eps: float, positive: bool = False) -> None:
    check_number(caller, "eps", eps)
    is_large_enough = eps > 0 if positive else eps >= 0  # False for NaN
    if not is_large_enough or eps == math.inf:
        bound = "above 0" if positive else "of at least 0"
        raise ValueError(f"{caller} needs a finite eps {bound}, got eps={eps}. Pass 1e-5, say.")


def check_momentum(caller: str, momentum: float) -> None:
    if momentum is None:
        raise TypeError(
            f"{caller} needs a number as momentum, got None. "
            "Only the layers average all batches with None."
        )
    check_number(caller, "momentum", momentum)
    if not 0 <= momentum <= 1:  # also false for NaN
        raise ValueError(
            f"{caller} needs a momentum between 0 and 1, got momentum={momentum}. Pass 0.1, say."
        )


def check_positive(caller: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int | float) or not 0 < number < math.inf:
            raise ValueError(
                f"{caller} needs a positive number as {name}, got {name}={number!r}. Pass 1.0, say."
            )


def sqrt_of_size(shape: Sequence[int]) -> float:
    """sqrt(D), DyISRU's scale, D the number of features; 1 where there is nothing to scale."""
    return math.sqrt(math.prod(shape) or 1)


def check_flag(caller: str, name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{caller} needs True or False as {name}, got {value!r}. Pass True, say.")


def check_groups(caller: str, num_groups: int, channels: int, error: type[Exception]) -> None:
    if not isinstance(num_groups, Integral | torch.SymInt):
        raise TypeError(f"{caller} needs an int as num_groups, got {num_groups!r}. Pass 4, say.")
    if num_groups <= 0 or channels % num_groups:
        kind = ZeroDivisionError if num_groups == 0 else error  # as torch
        raise kind(
            f"{caller} needs a positive num_groups that divides the channels, got "
            f"num_groups={num_groups} for {channels} channels. Choose a divisor of {channels}."
        )


# The input


def check_floating(caller: str, input: Tensor) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{caller} needs a tensor, got {type(input).__name__}. Wrap it in torch.tensor."
        )
    if input.dtype not in FLOATING:
        raise NotImplementedError(
            f"{caller} needs input of 16, 32 or 64 bit floats, got {input.dtype}. "
            "Call input.float() first."
        )


def channel_count(caller: str, input: Tensor) -> int:
    """C of an input (N, C, ...)."""
    check_floating(caller, input)
    if input.dim() < 2:
        raise MismatchError(
            f"{caller} needs an input (N, C, ...), got {tuple(input.shape)}. Add a batch dimension."
        )
    return input.shape[1]


def trailing_dims(caller: str, input: Tensor, normalized_shape: Sequence[int]) -> list[int]:
    """The dimensions of normalized_shape, counted from the end: [-2, -1] for (4, 5)."""
    check_floating(caller, input)
    is_sequence = isinstance(normalized_shape, Sequence)  # no tensor and no array, as in torch
    if not is_sequence or any(isinstance(size, bool | float | str) for size in normalized_shape):
        raise TypeError(
            f"{caller} needs a tuple of ints as normalized_shape, got {normalized_shape!r}. "
            "Pass (64,), say."
        )
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise MismatchError(
            f"{caller} needs an input whose last dimensions are normalized_shape (one or more), "
            f"got input {tuple(input.shape)} and normalized_shape {shape}. "
            "To normalize another axis, move it last."
        )
    return list(range(-len(shape), 0))


def check_dim(caller: str, input: Tensor, dim: int) -> None:
    """A dimension of the input; a tensor of none has dimension 0, as in torch."""
    check_floating(caller, input)
    rank = max(1, input.dim())
    if dim not in range(-rank, rank):
        raise IndexError(
            f"{caller} needs dim between {-rank} and {rank - 1}, got {dim} for input "
            f"{tuple(input.shape)}. Pass -1, say."
        )


def check_rows(caller: str, input: Tensor) -> None:
    check_floating(caller, input)
    if input.dim() == 0:
        raise MismatchError(
            f"{caller} needs rows (..., D), got a tensor of shape (). "
            "Add a dimension with input[None]."
        )


def check_batch(caller: str, input: Tensor) -> None:
    """More than one value a channel, as batch_norm needs in training."""
    if math.prod((input.shape[0], *input.shape[2:])) == 1:
        raise ValueError(
            f"{caller} needs more than 1 value per channel when training, "
            f"got size {tuple(input.shape)}: "
            "the variance of one value is 0. "
            "Use a larger batch (drop_last=True in the loader) or eval mode."
        )


def check_group_size(caller: str, input: Tensor, num_groups: int) -> None:
    if input.numel() == num_groups:
        raise ValueError(
            f"{caller} needs more than 1 value per group, got size {tuple(input.shape)} in "
            f"{num_groups} groups: every output would be the bias. Use fewer groups."
        )


def check_positions(caller: str, input: Tensor) -> None:
    if math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"{caller} needs more than 1 position per channel, got size {tuple(input.shape)}: the "
            "variance of one value is 0. Use layer_norm or group_norm for data without positions."
        )


# Tensors beside the input


def named(**values: Tensor | None) -> list[tuple[str, Tensor]]:
    return [(name, value) for name, value in values.items() if value is not None]


def check_tensor(caller: str, name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{caller} needs a tensor as {name}, got {value!r}. Wrap it in torch.tensor."
        )


def check_floats(caller: str, name: str, value: Tensor) -> None:
    check_tensor(caller, name, value)
    if value.dtype not in FLOATING:
        raise MismatchError(
            f"{caller} needs {name} of 16, 32 or 64 bit floats, got {value.dtype}. "
            "Call .float() on it first."
        )


def check_shape(caller: str, name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    check_tensor(caller, name, value)
    if tuple(value.shape) != shape:
        raise MismatchError(
            f"{caller} needs {name} of shape {shape}, got {tuple(value.shape)}. "
            "Build the layer, or make the tensor, for that size."
        )


def check_parameter(
    caller: str, name: str, value: Tensor, shape: tuple[int, ...], input: Tensor
) -> None:
    check_shape(caller, name, value, shape)
    if value.dtype not in (input.dtype, torch.promote_types(input.dtype, torch.float32)):
        raise MismatchError(
            f"{caller} needs {name} in the input's dtype (or float32 under a half input), got "
            f"{value.dtype} for {input.dtype}. Convert the layer with .to({input.dtype})."
        )


def check_channel_tensors(
    caller: str,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
) -> None:
    """Each of them (C,) for an input (N, C, ...)."""
    channels = channel_count(caller, input)
    given = named(running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    for name, value in given:
        check_parameter(caller, name, value, (channels,), input)


def check_row_tensors(
    caller: str,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None = None,
    *,
    any_dtype: bool = False,
) -> list[int]:
    """The last dimensions, from the end, after each tensor was found to have their shape."""
    dims = trailing_dims(caller, input, normalized_shape)
    for name, value in named(weight=weight, bias=bias):
        if any_dtype:
            check_shape(caller, name, value, tuple(normalized_shape))
            check_floats(caller, name, value)
        else:
            check_parameter(caller, name, value, tuple(normalized_shape), input)
    return dims


def check_running(caller: str, mean: Tensor | None, var: Tensor | None, needed: bool) -> None:
    if needed and (mean is None or var is None):
        raise RuntimeError(
            f"{caller} needs running_mean and running_var to normalize with, got None. Pass both."
        )
    if (mean is None) != (var is None):
        raise ValueError(
            f"{caller} needs running_mean and running_var both or neither, got one. "
            "Pass the other too."
        )
    for name, value in named(running_mean=mean, running_var=var):
        if value.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{caller} needs a {name} without gradient, got one that requires grad: "
                "it is a statistic and not learned. Register it as a buffer, or pass it detached."
            )


def check_broadcast(
    caller: str,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    **needed: Tensor,
) -> None:
    """Numbers that broadcast to the input; weight and bias per feature, or per channel."""
    for name, value in needed.items():
        check_floats(caller, name, value)
        pairs = zip(reversed(value.shape), reversed(input.shape), strict=False)
        # not `size in (1, full)`: torch.compile gets that wrong where full is symbolic
        fits = all(size == 1 or size == full for size, full in pairs)
        if value.dim() > input.dim() or not fits:
            raise MismatchError(
                f"{caller} needs a {name} that broadcasts to input {tuple(input.shape)}, got "
                f"{tuple(value.shape)}. Give one number, of shape () or (1,)."
            )
    for name, value in named(weight=weight, bias=bias):
        check_floats(caller, name, value)
        if not _is_per_feature(value, input) and not _is_per_channel(value, input):
            raise MismatchError(
                f"{caller} needs a {name} that broadcasts to input {tuple(input.shape)}, got "
                f"{tuple(value.shape)}. Give one entry per feature, of the shape of the last "
                "dimensions, or (C, 1, 1) for the channels of images (N, C, H, W)."
            )


def _is_per_feature(value: Tensor, input: Tensor) -> bool:
    """Whether it has the shape of the input's last dimensions, one or more if there is one."""
    least = min(1, input.dim())
    if not least <= value.dim() <= input.dim():
        return False
    return tuple(value.shape) == tuple(input.shape[input.dim() - value.dim() :])


def _is_per_channel(value: Tensor, input: Tensor) -> bool:
    """Whether it has the shape (C, 1, ...) for an input (N, C, ...)."""
    if input.dim() < 2 or value.dim() != input.dim() - 1 or value.shape[0] != input.shape[1]:
        return False
    return all(size == 1 for size in value.shape[1:])


def check_all_positive(caller: str, **tensors: Tensor) -> None:
    """Raise unless all values are positive; skipped where reading them would synchronize a GPU.

    It is skipped, too, where the values are not known yet.
    """
    for name, value in tensors.items():
        if not _is_readable(value):
            continue
        smallest = value.detach().min().item() if value.numel() else 1.0
        if not smallest > 0:  # also for NaN
            raise ValueError(
                f"{caller} needs positive numbers as {name}, got {smallest}: the root of x^2 + "
                f"{name} would be 0 or NaN. Learn log {name}, as layers.DyISRU does."
            )


def _is_readable(value: Tensor) -> bool:
    """Whether its values can be looked at, without a wait and without changing what is recorded."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if type(value) not in (Tensor, torch.nn.Parameter) or value.device.type != "cpu":
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(value)


def normalized_dims(caller: str, v: Tensor, g: Tensor, dim: int | None) -> list[int]:
    """The dimensions that a norm is taken over: every one but dim; v, g and dim are checked."""
    check_floating(caller, v)
    if dim is None or dim == -1:
        kept = None
    elif dim in range(-v.dim(), v.dim()):
        kept = dim % v.dim()
    else:
        raise IndexError(
            f"{caller} needs dim between 0 and {v.dim() - 1}, or None, "
            f"got {dim} for v {tuple(v.shape)}. Pass 0, say."
        )
    others = [d for d in range(v.dim()) if d != kept]
    lengths = tuple(1 if d in others else size for d, size in enumerate(v.shape))
    # one length for every slice may have any shape
    is_one = isinstance(g, Tensor) and g.numel() == 1
    check_parameter(caller, "g", g, tuple(g.shape) if is_one else lengths, v)
    return others
