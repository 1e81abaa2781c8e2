"""The command `make bench` measures what the norms cost and writes a record.

`python -m tools.bench [--gpu] [--record FILE] [--minutes M] [--fresh]`

It prints a table, and stores each case when it is measured: an interrupted command goes on where it
stopped. Without --record the record is your own, in my/records/own/, where lesson 07 in my/ finds
it first; the course's in notebooks/records/ stays as it is.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

import normcourse
from normcourse import timing
from normcourse.timing.devices import Cpu, Cuda
from normcourse.timing.provenance import cores
from normcourse.timing.records import entry, parse_entry
from normcourse.timing.records_shown import SEVERAL
from tools.bench_cases import LOADED, NOT_TIMED, Case, cpu_cases, field, gpu_cases

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "my" / "records" / "own"  # the reader's: the lab never writes over it
# glibc hands large blocks back to the system at once, which maps and clears new pages for the next
# call.
WARM = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
# Its standard input ends when the process that started it does, in whatever way.
SPIN = """
import os, sys, threading

def end():
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=end).start()
print("spinning", flush=True)
while True:
    pass
"""
SAME = ("machine", "device", "torch", "triton", "python", "commit")
SECONDS_A_CASE = {"cpu": 2.0, "gpu": 0.5}  # of its rounds
PEERS = ("compile", "liger", "quack")
COLUMNS = ("torch", "formula", "compile", "normlib", "liger", "quack", "copy")


def begin(path: Path, device: str, command: str) -> dict:
    """The record to go on from, or a new one; RecordError for one of another machine or code.

    Without git no commit tells the code; a contender that is called so no longer does.
    """
    new = timing.new_record(device, command)
    if device == "cpu":
        new["absent"] |= NOT_TIMED
    if not path.exists():
        return new
    record = timing.load_record(path)
    other = [key for key in SAME if record["provenance"][key] != new["provenance"][key]]
    other += [f"contender ({name})" for name in sorted(_contenders(record) - {*COLUMNS})]
    if other:
        raise timing.RecordError(
            f"{path.name} was begun with another {', '.join(other)}: "
            "its numbers and new ones do not mix. "
            "Add BENCH_ARGS=--fresh to the make command to measure anew, "
            "or RECORD=FILE to measure elsewhere."
        )
    return record


def _contenders(record: dict) -> set[str]:
    """The names under which a record has ways of a norm; one of all norms says "dyt formula"."""
    results = [result for result in record["results"] if result.case["op"] != "rsqrt"]
    return {name.split()[-1] for result in results for name in result.outputs}


def measure(
    case: Case,
    device: str | Cpu | Cuda,
    absent: dict[str, str],
    *,
    seconds: float,
    compiled: bool = True,
) -> timing.Result:
    """Measure one case.

    An optional contender that fails is left out and named in `absent`, with the reason.
    """
    candidates, reference = field(case, absent, compiled=compiled and case.compiles())
    while True:
        try:
            return timing.measure(
                candidates,
                case.inputs,
                moved_bytes=case.moved_bytes(),
                reference=reference,
                device=device,
                seconds=seconds,
                warmup=2,
                what=case.title(),
                case=case.key(),
            )
        except timing.TimingError as error:
            if error.who is None or error.who.split()[-1] not in PEERS:
                raise
            absent[f"{error.who}: {case.title()}"] = str(error)[:200]
            candidates = without(candidates, error.who)
            if isinstance(reference, dict):
                reference = without(reference, error.who)


def without(functions: dict[str, Callable], name: str) -> dict[str, Callable]:
    return {other: f for other, f in functions.items() if other != name}


def believable(
    case: Case, absent: dict[str, str], measure_once: Callable[[], timing.Result]
) -> timing.Result | None:
    """A result with an impossible number is measured again, at last left out: None."""
    for _ in range(3):
        result = measure_once()
        try:
            parse_entry(entry(result))
        except timing.RecordError as error:
            reason = str(error)
        else:
            absent.pop(case.title(), None)
            return result
    absent[case.title()] = f"left out: {reason}"
    return None


def complete(
    path: Path,
    cases: Iterable[Case],
    device: str | Cpu | Cuda = "cpu",
    *,
    command: str,
    minutes: float,
    seconds: float,
    compiled: bool,
) -> None:
    """Measure what the record lacks, until the time is over."""
    name = device if isinstance(device, str) else device.name
    record = begin(path, name, command)
    cases = list(cases)
    done = [result.case for result in record["results"]]
    left = [case for case in cases if case.key() not in done]
    print(
        f"{len(cases)} cases, {len(cases) - len(left)} of them measured. This stops after "
        f"{minutes:g} minutes, and the same command goes on."
    )
    stop = time.monotonic() + 60 * minutes
    with tqdm(total=len(cases), initial=len(cases) - len(left), unit="case", disable=None) as bar:
        for case in left:
            if time.monotonic() > stop:
                bar.write("The time is over. What is measured is kept; the same command goes on.")
                return
            bar.set_description(case.title())
            if compiled:
                torch.compiler.reset()  # or the memory of all cases stays with it
            once = partial(
                measure, case, device, record["absent"], seconds=seconds, compiled=compiled
            )
            with spinning(cores() if case.load == LOADED else 0):
                result = believable(case, record["absent"], once)
            if result is not None:
                record["results"].append(result)
            timing.save_record(path, record)
            bar.update()


@contextmanager
def spinning(count: int) -> Iterator[list[subprocess.Popen]]:
    """Keep so many cores busy with processes that do nothing but count."""
    command = [sys.executable, "-c", SPIN]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # from here on it spins
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def table(record: dict) -> str:
    """A line a case: medians in ms, and what normlib reaches of the copy."""
    lines = [f"{'milliseconds':68}" + "".join(f"{name:>10}" for name in (*COLUMNS, "of copy"))]
    for result in record["results"]:
        if result.case["op"] not in SEVERAL:
            times = [_milliseconds(result, name) for name in COLUMNS]
            lines.append(f"{result.what:68}{''.join(times)}{result['normlib'].of_copy:10.0%}")
    for name, reason in record["absent"].items():
        lines.append(f"absent: {name} ({reason})")
    flagged = sum(bool(result.flags) for result in record["results"])
    total = len(record["results"])
    lines.append(f"{flagged} of {total} measurements carry a warning; see the record.")
    return "\n".join(lines)


def _milliseconds(result: timing.Result, name: str) -> str:
    if name not in result.samples:
        return f"{'-':>10}"
    return f"{1e3 * result[name].median_s:10.4g}"


def ratios(record: dict) -> str:
    """Contenders of measurements that hold several functions, against LayerNorm or the first."""
    lines = []
    for result in record["results"]:
        if result.case["op"] in SEVERAL:
            lines.append(result.what)
            names = list(result.outputs)
            for name in names:
                base = f"layer_norm {name.split()[-1]}" if result.case["op"] == "all" else names[0]
                if base in names and base != name:
                    lines.append(f"  time of {name} / {base}: {result.ratio(name, base)}")
    return "\n".join(lines)


def gains(record: dict) -> str:
    """How many times longer torch, or the formula, takes than normlib; paired, its interval."""
    lines = []
    for result in record["results"]:
        slow = [name for name in ("torch", "formula") if name in result.outputs]
        if result.case["op"] not in SEVERAL and "normlib" in result.outputs and slow:
            lines.append(f"{slow[0]} / normlib {result.ratio(slow[0], 'normlib')}: {result.what}")
    return "\n".join(lines)


def next_step(path: Path) -> str:
    """Where a reader sees the record."""
    if path.parent != OWN:
        return "A lesson shows what lies beside it in records/own/ or records/."
    return "Lesson 07 shows it: make lab, then run the lesson's cells again."


def on_cpu(options: argparse.Namespace) -> int:
    """Measure with both allocators, each in a process of its own.

    A process reads the allocator's settings only when it starts.
    """
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    parts = {"as it comes": plain}
    if platform.libc_ver()[0] == "glibc":
        parts["warm"] = plain | WARM
    else:
        print("The warm allocator is left out: its settings are glibc's.")
    for allocator, environment in parts.items():
        own = [
            sys.executable,
            "-m",
            "tools.bench",
            f"--part={allocator}",
            f"--record={options.record}",
            f"--seconds={options.seconds}",
            f"--minutes={options.minutes}",
        ]
        if not options.compile:
            own.append("--no-compile")
        code = subprocess.run(own, env=environment).returncode
        if code:
            return code
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what the norms cost, and keep a record.")
    parser.add_argument("--gpu", action="store_true", help="the grid on a CUDA device")
    parser.add_argument(
        "--record", type=Path, help="default: my/records/own/timing_cpu.json or timing_gpu.json"
    )
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="stop before a case after this time"
    )
    parser.add_argument(
        "--seconds", type=float, help=f"for the rounds of one case: {SECONDS_A_CASE}"
    )
    parser.add_argument("--fresh", action="store_true", help="begin the record anew")
    parser.add_argument(
        "--no-compile", dest="compile", action="store_false", help="without torch.compile"
    )
    parser.add_argument("--part", help=argparse.SUPPRESS)  # one allocator, in this process
    options = parser.parse_args(arguments)
    device = "gpu" if options.gpu else "cpu"
    options.record = options.record or OWN / f"timing_{device}.json"
    options.seconds = options.seconds or SECONDS_A_CASE[device]
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.gpu and not torch.cuda.is_available():
        print(
            "make bench GPU=1 needs a CUDA device, and torch finds none here. "
            "make bench measures the CPU."
        )
        return 2
    if options.fresh:
        options.record.unlink(missing_ok=True)
    measured = partial(
        complete,
        options.record,
        minutes=options.minutes,
        seconds=options.seconds,
        compiled=options.compile,
    )
    torch.set_num_threads(normcourse.MOST_THREADS)  # a lesson takes one, a library all cores
    try:
        if options.part:
            measured(cpu_cases(options.part), command="make bench")
            return 0
        if options.gpu:
            measured(gpu_cases("as it comes"), "cuda", command="make bench GPU=1")
        elif on_cpu(options):
            return 1
        record = timing.load_record(options.record)
    except timing.RecordError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nInterrupted: what is measured is kept, and the same command goes on.",
            file=sys.stderr,
        )
        return 130
    print("\n\n".join(filter(None, (table(record), ratios(record), gains(record)))))
    print(f"\nThe record: {options.record.name}. {next_step(options.record)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
