"""Lesson 08a's sentences on families of comparisons that no cell shows."""

import pytest
import torch

from normcourse import measures

SEEDS = 10
K = 96
Q = measures.student_quantile(SEEDS, 1 - 0.05 / K)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(3)


def false_words(d):
    """The share of the families (families, k, n) in which an interval leaves 0 out."""
    away = d.mean(-1).abs() / d.std(-1) * SEEDS**0.5
    return (away > Q).any(-1).double().mean().item()


def test_holm_finds_something_exactly_if_one_such_interval_leaves_0_out(generator):
    families = torch.rand(40, K, SEEDS, dtype=torch.float64, generator=generator).log() + 1
    found = []
    for d in families:
        p = torch.tensor([measures.paired(row, 0 * row).p for row in d])
        found.append((measures.holm(p) < 0.05).any().item())
    assert 0.2 < sum(found) / len(found) < 0.95
    assert sum(found) / len(found) == pytest.approx(false_words(families))


def test_a_flat_distribution_breaks_the_promise_less_than_a_skewed_one(generator):
    flat = torch.rand(2000, K, SEEDS, dtype=torch.float64, generator=generator)
    skewed = -1 - flat.log()
    assert 0.08 < false_words(flat - 0.5) < 0.3 < false_words(skewed)


def test_rare_losses_beside_smaller_differences_break_it_in_nearly_every_family(generator):
    lost = torch.rand(500, K, SEEDS, dtype=torch.float64, generator=generator) < 0.1
    noise = torch.randn(*lost.shape, dtype=torch.float64, generator=generator)
    assert false_words(torch.where(lost, -9, 1) + 0.3 * noise) > 0.99
