"""The table "How sure is this?" of lesson 05: one norm that is too flat, and fans of rows."""

from functools import partial

import pytest

from normcourse import draw, training
from normcourse.training import swaps
from normlib import layers
from tests.course.lesson_tables import run_cells

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
