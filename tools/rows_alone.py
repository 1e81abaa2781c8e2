"""Count rows whose bits depend on the batch: `python -m tools.rows_alone` writes the record of 07a.

A row's result alone is compared with the same row's among 16, in 20 draws. Varied, each alone, are
the length of a row, the threads, the dtype, how many others stand beside a row, the CPU's
instructions, and the way through MKL (tools/other_maker.py). It takes five minutes of CPU; on a
busy machine longer, since threads wait for each other. Nothing is timed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from normcourse import draw, jsonfile, measures
from normcourse.timing.provenance import provenance
from normlib import fused
from tools import other_maker

RECORD = Path(__file__).resolve().parents[1] / "notebooks/records/rows_alone.json"
COMMAND = "python -m tools.rows_alone"
ROWS = 16
DRAWS = 20


@dataclass(frozen=True)
class Case:
    function: str
    dim: int  # numbers of a row
    threads: int = 1
    dtype: str = "float32"
    beside: int = 0  # how many others stand beside the row; 0: it is alone


def function(case: Case) -> Callable[[Tensor], Tensor]:
    """What is applied to rows (N, dim)."""
    dtype = getattr(torch, case.dtype)
    dim = case.dim
    gain = draw(dim, seed=1).to(dtype)

    if case.function == "F.linear":
        weight = (draw(dim, dim, seed=2) / dim**0.5).to(dtype)
        return lambda x: F.linear(x, weight)
    if case.function == "fused.dyt":
        alpha = torch.tensor([0.7], dtype=dtype)
        return lambda x: fused.dyt(x, alpha, gain, gain)
    library = fused if case.function.startswith("fused.") else F
    if case.function.endswith(".layer_norm"):
        return lambda x: library.layer_norm(x, (dim,), gain, gain)
    return lambda x: library.rms_norm(x, (dim,), gain, 1e-5)


def count(case: Case, draws: int = DRAWS) -> int:
    """How many of the rows of all draws have other bits than among all 16."""
    call = function(case)
    torch.set_num_threads(case.threads)
    found = 0
    with torch.inference_mode():
        for seed in range(draws):
            x = draw(ROWS, case.dim, seed=100 + seed).to(getattr(torch, case.dtype))
            found += len(differing(call, x, case.beside))
    return found


def differing(call: Callable[[Tensor], Tensor], x: Tensor, beside: int) -> list[int]:
    """The rows of x whose bits change when only so many others stand beside them."""
    if beside == 0:
        return measures.rows_that_differ(call, x)
    together = call(x)
    found = []
    for row in range(len(x)):
        others = [other for other in range(len(x)) if other != row][:beside]
        fewer = call(x[[row, *others]])
        if not torch.equal(fewer[0], together[row]):
            found.append(row)
    return found


BASE = [
    Case("F.linear", 64),
    Case("F.linear", 1024),
    Case("F.layer_norm", 1024),
    Case("F.layer_norm", 65_536),
    Case("F.rms_norm", 1024),
    Case("F.rms_norm", 16_384),
    Case("F.rms_norm", 65_536),
    Case("fused.layer_norm", 65_536),
    Case("fused.rms_norm", 1024),
    Case("fused.rms_norm", 65_536),
    Case("fused.dyt", 1024),
    Case("fused.dyt", 65_536),
]


def cases() -> list[Case]:
    """The base with one thread and with two; what else is varied, with two threads."""
    two = [replace(case, threads=2) for case in BASE]
    varied = [replace(case, threads=4) for case in BASE]
    for dtype in ("float64", "bfloat16"):
        varied += [replace(case, dtype=dtype) for case in two]
    for beside in (1, 3):
        varied += [replace(case, beside=beside) for case in two]
    return [*BASE, *two, *varied]


def counted(wanted: list[Case]) -> list[dict]:
    """Rows of the record: the cases as they come out in this process."""
    instructions = torch.backends.cpu.get_cpu_capability()
    found = []
    for case in wanted:
        found.append(asdict(case) | {"instructions": instructions, "differ": count(case)})
    return found


def counted_elsewhere(environment: dict[str, str]) -> list[dict]:
    """The base with two threads, in a process of this environment."""
    command = [sys.executable, "-m", "tools.rows_alone", "--print"]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def record() -> dict:
    path, _ = other_maker.probe(dict(os.environ))
    found = [row | {"mkl": path} for row in counted(cases())]
    here = torch.backends.cpu.get_cpu_capability()
    for instructions in ("AVX512", "AVX2", "DEFAULT"):
        if instructions != here:
            environment = os.environ | {"ATEN_CPU_CAPABILITY": instructions.lower()}
            found += [row | {"mkl": path} for row in counted_elsewhere(environment)]
    with other_maker.preloaded() as (environment, _):
        other, _ = other_maker.probe(environment)
        found += [row | {"mkl": other} for row in counted_elsewhere(environment)]
    return {
        "what": "rows whose bits differ from those among 16 rows, of 16 rows in each draw",
        "rows": ROWS,
        "draws": DRAWS,
        "provenance": provenance(command=COMMAND),
        "counts": found,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD, help="the file to write")
    parser.add_argument("--print", action="store_true", help="print the base's counts alone")
    options = parser.parse_args(arguments)
    if options.print:
        print(json.dumps(counted([replace(case, threads=2) for case in BASE])))
        return 0
    try:
        jsonfile.write(options.record, record())
    except (other_maker.LeftOutError, other_maker.NoEffectError) as error:
        print(f"No record was written: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
