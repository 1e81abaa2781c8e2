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
PARTS = """
import importlib, sys, torch
for part in ("checks", "measures", "timing", "training", "capstone"):
    torch.set_num_threads(3)
    for name in [name for name in sys.modules if name.startswith("normcourse")]:
        del sys.modules[name]
    importlib.import_module(f"normcourse.{part}")
    print(torch.get_num_threads())
"""
EACH = [
    ("normcourse.checks.rms_norm", None, 1),
    pytest.param("normcourse.checks.rms_norm", "2", 3, marks=pytest.mark.slow),
    ("normlib.layers", None, 3),  # a library leaves that to who uses it
]


def said_by(script, wish=None):
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if wish:
        environment["OMP_NUM_THREADS"] = wish
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize(("package", "wish", "threads"), EACH)
def test_importing_sets_the_threads_of_lessons_and_of_nobody_else(package, wish, threads):
    assert said_by(SHOW.format(package=package), wish) == f"{threads}\n"


def test_every_part_that_computes_sets_them():
    assert said_by(PARTS) == "1\n" * 5
