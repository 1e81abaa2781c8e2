"""How many threads a lesson takes: one, unless OMP_NUM_THREADS says how many."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
import torch
torch.set_num_threads(3)
import {package}
print(torch.get_num_threads())
"""
EACH = [
    ("normcourse.checks.rms_norm", None, 1),
    pytest.param("normcourse.checks.rms_norm", "2", 3, marks=pytest.mark.slow),
    ("normlib.layers", None, 3),  # a library leaves that to who uses it
]


@pytest.mark.parametrize(("package", "wish", "threads"), EACH)
def test_importing_sets_the_threads_of_lessons_and_of_nobody_else(package, wish, threads):
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if wish:
        environment["OMP_NUM_THREADS"] = wish
    command = [sys.executable, "-c", SHOW.format(package=package)]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == f"{threads}\n", run.stderr
