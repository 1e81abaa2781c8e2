"""Bindings of the cost equations: kernels count the bytes they move and give the right results.

A kernel here sees memory only through `Memory`. It keeps a row, the parameters and its partial sums
on chip, as a fused kernel does; statistics and partial sums are stored in float32.
"""

from functools import partial

import torch

from normcourse import timing
from normcourse.timing.simulated import Device
from normlib import functional, gradients
from tests.equations.bindings import D, N, bind
from tests.equations.bindings_facts import count, layer_norm_row, rms_row

P = 2  # programs, each with its rows and its partial sums
EPS = 1e-2
SIZE = 8  # bytes of an element: float64


class Memory:
    moved = 0

    def read(self, tensor):
        self.moved += tensor.numel() * tensor.element_size()
        return tensor.double()

    write = read


def norm_forward(memory, x, parameters, centre):
    w, *b = (memory.read(p) for p in parameters)
    y, saved = [], []
    for row in map(memory.read, x):
        mean = row.mean() if centre else torch.zeros(())
        rstd = torch.rsqrt((row - mean).square().mean() + EPS)
        y.append(memory.write((row - mean) * rstd * w + sum(b)))
        saved.append([memory.write(s.float()) for s in ([mean, rstd] if centre else [rstd])])
    return torch.stack(y), saved


def norm_backward(memory, dy, x, w, saved, centre):
    w, dx, partial = memory.read(w), [], []
    for rows in torch.arange(len(x)).chunk(P):
        sums = torch.zeros(2 if centre else 1, x.shape[1])  # of dw, and of db
        for n in rows:
            g, row = memory.read(dy[n]), memory.read(x[n])
            *mean, rstd = (memory.read(s.float()) for s in saved[n])
            xhat = (row - sum(mean)) * rstd
            inner = g * w - xhat * (g * w * xhat).mean() - (g * w).mean() * centre
            dx.append(memory.write(rstd * inner))
            sums += torch.stack([g * xhat, g])[: len(sums)]
        partial.append(memory.write(sums.float()))
    return torch.stack(dx), *memory.write(sum(memory.read(p.float()) for p in partial))


def dyt_forward(memory, x, alpha, w, b):
    alpha, w, b = memory.read(alpha), memory.read(w), memory.read(b)
    return torch.stack(
        [memory.write(torch.tanh(alpha * row) * w + b) for row in map(memory.read, x)]
    )


def dyt_backward(memory, dy, x, alpha, w):
    alpha, w, dx, partial = memory.read(alpha), memory.read(w), [], []
    for rows in torch.arange(len(x)).chunk(P):
        sums = torch.zeros(2 * x.shape[1] + 1)  # of dw, db and dalpha
        for n in rows:
            g, row = memory.read(dy[n]), memory.read(x[n])
            t = torch.tanh(alpha * row)
            dx.append(memory.write(g * w * alpha * (1 - t.square())))
            sums += torch.cat([g * t, g, (g * w * row * (1 - t.square())).sum()[None]])
        partial.append(memory.write(sums.float()))
    sums = memory.write(sum(memory.read(p.float()) for p in partial))
    return torch.stack(dx), sums[-1:], sums[: x.shape[1]], sums[x.shape[1] : -1]


def moved(kernel, *arguments, truth):
    """Bytes that the kernel moves, once its results are right; float32 statistics allow 1e-5."""
    memory = Memory()
    results = kernel(memory, *arguments)
    results = results if isinstance(results, tuple) else (results,)
    for result, right in zip(results, truth, strict=False):
        torch.testing.assert_close(result.double(), right, rtol=1e-5, atol=1e-5)
    return memory.moved


def draws(draw):
    return draw(N, D), draw(N, D), 1 + draw(D), draw(D), 0.5 + draw(1).abs()  # dy, x, w, b, alpha


@bind("EQ-BYTES-FORWARD")
def bytes_forward(draw):
    _, x, w, b, alpha = draws(draw)
    right = functional.layer_norm(x, (D,), w, b, EPS), functional.rms_norm(x, (D,), w, EPS)
    return {
        "B_LN": moved(norm_forward, x, (w, b), True, truth=right[:1]),
        "B_RMS": moved(norm_forward, x, (w,), False, truth=right[1:]),
        "B_DyT": moved(dyt_forward, x, alpha, w, b, truth=[functional.dyt(x, alpha, w, b)]),
        **{"N": N, "D": D, "z": SIZE},
    }


@bind("EQ-BYTES-BACKWARD")
def bytes_backward(draw):
    dy, x, w, b, alpha = draws(draw)
    found = {"N": N, "D": D, "z": SIZE, "P": P}
    for name, centre in (("barB_LN", True), ("barB_RMS", False)):
        _, saved = norm_forward(Memory(), x, (w, b), centre)
        if centre:
            right = gradients.layer_norm_backward(dy, x, (D,), w, b, EPS)
        else:
            right = gradients.rms_norm_backward(dy, x, (D,), w, EPS)
        found[name] = moved(norm_backward, dy, x, w, saved, centre, truth=right)
    found["barB_DyT"] = moved(
        dyt_backward, dy, x, alpha, w, truth=gradients.dyt_backward(dy, x, alpha, w, b)
    )
    return found


@bind("EQ-INTENSITY")
def intensity(draw):
    sizes = bytes_forward(draw)
    operations = {"LN": N * count(layer_norm_row, 3), "RMS": N * count(rms_row, 2)}
    found = {f"I_{name}": total / sizes[f"B_{name}"] for name, total in operations.items()}
    return sizes | found | {f"n_{name}": total / N for name, total in operations.items()}


@bind("EQ-ROOFLINE")
def roofline(draw):
    def case(moved, operations):
        memory, arithmetic = draw(1).abs().item() + 1, draw(1).abs().item() + 1
        times = [moved / memory, operations / arithmetic]
        rates = {"W": memory, "Q": arithmetic, "I_ridge": arithmetic / memory}
        return {
            "T": sorted(times)[-1],
            "t": torch.tensor(times, dtype=torch.float64),
            "B": moved,
            "n": operations,
        } | rates

    return [case(30.0, 2.0), case(2.0, 30.0)]


@bind("EQ-TIME-LINE")
def time_line(draw):
    """A line through the times that the simulated GPU needs, found by timing.fit_line."""
    sizes = [2e6, 5e6, 8e6, 2e7, 1e8]
    seconds = [busy(Device(bandwidth=3e12, start=4e-6), size) for size in sizes]
    start, bandwidth = timing.fit_line(sizes, seconds)
    # In microseconds and megabytes: the tests compare sums of numbers of order 1.
    units = {"W": bandwidth * 1e-12, "t_start": start * 1e6, "B_half": start * bandwidth * 1e-6}
    return [
        {"B": size / 1e6, "t": time * 1e6} | units
        for size, time in zip(sizes, seconds, strict=True)
    ]


def busy(device, size):
    """Seconds for which a cold call holds the device."""
    return timing.time_on_gpu(
        partial(device.run, "kernel", size), device.empty(4 * device.cache), device
    )
