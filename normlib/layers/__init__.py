"""The formulas of normlib.functional as nn.Module, with torch.nn's constructors and state dicts."""

from normlib.layers.norms import (
    BatchNorm1d,
    BatchNorm2d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    LayerNorm,
    RMSNorm,
)
from normlib.layers.pointwise import Derf, DyISRU, DyT

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "Derf",
    "DyISRU",
    "DyT",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "LayerNorm",
    "RMSNorm",
]
