"""The records that a lesson shows: the reader's own first, then the course's."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from normcourse.jsonfile import RecordError
from normcourse.timing.records import load_record
from normcourse.timing.results import Result

OWN = "own"  # the folder in records/ that `make bench` fills and the lab never writes over
PASSES = ("forward", "backward", "forward+backward")  # the last that was timed is shown
SEVERAL = ("all", "rsqrt")  # what compares several functions


@dataclass(frozen=True)
class Shown:
    """A record, and whose it is: "yours" or "the course's"."""

    whose: str
    name: str
    record: Mapping

    def __str__(self) -> str:
        origin = self.record["provenance"]
        count = len(self.record["results"])
        machine = f"{origin['device']} ({origin['machine']}), torch {origin['torch']}"
        if self.device == "CPU":
            machine += f", {origin['threads']} threads"
        return f"{self.whose}: {self.name}, {machine}, {origin['date'][:10]}, {count} measurements"

    @property
    def device(self) -> str:
        """The device's name: CPU, or the card's."""
        return self.record["provenance"]["device"]

    @cached_property
    def settings(self) -> dict:
        """Size, dtype, allocator and pass of the figures.

        That is what was measured first; memory whose pages are there, if that
        was measured; forward and backward in one call, or the backward, or the forward.
        """
        single = [r.case for r in self.record["results"] if r.case["op"] not in SEVERAL]
        if not single:
            raise RecordError(
                f"{self.name} holds no norm on its own yet: let make bench go on where it stopped."
            )
        allocators = {case["allocator"] for case in single}
        passes = [case["pass"] for case in single]
        return {
            "tokens": single[0]["tokens"],
            "hidden": single[0]["hidden"],
            "dtype": single[0]["dtype"],
            "allocator": "warm" if "warm" in allocators else single[0]["allocator"],
            "pass": max(passes, key=PASSES.index),
        }

    def find(self, op: str, **other) -> Result | None:
        """One function's measurement at the figures' settings or at others; None: there is none.

        On an idle machine, unless `load` names another one. `way` is the record's "pass".
        """
        if "way" in other:
            other["pass"] = other.pop("way")
        case = {"load": None} | self.settings | {"op": op} | other
        for result in self.record["results"]:
            if all(result.case.get(name) == value for name, value in case.items()):
                return result
        return None

    def has(self, op: str, contender: str, **other) -> bool:
        """Say whether a lesson can show this contender of this function, at these settings."""
        if all(result.case["op"] in SEVERAL for result in self.record["results"]):
            return False
        found = self.find(op, **other)
        return found is not None and contender in found.samples

    def joint(self, contender: str) -> list[Result]:
        """Each measurement of several norms by turns that has this one, in one kind of memory."""
        found = []
        for result in self.record["results"]:
            if result.case["op"] == "all" and contender in result.samples:
                found.append(result)
        warm = [result for result in found if result.case["allocator"] == "warm"]
        return warm or found

    def ratios(self, first: str, second: str) -> list[float]:
        """Median time of the first over that of the second, in each case that timed both.

        A contender is named with its function: "rms_norm torch".
        """
        medians: dict[tuple, dict[str, float]] = {}
        for result in self.record["results"]:
            op = result.case["op"]
            case = tuple(sorted((k, v) for k, v in result.case.items() if k != "op"))
            for row in result.rows:
                name = row.name if op == "all" else f"{op} {row.name}"
                medians.setdefault(case, {})[name] = row.median_s
        both = [times for times in medians.values() if first in times and second in times]
        return [times[first] / times[second] for times in both]

    def need(self, op: str, **other) -> Result:
        """As find; RecordError if there is none."""
        found = self.find(op, **other)
        if found is None:
            wanted = ", ".join(map(str, [op, *other.values()]))
            raise RecordError(
                f"{self.name} does not hold {wanted} yet: "
                "the same make bench goes on where it stopped. "
                "Or move the file away, and the lesson shows the next record."
            )
        return found


def find_records(folder: Path | str) -> list[Shown]:
    """Every timing record in the folder, best first.

    The reader's comes before the course's, a GPU's before a CPU's.
    """
    folder = Path(folder)
    found = []
    for whose, place in (("yours", folder / OWN), ("the course's", folder)):
        records = [
            Shown(whose, path.name, load_record(path))
            for path in sorted(place.glob("timing_*.json"))
        ]
        found += sorted(records, key=lambda shown: shown.device == "CPU")
    if not found:
        raise RecordError(
            f"No timing record lies in {folder.name}/ or its folder {OWN}/. make bench makes one."
        )
    return found
