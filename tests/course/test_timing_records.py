"""Records: what is stored comes back, and a record that cannot be true is refused by name."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest

from normcourse import timing
from normcourse.timing.records import CONDITIONS, ENTRY, HEAD, PROVENANCE, entry
from normcourse.timing.simulated import Driver
from tests import full_disk
from tests.course.simulated_machines import LoadedHost, measured

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def result():
    host = LoadedHost(0, copy_s=1e-3)
    contenders = {"one": host.candidate(2e-3), "other": host.candidate(3e-3)}
    return measured(contenders, device=host, what="x + 1", case={"op": "plus"}, moved_bytes=10**6)


@pytest.fixture
def stored(result, tmp_path):
    """A record as it stands in its file."""
    path = tmp_path / "first.json"
    timing.save_record(path, timing.new_record("cpu") | {"results": [result]})
    return json.loads(path.read_text("utf-8"))


def write(stored, folder):
    path = folder / "record.json"
    path.write_text(json.dumps(stored), "utf-8")
    return path


def test_what_is_stored_comes_back(result, tmp_path):
    path = tmp_path / "new/record.json"
    record = timing.new_record("cpu", "make bench") | {"absent": {"liger": "not installed"}}
    timing.save_record(path, record | {"results": [result]})
    assert [file.name for file in path.parent.iterdir()] == ["record.json"]  # no draft is left
    loaded = timing.load_record(path)
    assert {name: loaded[name] for name in HEAD if name != "results"} == {
        name: record[name] for name in HEAD if name != "results"
    }
    assert loaded["provenance"]["command"] == "make bench" and loaded["provenance"]["machine"]
    (again,) = loaded["results"]
    assert entry(again) == entry(result)
    assert again.case == {"op": "plus"} and again.rounds == result.rounds
    for row, before in zip(again.rows, result.rows, strict=True):
        assert row.median_s == pytest.approx(before.median_s, rel=1e-4)  # five digits are stored
        assert row.interval_s == pytest.approx(before.interval_s, rel=1e-4)
    assert again.ratio("other", "one").median == pytest.approx(1.5, rel=0.1)
    assert again.flags == result.flags and "x + 1" in str(again)


def test_a_device_has_times_of_its_own_beside_the_hosts(tmp_path):
    driver = Driver()
    contenders = {"launches": driver.candidate(2e-5, host_s=1e-4)}
    result = measured(contenders, device=driver.device())
    path = tmp_path / "record.json"
    timing.save_record(path, timing.new_record("cuda") | {"results": [result]})
    (again,) = timing.load_record(path)["results"]
    assert again["launches"].host_s == pytest.approx(1e-4, rel=0.05)
    assert again["launches"].median_s == pytest.approx(2e-5, rel=0.05)


def test_a_failed_save_leaves_the_former_file(result, tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    record = timing.new_record("cpu") | {"results": [result]}
    timing.save_record(path, record)
    before = path.read_bytes()
    with pytest.raises(timing.RecordError):
        timing.save_record(path, record | {"schema": "else"})
    monkeypatch.setattr("os.replace", lambda *_: full_disk.refuse(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left on device"):
        timing.save_record(path, record | {"absent": {"liger": "not installed"}})
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": ', "record.json is damaged: no JSON"),
        ("", "damaged: no JSON"),
        ("[]", "it holds no object"),
        ("{}", "another kind: schema None"),
        ("\xff", "damaged: no JSON"),
        ('{"schema": NaN}', "NaN is no number"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(timing.RecordError, match=message):
        timing.load_record(path)
    with pytest.raises(timing.RecordError, match=r"absent\.json is not there.*make bench"):
        timing.load_record(tmp_path / "absent.json")
    with pytest.raises(timing.RecordError, match="cannot be read"):
        timing.load_record(tmp_path)


def head(key, value):
    return lambda record: record.__setitem__(key, value)


def origin(key, value=""):
    return lambda record: record["provenance"].__setitem__(key, value)


def first(key, value):
    return lambda record: record["results"][0].__setitem__(key, value)


def inside(part, key, value):
    return lambda record: record["results"][0][part].__setitem__(key, value)


def sample(value):
    return lambda record: record["results"][0]["samples_us"]["one"].__setitem__(0, value)


def faster(record):
    """The lie that a form cannot show: more than the memory's maker promises."""
    record["results"][0]["peak_bytes_per_s"] = 1.0
    samples = record["results"][0]["samples_us"]
    samples["one"] = [t / 10 for t in samples["one"]]


def few(record):
    samples = record["results"][0]["samples_us"]
    for name in samples:
        del samples[name][5:]


LIES = {
    "another schema": (head("schema", "normlib-timing-0"), "another kind"),
    "no results": (head("results", None), "it has results null, expected list"),
    "no provenance": (lambda record: record.pop("provenance"), "missing or unknown: provenance"),
    "no commit": (origin("commit"), "provenance lacks commit"),
    "no driver": (lambda record: record["provenance"].pop("driver"), "missing or unknown: driver"),
    "no allocator": (inside("conditions", "allocator", ""), "conditions lacks allocator"),
    "a field missing": (
        lambda record: record["results"][0].pop("seed"),
        "missing or unknown: seed",
    ),
    "a field too many": (first("remark", "fast"), "missing or unknown: remark"),
    "not cold": (first("cache", "cold"), "not over three times the cache"),
    "no copy": (
        lambda r: r["results"][0]["samples_us"].pop("copy"),
        "samples of .* copy and empty",
    ),
    "nobody": (first("outputs", {}), "samples of .* copy and empty"),
    "samples of nobody": (lambda r: r["results"][0]["samples_us"].pop("one"), "samples of"),
    "above the copy": (faster, r"one: \d+% of the maker's peak for this memory: above 100 %"),
    "dtypes": (
        inside("outputs", "one", {"dtype": "half", "error": 0.0}),
        "different output dtypes",
    ),
    "no dtype": (inside("outputs", "one", {"error": 0.0}), "missing or unknown: dtype"),
    "dropped samples": (lambda r: r["results"][0]["samples_us"]["one"].pop(), "different rounds"),
    "few samples": (few, "of 5 rounds"),
    "negative sample": (sample(-1.0), "of one hold what is no positive number"),
    "text as sample": (sample("fast"), "of one hold what is no positive number"),
    "no sample": (sample(None), "of one hold what is no positive number"),
    "no bytes": (first("moved_bytes", 0), "moved_bytes 0"),
    "a number of devices": (first("device", 1), "it has device 1, expected str"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_and_named(stored, lie, tmp_path):
    change, message = LIES[lie]
    change(stored)
    with pytest.raises(timing.RecordError, match=message) as caught:
        timing.load_record(write(stored, tmp_path))
    text = str(caught.value)
    assert "record.json is damaged" in text and "\n" not in text


NULLS = [
    *((name,) for name in HEAD),
    *(("provenance", name) for name in PROVENANCE),
    *(("results", 0, name) for name in ENTRY if name not in ("hosts_us", "peak_bytes_per_s")),
    *(("results", 0, "conditions", name) for name in CONDITIONS),
    ("results", 0),
    ("results", 0, "samples_us", "one"),
    ("results", 0, "samples_us", "copy"),
    ("results", 0, "outputs", "one"),
    ("results", 0, "outputs", "one", "dtype"),
]


@pytest.mark.parametrize("place", NULLS, ids=lambda place: ".".join(map(str, place)))
def test_a_null_is_a_record_error_of_one_line(stored, place, tmp_path):
    part = stored
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = None
    with pytest.raises(timing.RecordError) as caught:
        timing.load_record(write(stored, tmp_path))
    assert "\n" not in str(caught.value)


def test_an_impossible_result_is_not_saved(result, tmp_path):
    samples = dict(result.samples) | {"one": [t / 10 for t in result.samples["one"]]}
    fast = replace(result, samples=samples, peak_bytes_per_s=1.0)
    with pytest.raises(timing.RecordError, match="above 100 % is impossible"):
        timing.save_record(tmp_path / "record.json", timing.new_record("cpu") | {"results": [fast]})
    assert not list(tmp_path.iterdir())


def test_what_beats_the_copies_is_kept_with_a_flag(result, tmp_path):
    """A copy may be slow on a card: a speed above it is a question, and no error."""
    samples = dict(result.samples) | {"one": [t / 10 for t in result.samples["one"]]}
    fast = replace(result, samples=samples)
    path = tmp_path / "record.json"
    timing.save_record(path, timing.new_record("cpu") | {"results": [fast]})
    (kept,) = timing.load_record(path)["results"]
    assert any(flag.startswith("one: ") and "above 100 %" in flag for flag in kept.flags)


def test_a_record_from_before_the_second_copy_is_read(stored, tmp_path):
    (one,) = stored["results"]
    del one["samples_us"]["kernel copy"]
    del one["peak_bytes_per_s"]
    (kept,) = timing.load_record(write(stored, tmp_path))["results"]
    assert kept.reference == "copy" and kept.peak_bytes_per_s is None


def test_the_courses_record_is_whole():
    record = timing.load_record(ROOT / "notebooks/records/timing_cpu.json")
    assert record["provenance"]["device"] == "CPU" and len(record["results"]) > 40
    assert all(result.hosts is None and result.rounds >= 9 for result in record["results"])
