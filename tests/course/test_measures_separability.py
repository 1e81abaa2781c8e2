"""The linear probe against a least-squares problem, and on rows whose answer is known."""

import pytest
import torch

from normcourse import draw, measures

CLASSES = 4


def clouds(rows, *, apart, seed=0):
    """Rows around one center a class, and their labels."""
    labels = torch.arange(rows) % CLASSES
    centers = draw(CLASSES, 6, seed=99)
    return draw(rows, 6, seed=seed) + apart * centers[labels], labels


def by_least_squares(rows, labels, new_rows, new_labels):
    """Errors and penalty in one system of equations, solved without normal equations."""
    mean, deviation = rows.mean(0), rows.std(0)
    known = torch.cat([(rows - mean) / deviation, torch.eye(rows.shape[1]).double()])
    wanted = (labels[:, None] == torch.arange(CLASSES)).double()
    level = wanted.mean(0)
    below = torch.zeros(rows.shape[1], CLASSES).double()
    weights = torch.linalg.lstsq(known, torch.cat([wanted - level, below])).solution
    scores = ((new_rows - mean) / deviation) @ weights + level
    return (scores.argmax(1) == new_labels).double().mean().item()


@pytest.mark.parametrize("apart", [0.0, 0.3, 1.0])
def test_the_probe_is_a_ridge_regression(apart):
    known, new = clouds(40, apart=apart, seed=1), clouds(300, apart=apart, seed=2)
    assert measures.separability(*known, *new) == by_least_squares(*known, *new)


def test_it_finds_what_is_there_and_no_more():
    known, new = clouds(200, apart=20.0, seed=1), clouds(400, apart=20.0, seed=2)
    assert measures.separability(*known, *new) == 1
    by_chance = measures.separability(draw(200, 6, seed=3), known[1], draw(400, 6, seed=4), new[1])
    assert abs(by_chance - 1 / CLASSES) < 4 * (0.25 * 0.75 / 400) ** 0.5  # 4 standard deviations


@pytest.mark.parametrize("factor", [1e-12, 1e6])
def test_the_scale_of_the_rows_makes_no_difference(factor):
    rows, labels = clouds(60, apart=0.5, seed=1)
    new_rows, new_labels = clouds(200, apart=0.5, seed=2)
    plain = measures.separability(rows, labels, new_rows, new_labels)
    scaled = measures.separability(
        factor * rows + factor, labels, factor * new_rows + factor, new_labels
    )
    assert scaled == plain


def test_dead_features_add_nothing():
    rows, labels = clouds(60, apart=0.5, seed=1)
    new_rows, new_labels = clouds(200, apart=0.5, seed=2)
    plain = measures.separability(rows, labels, new_rows, new_labels)
    padded = [torch.cat([h, torch.zeros(len(h), 3)], 1) for h in (rows, new_rows)]
    assert measures.separability(padded[0], labels, padded[1], new_labels) == plain


def test_constant_rows_get_the_most_frequent_label():
    labels = torch.tensor([0, 1, 1, 2])
    new_labels = torch.tensor([1, 1, 0, 2, 1])
    found = measures.separability(torch.ones(4, 3), labels, torch.ones(5, 3), new_labels)
    assert found == 3 / 5


@pytest.mark.parametrize("shape", [(4, 2, 3), (5, 3), (4,)])
def test_shapes_that_do_not_fit_are_named(shape):
    labels = torch.tensor([0, 1, 1, 2])
    with pytest.raises(ValueError, match="separability needs rows"):
        measures.separability(torch.ones(shape), labels, torch.ones(5, 3), torch.zeros(5).long())
