"""DyT and DyISRU as nn.Module: element-wise layers in the place of a norm, without statistics or buffers."""

import math
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

from normlib import functional, fused
from normlib.functional.arithmetic import accumulate
from normlib.functional.validation import channel_count, check_positive, trailing_dims
from normlib.layers.base import Affine, as_shape, fused_repr


class _Pointwise(Affine):
    """Shape and scale of an element-wise layer.

    normalized_shape names the trailing dimensions, or with channels_first the channels of (N, C, ...).
    """

    def __init__(self, normalized_shape, scale: float | str, channels_first: bool, fused: bool) -> None:
        super().__init__()
        self.normalized_shape, self.channels_first = as_shape(normalized_shape), channels_first
        self.fused = fused
        if channels_first and len(self.normalized_shape) != 1:
            raise ValueError(
                f"{type(self).__name__} needs one number of channels with channels_first, got "
                f"{self.normalized_shape}. Pass C alone."
            )
        self.scale = math.sqrt(math.prod(self.normalized_shape)) if scale == "sqrt_d" else scale
        check_positive(type(self).__name__, scale=self.scale)

    def _affine_for(self, input: Tensor) -> tuple[Tensor, Tensor | None]:
        """weight and bias as they broadcast to input, whose own shape is checked first."""
        name = type(self).__name__
        if not self.channels_first:
            trailing_dims(name, input, self.normalized_shape)
            return self.weight, self.bias
        channel_count(name, input)
        trailing_dims(name, input.movedim(1, -1), self.normalized_shape)
        per_channel = (-1, *[1] * (input.dim() - 2))  # (C, 1, ...)
        bias = None if self.bias is None else self.bias.reshape(per_channel)
        return self.weight.reshape(per_channel), bias

    @torch.no_grad()
    def _folded(self, scale: float | str, **start: float) -> Self:
        """The same function at another scale: the ratio of the scales goes into the weight."""
        options = {"bias": self.bias is not None, "channels_first": self.channels_first}
        place = {"device": self.weight.device, "dtype": self.weight.dtype, "fused": self.fused}
        other = type(self)(self.normalized_shape, scale=scale, **start, **options, **place)
        other.weight.copy_(self.weight * (self.scale / other.scale))
        if self.bias is not None:
            other.bias.copy_(self.bias)
        for name, parameter in other.named_parameters():
            parameter.requires_grad_(self.get_parameter(name).requires_grad)
        return other.train(self.training)

    def extra_repr(self) -> str:
        first = ", channels_first=True" if self.channels_first else ""
        options = f"scale={self.scale:g}, bias={self.bias is not None}{first}{fused_repr(self)}"
        return f"{self.normalized_shape}, {options}"


class DyT(_Pointwise):
    """functional.dyt with learnable alpha (1,), weight and bias (normalized_shape).  [EQ-DYT]

    Official checkpoints load: same names, same shapes, scale 1. Train equals eval.

    Args:
        normalized_shape: the trailing dimensions, an int for one of them; C with channels_first.
        alpha_init: the slope at 0 to start with, at weight 1.
        scale: the level of saturation at weight 1: 1.0 as in the official code, "sqrt_d" for the square root
            of the number of features, or a positive number.
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
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(normalized_shape, scale, channels_first, fused)
        if not math.isfinite(alpha_init):
            raise ValueError(f"DyT needs a finite alpha_init, got alpha_init={alpha_init}. Pass 0.5, say.")
        self.alpha_init = alpha_init
        self.alpha = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self._add_affine(self.normalized_shape, device, dtype, weight=True, bias=bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.alpha, self.alpha_init)

    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        return library.dyt(input, self.alpha, *self._affine_for(input), self.scale)

    @torch.no_grad()
    def rescaled(self, scale: float | str) -> Self:
        """A DyT of another scale that computes the same function."""
        other = self._folded(scale, alpha_init=self.alpha_init)
        other.alpha.copy_(self.alpha * (other.scale / self.scale))
        return other

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha_init={self.alpha_init}"


class DyISRU(_Pointwise):
    """functional.dyisru with learnable log_c (1,), weight and bias (normalized_shape).  [EQ-DYISRU]

    c = exp(log_c), held between e^-80 and e^80, stays positive and finite whatever finite step the optimizer
    takes. Train equals eval.

    Args:
        normalized_shape, scale, fused: as in DyT, but with the explicit sqrt(D) of the derivation by default.
        c_init: None means scale^2, which makes the slope at 0 equal 1 (at weight 1).
    Raises: ValueError (scale, c_init); in the call MismatchError (shape).
    Source: Stollenwerk 2025 (arXiv 2503.21708), section 4; the logarithm is ours.
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
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(normalized_shape, scale, channels_first, fused)
        self.c_init = self.scale**2 if c_init is None else c_init
        check_positive("DyISRU", c_init=self.c_init)
        self.log_c = nn.Parameter(torch.empty(1, device=device, dtype=dtype))
        self._add_affine(self.normalized_shape, device, dtype, weight=True, bias=bias)

    @classmethod
    @torch.no_grad()
    def from_beta(cls, beta: float, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5) -> Self:
        """The author's x / sqrt(beta + x^2 + eps) * weight + bias as a layer: scale 1, c = beta + eps."""
        layer = cls(
            weight.shape, beta + eps, 1.0, bias=bias is not None, device=weight.device, dtype=weight.dtype
        )
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
        return layer

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.constant_(self.log_c, math.log(self.c_init))

    @property
    def c(self) -> Tensor:
        """The constant under the root, (1,), in float32 for half types."""
        return accumulate(self.log_c).clamp(-80, 80).exp()  # exp alone ends at 0 or inf in float32

    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        return library.dyisru(input, self.c, *self._affine_for(input), self.scale)

    @torch.no_grad()
    def rescaled(self, scale: float | str) -> Self:
        """A DyISRU of another scale that computes the same function: c stays."""
        other = self._folded(scale, c_init=self.c_init)
        other.log_c.copy_(self.log_c)
        return other

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, c_init={self.c_init:g}"
