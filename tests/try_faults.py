"""Plants each fault of tests/faults.py in a copy of the project, and looks for a red test.

`python -m tests.try_faults [--workers 2] [WORD …]`

Words choose the faults whose file, test or description contains one of them. The tests are run
without a fault first: what is red anyway proves nothing. The status is 0 if all faults are caught.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.faults import FAULTS, DoesNotApply, Fault

ROOT = Path(__file__).resolve().parents[1]
TEST_SECONDS = 120  # then pytest-timeout ends a test that hangs, and it is red
SECONDS = 900  # for all that pytest does about one fault
PYTEST = [sys.executable, "-m", "pytest", "-p", "tools.faster_imports", "-q", "--tb=line", "-rfE"]
PLUGINS = ["-p", "tests.notebooks.nbstrict", "-p", "no:cacheprovider"]
# Python takes a compiled file for that of another source of the same second and size
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
RED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+)", re.M)  # a file alone could not be imported
CAUGHT, NOT_CAUGHT = "caught", "NOT CAUGHT"
DOES_NOT_APPLY, DOES_NOT_RUN = "does not apply", "does not run"
RED_BEFORE = "red without the fault"


def copy(root: Path, folder: Path) -> None:
    """The files that git tracks, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        source, target = root / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def run(folder: Path, *options: str, seconds: int | None = None) -> tuple[int, str]:
    """pytest's status and what it wrote; TimeoutExpired after so many seconds."""
    done = subprocess.run(
        [*PYTEST, *PLUGINS, f"--timeout={TEST_SECONDS}", *options],
        cwd=folder,
        env=os.environ | ENVIRONMENT | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return done.returncode, done.stdout + done.stderr


def red_before(folder: Path, tests: set[str], workers: int) -> dict[str, str]:
    """{test: what is red in it} without a fault."""
    status, output = run(folder, "-n", str(workers), "--dist", "loadfile", *sorted(tests))
    if status not in (0, 1):
        sys.exit(f"The tests do not run without a fault:\n{output[-2000:]}")
    found = {}
    for line in RED.findall(output):
        found |= {
            test: line for test in tests if re.match(rf"{re.escape(test)}(\[|::| - |$)", line)
        }
    return found


def verdict(folder: Path, fault: Fault) -> tuple[str, str]:
    """What becomes of one fault in this copy, which is left as it was; and a word more."""
    path = folder / fault.file
    before = path.read_text("utf-8")
    try:
        path.write_text(fault.planted(before), "utf-8")
        status, output = run(folder, "-x", fault.test, seconds=SECONDS)
    except DoesNotApply as reason:
        return DOES_NOT_APPLY, str(reason)
    except subprocess.TimeoutExpired:
        return DOES_NOT_RUN, f"it takes more than {SECONDS} s"
    finally:
        path.write_text(before, "utf-8")
    red = RED.findall(output)
    if status == 1 and red:
        return CAUGHT, red[0]
    return NOT_CAUGHT if status == 0 else DOES_NOT_RUN, output[-200:].replace("\n", " / ")


def try_all(faults: list[Fault], workers: int, root: Path = ROOT) -> list[str]:
    """Print a line for each fault, and what was red; returns the verdicts."""
    copies: SimpleQueue[Path] = SimpleQueue()

    def look(fault: Fault) -> str:
        folder = copies.get()
        if fault.test in red:
            said, more = RED_BEFORE, red[fault.test]
        else:
            said, more = verdict(folder, fault)
        copies.put(folder)
        print(f"{said:14}  {fault.file}: {fault.what}\n{'':16}{more}", flush=True)
        return said

    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(workers) as pool:
        for number in range(workers):
            folder = Path(place, str(number))
            copy(root, folder)
            copies.put(folder)
        red = red_before(folder, {fault.test for fault in faults}, workers)
        return list(pool.map(look, faults))


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant faults, and see whether tests turn red.")
    parser.add_argument("words", nargs="*", help="only faults with one of these words")
    parser.add_argument("--workers", type=int, default=2, help="faults at the same time")
    arguments = parser.parse_args()
    chosen = [fault for fault in FAULTS if fault.has(arguments.words)]
    if not chosen:
        parser.error(f"no fault has one of these words: {' '.join(arguments.words)}")
    found = try_all(chosen, arguments.workers)
    print(f"\n{found.count(CAUGHT)} of {len(found)} faults are caught.")
    return 0 if set(found) == {CAUGHT} else 1


if __name__ == "__main__":
    sys.exit(main())
