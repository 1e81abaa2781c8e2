"""Spectra, ranks, paths, gradient descent against NumPy, enumeration, known cases."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from normcourse import draw, measures
from normlib import gradients

ROOT = Path(__file__).resolve().parents[2]
EPS = torch.finfo(torch.float64).eps


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def with_singular_values(values, rows, columns, seed=0):
    u, v = (torch.linalg.qr(draw(n, n, seed=seed + k)).Q for k, n in enumerate((rows, columns)))
    middle = torch.zeros(rows, columns).double()
    middle.diagonal().copy_(number(values))
    return u @ middle @ v


# Recurrence


def test_spectral_radius_by_hand():  # [EQ-SPECTRAL-RADIUS]
    turn = number([[0.0, -2.0], [2.0, 0.0]])  # eigenvalues 2i and -2i
    shear = number([[0.5, 100.0], [0.0, -0.3]])
    got = measures.spectral_radius(torch.stack([turn, shear]))
    assert_close(got, number([2.0, 0.5]))
    assert_close(measures.eigenvalue_sizes(shear), number([0.5, 0.3]))


def test_the_radius_is_never_above_the_norm():  # A190
    matrices = draw(2000, 4, 4) * torch.exp(2 * draw(2000, 4, 4, seed=1))
    ratio = measures.spectral_radius(matrices) / measures.spectral_norm(matrices)
    assert 0.9 < ratio.max() <= 1 + 1e-12
    normal = [draw(6, 6) + draw(6, 6).T, torch.linalg.qr(draw(6, 6)).Q, draw(6, 6) - draw(6, 6).T]
    for matrix in normal:
        assert_close(measures.spectral_radius(matrix), measures.spectral_norm(matrix))


def test_power_norms_of_a_jordan_block():  # [EQ-JORDAN] [EQ-POWERS], A189: grows first, dies later
    norms = measures.power_norms(number([[0.9, 50.0], [0.0, 0.9]]), 300)
    assert norms[0] == 1 and norms[1] > 50
    assert 190 < norms.max() < 195 and norms.argmax() in (9, 10) and norms[300] < 1e-9
    powers = [np.linalg.matrix_power(np.array([[0.9, 50.0], [0.0, 0.9]]), t) for t in range(301)]
    assert_close(norms, number([np.linalg.norm(power, 2) for power in powers]), rtol=1e-11, atol=0)


def test_power_norms_of_a_nilpotent_matrix():  # A188
    norms = measures.power_norms(number([[0.0, 2.0], [0.0, 0.0]]), 3)
    assert norms.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert measures.power_norms(draw(3, 3), 0).tolist() == [1.0]


def test_the_rate_is_the_radius():  # Gelfand
    matrix = draw(16, 16) / 4
    rate = measures.power_norms(matrix, 400)[400] ** (1 / 400)
    # (a condition number)^(1/400)
    assert_close(rate, measures.spectral_radius(matrix), rtol=0.02, atol=0)
    assert measures.spectral_norm(matrix) > 1.5 * rate


# Attention


def test_logit_variance_by_simulation():  # [EQ-LOGIT-VARIANCE], A191
    dim, rows = 16, 40_000
    q, k = 0.5 + 1.3 * draw(rows, dim), -0.8 + 0.7 * draw(rows, dim, seed=1)
    logits = (q * k).sum(1)
    want = measures.logit_variance(dim, 1.3, 0.7, 0.5, -0.8)
    # 5 sd; kurtosis below 4
    assert_close(logits.var(), number(want), rtol=5 * math.sqrt(3 / rows), atol=0)


def test_logit_variance_of_standard_entries():
    assert [measures.logit_variance(dim) for dim in (1, 64)] == [1.0, 64.0]


def test_softmax_entropy():  # [EQ-ENTROPY]
    x = draw(6, 5)
    want = torch.distributions.Categorical(logits=x).entropy()
    assert_close(measures.softmax_entropy(x), want)
    masked = number([[0.0, 0.0, -math.inf], [0.0, -math.inf, -math.inf], [900.0, 0.0, 0.0]])
    assert_close(measures.softmax_entropy(masked), number([math.log(2), 0.0, 0.0]))


def test_softmax_never_stretches_by_more_than_half():  # [EQ-SOFTMAX-BOUND], A192, A193
    x = draw(500, 4) * torch.logspace(-2, 2, 500, dtype=torch.float64)[:, None]
    norm = measures.spectral_norm(gradients.softmax_jacobian(x))
    assert (norm <= 0.5).all() and (norm <= 1 - x.softmax(-1).square().sum(-1) + 1e-12).all()
    sharp = gradients.softmax_jacobian(number([30.0, 0.0, 0.0]))
    assert measures.spectral_norm(sharp) < 1e-12


def test_spectra_of_attention_matrices():  # [EQ-ROW-STOCHASTIC], A213, A214
    n = 16
    eye = torch.eye(n).double()
    uniform, sink, shift = torch.full((n, n), 1 / n).double(), eye[[0] * n], eye.roll(1, 0)
    sizes = measures.eigenvalue_sizes(torch.stack([uniform, sink, shift, draw(n, n).softmax(-1)]))
    assert_close(sizes[:, 0], torch.ones(4).double())
    assert_close(
        sizes[:3, 1], number([0.0, 0.0, 1.0]), rtol=0, atol=1e-7
    )  # a double 0 is found to a root of 1e-16
    assert sizes[3, 1] < 0.5
    assert_close(
        measures.spectral_norm(torch.stack([uniform, sink, shift])), number([1.0, 4.0, 1.0])
    )


def check_rank_one_matrices():
    """Their only eigenvalue that may differ from 0 is the trace; MKL fails on hundreds of these."""
    for n in range(2, 131):
        weight = draw(n, seed=n)
        uniform = torch.full((n, n), 1 / n).double()
        matrices = torch.stack([uniform, weight.softmax(-1).expand(n, n), weight.expand(n, n)])
        trace = matrices.diagonal(dim1=-2, dim2=-1).sum(-1).abs()
        # A double 0 is found to the root of a rounding error, which is at most about n eps times
        # the norm.
        allowed = (100 * n * EPS) ** 0.5 * torch.linalg.matrix_norm(matrices)
        sizes = measures.eigenvalue_sizes(matrices)
        assert ((sizes[:, 0] - trace).abs() <= allowed).all()
        assert (sizes[:, 1] <= allowed).all()
        tiny = measures.spectral_radius(1e-300 * matrices[2])
        assert abs(tiny * 1e300 - trace[2]) <= allowed[2]


@pytest.mark.slow
def test_rank_one_matrices_have_a_spectral_radius():  # [EQ-SPECTRAL-RADIUS]
    check_rank_one_matrices()


# MKL takes another code path on each kind of Intel CPU; on other CPUs the variable changes nothing.
@pytest.mark.slow
@pytest.mark.parametrize("path", ["COMPATIBLE", "AVX2"])
def test_rank_one_matrices_have_a_spectral_radius_on_other_code_paths(path):
    command = [sys.executable, "-m", "tests.course.test_measures_spectra"]
    environment = os.environ | {"MKL_CBWR": path}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("fails", [False, True])
def test_fallback_finds_the_same_eigenvalues(monkeypatch, fails):
    """A batch of complex matrices with a zero and a tiny one among them."""
    real = torch.linalg.eigvals
    tries = iter([fails])

    def eigvals(matrix):
        if next(tries, False):
            raise torch.linalg.LinAlgError("planted")
        return real(matrix)

    matrices = torch.stack([draw(5, 5), torch.zeros(5, 5).double(), 1e-200 * draw(5, 5, seed=1)])
    matrices = torch.complex(matrices, matrices.mT)
    want = real(matrices).abs().sort(-1, descending=True).values
    monkeypatch.setattr(torch.linalg, "eigvals", eigvals)
    got = measures.eigenvalue_sizes(matrices)
    assert next(tries, None) is None
    allowed = 1000 * EPS * want[:, :1]
    assert ((got - want).abs() <= allowed).all()


# Residual blocks


def test_residual_bounds_hold_and_are_reached():  # [EQ-RESIDUAL], A197, A199
    branch = draw(300, 4, 4)
    branch = (
        branch
        / measures.spectral_norm(branch)[:, None, None]
        * torch.linspace(0.01, 2, 300).double()[:, None, None]
    )
    low, high = measures.residual_bounds(branch)
    values = torch.linalg.svdvals(torch.eye(4).double() + branch)
    assert (low <= values[:, -1] + 1e-12).all() and (values[:, 0] <= high + 1e-12).all()
    assert (low[150:] == 0).all()  # nothing is promised for norms above 1
    eye = torch.eye(4).double()
    for scale, which in ((-0.3, 0), (0.3, 1)):
        bounds = measures.residual_bounds(scale * eye)
        assert_close(bounds[which], measures.spectral_norm((1 + scale) * eye))
    assert measures.residual_bounds(-eye)[0] == 0  # A198: F(x) = -x cancels the identity


# Rank


def test_ranks_by_hand():  # [EQ-RANK-ENTROPY] [EQ-RANK-STABLE] [EQ-RANK-NUMERICAL] [EQ-CONDITION]
    matrix = with_singular_values([4.0, 2.0, 2.0], 3, 5)
    # p = 1/2, 1/4, 1/4
    assert_close(measures.effective_rank(matrix), number(math.exp(1.5 * math.log(2))))
    assert_close(measures.stable_rank(matrix), number(24 / 16))
    assert [int(measures.numerical_rank(matrix, t)) for t in (1.0, 3.0, 5.0)] == [3, 1, 0]
    assert_close(measures.condition_number(matrix), number(2.0))


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_ranks_of_projections(rank):
    values = [7.0] * rank + [0.0] * (5 - rank)
    matrices = torch.stack(
        [with_singular_values(values, 5, 6), with_singular_values(values, 5, 6, seed=9)]
    )
    for measure in (measures.effective_rank, measures.stable_rank):
        # Zero singular values come out at 1e-15; p ln p of them is below 1e-13.
        assert_close(measure(matrices), torch.full((2,), float(rank)).double(), rtol=1e-11, atol=0)
    assert measures.numerical_rank(matrices, 1e-6).tolist() == [rank, rank]


def test_what_scale_changes():  # A203
    matrix = draw(20, 20) @ torch.diag(0.5 ** torch.arange(20).double())
    for measure in (measures.effective_rank, measures.stable_rank, measures.condition_number):
        # the smallest value is 1e-6
        assert_close(measure(100 * matrix), measure(matrix), rtol=1e-6, atol=0)
    assert measures.numerical_rank(100 * matrix, 0.1) > measures.numerical_rank(matrix, 0.1)
    assert 1 <= measures.stable_rank(matrix) <= 20 and 1 <= measures.effective_rank(matrix) <= 20


def test_singular_and_zero_matrices():
    zero, singular = torch.zeros(3, 3).double(), torch.diag(number([2.0, 0.0]))
    assert measures.condition_number(singular) == math.inf
    for measure in (measures.effective_rank, measures.stable_rank, measures.condition_number):
        assert measure(zero).isnan()


@pytest.mark.parametrize("shape", [(3, 8), (5, 5), (8, 3)])
def test_gradient_bounds_of_every_shape(shape):  # [EQ-SINGULAR-BOUNDS], A204, A205
    weight, g = draw(2, *shape), draw(2000, shape[0], seed=1)
    low, high = measures.gradient_bounds(weight)
    ratio = (g @ weight).norm(dim=-1) / g.norm(dim=-1)  # (2, 2000)
    assert (low[:, None] <= ratio).all() and (ratio <= high[:, None]).all()
    assert bool((low == 0).all()) == (shape[0] > shape[1])


def test_the_smallest_direction_is_lost_where_outputs_outnumber_inputs():
    low, high = measures.gradient_bounds(number([[1.0], [0.0]]))  # g = (0, 1) gives 0
    assert (low, high) == (0.0, 1.0)


# Chains and paths


def test_chain_bound():  # [EQ-CHAIN-BOUND], A207
    layers = draw(20, 16, 16) / 4
    product = torch.linalg.multi_dot(list(layers.flip(0)))
    assert_close(measures.chain_bound(layers), measures.chain_bound(list(layers)))
    assert measures.chain_bound(layers) > 100 * measures.spectral_norm(product)
    assert_close(measures.chain_bound([number([[2.0]]), number([[-3.0, 0.0]])]), number(6.0))


def test_path_norm_by_enumeration():  # [EQ-PATH-NORM]
    weights = [draw(3, 2), draw(4, 3, seed=1), draw(2, 4, seed=2)]
    total = 0.0
    for i, a, b, k in itertools.product(range(2), range(3), range(4), range(2)):
        total += float(weights[0][a, i] * weights[1][b, a] * weights[2][k, b]) ** 2
    assert_close(measures.path_norm(weights), number(math.sqrt(total)))
    assert_close(measures.path_norm([number([[3.0, 4.0]])]), number(5.0))


def test_path_norm_does_not_see_a_rescaled_unit():
    first, second = draw(3, 5), draw(2, 3, seed=1)
    units = number([0.01, 3.0, 100.0])
    x = draw(7, 5, seed=2)
    same = [units[:, None] * first, second / units]
    assert_close(torch.relu(x @ same[0].T) @ same[1].T, torch.relu(x @ first.T) @ second.T)
    assert_close(measures.path_norm(same), measures.path_norm([first, second]))
    assert measures.chain_bound(same) > 10 * measures.chain_bound([first, second])


# Gradient descent


def test_gradient_descent_keeps_to_its_rate():  # [EQ-GD-QUADRATIC] [EQ-GD-STEPS]
    values = number([0.5, 0.9, 4.0])
    basis = torch.linalg.qr(draw(3, 3)).Q
    matrix = basis @ torch.diag(values) @ basis.T
    best, best_rate = measures.best_step(0.5, 4.0)
    for step, rate in ((best, best_rate), (1 / 4.0, 1 - 0.5 / 4.0), (0.1, 0.95), (1.0, 3.0)):
        length = measures.descend(matrix, draw(3), step, 20).norm(dim=1)
        assert (length[1:] <= rate * length[:-1] * (1 + 1e-12)).all()
    slowest = measures.descend(matrix, basis[:, 0], 1 / 4.0, 20).norm(dim=1)
    assert_close(slowest, (1 - 0.5 / 4.0) ** torch.arange(21).double())


def test_no_step_is_better_than_the_best():
    values = number([0.5, 0.9, 4.0])
    steps = torch.linspace(0.01, 0.6, 2000, dtype=torch.float64)
    rates = (1 - steps[:, None] * values).abs().amax(1)
    step, rate = measures.best_step(0.5, 4.0)
    assert rate <= rates.min() < rate + 2e-3  # a grid of 3e-4 at a slope of at most 4
    assert abs(steps[rates.argmin()] - step) < 3e-4


def test_descent_follows_autograd():
    matrix, x = number([[2.0, 0.5], [0.5, 1.0]]), number([1.0, -3.0]).requires_grad_()
    path = [x.detach().clone()]
    for _ in range(5):
        (gradient,) = torch.autograd.grad(x @ matrix @ x / 2, x)
        x.data -= 0.3 * gradient
        path.append(x.detach().clone())
    assert_close(measures.descend(matrix, path[0], 0.3, 5), torch.stack(path))


# Bad input


def test_bad_input_is_named():
    cases = [
        (lambda: measures.power_norms(torch.eye(2), -1), "steps >= 0, got -1"),
        (lambda: measures.logit_variance(0), "dim >= 1, got 0"),
        (lambda: measures.numerical_rank(torch.eye(2), 0.0), "threshold above 0, got 0.0"),
        (lambda: measures.chain_bound([]), "at least one Jacobian"),
        (lambda: measures.path_norm([]), "needs matrices"),
        (lambda: measures.path_norm([torch.ones(3, 2), torch.ones(3)]), "needs matrices"),
        (lambda: measures.path_norm([torch.ones(3, 2), torch.ones(2, 4)]), "widths meet"),
        (lambda: measures.best_step(0.0, 1.0), "0 < smallest <= largest"),
        (lambda: measures.best_step(2.0, 1.0), "0 < smallest <= largest"),
    ]
    for call, said in cases:
        with pytest.raises(ValueError, match=said):
            call()
    for measure in (measures.spectral_radius, measures.eigenvalue_sizes):
        with pytest.raises(RuntimeError, match="square"):  # torch's own words
            measure(torch.ones(2, 3))


if __name__ == "__main__":
    check_rank_one_matrices()
