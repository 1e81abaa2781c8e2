"""The table "How sure is this?" of lesson 01: each claim in five starts, each kind varied alone."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from normcourse import training
from normlib import functional
from tests.course.lesson_tables import OWN, each

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {
    OWN: {},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
    "four times the steps": {"steps": 400},
    "other starts and batches": {"seed": 1},
}
LEARNS = 0.7
REACHED = 0.75  # what the lesson calls learned
FAILS = 0.3
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


class Part(Norm):
    """Batch norm that subtracts alone or divides alone."""

    def __init__(self, shape, subtract: bool) -> None:
        super().__init__(shape)
        self.subtract = subtract

    def forward(self, x: Tensor) -> Tensor:
        mean = self.mean.reshape(self.weight.shape)
        var = self.var.reshape(self.weight.shape)
        if self.training:
            mean = x.mean(1, keepdim=True)
            var = x.var(1, correction=0, keepdim=True)
            self.mean = torch.lerp(self.mean, mean.detach().flatten(), 0.1)
            self.var = torch.lerp(self.var, var.detach().flatten(), 0.1)
        part = x - mean if self.subtract else x / torch.sqrt(var + self.eps)
        return self.weight * part + self.bias


def subtracting(shape):
    return Part(shape, subtract=True)


def dividing(shape):
    return Part(shape, subtract=False)


def mild(shape):
    return Norm(shape, eps=1.0)


def centred(data):
    """Each pixel without its mean over the training pictures."""
    mean = data.train_x.mean(0)
    return replace(data, train_x=data.train_x - mean, validation_x=data.validation_x - mean)


def accuracies(data, norm, size, rate, steps=100, width=32, depth=1, seed=0, **how) -> Tensor:
    nets = training.stacked_mlp(depth, norm, width=width, seed=seed)
    training.train_stacked(nets, data, steps=steps, lr=rate, batch_size=size, seed=seed, **how)
    return training.stacked_accuracy(nets, data)


def best_of(rates, data, norm, size, **kind) -> Tensor:
    """Each start at the best of these rates."""
    return torch.stack([accuracies(data, norm, size, rate, **kind) for rate in rates]).amax(0)


@pytest.mark.parametrize("kind", each(KINDS))
def test_at_the_rate_2_six_layers_learn_with_batch_norm_alone(data, kind):
    how = {"depth": 6} | KINDS[kind]
    assert (accuracies(data, Norm, 64, 2.0, **how) > REACHED).all()
    for pictures in (data, centred(data)):
        assert (accuracies(pictures, None, 64, 2.0, **how) < FAILS).all()


def how_many_learn(data, norm, seeds, size=64, **how) -> int:
    """How many of five nets a seed learn at the rate 2."""
    read = [accuracies(data, norm, size, 2.0, seed=seed, **how) for seed in seeds]
    return int((torch.cat(read) > REACHED).sum())


@pytest.mark.slow
def test_how_many_starts_learn_at_the_rate_2(data):
    """39 of 40, then 0, 25, 0, 23 and 15 of 25 here; another CPU may count a few more or less."""
    seeds = range(5)
    assert how_many_learn(data, Norm, range(8), depth=6) >= 37
    assert how_many_learn(data, None, seeds, depth=6) == 0
    assert how_many_learn(data, None, seeds, depth=6, clip=0.3) == 25
    assert how_many_learn(data, None, seeds, depth=6, clip=1.0) == 0
    assert 21 <= how_many_learn(data, Norm, seeds, depth=6, size=32) <= 24
    assert 11 <= how_many_learn(data, Norm, (0, 1, 2, 3, 21), depth=12) <= 19


@pytest.mark.parametrize("kind", each(KINDS))
def test_without_a_norm_six_layers_bear_the_rate_2_clipped_at_03_and_not_at_1(data, kind):
    how = {"depth": 6} | KINDS[kind]
    short = accuracies(data, None, 64, 2.0, clip=0.3, **how)
    assert short.mean() > LEARNS
    if kind == OWN:
        assert (short > REACHED).all()
    assert (accuracies(data, None, 64, 2.0, clip=1.0, **how) < REACHED).all()


@pytest.mark.parametrize("kind", each(KINDS))
def test_from_batches_of_16_six_layers_do_not_bear_the_rate_2(data, kind):
    read = accuracies(data, Norm, 16, 2.0, **({"depth": 6} | KINDS[kind]))
    assert read.mean() < REACHED
    if kind == OWN:
        assert (read < REACHED).all()


def test_at_the_rate_8_six_layers_do_not_learn(data):
    assert (accuracies(data, Norm, 64, 8.0, depth=6) < REACHED).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", each([0, 1], quick=0))
def test_20_layers_do_not_bear_the_rate_2(data, seed):
    assert (accuracies(data, Norm, 64, 2.0, depth=20, seed=seed) < REACHED).all()


@pytest.mark.parametrize("kind", each(KINDS))
def test_one_layer_reads_as_much_from_centred_pictures(data, kind):
    norm = accuracies(data, Norm, 64, 1.0, **KINDS[kind]).mean()
    alone = accuracies(centred(data), None, 64, 1.0, **KINDS[kind]).mean()
    none = accuracies(data, None, 64, 1.0, **KINDS[kind]).mean()
    assert abs(norm - alone) < 0.02
    assert none < alone


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_half_of_batch_norm_bears_the_rate_2_in_six_layers(data, kind):
    for part in (subtracting, dividing):
        assert (accuracies(data, part, 64, 2.0, **({"depth": 6} | KINDS[kind])) < LEARNS).all()


@pytest.mark.parametrize("width", each([16, 32, 64, 128], quick=16))
def test_one_layer_of_16_features_or_more_bears_the_rate_4_with_batch_norm(data, width):
    for seed, steps in ((0, 100), (1, 100), (0, 400)):
        how = {"width": width, "seed": seed, "steps": steps}
        assert accuracies(data, Norm, 64, 4.0, **how).mean() > 0.9
        assert accuracies(centred(data), None, 64, 4.0, **how).mean() < 0.4
        assert accuracies(centred(data), None, 64, 2.5, **how).mean() > 0.9


def test_with_8_features_one_layer_does_not_bear_4_nor_six_layers_2_with_batch_norm(data):
    for seed in (0, 1):
        how = {"width": 8, "seed": seed}
        assert accuracies(data, Norm, 64, 4.0, **how).mean() < LEARNS
        assert accuracies(data, Norm, 64, 2.0, depth=6, **how).mean() < REACHED


@pytest.mark.parametrize("kind", each(KINDS))
def test_from_pairs_batch_norm_is_behind_and_a_large_eps_rescues_it(data, kind):
    rates = (0.05, 0.2)
    none = best_of(rates, data, None, 2, **KINDS[kind])
    usual = best_of(rates, data, Norm, 2, **KINDS[kind])
    rescued = best_of(rates, data, mild, 2, **KINDS[kind])
    assert (none - usual > CLEARLY).all()
    assert (rescued - usual > CLEARLY).all()
    assert (none - rescued).mean().abs() < CLEARLY
    if kind == OWN:  # the numbers on the page
        means = [norm.mean().item() for norm in (usual, rescued, none)]
        assert means == pytest.approx([0.52, 0.78, 0.79], abs=0.03)


@pytest.mark.parametrize("kind", each(KINDS))
def test_frozen_hidden_weights_cost_less_than_batch_norm_of_pairs(data, kind):
    rates = (0.05, 0.2)
    none, usual = (best_of(rates, data, layer, 2, **KINDS[kind]).mean() for layer in (None, Norm))
    frozen = best_of(rates, data, None, 2, **({"hidden_lr": 0.0} | KINDS[kind])).mean()
    assert frozen - usual > CLEARLY
    if kind != "half the width":  # there both steps are as long
        assert frozen - usual > none - frozen


@pytest.mark.parametrize("kind", each(KINDS))
def test_a_large_eps_rescues_what_the_hidden_weights_learn(data, kind):
    rates = (0.05, 0.2)
    fixed = {"hidden_lr": 0.0} | KINDS[kind]
    usual, mildly = (best_of(rates, data, layer, 2, **fixed).mean() for layer in (Norm, mild))
    learned = best_of(rates, data, mild, 2, **KINDS[kind]).mean()
    assert learned - mildly > mildly - usual
    assert learned - mildly > 0.05


@pytest.mark.parametrize("depth", each([1, 6], quick=1))
@pytest.mark.parametrize("kind", each(KINDS))
def test_only_weights_in_front_of_batch_norm_have_a_brake(data, kind, depth):
    how = {"depth": depth} | KINDS[kind]
    assert (accuracies(data, Norm, 64, 0.5, hidden_lr=1000.0, **how) > REACHED).all()
    assert (accuracies(data, Norm, 64, 8.0, hidden_lr=0.5, **how) < REACHED).all()


def lengths(nets) -> Tensor:
    return nets[0].weight.detach().norm(dim=1, keepdim=True)


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


def bracket(g, xhat) -> Tensor:
    return g - g.mean(0) - xhat * (g * xhat).mean(0)


def test_a_large_eps_lets_a_pair_s_gradient_through():
    generator = torch.Generator().manual_seed(0)
    x, g = torch.randn(2, 2, 20000, generator=generator)
    xhat = functional.batch_norm(x, None, None, training=True, eps=1.0)
    share = bracket(g, xhat).square().mean() / g.square().mean()
    assert share.item() == pytest.approx(0.31, abs=0.01)


def test_of_the_nets_gradients_about_nine_tenths_pass_a_batch_of_64(data):
    nets = training.stacked_mlp(1, Norm)
    training.train_stacked(nets, data, steps=100, lr=0.2)
    linear, _, _, head = nets
    batch = data.train_x[:64]
    h = linear(batch).detach().transpose(0, 1).flatten(1)  # (samples, nets * features)
    xhat = functional.batch_norm(h, None, None, training=True).requires_grad_()
    gain, bias = (p.flatten() for p in (nets[1].weight, nets[1].bias))
    y = (gain * xhat + bias).unflatten(1, (5, -1)).transpose(0, 1)
    scores = head(torch.relu(y)).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(scores, data.train_y[:64].repeat(5))
    (g,) = torch.autograd.grad(loss, xhat)
    share = bracket(g, xhat.detach()).square().sum() / g.square().sum()
    assert 0.85 < share < 0.97


def test_sorted_neighbours_spoil_the_answers(data):
    nets = training.stacked_mlp(1, Norm)
    training.train_stacked(nets, data, steps=100, lr=0.5)
    weight = nets[1].weight.detach()
    bias = nets[1].bias.detach()

    def share(order):
        right = 0
        for places in order.split(16):
            h = nets[0](data.validation_x[places]).detach()
            h = (h - h.mean(1, keepdim=True)) / torch.sqrt(h.var(1, False, keepdim=True) + 1e-5)
            answers = nets[3](torch.relu(weight * h + bias)).argmax(-1)
            right += (answers == data.validation_y[places]).sum()
        return right / (5 * len(order))

    assert share(torch.arange(397)) > 0.9
    assert share(data.validation_y.argsort(stable=True)) < FAILS


def test_one_row_of_a_table_stops_torch_s_layer():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        torch.nn.BatchNorm1d(3)(torch.zeros(1, 3))
    torch.nn.BatchNorm2d(3)(torch.zeros(1, 3, 2, 2))
