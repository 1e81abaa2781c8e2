"""The jitter works: fragile cells turn red under it, and the same said portably stays green."""

import math
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from normcourse import draw
from tests.notebooks import jitter, strict_runs
from tests.notebooks.noise import Noise, other_libm
from tests.notebooks.strict_runs import printed, stored

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
halves = torch.full((2, 2), 0.5)
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
    # Of 2 x 2, which LAPACK solves by a formula: of larger ones some CPUs find none.
    "eigenvalues-of-rank-one": 'print(f"{torch.linalg.eigvals(halves).abs().max():.2f}")',
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
    """Stored as this machine computes. A fragile cell that raises here spoils no other one."""
    sources = {"imports": IMPORTS} | FRAGILE | STEADY
    cells = {name: new_code_cell(source, id=name) for name, source in sources.items()}
    for name in FRAGILE:
        cells[name].metadata["tags"] = ["raises-exception"]  # to be stored, too, if it does
    nbformat.write(new_notebook(cells=list(cells.values())), path)
    subprocess.run([sys.executable, "-m", "tools.notebooks", path], cwd=ROOT, check=True)
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata.pop("tags", None)
    nbformat.write(notebook, path)
    return path


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jitter")
    return [toy(folder / "toy.ipynb"), shutil.copy(SHORT, folder / "short.ipynb")]


def green_cells(notebooks, *options):
    """{(notebook, cell): whether it is green in a strict run with these options}."""
    folder = notebooks[0].parent
    report = folder / "report.xml"
    arguments = strict_runs.arguments(folder, report, *notebooks)
    command = [sys.executable, "-m", "pytest", "-p", "tests.notebooks.nbstrict", *options]
    subprocess.run([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE)
    return {
        (notebook, cell): said == ""
        for notebook, cells in strict_runs.said_of(report).items()
        for cell, said in cells.items()
    }


@pytest.fixture(scope="module")
def calm(notebooks):
    return green_cells(notebooks[:1])


@pytest.fixture(scope="module")
def noisy(notebooks):
    return green_cells(notebooks, "-p", "tests.notebooks.jitter", "--jitter-seed=0")


@pytest.mark.selftest
@pytest.mark.parametrize("cell", FRAGILE)
def test_fragile_cell_turns_red_under_noise_alone(calm, noisy, cell):
    assert calm["toy", cell]
    assert not noisy["toy", cell]


@pytest.mark.selftest
@pytest.mark.parametrize("cell", ["imports", *STEADY])
def test_portable_cell_stays_green(noisy, cell):
    assert noisy["toy", cell]


@pytest.mark.selftest
def test_short_notebook_stays_green(noisy):
    short = {cell: green for (notebook, cell), green in noisy.items() if notebook == "short"}
    assert len(short) > 5
    assert [cell for cell, green in short.items() if not green] == []


# In this process and at once, for `make test`


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


TIES = torch.tensor([2.0, 1.0, 2.0, 1.0])
ROUNDED = {  # a few units in the last place away
    "a function": lambda x: x.exp(),
    "a sum": lambda x: x.sum(0),
    "a product": lambda x: x @ x,
    "a grid": lambda x: torch.linspace(0, 1, 12, dtype=x.dtype),
}
OTHERWISE = {  # far away
    "the order of ties": lambda x: TIES.argsort(),
    "the order of eigenvalues": lambda x: torch.linalg.eigvals(x).real,
    "signs of singular vectors": lambda x: torch.linalg.svd(x).U,
    "another stream": lambda x: x.clone().bernoulli_(0.5, generator=drawn()),
}
KEPT = {
    "a sum of two": lambda x: x + 1,
    "a square": lambda x: x * x,
    "a sum of whole numbers": lambda x: x.round().sum(0),
    "the exponential of 0": lambda x: torch.zeros(3).exp(),
    "a stable order": lambda x: TIES.argsort(stable=True),
    "rows in another order": lambda x: torch.eye(40, dtype=x.dtype).roll(1, 0) @ x,
    "the variance of a constant row": lambda x: torch.full((2, 9), 3.0).var(-1),
    "an odd function": lambda x: x.tanh() + (-x).tanh(),
    "a bound": lambda x: (18.5 + x / 10).tanh() <= 1,
    "the ends of a grid": lambda x: torch.linspace(0, 0.7, 12, dtype=x.dtype)[[0, -1]],
}


def test_noise_moves_what_machines_round_differently_and_nothing_else():
    x = draw(40, 40)
    cases = ROUNDED | OTHERWISE | KEPT
    with Noise(seed=0):
        noisy = {name: case(x) for name, case in cases.items()}
        again = {name: case(x) for name, case in cases.items()}
        with pytest.raises(torch.linalg.LinAlgError):
            torch.linalg.eigvals(torch.full((2, 2), 0.5))
    for name, case in cases.items():
        calm = case(x)
        assert torch.equal(noisy[name], again[name]), name
        assert torch.equal(noisy[name], calm) == (name in KEPT), name
        assert torch.allclose(noisy[name], calm, rtol=1e-12, atol=1e-12) != (name in OTHERWISE)


def test_math_of_another_c_library_is_a_rounding_away_and_exact_where_ours_is():
    exp = other_libm(math.exp, 0)
    points = [k / 7 for k in range(1, 20)]
    assert [exp(point) for point in points] != [math.exp(point) for point in points]
    assert all(abs(exp(point) / math.exp(point) - 1) < 1e-15 for point in points)
    assert (exp(0), other_libm(math.log2, 0)(8)) == (1.0, 3.0)


PRINT_TIES = "import torch\nprint(torch.tensor([2.0, 1.0, 2.0, 1.0]).argsort({}).tolist())"
PRINT_EXP = "import math\nprint([math.exp(k / 7) for k in range(20)])"


@pytest.mark.slow
def test_the_plugin_puts_the_noise_into_a_kernel_once(tmp_path):
    exp = printed(str([math.exp(k / 7) for k in range(20)]))
    cells = {
        "ties": stored(PRINT_TIES.format(""), [printed("[1, 3, 0, 2]")]),
        "again": stored(PRINT_TIES.format(""), [printed("[1, 3, 0, 2]")]),
        "stable": stored(PRINT_TIES.format("stable=True"), [printed("[1, 3, 0, 2]")]),
        "math": stored(PRINT_EXP, [exp]),
    }
    calm = strict_runs.said_here(tmp_path, cells)
    assert [cell for cell, said in calm.items() if said] == []
    noisy = strict_runs.said_here(tmp_path, cells, "--jitter-seed=0", plugins=[jitter])
    assert [cell for cell, said in noisy.items() if said] == ["ties", "again", "math"]
