"""Forward formulas in plain torch.

Names and arguments are those of torch.nn.functional where it has them.

Half types are computed in float32 and rounded once, at the end. Tags such as [EQ-LN] point to
notebooks/reference/equations.md.
"""

from normlib.functional.norms import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from normlib.functional.pointwise import derf, dyisru, dyt, isru, softcap
from normlib.functional.weights import weight_norm

__all__ = [
    "batch_norm",
    "derf",
    "dyisru",
    "dyt",
    "group_norm",
    "instance_norm",
    "isru",
    "layer_norm",
    "rms_norm",
    "softcap",
    "weight_norm",
]
