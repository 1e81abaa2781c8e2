"""How sure a comparison is: a paired interval, a test by signs, corrections for many at once."""

import math
from typing import NamedTuple

import torch
from scipy import special
from torch import Tensor

MOST_FLIPPED = 20  # differences: a million choices of signs


class Paired(NamedTuple):
    """Of a - b over the seeds: mean, the ends of an interval, and the probability p."""

    mean: float
    low: float
    high: float
    p: float


def paired(a: Tensor, b: Tensor, level: float = 0.95) -> Paired:
    """Compare results (n,) of the same n seeds by their differences.

    [EQ-PAIRED]

    The interval holds the true mean in a share `level` of such trials, and p is how often a mean
    this far from 0, or farther, would come by chance: both if the differences are independent draws
    of one normal distribution. Differences that are all equal have the interval's width 0, and p 1
    if they are all 0, else 0.
    Raises: ValueError (not two vectors of the same length, at least 2; level not in (0, 1)).
    Source: Student 1908.
    """
    if a.dim() != 1 or a.shape != b.shape or len(a) < 2 or not 0 < level < 1:
        raise ValueError(
            f"paired needs two vectors with one result a seed, at least 2, and 0 < level < 1, got "
            f"shapes {tuple(a.shape)} and {tuple(b.shape)}, level {level}. "
            "Sort both by the seed first."
        )
    differences = (a - b).double()
    freedom = len(differences) - 1
    mean = differences.mean().item()
    error = differences.std().item() / math.sqrt(len(differences))
    half = student_quantile(len(differences), level) * error
    if error == 0:
        return Paired(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    p = 2 * special.stdtr(freedom, -abs(mean) / error).item()
    return Paired(mean, mean - half, mean + half, p)


def student_quantile(n: int, level: float = 0.95) -> float:
    """How many standard errors of the mean an interval of n differences reaches to each side.

    Raises: ValueError (n below 2; level not in (0, 1)).
    Source: Student 1908.
    """
    if n < 2 or not 0 < level < 1:
        raise ValueError(
            f"student_quantile needs at least 2 differences and 0 < level < 1, got {n}, {level}."
        )
    return special.stdtrit(n - 1, (1 + level) / 2).item()


def welch(a: Tensor, b: Tensor) -> float:
    """p of results a (n,) and b (m,) that share no seed, by their two spreads.

    It is how often two means would lie this far apart, or farther, by chance: about, if each is of
    independent draws of a normal distribution, and both have the same mean.
    Raises: ValueError (not two vectors of at least 2 results; both without any spread).
    Source: Welch 1947.
    """
    shapes = [tuple(a.shape), tuple(b.shape)]
    if any(len(shape) != 1 or shape[0] < 2 for shape in shapes):
        raise ValueError(f"welch needs two vectors with at least 2 results each, got {shapes}.")
    first = (a.double().var() / len(a)).item()
    second = (b.double().var() / len(b)).item()
    if first + second == 0:
        raise ValueError("welch needs a spread, and all results of a are equal, and all of b.")
    distance = abs(a.double().mean() - b.double().mean()).item() / math.sqrt(first + second)
    freedom = (first + second) ** 2 / (first**2 / (len(a) - 1) + second**2 / (len(b) - 1))
    return 2 * special.stdtr(freedom, -distance).item()


def sign_flip(d: Tensor) -> float:
    """The share of all choices of signs whose sum lies as far from 0 as that of d (n,), or farther.

    It is p if two equal contenders make differences that are as likely with the other sign,
    whatever their distribution is; the least that it can be is 2 / 2^n. Sums that differ by
    rounding alone count as equal.
    Raises: ValueError (not a vector of 1 to 20 differences).
    Source: Fisher 1935, The Design of Experiments, chapter III.
    """
    if d.dim() != 1 or not 1 <= len(d) <= MOST_FLIPPED:
        raise ValueError(
            f"sign_flip needs a vector of 1 to {MOST_FLIPPED} differences, got shape "
            f"{tuple(d.shape)}. There are 2^n choices of signs."
        )
    sums = torch.zeros(1, dtype=torch.float64)
    for difference in d.double():
        sums = torch.cat([sums + difference, sums - difference])
    farthest = d.double().abs().sum()
    rounding = len(d) * torch.finfo(torch.float64).eps * farthest
    return (sums.abs() >= sums[0].abs() - rounding).double().mean().item()


def holm(p: Tensor) -> Tensor:
    """Probabilities (m,), corrected so that those below 5 % are all true in 95 % of families.

    From small to large they are multiplied by m, m - 1, ... 1; none is smaller than the one before
    it, and none is larger than 1.
    Raises: ValueError (not a vector of probabilities).
    Source: Holm 1979, section 3.
    """
    order = _order(p)
    factors = torch.arange(len(p), 0, -1, dtype=p.dtype)
    corrected = (factors * p[order]).cummax(0).values.clamp(max=1)
    return torch.empty_like(p).index_copy_(0, order, corrected)


def benjamini_hochberg(p: Tensor) -> Tensor:
    """Probabilities (m,), corrected so that of those below 5 % at most 5 % are false on average.

    From small to large they are multiplied by m / 1, m / 2, ... 1; none is larger than the one
    after it. The promise needs independent comparisons, or ones that err together.
    Raises: ValueError (not a vector of probabilities).
    Source: Benjamini & Hochberg 1995, section 3.1; Benjamini & Yekutieli 2001 for dependent ones.
    """
    order = _order(p)
    factors = len(p) / torch.arange(1, len(p) + 1, dtype=p.dtype)
    corrected = (factors * p[order]).flip(0).cummin(0).values.flip(0)
    return torch.empty_like(p).index_copy_(0, order, corrected)


def _order(p: Tensor) -> Tensor:
    """The places of the probabilities from small to large."""
    if p.dim() != 1 or not len(p) or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            f"A correction needs probabilities (m,) from 0 to 1, got shape {tuple(p.shape)}. "
            "Pass the p of every comparison that you made."
        )
    return p.argsort(stable=True)
