"""The table "How sure is this?" of lesson 01: each claim in five starts, each kind varied alone."""

import pytest
import torch
from torch import Tensor

from normcourse import training
from normlib import functional

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {
    "as in the lesson": {},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
    "four times the steps": {"steps": 400},
}
LEARNS = 0.7
CLEARLY = 0.1


class Norm(torch.nn.Module):
    """Batch norm of several nets side by side, (nets, samples, features), by the library."""

    def __init__(self, shape: tuple[int, int, int], eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(shape))
        self.bias = torch.nn.Parameter(torch.zeros(shape))
        self.mean = torch.zeros(shape).flatten()
        self.var = torch.ones(shape).flatten()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        nets, samples, features = x.shape
        channels = x.transpose(0, 1).reshape(samples, nets * features)
        y = functional.batch_norm(
            channels,
            self.mean,
            self.var,
            self.weight.flatten(),
            self.bias.flatten(),
            self.training,
            eps=self.eps,
        )
        return y.reshape(samples, nets, features).transpose(0, 1)


def mild(shape):
    return Norm(shape, eps=1.0)


@pytest.fixture(scope="module")
def data():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield training.digits()
    torch.set_default_dtype(default)


def accuracies(data, norm, size, rate, steps=100, width=32) -> Tensor:
    nets = training.stacked_mlp(1, norm, width=width)
    training.train_stacked(nets, data, steps=steps, lr=rate, batch_size=size)
    return training.stacked_accuracy(nets, data)


def from_pairs(data, norm, **kind) -> Tensor:
    """Each start at the better of two rates; rates around them are worse for all of these."""
    rows = [accuracies(data, norm, 2, rate, **kind) for rate in (0.05, 0.2)]
    return torch.stack(rows).amax(0)


@pytest.mark.parametrize("kind", KINDS)
def test_at_the_rate_2_only_batch_norm_learns(data, kind):
    assert (accuracies(data, Norm, 64, 2.0, **KINDS[kind]) > LEARNS).all()
    assert (accuracies(data, None, 64, 2.0, **KINDS[kind]) < LEARNS).all()


@pytest.mark.parametrize("kind", KINDS)
def test_from_pairs_batch_norm_is_behind_and_a_large_eps_rescues_it(data, kind):
    none = from_pairs(data, None, **KINDS[kind])
    usual = from_pairs(data, Norm, **KINDS[kind])
    rescued = from_pairs(data, mild, **KINDS[kind])
    assert (none - usual > CLEARLY).all()
    assert (rescued - usual > CLEARLY).all()
    assert (none - rescued).mean().abs() < CLEARLY / 2


def lengths(nets) -> Tensor:
    return nets[0].weight.detach().norm(dim=1, keepdim=True)


def test_at_the_rate_4_nets_learn_with_weights_held_at_their_length(data):
    nets = training.stacked_mlp(1, Norm)
    start = lengths(nets)
    for step in range(100):
        training.train_stacked(nets, data, steps=1, lr=4.0, batch_size=64, seed=step)
        with torch.no_grad():
            nets[0].weight.mul_(start / lengths(nets))
    assert (training.stacked_accuracy(nets, data) > LEARNS).all()


def test_weights_grow_at_each_large_step(data):
    nets = training.stacked_mlp(1, Norm)
    for step in range(20):
        before = lengths(nets)
        training.train_stacked(nets, data, steps=1, lr=4.0, batch_size=64, seed=step)
        assert (lengths(nets) >= before * (1 - 1e-3)).all()  # eps lets a little shrinking through


def test_double_weights_stay_double_at_four_times_the_rate(data):
    def without_eps(shape):
        return Norm(shape, eps=1e-30)

    single, double = (training.stacked_mlp(1, without_eps, factor=f) for f in (1.0, 2.0))
    for nets, hidden in ((single, 0.1), (double, 0.4)):
        training.train_stacked(nets, data, steps=100, lr=0.1, hidden_lr=hidden)
    torch.testing.assert_close(double[0].weight, 2 * single[0].weight, rtol=1e-6, atol=1e-9)
