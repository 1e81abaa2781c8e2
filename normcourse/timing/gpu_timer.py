"""The ten lines of lesson 07 as one function: what a call costs on a GPU."""

import statistics
from collections.abc import Callable

import torch

ROUNDS = 15


def time_on_gpu(f: Callable[[], object], waste, cuda=torch.cuda) -> float:
    """Seconds that the device works on one call of f, with nothing of it in the cache.

    Where the host takes longer to launch f than the device to write `waste`, the time contains
    waiting for the host: give a larger `waste`, or the `replay` of a graph that holds f.

    Args:
        waste: a tensor on the device, four times as large as its cache.
        cuda: torch.cuda, or a simulated device that has its names.
    """
    f()  # loads, compiles
    cuda.synchronize()
    times = []
    for _ in range(ROUNDS):
        first = cuda.Event(enable_timing=True)
        last = cuda.Event(enable_timing=True)
        waste.zero_()  # while the device writes, the host gets ahead
        first.record()
        f()
        last.record()
        cuda.synchronize()
        times.append(first.elapsed_time(last) / 1000)  # it counts milliseconds
    return statistics.median(times)
