"""Forward and backward of rows (M, D) on the CPU: plain torch, a block in the cache at a time.

`out` is where y or dx goes: (M, D), contiguous, in x's dtype; no other argument is written to, and
rows may have any stride. Half types are computed in float32 and rounded once, at the end. `wanted`
says which gradients to compute, dx first; the others hold nothing of use. In the shapes R is the
rows of a block, and C its columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from normlib.fused.blocks import Place, Scratch, each_block


def norm_forward(x: Tensor, weight: Tensor | None, eps: float, *, out: Tensor) -> Tensor:
    """Fill out with y, and return rstd (M,) in the dtype computed in.

    [EQ-RMS]

    rstd = 1 / sqrt(mean(x^2) + eps),   y = w x rstd
    """
    dtype = _wide(x)
    gain = None if weight is None else weight.to(dtype)
    rstd = x.new_empty(x.shape[0], dtype=dtype)

    def fill(place: Place, scratch: Scratch) -> None:
        block = scratch.read("x", x[place])  # (R, D)
        y = scratch.result("y", out[place])  # (R, D)

        # mean(x^2), in pairs: vector_norm is one pass less, and ten times less exact at D = 65,536
        mean_square = _row_means(torch.mul(block, block, out=y))  # (R,)

        # rstd = 1 / sqrt(mean(x^2) + eps)
        factor = torch.rsqrt(mean_square.add_(eps), out=rstd[place[0]])  # (R,)

        # y = w x rstd
        torch.mul(block, factor.unsqueeze(1), out=y)
        if gain is not None:
            y.mul_(gain)
        scratch.store(y, out[place])

    list(each_block(x, dtype, fill, whole_rows=True))
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
    """Fill out with dx, and return dw (D,) in float64.

    [EQ-RMS-GRAD]

        p = dy x,   shared = -rstd^2 (p . w) / D
        dx = rstd (w dy + shared x),   dw = sum of rstd p over the rows

    Not torch's native_layer_norm_backward with mean 0, which lacks only rstd mean(w dy): where w dy
    is small against its mean, the two cancel; and it adds dw up one row after another.
    """
    dtype = _wide(x)
    width = x.shape[1]
    gain = _gain(x, weight, 1.0, dtype)
    dw = x.new_zeros(width, dtype=torch.float64)

    def fill(place: Place, scratch: Scratch) -> Tensor | None:
        """The block's dx; its part of dw."""
        above = scratch.read("dy", dy[place])  # (R, D)
        block = scratch.read("x", x[place])  # (R, D)
        r = rstd[place[0]]  # (R,)

        # p = dy x
        p = torch.mul(above, block, out=scratch.buffer("p", block))  # (R, D)
        if wanted[0]:
            # shared = -rstd^2 (p . w) / D
            shared = torch.mv(p, gain).mul_(r.square()).div_(-width)  # (R,)

            # dx = rstd (w dy + shared x)
            # dy's copy is read no more
            dx = torch.mul(above, gain, out=scratch.result("dy", out[place]))
            dx.addcmul_(block, shared.unsqueeze(1))
            dx.mul_(r.unsqueeze(1))
            scratch.store(dx, out[place])
        # dw = sum of rstd p; not by torch.mv, which adds up row after row, 20 times less exact at
        # 2^14
        return p.mul_(r.unsqueeze(1)).sum(0) if wanted[1] else None

    for _, part in each_block(x, dtype, fill, whole_rows=True):
        if part is not None:
            dw.add_(part)
    return dw


def tanh_forward(
    x: Tensor,
    alpha: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    scale: float,
    *,
    out: Tensor,
) -> None:
    """Fill out with DyT's y.

    [EQ-DYT]

    y = w scale tanh(k x) + b,   k = alpha / scale
    """
    dtype = _wide(x)
    k = alpha.item() / scale
    gain = _gain(x, weight, scale, dtype)

    def fill(place: Place, scratch: Scratch) -> None:
        block = scratch.read("x", x[place])  # (R, C)

        # y = w scale tanh(k x) + b
        t = _tanh(block, k, scratch)  # (R, C)
        y = _affine(t, gain, bias, place[1], out=scratch.result("x", out[place]))
        scratch.store(y, out[place])

    list(each_block(x, dtype, fill))


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
    """Fill out with DyT's dx, and return dalpha, dw and db.

    [EQ-DYT-GRAD]

    t = tanh(k x),   s = w scale dy (1 - t^2),   k = alpha / scale
    dx = k s,   dalpha = sum of s x / scale,   dw = sum of scale t dy,   db = sum of dy
    """
    dtype = _wide(x)
    k = alpha.item() / scale
    gain = _gain(x, weight, scale, dtype)

    def fill(place: Place, scratch: Scratch, above: Tensor, sums: Sums) -> None:
        # t = tanh(k x)
        block = scratch.read("x", x[place])  # (R, C)
        t = _tanh(block, k, scratch)  # (R, C)

        if wanted[0] or wanted[1]:
            # s = w scale dy (1 - t^2)
            s = torch.mul(above, gain[place[1]], out=scratch.result("s", out[place]))  # (R, C)
            torch.ops.aten.tanh_backward.grad_input(s, t, grad_input=s)
        if wanted[2]:
            # dw = sum of t dy, times scale at the end
            sums.weight = t.mul_(above).sum(0)
        if wanted[1]:
            # dalpha = sum of s x, divided by scale at the end
            sums.parameter = torch.mul(s, block, out=t).sum(1).sum(dtype=torch.float64)
        if wanted[0]:
            # dx = k s
            scratch.store(s.mul_(k), out[place])

    dalpha, dw, db = _added_up(dy, x, wanted, dtype, fill)
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
    """Fill out with DyISRU's y.

    [EQ-DYISRU]

    y = w scale x / sqrt(q) + b,   q = x^2 + c
    """
    dtype = _isru_dtype(x, c)
    far = _FAR[dtype]
    c = c.to(dtype)
    gain = _gain(x, weight, scale, dtype)

    def fill(place: Place, scratch: Scratch) -> None:
        block = scratch.read("x", x[place])  # (R, C)
        block = torch.clamp(block, -far, far, out=scratch.buffer("x", block))

        # root = sqrt(x^2 + c)
        root = torch.addcmul(c, block, block, out=scratch.buffer("q", block))  # (R, C)
        root.sqrt_()

        # y = w scale x / root + b
        value = torch.div(block, root, out=block)  # (R, C)
        y = _affine(value, gain, bias, place[1], out=scratch.result("x", out[place]))
        scratch.store(y, out[place])

    list(each_block(x, dtype, fill))


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
    """Fill out with DyISRU's dx, and return dc, dw and db.

    [EQ-DYISRU-GRAD]

    q = x^2 + c,   z = dy / sqrt(q)
    dx = w scale c z / q,   dc = -sum of dx x / (2 c),   dw = sum of scale z x,   db = sum of dy
    """
    dtype = _isru_dtype(x, c)
    far = _FAR[dtype]
    c = c.to(dtype)
    gain = _gain(x, weight, scale, dtype) * c

    def fill(place: Place, scratch: Scratch, above: Tensor, sums: Sums) -> None:
        block = scratch.read("x", x[place])  # (R, C)
        block = torch.clamp(block, -far, far, out=scratch.buffer("x", block))

        # q = x^2 + c
        q = torch.addcmul(c, block, block, out=scratch.buffer("q", block))  # (R, C)

        # z = dy / sqrt(q)
        root = torch.sqrt(q, out=scratch.buffer("z", block))  # (R, C)
        z = torch.div(above, root, out=root)

        if wanted[0] or wanted[1]:
            # dx = (w scale c / q) z: that is at most w scale, while z / q overflows for a tiny c
            slope = torch.div(gain[place[1]], q, out=q)  # (R, C)
            dx = torch.mul(slope, z, out=scratch.result("q", out[place]))  # (R, C)
        if wanted[2]:
            # dw = sum of z x, times scale at the end
            sums.weight = z.mul_(block).sum(0)
        if wanted[1]:
            # dc = sum of dx x, divided by -2 c at the end
            sums.parameter = block.mul_(dx).sum(1).sum(dtype=torch.float64)
        if wanted[0]:
            scratch.store(dx, out[place])

    dc, dw, db = _added_up(dy, x, wanted, dtype, fill)
    return dc.div_(-2 * c), dw.mul_(scale), db


# By the kind of curve
CURVE_FORWARD = {"tanh": tanh_forward, "isru": isru_forward}
CURVE_BACKWARD = {"tanh": tanh_backward, "isru": isru_backward}


@dataclass
class Sums:
    """A block's part of the gradients that are sums, where they are wanted."""

    parameter: Tensor | None = None  # ()
    weight: Tensor | None = None  # (C,)
    bias: Tensor | None = None  # (C,)


def _added_up(
    dy: Tensor,
    x: Tensor,
    wanted: Sequence[bool],
    dtype: torch.dtype,
    fill: Callable[[Place, Scratch, Tensor, Sums], None],
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums over all blocks, (1,), (D,) and (D,), in float64; 0 where they are not wanted.

    fill(place, scratch, above, sums) writes a block's dx, and its part of the sums but for db;
    above is the block of dy.
    """

    def work(place: Place, scratch: Scratch) -> Sums:
        sums = Sums()
        above = scratch.read("dy", dy[place])  # (R, C)
        if wanted[3]:
            # db = sum of dy
            sums.bias = above.sum(0)
        if any(wanted[:3]):
            fill(place, scratch, above, sums)
        return sums

    parameter = x.new_zeros(1, dtype=torch.float64)
    weight = x.new_zeros(x.shape[1], dtype=torch.float64)
    bias = weight.clone()
    for (_, columns), part in each_block(x, dtype, work):
        if part.parameter is not None:
            parameter.add_(part.parameter)
        if part.weight is not None:
            weight[columns].add_(part.weight)
        if part.bias is not None:
            bias[columns].add_(part.bias)
    return parameter, weight, bias


# From here on x / sqrt(x^2 + c) is 1, and x^2 alone would overflow. NaN stays. _isru_dtype keeps c
# small enough for that in float32: 2^60 is more than sqrt(c) / eps.
_FAR = {torch.float32: 2.0**60, torch.float64: 2.0**500}


def _isru_dtype(x: Tensor, c: Tensor) -> torch.dtype:
    return torch.float64 if c.item() > 2.0**74 else _wide(x)


def _row_means(block: Tensor) -> Tensor:
    """(R,): each row is added up in the same order, whether it is alone in its block or not.

    torch shares a lone row of 2^15 numbers or more among its threads, which adds in another order;
    of two rows each has a thread.
    """
    if len(block) == 1:
        return block.expand(2, -1).mean(1)[:1]
    return block.mean(1)


def _wide(x: Tensor) -> torch.dtype:
    """The dtype that x is computed in."""
    return torch.promote_types(x.dtype, torch.float32)


def _gain(x: Tensor, weight: Tensor | None, scale: float, dtype: torch.dtype) -> Tensor:
    """w scale, (D,)."""
    if weight is None:
        return x.new_full((x.shape[1],), scale, dtype=dtype)
    gain = weight.to(dtype)
    return gain if scale == 1 else gain * scale


def _tanh(block: Tensor, k: float, scratch: Scratch) -> Tensor:
    """tanh(k x), in memory of its own.

    torch.tanh is MKL's where torch has MKL, which takes five times as long as oneDNN's on an AMD
    EPYC; oneDNN's two copies are small beside that.
    """
    if block.dtype == torch.float32 and _HAS_MKL_AND_ONEDNN:
        return block.to_mkldnn().mul_(k).tanh_().to_dense()
    return torch.mul(block, k, out=scratch.buffer("t", block)).tanh_()


_HAS_MKL_AND_ONEDNN = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


def _affine(
    value: Tensor, gain: Tensor, bias: Tensor | None, columns: slice, *, out: Tensor
) -> Tensor:
    """gain value + bias, for some of their columns."""
    if bias is None:
        return torch.mul(value, gain[columns], out=out)
    shift = bias[columns].to(value.dtype)
    return torch.addcmul(shift, value, gain[columns], out=out)
