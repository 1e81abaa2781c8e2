"""The parts of timing: estimates, entries, caches, arguments, the table."""

import math
import random

import pytest
import torch

from normcourse import timing
from normcourse.timing import caches, correctness, estimates, inputs
from normcourse.timing.simulated import Driver
from tests.course.simulated_machines import LoadedHost, draw, measured, plus_one


def test_the_interval_holds_the_median_as_often_as_it_says():
    """930 to 980 of 1,000 draws of 20 skewed numbers; the exact confidence is 95.86 %."""
    source, truth = random.Random(0), math.log(2)
    held = 0
    for _ in range(1000):
        low, high = timing.interval([source.expovariate(1) for _ in range(20)])
        held += low <= truth <= high
    assert 930 <= held <= 980  # the standard deviation is 6.3


def test_interval_by_hand():
    """Of 10 fair coins at most 1 shows heads in 11 of 1024 cases, at most 2 in 56.

    So 95 % has rank 2.
    """
    samples = [5, 1, 9, 3, 7, 10, 2, 8, 4, 6]
    assert timing.interval(samples) == (2, 9)
    assert timing.interval(samples, 0.9) == (2, 9)
    assert timing.interval(samples, 0.75) == (3, 8)
    assert timing.interval([3, 1, 2, 6, 5, 4]) == (1, 6)
    with pytest.raises(ValueError, match=r"5 samples have no 95\.0% interval.*measure 6 rounds"):
        timing.interval([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="measure 11 rounds"):
        timing.interval([1] * 10, 0.999)


def test_ratios_are_paired():
    """A load that doubles both times leaves the ratio alone; unpaired medians would not show it."""
    load = [1, 2, 4, 8, 16, 32, 64]
    ratio = estimates.ratio([3 * t for t in load], [2 * t for t in load])
    assert ratio == (1.5, 1.5, 1.5) and str(ratio) == "1.5 (1.5 to 1.5)"
    up = [1, 2, 3, 4, 5, 6, 7]
    assert estimates.ratio(up, up[::-1]) == (1.0, 1 / 7, 7.0)  # matched by round, not by rank


def test_forward_backward_is_autograd():
    x, w, dy = (torch.randn(3, 4, generator=torch.Generator().manual_seed(i)) for i in range(3))
    index = torch.arange(3)  # no gradient, and none is asked for
    expected = 2 * x * w * dy, (x * x * dy)
    for entry in (timing.forward_backward, timing.backward_of):
        got = entry(lambda x, w, unused, index: x * x * w)(dy, x, w, torch.ones(1), index)
        torch.testing.assert_close(got, expected)
    assert not x.requires_grad


def test_backward_of_builds_graphs_outside_of_the_timed_part():
    """Forwards: one for the truth, one at the first look, one a set; none in the 8 timed rounds."""
    forwards, forward_s, host = [], 5.0, LoadedHost(0)

    def f(x):
        forwards.append(1)
        host.clock.advance(forward_s)
        return x.square()

    def inputs(g):
        return *draw(g), *draw(g)

    reference = timing.forward_backward(lambda x: x.square())
    result = measured(
        {"a": timing.backward_of(f)}, inputs, reference=reference, device=host, rounds=8
    )
    assert len(forwards) == 2 and result["a"].median_s < forward_s
    result = measured(
        {"a": timing.forward_backward(f)}, inputs, reference=reference, device=host, rounds=8
    )
    assert result["a"].median_s > forward_s


def test_functions_that_differ_have_each_its_truth():
    contenders = {"plus": plus_one, "minus": lambda x: x - 1}
    truths = {"plus": plus_one, "minus": lambda x: x - 1}
    assert measured(contenders, reference=truths)["minus"].output.error < 1e-6
    with pytest.raises(timing.TimingError, match="'minus' is wrong") as caught:
        measured(contenders, reference=truths | {"minus": plus_one})
    assert caught.value.who == "minus"
    with pytest.raises(timing.TimingError, match="different dtype"):
        measured(contenders | {"minus": lambda x: (x - 1).bfloat16()}, reference=truths)
    with pytest.raises(ValueError, match="one of each candidate"):
        measured(contenders, reference={"plus": plus_one})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 5}, "6 or more"),
        ({"warmup": 0}, "1 or more"),
        ({"cache": "lukewarm"}, "'cold' or 'warm'"),
        ({"moved_bytes": 1.5}, "one whole number"),
        ({"device": "cuda", "clock": lambda: 0.0}, "a clock can be given for the CPU only"),
        ({"device": timing.Cpu(), "clock": lambda: 0.0}, "brings its own clock"),
    ],
)
def test_arguments_that_make_no_measurement(settings, message):
    with pytest.raises(ValueError, match=message):
        measured({"a": plus_one}, **settings)


@pytest.mark.parametrize("names", [[], ["copy"], ["kernel copy"], ["a", "empty"]])
def test_names_that_cannot_be(names):
    with pytest.raises(ValueError, match="none named copy or kernel copy or empty"):
        measured(dict.fromkeys(names, plus_one))


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu():
    with pytest.raises(ValueError, match="this machine or torch has none"):
        measured({"a": plus_one}, device="cuda")


def test_a_clock_that_stands_still():
    with pytest.raises(timing.TimingError, match="the clock stood still"):
        measured({"a": plus_one}, clock=lambda: 1.0)


def test_a_candidate_that_raises_is_named():
    with pytest.raises(timing.TimingError, match="'b' raises RuntimeError") as caught:
        measured({"a": plus_one, "b": lambda x: x @ x @ x})
    assert caught.value.who == "b"


def test_seconds_end_a_measurement_but_not_before_nine_rounds():
    for limit, rounds in ((0.0, 9), (20.5, 20), (1000.0, 30)):  # warm: a round takes 1 s
        host = LoadedHost(0, copy_s=0.0)
        host.work = host.clock.advance
        result = measured({"a": host.candidate(0.5)}, device=host, seconds=limit)
        assert result.rounds == len(result.samples["a"]) == rounds


def test_the_wait_grows_until_the_host_is_ahead():
    driver = Driver()
    device = driver.device()
    result = measured({"a": driver.candidate(3e-5, host_s=1e-3)}, device=device)
    assert device.wait == 4_000_000 and not result.flags and result["a"].median_s < 4e-5


def test_inputs_keep_their_strides():
    x = torch.arange(24.0).reshape(4, 6)
    for view in (x[:, :3], x.t(), x[::2], x[:1].expand(5, 6)):
        twin = inputs.twin(view)
        assert torch.equal(twin, view) and twin.data_ptr() != view.data_ptr()
        assert 0 in view.stride() or twin.stride() == view.stride()


@pytest.mark.parametrize("set_bytes", [10, 1000, 1001, 10**9])
def test_a_cold_working_set_exceeds_three_caches(set_bytes):
    count = inputs.sets_needed(set_bytes, 1000, "cold")
    assert count * set_bytes > 3000 and (count == 2 or (count - 1) * set_bytes <= 3000)
    assert inputs.sets_needed(set_bytes, 1000, "warm") == 1


class SmallCache(LoadedHost):
    """It notes, call by call, which bytes are touched."""

    def __init__(self):
        super().__init__(0)
        self.calls = []

    def cache(self):
        return caches.Cache(10_000, "L3")

    def touch(self, *tensors):
        self.calls.append([(x.data_ptr(), x.data_ptr() + x.nbytes) for x in tensors])

    def copy(self, destination, source):
        self.touch(destination, source)
        super().copy(destination, source)

    def kernel_copy(self, destination, *sources):
        self.touch(destination, *sources)
        super().kernel_copy(destination, *sources)

    def candidate(self, seconds):
        call = super().candidate(seconds)
        return lambda x: self.touch(x) or call(x)


def test_nobody_finds_in_the_cache_what_an_earlier_call_left_there():
    host = SmallCache()
    measured({"a": host.candidate(1e-4)}, device=host, cache="cold", rounds=60)
    calls = host.calls[1:]  # without the first look, at the inputs as they were drawn
    used_again = 0
    for number, call in enumerate(calls):
        between = 0
        for earlier in reversed(calls[:number]):
            if any(a < d and c < b for a, b in call for c, d in earlier):
                used_again += 1
                assert between > 3 * host.cache().nbytes
                break
            between += sum(end - start for start, end in earlier)
    assert used_again > 60


def test_the_cache_is_read_from_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(caches, "_other_systems", list)
    assert caches.host_cache(tmp_path) == (64 * 2**20, "a last-level cache of assumed size")
    for index, content in enumerate(
        (
            ("1", "Data", "32K"),
            ("9", "Instruction", "9G"),
            ("3", "Unified", "8M"),
            ("x", "Unified", "?"),
        )
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size"), content, strict=True):
            (folder / name).write_text(text + "\n")
    assert caches.host_cache(tmp_path) == (8 * 2**20, "L3")


@pytest.mark.parametrize(
    ("truth", "y", "error"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 1.0], math.inf),
    ],
)
def test_distance_at_the_edges(truth, y, error):
    assert correctness._distance(torch.tensor(y), torch.tensor(truth)) == error
    assert math.isnan(correctness._distance(torch.tensor([float("nan")]), torch.tensor([1.0])))


def test_one_wrong_element_of_many_is_seen():
    def off_by_one_element(x):
        y = x + 1
        y[3, 5] += 0.01
        return y

    with pytest.raises(timing.TimingError, match="is wrong"):
        measured({"a": off_by_one_element})


def test_nan_in_an_output_is_wrong():
    with pytest.raises(timing.TimingError, match="by nan"):
        measured({"a": lambda x: x + float("nan")})


def test_the_table_shows_every_row_with_its_unit():
    host = LoadedHost(0, copy_s=1e-3)
    host.work = host.clock.advance
    text = str(
        measured({"a": host.candidate(2e-3)}, device=host, what="a title", moved_bytes=10**6)
    )
    title, settings, head, a, copy, kernel, empty = text.splitlines()
    assert (
        title == "a title"
        and "warm cache" in settings
        and "1 MB moved, 30 rounds, plain call" in settings
    )
    assert "95 % interval" in head and "of copy" in head
    assert a.split()[:3] == ["a", "2.001", "ms"] and "50%" in a and "0.4998" in a
    assert copy.startswith("copy") and kernel.startswith("kernel copy")
    assert "100%" in copy and "100%" in kernel and empty.split()[:3] == ["empty", "1", "µs"]


def test_results_name_what_they_do_not_have():
    result = measured({"a": plus_one})
    with pytest.raises(
        KeyError, match="'b' was not measured; there are a, copy, kernel copy, empty"
    ):
        result.ratio("a", "b")
    assert measured({"a": plus_one}, rounds=10).compare("a", "copy") == "undecided"
