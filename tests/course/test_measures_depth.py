"""Signal and gradient through depth: hooks against autograd by hand, theory against simulation."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normcourse import draw, measures
from normcourse.measures import ACTIVATIONS


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def net(*middle):
    model = nn.Sequential(nn.Linear(5, 4), *middle, nn.Linear(4, 3)).double()
    for seed, p in enumerate(model.parameters()):
        p.data = draw(*p.shape, seed=seed)
    return model


def target(y):
    return y.square().sum()


# Hooks


def test_norms_of_each_output_by_hand():  # [EQ-DEPTH-DECAY]
    model, x = net(nn.Tanh()), draw(7, 5)
    first = model[0](x)
    hidden = first.tanh()
    output = model[2](hidden)
    upstream = 2 * output
    at_hidden = upstream @ model[2].weight
    want = [at_hidden * (1 - hidden.square()), at_hidden, upstream]
    got = measures.gradient_norms(model, lambda: target(model(x)))
    assert_close(got, torch.stack([g.norm() for g in want]).detach())


def test_nothing_is_left_behind():
    model, x = net(nn.ReLU()), draw(7, 5)
    with torch.no_grad():
        norms = measures.gradient_norms(model, lambda: target(model(x)))
    assert not norms.requires_grad
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(ZeroDivisionError):
        measures.gradient_norms(model, lambda: 1 / 0)
    assert not any(module._forward_hooks for module in model.modules())


def test_layers_that_work_in_place_are_seen_as_they_were():
    x = draw(7, 5)

    def norms(model):
        return measures.gradient_norms(model, lambda: target(model(x)))

    assert_close(norms(net(nn.ReLU(inplace=True))), norms(net(nn.ReLU())))


def test_a_layer_before_all_parameters_has_a_gradient():
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(6, 2)).double(), draw(4, 2, 3)
    got = measures.gradient_norms(model, lambda: target(model(x)))
    leaf = x.clone().requires_grad_()
    (want,) = torch.autograd.grad(target(model(leaf)), leaf)
    assert_close(got[0], want.norm())


def test_a_cell_counts_at_every_step():  # gradient through time
    cell = nn.Linear(3, 3, bias=False).double()
    cell.weight.data = 0.5 * torch.eye(3).double()

    def loss():
        h = draw(1, 3)
        for _ in range(4):
            h = cell(h)
        return h.sum()

    norms = measures.gradient_norms([cell], loss)
    assert_close(norms, math.sqrt(3) * number([0.125, 0.25, 0.5, 1.0]))
    assert_close(number(measures.decay_rate(norms)), number(0.5))


def test_a_branch_the_loss_does_not_use_has_none():
    model, x = net(), draw(7, 5)
    norms = measures.gradient_norms(model, lambda: model[0](x).sum() + 0 * model(x).detach().sum())
    assert len(norms) == 3 and norms[1:].tolist() == [0.0, 0.0]


# Decay and mean field


def test_decay_rate_by_hand():
    assert_close(number(measures.decay_rate([8.0, 77.0, 5.0, 1.0])), number(2.0))
    assert_close(number(measures.decay_rate(number([1e-100, 1.0]))), number(1e-100))


def simulate(activation, weight_gain, depth=6, width=512, rows=64):
    """(q, rates) of one random net: mean squares before each activation, gradient factors."""
    weights = [draw(width, width, seed=k) * math.sqrt(weight_gain / width) for k in range(depth)]
    x = draw(rows, width, seed=99).requires_grad_()
    entering = [x]
    for weight in weights:
        entering.append(activation.function(entering[-1]) @ weight.T)
    grads = torch.autograd.grad(entering[-1], entering, draw(rows, width, seed=100))
    q = torch.stack([z.square().mean() for z in entering]).detach()
    norms = torch.stack([g.norm() for g in grads])
    return q, norms[:-1] / norms[1:]


@pytest.mark.parametrize(
    ("name", "gain"), [("sigmoid", 1.0), ("tanh", 1.5), ("ReLU", 2.0), ("GELU", 2.0)]
)
# [EQ-MEAN-FIELD], A183: 0.235 for the sigmoid
def test_mean_field_is_what_wide_nets_do(name, gain):
    activation = ACTIVATIONS[name]
    q, rates = measures.mean_field(*activation, gain, 6)
    found_q, found_rates = simulate(activation, gain)
    # One layer of width 512 spreads one row's mean square by sqrt(2 / 512) = 6 %, and the rows
    # share the weights; six layers add up to 15 % (to 20 % for ReLU, of more kurtosis), and a root
    # halves it.
    assert_close(found_q, q, rtol=0.2, atol=0)
    assert_close(found_rates, rates, rtol=0.1, atol=0)


def test_mean_field_in_closed_form():
    q, rates = measures.mean_field(*ACTIVATIONS["ReLU"], 2.0, 5, start=3.0)  # He: nothing changes
    assert_close(q, torch.full((6,), 3.0).double(), rtol=1e-12, atol=0)
    assert_close(rates, torch.ones(5).double(), rtol=1e-12, atol=0)
    q, rates = measures.mean_field(lambda z: z, torch.ones_like, 0.25, 3)
    assert_close(q, number([1.0, 0.25, 0.0625, 0.015625]), rtol=1e-12, atol=0)
    assert_close(rates, torch.full((3,), 0.5).double(), rtol=1e-12, atol=0)
    q, rates = measures.mean_field(*ACTIVATIONS["tanh"], 1.0, 0)
    assert q.tolist() == [1.0] and rates.shape == (0,)


# Initialisation


def test_he_variance_is_torchs():  # [EQ-HE]
    generator, weight = torch.Generator().manual_seed(0), torch.empty(400, 100, dtype=torch.float64)
    close = {"rtol": 4 * math.sqrt(2 / weight.numel()), "atol": 0}  # 4 sd of a sample variance
    nn.init.kaiming_normal_(weight, nonlinearity="relu", generator=generator)
    assert_close(weight.var(), number(measures.he_variance(100)), **close)


def test_the_smallest_layer():
    assert measures.he_variance(1) == 2.0


# Bad input


def test_layers_must_run():
    model, idle = net(), nn.ReLU()
    for layers, said in (([], "got none"), ([idle], "ReLU"), ([model[0], idle], "ReLU")):
        with pytest.raises(ValueError, match=said):
            measures.gradient_norms(layers, lambda: target(model(draw(2, 5))))


def test_an_output_must_be_a_tensor():
    lstm = nn.LSTM(3, 2).double()
    with pytest.raises(TypeError, match="LSTM returns tuple"):
        measures.gradient_norms([lstm], lambda: lstm(draw(4, 3))[0].sum())


@pytest.mark.parametrize(
    "norms", [[], [1.0], [0.0, 1.0], [1.0, math.inf], [math.nan, 1.0], torch.ones(1)]
)
def test_a_decay_rate_needs_two_ends(norms):
    with pytest.raises(ValueError, match="decay_rate needs two or more norms"):
        measures.decay_rate(norms)


def test_a_layer_has_inputs():
    with pytest.raises(ValueError, match="fan_in >= 1, got 0"):
        measures.he_variance(0)
