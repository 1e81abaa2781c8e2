"""Records: what is stored comes back, and a record that cannot be true is refused by name."""

import copy
import json

import pytest

from normcourse import timing
from tests.course.simulated_machines import LoadedHost, measured


@pytest.fixture(scope="module")
def record():
    host = LoadedHost(0, copy_s=1e-3)
    contenders = {"one": host.candidate(2e-3), "other": host.candidate(3e-3)}
    return measured(contenders, device=host, what="x + 1", case={"op": "plus"}, moved_bytes=10**6).to_record()


def test_what_is_stored_comes_back(record, tmp_path):
    path = tmp_path / "new/record.json"
    timing.save_record(path, record)
    assert timing.load_record(path) == record == json.loads(path.read_text("utf-8"))
    assert [file.name for file in path.parent.iterdir()] == ["record.json"]  # no draft is left
    result = timing.Result.from_record(record["results"][0])
    assert result.entry_of_record() == record["results"][0]
    assert result.ratio("other", "one").median == pytest.approx(1.5, rel=0.1)
    assert result.case == {"op": "plus"} and "x + 1" in str(result)


def test_a_failed_save_leaves_the_former_file(record, tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    timing.save_record(path, record)
    before = path.read_bytes()
    with pytest.raises(timing.RecordError):
        timing.save_record(path, record | {"schema": "else"})
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="full"):
        timing.save_record(path, record | {"absent": {"liger": "not installed"}})
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": ', "record.json is damaged, no JSON"),
        ("", "damaged"),
        ("[]", "no JSON object"),
        ("{}", "'schema' is missing"),
        ("\xff", "damaged"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "record.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(timing.RecordError, match=message):
        timing.load_record(path)
    with pytest.raises(timing.RecordError, match=r"absent\.json cannot be read"):
        timing.load_record(tmp_path / "absent.json")


def head(key, value):
    return lambda record: record.__setitem__(key, value)


def origin(key, value=""):
    return lambda record: record["provenance"].__setitem__(key, value)


def entry(key, value):
    return lambda record: record["results"][0].__setitem__(key, value)


def row(key, value):
    def change(record):
        first = record["results"][0]["rows"][0]
        first[key] = value(first[key]) if callable(value) else value

    return change


def faster(record):
    """The lie that keeps every number of its row consistent: all times ten times shorter."""
    result = record["results"][0]
    first = result["rows"][0]
    for key in first:
        first[key] = first[key] / 10 if key.endswith("_s") and key != "gb_per_s" else first[key]
    for key in ("gb_per_s", "of_copy", "of_copy_low", "of_copy_high"):
        first[key] *= 10
    result["samples_us"]["one"] = [t / 10 for t in result["samples_us"]["one"]]


def copy_left_out(record):
    result = record["results"][0]
    result["rows"] = [row for row in result["rows"] if row["name"] != "copy"]


LIES = {
    "another schema": (head("schema", "normlib-timing-0"), "another kind"),
    "no results": (head("results", None), "'results' is missing"),
    "no provenance": (lambda record: record.pop("provenance"), "'provenance' is missing"),
    "no commit": (origin("commit"), "provenance lacks 'commit'"),
    "no driver": (lambda record: record["provenance"].pop("driver"), "provenance lacks 'driver'"),
    "no allocator": (lambda r: r["results"][0]["conditions"].pop("allocator"), "conditions lack 'allocator'"),
    "a field missing": (lambda record: record["results"][0].pop("seed"), "missing or unknown.*seed"),
    "a field too many": (entry("remark", "fast"), "missing or unknown.*remark"),
    "a row's field missing": (lambda r: r["results"][0]["rows"][0].pop("host_s"), "a row without exactly"),
    "not cold": (entry("cache", "cold"), "not over three times the cache"),
    "no copy": (copy_left_out, "do not end with copy and empty"),
    "above the copy": (faster, r"one: \d{3}% of the copy of the same bytes: above 100 %"),
    "outside its interval": (row("median_s", lambda t: t * 10), "outside its own interval"),
    "interval": (row("low_s", lambda t: t / 2), "low_s is not what its samples say"),
    "upper end": (row("high_s", lambda t: t * 2), "high_s is not what its samples say"),
    "quantile": (row("q80_s", lambda t: t / 100), "20 to 80 %"),
    "negative": (row("host_s", -1.0), "host_s is -1.0"),
    "nan": (row("host_s", float("nan")), "host_s is nan"),
    "text": (row("host_s", "fast"), "host_s is 'fast'"),
    "other bytes": (row("moved_bytes", lambda n: 2 * n), "other bytes than"),
    "speed": (row("gb_per_s", lambda s: 1.2 * s), "is not its bytes over its time"),
    "share": (row("of_copy", lambda s: 1.2 * s), "of_copy is not what its samples"),
    "dtypes": (row("dtype", "bfloat16"), "different output dtypes"),
    "device": (row("device_s", lambda t: t / 2), "device_s and median_s differ"),
    "median and rounds": (row("rounds", 29), "number of samples"),
    "dropped samples": (lambda r: r["results"][0]["samples_us"]["one"].pop(), "number of samples"),
    "samples of nobody": (lambda r: r["results"][0]["samples_us"].pop("one"), "samples of"),
    "negative sample": (lambda r: r["results"][0]["samples_us"]["one"].__setitem__(0, -1.0), "a sample that"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_and_named(record, lie, tmp_path):
    change, message = LIES[lie]
    told = copy.deepcopy(record)
    change(told)
    with pytest.raises(timing.RecordError, match=message):
        timing.check_record(told)
    with pytest.raises(timing.RecordError, match=message):
        timing.save_record(tmp_path / "record.json", told)
    assert not list(tmp_path.iterdir())


def test_the_honest_record_passes(record):
    timing.check_record(record)
    assert record["absent"] == {} and record["provenance"]["machine"]


def test_make_record_names_who_is_absent(record):
    result = timing.Result.from_record(record["results"][0])
    named = timing.make_record([result, result], command="make bench", absent={"liger": "not installed"})
    timing.check_record(named)
    assert named["absent"] == {"liger": "not installed"} and len(named["results"]) == 2
    assert named["provenance"]["command"] == "make bench"
