"""A host without a machine: a clock that moves when told, and other work on it."""

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
    """Times vary by 5 %, grow 1.7 times while another job runs, now and then 20 times."""

    def __init__(self, seed, copy_s=1e-4, kernel_copy_s=None):
        super().__init__(Clock())
        self.random, self.load, self.copy_s = random.Random(seed), 1.0, copy_s
        self.kernel_copy_s = copy_s if kernel_copy_s is None else kernel_copy_s

    def work(self, seconds):
        if self.random.random() < 0.03:
            self.load = 2.7 - self.load
        spike = self.random.uniform(2, 20) if self.random.random() < 0.05 else 1.0
        self.clock.advance(seconds * self.load * spike * self.random.lognormvariate(0, 0.05))

    def copy(self, destination, source):
        self.work(self.copy_s)

    def kernel_copy(self, destination, *sources):
        self.work(self.kernel_copy_s)

    def candidate(self, seconds):
        def call(x):
            self.work(seconds)
            return x + 1

        return call


def draw(generator):
    return (torch.randn(16, 8, generator=generator, dtype=torch.float32),)


def plus_one(x):
    return x + 1


def measured(candidates, make_inputs=draw, **settings):
    """A small measurement with a truth, warm: what a test does not care about."""
    settings = {
        "moved_bytes": 1024,
        "reference": plus_one,
        "cache": "warm",
        "warmup": 1,
        **settings,
    }
    return timing.measure(candidates, make_inputs, **settings)
