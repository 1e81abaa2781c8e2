"""The norms as nn.Module, drop-in for torch.nn's."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from normlib import functional, fused
from normlib.functional.validation import check_eps, check_groups, check_momentum
from normlib.layers.base import Affine, Device, as_shape, one_node


class LayerNorm(Affine):
    """functional.layer_norm with learnable weight and bias of normalized_shape; train equals eval.

    [EQ-LN]

    >>> layer = layers.LayerNorm(4)
    >>> layer(torch.tensor([1.0, 3.0, 5.0, 7.0]))
    tensor([-1.3416, -0.4472,  0.4472,  1.3416], grad_fn=<AddBackward0>)

    Args:
        normalized_shape: the trailing dimensions, an int for one of them.
        eps, elementwise_affine, bias, device, dtype: as in torch.nn.LayerNorm.
        fused: the same results from normlib.fused, with less memory and traffic.
    Raises: ValueError (eps); in the call as functional.layer_norm.
    Source: Ba, Kiros & Hinton 2016, section 3.
    """

    weight: nn.Parameter | None  # normalized_shape
    bias: nn.Parameter | None  # normalized_shape

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        fused: bool = False,
    ) -> None:
        super().__init__()
        check_eps("LayerNorm", eps)
        self.normalized_shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.fused = fused
        has_bias = elementwise_affine and bias
        self._add_affine(
            self.normalized_shape, device, dtype, weight=elementwise_affine, bias=has_bias
        )

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        return library.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        fused = ", fused=True" if self.fused else ""
        return f"{self.normalized_shape}, eps={self.eps}, {affine}{fused}"


class RMSNorm(Affine):
    """functional.rms_norm with a learnable weight of normalized_shape; train equals eval.

    [EQ-RMS]

    >>> layer = layers.RMSNorm(4)
    >>> layer(torch.tensor([1.0, 3.0, 5.0, 7.0]))
    tensor([0.2182, 0.6547, 1.0911, 1.5275], grad_fn=<MulBackward0>)

    Args:
        normalized_shape: the trailing dimensions, an int for one of them.
        eps: None means the machine epsilon of the dtype computed in.
        elementwise_affine, device, dtype: as in torch.nn.RMSNorm.
        fused: the same results from normlib.fused, with less memory and traffic.
    Raises: ValueError (eps); in the call as functional.rms_norm.
    Source: Zhang & Sennrich 2019, section 3.
    """

    weight: nn.Parameter | None  # normalized_shape

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        fused: bool = False,
    ) -> None:
        super().__init__()
        if eps is not None:
            check_eps("RMSNorm", eps)
        self.normalized_shape = as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.fused = fused
        self._add_affine(self.normalized_shape, device, dtype, weight=elementwise_affine)

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        library = fused if self.fused else functional
        return library.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}"
        fused = ", fused=True" if self.fused else ""
        return f"{self.normalized_shape}, eps={self.eps}, {affine}{fused}"


class GroupNorm(Affine):
    """functional.group_norm with learnable weight and bias per channel; train equals eval.

    [EQ-GN]

    >>> layer = layers.GroupNorm(num_groups=2, num_channels=4)
    >>> layer(torch.tensor([[1.0, 3.0, 5.0, 9.0]]))
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]], grad_fn=<AddBackward0>)

    The arguments are those of torch.nn.GroupNorm.

    Raises: ValueError (eps, groups that do not divide the channels), ZeroDivisionError (num_groups
        0, as torch); in the call as functional.group_norm.
    Source: Wu & He 2018, section 3.1.
    """

    weight: nn.Parameter | None  # (C,)
    bias: nn.Parameter | None  # (C,)

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_eps("GroupNorm", eps)
        check_groups("GroupNorm", num_groups, num_channels, ValueError)
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._add_affine(num_channels, device, dtype, weight=affine, bias=affine and bias)

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class _RunningNorm(Affine):
    """Constructor and state of the norms that can keep running statistics.

    Buffers: running_mean, running_var (num_features), num_batches_tracked; all None without
        tracking.
    """

    _version = 2  # of the state dict, as in torch: version 2 added num_batches_tracked
    weight: nn.Parameter | None  # (C,)
    bias: nn.Parameter | None  # (C,)
    running_mean: Tensor | None  # (C,)
    running_var: Tensor | None  # (C,)
    num_batches_tracked: Tensor | None  # ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_eps(type(self).__name__, eps)
        if momentum is not None:
            check_momentum(type(self).__name__, momentum)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        mean = torch.empty(num_features, device=device, dtype=dtype)
        var = torch.empty(num_features, device=device, dtype=dtype)
        count = torch.tensor(0, dtype=torch.long, device=device)
        self.register_buffer("running_mean", mean if track_running_stats else None)
        self.register_buffer("running_var", var if track_running_stats else None)
        self.register_buffer("num_batches_tracked", count if track_running_stats else None)
        self._add_affine(num_features, device, dtype, weight=affine, bias=affine and bias)

    def reset_running_stats(self) -> None:
        if self.running_mean is not None:
            self.running_mean.zero_()
        if self.running_var is not None:
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        super().reset_parameters()

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        tracking = f"track_running_stats={self.track_running_stats}"
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, {affine}, {tracking}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version") in (None, 1) and self.track_running_stats:
            count = self.num_batches_tracked
            if count is None or count.is_meta:
                count = torch.tensor(0)
            state_dict.setdefault(prefix + "num_batches_tracked", count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_rank(self, input: Tensor, *ranks: int) -> None:
        if input.dim() not in ranks:
            expected = " or ".join(f"{rank}D" for rank in ranks)
            raise ValueError(
                f"{type(self).__name__} expected {expected} input (got {input.dim()}D input of "
                f"size {tuple(input.shape)}). Reshape it, or use the layer for that rank."
            )


class _BatchNorm(_RunningNorm):
    ranks: ClassVar[tuple[int, ...]]  # of an input

    @one_node
    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input, *self.ranks)
        tracks = self.training and self.track_running_stats
        reads_buffers = tracks or not self.training
        mean = self.running_mean if reads_buffers else None
        var = self.running_var if reads_buffers else None
        uses_batch = self.training or (mean is None and var is None)
        output = functional.batch_norm(
            input,
            mean,
            var,
            self.weight,
            self.bias,
            uses_batch,
            self._update_weight(tracks),
            self.eps,
        )
        # last: a call that raises has changed nothing
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return output

    def _update_weight(self, tracks: bool) -> float:
        """Weight of this batch in the running statistics; 1 / (n + 1) if momentum is None."""
        if self.momentum is not None:
            return self.momentum
        if not tracks or self.num_batches_tracked is None:
            return 0.0
        return 1 / (int(self.num_batches_tracked) + 1)


class BatchNorm1d(_BatchNorm):
    """functional.batch_norm on (N, C) or (N, C, L).

    [EQ-BN] [EQ-BN-RUNNING] [EQ-BN-EVAL]

    Train: the batch's statistics, and the buffers move. Eval: the buffers, unless there are none.
    momentum=None keeps the plain average of all batches.

    >>> layer = layers.BatchNorm1d(1)
    >>> layer(torch.tensor([[1.0], [3.0], [5.0], [7.0]])).flatten()
    tensor([-1.3416, -0.4472,  0.4472,  1.3416], grad_fn=<ViewBackward0>)
    >>> layer.running_mean, layer.running_var
    (tensor([0.4000]), tensor([1.5667]))

    The arguments are those of torch.nn.BatchNorm1d. Parameters are weight and bias (num_features),
    buffers running_mean and running_var (num_features) and num_batches_tracked.

    Raises: ValueError (eps, momentum); in the call ValueError (rank) and as functional.batch_norm.
    Source: Ioffe & Szegedy 2015, Algorithms 1 and 2.
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """functional.batch_norm on images (N, C, H, W); otherwise as BatchNorm1d.

    [EQ-BN]

    >>> image = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    >>> layers.BatchNorm2d(1, affine=False)(image)
    tensor([[[[-1.3416, -0.4472],
              [ 0.4472,  1.3416]]]])

    Source: Ioffe & Szegedy 2015, section 3.2.
    """

    ranks = (4,)


class _InstanceNorm(_RunningNorm):
    batched_rank: ClassVar[int]  # of an input with a batch dimension

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    @one_node
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
            f"{type(self).__name__} expected {self.num_features} channels (num_features), got "
            f"{channels}. Build it with num_features={channels}."
        )
        if self.affine:
            raise ValueError(message)
        # torch only warns: without affine the number is not used
        warnings.warn(message, stacklevel=3)


class InstanceNorm1d(_InstanceNorm):
    """functional.instance_norm on (N, C, L) or (C, L); no affine and no buffers by default.

    [EQ-IN]

    >>> x = torch.tensor([[[1.0, 3.0], [5.0, 9.0]]])  # one sample, two channels, two positions
    >>> layers.InstanceNorm1d(2)(x)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])

    The arguments are those of torch.nn.InstanceNorm1d.

    Raises: ValueError (eps, momentum); in the call ValueError (rank, channels), as
        functional.instance_norm.
    Source: Ulyanov, Vedaldi & Lempitsky 2016.
    """

    batched_rank = 3


class InstanceNorm2d(_InstanceNorm):
    """functional.instance_norm on images (N, C, H, W) or (C, H, W); otherwise as InstanceNorm1d.

    [EQ-IN]

    >>> image = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    >>> layers.InstanceNorm2d(1)(image)
    tensor([[[[-1.3416, -0.4472],
              [ 0.4472,  1.3416]]]])

    Source: Ulyanov, Vedaldi & Lempitsky 2016.
    """

    batched_rank = 4
