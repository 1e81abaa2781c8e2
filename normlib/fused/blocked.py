"""Forward and backward on rows (M, D) in plain torch, a block at a time, so that every step is in the cache.

Half types are computed in float32 and rounded once, at the end. `wanted` says which gradients to compute, in
the order returned; the others are None. Rows may have any stride; no argument is written to.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Elements of a block per thread, whose buffers stay in the L3 cache. At 2^15, where a call costs as much as
# its work, forward and backward of 2048 x 4096 take 1.3 to 2.4 times as long; at 2^21, 1.0 to 2.4 times.
BLOCK = 1 << 18


def norm_forward(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """y (M, D) in x's dtype, and 1 / rms (M,) in the dtype computed in.  [EQ-RMS]"""
    y, space = torch.empty(x.shape, dtype=x.dtype, device=x.device), _Space(x, 2)
    rstd, weight = x.new_empty(x.shape[0], dtype=space.dtype), space.cast(weight)
    for rows in _spans(x.shape[0], _block() // max(x.shape[1], 1)):
        block, out = space.read(0, x[rows]), space.place(1, y[rows])
        # summed in pairs: vector_norm is one pass less, and ten times less exact at D = 65,536
        mean_square = torch.mul(block, block, out=out).mean(1)
        factor = torch.rsqrt(mean_square.add_(eps), out=rstd[rows])
        torch.mul(block, factor.unsqueeze(1), out=out)
        if weight is not None:
            out.mul_(weight)
        space.write(y[rows], out)
    return y, rstd


def norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, rstd: Tensor, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor]:
    """dx (M, D) in x's dtype and dw (D,) in float64.  [EQ-RMS-GRAD]

    With p = dy x:   dx = rstd (w dy - x rstd^2 (p . w) / D),   dw = sum of rstd p over the rows
    """
    dx, space = torch.empty(x.shape, dtype=x.dtype, device=x.device), _Space(x, 3)
    gain = x.new_ones(x.shape[1], dtype=space.dtype) if weight is None else space.cast(weight)
    dw = x.new_zeros(x.shape[1], dtype=torch.float64)
    for rows in _spans(x.shape[0], _block() // max(x.shape[1], 1)):
        g, block, r = space.read(0, dy[rows]), space.read(1, x[rows]), rstd[rows]
        p = torch.mul(g, block, out=space.buffer(2, block))
        if wanted[0]:
            shared = torch.mv(p, gain).mul_(r.square()).div_(-x.shape[1])
            out = torch.mul(g, gain, out=space.place(0, dx[rows]))  # g itself, where g is our copy
            out.addcmul_(block, shared.unsqueeze(1)).mul_(r.unsqueeze(1))
            space.write(dx[rows], out)
        if wanted[1]:  # not torch.mv: it adds one row after another, 20 times less exact for 2^14 rows
            dw.add_(p.mul_(r.unsqueeze(1)).sum(0))
    return dx, dw


def curve_forward(
    x: Tensor, parameter: Tensor, weight: Tensor | None, bias: Tensor | None, scale: float, *, curve: str
) -> Tensor:
    """y (M, D) = w scale f(k x) + b in x's dtype; parameter one number, weight and bias (D,).

    curve "tanh": f = tanh, k = alpha / scale  [EQ-DYT];   "isru": f(u) = u / sqrt(1 + u^2), k = 1 / sqrt(c)
    [EQ-DYISRU]
    """
    y, space, f = torch.empty(x.shape, dtype=x.dtype, device=x.device), _Space(x, 4), _CURVES[curve]
    k, gain, bias = f.inner(parameter, scale), space.gain(weight, scale, x.shape[1]), space.cast(bias)
    for rows, columns in _tiles(x):
        tile, place = x[rows, columns], y[rows, columns]
        out = space.place(0, place)
        u = torch.mul(space.read(1, tile), k, out=space.buffer(2, tile))
        f.value(u, space.buffer(3, tile), out)
        if bias is not None:
            torch.addcmul(bias[columns], out, gain[columns], out=out)
        elif weight is not None or scale != 1:
            out.mul_(gain[columns])
        space.write(place, out)
    return y


def curve_backward(
    dy: Tensor,
    x: Tensor,
    parameter: Tensor,
    weight: Tensor | None,
    scale: float,
    wanted: Sequence[bool],
    *,
    curve: str,
) -> tuple[Tensor, ...]:
    """dx (M, D) in x's dtype, dparameter (1,), dw and db (D,) in float64.  [EQ-DYT-GRAD] [EQ-DYISRU-GRAD]

    With s = dy w scale f'(k x):   dx = k s,   dparameter = (sum of s x) dk / dparameter
    dw = sum of dy scale f(k x) over the rows,   db = sum of dy over the rows
    """
    dx, space, f = torch.empty(x.shape, dtype=x.dtype, device=x.device), _Space(x, 6), _CURVES[curve]
    k, gain = f.inner(parameter, scale), space.gain(weight, scale, x.shape[1])
    dparameter, dw, db = (x.new_zeros(size, dtype=torch.float64) for size in (1, x.shape[1], x.shape[1]))
    for rows, columns in _tiles(x):
        tile, place = x[rows, columns], dx[rows, columns]
        above, block = space.read(0, dy[rows, columns]), space.read(1, tile)
        if wanted[3]:
            db[columns].add_(above.sum(0))
        if not any(wanted[:3]):
            continue
        u = torch.mul(block, k, out=space.buffer(2, tile))
        value, spare = space.buffer(3, tile), space.buffer(4, tile)
        f.value(u, spare, value)
        if wanted[0] or wanted[1]:
            s = torch.mul(above, gain[columns], out=space.place(5, place))
            f.times_slope(s, value, spare)
        if wanted[2]:
            dw[columns].add_(value.mul_(above).sum(0))
        if wanted[1]:
            dparameter.add_(torch.mul(s, f.against(block, u), out=value).sum())
        if wanted[0]:
            space.write(place, s.mul_(k))
    dparameter.mul_(f.by_parameter(parameter, scale))
    return dx, dparameter, dw.mul_(scale), db


class _Tanh:
    """f(u) = tanh u, k = alpha / scale."""

    @staticmethod
    def inner(alpha: Tensor, scale: float) -> float:
        return alpha.item() / scale

    @staticmethod
    def by_parameter(alpha: Tensor, scale: float) -> float:
        return 1 / scale

    @staticmethod
    def value(u: Tensor, spare: Tensor, out: Tensor) -> None:
        torch.tanh(u, out=out)

    @staticmethod
    def times_slope(s: Tensor, value: Tensor, spare: Tensor) -> None:
        torch.ops.aten.tanh_backward.grad_input(s, value, grad_input=s)  # s (1 - value^2) in one pass

    @staticmethod
    def against(x: Tensor, u: Tensor) -> Tensor:
        return x


class _Isru:
    """f(u) = u / sqrt(1 + u^2), k = 1 / sqrt(c)."""

    @staticmethod
    def inner(c: Tensor, scale: float) -> float:
        return c.double().rsqrt().item()

    @staticmethod
    def by_parameter(c: Tensor, scale: float) -> float:
        return -0.5 / c.item()  # of sum s u: x = u / k, dk / dc = -k / (2 c)

    @staticmethod
    def value(u: Tensor, spare: Tensor, out: Tensor) -> None:
        far = 1 / torch.finfo(u.dtype).eps  # f is 1 from here on, and u^2 would overflow
        u.clamp_(-far, far)
        torch.addcmul(u.new_ones(()), u, u, out=spare).rsqrt_()
        torch.mul(u, spare, out=out)

    @staticmethod
    def times_slope(s: Tensor, value: Tensor, spare: Tensor) -> None:
        s.mul_(spare).mul_(spare).mul_(spare)  # f' = (1 + u^2)^(-3/2)

    @staticmethod
    def against(x: Tensor, u: Tensor) -> Tensor:
        return u


_CURVES = {"tanh": _Tanh, "isru": _Isru}


class _Space:
    """Buffers for one block of x, in the dtype that x is computed in."""

    def __init__(self, x: Tensor, buffers: int) -> None:
        self.dtype = torch.promote_types(x.dtype, torch.float32)
        size = min(x.numel(), max(_block(), x.shape[1]))
        self.flat = torch.empty(buffers, size, dtype=self.dtype, device=x.device)

    def buffer(self, number: int, tile: Tensor) -> Tensor:
        return self.flat[number, : tile.numel()].view(tile.shape)

    def place(self, number: int, tile: Tensor) -> Tensor:
        """Where to compute what tile is to hold: tile itself where its dtype allows."""
        return tile if tile.dtype == self.dtype else self.buffer(number, tile)

    def read(self, number: int, tile: Tensor) -> Tensor:
        return tile if tile.dtype == self.dtype else self.buffer(number, tile).copy_(tile)

    def write(self, tile: Tensor, computed: Tensor) -> None:
        if tile.dtype != self.dtype:
            tile.copy_(computed)

    def cast(self, row: Tensor | None) -> Tensor | None:
        return None if row is None else row.to(self.dtype)

    def gain(self, weight: Tensor | None, scale: float, size: int) -> Tensor:
        """weight times scale, (D,)."""
        if weight is None:
            return self.flat.new_full((size,), scale)
        return self.cast(weight) if scale == 1 else self.cast(weight) * scale


def _block() -> int:
    return BLOCK * torch.get_num_threads()


def _spans(total: int, step: int) -> Iterator[slice]:
    return (slice(start, start + max(step, 1)) for start in range(0, total, max(step, 1)))


def _tiles(x: Tensor) -> Iterator[tuple[slice, slice]]:
    rows, columns = _block() // max(x.shape[1], 1), min(x.shape[1], _block())
    return ((r, c) for r in _spans(x.shape[0], rows) for c in _spans(x.shape[1], columns))
