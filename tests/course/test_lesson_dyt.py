"""The table "How sure is this?" of lesson 05: other networks, and fans of rows."""

from functools import cache, partial

import pytest
import torch
from torch import nn

from normcourse import draw, training
from normcourse.training import swaps
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

# the network, how it is trained; in how many of five DyT with the norm's slope does better than the
# start, the norm's size does better than its slope, and the start does worse than no norm
KINDS = {
    "four times the steps": ({}, {"steps": 320}, 5, 5, 4),
    "half the width": ({"width": 16}, {}, 5, 5, 5),
    "twice the width": ({"width": 64}, {}, 5, 5, 4),
    "twice the depth": ({"depth": 4}, {}, 4, 5, 0),
    "rate 0.001": ({}, {"lr": 1e-3}, 5, 5, 5),
    "rate 0.003": ({}, {"lr": 3e-3}, 5, 5, 5),
    "rate 0.1": ({}, {"lr": 1e-1}, 0, 4, 0),
    "batches of 4": ({}, {"batch_size": 4, "steps": 400}, 2, 5, 0),
}

# the network, how it is trained, from how many starts; in how many of them hold: A to D, F and G of
# the table, and that norm 0 needs its slope most
MORE_STARTS = {
    "as in the lesson": ({}, {}, 40, [40, 40, 40, 40, 40, 40, 40]),
    "rate 0.001": ({}, {"lr": 1e-3}, 10, [9, 10, 9, 10, 10, 10, 10]),
    "rate 0.02": ({}, {"lr": 2e-2}, 10, [10, 10, 10, 0, 8, 10, 10]),
    "rate 0.03": ({}, {"lr": 3e-2}, 10, [10, 7, 6, 0, 5, 6, 10]),
    "a quarter of the width": ({"width": 8}, {}, 10, [7, 10, 8, 10, 10, 10, 9]),
    "width 24, rate 0.006": ({"width": 24}, {"lr": 6e-3}, 10, [10, 10, 9, 10, 10, 10, 9]),
}
# digits that a line loses at most against the derived curve
LINE_LOSES = {"as in the lesson": 5, "a quarter of the width": 16}


def trained(data, model: dict, how: dict, seed: int):
    make = partial(layers.RMSNorm, eps=1e-5)
    net = training.transformer(make, **{"depth": 2, "width": 32} | model, seed=seed)
    adam = {"optimizer": "adam", "lr": 1e-2, "warmup": 10, "batch_size": 32, "steps": 80}
    training.train(net, data, **adam | how, seed=seed)
    return net


def right(data, net) -> float:
    return training.accuracy(net, data.test_x, data.test_y)


def pictures(data):
    return data.train_x[: swaps.PICTURES]


def slope_does_better(data, net) -> bool:
    """Whether DyT with the norm's slope, and α = 0.5, reads more digits than the start."""

    def of_slope(norm, rows):
        layer = swaps.dyt(norm, 0.5)
        layer.weight = nn.Parameter(layer.weight.detach() / (0.5 * swaps.size(rows)))
        return layer

    start, sloped = (
        training.swapped(net, pictures(data), new) for new in ("as it starts", of_slope)
    )
    return right(data, start) < right(data, sloped)


def start_does_worse_than_nothing(data, net) -> bool:
    """Whether the start reads fewer digits than no norm."""
    start, nothing = (
        training.swapped(net, pictures(data), new) for new in ("as it starts", "no norm")
    )
    return right(data, start) < right(data, nothing)


def size_does_better(data, net) -> bool:
    """Whether κ = 0.5 reads more digits with the norm's size than with its slope."""

    def of_slope(norm, rows):
        return swaps.dyt(norm, 1 / swaps.size(rows), scale=0.5)

    def of_size(norm, rows):
        outputs = 0.5 * torch.tanh(rows / (0.5 * swaps.size(rows)))
        layer = of_slope(norm, rows)
        layer.weight = nn.Parameter(layer.weight.detach() / swaps.size(outputs))
        return layer

    sloped, sized = (training.swapped(net, pictures(data), new) for new in (of_slope, of_size))
    return right(data, sloped) < right(data, sized)


@pytest.mark.slow  # the lesson runs its own five networks
@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_the_size_of_outputs_and_the_start(data, kind):
    model, how, *expected = KINDS[kind]
    measured = (
        slope_does_better,
        size_does_better,
        start_does_worse_than_nothing,
    )
    held = [0] * len(measured)
    for seed in range(5):
        net = trained(data, model, how, seed)
        for place, measure in enumerate(measured):
            held[place] += measure(data, net)
    assert held == expected


def share_after(data, net, new, only=None) -> float:
    return right(data, training.swapped(net, pictures(data), new, only=only))


def too_flat(norm, rows):
    layer = swaps.line(norm, rows)
    layer.weight = nn.Parameter(0.3 * layer.weight.detach())
    return layer


def first_needs_its_slope_most(data, net) -> bool:
    """Whether 0.3 of the slope, straight, costs more in norm 0 than in any other norm alone."""
    first, *others = (share_after(data, net, too_flat, only=i) for i in range(5))
    return first < min(others)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MORE_STARTS)
def test_what_holds_from_more_starts(data, kind):
    model, how, starts, expected = MORE_STARTS[kind]
    held = [0] * len(expected)
    line_loses = []
    for seed in range(starts):
        net = trained(data, model, how, seed)
        share = {name: share_after(data, net, name) for name in training.SWAPS}
        claims = (
            share["derived"] > share["no norm"],
            share["derived"] > share["as it starts"],
            share["start in the others"] > share["start in the first"],
            share["no norm"] > share["as it starts"],
            slope_does_better(data, net),
            size_does_better(data, net),
            first_needs_its_slope_most(data, net),
        )
        for place, holds in enumerate(claims):
            held[place] += holds
        line_loses.append(round(400 * (share["derived"] - share["line"])))
    assert held == expected
    if kind in LINE_LOSES:
        assert max(line_loses) == LINE_LOSES[kind]


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


@cache
def curves() -> dict:
    """The lesson's curves and errors."""
    cells = ("setup", "drag-run", "derived-curve", "ex4-stub", "ex4-check")
    return run_cells("05_dyt.ipynb", *cells, ("predict-04-answer", "def candidates"))


def best_and_derived(lesson, x):
    """The best tanh's error and alpha; the derived curve's error and its alpha."""
    rho = swaps.size(x)
    width = x.shape[1]
    y = lesson["normed"](x)
    best_error, _, best_alpha = lesson["best_tanh"](x, y)
    error, _ = lesson["with_gain"](lesson["derived"](x, rho, width), y)
    return best_error, best_alpha, error, 1 / (rho * width**0.5)


@pytest.mark.parametrize("kind", FANS)
def test_in_a_fan_the_best_tanh_bends_nearer_to_0_than_the_derived_curve(kind):
    width, size_of = FANS[kind]
    lesson = curves()
    for seed in range(20):
        x = size_of(draw(100, 1, seed=2 * seed + 1)) * draw(100, width, seed=2 * seed)
        best_error, best_alpha, error, alpha = best_and_derived(lesson, x)
        assert best_error < 0.95 * error
        assert best_alpha > 3 * alpha


def test_in_a_fan_with_one_large_number_the_derived_curve_is_nearly_the_best_tanh():
    lesson = curves()
    for seed in range(10):
        normal = draw(1000, 256, seed=2 * seed)
        normal[:, 0] *= 32
        x = normal_logarithms(draw(1000, 1, seed=2 * seed + 1)) * normal
        best_error, _, error, _ = best_and_derived(lesson, x)
        assert error < 1.05 * best_error


def dragged_errors(width, reach, seed):
    """The best tanh: error, alpha over the derived one; the errors of derived curve and line."""
    lesson = curves()
    x = draw(400, width, seed=seed)
    x[:, 0] = torch.linspace(-reach, reach, 400)
    moved, y = x[:, 0], lesson["normed"](x)[:, 0]
    rho = swaps.size(x[:, 1:])
    best_error, _, best_alpha = lesson["best_tanh"](moved, y)
    error, _ = lesson["with_gain"](lesson["derived"](moved, rho, width), y)
    of_line, _ = lesson["with_gain"](moved, y)
    return best_error, best_alpha * rho * width**0.5, error, of_line


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("reach", [5, 10, 20, 40])
def test_with_one_number_dragged_the_derived_curve_is_nearly_the_best_tanh(width, reach):
    for seed in range(20):
        best_error, times, error, of_line = dragged_errors(width, reach, seed)
        assert error < 1.12 * best_error
        assert 0.88 < times < 1.3
        assert error < of_line


def test_dragged_to_80_the_derived_curve_is_farther_off():
    errors = [dragged_errors(32, 80, seed) for seed in range(20)]
    most = max(error / best_error for best_error, _, error, _ in errors)
    assert 1.2 < most < 1.25


def test_in_rows_of_one_size_the_best_tanh_bends_a_little_nearer_to_0():
    for seed in range(10):
        _, best_alpha, _, alpha = best_and_derived(curves(), draw(400, 32, seed=seed))
        assert 1.1 < best_alpha / alpha < 1.5
