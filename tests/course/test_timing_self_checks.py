"""The twelve conditions under which a time can be trusted: what each refuses, flags or finds."""

import json
import random
import re
from types import SimpleNamespace

import pytest
import torch

from normcourse import timing
from normcourse.timing.provenance import conditions
from normcourse.timing.simulated import Driver
from tests.course.simulated_machines import LoadedHost, draw, measured, plus_one


def test_01_output_is_compared_with_float64_before_the_loop():
    with pytest.raises(timing.TimingError, match=r"'off' is wrong: output 0 differs .* by 0\.0"):
        measured({"right": plus_one, "off": lambda x: (x + 1) * 1.001})


def test_01_output_is_compared_with_float64_on_the_tensors_timed():
    """A candidate that is right when looked at, and computes nothing once the clock runs."""
    calls = []

    def lazy(x):
        calls.append(1)
        return x + 1 if len(calls) <= 2 else torch.zeros_like(x)

    with pytest.raises(timing.TimingError, match="'lazy' is wrong"):
        measured({"lazy": lazy}, rounds=8)
    assert len(calls) == 1 + 2 * (1 + 8)  # warm: each timed call follows an untimed one


def test_01_the_truth_is_computed_in_float64():
    kinds = []
    result = measured({"a": plus_one}, reference=lambda x: kinds.append(x.dtype) or x + 1)
    assert kinds == [torch.float64] and 0 < result["a"].output.error < 1e-6
    assert any("no reference" in flag for flag in measured({"a": plus_one}, reference=None).flags)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda g: (torch.zeros(4, 4),), "Input 0 is all zeros"),
        (lambda g: (*draw(g), torch.tensor([1.0, float("nan")])), "Input 1 holds NaN or infinity"),
        (lambda g: (torch.full((2,), float("inf")),), "Input 0 holds NaN or infinity"),
        (lambda g: draw(g)[0], "tuple of tensors, got Tensor"),
        (lambda g: (torch.ones(2, device="meta"),), "lies on meta"),
    ],
)
def test_02_inputs_that_are_not_data_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        measured({"a": lambda *x: x[0] + 1}, inputs)


def test_03_cold_calls_find_inputs_that_rested(monkeypatch):
    """Between two calls on the same memory, others touch more than three caches."""
    cache, touched = 10_000, []
    host = LoadedHost(0)
    monkeypatch.setattr(host, "cache", lambda: timing.devices.Cache(cache, "L9"))

    def trace(x):
        touched.append(x.data_ptr())
        return x + 1

    result = measured({"a": trace, "b": trace}, device=host, cache="cold", rounds=40)
    one = 16 * 8 * 4
    assert (
        result.working_set_bytes > 3 * cache and result.cache_name == "L9" and "L9" in str(result)
    )
    del touched[:2]  # the first look
    for i, place in enumerate(touched):
        since = touched[i + 1 :]
        if place in since:
            assert one * (since.index(place) + 1) > 3 * cache


def test_03_warm_calls_find_their_inputs_in_the_cache():
    calls = []

    def trace(x):
        calls.append((x.data_ptr(), "a"))
        return x + 1

    result = measured({"a": trace, "b": lambda x: calls.append((0, "b")) or x + 1}, rounds=6)
    assert result.cache == "warm" and len({place for place, name in calls[2:] if name == "a"}) == 1
    assert [name for _, name in calls[2::2]] == [name for _, name in calls[3::2]]  # in pairs


def test_04_host_and_device_time_are_apart():
    driver = Driver()
    contenders = {
        "launches": driver.candidate(2e-5, host_s=1e-4),
        "computes": (driver.candidate(1e-3)),
    }
    result = measured(contenders, device=driver.device())
    assert result["launches"].host_s == pytest.approx(1e-4, rel=0.05)
    # the queue hides the launching
    assert result["launches"].median_s == pytest.approx(2e-5, abs=2e-6)
    assert result["computes"].host_s == pytest.approx(5e-6, rel=0.3)
    assert result["computes"].median_s == pytest.approx(1e-3, rel=0.05)


def test_04_a_host_that_stays_behind_is_flagged():
    driver = Driver()

    def waits(x):
        driver.hold(1e-5)
        driver.synchronize()
        return x + 1

    result = measured({"waits": waits}, device=driver.device(), rounds=6)
    assert any("the host never got ahead" in flag for flag in result.flags)


@pytest.mark.parametrize("seed", range(3))
def test_05_copy_and_empty_run_in_the_same_loop_in_random_order(seed):
    orders = []

    class Traced(LoadedHost):
        def round(self, calls, **options):
            samples = super().round(calls, **options)
            orders.append([sample.host_s for sample in samples])
            return samples

    host = Traced(seed, copy_s=1.0, kernel_copy_s=1000.0)
    host.work = host.clock.advance
    result = measured(
        {"a": host.candidate(10.0), "b": host.candidate(100.0)}, device=host, seed=seed, rounds=60
    )
    assert [row.name for row in result.rows] == ["a", "b", "copy", "kernel copy", "empty"]
    who = [tuple(round(time) for time in order) for order in orders[1:]]
    times = [0, 1, 10, 100, 1000]
    assert all(sorted(order) == times for order in who)
    assert len(set(who)) > 35  # of 120 orders; 60 draws hold 47 on average
    # nobody has a place of his own: 12 of 60 expected, 3 is three deviations off
    for place in range(5):
        assert all([order[place] for order in who].count(t) >= 3 for t in times)


def test_06_one_bytes_formula_for_all():
    result = measured({"a": plus_one, "b": plus_one}, moved_bytes=1000)
    assert {row.moved_bytes for row in result.rows[:-1]} == {1000} and "0.001 MB moved" in str(
        result
    )
    for row in result.rows[:-1]:
        assert row.gb_per_s == pytest.approx(1000 / row.median_s / 1e9)
    with pytest.raises(ValueError, match="one whole number of bytes"):
        measured({"a": plus_one}, moved_bytes={"a": 1000})


@pytest.mark.parametrize(("copy_s", "flagged"), [(1.2e-3, True), (1e-3, False), (0.8e-3, False)])
def test_07_more_than_the_copy_is_flagged(copy_s, flagged):
    host = LoadedHost(3, copy_s)
    result = measured({"a": host.candidate(1e-3)}, device=host, rounds=80)
    assert any("above 100 %" in flag for flag in result.flags) == flagged
    assert result["a"].of_copy == pytest.approx(copy_s / 1e-3, rel=0.1)


@pytest.mark.parametrize("slow", ["copy", "kernel copy"])
def test_07_the_faster_copy_is_the_reference(slow):
    """On some cards their own copy is slower than a kernel: nobody may be accused of that."""
    driver = Driver()
    times = {"copy": 1.16e-3, "kernel copy": 1e-3}
    if slow == "kernel copy":
        times = dict(zip(times, reversed(times.values()), strict=True))
    device = driver.device(times["copy"], times["kernel copy"])
    result = measured({"a": driver.candidate(1.02e-3)}, device=device, rounds=40)
    assert result.reference != slow
    assert not any("above 100 %" in flag for flag in result.flags)
    assert result["a"].of_copy == pytest.approx(1 / 1.02, rel=0.01)
    assert result[slow].of_copy == pytest.approx(1 / 1.16, rel=0.01)


def test_07_a_kernel_copy_moves_the_bytes_that_it_says():
    host = timing.Cpu()
    destination, first, second = torch.zeros(3, 4)
    host.kernel_copy(destination, first + 1, second + 2)
    assert host.kernel_reads == 2 and destination.tolist() == [3.0] * 4
    card = timing.Cuda(Driver(), place="cpu")
    card.kernel_copy(destination, first + 1)
    assert card.kernel_reads == 1 and destination.tolist() == [-1.0] * 4


def test_07_the_makers_peak_is_asked_of_the_driver():
    driver = Driver()
    told = SimpleNamespace(memory_clock_rate=2_619_000, memory_bus_width=5120)  # of an H100
    driver.get_device_properties = lambda place: told
    assert timing.Cuda(driver).peak_bytes_per_s() == pytest.approx(3.35e12, rel=1e-3)
    driver.get_device_properties = lambda place: SimpleNamespace()
    assert timing.Cuda(driver).peak_bytes_per_s() is None
    assert timing.Cpu().peak_bytes_per_s() is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda x: (x + 1).bfloat16(), "different dtype, shape"),
        (lambda x: (x + 1)[None], "gave shapes"),
        (lambda x: (x + 1).requires_grad_(), "requires_grad"),
        (timing.forward_backward(lambda x: x + 1), "different passes"),
        (timing.backward_of(lambda x: x + 1), "different passes"),
        (lambda x: x.add_(1), "'b' overwrote input 0"),
        (lambda x: None, "'b' returned NoneType"),
        (
            lambda x: torch.complex(x + 1, x),
            "'b' returned torch.complex64 as output 0, expected real",
        ),
    ],
)
def test_08_contenders_do_the_same_work(other, message):
    with pytest.raises(timing.TimingError, match=message):
        measured({"a": plus_one, "b": other}, tolerance=0.1)


def test_09_time_grows_with_bytes():
    sizes = [1e5, 1e6, 1e7, 1e8]
    noise = random.Random(0)
    times = [(2e-5 + size / 3e9) * noise.uniform(0.98, 1.02) for size in sizes]
    t0, bandwidth = timing.fit_line(sizes, times)
    assert t0 == pytest.approx(2e-5, rel=0.1) and bandwidth == pytest.approx(3e9, rel=0.05)
    with pytest.raises(ValueError, match="4 different sizes"):
        timing.fit_line(sizes[:3], times[:3])
    with pytest.raises(ValueError, match="4 different sizes"):
        timing.fit_line([1e5, 1e6, 1e7, 1e7], times)
    with pytest.raises(timing.TimingError, match="does not grow with bytes"):
        timing.fit_line(sizes, times[::-1])


def test_10_spread_is_reported_and_two_runs_agree():
    """Beside a second job single times differ tenfold, medians of 200 rounds by 3 % at most."""
    medians = []
    for seed in (1, 2):
        host = LoadedHost(seed)
        host.load = 1.0
        # no second job
        host.random.random = lambda random=host.random.random: 0.031 + 0.969 * random()
        result = measured({"a": host.candidate(1e-3)}, device=host, rounds=200)
        row = result["a"]
        low, high = row.interval_s
        assert row.middle_s[0] < low <= row.median_s <= high < row.middle_s[1]
        assert len(row.times) == 200
        medians.append(row.median_s)
    assert max(medians) / min(medians) < 1.03


def test_10_too_much_spread_is_flagged():
    host, steps = LoadedHost(0), iter(range(10**6))
    noisy = [1e-3, 3e-3]

    def unsteady(x):
        host.clock.advance(noisy[next(steps) // 2 % 2])
        return x + 1

    result = measured({"unsteady": unsteady, "steady": host.candidate(1e-3)}, device=host)
    flags = [flag for flag in result.flags if "spread" in flag]
    assert any(flag.startswith("unsteady: spread") for flag in flags)


def test_11_a_planted_slow_down_is_found_and_a_twin_is_not():
    """In 200 simulated runs 1.3 times slower is always found, and a twin never called so."""
    for seed in range(200):
        host = LoadedHost(seed)
        contenders = {
            "one": host.candidate(1e-3),
            "twin": host.candidate(1e-3),
            "slow": host.candidate(1.3e-3),
        }
        result = measured(contenders, device=host, reference=None, seed=seed, rounds=60)
        assert (
            result.compare("slow", "one") == "slower" and result.compare("one", "slow") == "faster"
        ), seed
        assert result.compare("twin", "one") in ("equal", "undecided"), seed


def test_11_a_tenth_is_found_with_more_rounds():
    for seed in range(20):
        host = LoadedHost(seed)
        contenders = {
            "one": host.candidate(1e-3),
            "twin": host.candidate(1e-3),
            "slow": host.candidate(1.1e-3),
        }
        result = measured(contenders, device=host, rounds=200, seed=seed)
        assert result.compare("slow", "one", margin=0.02) == "slower", seed
        assert result.compare("twin", "one") == "equal", seed


def test_11_work_that_is_not_waited_for_is_found():
    driver = Driver()

    def aside(x):
        driver.hold_aside(1e-3)
        return x + 1

    result = measured({"aside": aside, "fair": driver.candidate(1e-3)}, device=driver.device())
    missing = [flag for flag in result.flags if "synchronisation is missing" in flag]
    assert [flag.partition(":")[0] for flag in missing] == ["aside"]


def test_11_a_clock_that_does_not_wait_is_found():
    """The classic error: the host's clock around a launch, as if it were the device's time."""

    class HostClockOnly(timing.Cuda):
        def round(self, calls, **options):
            return [
                sample._replace(device_s=sample.host_s)
                for sample in super().round(calls, **options)
            ]

    driver = Driver()
    device = HostClockOnly(driver, driver.clock, place="cpu")
    device.copy = lambda destination, source: driver.hold(2e-3)
    device.kernel_copy = lambda destination, *sources: driver.hold(2e-3)
    result = measured({"a": driver.candidate(1e-3)}, device=device)
    assert [flag.partition(":")[0] for flag in result.flags if "synchronisation" in flag] == [
        "a",
        "copy",
        "kernel copy",
    ]


def test_12_a_record_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "4294967296")
    monkeypatch.setenv("LD_PRELOAD", "/home/somebody/lib/libnothing.so")
    monkeypatch.setattr(
        "sys.argv", ["/home/somebody/work/tool.py", "--record=/home/somebody/x.json"]
    )
    monkeypatch.delitem(__import__("sys").modules, "ipykernel", raising=False)
    origin = timing.provenance()
    assert origin["allocator"] == "LD_PRELOAD=libnothing.so MALLOC_TRIM_THRESHOLD_=4294967296"
    assert origin["command"] == "python tool.py --record=x.json"
    assert origin["torch"] == torch.__version__ and origin["threads"] == torch.get_num_threads()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", origin["date"])
    expected = {
        "machine",
        "device",
        "driver",
        "cuda",
        "triton",
        "python",
        "commit",
        "clocks",
        "power",
    }
    assert expected < set(origin) and all(str(value) for value in origin.values())
    assert not private(json.dumps(origin))


def test_12_the_clocks_are_those_of_the_card_that_torch_uses(monkeypatch):
    """Under CUDA_VISIBLE_DEVICES torch's card 0 is any other one of nvidia-smi."""
    cards = {"GPU-aaaa": "100 MHz", "GPU-bbbb": "200 MHz"}
    visible = "bbbb"

    def nvidia_smi(command, **options):
        chosen = command[-1].removeprefix("--id=")
        card = chosen if chosen in cards else list(cards)[int(chosen)]
        line = f"570.0, {cards[card]}, 3 MHz, 40 W, 700 W, 30"
        return SimpleNamespace(stdout=line)

    card = SimpleNamespace(uuid=visible)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: card)
    monkeypatch.setattr("subprocess.run", nvidia_smi)
    assert conditions("cuda")["clocks"] == "SM 200 MHz, memory 3 MHz"
    assert conditions("cuda")["power"] == "40 W of 700 W, 30 °C"


def private(text):
    import getpass
    import platform
    from pathlib import Path

    words = {str(Path.home()), platform.node(), "/home", "somebody", str(Path(__file__).parents[2])}
    words |= {getpass.getuser()} - {"root"}  # a word of its own in no sentence, but no secret
    return [word for word in words if len(word) > 1 and word in text]
