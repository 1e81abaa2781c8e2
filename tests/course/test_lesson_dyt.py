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
# start, queries and keys need norm 0's slope more than the values, and the norm's size does better
# than its slope
KINDS = {
    "as in the lesson": ({}, {}, 5, 5, 5),
    "four times the steps": ({}, {"steps": 320}, 5, 5, 5),
    "half the width": ({"width": 16}, {}, 5, 3, 5),
    "twice the width": ({"width": 64}, {}, 5, 5, 5),
    "twice the depth": ({"depth": 4}, {}, 4, 5, 5),
    "rate 0.001": ({}, {"lr": 1e-3}, 5, 3, 5),
    "rate 0.003": ({}, {"lr": 3e-3}, 5, 5, 5),
    "rate 0.03": ({}, {"lr": 3e-2}, 2, 1, 2),
    "rate 0.1": ({}, {"lr": 1e-1}, 0, 0, 4),
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


def logits_need_the_slope(data, net) -> bool:
    """Norm 0 has 0.3 of its slope: queries and keys made up for it help more than the values."""

    def too_flat(norm, rows):
        linear = swaps.line(norm, rows)
        linear.weight = nn.Parameter(0.3 * linear.weight.detach())
        return linear

    def made_up_for(rows: slice) -> float:
        copied = training.swapped(net, pictures(data), too_flat, only=0)
        first = next(each for each in copied.modules() if isinstance(each, training.Attention))
        first.qkv.weight.data.unflatten(0, (3, -1))[rows] /= 0.3
        return right(data, copied)

    return made_up_for(slice(0, 2)) > made_up_for(slice(2, 3))


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
def test_the_slope_the_first_logits_and_the_size_of_outputs(data, kind):
    model, how, *expected = KINDS[kind]
    measured = (slope_does_better, logits_need_the_slope, size_does_better)
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


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("reach", [5, 10, 20])
def test_with_one_number_dragged_the_derived_curve_is_nearly_the_best_tanh(width, reach):
    lesson = curves()
    for seed in range(20):
        x = draw(400, width, seed=seed)
        x[:, 0] = torch.linspace(-reach, reach, 400)
        best_error, _, error, _ = best_and_derived(lesson, x)
        assert error < 1.12 * best_error
