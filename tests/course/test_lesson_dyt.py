"""The table "How sure is this?" of lesson 05: a slope that is too flat, in one norm alone."""

from functools import partial

import pytest

from normcourse import training
from normcourse.training import swaps
from normlib import layers

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {  # the network, how it is trained, and in how many of five norm 0 costs most
    "four times the steps": ({}, {"steps": 320}, 5),
    "half the width": ({"width": 16}, {}, 5),
    "twice the width": ({"width": 64}, {}, 5),
    "twice the depth": ({"depth": 4}, {}, 4),
    "rate 0.001": ({}, {"lr": 1e-3}, 5),
    "rate 0.003": ({}, {"lr": 3e-3}, 5),
    "rate 0.03": ({}, {"lr": 3e-2}, 5),
    "rate 0.1": ({}, {"lr": 1e-1}, 4),
}


def losses(data, model: dict, how: dict, seed: int) -> list[float]:
    """What each norm costs of the accuracy when it has 0.3 of its slope, alone."""
    make = partial(layers.RMSNorm, eps=1e-5)
    net = training.transformer(make, **{"depth": 2, "width": 32} | model, seed=seed)
    adam = {"optimizer": "adam", "lr": 1e-2, "warmup": 10, "batch_size": 32, "steps": 80}
    training.train(net, data, **adam | how, seed=seed)
    right = training.accuracy(net, data.test_x, data.test_y)
    found = []
    for only in range(len(training.rows_read(net, data.train_x[:1]))):
        flat = swaps.of_scale("sqrt_d", 0.3)
        swapped = training.swapped(net, data.train_x[:100], flat, only)
        found.append(right - training.accuracy(swapped, data.test_x, data.test_y))
    return found


@pytest.mark.slow  # the lesson runs its own five networks
@pytest.mark.parametrize("kind", KINDS)
def test_no_norm_costs_as_much_as_the_first_when_it_is_too_flat(data, kind):
    model, how, most = KINDS[kind]
    costs = [losses(data, model, how, seed) for seed in range(5)]
    assert sum(cost[0] > max(cost[1:]) for cost in costs) >= most
