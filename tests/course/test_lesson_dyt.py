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

# the network, how it is trained; in how many of five 0.3 of queries and keys costs most in the
# first attention, and the norm's size does better than its slope
KINDS = {
    "as in the lesson": ({}, {}, 5, 5),
    "four times the steps": ({}, {"steps": 320}, 5, 5),
    "half the width": ({"width": 16}, {}, 5, 5),
    "twice the width": ({"width": 64}, {}, 5, 5),
    "twice the depth": ({"depth": 4}, {}, 5, 5),
    "rate 0.001": ({}, {"lr": 1e-3}, 5, 5),
    "rate 0.003": ({}, {"lr": 3e-3}, 5, 5),
    "rate 0.03": ({}, {"lr": 3e-2}, 3, 2),
    "rate 0.1": ({}, {"lr": 1e-1}, 3, 4),
}


def trained(data, model: dict, how: dict, seed: int):
    make = partial(layers.RMSNorm, eps=1e-5)
    net = training.transformer(make, **{"depth": 2, "width": 32} | model, seed=seed)
    adam = {"optimizer": "adam", "lr": 1e-2, "warmup": 10, "batch_size": 32, "steps": 80}
    training.train(net, data, **adam | how, seed=seed)
    return net


def right(data, net) -> float:
    return training.accuracy(net, data.test_x, data.test_y)


def first_logits_cost_most(data, net) -> bool:
    """Whether 0.3 of queries and keys costs more in the first attention than in any later one."""
    counts = []
    for place in range(len(attentions(net))):
        copied = copy.deepcopy(net)
        queries_and_keys = attentions(copied)[place].qkv.weight.data.unflatten(0, (3, -1))[:2]
        queries_and_keys *= 0.3
        counts.append(right(data, copied))
    return counts[0] < min(counts[1:])


def attentions(net) -> list[nn.Module]:
    return [each for each in net.modules() if isinstance(each, training.Attention)]


def size_does_better(data, net) -> bool:
    """Whether κ = 0.5 reads more digits with the norm's size than with its slope."""

    def of_slope(norm, rows):
        return swaps.dyt(norm, 1 / swaps.size(rows), scale=0.5)

    def of_size(norm, rows):
        outputs = 0.5 * torch.tanh(rows / (0.5 * swaps.size(rows)))
        layer = of_slope(norm, rows)
        layer.weight = nn.Parameter(layer.weight.detach() / swaps.size(outputs))
        return layer

    pictures = data.train_x[: swaps.PICTURES]
    counts = [right(data, training.swapped(net, pictures, new)) for new in (of_slope, of_size)]
    return counts[0] < counts[1]


@pytest.mark.slow  # the lesson runs its own five networks
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_logits_and_the_size_of_outputs(data, kind):
    model, how, *expected = KINDS[kind]
    measured = (first_logits_cost_most, size_does_better)
    held = [0] * len(measured)
    for seed in range(5):
        net = trained(data, model, how, seed)
        for place, measure in enumerate(measured):
            held[place] += measure(data, net)
    assert held == expected


def normal_logarithms(normal, exponent=1.0):
    return (exponent * normal).exp()


def two_sizes(normal, above=0.0, large=10.0):
    """1, and the large size where the normal number lies above this."""
    return torch.where(normal > above, large, 1.0)


def power_of_uniform(normal):
    """Sizes from 1 on, of which a share of size^-1.5 is larger than a size."""
    uniform = torch.special.ndtr(-normal)
    return uniform ** (-1 / 1.5)


FANS = {  # the width, and what makes a row's size of a normal number
    "as above": (32, normal_logarithms),
    "half the width": (16, normal_logarithms),
    "twice the width": (64, normal_logarithms),
    "half the exponent": (32, partial(normal_logarithms, exponent=0.5)),
    "two sizes": (32, two_sizes),
    "one in ten is large": (32, partial(two_sizes, above=1.28)),
    "one in twenty is a hundred times as large": (32, partial(two_sizes, above=1.64, large=100.0)),
    "a power": (32, power_of_uniform),
}


@pytest.mark.parametrize("kind", FANS)
def test_in_a_fan_the_best_tanh_bends_nearer_to_0_than_the_derived_curve(kind):
    width, size_of = FANS[kind]
    curves = ("predict-04-answer", "x = kinds[")
    lesson = run_cells("05_dyt.ipynb", "setup", "drag-run", "derived-curve", curves)
    for seed in range(20):
        x = size_of(draw(100, 1, seed=2 * seed + 1)) * draw(100, width, seed=2 * seed)
        y = lesson["normed"](x)
        rho = swaps.size(x)
        best_error, _, best_alpha = lesson["best_tanh"](x, y)
        error, _ = lesson["with_gain"](lesson["derived"](x, rho, width), y)
        assert best_error < 0.95 * error
        assert best_alpha > 3 / (rho * width**0.5)
