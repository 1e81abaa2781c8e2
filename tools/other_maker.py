"""The other maker's CPU on this one: `python -m tools.other_maker COMMAND …` runs COMMAND on it.

MKL, which multiplies torch's matrices, asks two functions of its own whether the CPU is Intel's,
and takes other code where it is not. other_maker.c answers for them: preloaded on an AMD machine it
leads MKL, in the command and in all its children, to Intel's code; on an Intel machine to everybody
else's. It needs Linux on x86-64 and a C compiler.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = "other_maker.so"
PROBE = """
import torch
generator = torch.Generator().manual_seed(0)
matrices = [torch.randn(n, n, generator=generator, dtype=torch.float64) for n in (33, 65, 129)]
print("sums:", *[(matrix @ matrix).sum().item() for matrix in matrices])
"""
# of MKL_VERBOSE's first line: the code that MKL chose
PATH = re.compile(r"^MKL_VERBOSE .* architecture (.*?), (?:Lnx|Win|Mac)", re.MULTILINE)


class LeftOutError(Exception):
    """This machine cannot take the other maker's path; the message says why."""


class NoEffectError(Exception):
    """The library was preloaded, and MKL computes as without it."""


@contextmanager
def preloaded() -> Iterator[tuple[dict[str, str], str]]:
    """An environment on the other maker's path, and a sentence that shows that it is.

    LeftOutError where this cannot be had, NoEffectError where it was had and changes nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        here, there = with_preload(), with_preload(str(library))
        yield there, difference(here, there)


def compiled(folder: Path) -> Path:
    """The library that gives MKL the answer which this machine's CPU does not give."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise LeftOutError("it needs Linux on x86-64")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise LeftOutError("it needs a C compiler, and there is no cc, gcc or clang")
    is_intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    library = folder / LIBRARY
    answer = f"-DINTEL={int(not is_intel)}"
    subprocess.run([compiler, "-shared", "-fPIC", answer, "-o", library, SOURCE], check=True)
    return library


def with_preload(*libraries: str) -> dict[str, str]:
    """This environment with just these libraries for MKL; what else is preloaded stays."""
    named = re.split("[: ]+", os.environ.get("LD_PRELOAD", ""))
    others = [name for name in named if name and Path(name).name != LIBRARY]
    return os.environ | {"LD_PRELOAD": ":".join([*libraries, *others])}


def difference(here: dict[str, str], there: dict[str, str]) -> str:
    """A sentence: by which paths MKL goes in two environments, and what that does to products."""
    path_here, sums_here = probe(here)
    path_there, sums_there = probe(there)
    if not path_here:
        raise LeftOutError("torch was built without MKL here")
    if path_here == path_there or sums_here == sums_there:
        raise NoEffectError(
            f"{LIBRARY} was preloaded and changes nothing: MKL's path is {path_there!r} with it, "
            f"{path_here!r} without; the sums of three products are {sums_there} with it, "
            f"{sums_here} without. LD_PRELOAD is {there['LD_PRELOAD']!r}."
        )
    return (
        f"MKL's path is {path_there!r} in place of {path_here!r};\n"
        f"the sums of three products are {sums_there} in place of {sums_here}."
    )


def probe(environment: dict[str, str]) -> tuple[str, str]:
    """MKL's path in a process of this environment, empty without MKL, and sums of its products."""
    command = [sys.executable, "-c", PROBE]
    verbose = environment | {"MKL_VERBOSE": "1"}
    run = subprocess.run(command, env=verbose, stdout=subprocess.PIPE, text=True, check=True)
    found = PATH.search(run.stdout)
    return found[1] if found else "", run.stdout.rpartition("sums: ")[2].strip()


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    try:
        with preloaded() as (environment, sentence):
            print(sentence, flush=True)
            return subprocess.run(sys.argv[1:], env=environment).returncode
    except (LeftOutError, NoEffectError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
