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


# Projection defect


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_multiples_of_projections_have_no_defect(rank):  # [EQ-PROJECTION-DEFECT]
    basis = orthonormal(5)[:, :rank]
    defect = measures.projection_defect(0.01 * basis @ basis.T)
    assert float(defect) < 1e-14


def test_the_defect_of_rms_norm_comes_from_eps_and_gain():  # [EQ-PROJECTION-DEFECT]
    x = draw(5)

    def defect(weight=None, eps=0.0):
        return float(measures.projection_defect(gradients.rms_norm_jacobian(x, (5,), weight, eps)))

    assert defect() < 1e-14
    assert defect(weight=torch.full((5,), 7.0).double()) < 1e-14  # a constant gain is only a scale
    assert defect(eps=0.1) > 1e-2
    assert defect(weight=draw(5, seed=1)) > 1e-1


def test_an_oblique_projection_has_a_defect():  # idempotent, but not symmetric
    oblique = torch.tensor([[1.0, 1.0], [0.0, 0.0]]).double()
    assert_close(oblique @ oblique, oblique)
    assert float(measures.projection_defect(oblique)) > 0.1


def test_the_defect_of_a_diagonal_by_hand():
    p = torch.tensor([1.0, 0.5]).double()  # P^T P - P is diag(0, -0.25), |P| is sqrt(1.25)
    assert_close(
        measures.projection_defect(torch.diag(4 * p)), torch.tensor(0.25 / math.sqrt(1.25)).double()
    )


def test_the_defect_of_a_shift_by_hand():
    p = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).double()  # P^T P is diag(0, 1), while P P is 0
    assert_close(measures.projection_defect(p), torch.tensor(math.sqrt(2)).double())


def test_a_zero_jacobian_has_no_scale():
    assert measures.projection_defect(torch.zeros(3, 3).double()).isnan()


# Similarity


def test_similarity_is_a_cosine():  # [EQ-SIM] [EQ-SIM-DIAG]
    a, b = draw(6, 4, 4), draw(6, 4, 4, seed=1)
    for measure in (measures.similarity, measures.diag_similarity):
        assert measure(a, b).shape == (6,)
        assert_close(measure(a, 3 * a), torch.ones(6).double())  # blind to scale
        assert_close(measure(a, -a), -torch.ones(6).double())
        assert_close(measure(a, b), measure(b, a))
        assert bool((measure(a, b).abs() < 1).all())


def test_similarity_sees_all_entries_and_its_sister_the_diagonal():
    a = torch.tensor([[1.0, 2.0], [0.0, 1.0]]).double()
    b = torch.tensor([[1.0, 0.0], [5.0, 1.0]]).double()
    assert_close(measures.diag_similarity(a, b), torch.tensor(1.0).double())
    assert_close(measures.similarity(a, b), torch.tensor(2 / math.sqrt(6 * 27)).double())


def test_a_constant_diagonal_scores_high():  # SOURCE-AUDIT A88: 0.9963 at D = 16
    x = draw(2000, 16)
    identity = torch.eye(16).double().expand(2000, 16, 16)
    score = measures.diag_similarity(
        gradients.rms_norm_jacobian(x, (16,), eps=0.0), identity
    ).mean()
    assert abs(float(score) - 0.9963) < 2e-4


def test_jacobians_of_two_widths_are_refused():
    with pytest.raises(ValueError, match="of one size, got 9 and 16 entries"):
        measures.similarity(torch.eye(3), torch.eye(4))
