"""Lesson 02b's sentences on pairs of features and on spectral normalization that no cell shows."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from normcourse import draw, training

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


class Grouped(nn.Module):
    """GroupNorm without gain and bias, for (nets, samples, features)."""

    def __init__(self, shape: tuple[int, int, int], groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, h: Tensor) -> Tensor:
        return F.group_norm(h.flatten(0, 1), self.groups).reshape(h.shape)


def gradients_in_front(groups: int) -> Tensor:
    """Lengths (nets, digits) of the gradient where it leaves the first norm, before training."""
    data = training.digits()
    nets = training.stacked_mlp(3, partial(Grouped, groups=groups))
    h = nets[0](data.train_x)
    scores = nets[1:](h).flatten(0, 1)
    loss = F.cross_entropy(scores, data.train_y.repeat(len(h)), reduction="sum")
    (dh,) = torch.autograd.grad(loss, h)
    return dh.norm(dim=-1)


def test_pairs_pass_next_to_no_gradient_of_most_digits_and_more_on_average():
    pairs = gradients_in_front(16)
    fours = gradients_in_front(8)
    assert (pairs.median(1).values < fours.median(1).values / 1000).all()
    assert (pairs.mean(1) > fours.mean(1)).all()


def test_spectral_normalization_bounds_the_trained_weights_and_not_others():
    linear = nn.Linear(4, 5, bias=False)
    nn.utils.parametrizations.spectral_norm(linear)
    weights = linear.parametrizations.weight.original
    with torch.no_grad():
        weights.copy_(draw(5, 4, seed=9))
        for _ in range(100):
            linear(torch.zeros(1, 4))  # a call in training: one power step
        stretch = torch.linalg.matrix_norm(linear.weight, 2)
        linear.eval()
        weights.copy_(draw(5, 4, seed=10))  # other weights, from outside
        unbound = torch.linalg.matrix_norm(linear.weight, 2)
    assert_close(stretch, torch.tensor(1.0))  # what is left shrinks by (second/first)^2 a step
    assert unbound > 1.1
