"""Norms of weights instead of activations."""

from torch import Tensor

from normlib.functional.arithmetic import accumulate
from normlib.functional.validation import normalized_dims, overridable


@overridable
def weight_norm(v: Tensor, g: Tensor, dim: int | None = 0) -> Tensor:
    """Give every slice of v along dim the length g.

    [EQ-WN]

        w = g v / ||v||,   one norm per index of dim, taken over all other dimensions

    >>> v = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    >>> functional.weight_norm(v, torch.tensor([[10.0], [1.0]]))
    tensor([[6., 8.],
            [0., 1.]])

    Args:
        v: direction, any shape; for a linear layer (out, in) and dim=0, one norm per output unit.
        g: lengths, v's shape with 1 in the normalized dimensions: (out, 1) for v (out, in). Or one
            for all.
        dim: None or -1 takes one norm over the whole tensor (torch's convention, also for -1).
    Returns: v's shape and dtype.
    Raises: IndexError (dim), MismatchError (shapes, dtypes). A zero slice has no direction and
        gives NaN, as in torch.
    Source: Salimans & Kingma 2016, equation (2).
    """
    others = normalized_dims("weight_norm", v, g, dim)
    direction = accumulate(v)  # once: each use of a half v would round its share of the gradient
    length = direction.square().sum(others, keepdim=True).sqrt()
    return (direction * (g / length)).to(v.dtype)
