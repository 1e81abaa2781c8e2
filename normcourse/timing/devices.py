"""Where calls run and how long they take: on the host, or on a CUDA device with its own queue."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from normcourse.timing.caches import Cache, host_cache


class Sample(NamedTuple):
    """One timed call.

    `device_s` equals `host_s` on the CPU, where a call is over when it returns.
    """

    host_s: float
    device_s: float
    output: object


class Cpu:
    """The host.

    `clock` returns seconds; time.perf_counter unless a test or a simulation brings its own.
    """

    name = "cpu"
    kernel_reads = 2  # tensors that kernel_copy reads for the one that it writes

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or time.perf_counter
        self.place = torch.device("cpu")
        self.flags: list[str] = []

    def cache(self) -> Cache:
        return host_cache()

    def peak_bytes_per_s(self) -> float | None:
        """No program can ask a host for it."""
        return None

    def copy(self, destination: Tensor, source: Tensor) -> None:
        destination.copy_(source)

    def kernel_copy(self, destination: Tensor, *sources: Tensor) -> None:
        """The other copy: it reads two tensors and writes one, for writing costs more."""
        torch.add(*sources, out=destination)

    def empty(self) -> None:
        """The call that does nothing: what it takes is the harness itself."""

    def round(
        self, calls: Sequence[Callable], *, keep: bool = False, warm: bool = False
    ) -> list[Sample]:
        """Time each call once, in this order, if `warm` right after the same call untimed.

        Outputs are kept only if asked; otherwise they are freed outside of the time.
        """
        samples = []
        for call in calls:
            if warm:
                call()
            start = self.clock()
            output = call()
            host_s = self.clock() - start
            samples.append(Sample(host_s, host_s, output if keep else None))
            del output
        return samples

    def whole(self, calls: Sequence[Callable]) -> float | None:
        """Nothing to witness: work cannot go on behind the clock's back."""
        return None


class Cuda:
    """A CUDA device, timed by events; the host runs ahead of it.

    Each round first queues a wait, then all calls. The device begins when everything is queued, so
    that what lies between two events is the call's kernels and not the host's launching of them.

    `driver` is torch.cuda, or what simulates it: Event, synchronize, _sleep, get_device_properties.
    """

    name = "cuda"
    kernel_reads = 1
    LONGEST_WAIT = 200_000_000  # cycles: about 0.1 s

    def __init__(
        self, driver=torch.cuda, clock: Callable[[], float] | None = None, place: str = "cuda"
    ) -> None:
        self.driver = driver
        self.clock = clock or time.perf_counter
        self.place = torch.device(place)
        self.flags: list[str] = []
        self.wait = 1_000_000  # cycles; grows until the host is fast enough

    def cache(self) -> Cache:
        return Cache(self.driver.get_device_properties(self.place).L2_cache_size, "L2")

    def copy(self, destination: Tensor, source: Tensor) -> None:
        """The driver's own copy, on some cards slower than a kernel's."""
        destination.copy_(source)

    def kernel_copy(self, destination: Tensor, *sources: Tensor) -> None:
        """A kernel that reads each number once and writes it once."""
        torch.neg(*sources, out=destination)

    def peak_bytes_per_s(self) -> float | None:
        """The maker's: two transfers a clock on every line of the bus; None: it does not tell."""
        told = self.driver.get_device_properties(self.place)
        kilohertz = getattr(told, "memory_clock_rate", 0)
        lines = getattr(told, "memory_bus_width", 0)
        return 2 * 1e3 * kilohertz * lines / 8 or None

    def empty(self) -> None:
        """A kernel that waits for no cycle: what it takes is one launch."""
        self.driver._sleep(0)

    def round(
        self, calls: Sequence[Callable], *, keep: bool = False, warm: bool = False
    ) -> list[Sample]:
        """As Cpu.round; a round in which the host fell behind is done again with a longer wait."""
        timed, ahead = self._queue(calls, keep, warm)
        while not ahead and self.wait < self.LONGEST_WAIT:
            self.wait *= 4
            timed, ahead = self._queue(calls, keep, warm)
        if not ahead and not self.flags:
            self.flags.append(
                "the host never got ahead of the device (does a candidate synchronise?): "
                "the times of the device contain waiting for the host"
            )
        samples = []
        for host_s, first, last, output in timed:
            device_s = first.elapsed_time(last) * 1e-3
            samples.append(Sample(host_s, device_s, output))
        return samples

    def _queue(self, calls: Sequence[Callable], keep: bool, warm: bool) -> tuple[list, bool]:
        """Queue a wait and the calls, and let them run.

        Was everything queued before the wait was over?
        """
        self.driver.synchronize()
        self.driver._sleep(self.wait)
        gate = self.driver.Event(enable_timing=True)
        gate.record()
        timed = [self._one(call, keep, warm) for call in calls]
        ahead = not gate.query()
        self.driver.synchronize()
        return timed, ahead

    def _one(self, call: Callable, keep: bool, warm: bool) -> tuple:
        if warm:
            call()
        first = self.driver.Event(enable_timing=True)
        last = self.driver.Event(enable_timing=True)
        first.record()
        start = self.clock()
        output = call()
        host_s = self.clock() - start
        last.record()
        return host_s, first, last, output if keep else None

    def whole(self, calls: Sequence[Callable]) -> float:
        """Seconds a call, idle device to idle device, by the host's clock: the second witness."""
        self.driver.synchronize()
        start = self.clock()
        for call in calls:
            call()
        self.driver.synchronize()
        return (self.clock() - start) / len(calls)


def resolve(
    device: str | torch.device | Cpu | Cuda, clock: Callable[[], float] | None = None
) -> Cpu | Cuda:
    """The device that a person named.

    ValueError for one that is not there, or that cannot be timed.
    """
    if isinstance(device, str | torch.device):
        device = torch.device(device)
        if device.type == "cpu":
            return Cpu(clock)
        if device.type == "cuda" and torch.cuda.is_available() and not clock:
            if device.index not in (None, torch.cuda.current_device()):
                raise ValueError(
                    f"{device} is not the current device: call torch.cuda.set_device first."
                )
            return Cuda()
        reason = (
            "a clock can be given for the CPU only" if clock else "this machine or torch has none"
        )
        raise ValueError(f"device={str(device)!r} cannot be timed: {reason}. Use device='cpu'.")
    if clock:
        raise ValueError(
            "A device object brings its own clock: give the clock to it, as timing.Cpu(clock)."
        )
    return device
