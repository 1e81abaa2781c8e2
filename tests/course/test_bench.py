"""tools/bench.py on a tiny grid: what it measures, how it goes on, whom it names as absent."""

import contextlib
import dataclasses
import itertools
import json
import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import normcourse
from normcourse import timing
from tools import bench, bench_cases
from tools.bench_cases import Case

SETTINGS = {"command": "make bench", "minutes": 1.0, "seconds": 0.0, "compiled": False}


class Quick(timing.Cpu):
    """A processor on which every call takes a microsecond; the work is done all the same."""

    def __init__(self):
        self.ticks = 0.0
        super().__init__(self.tick)

    def tick(self):
        self.ticks += 1e-6
        return self.ticks

    def cache(self):
        return timing.devices.Cache(1000, "L1")


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(op, way="forward", dtype="float32", hidden=8):
    return Case(op, way, 4, hidden, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("way", ["forward", "backward", "forward+backward"])
@pytest.mark.parametrize("op", [*bench_cases.OPS, "all"])
def test_contenders_agree_with_float64(op, way, dtype):
    """measure() compares what it times, so a wrong order of arguments shows here."""
    result = bench.measure(tiny(op, way, dtype), Quick(), {}, seconds=0.0, compiled=False)
    names = [row.name for row in result.rows[:-3]]
    torch_has = ["torch"] if op.endswith("norm") else []
    if op != "all":
        assert names == [*torch_has, "formula", "normlib"]
    else:
        assert names[:4] == [
            "layer_norm torch",
            "layer_norm formula",
            "layer_norm normlib",
            "rms_norm torch",
        ]
        assert len(names) == 10
    outputs = result.outputs.values()
    assert all(output.error is not None and output.dtype == dtype for output in outputs)
    assert not result.flags


@pytest.mark.parametrize(
    ("way", "tensors"), [("forward", 2), ("backward", 3), ("forward+backward", 5)]
)
def test_bytes_by_hand(way, tensors):
    """Forward x, y; backward x, dy, dx; 2 bytes a bfloat16."""
    assert Case("dyt", way, 30, 7, "bfloat16").moved_bytes() == tensors * 30 * 7 * 2


def test_the_grids_hold_what_they_promise():
    cpu = list(bench_cases.cpu_cases("warm"))
    promised = itertools.product(
        bench_cases.OPS, ("forward", "forward+backward"), ("float32", "bfloat16")
    )
    measured = {(c.op, c.way, c.dtype) for c in cpu if (c.tokens, c.hidden) == (2048, 4096)}
    assert set(promised) - measured == {("layer_norm", "forward+backward", "bfloat16")}  # NOT_TIMED
    assert {(c.tokens, c.hidden) for c in cpu if c.op == "all"} == {
        (128, 512),
        (512, 1024),
        (2048, 2048),
    }
    assert {c.allocator for c in cpu} == {"warm"} and any(c.op == "rsqrt" for c in cpu)
    gpu = list(bench_cases.gpu_cases("as it comes"))
    assert len(gpu) == len(set(gpu)) == 2 * 4 * 2 * (4 * 3 + 1) + 2 * 4
    assert {(c.tokens, c.hidden) for c in gpu if c.op != "all"} == {
        (tokens, hidden) for tokens in (2048, 8192, 32768) for hidden in (1024, 4096, 8192, 16384)
    } | {(4096, 65536)}


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    path, cases = tmp_path / "record.json", [tiny("rms_norm"), tiny("dyt"), tiny("rsqrt")]
    bench.complete(path, cases, Quick(), **SETTINGS | {"minutes": 0.0})
    assert not path.exists()
    bench.complete(path, cases[:2], Quick(), **SETTINGS)
    first = timing.load_record(path)
    bench.complete(path, cases, Quick(), **SETTINGS)
    record = timing.load_record(path)
    assert record["results"][:2] == first["results"]
    assert [result.case for result in record["results"]] == [case.key() for case in cases]
    assert record["results"][0].case["pass"] == "forward"
    assert record["provenance"]["command"] == "make bench"
    monkeypatch.setattr(bench, "measure", None)  # nothing is left to measure
    bench.complete(path, cases, Quick(), **SETTINGS)


def test_the_cpu_is_measured_with_as_many_threads_as_torch_takes(tmp_path, monkeypatch, one_thread):
    seen = []
    monkeypatch.setattr(normcourse, "MOST_THREADS", 3)
    monkeypatch.setattr(bench, "complete", lambda *_, **__: seen.append(torch.get_num_threads()))
    assert bench.main(["--part=warm", f"--record={tmp_path / 'record.json'}"]) == 0
    assert seen == [3]


def loaded(case):
    return dataclasses.replace(case, load=bench_cases.LOADED)


def test_under_load_a_process_spins_on_each_core(tmp_path, monkeypatch):
    running = []
    spinning, measure = bench.spinning, bench.measure

    @contextlib.contextmanager
    def watched(count):
        with spinning(count) as processes:
            running.append(processes)
            yield

    def while_they_run(*args, **settings):
        assert [process.poll() for process in running[-1]] == [None] * len(running[-1])
        return measure(*args, **settings)

    monkeypatch.setattr(bench, "cores", lambda: 3)
    monkeypatch.setattr(bench, "spinning", watched)
    monkeypatch.setattr(bench, "measure", while_they_run)
    path = tmp_path / "record.json"
    bench.complete(path, [tiny("dyt"), loaded(tiny("dyt"))], Quick(), **SETTINGS)
    assert [len(processes) for processes in running] == [0, 3]
    assert all(process.poll() is not None for process in running[1])
    cases = [result.case for result in timing.load_record(path)["results"]]
    assert cases == [tiny("dyt").key(), tiny("dyt").key() | {"load": bench_cases.LOADED}]
    titles = bench.gains(timing.load_record(path)).splitlines()
    assert titles[1].endswith("as it comes, one spinning process a core")


def test_what_spins_ends_with_an_error_and_with_its_parent():
    with pytest.raises(KeyboardInterrupt), bench.spinning(1) as processes:
        raise KeyboardInterrupt
    assert processes[0].poll() is not None
    script = "import os; from tools import bench\nwith bench.spinning(1): os._exit(3)"
    # communicate() waits until nobody, parent or child, can write any more
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) as parent:
        parent.communicate(timeout=60)
    assert parent.returncode == 3


def test_the_grid_under_load():
    """What works in threads of its own, in both dtypes, once: as the allocator comes."""
    cases = [*bench_cases.cpu_cases("as it comes"), *bench_cases.cpu_cases("warm")]
    under_load = [case for case in cases if case.load != bench_cases.IDLE]
    assert {(case.op, case.dtype) for case in under_load} == set(
        itertools.product(["rms_norm", "dyt", "dyisru"], ["float32", "bfloat16"])
    )
    assert len(under_load) == 6 and not any(case.compiles() for case in under_load)
    for case in under_load:
        assert dataclasses.replace(case, load=bench_cases.IDLE) in cases


def test_a_lesson_shows_the_idle_machine(tmp_path):
    """A record that was begun under load, and one that knows of no load."""
    idle = tiny("dyt", "forward+backward")
    for cases in ([loaded(idle), idle], [idle]):
        path = tmp_path / "timing_cpu.json"
        path.unlink(missing_ok=True)
        bench.complete(path, cases, Quick(), **SETTINGS)
        shown = timing.find_records(tmp_path)[0]
        assert shown.need("dyt").case == idle.key()
        found = shown.find("dyt", load=bench_cases.LOADED)
        assert (found is None) == (len(cases) == 1)


def test_records_of_other_machines_are_not_continued(tmp_path):
    path = tmp_path / "record.json"
    bench.complete(path, [tiny("dyt")], Quick(), **SETTINGS)
    record = json.loads(path.read_text("utf-8"))
    record["provenance"]["machine"] = "an abacus"
    path.write_text(json.dumps(record), "utf-8")
    with pytest.raises(timing.RecordError, match=r"another machine: .* do not mix"):
        bench.complete(path, [tiny("dyt")], Quick(), **SETTINGS)


@pytest.mark.parametrize("op", ["dyt", "all"])
def test_a_record_whose_contenders_had_other_names_is_not_continued(tmp_path, op):
    """As `fused` was before it was `normlib`: without git the commit does not tell."""
    path = tmp_path / "record.json"
    cases = [tiny(op), tiny("rsqrt")]
    bench.complete(path, cases, Quick(), **SETTINGS)
    path.write_text(re.sub(r'normlib(?=")', "fused", path.read_text("utf-8")), "utf-8")
    with pytest.raises(timing.RecordError, match=r"another contender \(fused\): .* BENCH_ARGS="):
        bench.complete(path, cases, Quick(), **SETTINGS)


def test_the_grid_runs_with_the_processor_in_the_devices_place(tmp_path):
    shrunk = [
        dataclasses.replace(case, tokens=3, hidden=8)
        for case in bench_cases.gpu_cases("as it comes")
    ]
    once = list(dict.fromkeys(shrunk))
    bench.complete(tmp_path / "gpu.json", once, Quick(), **SETTINGS)
    record = timing.load_record(tmp_path / "gpu.json")
    assert len(record["results"]) == 16 + 2
    if not torch.cuda.is_available():
        peers = {"liger": "needs a GPU", "quack": "needs a GPU"}
        assert record["absent"] == peers | bench_cases.NOT_TIMED
    text = bench.table(record)
    assert text.count("rms_norm") == 4 and "absent: liger (needs a GPU)" in text


def test_a_peer_that_fails_is_named_and_left_out(monkeypatch):
    def field(case, absent, *, compiled):
        candidates, reference = bench_cases.field(case, absent, compiled=compiled)
        return candidates | {"liger": lambda *inputs: inputs[0] * 2, "quack": 1 / 1}, reference

    monkeypatch.setattr(bench, "field", field)
    absent = {}
    result = bench.measure(tiny("rms_norm"), Quick(), absent, seconds=0.0, compiled=False)
    assert list(result.outputs) == ["torch", "formula", "normlib"]
    assert any(
        key.startswith("liger: rms_norm") and "is wrong" in why for key, why in absent.items()
    )
    assert any(
        key.startswith("quack: rms_norm") and "raises TypeError" in why
        for key, why in absent.items()
    )


def test_our_own_failure_is_not_left_out(monkeypatch):
    def field(case, absent, *, compiled):
        candidates, reference = bench_cases.field(case, absent, compiled=compiled)
        return candidates | {"normlib": lambda *inputs: inputs[0] * 2}, reference

    monkeypatch.setattr(bench, "field", field)
    with pytest.raises(timing.TimingError, match="'normlib' is wrong"):
        bench.measure(tiny("rms_norm"), Quick(), {}, seconds=0.0, compiled=False)


def test_an_impossible_number_is_measured_again_and_at_last_left_out():
    honest = bench.measure(tiny("dyt"), Quick(), {}, seconds=0.0, compiled=False)
    times = [t / 100 for t in honest.samples["normlib"]]
    samples = {**honest.samples, "normlib": times}
    peak = 2e9 * honest["formula"].gb_per_s
    fast = dataclasses.replace(honest, samples=samples, peak_bytes_per_s=peak)
    answers = iter([fast, fast, honest])
    absent = {}
    assert bench.believable(tiny("dyt"), absent, lambda: next(answers)) is honest
    assert not absent
    assert bench.believable(tiny("dyt"), absent, lambda: fast) is None
    assert absent[tiny("dyt").title()].startswith("left out: normlib: ")


def test_to_check_a_result_no_other_program_is_started(monkeypatch):
    honest = bench.measure(tiny("dyt"), Quick(), {}, seconds=0.0, compiled=False)
    monkeypatch.setattr("subprocess.run", None)
    assert bench.believable(tiny("dyt"), {}, lambda: honest) is honest


def test_ratios_and_gains_are_told(tmp_path):
    path = tmp_path / "record.json"
    cases = [tiny("rms_norm"), tiny("dyt"), tiny("all"), tiny("rsqrt")]
    bench.complete(path, cases, Quick(), **SETTINGS)
    record = timing.load_record(path)
    assert bench.gains(record).splitlines() == [
        f"{slow} / normlib 1 (1 to 1): {case.title()}"
        for slow, case in zip(("torch", "formula"), cases, strict=False)
    ]
    told = bench.ratios(record)
    assert "time of rms_norm normlib / layer_norm normlib: 1 (1 to 1)" in told
    assert "time of 1/sqrt / rsqrt" in told and "time of dyt torch" not in told


def test_a_users_run_leaves_the_courses_record_alone():
    own, gpu = bench.parse([]), bench.parse(["--gpu"])
    assert own.record == bench.ROOT / "my/records/own/timing_cpu.json"
    assert gpu.record == bench.ROOT / "my/records/own/timing_gpu.json"
    assert "make lab" in bench.next_step(own.record)
    assert "records/own/" in bench.next_step(bench.ROOT / "notebooks/records/timing_cpu.json")
    assert "/my/" in (bench.ROOT / ".gitignore").read_text("utf-8").split()


def test_each_allocator_has_a_process_of_its_own(monkeypatch):
    started = []

    def run(command, env):
        started.append(
            (command[3].removeprefix("--part="), {k: v for k, v in env.items() if "MALLOC" in k})
        )
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(bench.subprocess, "run", run)
    monkeypatch.setattr(bench.platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    assert bench.on_cpu(bench.parse([])) == 0
    assert started == [("as it comes", {}), ("warm", bench.WARM)]


@pytest.mark.slow
def test_such_a_process_starts(tmp_path, monkeypatch, capfd):
    """No time is left, so it begins and measures nothing."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(bench.platform, "libc_ver", lambda: ("", ""))
    options = bench.parse(["--minutes=-1", "--no-compile", f"--record={tmp_path / 'record.json'}"])
    assert bench.on_cpu(options) == 0
    assert capfd.readouterr().out.count("The time is over.") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a GPU")
def test_without_a_gpu(capsys):
    assert bench.main(["--gpu"]) == 2
    assert "needs a CUDA device" in capsys.readouterr().out


def test_a_part_of_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        bench,
        "cpu_cases",
        lambda allocator: [dataclasses.replace(tiny("dyt"), allocator=allocator)],
    )
    monkeypatch.setattr(
        bench,
        "on_cpu",
        lambda options: bench.main(
            ["--no-compile", "--part", "warm", "--record", str(options.record)]
        ),
    )
    path = tmp_path / "record.json"
    monkeypatch.setattr(bench, "measure", _quickly(bench.measure))
    assert bench.main(["--no-compile", "--record", str(path)]) == 0
    assert "dyt forward, 4 x 8, float32, allocator warm" in capsys.readouterr().out
    path.write_text("no record", "utf-8")
    assert bench.main(["--no-compile", "--record", str(path)]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert bench.main(["--no-compile", "--record", str(path), "--fresh"]) == 0


def _quickly(measure):
    return lambda case, device, absent, **settings: measure(
        case, Quick(), absent, seconds=0.0, compiled=False
    )


def test_what_is_not_timed_is_as_wrong_as_the_record_says():
    """A tenth at 2048 rows; a right sum in float32 would be off by one rounding, 0.004."""
    case = Case("layer_norm", "forward+backward", 2048, 64, "bfloat16")
    dy, x, weight, bias, _ = case.inputs(torch.Generator().manual_seed(0))
    leaves = [t.requires_grad_() for t in (weight, bias)]
    got = torch.autograd.grad(F.layer_norm(x, (64,), weight, bias, bench_cases.EPS), leaves, dy)
    exact = [t.detach().double().requires_grad_() for t in leaves]
    y = F.layer_norm(x.double(), (64,), *exact, bench_cases.EPS)
    for grad, want in zip(got, torch.autograd.grad(y, exact, dy.double()), strict=True):
        assert (grad.double() - want).abs().max() > 0.03 * want.square().mean().sqrt()
