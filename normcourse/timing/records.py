"""Records of measurements: samples and conditions as one JSON file.

The rest is derived on loading.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from normcourse import jsonfile
from normcourse.jsonfile import OPTIONAL, RecordError
from normcourse.timing.provenance import provenance
from normcourse.timing.results import CONTROLS, COPIES, NOTABLE, Output, Result

SCHEMA = "normlib-timing-2"
FIRST_CONTROLS = ("copy", "empty")  # of records from before the second copy
HEAD = {"schema": str, "provenance": dict, "absent": dict, "results": list}
CONDITIONS = {"date": str, "threads": int, "allocator": str, "clocks": str, "power": str}
PROVENANCE = {
    "machine": str,
    "device": str,
    "driver": str,
    "cuda": str,
    "torch": str,
    "triton": str,
    "python": str,
    "commit": str,
    "command": str,
} | CONDITIONS
ENTRY = {
    "what": str,
    "case": dict,
    "device": str,
    "cache": str,
    "cache_name": str,
    "cache_bytes": int,
    "working_set_bytes": int,
    "seed": int,
    "moved_bytes": int,
    "entry": str,
    "peak_bytes_per_s": float | OPTIONAL,
    "conditions": dict,
    "seen": list,
    "outputs": dict[str, Output],
    "samples_us": dict,
    "hosts_us": dict | OPTIONAL,
}


def new_record(device: str, command: str | None = None) -> dict:
    """A record without results: where it is made, and `absent`, {contender: why it is missing}."""
    return {
        "schema": SCHEMA,
        "provenance": provenance(device, command),
        "absent": {},
        "results": [],
    }


def save_record(path: Path | str, record: Mapping) -> None:
    """All or nothing, and nothing that `load_record` would refuse: RecordError."""
    entries = [entry(result) for result in record["results"]]
    stored = {**record, "results": entries}
    _results(stored)
    jsonfile.write(Path(path), stored)


def load_record(path: Path | str) -> dict:
    """The record, its results as Result; RecordError says in one line what is wrong with it."""
    path = Path(path)
    stored = jsonfile.read(path, make="make bench")
    try:
        return stored | {"results": _results(stored)}
    except RecordError as error:
        raise jsonfile.damaged(path, str(error)) from None


def entry(result: Result) -> dict:
    """What is stored of a result: samples in microseconds, numbers with five digits."""
    stored = {name: getattr(result, name) for name in ENTRY if not name.endswith("_us")}
    stored["case"] = dict(result.case)
    stored["conditions"] = dict(result.conditions)
    stored["outputs"] = {name: _output(output) for name, output in result.outputs.items()}
    stored["samples_us"] = _microseconds(result.samples)
    stored["hosts_us"] = None if result.hosts is None else _microseconds(result.hosts)
    return stored


def _output(output: Output) -> dict:
    error = None if output.error is None else _five(output.error)
    return asdict(output) | {"error": error}


def _microseconds(samples: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {name: [_five(1e6 * t) for t in times] for name, times in samples.items()}


def _seconds(samples: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {name: [1e-6 * t for t in times] for name, times in samples.items()}


def _five(value: float) -> float:
    return float(f"{value:.5g}")


def _results(stored: Mapping) -> list[Result]:
    """The results, parsed; RecordError names the first thing that cannot be."""
    schema = stored.get("schema")
    _demand(schema == SCHEMA, f"it is of another kind: schema {schema!r}, not {SCHEMA!r}")
    jsonfile.expect(stored, HEAD, "it")
    _origin(stored["provenance"], PROVENANCE, "its provenance")
    found = []
    for number, one in enumerate(stored["results"]):
        what = one.get("what", "") if isinstance(one, Mapping) else ""
        try:
            found.append(parse_entry(one))
        except RecordError as error:
            raise RecordError(f"result {number} ({what}): {error}") from None
    return found


def _origin(part: Mapping, kinds: Mapping[str, type], where: str) -> None:
    jsonfile.expect(part, kinds, where)
    empty = [name for name, value in part.items() if value == ""]
    _demand(not empty, f"{where} lacks {', '.join(empty)}")


def parse_entry(stored: object) -> Result:
    """What an entry says; RecordError if that cannot be: its form, its samples, or its speeds."""
    if isinstance(stored, Mapping):  # the first records were made without it
        stored = {"peak_bytes_per_s": None, **stored}
    one = jsonfile.expect(stored, ENTRY, "it")
    _origin(one["conditions"], CONDITIONS, "its conditions")
    names = list(one["samples_us"])
    contenders = list(one["outputs"])
    _demand(
        bool(contenders) and names in ([*contenders, *CONTROLS], [*contenders, *FIRST_CONTROLS]),
        f"samples of {names} for {contenders}, {', '.join(COPIES)} and empty",
    )
    dtypes = {name: output.dtype for name, output in one["outputs"].items()}
    _demand(len(set(dtypes.values())) == 1, f"contenders have different output dtypes: {dtypes}")
    _check_samples(one["samples_us"], "samples_us")
    if one["hosts_us"] is not None:
        _demand(list(one["hosts_us"]) == names, "hosts_us and samples_us have other names")
        _check_samples(one["hosts_us"], "hosts_us")
    enough = one["working_set_bytes"] > 3 * one["cache_bytes"]
    _demand(
        one["cache"] == "warm" or enough,
        "called cold, but the working set is not over three times the cache",
    )
    samples = _seconds(one.pop("samples_us"))
    hosts = one.pop("hosts_us")
    result = Result(**one, samples=samples, hosts=None if hosts is None else _seconds(hosts))
    _check_speeds(result)
    return result


def _check_samples(samples: Mapping, where: str) -> None:
    for name, times in samples.items():
        _demand(isinstance(times, list), f"{where} of {name} are no list")
        _demand(all(map(_is_time, times)), f"{where} of {name} hold what is no positive number")
    counts = {name: len(times) for name, times in samples.items()}
    rounds = min(counts.values())
    _demand(len(set(counts.values())) == 1, f"{where} are of different rounds: {counts}")
    _demand(rounds >= 6, f"{where} of {rounds} rounds; fewer than 6 have no interval")


def _check_speeds(result: Result) -> None:
    _demand(result.moved_bytes > 0, f"moved_bytes {result.moved_bytes}")
    if result.peak_bytes_per_s is None:
        return
    for row in result.rows:
        slowest = row.interval_s[1]
        share = row.moved_bytes / slowest / result.peak_bytes_per_s
        if share > NOTABLE:
            raise RecordError(
                f"{row.name}: {share:.0%} of the maker's peak for this memory: "
                "above 100 % is impossible"
            )


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf


def _demand(condition: bool, otherwise: str) -> None:
    if not condition:
        raise RecordError(otherwise)
