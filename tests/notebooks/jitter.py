"""Try whether the stored outputs would survive another CPU: strict nbval, noise in every kernel.

    python -m pytest -p tests.notebooks.nbstrict -p tests.notebooks.jitter --jitter-seed 0 notebooks

A cell that nbstrict finds changed is fragile: print an inequality there, fewer digits, a threshold
between two points of the grid, a stable order. noise.py says what moves; nbstrict.py alone decides
what is compared.
"""

from pathlib import Path

import pytest

from tests.notebooks.noise import ULPS

NOISE = Path(__file__).with_name("noise.py")
ENTER = "import runpy; runpy.run_path({path!r})['start']({seed}, {ulps}); del runpy"
START_S = 120
CELL_TIMEOUT_S = 3600  # noise makes small operations a hundred times slower


def pytest_addoption(parser):
    group = parser.getgroup("jitter")
    group.addoption(
        "--jitter-seed", type=int, required=False, help="which noise: any whole number from 0"
    )
    group.addoption(
        "--jitter-ulps", type=int, default=ULPS, help="how much, in units in the last place"
    )


def pytest_configure(config):
    if config.option.jitter_seed is None:
        raise pytest.UsageError("Say which noise: --jitter-seed 0, for example.")


@pytest.hookimpl(trylast=True)  # pytest's own comes first: it starts the kernel
def pytest_runtest_setup(item):
    kernel = getattr(item.parent, "kernel", None)
    if kernel is None or getattr(kernel, "is_noisy", False):
        return
    option = item.config.option
    option.nbval_cell_timeout = CELL_TIMEOUT_S
    code = ENTER.format(path=str(NOISE), seed=option.jitter_seed, ulps=option.jitter_ulps)
    reply = kernel.kc.execute_interactive(code, silent=True, store_history=False, timeout=START_S)
    assert reply["content"]["status"] == "ok", reply["content"]
    kernel.is_noisy = True
