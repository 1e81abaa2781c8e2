"""Checks of lesson 07, timing: one per exercise."""

import contextlib
import functools
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from normcourse import draw
from normcourse.checks import rms_rows
from normcourse.checks.probes import calls, forbid, unchanged
from normcourse.checks.values import UNITS, as_number
from normcourse.checks.verdict import Slip, every_case, exercise, expect, expect_all
from normcourse.timing.simulated import Device
from normlib import functional

RTOL = 0.01  # of a time
ROUNDS = 5  # fewer have no median that stands a disturbed one or two


ROWS, DIM, TERABYTES = 32_768, 4_096, 3.35


@exercise("Exercise 1 (a least time)", f"{ROWS:,} rows of {DIM:,} numbers", f"W = {TERABYTES} TB/s")
def least_time(microseconds) -> None:
    """RMSNorm forward, bfloat16, on an H100: its bytes over the bandwidth of the data sheet."""
    tensor = ROWS * DIM * 2  # bytes
    bandwidth = TERABYTES * 1e12
    right = 2 * tensor / bandwidth * 1e6
    slips = {
        "x is read and y is written: two tensors. You count one, or one byte a number.": right / 2,
        "two slips: there are two tensors, and a bfloat16 number has 2 bytes.": right / 4,
        "three tensors are a backward; and a kernel that keeps its row need not read it again.": (
            right * 3 / 2
        ),
        "bfloat16 has 2 bytes a number, not 4; and a fused kernel reads x once.": 2 * right,
        "that is forward and backward; only the forward is asked.": right * 5 / 2,
        "in microseconds, please, not seconds.": right * 1e-6,
        "in microseconds, please, not milliseconds.": right * 1e-3,
        "in microseconds, please, not nanoseconds.": right * 1e3,
        "count bytes, not bits.": right * 8,
        "2 is bytes already: do not divide by 8.": right / 8,
        "that is for 500 MB; two tensors of 2^28 bytes are 537 MB.": 5e8 / bandwidth * 1e6,
        "that is for 530 MB; two tensors of 2^28 bytes are 537 MB.": 5.3e8 / bandwidth * 1e6,
        "a terabyte is 10^12 bytes here, not 2^40.": right * 1e12 / 2**40,
        "turn it round: bytes over bytes a second.": bandwidth / (2 * tensor),
        "those are the bytes; divide them by the bandwidth.": 2.0 * tensor,
        "that is what others measured; the least time is what the data sheet allows.": 185.0,
    }
    expect(microseconds, right, slips, "the time", rtol=0.01)


WRITTEN_DOWN, LEAN = 7, 5  # large tensors that the formula moves, and that are enough


@exercise("Exercise 2 (fewer trips)", f"moves {WRITTEN_DOWN} tensors", f"moves {LEAN} at most")
def trips(student: Callable) -> str:
    """student(x, weight, eps) is RMSNorm of rows, and moves few large tensors.

    [EQ-RMS]
    """
    student = forbid(student, "normlib", "rms_norm", "layer_norm", "group_norm", "compile")
    cases = [
        {"x": 1 + draw(*shape), "weight": draw(shape[-1], seed=1), "eps": eps}
        # the first is square, so that a lost keepdim still broadcasts
        for shape, eps in (((4, 4), 0.5), ((6,), 0.3), ((2, 3, 5), 0.1))
    ]
    calls(student, rms_rows.rms_norm, *cases, slips=rms_rows.RMS_SLIPS)
    x = draw(64, 256, seed=2)
    with _Trips() as seen:
        student(x, draw(256, seed=3), 0.1)
    moved = round(seen.numbers / x.numel())
    if moved < 3:
        raise Slip(
            "the values are right, and torch's operations hardly move anything: "
            "whoever computes here, no operation of torch does. Write it in torch's operations."
        )
    if moved > LEAN:
        raise Slip(f"the values are right, and it moves {moved} tensors: {seen.advice(x.numel())}")
    return f"it moves {moved} tensors"


class _Trips(TorchDispatchMode):
    """Counts the numbers that torch's operations read and write, one after the other."""

    UNREAD = ("fill_", "zero_", "copy_")  # they write into their first argument, and read it not
    UNWRITTEN = ("empty", "new_empty")

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0
        self.calls: list[tuple[str, int]] = []  # operation, numbers

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        given = args[1:] if name in self.UNREAD else args
        read = _storages(given)
        written = _storages(result)
        changes = function._schema.is_mutable
        is_view = bool(written) and written.keys() <= read.keys() and not changes
        if is_view or name.startswith(self.UNWRITTEN):
            return result
        numbers = sum(read.values()) + sum(written.values())
        self.numbers += numbers
        self.calls.append((name, numbers))
        return result

    def advice(self, large: int) -> str:
        """The first operation that writes what another one only has to sum."""
        names = [name for name, numbers in self.calls if numbers > 0.9 * large]
        if "_to_copy" in names or "clone" in names:
            return "one of them is a copy that the norm does not need."
        if names.count("mean") + names.count("sum") > 0:
            return (
                "one operation writes a tensor that the next one only sums. "
                "Which operation makes one number of a row, and writes no other? Counted are: "
                f"{', '.join(names)}."
            )
        if not names:
            return "many small operations, each of which reads and writes."
        return f"its large operations are {', '.join(names)}."


def _storages(values) -> dict[int, int]:
    """Numbers of each tensor among values; an expanded one holds fewer than it shows."""
    found = {}
    for value in torch.utils._pytree.tree_leaves(values):
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            held = storage.nbytes() // value.element_size()
            found[storage.data_ptr()] = min(held, value.numel())
    return found


@exercise("Exercise 3 (the broken benchmark)", "four devices")
def stopwatch(student: Callable) -> None:
    """student(f, waste, cuda) -> seconds that the device works on one call of f.

    f is compiled, and its data are not in the cache; cuda has the names of torch.cuda.
    """
    habits = []  # of the devices with a wrong time
    try:
        with every_case() as cases:
            for moved, settings in (
                (8e6, {}),
                (268e6, {}),
                (2e6, {"launch": 15e-6}),
                (8e6, {"interrupt": 4}),  # at least one of any ROUNDS calls, and fewer than half
            ):
                device = Device(**settings)
                right = device.start + moved / device.bandwidth
                f = functools.partial(device.run, "kernel", moved)
                with _clocks_of(device):
                    got = student(f, device.empty(4 * device.cache), device)
                if not _is_near(got, right):
                    habits.append(_habit(device, right))
                what = f"the time of a kernel of {moved / 1e6:g} MB"
                cases.expect(got, right, _units(right), what, rtol=RTOL, atol=0.0)
                _enough(device)
    except Slip as slip:
        known = habits[0] if habits and " is off by " in str(slip) else ""
        raise Slip(known or str(slip)) from None
    _warms_up(student)


def _warms_up(student: Callable) -> None:
    """A median hides a slow first call, but it moves with how slow that call is."""
    answers = []
    for first in (0.5, 0.0):  # seconds
        device = Device(first=first)
        with _clocks_of(device):
            got = student(_slower_each_call(device), device.empty(4 * device.cache), device)
        answers.append(as_number(got))
    timed = any("first" in span for _, span in device.spans)
    slow, quick = answers
    if timed and abs(slow / quick - 1) > 1e-6:  # from one call to the next it is 1e-2
        raise Slip(
            "no warm-up: the first call, which loads and compiles, is one of your times. "
            "Your average hides it here. Call f before you measure, and wait."
        )


def _slower_each_call(device: Device) -> Callable[[], None]:
    """A kernel whose calls all differ: each one moves 1 % of 8 MB more than the last."""
    sizes = itertools.count(8e6, 8e4)
    return lambda: device.run("kernel", next(sizes))


@contextlib.contextmanager
def _clocks_of(device: Device) -> Iterator[None]:
    """The host's clocks show the time of this device, and torch.cuda is not to be called."""

    def not_this(*_, **__):
        raise Slip(
            "call `cuda.…` where you call `torch.cuda.…`: "
            "the parameter is torch.cuda at work, and the check's device here."
        )

    with contextlib.ExitStack() as stack:
        for name in ("perf_counter", "time", "monotonic"):
            stack.enter_context(mock.patch.object(time, name, device.clock))
        for name in ("Event", "synchronize"):
            stack.enter_context(mock.patch.object(torch.cuda, name, not_this))
        yield


def _units(right: float) -> dict[str, float]:
    slips = {f"seconds, please, not {unit}.": scale * right for unit, scale in UNITS.items()}
    return slips | {
        "divide by 1000 once: elapsed_time counts milliseconds.": right / 1000,
        "turn it round: first.elapsed_time(last).": -right,
        "turn it round, first.elapsed_time(last), and divide by 1000.": -1e3 * right,
    }


def _enough(device: Device) -> None:
    if len(device.spans) < ROUNDS:
        raise Slip(
            f"you time {len(device.spans)} of {ROUNDS} calls at least: "
            "any of them may be disturbed. Take their median."
        )


def _is_near(got, right: float) -> bool:
    try:
        return abs(as_number(got) / right - 1) <= RTOL
    except (TypeError, ValueError, OverflowError):
        return False


def _habit(device: Device, right: float) -> str:
    """What the log says about a time that is wrong: the first habit that explains it."""
    inside = {what for _, span in device.spans for what in span}
    calls = [sum(what in ("warm", "cold") for what in span) for _, span in device.spans]
    waits = "synchronize" in device.log
    causes = {
        "nothing ran: call f().": not {"warm", "cold"} & set(device.log),
        "that is the launch: the host does not wait for the device. "
        "Synchronize before you read the clock.": (not calls and not waits),
        "the host's clock holds launches and waiting too: "
        "record an event before the call, and one after it.": (not calls),
        "the flush is between your events: queue waste.zero_() before the first one.": (
            "flush" in inside
        ),
        "the call is not between your events.": 0 in calls,
        **_averages(device, right, inside),
        "those bytes lie in the cache: queue waste.zero_() before each call.": "warm" in inside,
        "between your events the device waits for the host: queue waste.zero_(), which is long, "
        "before the first.": ("idle" in inside),
        "divide by the number of calls between your events.": max(calls, default=0) > 1,
    }
    return next((message for message, holds in causes.items() if holds), "")


def _averages(device: Device, right: float, inside: set[str]) -> dict[str, bool]:
    times = [seconds for seconds, _ in device.spans]
    good = bool(times) and abs(statistics.median(times) / right - 1) < 0.01
    return {
        "the first call is in your average, and it compiles: warm up before you measure.": (
            (good or len(times) == 1) and "first" in inside
        ),
        "something else held the device in a few calls: take the median, not the mean.": (
            good and "interrupt" in inside
        ),
    }


@exercise("Exercise 4 (a kernel)", "Three lines", "rows of 5 in blocks of 8", "rows around 10,000")
def layer_norm_kernel(student: Callable) -> None:
    """student(x, weight, bias, eps) launches a LayerNorm kernel on rows of float32 or bfloat16.

    The rows lie on the GPU where kernels are compiled for one.

    [EQ-LN]
    """
    student = _on(kernel_place(), forbid(student, "normlib", "layer_norm"))
    _in_float32(student)
    _far_from_zero(student)
    x = (2 * draw(6, 100, seed=3)).bfloat16()
    weight = draw(100, seed=4).bfloat16()
    bias = draw(100, seed=5).bfloat16()
    got = student(x, weight, bias, 1e-5)
    # The interpreter cuts bfloat16 off where a GPU rounds: one unit in the last place, at most
    # 2^-7.
    try:
        expect(
            got, _truth(x, weight, bias, 1e-5), what="the bfloat16 output", rtol=2**-7, atol=2**-9
        )
    except Slip as slip:
        raise Slip(f"{slip} Your float32 is right: widen what you load, round once.") from None
    if kernel_place() == "cpu":  # compiled kernels go past the counter
        _one_trip(student)


def _one_trip(student: Callable) -> None:
    """A kernel loads each number of x itself, once, and stores each of the output."""
    from normcourse.timing.traffic import count_traffic  # Triton is not everywhere

    x = draw(4, 9, seed=7).float()[:, :5]
    weight = draw(5, seed=8).float()
    with count_traffic() as traffic:
        got = student(x, weight, weight.clone(), 1e-5)
    loaded = traffic.of(x)[0] // x.element_size()
    stored = traffic.of(got)[1] // got.element_size()
    if not traffic.loads:
        raise Slip("the values are right, but no kernel ran: write it in Triton, and launch it.")
    if loaded == 0:
        raise Slip(
            "the values are right, but your kernel reads a copy of x: that is one more trip. "
            "Launch it with x itself; x.stride(0) says where its rows lie."
        )
    if loaded != x.numel():
        raise Slip(
            f"the values are right, but your kernel loads {loaded} numbers of x, "
            f"which holds {x.numel()}: load each one once, with mask=inside."
        )
    if stored != got.numel():
        raise Slip(
            f"the values are right, but your kernel stores {stored} of the {got.numel()} numbers "
            "of the output: it computes them all, and stores each one once."
        )


def _in_float32(student: Callable) -> None:
    """Rows that lie next to each other, and rows that do not; a copy would put them so."""
    weight = (1 + 0.3 * draw(5, seed=1)).float()
    bias = draw(5, seed=2).float()
    eps = 0.1
    wide = (0.5 + draw(4, 9)).float()
    given = (wide[:, :5].contiguous(), wide[:, :5])
    gots = []
    wants = []
    slips: dict[str, list] = {}
    for x in given:
        before = x.clone()
        gots.append(student(x, weight.clone(), bias.clone(), eps))
        unchanged("x", before, x)
        wants.append(_truth(x, weight, bias, eps))
        for message, wrong in _kernel_slips(x, weight, bias, eps).items():
            slips.setdefault(message, []).append(wrong)
    labels = ["the output", "the output for rows that do not lie next to each other"]
    expect_all(gots, wants, slips, labels, rtol=1e-5, atol=1e-6, columns=1)


def kernel_place() -> str:
    """Where Triton's kernels run: on the GPU, unless they are interpreted."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return "cuda" if torch.cuda.is_available() and not interpreted else "cpu"


def _on(place: str, student: Callable) -> Callable:
    """The student, called with tensors that lie there; its output comes back to the CPU."""

    def moved(x: Tensor, *arguments):
        there = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=place).copy_(x)
        rest = [value.to(place) if isinstance(value, Tensor) else value for value in arguments]
        got = student(there, *rest)
        unchanged("x", x, there.to(x.device))
        return got.to(x.device) if isinstance(got, Tensor) else got

    return student if place == "cpu" else moved


def _truth(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    double = (x.double(), x.shape[-1:], weight.double(), bias.double(), eps)
    return functional.layer_norm(*double).to(x.dtype)


def _kernel_slips(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> dict[str, Tensor]:
    def output(divisor=lambda square: (square / 5 + eps).sqrt(), mean=None, empty=0, of=x):
        mean = of.mean(-1, keepdim=True) if mean is None else mean
        square = (of - mean).square().sum(-1, keepdim=True) + empty * mean.square()
        return (of - mean) / divisor(square) * weight + bias

    deviation = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    slips = {
        "the empty lanes count: there x - mean is -mean. Set it to 0 before you square it.": (
            output(empty=3)
        ),
        "the mean divides by dim, the row's length, not by BLOCK.": (
            output(mean=x.sum(-1, keepdim=True) / 8)
        ),
        "the variance divides by dim, not by BLOCK.": output(lambda s: (s / 8 + eps).sqrt()),
        "mean and variance divide by dim, the row's length, not by BLOCK.": (
            output(lambda s: (s / 8 + eps).sqrt(), mean=x.sum(-1, keepdim=True) / 8)
        ),
        "mean and variance divide by dim, not by BLOCK, and the empty lanes count: set x - mean to "
        "0 there.": output(
            lambda s: (s / 8 + eps).sqrt(), mean=x.sum(-1, keepdim=True) / 8, empty=3
        ),
        "the mean divides by dim, not by BLOCK, and the empty lanes count: set x - mean to 0 "
        "there.": output(mean=x.sum(-1, keepdim=True) / 8, empty=3),
        "the variance divides by dim, not by BLOCK, and the empty lanes count: set x - mean to 0 "
        "there.": output(lambda s: (s / 8 + eps).sqrt(), empty=3),
        "the variance is that of x - mean: you sum the squares of x.": (
            output(lambda s: (x.square().mean(-1, keepdim=True) + eps).sqrt())
        ),
        "the variance divides by dim, not by dim - 1.": output(lambda s: (s / 4 + eps).sqrt()),
        "the variance is a mean: divide the sum by dim.": output(lambda s: (s + eps).sqrt()),
        "the mean is a mean: divide the sum by dim.": output(mean=x.sum(-1, keepdim=True)),
        "no centring: that is RMSNorm with a bias.": output(mean=torch.zeros_like(deviation)),
        "x is divided, but not centred: the output is (x - mean) * rstd.": (
            x / deviation * weight + bias
        ),
        "you divide by the variance: take the reciprocal ROOT.": output(lambda s: s / 5 + eps),
        "you multiply by the deviation: rstd is one over the root.": (
            output(lambda s: (s / 5 + eps).rsqrt())
        ),
        "eps belongs under the root.": output(lambda s: (s / 5).sqrt() + eps),
        "eps is missing.": output(lambda s: (s / 5).sqrt()),
        "x is centred, but not divided: multiply it by rstd.": output(torch.ones_like),
        "the three lines are missing: x is neither centred nor divided.": x * weight + bias,
        "the bias is missing.": output() - bias,
        "the bias is added last: the gain does not multiply it.": output() - bias + weight * bias,
        "the gain is missing.": (output() - bias) / weight + bias,
        "gain and bias are exchanged.": (output() - bias) / weight * bias + weight,
        "every program reads row 0: use tl.program_id(0).": output(of=x[:1].expand_as(x)),
    }
    packed = output(of=x.as_strided(x.shape, (x.shape[-1], 1)))
    return slips | {"rows lie x.stride(0) elements apart, which is not always dim.": packed}


def _far_from_zero(student: Callable) -> None:
    x = (1e4 + draw(3, 5, seed=6)).float()
    ones = x.new_ones(5)
    zeros = x.new_zeros(5)
    got = student(x, ones, zeros, 1e-5)
    want = _truth(x, ones, zeros, 1e-5)
    # Two passes lose at most 1e4 * 2^-24, here 6e-4, of each x - mean; E[x^2] - E[x]^2 loses
    # everything.
    if (
        isinstance(got, Tensor)
        and got.shape == want.shape
        and not torch.allclose(got, want, atol=1e-2)
    ):
        raise Slip(
            "at a mean of 10,000 the variance is lost: sum (x - mean)², "
            "not E[x²] - E[x]² (lesson 02)."
        )


RECORD = """
name      median, µs            GB/s   of copy
copy       36.6 [36.5, 36.7]    3,667    1.00
empty       4.1 [ 4.0,  4.2]        –       –
torch      45.2 [44.9, 45.6]    2,969    0.81
compile    38.9 [36.9, 43.0]    3,450    0.94
normlib    37.8 [37.6, 38.1]    3,551    0.97
twin       37.9 [37.7, 38.2]    3,541    0.97
library    57.0 [56.8, 57.3]    3,532    0.96
formula   189.3 [188.1, 191.0]    709    0.19
"""
MEDIANS = {row.split()[0]: float(row.split()[1]) for row in RECORD.strip().splitlines()[1:]}


@exercise(
    "Exercise 5 (the lie in a record)",
    "LayerNorm forward, 8192 × 4096, bf16",
    "the 95 % interval",
    RECORD,
)
def lie(name, share) -> None:
    """The candidate whose GB/s cannot stand in the lesson's record, and its honest share."""
    plausible = {
        "copy": "the copy is the measure of all others: it reads and writes the same bytes.",
        "empty": "an empty call moves nothing; its 4.1 µs are the host's and belong in the record.",
        "torch": "134.2 MB in 45.2 µs are 2,969 GB/s: its bytes over its time agree.",
        "compile": "its interval is wide, and the record says so. Its bytes over its time agree.",
        "normlib": "it is near the copy and not above it. Its bytes over its time agree.",
        "twin": "the same kernel once more. The intervals overlap, as they should.",
        "formula": (
            "the formula moves every intermediate result; "
            "counted with the least bytes it must look slow."
        ),
    }
    if not isinstance(name, str):
        raise Slip(f"the name is a {type(name).__name__}; give the candidate's name as a string.")
    if (name := name.strip().lower()) in plausible:
        raise Slip(f"{name} is honest: {plausible[name]}")
    if name != "library":
        raise Slip(f"no candidate of the record is called {name!r}.")
    took = MEDIANS["library"]
    slips = {
        "0.96 is what the record claims; count the bytes that the others count.": 0.96,
        "3 / 2 is how much it exaggerates; its share is the copy's time over its own.": 1.5,
        "those are GB/s; divide them by the copy's.": 134.2e3 / took,
        "a share of 1, please, not percent.": 100 * MEDIANS["copy"] / took,
        "turn it round: the copy's time over its own.": took / MEDIANS["copy"],
        "that is its share of torch's speed; the copy is asked for.": MEDIANS["torch"] / took,
        "that is its share of normlib, or of the bytes; the copy's time over its own is wanted.": (
            (MEDIANS["normlib"] / took + 2 / 3) / 2  # they are too near to tell apart
        ),
    }
    expect(share, MEDIANS["copy"] / took, slips, "the honest share", rtol=0.01)
