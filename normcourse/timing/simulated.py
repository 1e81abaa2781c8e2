"""Simulated machines with clocks of their own: a GPU, and a processor that copies.

The GPU has a queue of work, and a host that runs ahead of it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from torch import Tensor

from normcourse.timing.devices import Cpu, Cuda

INTERRUPTION = 300e-6  # seconds
CYCLES = 1e9  # a second
MARK = 1e-6  # seconds that a mark of the driver takes
HOT = 1.5  # times as long


@dataclass(frozen=True)
class Event:
    """A mark in the queue of a Device; `Device.elapsed` reads two of them."""

    moment: float
    place: int


class Device:
    """Work is queued and the host runs ahead; the times are made up, so every run agrees.

    A kernel's first call takes the host `first` seconds (loading, compiling), every call `launch`.
    The device needs `start` and the bytes over `bandwidth`, thrice that where they still lie in the
    cache. After every `interrupt` kernels something else holds it for 300 µs. After `cool` seconds
    of work it is hot, lowers its clocks, and needs 1.5 times as long for everything.
    """

    def __init__(
        self,
        bandwidth: float = 4e12,
        launch: float = 6e-6,
        start: float = 2e-6,
        first: float = 0.5,
        cache: float = 50e6,
        interrupt: int = 0,
        cool: float = float("inf"),
    ) -> None:
        self.bandwidth = bandwidth
        self.launch = launch
        self.start = start
        self.first = first
        self.cache = cache
        self.interrupt = interrupt
        self.cool = cool
        self.log: list[str] = []  # what was queued
        self.spans: list[
            tuple[float, list[str]]
        ] = []  # the parts of the log between two marks that were read
        self._host = 0.0  # what the host's clock shows
        self._free = 0.0  # when the queue will be empty
        self._known: set[str] = set()
        self._cached: str | None = None
        self._count = 0
        self._worked = 0.0  # seconds

    def run(self, kernel: str, moved: float) -> None:
        """Queue a kernel that moves so many bytes."""
        if kernel not in self._known:
            self._known.add(kernel)
            self._host += self.first
            self.log.append("first")
        warm = self._cached == kernel and moved <= self.cache
        speed = self.bandwidth * (3 if warm else 1)
        self._host += self.launch
        self._queue("warm" if warm else "cold", self.start + moved / speed)
        self._cached = kernel
        self._count += 1
        if self.interrupt and self._count % self.interrupt == 0:
            self._queue("interrupt", INTERRUPTION)

    def flush(self) -> None:
        """Queue a write of four times the cache, which leaves nothing else in it."""
        self._host += self.launch
        self._queue("flush", 4 * self.cache / self.bandwidth)
        self._cached = None

    def synchronize(self) -> None:
        """Let the host wait until the queue is empty."""
        self._host = max(self._host, self._free)
        self.log.append("synchronize")

    def clock(self) -> float:
        """The host's clock, in seconds."""
        return self._host

    def event(self) -> Event:
        """Queue a mark; the device stamps it with the time when it gets there."""
        self._free = max(self._host, self._free)
        return Event(self._free, len(self.log))

    def elapsed(self, first: Event, last: Event) -> float:
        """Seconds between two marks; RuntimeError if the device has not come to the second yet."""
        if last.moment > self._host:
            raise RuntimeError(
                "the device has not reached the last event: synchronize before you read it"
            )
        seconds = last.moment - first.moment
        self.spans.append((seconds, self.log[first.place : last.place]))
        return seconds

    def _queue(self, what: str, seconds: float) -> None:
        self.log += ["idle", what] if self._host > self._free else [what]
        if self._worked > self.cool:
            seconds *= HOT
        self._worked += seconds
        self._free = max(self._host, self._free) + seconds


class Host(Cpu):
    """A processor whose clock moves by what is copied, and by nothing else, so every run agrees.

    A copy takes `start` seconds and the bytes read and written over `bandwidth`, a few percent more
    or less from one copy to the next, as no two measurements are equal.
    """

    def __init__(self, bandwidth: float = 1e10, start: float = 1e-6) -> None:
        super().__init__(lambda: self._now)
        self.bandwidth = bandwidth
        self.start = start
        self._now = 0.0
        self._copies = 0

    def copy(self, destination: Tensor, source: Tensor) -> None:
        super().copy(destination, source)
        moved = 2 * source.numel() * source.element_size()
        self._copies += 1
        self._now += (1 + 0.05 * math.sin(self._copies)) * (self.start + moved / self.bandwidth)

    def kernel_copy(self, destination: Tensor, *sources: Tensor) -> None:
        super().kernel_copy(destination, *sources)
        moved = (1 + len(sources)) * destination.numel() * destination.element_size()
        self._now += self.start + moved / self.bandwidth


class Driver(Device):
    """A Device by the names of torch.cuda that timing.Cuda uses."""

    def __init__(self, cache: int = 1000, launch: float = 5e-6, mark: float = MARK) -> None:
        super().__init__(launch=launch, cache=cache)
        self.mark = mark
        self._aside = 0.0  # when another stream will be empty

    def device(self, copy_s: float = 2e-5, kernel_copy_s: float | None = None) -> Cuda:
        """The real Cuda class on this driver, whose copies take so many seconds."""
        return _SimulatedCuda(self, copy_s, copy_s if kernel_copy_s is None else kernel_copy_s)

    def candidate(self, seconds: float, host_s: float | None = None) -> Callable:
        """x + 1, with a kernel of so many seconds, launched in so many of the host."""

        def call(x):
            self.hold(seconds, host_s)
            return x + 1

        return call

    def hold(self, seconds: float, host_s: float | None = None) -> None:
        """Queue a kernel of so many seconds."""
        self._host += self.launch if host_s is None else host_s
        self._queue("kernel", seconds)

    def hold_aside(self, seconds: float) -> None:
        """The same on another stream, which no mark of this queue sees."""
        self._host += self.launch
        self._aside = max(self._host, self._aside) + seconds

    def synchronize(self) -> None:
        super().synchronize()
        self._host = max(self._host, self._aside)

    def _sleep(self, cycles: int) -> None:
        self.hold(1e-6 + cycles / CYCLES)

    def get_device_properties(self, place: object) -> SimpleNamespace:
        return SimpleNamespace(L2_cache_size=self.cache)

    def Event(self, enable_timing: bool) -> "_CudaEvent":
        return _CudaEvent(self)


class _SimulatedCuda(Cuda):
    """Cuda on a Driver, which copies keep busy for so many seconds and which copies nothing."""

    def __init__(self, driver: Driver, copy_s: float, kernel_copy_s: float) -> None:
        super().__init__(driver, driver.clock, place="cpu")
        self.copy_s = copy_s
        self.kernel_copy_s = kernel_copy_s

    def copy(self, destination: Tensor, source: Tensor) -> None:
        self.driver.hold(self.copy_s)

    def kernel_copy(self, destination: Tensor, *sources: Tensor) -> None:
        self.driver.hold(self.kernel_copy_s)


class _CudaEvent:
    """torch.cuda.Event on a Driver."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def record(self) -> None:
        self.driver.hold(self.driver.mark, host_s=0.0)
        self.mark = self.driver.event()

    def query(self) -> bool:
        return self.driver.clock() >= self.mark.moment

    def elapsed_time(self, other: "_CudaEvent") -> float:
        return 1e3 * self.driver.elapsed(self.mark, other.mark)
