"""A simulated GPU with a clock of its own.

It has a queue of work, a host that runs ahead of it, and the names of torch.cuda.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

from torch import Tensor

from normcourse.timing.devices import Cuda

INTERRUPTION = 300e-6  # seconds
CYCLES = 1e9  # a second
MARK = 1e-6  # seconds that a mark of the driver takes


class Event:
    """torch.cuda.Event: a mark in the queue, which the device stamps when it gets there."""

    def __init__(self, device: "Device", enable_timing: bool) -> None:
        self.device = device
        self.enable_timing = enable_timing
        self.moment: float | None = None  # None: not recorded yet
        self.place = 0

    def record(self) -> None:
        self.moment, self.place = self.device._stamp()

    def query(self) -> bool:
        return self.moment is None or self.device.clock() >= self.moment

    def synchronize(self) -> None:
        """Let the host wait until the device has come to this mark."""
        if self.moment is not None:
            self.device._wait_until(self.moment)

    def elapsed_time(self, other: "Event") -> float:
        """Milliseconds from this mark to the other; ValueError where torch raises it."""
        if not (self.enable_timing and other.enable_timing):
            raise ValueError("both events must be made with enable_timing=True")
        if self.moment is None or other.moment is None:
            raise ValueError("both events must be recorded before you read the time between them")
        if not (self.query() and other.query()):
            raise ValueError(
                "the device has not reached both events: synchronize before you read them"
            )
        seconds = other.moment - self.moment
        self.device.spans.append((seconds, self.device.log[self.place : other.place]))
        return 1e3 * seconds


@dataclass(frozen=True)
class Kernel:
    """A kernel in a graph."""

    name: str
    moved: float


class Graph:
    """torch.cuda.CUDAGraph: kernels that were recorded, and are launched as one."""

    def __init__(self, device: "Device") -> None:
        self.device = device
        self.kernels: list[Kernel] = []

    def replay(self) -> None:
        self.device._launch(self.kernels)


@dataclass(frozen=True)
class Memory:
    """So many bytes on a Device: what torch.empty gives on a GPU."""

    device: "Device"
    nbytes: float

    def zero_(self) -> None:
        """Queue a write of all of it; from the size of the cache on nothing else is left there."""
        self.device._write(self.nbytes)


class Device:
    """Work is queued and the host runs ahead; the times are made up, so every run agrees.

    It has the names of torch.cuda that time a call: Event, synchronize, CUDAGraph, graph,
    get_device_properties. Beside them `run` queues a kernel, `empty` makes memory, and `clock` is
    the host's clock.

    A kernel's first call takes the host `first` seconds (loading, compiling), every launch
    `launch`. The device needs `start` and the bytes over `bandwidth`, thrice that where they still
    lie in the cache. After every `interrupt` kernels something else holds it for 300 µs.
    """

    def __init__(
        self,
        bandwidth: float = 4e12,
        launch: float = 6e-6,
        start: float = 2e-6,
        first: float = 0.5,
        cache: float = 50e6,
        interrupt: int = 0,
    ) -> None:
        self.bandwidth = bandwidth
        self.launch = launch
        self.start = start
        self.first = first
        self.cache = cache
        self.interrupt = interrupt
        self.log: list[str] = []  # what was queued
        # the parts of the log between two marks that were read
        self.spans: list[tuple[float, list[str]]] = []
        self._host = 0.0  # what the host's clock shows
        self._free = 0.0  # when the queue will be empty
        self._known: set[str] = set()
        self._cached: str | None = None
        self._count = 0
        self._recording: Graph | None = None

    def run(self, kernel: str, moved: float) -> None:
        """Queue a kernel that moves so many bytes."""
        if kernel not in self._known:
            self._known.add(kernel)
            self._host += self.first
            self.log.append("first")
        called = Kernel(kernel, moved)
        if self._recording is None:
            self._launch([called])
        else:
            self._recording.kernels.append(called)

    def empty(self, nbytes: float) -> Memory:
        """Memory on this device."""
        return Memory(self, nbytes)

    def clock(self) -> float:
        """The host's clock, in seconds: time.perf_counter of this machine."""
        return self._host

    # The names of torch.cuda

    def synchronize(self) -> None:
        """Let the host wait until the queue is empty."""
        self._wait_until(self._free)
        self.log.append("synchronize")

    def Event(self, enable_timing: bool = False) -> Event:
        return Event(self, enable_timing)

    def CUDAGraph(self) -> Graph:
        return Graph(self)

    @contextmanager
    def graph(self, graph: Graph) -> Iterator[None]:
        """Kernels that are called in here are recorded, and not run."""
        self._recording = graph
        try:
            yield
        finally:
            self._recording = None

    def get_device_properties(self, place: object = None) -> SimpleNamespace:
        return SimpleNamespace(L2_cache_size=self.cache)

    def _stamp(self) -> tuple[float, int]:
        """The time when the device will come to a mark that is queued now, and its place."""
        self._free = max(self._host, self._free)
        return self._free, len(self.log)

    def _wait_until(self, moment: float) -> None:
        self._host = max(self._host, moment)

    def _launch(self, kernels: list[Kernel]) -> None:
        """One launch of the host, whatever it holds."""
        self._host += self.launch
        for kernel in kernels:
            warm = self._cached == kernel.name and kernel.moved <= self.cache
            speed = self.bandwidth * (3 if warm else 1)
            self._queue("warm" if warm else "cold", self.start + kernel.moved / speed)
            self._cached = kernel.name
            self._count += 1
            if self.interrupt and self._count % self.interrupt == 0:
                self._queue("interrupt", INTERRUPTION)

    def _write(self, nbytes: float) -> None:
        self._host += self.launch
        self._queue("flush", nbytes / self.bandwidth)
        if nbytes >= self.cache:
            self._cached = None

    def _queue(self, what: str, seconds: float) -> None:
        self.log += ["idle", what] if self._host > self._free else [what]
        self._free = max(self._host, self._free) + seconds


class Driver(Device):
    """A Device whose kernels take a time that is given, and whose marks take one, too."""

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
        self._wait_until(self._aside)

    def _sleep(self, cycles: int) -> None:
        self.hold(1e-6 + cycles / CYCLES)

    def _stamp(self) -> tuple[float, int]:
        self.hold(self.mark, host_s=0.0)
        return super()._stamp()


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
