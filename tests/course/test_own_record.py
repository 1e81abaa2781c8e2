"""Lesson 07 with a record of another machine in place: it is shown first, by its name.

The record is MADE UP: invented times of a card that does not exist. It only lives in these tests.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from normcourse import figures, timing
from normcourse.lesson import Notebook
from normcourse.timing import Output, Result
from normcourse.timing.provenance import conditions
from normcourse.timing.results import CONTROLS
from tools import bench_cases
from tools.bench_cases import Case

ROOT = Path(__file__).resolve().parents[2]
LESSON = ROOT / "notebooks/07_cuda_timing.ipynb"
SIDE_LESSON = ROOT / "notebooks/07a_published_speed.ipynb"
COURSE = ROOT / "notebooks/records"
CARD = "Made-up card (only in tests)"
SPEED = 1e12  # bytes a second of its copy
TIMES = {"formula": 5.0, "torch": 1.25, "compile": 2.0, "normlib": 1.5, "copy": 1.0, "empty": 0.01}
TIMES["kernel copy"] = 1.1
CELLS = ("records", "norms-figure", "norms-new-memory", "sure-count", "sure-absent")
SIDE_CELLS = ("predict-01", "predict-01-answer", "count-mode", "count-function")
SIDE_CELLS += ("count-norms", "count-run", "closed-run", "dyt-cpu")


def made_up_result(case: Case) -> Result:
    """Every contender's time is that of TIMES in copies; of "all", a DyT takes 1.5 times that."""
    several = case.op == "all"
    names = []
    for op in bench_cases.OPS if several else [case.op]:
        ways = ["formula", "normlib", "compile"]
        if op.endswith("norm"):
            ways.insert(0, "torch")
        names += [f"{op} {way}" if several else way for way in ways]
    seconds = case.moved_bytes() / SPEED
    samples = {}
    for name in [*names, *CONTROLS]:
        copies = TIMES[name if name in CONTROLS else name.split()[-1]] * (
            1.5 if name.startswith("dyt ") else 1.0
        )
        samples[name] = [seconds * copies * (1 + 0.001 * (i - 4)) for i in range(9)]
    return Result(
        what=case.title(),
        case=case.key(),
        device="cuda",
        cache="cold",
        cache_name="L2",
        cache_bytes=50_000_000,
        working_set_bytes=200_000_000,
        seed=0,
        moved_bytes=case.moved_bytes(),
        entry="plain call",
        peak_bytes_per_s=3 * SPEED,
        conditions=conditions("cpu"),
        seen=[],
        outputs={name: Output(case.dtype, 1e-6) for name in names},
        samples=samples,
        hosts=samples,
    )


def made_up_record(cases) -> dict:
    record = timing.new_record("cpu", "made up for a test")
    record["provenance"] |= {"device": CARD, "machine": "no machine"}
    return record | {"results": [made_up_result(case) for case in cases]}


@pytest.fixture
def records(tmp_path):
    """A learner's records/: the course's, and own/ still empty."""
    folder = tmp_path / "records"
    (folder / "own").mkdir(parents=True)
    for path in COURSE.glob("*.json"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def single_cases():
    return [case for case in bench_cases.gpu_cases("as it comes") if case.op != "all"]


def run_cells(folder, monkeypatch, names=CELLS, lesson=LESSON):
    """{cell: what it printed, or its figure's alt text}, from the first cell on."""
    monkeypatch.chdir(folder)
    shown = {}
    alts = []
    monkeypatch.setattr(figures, "show", lambda figure, alt: alts.append(alt))
    namespace = {"__name__": "lesson"}
    cells = {cell.id: cell.source for cell in Notebook(lesson).cells}
    default = torch.get_default_dtype()
    try:
        for name in ("setup", *names):
            lines = []
            namespace["print"] = lambda *words, end="\n", kept=lines: kept.append(
                " ".join(map(str, words)) + end
            )
            exec(compile(cells[name], name, "exec"), namespace)
            shown[name] = "".join(lines) + "".join(alts)
            alts.clear()
    finally:
        torch.set_default_dtype(default)
    return shown


def test_without_an_own_record_the_courses_is_shown(records, monkeypatch):
    shown = run_cells(records.parent, monkeypatch)
    assert "the numbers below are the course's, of CPU" in shown["records"]
    assert "the course's: CPU, float32" in shown["norms-figure"]


def test_blocks_are_ahead_of_compile_in_the_cases_that_the_lesson_names():
    (shown,) = (record for record in timing.find_records(COURSE) if record.whose != "yours")
    ahead = {op: [] for op in ("rms_norm", "dyt")}
    for op, cases in ahead.items():
        for allocator in ("warm", "as it comes"):
            timed = shown.find(op, allocator=allocator)
            if timed["normlib"].median_s < timed["compile"].median_s:
                cases.append(allocator)
        everywhere = shown.ratios(f"{op} normlib", f"{op} compile")
        assert sum(ratio < 1 for ratio in everywhere) == len(cases)
    assert ahead == {"rms_norm": ["warm", "as it comes"], "dyt": ["as it comes"]}


def test_a_readers_gpu_record_is_shown_first(records, monkeypatch):
    timing.save_record(records / "own/timing_gpu.json", made_up_record(single_cases()))
    shown = run_cells(records.parent, monkeypatch)
    first, second, *_ = shown["records"].splitlines()
    assert first.startswith(f"yours: timing_gpu.json, {CARD}")
    assert second.startswith("the course's: timing_cpu.json, CPU")
    assert f"the numbers below are yours, of {CARD}" in shown["records"]
    assert "tokens: 8192, hidden: 4096, dtype: bfloat16" in shown["records"]
    assert "rms_norm torch     over layer_norm torch  : 1.00 to  1.00" in shown["sure-count"]
    assert f"yours: {CARD}, bfloat16" in shown["norms-figure"]
    assert shown["norms-figure"].startswith("Time, backward, in copies")
    assert "LayerNorm: formula 5.0, torch 1.2, compile 2.0, normlib 1.5;" in shown["norms-figure"]
    assert "DyT: formula 5.0, compile 2.0, normlib 1.5;" in shown["norms-figure"]


@pytest.mark.parametrize("way", ["formula", "compile", "normlib"])
def test_the_lesson_runs_with_a_record_that_lacks_a_contender(records, monkeypatch, way):
    """Without a C++ compiler nobody has `compile`; the others may be absent as well."""
    record = made_up_record(single_cases())
    record["results"] = [lacking(result, way) for result in record["results"]]
    timing.save_record(records / "own/timing_gpu.json", record)
    shown = run_cells(records.parent, monkeypatch)
    assert f"the numbers below are yours, of {CARD}" in shown["records"]
    assert "LayerNorm: " in shown["norms-figure"] and f"{way} " not in shown["norms-figure"]
    missing = {"formula": 5, "compile": 8, "normlib": 7}[way]
    assert shown["sure-count"].count("not in this record") == missing


def lacking(result, way):
    """The result without this contender."""
    kept = [name for name in result.outputs if name.split()[-1] != way]
    samples = {name: result.samples[name] for name in [*kept, *CONTROLS]}
    outputs = {name: result.outputs[name] for name in kept}
    return replace(result, outputs=outputs, samples=samples, hosts=samples)


HALF = {
    "nothing yet": [],
    "all at once, 128 x 512": [Case("all", "forward", 128, 512, "bfloat16")],
    "one curve": [Case("dyt", "forward", 8192, 4096, "bfloat16")],
}


@pytest.mark.parametrize("cases", HALF.values(), ids=HALF)
def test_a_record_that_was_stopped_early_waits_and_the_courses_is_shown(
    records, monkeypatch, cases
):
    timing.save_record(records / "own/timing_gpu.json", made_up_record(cases))
    shown = run_cells(records.parent, monkeypatch)
    assert "measurements; stopped early: make bench goes on" in shown["records"]
    assert "the numbers below are the course's, of CPU" in shown["records"]


@pytest.mark.parametrize("way", ["forward", "forward+backward"])
def test_one_small_case_is_a_record_to_show(records, monkeypatch, way):
    cases = [Case(op, "forward", 128, 512, "bfloat16") for op in bench_cases.OPS]
    if way != "forward":
        cases += [Case(op, way, 128, 512, "bfloat16") for op in bench_cases.OPS]
    timing.save_record(records / "own/timing_gpu.json", made_up_record(cases))
    shown = run_cells(records.parent, monkeypatch)
    assert "tokens: 128, hidden: 512" in shown["records"]
    assert f"Time, {way}, in copies" in shown["norms-figure"]
    assert shown["norms-figure"].count("formula 5.0") == 4


def test_the_side_lesson_shows_it_too(records, monkeypatch):
    cases = list(bench_cases.gpu_cases("as it comes"))
    timing.save_record(records / "own/timing_gpu.json", made_up_record(cases))
    shown = run_cells(records.parent, monkeypatch, SIDE_CELLS, SIDE_LESSON)
    assert f"measured numbers are yours, of {CARD}" in shown["setup"]
    ratios = shown["predict-01-answer"]
    assert ratios.count("forward") == ratios.count("backward") == 4
    assert " 8192 × 4096, backward              +0%" in ratios
    assert shown["dyt-cpu"].count("+50%") == 8 * 3
    assert "by bytes -59%" in shown["closed-run"] and "by bytes -42%" in shown["closed-run"]


SMALL = [Case("all", "forward", 128, 512, "bfloat16")]
PARTS = {  # what a record holds, a contender that it lacks: whose ratios the side lesson shows
    "small alone": (SMALL, None, "yours"),
    "no compile": (SMALL, "compile", "yours"),
    "no formula": (SMALL, "formula", "the course's"),
    "nothing yet": ([], None, "the course's"),
    "one norm": ([Case("layer_norm", "forward", 8192, 4096, "bfloat16")], None, "the course's"),
}


@pytest.mark.parametrize(("cases", "way", "whose"), PARTS.values(), ids=PARTS)
def test_the_side_lesson_runs_with_a_part_of_a_record(records, monkeypatch, cases, way, whose):
    record = made_up_record(cases)
    record["results"] = [lacking(result, way) for result in record["results"]]
    timing.save_record(records / "own/timing_gpu.json", record)
    shown = run_cells(records.parent, monkeypatch, SIDE_CELLS, SIDE_LESSON)
    assert f"measured numbers are {whose}" in shown["setup"]
    for cell in ("predict-01-answer", "closed-run", "dyt-cpu"):
        assert "forward" in shown[cell]


def test_a_readers_cpu_record_comes_before_the_courses_and_after_the_readers_gpu(records):
    cpu = made_up_record([Case("rms_norm", "forward", 2048, 4096, "float32")])
    cpu["provenance"]["device"] = "CPU"
    timing.save_record(records / "own/timing_cpu.json", cpu)
    timing.save_record(records / "own/timing_gpu.json", made_up_record(single_cases()[:2]))
    order = [(shown.whose, shown.name) for shown in timing.find_records(records)]
    assert order == [
        ("yours", "timing_gpu.json"),
        ("yours", "timing_cpu.json"),
        ("the course's", "timing_cpu.json"),
    ]


def test_a_record_that_is_not_complete_says_what_to_do(records):
    own = records / "own/timing_gpu.json"
    begun = [case for case in bench_cases.gpu_cases("as it comes") if case.op == "dyt"][:1]
    timing.save_record(own, made_up_record(begun))
    shown = timing.find_records(records)[0]
    assert shown.find("layer_norm") is None
    with pytest.raises(timing.RecordError, match="does not hold layer_norm, forward yet"):
        shown.need("layer_norm", way="forward")
    timing.save_record(own, made_up_record([]))
    with pytest.raises(timing.RecordError, match="holds no norm on its own yet"):
        timing.find_records(records)[0].find("layer_norm")


def test_no_record_at_all(tmp_path):
    with pytest.raises(timing.RecordError, match="make bench makes one"):
        timing.find_records(tmp_path)


COMPILE = """
import json, sys
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from linecache import cache

for number, (name, source) in enumerate(json.load(sys.stdin).items()):
    file = f"cell{number}.py"
    cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"triton": triton, "tl": tl}
    exec(compile(source, file, "exec"), space)
    kernel = space[name]
    kinds = {"row": "i32", "stride": "i32", "x_stride": "i32", "dim": "i32", "eps": "fp32"}
    sums = {"rstds": "*fp32"}
    known = kinds | sums | {"BLOCK": "constexpr"}
    signature = {p.name: known.get(p.name, "*bf16") for p in kernel.params}
    at = (kernel.arg_names.index("BLOCK"),)
    made = ASTSource(kernel, signature, {at: 1024})
    triton.compile(made, target=GPUTarget("cuda", 90, 32))
    print("compiled", name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="triton has no wheel for this system")
def test_the_lessons_kernels_compile_for_a_gpu(tmp_path):
    """On a GPU they are compiled, and the interpreter forgives what the compiler refuses."""
    solutions = ROOT / "notebooks/solutions/07_cuda_timing.ipynb"
    sources = {}
    for path in (LESSON, solutions):
        for cell in Notebook(path).cells:
            for name in ("rms_norm_kernel", "layer_norm_kernel"):
                start = f"@triton.jit\ndef {name}("
                if cell.cell_type == "code" and start in cell.source:
                    body = cell.source[cell.source.index(start) :]
                    sources[name] = body.split("\n\n\n")[0] + "\n"
    assert len(sources) == 2
    script = tmp_path / "compile_kernels.py"
    script.write_text(COMPILE, "utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    ran = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert ran.stdout.split() == [word for name in sources for word in ("compiled", name)], (
        ran.stderr
    )
