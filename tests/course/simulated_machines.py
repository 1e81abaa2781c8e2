"""Machines without a machine: a clock that moves when told, a loaded host, a device with a queue."""

import random

import torch

from normcourse import timing


class Clock:
    """Seconds that pass only by `advance`, and a microsecond for each look at it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1e-6
        return self.now

    def advance(self, seconds):
        self.now += seconds


class LoadedHost(timing.Cpu):
    """Times vary by 5 %, are 1.7 times as long while another job runs, and now and then 20 times."""

    def __init__(self, seed, copy_s=1e-4):
        super().__init__(Clock())
        self.random, self.load, self.copy_s = random.Random(seed), 1.0, copy_s

    def work(self, seconds):
        if self.random.random() < 0.03:
            self.load = 2.7 - self.load
        spike = self.random.uniform(2, 20) if self.random.random() < 0.05 else 1.0
        self.clock.advance(seconds * self.load * spike * self.random.lognormvariate(0, 0.05))

    def copy(self, destination, source):
        self.work(self.copy_s)

    def candidate(self, seconds):
        def call(x):
            self.work(seconds)
            return x + 1

        return call


class Driver:
    """What timing.Cuda needs of torch.cuda: the host launches, the device works through its queue later."""

    def __init__(self, cycles_per_s=1e9, cache_bytes=1000):
        self.host, self.busy_until, self.side_until = Clock(), 0.0, 0.0
        self.cycles_per_s, self.cache_bytes = cycles_per_s, cache_bytes

    def launch(self, seconds, host_s=5e-6):
        self.host.advance(host_s)
        self.busy_until = max(self.busy_until, self.host.now) + seconds

    def launch_on_another_stream(self, seconds, host_s=5e-6):
        self.host.advance(host_s)
        self.side_until = max(self.side_until, self.host.now) + seconds

    def _sleep(self, cycles):
        self.launch(cycles / self.cycles_per_s + 1e-6)

    def synchronize(self):
        self.host.now = max(self.host.now, self.busy_until, self.side_until)

    def get_device_properties(self, place):
        return type("Properties", (), {"L2_cache_size": self.cache_bytes})

    def Event(self, enable_timing):
        return Event(self)

    def device(self):
        """The real Cuda class on this driver; its copy takes 20 µs."""
        cuda = timing.Cuda(self, self.host, place="cpu")
        cuda.copy = lambda destination, source: self.launch(2e-5)
        return cuda

    def candidate(self, seconds, host_s=5e-6):
        def call(x):
            self.launch(seconds, host_s)
            return x + 1

        return call


class Event:
    def __init__(self, driver):
        self.driver, self.at = driver, None

    def record(self):
        self.driver.launch(1e-6, host_s=0.0)
        self.at = self.driver.busy_until

    def query(self):
        return self.driver.host.now >= self.at

    def elapsed_time(self, other):
        assert other.query(), "torch raises as well when the event has not happened"
        return 1e3 * (other.at - self.at)


def draw(generator):
    return (torch.randn(16, 8, generator=generator, dtype=torch.float32),)


def plus_one(x):
    return x + 1


def measured(candidates, make_inputs=draw, **settings):
    """A small measurement with a truth, warm: what a test does not care about."""
    settings = {"moved_bytes": 1024, "reference": plus_one, "cache": "warm", "warmup": 1, **settings}
    return timing.measure(candidates, make_inputs, **settings)
