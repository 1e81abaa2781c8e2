"""Norms of weights instead of activations."""

from torch import Tensor

from normlib.functional.arithmetic import accumulate
from normlib.functional.validation import check_floating, check_parameter, overridable


@overridable
def weight_norm(v: Tensor, g: Tensor, dim: int | None = 0) -> Tensor:
    """Give every slice of v along dim the length g.  [EQ-WN]

        w = g v / ||v||,   one norm per index of dim, taken over all other dimensions

    >>> v = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    >>> functional.weight_norm(v, torch.tensor([[10.0], [1.0]]))
    tensor([[6., 8.],
            [0., 1.]])

    Args:
        v: direction, any shape; for a linear layer (out, in) and dim=0, one norm per output unit.
        g: lengths, v's shape with 1 in the normalized dimensions: (out, 1) for v (out, in). Or one for all.
        dim: None or -1 takes one norm over the whole tensor (torch's convention, also for -1).
    Returns: v's shape and dtype.
    Raises: IndexError (dim), MismatchError (shapes, dtypes). A zero slice has no direction: NaN, as in torch.
    Source: Salimans & Kingma 2016, equation (2).
    """
    others = normalized_dims("weight_norm", v, g, dim)
    direction = accumulate(v)  # once: each use of a half v would round its share of the gradient
    length = direction.square().sum(others, keepdim=True).sqrt()
    return (direction * (g / length)).to(v.dtype)


def normalized_dims(caller: str, v: Tensor, g: Tensor, dim: int | None) -> list[int]:
    """The dimensions that a norm is taken over: every one but dim; v, g and dim are checked."""
    check_floating(caller, v)
    if dim is None or dim == -1:
        kept = None
    elif dim in range(-v.dim(), v.dim()):
        kept = dim % v.dim()
    else:
        raise IndexError(
            f"{caller} needs dim between 0 and {v.dim() - 1}, or None, got {dim} for v {tuple(v.shape)}."
        )
    others = [d for d in range(v.dim()) if d != kept]
    lengths = tuple(1 if d in others else size for d, size in enumerate(v.shape))
    is_one = isinstance(g, Tensor) and g.numel() == 1  # one length for every slice may have any shape
    check_parameter(caller, "g", g, tuple(g.shape) if is_one else lengths, v)
    return others
