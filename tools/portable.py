"""Are the stored outputs the same on another machine?

`python tools/portable.py [--workers 2] [NOTEBOOK …]`

Each notebook is run and strictly compared under every setting below: with less of this CPU, with
two threads, as the machine is, and with noise in the last places (tests/notebooks/jitter.py) for
all other machines. All settings run to their end; the last lines say which were green.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOW = {
    "OMP_NUM_THREADS": "1",
    "MKL_CBWR": "SSE4_2",  # heeded on Intel's CPUs
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
}
# PASSIVE: two workers with two threads each on two cores would otherwise spend their time in
# spinning.
MIDDLE = {
    "OMP_NUM_THREADS": "2",
    "OMP_WAIT_POLICY": "PASSIVE",
    "MKL_CBWR": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}
AS_IS = {"OMP_NUM_THREADS": "1"}
JITTER = ("-p", "tests.notebooks.jitter")
SETTINGS = {  # name: (environment, pytest's options)
    "low": (LOW, ()),
    "middle, two threads": (MIDDLE, ()),
    "as it is": (AS_IS, ()),
    "jitter, seed 0": (AS_IS, (*JITTER, "--jitter-seed=0")),
    "jitter, seed 1": (AS_IS, (*JITTER, "--jitter-seed=1")),
}


def run(name: str, notebooks: list[str], workers: int) -> bool:
    environment, options = SETTINGS[name]
    print(
        f"\n{name}: "
        f"{' '.join([f'{key}={value!r}' for key, value in environment.items()] + [*options])}"
    )
    parallel = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.notebooks.nbstrict"]
    command += [*options, *parallel, *notebooks]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Run notebooks as other machines would.")
    parser.add_argument("notebooks", nargs="*", default=["notebooks"], help="default: all of them")
    parser.add_argument("--workers", type=int, default=2, help="notebooks at the same time")
    parser.add_argument(
        "--only", choices=SETTINGS, action="append", help="this setting; may be repeated"
    )
    arguments = parser.parse_args()
    green = {}
    for name in arguments.only or SETTINGS:
        green[name] = run(name, arguments.notebooks, arguments.workers)
    print()
    for name, passed in green.items():
        print(f"{'same' if passed else 'DIFFERENT':9} {name}")
    return 0 if all(green.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
