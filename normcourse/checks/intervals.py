"""The half-width of an interval, and what goes wrong with it: for the checks of 08 and 08a."""

from collections.abc import Callable

from torch import Tensor


def half(d: Tensor, t: float) -> Tensor:
    """t standard errors of the mean over the last axis: (...) for differences d (..., n)."""
    return t * error(d)


def error(d: Tensor) -> Tensor:
    return d.std(-1) / d.shape[-1] ** 0.5


HALVES = {  # of d and t: what each of the checks names
    "that is where single differences lie; the spread of their mean is smaller by sqrt(n).": (
        lambda d, t: t * d.std(-1)
    ),
    "divide the squares by n - 1 (torch's std() does, numpy's needs ddof=1).": lambda d, t: (
        t * d.std(-1, correction=0) / d.shape[-1] ** 0.5
    ),
    "1.96 is not the argument t: it is for a known spread.": lambda d, t: half(d, 1.96),
    "that is one standard error, not the interval: multiply by t.": lambda d, t: error(d),
    "divide by sqrt(n), not by n.": lambda d, t: t * d.std(-1) / d.shape[-1],
    "divide by sqrt(n); n - 1 is already in the standard deviation.": lambda d, t: (
        t * d.std(-1) / (d.shape[-1] - 1) ** 0.5
    ),
    "that is a variance; take its root.": lambda d, t: t * d.var(-1) / d.shape[-1] ** 0.5,
}
TO_EACH_SIDE = "the interval reaches t * s / sqrt(n) to EACH side; yours is half as wide."
PAIRED = "the seeds are paired: take the spread of the differences, not of each one's results."
SORTED = "a pair is one seed: do not sort."


def unpaired(a: Tensor, b: Tensor, t: float) -> Tensor:
    return t * ((a.var() + b.var()) / len(a)).sqrt()


def built_in(seeds: tuple[int, ...] = (), ts: tuple[float, ...] = ()) -> dict[str, Callable]:
    """Half-widths of d and t with a number in them that is right in one case alone."""
    found = {}
    for n in seeds:
        text = f"the number of seeds is not always {n}: take it from the results."
        found[text] = lambda d, t, n=n: t * d.std(-1) / n**0.5
    for fixed in ts:
        text = f"t is an argument, and not always {fixed}."
        found[text] = lambda d, t, fixed=fixed: half(d, fixed)
    return found
