"""DyT, DyISRU and Derf as nn.Module: element-wise layers without statistics or buffers."""

import math
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from normlib import functional, fused
from normlib.functional.arithmetic import accumulate, per_channel
from normlib.functional.validation import (
    channel_count,
    check_positive,
    overridable,
    sqrt_of_size,
    trailing_dims,
)
from normlib.layers.base import Affine, Device, as_shape, one_node

# relative: a checkpoint may have been rounded to bfloat16, which is off by 2^-9 at most
SAME_SCALE = 2**-8


@overridable
def check_features(
    input: Tensor, caller: str, shape: tuple[int, ...], channels_first: bool
) -> Tensor:
    """The input, when its last dimensions, or its channels, have that shape."""
    if channels_first:
        channel_count(caller, input)
        trailing_dims(caller, input.movedim(1, -1), shape)
    else:
        trailing_dims(caller, input, shape)
    return input


@overridable
def bounded_exp(log_c: Tensor) -> Tensor:
    """exp(log_c) between e^-80 and e^80: exp alone ends at 0 or inf in float32."""
    return accumulate(log_c).clamp(-80, 80).exp()


class _Pointwise(Affine):
    """Shape of an element-wise layer.

    normalized_shape names the trailing dimensions, or with channels_first the channels of (N, C,
    ...).
    """

    weight: nn.Parameter  # normalized_shape
    bias: nn.Parameter | None  # normalized_shape

    def __init__(self, normalized_shape: int | Sequence[int], channels_first: bool) -> None:
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.channels_first = channels_first
        if channels_first and len(self.normalized_shape) != 1:
            raise ValueError(
                f"{type(self).__name__} needs one number of channels with channels_first, got "
                f"{self.normalized_shape}. Pass C alone."
            )

    def _checked(self, input: Tensor) -> Tensor:
        return check_features(
            input, type(self).__name__, self.normalized_shape, self.channels_first
        )

    def _gain_and_shift(self, input: Tensor) -> tuple[Tensor, Tensor | None]:
        """weight and bias as they broadcast to the input."""
        if not self.channels_first:
            return self.weight, self.bias
        bias = None if self.bias is None else per_channel(self.bias, input)
        return per_channel(self.weight, input), bias

    def extra_repr(self) -> str:
        first = ", channels_first=True" if self.channels_first else ""
        return f"{self.normalized_shape}, bias={self.bias is not None}{first}"


class _Scaled(_Pointwise):
    """An element-wise layer whose scale, where it saturates, travels with the state dict."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        scale: float | str,
        channels_first: bool,
        fused: bool,
    ) -> None:
        super().__init__(normalized_shape, channels_first)
        self.fused = fused
        self.scale = self._number(scale)

    def _number(self, scale: float | str) -> float:
        number = sqrt_of_size(self.normalized_shape) if scale == "sqrt_d" else scale
        if not isinstance(number, int | float) or not 0 < number < math.inf:
            raise ValueError(
                f"{type(self).__name__} needs a positive number as scale, got scale={scale!r}. "
                'Pass 1.0, or "sqrt_d" for the square root of the number of features.'
            )
        return number

    def get_extra_state(self) -> Tensor:
        """The scale, as a tensor: state dicts are copied, cast and stored as tensors."""
        return torch.tensor(self.scale, dtype=torch.float64, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Take a state dict of the same scale only: another scale is another function."""
        scale = float(state)
        if not math.isclose(scale, self.scale, rel_tol=SAME_SCALE):
            raise ValueError(
                f"{type(self).__name__} has scale {self.scale:g}, "
                f"but the state dict comes from scale {scale:g}: another function. "
                f"Build the layer with scale={scale:g}, or load it there and call rescaled."
            )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # for a checkpoint without one, as the official code makes them
        own = self.get_extra_state()
        stored = state_dict.setdefault(f"{prefix}_extra_state", own)
        try:
            self.set_extra_state(stored)
        except ValueError as error:
            # torch raises all messages together; nothing is loaded here
            error_msgs.append(str(error))
            return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _options(self) -> dict[str, Any]:
        """What a layer of the same kind is built with, beside size, start and scale."""
        return {
            "bias": self.bias is not None,
            "channels_first": self.channels_first,
            "fused": self.fused,
            "device": self.weight.device,
            "dtype": self.weight.dtype,
        }

    def _fold_into(self, other: Self) -> None:
        """Weight, bias, mode and what is frozen; the ratio of the scales goes into the weight."""
        other.weight.copy_(self.weight * (self.scale / other.scale))
        if self.bias is not None and other.bias is not None:
            other.bias.copy_(self.bias)
        for name, parameter in other.named_parameters():
            parameter.requires_grad_(self.get_parameter(name).requires_grad)
        other.train(self.training)

    def extra_repr(self) -> str:
        first = ", channels_first=True" if self.channels_first else ""
        fused = ", fused=True" if self.fused else ""
        options = f"scale={self.scale:g}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, {options}{first}{fused}"


class DyT(_Scaled):
    """functional.dyt with learnable alpha (1,), weight and bias (normalized_shape).

    [EQ-DYT]

    Official checkpoints load: same names, same shapes, scale 1. Train equals eval.

    >>> layer = layers.DyT(4)
    >>> layer(torch.tensor([-8.0, 0.0, 1.0, 8.0]))
    tensor([-0.9993,  0.0000,  0.4621,  0.9993], grad_fn=<AddBackward0>)

    Args:
        normalized_shape: the trailing dimensions, an int for one of them; C with channels_first.
        alpha_init: the slope at 0 to start with, at weight 1.
        scale: where it saturates at weight 1: 1.0 as in the official code, "sqrt_d" for the
            square root of the number of features, or a positive number. It is part of the state
            dict: to load one of another scale raises; where it is missing, the constructor's is
            kept.
        fused: the same results from normlib.fused, with less memory and traffic.
    Raises: ValueError (scale, alpha_init); in the call MismatchError (shape).
    Source: Zhu et al. 2025 (arXiv 2503.10622), section 4 and its code.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        alpha_init: float = 0.5,
        scale: float | str = 1.0,
        *,
        bias: bool = True,
        channels_first: bool = False,
        fused: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, scale, channels_first, fused)
        check_finite("DyT", "alpha_init", alpha_init)
        self.alpha_init = alpha_init
        self.alpha = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self._add_affine(self.normalized_shape, device, dtype, weight=True, bias=bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.alpha, self.alpha_init)

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        x = self._checked(input)
        gain, shift = self._gain_and_shift(x)
        return library.dyt(x, self.alpha, gain, shift, self.scale)

    @torch.no_grad()
    def rescaled(self, scale: float | str) -> Self:
        """A DyT of another scale that computes the same function."""
        other = type(self)(self.normalized_shape, self.alpha_init, scale, **self._options())
        other.alpha.copy_(self.alpha * (other.scale / self.scale))
        self._fold_into(other)
        return other

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha_init={self.alpha_init}"


class DyISRU(_Scaled):
    """functional.dyisru with learnable log_c (1,), weight and bias (normalized_shape).

    [EQ-DYISRU]

    c = exp(log_c), held between e^-80 and e^80, stays positive and finite whatever finite step the
    optimizer takes. Train equals eval.

    >>> layer = layers.DyISRU(4, c_init=4.0, scale=1.0)
    >>> layer(torch.tensor([-8.0, 0.0, 1.0, 8.0]))
    tensor([-0.9701,  0.0000,  0.4472,  0.9701], grad_fn=<AddBackward0>)

    Args:
        normalized_shape, scale, fused: as in DyT, but with the explicit sqrt(D) of the derivation
            by default.
        c_init: None means scale^2, which makes the slope at 0 equal 1 (at weight 1).
    Raises: ValueError (scale, c_init); in the call MismatchError (shape).
    Source: Stollenwerk 2025 (arXiv 2503.21708); the logarithm is ours. The author's code computes
        weight x / sqrt(beta + x^2 + eps) + bias: that is c_init=beta + eps, scale=1.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        c_init: float | None = None,
        scale: float | str = "sqrt_d",
        *,
        bias: bool = True,
        channels_first: bool = False,
        fused: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, scale, channels_first, fused)
        self.c_init = self.scale**2 if c_init is None else c_init
        check_positive("DyISRU", c_init=self.c_init)
        self.log_c = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self._add_affine(self.normalized_shape, device, dtype, weight=True, bias=bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.log_c, math.log(self.c_init))

    @property
    def c(self) -> Tensor:
        """The constant under the root, (1,), in float32 for half types."""
        return bounded_exp(self.log_c)

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        x = self._checked(input)
        gain, shift = self._gain_and_shift(x)
        return library.dyisru(x, self.c, gain, shift, self.scale)

    @torch.no_grad()
    def rescaled(self, scale: float | str) -> Self:
        """A DyISRU of another scale that computes the same function: c stays."""
        other = type(self)(self.normalized_shape, self.c_init, scale, **self._options())
        other.log_c.copy_(self.log_c)
        self._fold_into(other)
        return other

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, c_init={self.c_init:g}"


class Derf(_Pointwise):
    """functional.derf with learnable alpha, shift (1,), weight and bias (normalized_shape).

    [EQ-DERF]

    Official checkpoints load: same names, same shapes. Train equals eval.

    >>> layer = layers.Derf(4)
    >>> layer(torch.tensor([-8.0, 0.0, 1.0, 8.0]))
    tensor([-1.0000,  0.0000,  0.5205,  1.0000], grad_fn=<AddBackward0>)

    Args:
        normalized_shape: the trailing dimensions, an int for one of them; C with channels_first.
        alpha_init, shift_init: slope and offset inside the bracket to start with.
    Raises: ValueError (alpha_init, shift_init); in the call MismatchError (shape).
    Source: Chen et al. 2025 (arXiv 2512.10938) and its code.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        alpha_init: float = 0.5,
        shift_init: float = 0.0,
        *,
        bias: bool = True,
        channels_first: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, channels_first)
        check_finite("Derf", "alpha_init", alpha_init)
        check_finite("Derf", "shift_init", shift_init)
        self.alpha_init = alpha_init
        self.shift_init = shift_init
        self.alpha = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self.shift = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self._add_affine(self.normalized_shape, device, dtype, weight=True, bias=bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.alpha, self.alpha_init)
        nn.init.constant_(self.shift, self.shift_init)

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        x = self._checked(input)
        gain, shift = self._gain_and_shift(x)
        return functional.derf(x, self.alpha, self.shift, gain, shift)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha_init={self.alpha_init}, shift_init={self.shift_init}"


def check_finite(caller: str, name: str, value: float) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{caller} needs a finite {name}, got {name}={value!r}. Pass 0.5, say.")
