"""The checks of lesson 07 name the slips people make; the simulated GPU does what it says."""

import statistics

import numpy
import pytest
import torch
from torch.nn import functional as F

from normcourse.checks import cuda_timing as check
from normcourse.timing.simulated import Device

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
    "what was measured": (185, "what was measured"),
    "half a gigabyte": (149, "two tensors of 2^28 bytes are 537 MB"),
    "a list": ([RIGHT], "expected a number"),
    "something": (100.0, "off by"),
}


@pytest.mark.parametrize("answer, message", TIMES.values(), ids=TIMES)
def test_a_wrong_time_is_named(answer, message):
    verdict = check.least_time(answer)
    assert verdict.startswith("[x]") and message in verdict


@pytest.mark.parametrize("answer", [RIGHT, 160, 160.3, torch.tensor(160.26)], ids=str)
def test_a_right_time_may_be_rounded(answer):
    assert check.least_time(answer).startswith("[ok]")


TRAFFIC = {
    "w once": (34_000, 32_064, "w again"),
    "no w": (32_000, 32_064, "w is loaded, too"),
    "every lane": (65_536, 32_832, "masked lanes"),
    "no rstd": (64_000, 32_000, "rstd is stored, one"),
    "one rstd": (64_000, 32_004, "16 numbers, not one"),
    "rstd in bfloat16": (64_000, 32_032, "rstd is float32"),
    "float32": (128_000, 64_064, "2 bytes a number"),
    "numbers": (32_000, 16_016, "bytes, not numbers"),
    "y in float32": (64_000, 64_064, "in x's dtype"),
    "widened in memory": (128_000, 32_064, "widened on the chip"),
    "one row": (4_000, 2_004, "that is one row"),
    "rstd loaded": (64_064, 32_064, "not loaded"),
    "exchanged": (32_064, 64_000, "exchanged"),
    "a string": ("64 kB", 32_064, "expected a number"),
    "something": (1, 1, "off by"),
}


@pytest.mark.parametrize("loaded, stored, message", TRAFFIC.values(), ids=TRAFFIC)
def test_wrong_traffic_is_named(loaded, stored, message):
    verdict = check.traffic(loaded, stored)
    assert verdict.startswith("[x]") and message in verdict


def bench(
    device,
    run,
    *,
    warm_up=True,
    flush="before",
    calls=1,
    wait="last",
    average=statistics.median,
    rounds=20,
):
    """A benchmark with some of the habits switched on or off."""
    if warm_up:
        run()
        device.synchronize()
    times = []
    for _ in range(rounds):
        if flush == "before":
            device.flush()
        first = device.event()
        if flush == "inside":
            device.flush()
        for _ in range(calls):
            run()
        last = device.event()
        if wait == "last":
            device.synchronize()
        times.append(device.elapsed(first, last))
    return average(times)


def on_the_host(device, run, *, wait=True, flush=True):
    run()
    device.synchronize()
    times = []
    for _ in range(20):
        if flush:
            device.flush()
            device.synchronize()
        start = device.clock()
        run()
        if wait:
            device.synchronize()
        times.append(device.clock() - start)
    return statistics.median(times)


def as_in_the_lesson(device, run):
    start = device.clock()
    for _ in range(10):
        run()
    return (device.clock() - start) / 10


def never_waits(device, run):
    run()
    times = []
    for _ in range(10):
        start = device.clock()
        run()
        times.append(device.clock() - start)
    return statistics.median(times)


def marks_after_the_call(device, run):
    run()
    first, last = device.event(), device.event()
    device.synchronize()
    return device.elapsed(first, last)


def trimmed(times):
    return statistics.mean(sorted(times)[1:-1])


def habit(**settings):
    return lambda device, run: bench(device, run, **settings)


STOPWATCHES = {
    "the lesson's": (as_in_the_lesson, "host does not wait"),
    "no synchronize": (never_waits, "host does not wait"),
    "the host's clock": (on_the_host, "host's clock holds launches"),
    "reads too early": (habit(wait="never"), "synchronize before you read"),
    "nothing runs": (lambda device, run: 1e-6, "nothing ran"),
    "marks after the call": (marks_after_the_call, "not between your marks"),
    "no flush": (habit(flush="never"), "lie in the cache"),
    "flush inside": (habit(flush="inside"), "flush is between your marks"),
    "no warm-up": (habit(warm_up=False, average=statistics.mean), "first call is in your average"),
    "mean": (habit(average=statistics.mean), "take the median"),
    "mean of five": (habit(average=statistics.mean, rounds=5), "take the median"),
    "mean of six": (habit(average=statistics.mean, rounds=6), "take the median"),
    "mean without the ends": (habit(average=trimmed, rounds=15), "take the median"),
    "ten calls": (habit(calls=10), "lie in the cache"),
    "milliseconds": (lambda device, run: 1e3 * bench(device, run), "not milliseconds"),
    "microseconds": (lambda device, run: 1e6 * bench(device, run), "not microseconds"),
    "divided by 1000": (lambda device, run: bench(device, run) / 1e3, "seconds already"),
    "one measurement": (habit(rounds=1), "you time 1 of 5"),
    "the first call alone": (habit(warm_up=False, rounds=1), "it compiles: warm up"),
    "5 % off": (lambda device, run: 1.05 * bench(device, run), "off by"),
}


@pytest.mark.parametrize("answer, message", STOPWATCHES.values(), ids=STOPWATCHES)
def test_broken_benchmark_is_named(answer, message):
    verdict = check.stopwatch(answer)
    assert verdict.startswith("[x]") and message in verdict


def waits_before_the_call(device, run):  # the queue is empty, so the device waits for the launch
    run()
    times = []
    for _ in range(20):
        device.flush()
        device.synchronize()
        first = device.event()
        run()
        last = device.event()
        device.synchronize()
        times.append(device.elapsed(first, last))
    return statistics.median(times)


def test_a_device_that_waits_for_the_host_is_named():
    assert "the device waits for the host" in check.stopwatch(waits_before_the_call)


@pytest.mark.parametrize("warm_up", [True, False])
@pytest.mark.parametrize("rounds", [5, 6, 7, 8, 9, 10, 15, 30])
def test_a_median_stands_the_disturbed_calls_at_any_number_of_rounds(rounds, warm_up):
    assert check.stopwatch(habit(rounds=rounds, warm_up=warm_up)).startswith("[ok]")


@pytest.mark.parametrize(
    "settings",
    [
        {"warm_up": False},
        {"rounds": 101},
        {"average": lambda times: float(numpy.median(times))},
        {"average": lambda times: torch.tensor(times, dtype=torch.float64).median()},
        {"average": lambda times: sorted(times)[len(times) // 2]},
    ],
    ids=["no warm-up", "101 rounds", "numpy", "torch", "sorted"],
)
def test_what_gives_the_right_time_is_right(settings):
    assert check.stopwatch(habit(**settings)).startswith("[ok]")


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


def by_var_mean(x, w, b, e):
    var, mean = torch.var_mean(x.float(), -1, correction=0, keepdim=True)
    return torch.addcmul(b.float(), (x - mean) / (var + e).sqrt(), w.float()).to(x)


def by_rows(x, w, b, e):
    y = torch.empty(x.shape, dtype=x.dtype)
    for row, out in zip(x, y, strict=True):
        centred = row.float() - row.float().mean()
        out.copy_(centred / torch.sqrt(centred @ centred / len(row) + e) * w + b)
    return y


@pytest.mark.parametrize("kernel", [norm, by_var_mean, by_rows])
def test_another_right_kernel_is_right(kernel):
    assert check.layer_norm_kernel(kernel).startswith("[ok]")


LIES = {
    "copy": ("copy", 1.0, "measure of all others"),
    "empty": ("empty", 0.5, "are the host's"),
    "torch": ("torch", 0.64, "as it must be"),
    "compiled": ("Compiled ", 0.64, "the record says so"),
    "fused": ("fused", 0.64, "near the ceiling"),
    "twin": ("twin", 0.64, "overlap"),
    "eager": ("eager", 0.64, "must look slow"),
    "unknown": ("liger", 0.64, "no candidate"),
    "a list": (["library"], 0.64, "as a string"),
    "claimed share": ("library", 0.96, "what the record claims"),
    "exaggeration": ("library", 1.5, "how much it exaggerates"),
    "upside down": ("library", 1.557, "turn it round"),
    "of torch": ("library", 0.793, "of torch's speed"),
    "of fused": ("library", 0.663, "of fused"),
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


def test_the_device_reads_the_cache_thrice_as_fast_until_it_is_flushed():
    device = Device(bandwidth=1e12, launch=0.0, start=0.0, first=0.0)
    times = []
    for step in ("run", "run", "flush", "run"):
        first = device.event()
        device.run("kernel", 9e6) if step == "run" else device.flush()
        last = device.event()
        device.synchronize()
        times.append(device.elapsed(first, last))
    assert times == pytest.approx([9e-6, 3e-6, 200e-6, 9e-6])


def test_something_else_holds_the_device_after_every_third_kernel():
    device = Device(bandwidth=1e12, launch=0.0, start=0.0, first=0.0, interrupt=3)
    ends = []
    for _ in range(4):
        device.run("kernel", 100e6)
        device.synchronize()
        ends.append(device.clock())
    assert ends == pytest.approx([100e-6, 200e-6, 600e-6, 700e-6])


def test_a_hot_device_takes_longer_for_everything():
    device = Device(bandwidth=1e12, launch=0.0, start=0.0, first=0.0, cool=250e-6)
    times = []
    for _ in range(4):
        first = device.event()
        device.run("kernel", 100e6)  # 100 µs
        last = device.event()
        device.synchronize()
        times.append(device.elapsed(first, last))
    assert times == pytest.approx([100e-6, 100e-6, 100e-6, 150e-6])


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
