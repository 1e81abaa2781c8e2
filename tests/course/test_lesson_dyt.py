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
# start, the norm's size does better than its slope, the start does worse than no norm, and each
# norm but the first reads rows of a size above 6
KINDS = {
    "as in the lesson": ({}, {}, 5, 5, 5, 0),
    "four times the steps": ({}, {"steps": 320}, 5, 5, 4, 0),
    "half the width": ({"width": 16}, {}, 5, 5, 5, 0),
    "twice the width": ({"width": 64}, {}, 5, 5, 4, 0),
    "twice the depth": ({"depth": 4}, {}, 4, 5, 0, 0),
    "rate 0.001": ({}, {"lr": 1e-3}, 5, 5, 5, 0),
    "rate 0.003": ({}, {"lr": 3e-3}, 5, 5, 5, 0),
    "rate 0.03": ({}, {"lr": 3e-2}, 2, 2, 0, 5),
    "rate 0.1": ({}, {"lr": 1e-1}, 0, 4, 0, 5),
    "batches of 4": ({}, {"batch_size": 4, "steps": 400}, 2, 5, 0, 5),
}


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


def later_rows_are_large(data, net) -> bool:
    """Whether each norm but the first reads rows of more than six times the size 1."""
    _, *later = training.rows_read(net, pictures(data)).values()
    return min(map(swaps.size, later)) > 6


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
        later_rows_are_large,
    )
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


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("reach", [5, 10, 20])
def test_with_one_number_dragged_the_derived_curve_is_nearly_the_best_tanh(width, reach):
    lesson = curves()
    for seed in range(20):
        x = draw(400, width, seed=seed)
        x[:, 0] = torch.linspace(-reach, reach, 400)
        best_error, _, error, _ = best_and_derived(lesson, x)
        assert error < 1.12 * best_error


def test_dragged_to_40_the_derived_curve_is_farther_off():
    lesson = curves()
    for seed in range(20):
        x = draw(400, 32, seed=seed)
        x[:, 0] = torch.linspace(-40, 40, 400)
        best_error, _, error, _ = best_and_derived(lesson, x)
        assert error > 1.15 * best_error
