"""The formulas of normlib.functional as nn.Module, with torch.nn's constructors and state dicts.

They differ from torch.nn's layers in three things. Under CUDA autocast torch computes LayerNorm,
RMSNorm and GroupNorm in float32 and returns float32; these return the input's dtype, as both do
under CPU autocast. An output has torch's layout in memory, channels_last as well, but with
fused=True it is contiguous; the gradient of the input may have another layout than torch's.
torch.jit.script refuses these layers; torch.jit.trace, torch.compile and torch.export take them.
"""

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
