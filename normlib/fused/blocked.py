"""Forward and backward on rows (M, D) in plain torch,
a block at a time, so that every step is in the cache.

`out` is where y or dx goes: (M, D), contiguous, in x's dtype; no other argument is written to, and
rows may have any stride. Half types are computed in float32 and rounded once, at the end. `wanted`
says which gradients to compute, dx first; the others hold nothing of use. In the shapes R is the
rows of a block, and C its columns.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from normlib.fused.blocks import Scratch, row_blocks, tiles


def norm_forward(x: Tensor, weight: Tensor | None, eps: float, *, out: Tensor) -> Tensor:
    """Fills out with y; rstd (M,) in the dtype computed in.  [EQ-RMS]

    rstd = 1 / sqrt(mean(x^2) + eps),   y = w x rstd
    """
    scratch = Scratch(x, _wide(x))
    gain = None if weight is None else weight.to(scratch.dtype)
    rstd = x.new_empty(x.shape[0], dtype=scratch.dtype)
    for rows in row_blocks(x):
        block = scratch.read("x", x[rows])  # (R, D)
        y = scratch.result("y", out[rows])  # (R, D)

        # mean(x^2), in pairs: vector_norm is one pass less, and ten times less exact at D = 65,536
        mean_square = torch.mul(block, block, out=y).mean(1)  # (R,)

        # rstd = 1 / sqrt(mean(x^2) + eps)
        factor = torch.rsqrt(mean_square.add_(eps), out=rstd[rows])  # (R,)

        # y = w x rstd
        torch.mul(block, factor.unsqueeze(1), out=y)
        if gain is not None:
            y.mul_(gain)
        scratch.store(y, out[rows])
    return rstd


def norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    wanted: Sequence[bool],
    *,
    out: Tensor,
) -> Tensor:
    """Fills out with dx; dw (D,) in float64.  [EQ-RMS-GRAD]

        p = dy x,   shared = -rstd^2 (p . w) / D
        dx = rstd (w dy + shared x),   dw = sum of rstd p over the rows

    Not torch's native_layer_norm_backward with mean 0, which lacks only rstd mean(w dy): where w dy
    is small against its mean, the two cancel; and it adds dw up one row after another.
    """
    scratch = Scratch(x, _wide(x))
    width = x.shape[1]
    gain = _gain(weight, 1.0, width, scratch)
    dw = x.new_zeros(width, dtype=torch.float64)
    for rows in row_blocks(x):
        above = scratch.read("dy", dy[rows])  # (R, D)
        block = scratch.read("x", x[rows])  # (R, D)
        r = rstd[rows]  # (R,)

        # p = dy x
        p = torch.mul(above, block, out=scratch.buffer("p", block))  # (R, D)
        if wanted[0]:
            # shared = -rstd^2 (p . w) / D
            shared = torch.mv(p, gain).mul_(r.square()).div_(-width)  # (R,)

            # dx = rstd (w dy + shared x)
            # dy's copy is read no more
            dx = torch.mul(above, gain, out=scratch.result("dy", out[rows]))
            dx.addcmul_(block, shared.unsqueeze(1))
            dx.mul_(r.unsqueeze(1))
            scratch.store(dx, out[rows])
        if wanted[1]:
            # dw = sum of rstd p; not by torch.mv, which adds up row after row, 20 times less exact
            # at 2^14
            dw.add_(p.mul_(r.unsqueeze(1)).sum(0))
    return dw


def curve_forward(
    x: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    *,
    kind: str,
    out: Tensor,
) -> None:
    """Fills out with y; parameter one number, weight and bias (D,). kind is "tanh" or "isru"."""
    forward = {"tanh": tanh_forward, "isru": isru_forward}[kind]
    forward(x, parameter, weight, bias, scale, out=out)


def curve_backward(
    dy: Tensor,
    x: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    scale: float,
    wanted: Sequence[bool],
    *,
    kind: str,
    out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Fills out with dx; dparameter (1,), dw and db (D,) in float64."""
    backward = {"tanh": tanh_backward, "isru": isru_backward}[kind]
    return backward(dy, x, parameter, weight, scale, wanted, out=out)


def tanh_forward(
    x: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    *,
    out: Tensor,
) -> None:
    """y = w scale tanh(k x) + b,   k = alpha / scale  [EQ-DYT]"""
    scratch = Scratch(x, _wide(x))
    k = alpha.item() / scale
    gain = _gain(weight, scale, x.shape[1], scratch)
    for tile in tiles(x):
        block = scratch.read("x", x[tile])  # (R, C)

        # t = tanh(k x)
        t = torch.mul(block, k, out=scratch.result("x", out[tile]))  # (R, C)
        t.tanh_()

        # y = w scale t + b
        y = _affine_(t, gain, bias, tile[1])
        scratch.store(y, out[tile])


def tanh_backward(
    dy: Tensor,
    x: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    scale: float,
    wanted: Sequence[bool],
    *,
    out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Fills out with dx; dalpha, dw and db.  [EQ-DYT-GRAD]

    t = tanh(k x),   s = w scale dy (1 - t^2),   k = alpha / scale
    dx = k s,   dalpha = sum of s x / scale,   dw = sum of scale t dy,   db = sum of dy
    """
    scratch = Scratch(x, _wide(x))
    k = alpha.item() / scale
    gain = _gain(weight, scale, x.shape[1], scratch)
    dalpha, dw, db = _zero_sums(x)
    for tile in tiles(x):
        columns = tile[1]
        above = scratch.read("dy", dy[tile])  # (R, C)
        if wanted[3]:
            # db = sum of dy
            db[columns].add_(above.sum(0))
        if not any(wanted[:3]):
            continue

        # t = tanh(k x)
        block = scratch.read("x", x[tile])  # (R, C)
        t = torch.mul(block, k, out=scratch.buffer("t", block))  # (R, C)
        t.tanh_()

        if wanted[0] or wanted[1]:
            # s = w scale dy (1 - t^2)
            s = torch.mul(above, gain[columns], out=scratch.result("s", out[tile]))  # (R, C)
            torch.ops.aten.tanh_backward.grad_input(s, t, grad_input=s)
        if wanted[2]:
            # dw = sum of t dy, times scale at the end
            dw[columns].add_(t.mul_(above).sum(0))
        if wanted[1]:
            # dalpha = sum of s x, divided by scale at the end
            dalpha.add_(torch.mul(s, block, out=t).sum())
        if wanted[0]:
            # dx = k s
            scratch.store(s.mul_(k), out[tile])
    return dalpha.div_(scale), dw.mul_(scale), db


def isru_forward(
    x: Tensor,
    c: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    *,
    out: Tensor,
) -> None:
    """y = w scale x / sqrt(q) + b,   q = x^2 + c  [EQ-DYISRU]"""
    scratch = Scratch(x, _isru_dtype(x, c))
    far = _FAR[scratch.dtype]
    c = c.to(scratch.dtype)
    gain = _gain(weight, scale, x.shape[1], scratch)
    for tile in tiles(x):
        block = scratch.read("x", x[tile])  # (R, C)
        block = torch.clamp(block, -far, far, out=scratch.buffer("x", block))

        # root = sqrt(x^2 + c)
        root = torch.addcmul(c, block, block, out=scratch.buffer("q", block))  # (R, C)
        root.sqrt_()

        # y = w scale x / root + b
        y = torch.div(block, root, out=scratch.result("y", out[tile]))  # (R, C)
        y = _affine_(y, gain, bias, tile[1])
        scratch.store(y, out[tile])


def isru_backward(
    dy: Tensor,
    x: Tensor,
    c: Tensor,
    weight: Tensor | None,
    scale: float,
    wanted: Sequence[bool],
    *,
    out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Fills out with dx; dc, dw and db.  [EQ-DYISRU-GRAD]

    q = x^2 + c,   z = dy / sqrt(q)
    dx = w scale c z / q,   dc = -sum of dx x / (2 c),   dw = sum of scale z x,   db = sum of dy
    """
    scratch = Scratch(x, _isru_dtype(x, c))
    far = _FAR[scratch.dtype]
    c = c.to(scratch.dtype)
    gain = _gain(weight, scale, x.shape[1], scratch) * c
    dc, dw, db = _zero_sums(x)
    for tile in tiles(x):
        columns = tile[1]
        above = scratch.read("dy", dy[tile])  # (R, C)
        if wanted[3]:
            # db = sum of dy
            db[columns].add_(above.sum(0))
        if not any(wanted[:3]):
            continue
        block = scratch.read("x", x[tile])  # (R, C)
        block = torch.clamp(block, -far, far, out=scratch.buffer("x", block))

        # q = x^2 + c
        q = torch.addcmul(c, block, block, out=scratch.buffer("q", block))  # (R, C)

        # z = dy / sqrt(q)
        root = torch.sqrt(q, out=scratch.buffer("z", block))  # (R, C)
        z = torch.div(above, root, out=root)

        if wanted[0] or wanted[1]:
            # dx = w scale c z / q: the product first, since z / q overflows for a tiny c
            dx = torch.mul(z, gain[columns], out=scratch.result("dx", out[tile]))  # (R, C)
            dx.div_(q)
        if wanted[2]:
            # dw = sum of z x, times scale at the end
            dw[columns].add_(z.mul_(block).sum(0))
        if wanted[1]:
            # dc = sum of dx x, divided by -2 c at the end
            dc.add_(block.mul_(dx).sum(1).sum(dtype=torch.float64))
        if wanted[0]:
            scratch.store(dx, out[tile])
    return dc.div_(-2 * c), dw.mul_(scale), db


# From here on x / sqrt(x^2 + c) is 1, and x^2 alone would overflow. NaN stays. _isru_dtype keeps c
# small enough for that in float32: 2^60 is more than sqrt(c) / eps.
_FAR = {torch.float32: 2.0**60, torch.float64: 2.0**500}


def _isru_dtype(x: Tensor, c: Tensor) -> torch.dtype:
    return torch.float64 if c.item() > 2.0**74 else _wide(x)


def _wide(x: Tensor) -> torch.dtype:
    """The dtype that x is computed in."""
    return torch.promote_types(x.dtype, torch.float32)


def _gain(weight: Tensor | None, scale: float, width: int, scratch: Scratch) -> Tensor:
    """w scale, (D,)."""
    if weight is None:
        return torch.full((width,), scale, dtype=scratch.dtype, device=scratch.device)
    gain = weight.to(scratch.dtype)
    return gain if scale == 1 else gain * scale


def _affine_(value: Tensor, gain: Tensor, bias: Tensor | None, columns: slice) -> Tensor:
    """value <- gain value + bias, for some of their columns."""
    if bias is None:
        return value.mul_(gain[columns])
    shift = bias[columns].to(value.dtype)
    return torch.addcmul(shift, value, gain[columns], out=value)


def _zero_sums(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(1,), (D,) and (D,)."""
    single = x.new_zeros(1, dtype=torch.float64)
    first = x.new_zeros(x.shape[1], dtype=torch.float64)
    return single, first, first.clone()
