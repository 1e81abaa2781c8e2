"""Diagnostics against definitions, known matrices and the closed forms of equations.md."""

import math

import pytest
import torch
from torch.testing import assert_close

from normcourse import draw, measures
from normlib import gradients


def orthonormal(size):
    return torch.linalg.qr(draw(size, size)).Q


def rms(x, eps):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


# Spectral norm and Lipschitz estimates


def test_spectral_norm_is_the_largest_singular_value():  # [EQ-SPECTRAL-NORM]
    u, v = orthonormal(4), orthonormal(4).flip(0)
    matrix = u @ torch.diag(torch.tensor([0.5, 3.0, 1.0, 2.0]).double()) @ v
    assert_close(measures.spectral_norm(matrix), torch.tensor(3.0).double())
    batch = torch.stack([matrix, -2 * matrix]).reshape(2, 1, 4, 4)
    assert_close(measures.spectral_norm(batch), torch.tensor([[3.0], [6.0]]).double())


@pytest.mark.parametrize("eps", [0.0, 0.3])
def test_the_rms_jacobian_stretches_by_one_over_rms(eps):  # [EQ-RMS-SPECTRUM]
    x = draw(7, 5)
    r = torch.sqrt(x.square().mean(-1) + eps)
    assert_close(measures.spectral_norm(gradients.rms_norm_jacobian(x, (5,), eps=eps)), 1 / r)


def test_lipschitz_estimate_of_a_linear_map():  # [EQ-LIPSCHITZ-SAMPLE]
    x, z = torch.eye(3).double(), torch.zeros(3, 3).double()
    scale = torch.tensor([1.0, -4.0, 2.0]).double()
    assert_close(
        measures.lipschitz_estimate(lambda v: scale * v + 1, x, z), torch.tensor(4.0).double()
    )


def test_lipschitz_estimates_approach_the_constant_from_below():  # [EQ-RMS-LIPSCHITZ]
    eps, x = 1e-2, draw(400, 3) * torch.logspace(-6, 1, 400, dtype=torch.float64)[:, None]
    constant = 1 / math.sqrt(eps)
    pairs = measures.lipschitz_estimate(lambda v: rms(v, eps), x[:-1], x[1:])
    slopes = measures.spectral_norm(gradients.rms_norm_jacobian(x, (3,), eps=eps)).max()
    for estimate in (pairs, slopes):
        assert 0.999 * constant < float(estimate) <= constant * (1 + 1e-12)


# Similarity


def test_similarity_is_a_cosine():  # [EQ-SIM]
    a, b = draw(6, 4, 4), draw(6, 4, 4, seed=1)
    assert measures.similarity(a, b).shape == (6,)
    assert_close(measures.similarity(a, 3 * a), torch.ones(6).double())  # blind to scale
    assert_close(measures.similarity(a, -a), -torch.ones(6).double())
    assert_close(measures.similarity(a, b), measures.similarity(b, a))
    assert bool((measures.similarity(a, b).abs() < 1).all())


def test_similarity_sees_all_entries():
    a = torch.tensor([[1.0, 2.0], [0.0, 1.0]]).double()
    b = torch.tensor([[1.0, 0.0], [5.0, 1.0]]).double()
    assert_close(measures.similarity(a, b), torch.tensor(2 / math.sqrt(6 * 27)).double())


def test_a_constant_diagonal_scores_high():  # [EQ-SIM-DIAG], A88: 0.9963 at D = 16
    x = draw(2000, 16)
    diagonals = gradients.rms_norm_jacobian(x, (16,), eps=0.0).diagonal(dim1=-2, dim2=-1)
    score = torch.cosine_similarity(diagonals, torch.ones(16).double(), dim=-1).mean()
    assert abs(float(score) - 0.9963) < 2e-4


def test_jacobians_of_two_widths_are_refused():
    with pytest.raises(ValueError, match="of one size, got 9 and 16 entries"):
        measures.similarity(torch.eye(3), torch.eye(4))
