"""What a handful of noisy times can say: medians, their intervals, paired ratios, a line."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy
import torch

from normcourse.timing.errors import TimingError


class Ratio(NamedTuple):
    """Median of the ratios of paired times, with an interval of that median."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def median(samples: Sequence[float]) -> float:
    return numpy.median(samples).item()


def interval(samples: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) of the median by order statistics: no assumption on how the noise is distributed.

    Each sample lies below the true median with probability 1/2, so the number of those that do is
    Binomial(n, 1/2). The ends are the samples of rank k + 1 from below and from above, k the
    largest count with 2 P(B <= k) <= 1 - confidence. It assumes independent rounds; load that lasts
    over many of them makes it too narrow, which is why contenders are compared by paired ratios.

    Raises ValueError when n samples have no such interval (fewer than 6 at 95 %, than 11 at 99.9
    %).
    """
    n = len(samples)
    if not has_interval(n, confidence):
        needed = math.ceil(math.log2(2 / (1 - confidence)))
        raise ValueError(
            f"{n} samples have no {confidence:.1%} interval of the median: "
            f"measure {needed} rounds or more."
        )
    allowed = (1 - confidence) * 2**n / 2
    k = 0
    below = 1  # how many of the 2^n outcomes have B <= k
    while below + math.comb(n, k + 1) <= allowed:
        k += 1
        below += math.comb(n, k)
    ordered = sorted(samples)
    return ordered[k], ordered[n - 1 - k]


def has_interval(n: int, confidence: float) -> bool:
    return (1 - confidence) * 2**n >= 2


def ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Median and interval of a_i / b_i. Pairs are of one round: what slowed both cancels."""
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    low, high = interval(ratios, confidence)
    return Ratio(median(ratios), low, high)


def fit_line(nbytes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """(t0, bandwidth) of t = t0 + bytes / bandwidth, with the least relative errors.

    Relative, because the smallest size says most about t0 and the largest about the bandwidth.
    Raises ValueError with fewer than 4 sizes, TimingError where time does not grow with bytes.
    """
    positive = min(*nbytes, *seconds) > 0
    if len(set(nbytes)) < 4 or len(nbytes) != len(seconds) or not positive:
        raise ValueError(
            "fit_line needs 4 different sizes or more and as many times, all positive, "
            f"got {list(nbytes)} and {list(seconds)}. "
            "Measure more sizes: a line through few points fits anything."
        )
    size = torch.tensor(nbytes, dtype=torch.float64)
    time = torch.tensor(seconds, dtype=torch.float64)
    scale = size.mean()
    # (sizes, 2)
    columns = torch.stack((torch.ones_like(size), size / scale), dim=1) / time[:, None]
    # driver: the default one, gelsy, gives other last bits from call to call.
    fit = torch.linalg.lstsq(columns, torch.ones_like(time)[:, None], driver="gels")
    t0, slope = fit.solution[:, 0].tolist()
    if slope <= 0:
        raise TimingError(
            "Time does not grow with bytes, and a bandwidth was expected. "
            "What was timed is not the traffic: "
            "look for a missing synchronisation, or take larger sizes."
        )
    return t0, scale.item() / slope
