"""The table "How sure is this?" of lesson 05: other networks, and fans of rows."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from normcourse import draw, training
from normcourse.training import swaps
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

# the network, how it is trained; in how many of five norm 0 costs most when it is too flat, the
# first queries and keys cost more than their values, and the norm's size does better than its slope
KINDS = {
    "as in the lesson": ({}, {}, 5, 5, 5),
    "four times the steps": ({}, {"steps": 320}, 5, 5, 5),
    "half the width": ({"width": 16}, {}, 5, 4, 5),
    "twice the width": ({"width": 64}, {}, 5, 4, 5),
    "twice the depth": ({"depth": 4}, {}, 4, 5, 5),
    "rate 0.001": ({}, {"lr": 1e-3}, 5, 3, 5),
    "rate 0.003": ({}, {"lr": 3e-3}, 5, 5, 5),
    "rate 0.03": ({}, {"lr": 3e-2}, 5, 1, 2),
    "rate 0.1": ({}, {"lr": 1e-1}, 4, 0, 4),
}


def trained(data, model: dict, how: dict, seed: int):
    make = partial(layers.RMSNorm, eps=1e-5)
    net = training.transformer(make, **{"depth": 2, "width": 32} | model, seed=seed)
    adam = {"optimizer": "adam", "lr": 1e-2, "warmup": 10, "batch_size": 32, "steps": 80}
    training.train(net, data, **adam | how, seed=seed)
    return net


def right(data, net) -> float:
    return training.accuracy(net, data.test_x, data.test_y)


def norm_0_costs_most(data, net) -> bool:
    """Whether no other norm costs as much, when each has 0.3 of its slope, alone."""
    counts = []
    for only in range(len(training.rows_read(net, data.train_x[:1]))):
        flat = swaps.of_scale("sqrt_d", 0.3)
        counts.append(right(data, training.swapped(net, data.train_x[:100], flat, only)))
    return counts[0] < min(counts[1:])


def first_logits_cost_more(data, net) -> bool:
    """Whether 0.3 of the first queries and keys costs more than 0.3 of the first values."""
    counts = []
    for part in ([0, 1], [2]):
        copied = copy.deepcopy(net)
        attention = next(each for each in copied.modules() if isinstance(each, training.Attention))
        attention.qkv.weight.data.unflatten(0, (3, -1))[part] *= 0.3
        counts.append(right(data, copied))
    return counts[0] < counts[1]


def size_does_better(data, net) -> bool:
    """Whether κ = 0.5 reads more digits with the norm's size than with its slope."""
    pictures = data.train_x[:100]
    of_slope = swaps.of_scale(0.5)
    rows_in_order = iter(training.rows_read(net, pictures).values())

    def of_size(norm, size):
        outputs = 0.5 * torch.tanh(next(rows_in_order) / (0.5 * size))
        layer = of_slope(norm, size)
        layer.weight = nn.Parameter(layer.weight.detach() / outputs.square().mean().sqrt())
        return layer

    counts = [right(data, training.swapped(net, pictures, new)) for new in (of_slope, of_size)]
    return counts[0] < counts[1]


@pytest.mark.slow  # the lesson runs its own five networks
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_norm_and_its_logits_and_the_size_of_outputs(data, kind):
    model, how, *expected = KINDS[kind]
    measured = (norm_0_costs_most, first_logits_cost_more, size_does_better)
    held = [0] * len(measured)
    for seed in range(5):
        net = trained(data, model, how, seed)
        for place, measure in enumerate(measured):
            held[place] += measure(data, net)
    assert held == expected


FANS = {  # the width, the exponent of the sizes, the unit; in how many of 20 the start is nearer
    "as above": (32, 1.0, 1.0, 20),
    "half the width": (16, 1.0, 1.0, 20),
    "twice the width": (64, 1.0, 1.0, 20),
    "half the exponent": (32, 0.5, 1.0, 20),
    "a tenth of the exponent": (32, 0.1, 1.0, 0),
    "rows ten times larger": (32, 1.0, 10.0, 20),
    "rows ten times smaller": (32, 1.0, 0.1, 0),
}


@pytest.mark.parametrize("kind", FANS)
def test_in_a_fan_the_start_is_nearer_than_the_derived_curve(kind):
    width, exponent, unit, expected = FANS[kind]
    curves = ("predict-04-answer", "x = kinds[")
    lesson = run_cells("05_dyt.ipynb", "setup", "drag-run", "derived-curve", curves)
    nearer = 0
    for seed in range(20):
        factors = unit * (exponent * draw(500, 1, seed=2 * seed + 1)).exp()
        x = factors * draw(500, width, seed=2 * seed)
        middle = x.square().mean(-1).sqrt().median()
        scored = lesson["errors"](x, lesson["normed"](x), middle, width)
        nearer += scored["start"] < scored["derived"]
    assert nearer == expected


def test_with_two_sizes_the_mean_of_a_fan_falls_between_them():
    lesson = run_cells("05_dyt.ipynb", "setup", "drag-run")
    sizes = torch.where(draw(2000, 1, seed=1) > 0, 10.0, 1.0)
    x = sizes * draw(2000, 32, seed=2)
    means = []
    for middle in (2.0, 4.0, 20.0):
        near = (x.abs() / middle).log().abs() < 0.22
        means.append(lesson["normed"](x).abs()[near].mean())
    low, between, high = means
    assert between < 0.6 * low < 0.6 * high
