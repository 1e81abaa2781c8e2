"""The jitter works: fragile cells of each kind turn red under it,
the same said portably stays green.
"""

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
SHORT = (
    ROOT / "notebooks/solutions/03_rms_norm.ipynb"
)  # a lesson takes a minute; make test-portable runs all
IMPORTS = """import math
import torch
from normcourse import measures
torch.set_default_dtype(torch.float64)
t = torch.linspace(-7, 7, 561)
tenths = torch.arange(-69, 70) / 10
noise = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
repeated = torch.tensor([2.0, 1.0, 2.0, 1.0] * 8)
uniform = torch.full((64, 64), 1 / 64)

def run(start, steps):
    values = [torch.tensor(start)]
    for _ in range(steps):
        values.append(3 * values[-1].sin())
    return torch.stack(values)"""
FRAGILE = {
    "order-of-ties": "print(repeated.argsort().tolist())",
    "step-of-divergence": "print((run(0.5, 200)[100:] > 2.9).nonzero()[0].item())",
    "threshold-on-a-grid-point": "print([(t <= limit).sum().item() for limit in tenths])",
    "eigenvalues-of-rank-one": 'print(f"{torch.linalg.eigvals(uniform).abs().max():.2f}")',
    "order-of-eigenvalues": 'print([f"{value:.2f}" for value in torch.linalg.eigvals(noise).real])',
    "sign-of-singular-vectors": 'print([f"{u:.2f}" for u in torch.linalg.svd(noise).U[0]])',
    "two-reductions-are-one": "print([torch.equal(row.mean(), row.sum() / 40) for row in noise])",
    "rounding-residue": 'print(f"{(noise.softmax(-1).sum(-1) - 1).abs().max():.3e}")',
    "rounding-boundary": 'print([f"{torch.tensor([k + 0.1, 0.025]).sum():.2f}" for k in range(9)])',
    "dropout": "torch.manual_seed(0); print(torch.nn.functional.dropout(torch.ones(20)).tolist())",
    "math": "print([math.exp(k / 7) for k in range(20)])",
}
STEADY = {
    "stable-order": "print(repeated.argsort(stable=True).tolist())",
    "lost-at-all": "print((run(0.5, 200)[100:] > 2.9).any().item())",
    "threshold-between-points": "print([(t <= limit).sum().item() for limit in tenths + 0.01])",
    "spectral-radius-of-rank-one": 'print(f"{measures.spectral_radius(uniform):.2f}")',
    "sorted-eigenvalues": 'print([f"{value:.2f}" for value in measures.eigenvalue_sizes(noise)])',
    "bound": "assert (noise.softmax(-1).sum(-1) - 1).abs().max() < 1e-12",
    "whole-numbers": (
        "print(torch.arange(20.0).sum().item(), (torch.ones(3, 5) @ torch.ones(5, 2)).tolist())"
    ),
    "permutation": "print(torch.equal(torch.eye(40).roll(1, 0) @ noise, noise.roll(1, 0)))",
    "constant-row": "print(torch.full((2, 9), 3.0).var(-1).tolist())",
    "twice-the-same": "print(torch.equal(noise.exp() @ noise, noise.exp() @ noise))",
    "odd": "print(torch.equal(noise.tanh(), -(-noise).tanh()), torch.zeros(2).exp().tolist())",
    "mean-of-whole-rows": "print(torch.cat([noise[:1, :4], torch.ones(1, 4)]).mean(-1)[1].item())",
    "bernoulli": (
        "generator = torch.Generator().manual_seed(0)\n"
        "print(torch.bernoulli(noise[0].sigmoid(), generator=generator))"
    ),
    "exact-math": "print(math.exp(0), math.log10(1000), math.log2(8))",
}


def toy(path):
    sources = {"imports": IMPORTS} | FRAGILE | STEADY
    cells = [new_code_cell(source, id=name) for name, source in sources.items()]
    nbformat.write(new_notebook(cells=cells), path)
    subprocess.run([sys.executable, ROOT / "tools/notebooks.py", path], check=True)
    return path


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """For each cell of the planted notebook and of a short notebook: is it green under one seed?"""
    folder = tmp_path_factory.mktemp("jitter")
    report = folder / "report.xml"
    modules = ["tests.notebooks.nbstrict", "tests.notebooks.jitter"]
    plugins = [f"-p{module}" for module in modules]
    options = [
        "-q",
        "--jitter-seed=0",
        "-c",
        ROOT / "pyproject.toml",
        f"--rootdir={folder.parent}",
        f"--junitxml={report}",
    ]
    paths = [toy(folder / "toy.ipynb"), shutil.copy(SHORT, folder / "short.ipynb")]
    command = [sys.executable, "-m", "pytest", *plugins, *options, *paths]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    cases = list(ET.parse(report).iter("testcase"))
    return {
        (case.get("classname").split(".")[1], case.get("name")): len(case) == 0 for case in cases
    }


@pytest.mark.parametrize("cell", FRAGILE)
def test_fragile_cell_turns_red(verdicts, cell):
    assert not verdicts["toy", cell]


@pytest.mark.parametrize("cell", ["imports", *STEADY])
def test_portable_cell_stays_green(verdicts, cell):
    assert verdicts["toy", cell]


def test_short_notebook_stays_green(verdicts):
    short = {cell: green for (notebook, cell), green in verdicts.items() if notebook == "short"}
    assert len(short) > 5
    assert [cell for cell, green in short.items() if not green] == []
