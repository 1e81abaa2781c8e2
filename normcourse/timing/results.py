"""What a measurement says: rows, paired ratios, flags, a table.

All of it follows from the samples.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy

from normcourse.timing import estimates
from normcourse.timing.estimates import Ratio

COPIES = ("copy", "kernel copy")  # torch's copy_, and one by a kernel that computes
CONTROLS = (*COPIES, "empty")
NOTABLE = 1.03  # of the faster copy, or of the maker's peak: 3 % for what a clock may be off
SPREAD = 0.5  # (80 % quantile - 20 % quantile) / median


@dataclass(frozen=True)
class Output:
    """What a contender returned: its dtype, and the largest error against the truth."""

    dtype: str
    error: int | float | None  # None: no truth was given


@dataclass(frozen=True)
class Row:
    """One contender: its times and those of the faster copy, in seconds a call, by round."""

    name: str
    times: list[float]
    hosts: list[float]
    copies: list[float]
    moved_bytes: int  # 0: the empty call
    output: Output | None  # None: the copy and the empty call

    @cached_property
    def median_s(self) -> float:
        return estimates.median(self.times)

    @cached_property
    def host_s(self) -> float:
        """Median time until the call returned; on the CPU the same as median_s."""
        return estimates.median(self.hosts)

    @cached_property
    def interval_s(self) -> tuple[float, float]:
        """95 % interval of the median."""
        return estimates.interval(self.times)

    @cached_property
    def middle_s(self) -> tuple[float, float]:
        """The 20 % and the 80 % quantile of the times."""
        low, high = numpy.quantile(self.times, [0.2, 0.8]).tolist()
        return low, high

    @property
    def gb_per_s(self) -> float:
        return self.moved_bytes / self.median_s * 1e-9

    @property
    def of_copy(self) -> float:
        """Speed as a share of the faster copy's."""
        return self.copy_ratio.median

    @cached_property
    def copy_ratio(self) -> Ratio:
        """Time of the faster copy over time of this one, paired by round."""
        return estimates.ratio(self.copies, self.times)


@dataclass(frozen=True)
class Result:
    """The samples of all contenders, then of CONTROLS, and how they were taken."""

    what: str
    case: Mapping[str, object]
    device: str
    cache: str
    cache_name: str
    cache_bytes: int
    working_set_bytes: int
    seed: int
    moved_bytes: int
    entry: str  # the pass that was timed, as passes.py names it
    peak_bytes_per_s: float | None  # of the maker's data, if the device tells it
    conditions: Mapping[str, object]
    seen: list[str]  # warnings that no sample tells
    outputs: Mapping[str, Output]
    samples: Mapping[str, list[float]]  # name: seconds in each round
    hosts: Mapping[str, list[float]] | None  # the same on the host; None: the same, as on a CPU

    @property
    def rounds(self) -> int:
        return len(self.samples["copy"])

    @cached_property
    def reference(self) -> str:
        """The faster one of the copies; the first records have one only."""
        there = [name for name in COPIES if name in self.samples]
        return min(there, key=lambda name: estimates.median(self.samples[name]))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(self._row(name) for name in self.samples)

    def _row(self, name: str) -> Row:
        hosts = self.samples if self.hosts is None else self.hosts
        return Row(
            name=name,
            times=self.samples[name],
            hosts=hosts[name],
            copies=self.samples[self.reference],
            moved_bytes=0 if name == "empty" else self.moved_bytes,
            output=self.outputs.get(name),
        )

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r} was not measured; there are {', '.join(self.samples)}")

    @property
    def flags(self) -> list[str]:
        """What a reader has to know before believing the rows."""
        return self.seen + suspicions(self)

    def ratio(self, a: str, b: str, confidence: float = 0.95) -> Ratio:
        """Time of a over time of b, paired by round: above 1, a is the slower one."""
        return estimates.ratio(self[a].times, self[b].times, confidence)

    def compare(self, a: str, b: str, margin: float = 0.05) -> str:
        """Whether a is "slower" or "faster" than b by more than the margin, "equal" or "undecided".

        The 99.9 % interval decides, so that a twin is taken for slower in less than one of 1,000
        comparisons even with margin 0. It needs 11 rounds.
        """
        if not estimates.has_interval(self.rounds, 0.999):
            return "undecided"
        _, low, high = self.ratio(a, b, 0.999)
        if low > 1 + margin:
            return "slower"
        if high < 1 / (1 + margin):
            return "faster"
        return "equal" if low >= 1 / (1 + margin) and high <= 1 + margin else "undecided"

    def __str__(self) -> str:
        warnings = [f"! {flag}" for flag in self.flags]
        lines = [self.what, self._conditions(), *_table(self.rows), *warnings]
        return "\n".join(line for line in lines if line)

    def _conditions(self) -> str:
        size = f"{self.moved_bytes / 1e6:.4g} MB moved, {self.rounds} rounds, {self.entry}"
        last = f"{self.cache_name} {self.cache_bytes / 1e6:.4g} MB"
        cache = f"{self.cache} cache (working set {self.working_set_bytes / 1e6:.4g} MB, {last})"
        return f"{self.device}, {cache}, {size}"


def suspicions(result: Result) -> list[str]:
    """What the samples themselves warn of."""
    flags = []
    if any(output.error is None for output in result.outputs.values()):
        flags.append("no reference was given: nothing shows that the contenders compute the same")
    for row in result.rows:
        if row.name not in CONTROLS and row.copy_ratio.low > NOTABLE:
            flags.append(
                f"{row.name}: {row.of_copy:.0%} of the {result.reference}, above 100 % beyond its "
                f"interval: either this copy is slow here, or it does not move "
                f"{result.moved_bytes} bytes, finds them in the cache, or is not waited for"
            )
        low, high = row.middle_s
        if row.name != "empty" and high - low > SPREAD * row.median_s:
            flags.append(
                f"{row.name}: spread, "
                f"20 to 80 % of its times lie from {in_words(low)} to {in_words(high)}: "
                "measure on a quieter machine, and trust ratios more than times"
            )
    return flags


def in_words(seconds: float) -> str:
    """1.234 ms: the unit that leaves a number from 1 to 1000."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _table(rows: Iterable[Row]) -> list[str]:
    head = ("", "median", "95 % interval", "20 to 80 %", "host", "GB/s", "of copy", "error")
    cells = [head, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for name, *numbers in cells:
        padded = [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *padded]))
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    is_empty = row.moved_bytes == 0
    error = row.output.error if row.output else None
    return (
        row.name,
        in_words(row.median_s),
        " – ".join(map(in_words, row.interval_s)),
        " – ".join(map(in_words, row.middle_s)),
        in_words(row.host_s),
        "" if is_empty else f"{row.gb_per_s:.4g}",
        "" if is_empty else f"{row.of_copy:.0%}",
        "" if error is None else f"{error:.1e}",
    )
