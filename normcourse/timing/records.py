"""Records of measurements: one JSON file, checked before it is written and after it is read."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

from normcourse.timing import estimates
from normcourse.timing.errors import RecordError
from normcourse.timing.provenance import provenance
from normcourse.timing.results import CONTROLS, IMPOSSIBLE, Result, Row

SCHEMA = "normlib-timing-1"
HEAD = {"schema": str, "provenance": dict, "absent": dict, "results": list}
PROVENANCE = ("machine", "device", "driver", "cuda", "torch", "triton", "python", "commit", "command")
CONDITIONS = ("date", "threads", "allocator", "clocks", "power")
ENTRY = {field.name for field in fields(Result)} - {"samples"} | {"samples_us"}
ROW = {field.name for field in fields(Row)}
TIMES = ("low_s", "median_s", "high_s", "q20_s", "q80_s", "host_s", "device_s")
ROUNDING = 1e-3  # stored numbers have five digits


def make_record(
    results: Iterable[Result],
    *,
    command: str | None = None,
    absent: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> dict:
    """A record of some results of this run. absent: contender that should be there, and why it is not.

    device: only for a record that has no results yet; otherwise it is theirs.
    """
    entries = [result.entry_of_record() for result in results]
    device = entries[0]["device"] if entries else device
    return {
        "schema": SCHEMA,
        "provenance": provenance(device, command),
        "absent": dict(absent or {}),
        "results": entries,
    }


def save_record(path: Path | str, record: Mapping) -> None:
    """All or nothing, and nothing that `load_record` would refuse."""
    check_record(record)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    head = [f" {json.dumps(key)}: {_json(record[key])}" for key in HEAD if key != "results"]
    entries = ",\n".join(f"  {_json(entry)}" for entry in record["results"])
    draft = path.with_suffix(".tmp")
    draft.write_text("{\n" + ",\n".join([*head, f' "results": [\n{entries}\n ]']) + "\n}\n", "utf-8")
    os.replace(draft, path)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def load_record(path: Path | str) -> dict:
    """The record, or RecordError with what is wrong with it."""
    path = Path(path)
    try:
        record = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecordError(
            f"{path.name} cannot be read ({error.strerror}): make it with make bench."
        ) from error
    except ValueError as error:
        raise RecordError(
            f"{path.name} is damaged, no JSON: {error}. Measure anew with make bench."
        ) from error
    try:
        check_record(record)
    except RecordError as error:
        raise RecordError(f"{path.name}: {error}") from None
    return record


def check_record(record: object) -> None:
    """RecordError names the first thing that cannot be: a form, a missing origin, an impossible number."""
    _demand(isinstance(record, Mapping), "it is no JSON object")
    for key, kind in HEAD.items():
        _demand(isinstance(record.get(key), kind), f"the field {key!r} is missing or no {kind.__name__}")
    _demand(record["schema"] == SCHEMA, f"it is of another kind: schema {record['schema']!r}, not {SCHEMA!r}")
    for key in (*PROVENANCE, *CONDITIONS):
        _demand(record["provenance"].get(key) not in (None, ""), f"its provenance lacks {key!r}")
    for number, entry in enumerate(record["results"]):
        _demand(isinstance(entry, Mapping), f"result {number} is no JSON object")
        try:
            _check_entry(entry)
        except RecordError as error:
            raise RecordError(f"result {number} ({entry.get('what', '')}): {error}") from None


def _demand(condition: bool, otherwise: str) -> None:
    if not condition:
        raise RecordError(otherwise)


def _check_entry(entry: Mapping) -> None:
    _demand(set(entry) == ENTRY, f"fields that are missing or unknown: {sorted(set(entry) ^ ENTRY)}")
    _demand(
        isinstance(entry["rows"], list) and isinstance(entry["samples_us"], Mapping), "rows or samples_us"
    )
    for key in CONDITIONS:
        _demand(entry["conditions"].get(key) not in (None, ""), f"its conditions lack {key!r}")
    for row in entry["rows"]:
        _demand(
            isinstance(row, Mapping) and set(row) == ROW, f"a row without exactly the fields {sorted(ROW)}"
        )
    names = [row["name"] for row in entry["rows"]]
    _demand(names[-2:] == list(CONTROLS) and len(names) > 2, f"rows {names} do not end with copy and empty")
    _demand(list(entry["samples_us"]) == names, f"samples of {list(entry['samples_us'])} for rows of {names}")
    own = [row for row in entry["rows"] if row["name"] not in CONTROLS]
    kinds = {row["name"]: row["dtype"] for row in own}
    _demand(len(set(kinds.values())) == 1, f"contenders have different output dtypes: {kinds}")
    if entry["cache"] == "cold":
        enough = entry["working_set_bytes"] > 3 * entry["cache_bytes"]
        _demand(enough, "called cold, but the working set is not over three times the cache")
    for row in entry["rows"]:
        try:
            _check_row(row, entry)
        except RecordError as error:
            raise RecordError(f"{row['name']}: {error}") from None


def _check_row(row: Mapping, entry: Mapping) -> None:
    for key in TIMES:
        _demand(_is_positive(row[key]), f"{key} is {row[key]!r}, no positive number")
    _demand(row["low_s"] <= row["median_s"] <= row["high_s"], "its median lies outside its own interval")
    _demand(
        row["q20_s"] <= row["median_s"] <= row["q80_s"], "its median lies outside its own 20 to 80 % range"
    )
    _demand(row["device_s"] == row["median_s"], "device_s and median_s differ")
    samples = [1e-6 * t for t in entry["samples_us"][row["name"]]]
    _demand(
        len(samples) == row["rounds"] == entry["rounds"], "the number of samples is not that of the rounds"
    )
    _demand(all(map(_is_positive, samples)), "a sample that is no positive number")
    _close(row["median_s"], estimates.median(samples), "median_s is not the median of its samples")
    low, high = estimates.interval(samples)
    _close(row["low_s"], low, "low_s is not what its samples say")
    _close(row["high_s"], high, "high_s is not what its samples say")
    if row["name"] != "empty":
        _check_speed(row, entry)


def _check_speed(row: Mapping, entry: Mapping) -> None:
    _demand(
        row["moved_bytes"] == entry["moved_bytes"], "other bytes than the measurement's one formula gives"
    )
    speed = row["moved_bytes"] / row["median_s"] * 1e-9
    _close(row["gb_per_s"], speed, f"{row['gb_per_s']} GB/s is not its bytes over its time ({speed:.4g})")
    samples = entry["samples_us"]
    of_copy = estimates.ratio(samples["copy"], samples[row["name"]])
    keys = ("of_copy", "of_copy_low", "of_copy_high")
    for key, value in zip(keys, of_copy, strict=True):
        _close(row[key], value, f"{key} is not what its samples and the copy's say ({value:.4g})")
    impossible = row["of_copy_low"] > IMPOSSIBLE
    _demand(not impossible, f"{row['of_copy']:.0%} of the copy of the same bytes: above 100 % is impossible")


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _close(stored: object, computed: float, otherwise: str) -> None:
    _demand(_is_positive(stored) and math.isclose(stored, computed, rel_tol=ROUNDING), otherwise)
