"""The checks of lesson 07 name the slips people make; the simulated GPU does what it says."""

import inspect
import re
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import numpy
import pytest
import torch
from torch.nn import functional as F

from normcourse import timing
from normcourse.checks import cuda_timing as check
from normcourse.lesson import Notebook
from normcourse.timing.simulated import Device
from tests.course import solutions

RIGHT = 2 * 32_768 * 4_096 * 2 / 3.35e12 * 1e6  # microseconds
TIMES = {
    "one tensor": (RIGHT / 2, "two tensors"),
    "a backward": (1.5 * RIGHT, "three tensors are a backward"),
    "float32": (2 * RIGHT, "not 4"),
    "forward and backward": (2.5 * RIGHT, "only the forward"),
    "seconds": (RIGHT * 1e-6, "not seconds"),
    "milliseconds": (RIGHT * 1e-3, "not milliseconds"),
    "nanoseconds": (RIGHT * 1e3, "not nanoseconds"),
    "bits": (8 * RIGHT, "not bits"),
    "divided by 8": (RIGHT / 8, "do not divide by 8"),
    "2^40": (RIGHT * 1e12 / 2**40, "not 2^40"),
    "upside down": (1e6 / RIGHT, "turn it round"),
    "the bytes": (2 * 32_768 * 4_096 * 2, "those are the bytes"),
    "what was reported": (185, "what others measured"),
    "rounded bytes": (158, "537 MB"),
    "half a gigabyte": (149, "two tensors of 2^28 bytes are 537 MB"),
    "a list": ([RIGHT], "expected a number"),
    "one tensor, one byte": (RIGHT / 4, "two slips"),
    "something": (100.0, "off by"),
}


@pytest.mark.parametrize("answer, message", TIMES.values(), ids=TIMES)
def test_a_wrong_time_is_named(answer, message):
    verdict = check.least_time(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize("answer", [RIGHT, 160, 160.3, torch.tensor(160.26)], ids=str)
def test_a_right_time_may_be_rounded(answer):
    assert check.least_time(answer).startswith("[ok]")


def as_on_the_page(x, w, eps):
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x * rstd * w


def by_vector_norm(x, w, eps):
    mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1]
    return x * torch.rsqrt(mean_square + eps) * w


def by_einsum(x, w, eps):
    mean_square = torch.einsum("...d,...d->...", x, x).unsqueeze(-1) / x.shape[-1]
    return (x * torch.rsqrt(mean_square + eps)).mul_(w)


def by_var_and_mean(x, w, eps):
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return x / torch.sqrt(variance + mean**2 + eps) * w


def by_norm(x, w, eps):
    return w * (x / (x.norm(dim=-1, keepdim=True) ** 2 / x.size(-1) + eps).sqrt())


def by_matmul(x, w, eps):
    square = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)
    return torch.mul(x, (square / x.shape[-1] + eps).pow(-0.5)) * w


def row_by_row(x, w, eps):
    flat = x.reshape(-1, x.shape[-1])
    rows = [row * torch.rsqrt(row @ row / len(row) + eps) * w for row in flat]
    return torch.stack(rows).reshape(x.shape)


def gain_times_rstd(x, w, eps):
    rstd = torch.rsqrt(x.norm(dim=-1, keepdim=True).square() / x.shape[-1] + eps)
    return x * (rstd * w)


@pytest.mark.parametrize(
    "answer",
    [by_vector_norm, by_einsum, by_var_and_mean, by_norm, by_matmul, gain_times_rstd],
)
def test_five_tensors_are_enough(answer):
    assert check.trips(answer).endswith("it moves 5 tensors")


def seven_in_old_memory(x, w, eps):
    square = x.square()
    rstd = torch.rsqrt(square.mean(-1, keepdim=True) + eps)
    return torch.mul(x, rstd, out=square).mul_(w)


def in_float32(x, w, eps):
    return by_vector_norm(x.float(), w.float(), eps).double()


def in_numpy(x, w, eps):
    x, w = x.numpy(), w.numpy()
    rms = numpy.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return torch.from_numpy(x / rms * w)


TRIPS = {
    "as on the page": (as_on_the_page, "it moves 7 tensors: one operation writes"),
    "x * x": (
        lambda x, w, eps: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w,
        "and writes no other? Counted are: mul, mean, mul, mul.",
    ),
    "pow": (
        lambda x, w, eps: x / (x.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt() * w,
        "it moves 7 tensors: one operation writes",
    ),
    "in place": (
        lambda x, w, eps: (x * torch.rsqrt((x**2).mean(-1, keepdim=True) + eps)).mul_(w),
        "it moves 7 tensors",
    ),
    "in old memory": (seven_in_old_memory, "it moves 7 tensors"),
    "a copy first": (
        lambda x, w, eps: by_vector_norm(x.clone(), w, eps),
        "it moves 7 tensors: one of them is a copy",
    ),
    "row by row": (row_by_row, "it moves 8 tensors"),
    "torch's": (lambda x, w, eps: F.rms_norm(x, w.shape, w, eps), "without rms_norm"),
    "layer norm": (lambda x, w, eps: F.layer_norm(x, w.shape, w, None, eps), "without layer_norm"),
    "numpy": (in_numpy, "no operation of torch does"),
    "no root": (
        lambda x, w, eps: x / (x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) * w,
        "root",
    ),
    "sum for the mean": (
        lambda x, w, eps: x / (x.norm(dim=-1, keepdim=True) ** 2 + eps).sqrt() * w,
        "sum",
    ),
    "eps outside": (
        lambda x, w, eps: x / (x.norm(dim=-1, keepdim=True) / x.shape[-1] ** 0.5 + eps) * w,
        "eps",
    ),
    "no gain": (lambda x, w, eps: by_vector_norm(x, 1 + 0 * w, eps), "weight"),
    "centred": (lambda x, w, eps: by_vector_norm(x - x.mean(-1, True), w, eps), "mean"),
    "no keepdim": (
        lambda x, w, eps: x * torch.rsqrt(x.norm(dim=-1) ** 2 / x.shape[-1] + eps) * w,
        "keepdim",
    ),
    "in place of x": (lambda x, w, eps: x.mul_(w), "changed in place"),
    "float32": (in_float32, "off by"),
}


@pytest.mark.parametrize("answer, message", TRIPS.values(), ids=TRIPS)
def test_a_norm_with_too_many_trips_is_named(answer, message):
    verdict = check.trips(answer)
    assert verdict.startswith("[x]") and message in verdict


def bench(
    f,
    waste,
    cuda,
    *,
    warm_up=True,
    flush="before",
    calls=1,
    wait="last",
    average=statistics.median,
    rounds=20,
    unit=1e-3,
):
    """A benchmark with some of the habits switched on or off."""
    if warm_up:
        f()
        cuda.synchronize()
    times = []
    for _ in range(rounds):
        first = cuda.Event(enable_timing=True)
        last = cuda.Event(enable_timing=True)
        if flush == "before":
            waste.zero_()
        first.record()
        if flush == "inside":
            waste.zero_()
        for _ in range(calls):
            f()
        last.record()
        if wait == "last":
            cuda.synchronize()
        if wait == "event":
            last.synchronize()
        times.append(first.elapsed_time(last))
    return average(times) * unit


def all_rounds_at_once(f, waste, cuda):
    """As triton.testing.do_bench does it: everything is queued, and it waits at the end."""
    f()
    cuda.synchronize()
    firsts = [cuda.Event(enable_timing=True) for _ in range(20)]
    lasts = [cuda.Event(enable_timing=True) for _ in range(20)]
    for first, last in zip(firsts, lasts, strict=True):
        waste.zero_()
        first.record()
        f()
        last.record()
    cuda.synchronize()
    times = [first.elapsed_time(last) for first, last in zip(firsts, lasts, strict=True)]
    return statistics.median(times) / 1000


def on_the_host(f, waste, cuda, *, wait=True, flush=True, clock="perf_counter"):
    f()
    cuda.synchronize()
    times = []
    for _ in range(20):
        if flush:
            waste.zero_()
            cuda.synchronize()
        start = getattr(time, clock)()
        f()
        if wait:
            cuda.synchronize()
        times.append(getattr(time, clock)() - start)
    return statistics.median(times)


def as_in_the_lesson(f, waste, cuda):
    start = time.perf_counter()
    for _ in range(10):
        f()
    return (time.perf_counter() - start) / 10


def never_waits(f, waste, cuda):
    f()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def events_after_the_call(f, waste, cuda):
    f()
    first, last = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    first.record()
    last.record()
    cuda.synchronize()
    return first.elapsed_time(last) / 1000


def one_event(f, waste, cuda, *, timing=True, record=True, turned=False):
    f()
    cuda.synchronize()
    first, last = cuda.Event(enable_timing=timing), cuda.Event(enable_timing=timing)
    times = []
    for _ in range(9):
        waste.zero_()
        first.record()
        f()
        if record:
            last.record()
        cuda.synchronize()
        pair = (last, first) if turned else (first, last)
        times.append(pair[0].elapsed_time(pair[1]) / 1000)
    return statistics.median(times)


def on_the_real_card(f, waste, cuda):
    f()
    torch.cuda.synchronize()
    return 1e-6


def forgets_to_call(f, waste, cuda):
    return bench(lambda: f, waste, cuda)


def trimmed(times):
    return statistics.mean(sorted(times)[1:-1])


def habit(function=bench, **settings):
    return lambda f, waste, cuda: function(f, waste, cuda, **settings)


STOPWATCHES = {
    "the lesson's": (as_in_the_lesson, "host does not wait"),
    "no synchronize": (never_waits, "host does not wait"),
    "the host's clock": (on_the_host, "host's clock holds launches"),
    "another clock": (habit(on_the_host, clock="time"), "host's clock holds launches"),
    "reads too early": (habit(wait="never"), "synchronize before you read"),
    "nothing runs": (lambda f, waste, cuda: 1e-6, "nothing ran"),
    "forgets to call": (forgets_to_call, "nothing ran"),
    "events after the call": (events_after_the_call, "not between your events"),
    "no enable_timing": (habit(one_event, timing=False), "enable_timing=True"),
    "one event is not recorded": (habit(one_event, record=False), "must be recorded"),
    "from last to first": (habit(one_event, turned=True), "turn it round"),
    "torch.cuda in it": (on_the_real_card, "call `cuda.…`"),
    "no flush": (habit(flush="never"), "lie in the cache"),
    "flush inside": (habit(flush="inside"), "flush is between your events"),
    "no warm-up": (habit(warm_up=False, average=statistics.mean), "first call is in your average"),
    "mean": (habit(average=statistics.mean), "take the median"),
    "mean of five": (habit(average=statistics.mean, rounds=5), "take the median"),
    "mean of six": (habit(average=statistics.mean, rounds=6), "take the median"),
    "mean without the ends": (habit(average=trimmed, rounds=15), "take the median"),
    "ten calls": (habit(calls=10), "lie in the cache"),
    "milliseconds": (habit(unit=1.0), "not milliseconds"),
    "microseconds": (habit(unit=1e3), "not microseconds"),
    "divided twice": (habit(unit=1e-6), "divide by 1000 once"),
    "no warm-up, median": (habit(warm_up=False), "no warm-up: the first call"),
    "no warm-up, median of five": (habit(warm_up=False, rounds=5), "no warm-up: the first call"),
    "no warm-up, median of six": (habit(warm_up=False, rounds=6), "no warm-up: the first call"),
    "no warm-up, minimum": (habit(warm_up=False, average=min), "no warm-up: the first call"),
    "one measurement": (habit(rounds=1), "you time 1 of 5"),
    "the first call alone": (habit(warm_up=False, rounds=1), "it compiles: warm up"),
    "5 % off": (habit(unit=1.05e-3), "off by"),
    "a list": (habit(average=lambda times: numpy.array(times)), "expected a number"),
}


@pytest.mark.parametrize("answer, message", STOPWATCHES.values(), ids=STOPWATCHES)
def test_broken_benchmark_is_named(answer, message):
    verdict = check.stopwatch(answer)
    assert verdict.startswith("[x]") and message in verdict


def waits_before_the_call(f, waste, cuda):  # the queue is empty: the device waits for the launch
    f()
    times = []
    for _ in range(20):
        first = cuda.Event(enable_timing=True)
        last = cuda.Event(enable_timing=True)
        waste.zero_()
        cuda.synchronize()
        first.record()
        f()
        last.record()
        cuda.synchronize()
        times.append(first.elapsed_time(last))
    return statistics.median(times) / 1000


def test_a_device_that_waits_for_the_host_is_named():
    assert "the device waits for the host" in check.stopwatch(waits_before_the_call)


@pytest.mark.parametrize("rounds", [5, 6, 7, 8, 9, 10, 15, 30])
def test_a_median_stands_the_disturbed_calls_at_any_number_of_rounds(rounds):
    assert check.stopwatch(habit(rounds=rounds)).startswith("[ok]")


def without_the_first(times):
    return statistics.median(times[1:])


def warms_up_by_the_clock(f, waste, cuda):
    until = time.perf_counter() + 1e-3
    while time.perf_counter() < until:
        f()
    return bench(f, waste, cuda, warm_up=False)


@pytest.mark.parametrize(
    "answer",
    [habit(warm_up=False, average=without_the_first), warms_up_by_the_clock],
    ids=["the first is timed and dropped", "for a millisecond"],
)
def test_another_warm_up_is_one(answer):
    assert check.stopwatch(answer).startswith("[ok]")


@pytest.mark.parametrize(
    "settings",
    [
        {"rounds": 101},
        {"average": lambda times: float(numpy.median(times))},
        {"average": lambda times: torch.tensor(times, dtype=torch.float64).median()},
        {"average": lambda times: sorted(times)[len(times) // 2]},
        {"wait": "event"},
    ],
    ids=["101 rounds", "numpy", "torch", "sorted", "last.synchronize"],
)
def test_what_gives_the_right_time_is_right(settings):
    assert check.stopwatch(habit(**settings)).startswith("[ok]")


@pytest.mark.parametrize("answer", [timing.time_on_gpu, all_rounds_at_once, habit(one_event)])
def test_another_right_benchmark_is_right(answer):
    assert check.stopwatch(answer).startswith("[ok]")


def test_the_timer_that_is_shown_is_right():
    """No machine runs the listing; the deck shows this one."""
    words = Notebook(Path(__file__).parents[2] / "notebooks/07_cuda_timing.ipynb").text
    (listing,) = re.findall(r"```python\n(def time_on_gpu.+?)```", words, re.S)
    space = {"torch": torch, "statistics": statistics}
    exec(listing, space)
    assert check.stopwatch(space["time_on_gpu"]).startswith("[ok]")


def norm(x, w, b, e, *, mean=None, divide_by=None, square=None, root=torch.rsqrt):
    x32 = x.float()
    mean = x32.mean(-1, keepdim=True) if mean is None else mean
    total = (x32 - mean).square().sum(-1, keepdim=True) if square is None else square
    return ((x32 - mean) * root(total / (divide_by or x.shape[-1]) + e) * w + b).to(x.dtype)


def block(x):
    return 1 << (x.shape[-1] - 1).bit_length()


def unmasked(x, w, b, e):
    mean, empty = x.float().mean(-1, keepdim=True), block(x) - x.shape[-1]
    square = (x.float() - mean).square().sum(-1, keepdim=True) + empty * mean.square()
    return norm(x, w, b, e, square=square)


def mean_over_block_unmasked(x, w, b, e):
    mean = x.float().sum(-1, keepdim=True) / block(x)
    square = (x.float() - mean).square().sum(-1, keepdim=True)
    square = square + (block(x) - x.shape[-1]) * mean.square()
    return norm(x, w, b, e, mean=mean, square=square)


def variance_over_block_unmasked(x, w, b, e):
    mean, empty = x.float().mean(-1, keepdim=True), block(x) - x.shape[-1]
    square = (x.float() - mean).square().sum(-1, keepdim=True) + empty * mean.square()
    return norm(x, w, b, e, square=square, divide_by=block(x))


def squares_of_x(x, w, b, e):
    return norm(x, w, b, e, square=x.float().square().sum(-1, keepdim=True))


def both_over_block_unmasked(x, w, b, e):
    mean = x.float().sum(-1, keepdim=True) / block(x)
    square = (x.float() - mean).square().sum(-1, keepdim=True)
    square = square + (block(x) - x.shape[-1]) * mean.square()
    return norm(x, w, b, e, mean=mean, square=square, divide_by=block(x))


def right_only_when_packed(x, w, b, e):
    """One slip where rows lie side by side, another where they do not."""
    return norm(x, w, 0 * b, e) if x.is_contiguous() else norm(x, w, b, 0.0)


def one_pass(x, w, b, e):
    x32 = x.float()
    mean = x32.mean(-1, keepdim=True)
    return (
        (x32 - mean) * torch.rsqrt(x32.square().mean(-1, keepdim=True) - mean**2 + e) * w + b
    ).to(x.dtype)


def ignores_the_stride(x, w, b, e):
    return norm(x.as_strided(x.shape, (x.shape[-1], 1)), w, b, e)


def never_widened(x, w, b, e):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + e) * w + b


def in_place(x, w, b, e):
    y = norm(x, w, b, e)
    x.zero_()
    return y


KERNELS = {
    "no mask": (unmasked, "empty lanes"),
    "mean over BLOCK": (
        lambda x, w, b, e: norm(x, w, b, e, mean=x.float().sum(-1, keepdim=True) / block(x)),
        "not by BLOCK",
    ),
    "both over BLOCK": (
        lambda x, w, b, e: norm(
            x, w, b, e, mean=x.float().sum(-1, keepdim=True) / block(x), divide_by=block(x)
        ),
        "mean and variance divide by dim, the row's length",
    ),
    "mean over BLOCK, no mask": (
        mean_over_block_unmasked,
        "the mean divides by dim, not by BLOCK, and",
    ),
    "variance over BLOCK, no mask": (
        variance_over_block_unmasked,
        "the variance divides by dim, not by BLOCK, and",
    ),
    "squares of x": (squares_of_x, "the squares of x"),
    "both over BLOCK, no mask": (both_over_block_unmasked, "and the empty lanes count"),
    "variance over BLOCK": (
        lambda x, w, b, e: norm(x, w, b, e, divide_by=block(x)),
        "variance divides by dim, not by BLOCK",
    ),
    "dim - 1": (lambda x, w, b, e: norm(x, w, b, e, divide_by=x.shape[-1] - 1), "dim - 1"),
    "sum": (lambda x, w, b, e: norm(x, w, b, e, divide_by=1), "is a mean"),
    "RMSNorm": (lambda x, w, b, e: norm(x, w, b, e, mean=0.0), "RMSNorm with a bias"),
    "divides only": (
        lambda x, w, b, e: x * torch.rsqrt(x.var(-1, correction=0, keepdim=True) + e) * w + b,
        "not centred",
    ),
    "no root": (lambda x, w, b, e: norm(x, w, b, e, root=torch.reciprocal), "reciprocal ROOT"),
    "sqrt": (lambda x, w, b, e: norm(x, w, b, e, root=torch.sqrt), "multiply by the deviation"),
    "eps outside": (
        lambda x, w, b, e: norm(x, w, b, 0.0, root=lambda v: 1 / (v.sqrt() + e)),
        "under the root",
    ),
    "no eps": (lambda x, w, b, e: norm(x, w, b, 0.0), "eps is missing"),
    "bias times gain": (lambda x, w, b, e: norm(x, w, w * b, e), "bias is added last"),
    "sum for the mean": (
        lambda x, w, b, e: norm(x, w, b, e, mean=x.float().sum(-1, keepdim=True)),
        "the mean is a mean",
    ),
    "torch's": (lambda x, w, b, e: F.layer_norm(x, x.shape[-1:], w, b, e), "without layer_norm"),
    "no bias": (lambda x, w, b, e: norm(x, w, 0 * b, e), "bias is missing"),
    "only centred": (
        lambda x, w, b, e: (x - x.mean(-1, keepdim=True)) * w + b,
        "centred, but not divided",
    ),
    "the stub": (lambda x, w, b, e: x * w + b, "three lines are missing"),
    "no gain": (lambda x, w, b, e: norm(x, 1 + 0 * w, b, e), "gain is missing"),
    "exchanged": (lambda x, w, b, e: norm(x, b, w, e), "gain and bias are exchanged"),
    "row 0": (lambda x, w, b, e: norm(x[:1].expand_as(x), w, b, e), "reads row 0"),
    "stride": (ignores_the_stride, "x.stride(0)"),
    "one pass": (one_pass, "the variance is lost"),
    "two slips, each in one case": (right_only_when_packed, "the output is off by"),
    "stays float32": (lambda x, w, b, e: norm(x.float(), w, b, e), "dtype torch.float32"),
    "stays float64": (lambda x, w, b, e: norm(x, w, b, e).double(), "dtype torch.float64"),
    "never widened": (never_widened, "widen what you load"),
    "in place": (in_place, "changed in place"),
}


@pytest.mark.parametrize("answer, message", KERNELS.values(), ids=KERNELS)
def test_wrong_kernel_is_named(answer, message):
    verdict = check.layer_norm_kernel(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.fixture
def solved():
    if sys.platform != "linux":  # on Linux it must be there
        pytest.importorskip("triton", reason="triton has no wheel for this system")
    return solutions.load("07_cuda_timing")


def test_the_solved_kernel_is_right(solved):
    assert check.layer_norm_kernel(solved["my_layer_norm"]).startswith("[ok]")


DETOURS = {
    "no kernel": (lambda run, *given: norm(*given), "no kernel ran"),
    "a copy first": (lambda run, x, *rest: run(x.contiguous(), *rest), "reads a copy of x"),
    "twice": (lambda run, *given: (run(*given), run(*given))[1], "loads 40 numbers of x"),
    "another's output": (lambda run, *given: run(*given) + 0, "stores 0 of the 20 numbers"),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="compiled kernels go past the counter")
@pytest.mark.parametrize("detour, message", DETOURS.values(), ids=DETOURS)
def test_a_right_answer_by_more_trips_is_named(solved, detour, message):
    verdict = check.layer_norm_kernel(partial(detour, solved["my_layer_norm"]))
    assert verdict.startswith("[x]") and message in verdict


LIES = {
    "copy": ("copy", 1.0, "measure of all others"),
    "empty": ("empty", 0.5, "are the host's"),
    "torch": ("torch", 0.64, "2,969 GB/s: its bytes"),
    "compile": ("Compile ", 0.64, "the record says so"),
    "normlib": ("normlib", 0.64, "near the copy"),
    "twin": ("twin", 0.64, "overlap"),
    "formula": ("formula", 0.64, "must look slow"),
    "unknown": ("liger", 0.64, "no candidate"),
    "a list": (["library"], 0.64, "as a string"),
    "claimed share": ("library", 0.96, "what the record claims"),
    "exaggeration": ("library", 1.5, "how much it exaggerates"),
    "upside down": ("library", 1.557, "turn it round"),
    "of torch": ("library", 0.793, "of torch's speed"),
    "of normlib": ("library", 0.663, "of normlib"),
    "in percent": ("library", 64.2, "not percent"),
    "of the bytes": ("library", 0.67, "or of the bytes"),
    "GB/s": ("library", 2354, "those are GB/s"),
    "share is a string": ("library", "0.64", "expected a number"),
}


@pytest.mark.parametrize("name, share, message", LIES.values(), ids=LIES)
def test_wrong_lie_is_named(name, share, message):
    verdict = check.lie(name, share)
    assert verdict.startswith("[x]") and message in verdict


def test_the_honest_share_may_be_rounded():
    assert check.lie(" Library", 0.64).startswith("[ok]")
    assert check.lie("library", None).endswith("not attempted yet")


def test_the_device_queues_and_the_host_runs_ahead():
    device = Device(bandwidth=1e12, launch=1e-6, start=0.0, first=0.0)
    for _ in range(3):
        device.run("kernel", 100e6)  # 100 µs each: too large for the cache
    assert device.clock() == pytest.approx(3e-6)
    device.synchronize()
    assert device.clock() == pytest.approx(301e-6)


def between(device, f):
    """Seconds between an event before f and one after it."""
    first, last = device.Event(enable_timing=True), device.Event(enable_timing=True)
    first.record()
    f()
    last.record()
    device.synchronize()
    return first.elapsed_time(last) / 1000


def test_the_device_reads_the_cache_thrice_as_fast_until_it_is_flushed():
    device = Device(bandwidth=1e12, launch=0.0, start=0.0, first=0.0)
    run = partial(device.run, "kernel", 9e6)
    steps = (run, run, device.empty(10e6).zero_, run, device.empty(200e6).zero_, run)
    times = [between(device, step) for step in steps]
    # a write of less than the cache leaves the rest there
    assert times == pytest.approx([9e-6, 3e-6, 10e-6, 3e-6, 200e-6, 9e-6])


def test_something_else_holds_the_device_after_every_third_kernel():
    device = Device(bandwidth=1e12, launch=0.0, start=0.0, first=0.0, interrupt=3)
    ends = []
    for _ in range(4):
        device.run("kernel", 100e6)
        device.synchronize()
        ends.append(device.clock())
    assert ends == pytest.approx([100e-6, 200e-6, 600e-6, 700e-6])


def test_a_graph_is_one_launch():
    device = Device(bandwidth=1e12, launch=5e-6, start=1e-6, first=0.0)
    graph = device.CUDAGraph()
    with device.graph(graph):
        for number in range(7):
            device.run(f"kernel {number}", 1e6)
    assert device.clock() == 0  # nothing was launched
    graph.replay()
    assert device.clock() == pytest.approx(5e-6)
    device.synchronize()
    assert device.clock() == pytest.approx(5e-6 + 7 * 2e-6)


NAMES = {
    torch.cuda: ("Event", "synchronize", "CUDAGraph", "graph", "get_device_properties"),
    torch.cuda.Event: ("record", "query", "synchronize", "elapsed_time"),
    torch.cuda.CUDAGraph: ("replay",),
    torch.Tensor: ("zero_",),
}


def test_the_simulated_device_has_the_names_of_torch():
    """What a reader writes for it can be pasted into a program for a GPU."""
    device = Device()
    stand_ins = (device, device.Event(), device.CUDAGraph(), device.empty(1))
    for (real, names), stand_in in zip(NAMES.items(), stand_ins, strict=True):
        for name in names:
            assert callable(getattr(real, name)) and callable(getattr(stand_in, name))
    assert next(iter(inspect.signature(device.Event).parameters)) == "enable_timing"


def test_an_event_refuses_what_torch_refuses():
    device = Device()
    ready, silent = device.Event(enable_timing=True), device.Event()
    with pytest.raises(ValueError, match="enable_timing=True"):
        ready.elapsed_time(silent)
    late = device.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        ready.elapsed_time(late)
    ready.record()
    device.run("kernel", 1e9)
    late.record()
    with pytest.raises(ValueError, match="synchronize before you read"):
        ready.elapsed_time(late)
    late.synchronize()
    assert late.query() and ready.elapsed_time(late) > 0


def test_kernels_are_checked_where_they_run(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert check.kernel_place() == "cuda"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert check.kernel_place() == "cpu"
    monkeypatch.delenv("TRITON_INTERPRET")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert check.kernel_place() == "cpu"


def test_on_another_device_strides_arrive_and_changes_are_seen():
    """The processor stands for the device: the student gets clones that lie there."""
    seen = []

    def student(x, weight):
        seen.append((x.stride(), weight.device.type))
        return x * weight

    x = torch.ones(4, 9)[:, :5]
    moved = check._on("meta", lambda x, weight: seen.append((x.stride(), weight.device.type)))
    with pytest.raises(NotImplementedError):  # meta has no values to compare
        moved(x, torch.ones(5))
    assert seen == [((9, 1), "meta")]
    assert check._on("cpu", student) is student
