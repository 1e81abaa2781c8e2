"""Try whether outputs are the same, and tests pass, on machines that are not this one.

`python -m tools.portable [--workers 2] [--only SETTING] [PATH …]`

Each notebook is run and strictly compared under every setting below: as the machine is, on the
other maker's CPU (tools/other_maker.py), with less of this CPU, with two threads, and with noise in
the last places (tests/notebooks/jitter.py) for all other machines. Under the first two run all
tests as well, those too that `make test` leaves out. Who names notebooks or tests gets these
alone, under every setting. All settings run to their end; the last lines say which were green.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tools import other_maker

ROOT = Path(__file__).resolve().parents[1]
AS_IS = {"OMP_NUM_THREADS": "1"}
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
JITTER = ("-p", "tests.notebooks.jitter")
NOTEBOOKS = ("notebooks",)
EVERYTHING = ("tests", "notebooks")


class Setting(NamedTuple):
    environment: dict[str, str]
    options: tuple[str, ...] = ()  # pytest's
    paths: tuple[str, ...] = NOTEBOOKS
    other_maker: bool = False


SETTINGS = {
    "as it is": Setting(AS_IS, paths=EVERYTHING),
    "other maker": Setting(AS_IS, paths=EVERYTHING, other_maker=True),
    "low": Setting(LOW),
    "middle, two threads": Setting(MIDDLE),
    "jitter, seed 0": Setting(AS_IS, (*JITTER, "--jitter-seed=0")),
    "jitter, seed 1": Setting(AS_IS, (*JITTER, "--jitter-seed=1")),
}


def run(setting: Setting, paths: list[str], workers: int, environment: dict[str, str]) -> str:
    """pytest in this environment; returns the verdict."""
    parallel = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.notebooks.nbstrict"]
    command += [*setting.options, *parallel, *(paths or setting.paths)]
    green = subprocess.run(command, cwd=ROOT, env=environment | setting.environment)
    return "same" if green.returncode == 0 else "DIFFERENT"


def run_on_the_other_maker(setting: Setting, paths: list[str], workers: int) -> str:
    """The same where MKL takes the other maker's path, once it is seen that it does."""
    try:
        with other_maker.preloaded() as (environment, sentence):
            print(sentence, flush=True)
            return run(setting, paths, workers, environment)
    except other_maker.LeftOutError as reason:
        print(f"left out: {reason}")
        return "left out"
    except other_maker.NoEffectError as error:
        print(error)
        return "NO EFFECT"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run notebooks and tests as other machines would.")
    parser.add_argument(
        "paths", nargs="*", help="notebooks or tests; default: all that the setting is for"
    )
    parser.add_argument("--workers", type=int, default=2, help="files at the same time")
    parser.add_argument(
        "--only", choices=SETTINGS, action="append", help="this setting; may be repeated"
    )
    arguments = parser.parse_args()
    verdicts = {}
    for name in arguments.only or SETTINGS:
        setting = SETTINGS[name]
        changed = [f"{key}={value!r}" for key, value in setting.environment.items()]
        print(f"\n{name}: {' '.join([*changed, *setting.options])}", flush=True)
        if setting.other_maker:
            verdicts[name] = run_on_the_other_maker(setting, arguments.paths, arguments.workers)
        else:
            verdicts[name] = run(setting, arguments.paths, arguments.workers, os.environ.copy())
    print()
    for name, verdict in verdicts.items():
        print(f"{verdict:9} {name}")
    return 0 if set(verdicts.values()) <= {"same", "left out"} else 1


if __name__ == "__main__":
    sys.exit(main())
