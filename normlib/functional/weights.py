"""Norms of weights instead of activations."""

from torch import Tensor

from normlib.functional.arithmetic import accumulate
from normlib.functional.validation import check_floating, check_parameter


def weight_norm(v: Tensor, g: Tensor, dim: int | None = 0) -> Tensor:
    """Give every slice of v along dim the length g.  [EQ-WN]

        w = g v / ||v||,   one norm per index of dim, taken over all other dimensions

    Args:
        v: direction, any shape; for a linear layer (out, in) and dim=0, one norm per output unit.
        g: lengths, v's shape with 1 in the normalized dimensions: (out, 1) for v (out, in). Or one for all.
        dim: None or -1 takes one norm over the whole tensor (torch's convention, also for -1).
    Returns: v's shape and dtype.
    Raises: IndexError (dim), MismatchError (shapes, dtypes). A zero slice has no direction: NaN, as in torch.
    Source: Salimans & Kingma 2016, equation (2).
    """
    check_floating("weight_norm", v)
    whole = dim is None or dim == -1
    if not whole and dim not in range(-v.dim(), v.dim()):
        raise IndexError(
            f"weight_norm needs dim between 0 and {v.dim() - 1}, or None, got {dim} for v {tuple(v.shape)}."
        )
    others = [d for d in range(v.dim()) if whole or d != dim % v.dim()]
    direction = accumulate(v)  # once: each use of a half v would round its share of the gradient
    length = direction.square().sum(others, keepdim=True).sqrt()
    is_one = isinstance(g, Tensor) and g.numel() == 1  # one length for every slice may have any shape
    check_parameter("weight_norm", "g", g, tuple(g.shape if is_one else length.shape), v)
    return (direction * (g / length)).to(v.dtype)
