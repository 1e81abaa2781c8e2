"""Lesson 02b's sentences on groups, volume, offset and padding that no cell shows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import draw, training
from tests.course.lesson_tables import OWN, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

LESSON = "02b_other_axes.ipynb"
SEEDS = range(5)
LEARNED = 0.5
CHANGES = {
    OWN: {},
    "a third of the rate, three times the steps": {"lr": 0.003, "steps": 300},
    "three times the rate": {"lr": 0.03},
    "four times the steps": {"steps": 400},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
}


def lesson() -> dict:
    return run_cells(LESSON, "setup", "failure-rule", "failure-loop", "forget-net")


def reached(members: int, seed: int, steps=100, lr=0.01, width=32) -> float:
    names = lesson()
    digits = training.digits()
    net = names["classifier"](lambda size: nn.GroupNorm(size // members, size), width, seed)
    names["train"](net, digits.train_x, digits.train_y, steps, lr)
    return names["accuracy"](net, digits.test_x, digits.test_y)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_groups_of_four_learn_and_pairs_do_not(change):
    for seed in SEEDS:
        assert reached(4, seed, **CHANGES[change]) > LEARNED
        assert reached(2, seed, **CHANGES[change]) < LEARNED


class Pairs(nn.GroupNorm):
    """Groups of two whose outputs and gradients are those of two different eps."""

    def __init__(self, width: int, outputs: float, gradient: float):
        super().__init__(width // 2, width)
        self.outputs = outputs
        self.gradient = gradient

    def forward(self, x):
        outputs, learned = (
            F.group_norm(x, self.num_groups, self.weight, self.bias, eps)
            for eps in (self.outputs, self.gradient)
        )
        return learned + (outputs - learned).detach()


def reached_by_pairs(seed: int, outputs: float, gradient: float) -> float:
    names = lesson()
    digits = training.digits()
    net = names["classifier"](lambda width: Pairs(width, outputs, gradient), seed=seed)
    names["train"](net, digits.train_x, digits.train_y, 100)
    return names["accuracy"](net, digits.test_x, digits.test_y)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_fail_through_their_gradient_and_not_through_their_outputs(seed):
    assert reached_by_pairs(seed, outputs=1e-5, gradient=1.0) > LEARNED
    assert reached_by_pairs(seed, outputs=1.0, gradient=1e-5) < 0.2


def largest_tenth(seed: int, gradient: float) -> float:
    """The share of the gradient that a tenth of the digits bring, before any training."""
    net = lesson()["classifier"](lambda width: Pairs(width, 1e-5, gradient), seed=seed)
    digits = training.digits()
    x = digits.train_x[:1000].clone().requires_grad_()
    F.cross_entropy(net(x), digits.train_y[:1000], reduction="sum").backward()
    norms = x.grad.norm(dim=-1).sort(descending=True).values
    return (norms[:100].sum() / norms.sum()).item()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_gradient_of_pairs_comes_from_a_few_digits(seed):
    assert largest_tenth(seed, gradient=1e-5) > 0.95
    assert largest_tenth(seed, gradient=1.0) < 0.2


def test_the_rule_for_groups_fits_any_number_of_channels():
    rule = run_cells(LESSON, "setup", "members-rule")["group_norm_for"]
    for channels in range(1, 300):
        members = channels // rule(channels).num_groups
        assert members >= min(16, channels)


def test_a_net_whose_norms_return_their_biases_answers_every_input_alike():
    names = lesson()
    net = names["replace_batch_norms"](names["classifier"](nn.BatchNorm1d))
    assert [str(layer) for layer in net if isinstance(layer, nn.GroupNorm)] == [
        str(nn.GroupNorm(32, 32))
    ] * 3
    scores = net(draw(7, 64))
    torch.testing.assert_close(scores, scores[:1].expand(7, 10))


def heard(layer, seed: int, bias: bool = False, steps: int = 200) -> tuple[nn.Module, dict]:
    """The lesson's network after its training, and its accuracy in each version of the signals."""
    names = lesson()
    net = names["Listener"](layer)
    if bias:
        for place, old in enumerate(net.convolutions):
            new = nn.Conv1d(old.in_channels, old.out_channels, 5, padding=2)
            net.convolutions[place] = new
    signals = training.signals()
    net = names["train"](training.seeded(net, seed), signals.train_x, signals.train_y, steps)
    return net, in_versions(net)


def in_versions(net: nn.Module) -> dict:
    signals = training.signals()
    versions = {"own": signals.test_x, "quiet": signals.test_x / 4, "offset": signals.test_x + 1}
    accuracy = lesson()["accuracy"]
    return {name: accuracy(net, x, signals.test_y) for name, x in versions.items()}


def grouped(groups: int):
    return lambda width: nn.GroupNorm(groups, width)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_stored_statistics_fail_and_those_of_the_batch_do_not(seed):
    net, stored = heard(nn.BatchNorm1d, seed)
    assert stored["quiet"] < 0.15
    at_hand = in_versions(net.train())
    assert at_hand["quiet"] > at_hand["own"] - 0.01
    assert at_hand["offset"] > at_hand["own"] - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_an_offset_costs_instance_norm_little_and_groups_of_four_more_than_half(seed):
    _, instance = heard(grouped(16), seed)
    _, groups = heard(grouped(4), seed)
    _, none = heard(lambda width: nn.Identity(), seed)
    assert instance["offset"] > instance["own"] - 0.1
    assert groups["offset"] < groups["own"] / 2
    assert none["offset"] < 0.25
    for found in (instance, groups):
        assert abs(found["quiet"] - found["own"]) < 0.005


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_with_more_steps_layer_norm_goes_on_learning_and_groups_of_four_still_lose_half(seed):
    _, row = heard(lesson()["OverChannels"], seed, steps=800)
    _, groups = heard(grouped(4), seed, steps=800)
    assert 0.4 < row["own"] < groups["own"] - 0.2
    assert groups["own"] > 0.85
    assert groups["offset"] < groups["own"] / 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_biases_let_layer_norm_see_the_scale_of_a_position(seed):
    layer = lesson()["OverChannels"]
    _, without = heard(layer, seed)
    _, with_biases = heard(layer, seed, bias=True)
    assert without["own"] < 0.3
    assert with_biases["own"] > without["own"] + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_padding_in_the_statistics_costs_instance_norm_accuracy(seed):
    net, found = heard(grouped(16), seed)
    signals = training.signals()
    x = F.pad(signals.test_x, (0, 120))
    real = (torch.arange(160) < 40).expand(len(x), -1)
    names = lesson()
    assert names["accuracy"](net, x, signals.test_y, real) < found["own"] - 0.2

    class WithoutZeros(names["Listener"]):
        def normalize(self, norm, h, real):
            mean = h[:, :, :40].mean(-1, keepdim=True)
            variance = h[:, :, :40].var(-1, correction=0, keepdim=True)
            xhat = (h - mean) / torch.sqrt(variance + norm.eps)
            return xhat * norm.weight[:, None] + norm.bias[:, None]

    without_zeros = WithoutZeros(grouped(16))
    without_zeros.load_state_dict(net.state_dict())
    reached = names["accuracy"](without_zeros, x, signals.test_y, real)
    assert abs(reached - found["own"]) < 0.03


def test_layer_norm_of_a_position_gives_a_loud_and_a_quiet_window_one_output():
    net = training.seeded(lesson()["Listener"](lesson()["OverChannels"]))
    window = draw(1, 1, 5)
    first = net.convolutions[0]
    layer = nn.LayerNorm(16, eps=0.0)
    quiet, loud = (layer(first(scale * window).mT)[:, 2] for scale in (1, 10))
    torch.testing.assert_close(quiet, loud)


def test_torchs_instance_norm_differs_as_the_field_box_says():
    assert nn.InstanceNorm1d(4).weight is None
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        nn.InstanceNorm1d(4)(draw(2, 4, 1))
    table = draw(4, 3)
    rows = nn.InstanceNorm1d(4)(table)  # a table of 4 vectors, taken for one sequence
    torch.testing.assert_close(rows, F.layer_norm(table, (3,)))
