"""What a measurement says: rows, paired ratios, flags, a table."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from normcourse.timing import estimates
from normcourse.timing.estimates import Ratio

CONTROLS = ("copy", "empty")
IMPOSSIBLE = 1.03  # of the copy: 3 % for what reading is cheaper than writing
SPREAD = 0.5  # (80 % quantile - 20 % quantile) / median


@dataclass(frozen=True)
class Row:
    """One contender. Times in seconds for one call; low and high: 95 % interval of the median."""

    name: str
    median_s: float
    low_s: float
    high_s: float
    q20_s: float
    q80_s: float
    rounds: int
    host_s: float
    device_s: float
    moved_bytes: int | None
    gb_per_s: float | None
    of_copy: float | None
    of_copy_low: float | None
    of_copy_high: float | None
    dtype: str | None
    error: float | None


@dataclass(frozen=True)
class Result:
    """Rows of all contenders, then "copy" and "empty"; `samples[name][i]` is the time in round i."""

    what: str
    case: Mapping[str, object]
    device: str
    cache: str
    cache_name: str
    cache_bytes: int
    working_set_bytes: int
    rounds: int
    seed: int
    moved_bytes: int
    entry: str
    conditions: Mapping[str, object]
    flags: list[str]
    rows: tuple[Row, ...]
    samples: Mapping[str, list[float]]

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r} was not measured; there are {', '.join(row.name for row in self.rows)}")

    def ratio(self, a: str, b: str, confidence: float = 0.95) -> Ratio:
        """Time of a over time of b, paired by round: above 1, a is the slower one."""
        return estimates.ratio(self.samples[self[a].name], self.samples[self[b].name], confidence)

    def compare(self, a: str, b: str, margin: float = 0.05) -> str:
        """Is a "slower" or "faster" than b by more than the margin, "equal" within it, or is it "undecided"?

        The 99.9 % interval decides, so that a twin is taken for slower in less than one of 1,000 comparisons
        even with margin 0. It needs 11 rounds.
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
        lines = [self.what, self._conditions(), *_table(self.rows), *(f"! {flag}" for flag in self.flags)]
        return "\n".join(line for line in lines if line)

    def _conditions(self) -> str:
        size = f"{self.moved_bytes / 1e6:.4g} MB moved, {self.rounds} rounds, {self.entry}"
        last = f"{self.cache_name} {self.cache_bytes / 1e6:.4g} MB"
        cache = f"{self.cache} cache (working set {self.working_set_bytes / 1e6:.4g} MB, {last})"
        return f"{self.device}, {cache}, {size}"

    def to_record(self) -> dict:
        """A complete record of this one measurement; see `records`."""
        from normcourse.timing.records import make_record

        return make_record([self])

    def entry_of_record(self) -> dict:
        """What `records` stores: times with five digits, samples in microseconds."""
        stored = {field.name: getattr(self, field.name) for field in fields(self)}
        stored["case"], stored["conditions"] = dict(self.case), dict(self.conditions)
        stored["flags"] = list(self.flags)
        stored["rows"] = [{key: _five(value) for key, value in asdict(row).items()} for row in self.rows]
        del stored["samples"]
        stored["samples_us"] = {name: [_five(1e6 * t) for t in times] for name, times in self.samples.items()}
        return stored

    @classmethod
    def from_record(cls, entry: Mapping) -> "Result":
        """The result that one entry of record["results"] holds, its ratios included."""
        stored = dict(entry)
        samples = {name: [t * 1e-6 for t in times] for name, times in stored.pop("samples_us").items()}
        rows = tuple(Row(**row) for row in stored.pop("rows"))
        return cls(rows=rows, samples=samples, **stored)


def _five(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def make_row(
    name: str, hosts: list[float], devices: list[float], moved_bytes: int | None, copies: list[float]
) -> Row:
    """The row of one contender from its times in seconds; dtype and error are the judge's to add."""
    median = estimates.median(devices)
    low, high = estimates.interval(devices)
    of_copy = estimates.ratio(copies, devices) if moved_bytes else Ratio(None, None, None)
    return Row(
        name=name,
        **{"median_s": median, "low_s": low, "high_s": high, "rounds": len(devices)},
        q20_s=estimates.quantile(devices, 0.2),
        q80_s=estimates.quantile(devices, 0.8),
        host_s=estimates.median(hosts),
        device_s=median,
        moved_bytes=moved_bytes,
        gb_per_s=moved_bytes / median * 1e-9 if moved_bytes else None,
        **{"of_copy": of_copy.median, "of_copy_low": of_copy.low, "of_copy_high": of_copy.high},
        dtype=None,
        error=None,
    )


def suspicions(rows: Iterable[Row], moved_bytes: int, judged: bool) -> list[str]:
    """What a reader has to know before believing the rows."""
    flags = [] if judged else ["no reference was given: nothing shows that the contenders compute the same"]
    for row in rows:
        if row.of_copy_low is not None and row.name != "copy" and row.of_copy_low > IMPOSSIBLE:
            flags.append(
                f"{row.name}: {row.of_copy:.0%} of the copy, above 100 % beyond its interval: it does not "
                f"move {moved_bytes} bytes, finds them in the cache, or is not waited for"
            )
        if row.name != "empty" and row.q80_s - row.q20_s > SPREAD * row.median_s:
            flags.append(
                f"{row.name}: spread, 20 to 80 % of its times lie from {in_words(row.q20_s)} to "
                f"{in_words(row.q80_s)}: measure on a quieter machine, and trust ratios more than times"
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
    cells = [head]
    for row in rows:
        speed = ("", "") if row.gb_per_s is None else (f"{row.gb_per_s:.4g}", f"{row.of_copy:.0%}")
        between = (
            f"{in_words(row.low_s)} – {in_words(row.high_s)}",
            f"{in_words(row.q20_s)} – {in_words(row.q80_s)}",
        )
        error = "" if row.error is None else f"{row.error:.1e}"
        cells.append((row.name, in_words(row.median_s), *between, in_words(row.host_s), *speed, error))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
