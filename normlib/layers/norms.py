"""The norms as nn.Module, drop-in for torch.nn's."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from normlib import functional, fused
from normlib.functional.validation import check_eps, check_groups, check_momentum
from normlib.layers.base import Affine, as_shape, fused_repr


class LayerNorm(Affine):
    """functional.layer_norm with learnable weight and bias of normalized_shape; train equals eval.  [EQ-LN]

    Args: as torch.nn.LayerNorm. normalized_shape: the trailing dimensions, an int for one of them.
        fused: the same results from normlib.fused, with less memory and traffic.
    Raises: ValueError (eps); in the call as functional.layer_norm.
    Source: Ba, Kiros & Hinton 2016, section 3.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device=None,
        dtype=None,
        *,
        fused: bool = False,
    ) -> None:
        super().__init__()
        check_eps("LayerNorm", eps)
        self.normalized_shape, self.fused = as_shape(normalized_shape), fused
        self.eps, self.elementwise_affine = eps, elementwise_affine
        wanted = {"weight": elementwise_affine, "bias": elementwise_affine and bias}
        self._add_affine(self.normalized_shape, device, dtype, **wanted)

    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        return library.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}{fused_repr(self)}"


class RMSNorm(Affine):
    """functional.rms_norm with a learnable weight of normalized_shape; train equals eval.  [EQ-RMS]

    Args: as torch.nn.RMSNorm. eps=None: the machine epsilon of the dtype computed in.
        fused: the same results from normlib.fused, with less memory and traffic.
    Raises: ValueError (eps); in the call as functional.rms_norm.
    Source: Zhang & Sennrich 2019, section 3.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device=None,
        dtype=None,
        *,
        fused: bool = False,
    ) -> None:
        super().__init__()
        if eps is not None:
            check_eps("RMSNorm", eps)
        self.normalized_shape, self.fused = as_shape(normalized_shape), fused
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._add_affine(self.normalized_shape, device, dtype, weight=elementwise_affine)

    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        return library.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}{fused_repr(self)}"


class GroupNorm(Affine):
    """functional.group_norm with learnable weight and bias per channel; train equals eval.  [EQ-GN]

    Args: as torch.nn.GroupNorm.
    Raises: ValueError (eps, groups that do not divide the channels), ZeroDivisionError (num_groups 0, as
        torch); in the call as functional.group_norm.
    Source: Wu & He 2018, section 3.1.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_eps("GroupNorm", eps)
        check_groups("GroupNorm", num_groups, num_channels, ValueError)
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._add_affine(num_channels, device, dtype, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class _RunningNorm(Affine):
    """Constructor and state of the norms that can keep running statistics.

    Buffers: running_mean, running_var (num_features), num_batches_tracked; all None without tracking.
    """

    _version = 2  # of the state dict, as in torch: version 2 added num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_eps(type(self).__name__, eps)
        if momentum is not None:
            check_momentum(type(self).__name__, momentum)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name in ("running_mean", "running_var"):
            buffer = torch.empty(num_features, device=device, dtype=dtype) if track_running_stats else None
            self.register_buffer(name, buffer)
        count = torch.tensor(0, dtype=torch.long, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self._add_affine(num_features, device, dtype, weight=affine, bias=affine and bias)

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        super().reset_parameters()

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        tracking = f"track_running_stats={self.track_running_stats}"
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, {affine}, {tracking}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest) -> None:
        if local_metadata.get("version") in (None, 1) and self.track_running_stats:
            count = self.num_batches_tracked
            known = count is not None and not count.is_meta
            state_dict.setdefault(prefix + "num_batches_tracked", count if known else torch.tensor(0))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_rank(self, input: Tensor, *ranks: int) -> None:
        if input.dim() not in ranks:
            expected = " or ".join(f"{rank}D" for rank in ranks)
            raise ValueError(
                f"{type(self).__name__} expected {expected} input (got {input.dim()}D input of size "
                f"{tuple(input.shape)}). Reshape it, or use the layer for that rank."
            )


class _BatchNorm(_RunningNorm):
    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input, *self.ranks)
        tracks = self.training and self.track_running_stats and self.running_mean is not None
        mean, var = (self.running_mean, self.running_var) if tracks or not self.training else (None, None)
        momentum = self.momentum
        if momentum is None:  # the plain average of all batches so far, this one included
            momentum = 1 / (int(self.num_batches_tracked) + 1) if tracks else 0.0
        uses_batch = self.training or mean is None
        output = functional.batch_norm(
            input, mean, var, self.weight, self.bias, uses_batch, momentum, self.eps
        )
        if tracks:  # last: a call that raises has changed nothing
            self.num_batches_tracked.add_(1)
        return output


class BatchNorm1d(_BatchNorm):
    """functional.batch_norm on (N, C) or (N, C, L).  [EQ-BN] [EQ-BN-RUNNING] [EQ-BN-EVAL]

    Train: the batch's statistics, and the buffers move. Eval: the buffers, unless there are none.
    momentum=None keeps the plain average of all batches.

    Args: as torch.nn.BatchNorm1d. Parameters: weight, bias (num_features). Buffers: running_mean,
        running_var (num_features), num_batches_tracked.
    Raises: ValueError (eps, momentum); in the call ValueError (rank) and as functional.batch_norm.
    Source: Ioffe & Szegedy 2015, Algorithms 1 and 2.
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """functional.batch_norm on images (N, C, H, W); otherwise as BatchNorm1d.  [EQ-BN]

    Source: Ioffe & Szegedy 2015, section 3.2.
    """

    ranks = (4,)


class _InstanceNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input, self.batched_rank - 1, self.batched_rank)
        batch = input if input.dim() == self.batched_rank else input.unsqueeze(0)
        if batch.shape[1] != self.num_features:
            self._wrong_channels(batch.shape[1])
        output = functional.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return output if batch is input else output.squeeze(0)

    def _wrong_channels(self, channels: int) -> None:
        message = (
            f"{type(self).__name__} expected {self.num_features} channels (num_features), got {channels}. "
            f"Build it with num_features={channels}."
        )
        if self.affine:
            raise ValueError(message)
        warnings.warn(message, stacklevel=3)  # torch only warns: without affine the number is not used


class InstanceNorm1d(_InstanceNorm):
    """functional.instance_norm on (N, C, L) or (C, L); no affine and no buffers by default.  [EQ-IN]

    Args: as torch.nn.InstanceNorm1d.
    Raises: ValueError (eps, momentum); in the call ValueError (rank, channels), as functional.instance_norm.
    Source: Ulyanov, Vedaldi & Lempitsky 2016.
    """

    batched_rank = 3


class InstanceNorm2d(_InstanceNorm):
    """functional.instance_norm on images (N, C, H, W) or (C, H, W); otherwise as InstanceNorm1d.  [EQ-IN]

    Source: Ulyanov, Vedaldi & Lempitsky 2016.
    """

    batched_rank = 4
