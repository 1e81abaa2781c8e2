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
HALF = 0.5  # what five nets that bear a rate read on average
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
def test_six_layers_bear_the_rate_2_with_batch_norm_alone(data, kind):
    how = {"depth": 6} | KINDS[kind]
    assert (accuracies(data, Norm, 64, 2.0, **how) > HALF).all()
    for pictures in (data, centred(data)):
        assert (accuracies(pictures, None, 64, 2.0, **how) < FAILS).all()
    assert (accuracies(data, None, 64, 2.0, clip=0.3, **how) > HALF).all()


@pytest.mark.slow
def test_how_many_starts_bear_the_rate_2(data):
    """20 of 20, 0 of 20, and 20 of 20 with a clipped gradient."""
    for norm, clip, wanted in ((Norm, None, 20), (None, None, 0), (None, 0.3, 20)):
        read = [accuracies(data, norm, 64, 2.0, depth=6, seed=s, clip=clip) for s in range(4)]
        assert (torch.cat(read) > HALF).sum() == wanted


def test_at_the_rate_8_six_layers_do_not_learn(data):
    assert (accuracies(data, Norm, 64, 8.0, depth=6) < HALF).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [{"seed": 0}, {"seed": 1}, {"seed": 2}, {"width": 16}, {"width": 64}]
)
def test_what_batch_norm_buys_is_time(data, how):
    def best(norm, steps):
        rates = (0.1, 0.2) if norm is None else (0.5, 1.0)
        reads = [accuracies(data, norm, 64, rate, steps, depth=6, **how) for rate in rates]
        return max(read.mean() for read in reads)

    soon = best(Norm, 100) - best(None, 100)
    late = best(Norm, 400) - best(None, 400)
    assert soon > 0.03
    assert 0 < late < soon / 2  # about a quarter here


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_with_adam_batch_norm_gains_little(data, seed):
    def best(norm):
        how = {"depth": 6, "seed": seed, "optimizer": "adam"}
        return max(accuracies(data, norm, 64, rate, **how).mean() for rate in (0.003, 0.01, 0.03))

    assert 0 < best(Norm) - best(None) < 0.06


def hidden_weights(nets) -> list[Tensor]:
    *hidden, _ = [part.weight for part in nets if isinstance(part, training.StackedLinear)]
    return hidden


def length(weight) -> Tensor:
    return weight.detach().flatten(1).norm(dim=1)[:, None, None]


def with_held_length(data, rate, width=32, steps=100, seed=0, depth=6) -> Tensor:
    """The hidden weights learn at this rate, the rest at 0.5; their length is given back."""
    nets = training.stacked_mlp(depth, Norm, width=width, seed=seed)
    weights = hidden_weights(nets)
    before = [length(weight) for weight in weights]

    @torch.no_grad()
    def give_back():
        for weight, old in zip(weights, before, strict=True):
            weight *= old / length(weight)

    how = {"steps": steps, "seed": seed, "lr": 0.5, "hidden_lr": rate}
    training.train_stacked(nets, data, after_step=give_back, **how)
    return training.stacked_accuracy(nets, data)


STARTS = {f"draw {seed}": {"seed": seed} for seed in (2, 3)}


@pytest.mark.parametrize("kind", each(KINDS | STARTS))
def test_hidden_weights_bear_the_rate_50_because_they_may_grow(data, kind):
    how = (KINDS | STARTS)[kind]
    free = accuracies(data, Norm, 64, 0.5, depth=6, hidden_lr=50.0, **how)
    frozen = accuracies(data, Norm, 64, 0.5, depth=6, hidden_lr=0.0, **how)
    assert (free - frozen > CLEARLY).all()
    assert (with_held_length(data, 50.0, **how) < HALF).all()
    assert (with_held_length(data, 2.0, **how) > HALF).all()
    assert (accuracies(data, Norm, 64, 8.0, depth=6, hidden_lr=0.5, **how) < HALF).all()
    assert (accuracies(data, None, 64, 0.1, depth=6, hidden_lr=2.0, **how) < HALF).all()


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


class Mended(Norm):
    """Batch norm's outputs, with the gradient of eps = 10 in training."""

    def forward(self, x: Tensor) -> Tensor:
        usual = super().forward(x)
        if not self.training:
            return usual
        mild = (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, False, keepdim=True) + 10.0)
        xhat = ((usual - self.bias) / self.weight).detach()
        return self.weight * (mild + (xhat - mild).detach()) + self.bias


@pytest.mark.parametrize("kind", each(KINDS | STARTS))
def test_the_gradient_given_back_closes_much_of_the_gap_of_pairs(data, kind):
    rates = (0.05, 0.1, 0.2, 0.5)
    how = (KINDS | STARTS)[kind]
    none, usual, mended = (
        max(accuracies(data, layer, 2, rate, **how).mean() for rate in rates)
        for layer in (None, Norm, Mended)
    )
    assert mended - usual > 0.4 * (none - usual)
    assert none - usual > CLEARLY


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
