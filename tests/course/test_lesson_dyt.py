"""The table "How sure is this?" of lesson 05: other networks, and fans of rows."""

import copy
from functools import cache, partial

import pytest
import torch
from torch import nn

from normcourse import draw, training
from normcourse.training import swaps
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

SPIKE = 100.0

# the network, how it is trained, from how many starts; in how many of them the claims hold
KINDS = {
    "as in the lesson": ({}, {}, 40, [40, 40, 40, 40, 40, 29, 40]),
    "four times the steps": ({}, {"steps": 320}, 5, [4, 5, 5, 5, 5, 5, 5]),
    "half the width": ({"width": 16}, {}, 5, [5, 5, 5, 5, 5, 2, 4]),
    "twice the width": ({"width": 64}, {}, 5, [4, 5, 5, 5, 5, 4, 4]),
    "rate 0.001": ({}, {"lr": 1e-3}, 5, [5, 5, 5, 5, 5, 3, 3]),
    "rate 0.003": ({}, {"lr": 3e-3}, 5, [5, 4, 5, 5, 5, 5, 5]),
    "twice the depth": ({"depth": 4}, {}, 5, [0, 5, 4, 5, 5, 2, 5]),
    "rate 0.03": ({}, {"lr": 3e-2}, 5, [0, 3, 5, 5, 5, 4, 1]),
    "a quarter of the width": ({"width": 8}, {}, 5, [5, 3, 5, 5, 5, 0, 1]),
}
# digits that a line loses at most against the derived curve
LINE_LOSES = 10


RMS_NORM = partial(layers.RMSNorm, eps=1e-5)


def trained(data, model: dict, how: dict, seed: int, norm=RMS_NORM):
    net = training.transformer(norm, **{"depth": 2, "width": 32} | model, seed=seed)
    adam = {"optimizer": "adam", "lr": 1e-2, "warmup": 10, "batch_size": 32, "steps": 80}
    training.train(net, data, **adam | how, seed=seed)
    return net


def right(data, net) -> int:
    return round(len(data.test_y) * training.accuracy(net, data.test_x, data.test_y))


def swapped(data, net, new, only=None):
    return training.swapped(net, data.train_x[:100], new, only=only)


def dyt(norm, alpha, gain):
    layer = layers.DyT(norm.normalized_shape, alpha_init=alpha, bias=False)
    layer.weight = nn.Parameter(gain.detach())
    return layer


def straight(slopes):
    linear = nn.Linear(len(slopes), len(slopes), bias=False)
    linear.weight = nn.Parameter(slopes.detach().diag())
    return linear


def nothing(norm, rows):
    return nn.Identity()


def as_it_starts(norm, rows):
    return dyt(norm, 0.5, norm.weight)


def derived(norm, rows):
    root = len(norm.weight) ** 0.5
    return dyt(norm, 1 / (swaps.size(rows) * root), norm.weight * root)


def line(norm, rows):
    return straight(norm.weight / swaps.size(rows))


def line_of_the_start(norm, rows):
    return straight(0.5 * norm.weight)


def silent(norm, rows):
    return straight(0 * norm.weight)


def start_but_for_the_first(data, net):
    first = next(iter(training.rows_read(net, data.train_x[:1])))
    name = next(name for name, layer in net.named_modules() if layer is first)
    exchanged = swapped(data, net, as_it_starts)
    exchanged.set_submodule(name, copy.deepcopy(first))
    return exchanged


def flattened(net, begin, end):
    """The net, with a part of the first attention's weights times 0.3."""
    copied = copy.deepcopy(net)
    qkv = copied[3].branch.qkv
    width = qkv.in_features
    with torch.no_grad():
        qkv.weight[begin * width : end * width] *= 0.3
    return copied


@torch.no_grad()
def right_with_spike(data, net) -> int:
    x = net[:3](data.test_x)
    picture = torch.arange(len(x))
    x[picture, 0, picture % x.shape[-1]] = SPIKE
    return (net[3:](x).argmax(1) == data.test_y).sum().item()


def claims(data, net) -> tuple[list[bool], int]:
    """Which claims hold for a network, and how many digits the line loses."""
    of_line, of_derived = swapped(data, net, line), swapped(data, net, derived)
    count = partial(right, data)
    spiked = partial(right_with_spike, data)
    branches = sum(hasattr(layer, "branch") for layer in net)
    first, *others = (count(swapped(data, net, silent, only=i)) for i in range(branches))
    start = count(swapped(data, net, as_it_starts))
    holds = [
        start < count(swapped(data, net, nothing)),
        count(swapped(data, net, as_it_starts, only=0)) < count(start_but_for_the_first(data, net)),
        first < min(others),
        count(swapped(data, net, line_of_the_start)) < count(of_line),
        3 * spiked(of_line) < spiked(of_derived),
        spiked(net) < spiked(of_derived),
        count(flattened(net, 0, 2)) < count(flattened(net, 2, 3)),
    ]
    return holds, count(of_derived) - count(of_line)


@pytest.mark.slow  # the lesson runs its own five networks
@pytest.mark.parametrize("kind", KINDS)
def test_in_how_many_networks_the_claims_hold(data, kind):
    model, how, starts, expected = KINDS[kind]
    held = [0] * len(expected)
    for seed in range(starts):
        holds, line_loses = claims(data, trained(data, model, how, seed))
        held = [count + one for count, one in zip(held, holds, strict=True)]
        assert line_loses <= LINE_LOSES
    assert held == expected


class CutOff(nn.Module):
    """The norm's line, cut off at this height."""

    def __init__(self, weight, size, height):
        super().__init__()
        self.weight, self.size, self.height = weight, size, height

    def forward(self, x):
        return self.weight * (x / self.size).clamp(-self.height, self.height)


@pytest.mark.slow
def test_a_bound_has_to_be_low(data):
    for seed in range(5):
        net = trained(data, {}, {}, seed)
        root = 32**0.5

        def of_height(height, net=net):
            def cut_off(norm, rows):
                return CutOff(norm.weight, swaps.size(rows), height)

            return right_with_spike(data, swapped(data, net, cut_off))

        assert of_height(root) > 290
        assert of_height(4 * root) < 200


@pytest.mark.slow
def test_trained_from_the_start_these_nets_need_no_norm(data):
    def digits(norm):
        return sum(right(data, trained(data, {}, {}, seed, norm)) for seed in range(5)) / 5

    with_norm = digits(RMS_NORM)
    assert abs(digits(layers.DyT) - with_norm) < 30
    assert abs(digits(None) - with_norm) < 30


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
    cells = ("setup", "drag-run", "derived-curve", ("predict-04-answer", "def fits"))
    return run_cells("05_dyt.ipynb", *cells)


def nearest(x, y, size):
    """Error of the best tanh, and where it bends, in units of size."""
    error_of = curves()["with_best_gain"]
    bends = torch.logspace(-2, 1.5, 71).tolist()
    return min((error_of(torch.tanh(x / (bend * size)), y)[0], bend) for bend in bends)


def errors(x, y, size, width):
    """The best tanh: error, and its bend over the derived one; the errors of derived and line."""
    lesson = curves()
    best, bend = nearest(x, y, size)
    of_derived, _ = lesson["with_best_gain"](lesson["derived"](x, size, width), y)
    of_line, _ = lesson["with_best_gain"](x, y)
    return best, bend / width**0.5, of_derived, of_line


@pytest.mark.parametrize("kind", FANS)
def test_in_a_fan_the_best_tanh_bends_nearer_to_0_than_the_derived_curve(kind):
    width, size_of = FANS[kind]
    for seed in range(20):
        x = size_of(draw(100, 1, seed=2 * seed + 1)) * draw(100, width, seed=2 * seed)
        best, bend, of_derived, _ = errors(x, curves()["normed"](x), swaps.size(x), width)
        assert best < 0.95 * of_derived
        assert bend < 1 / 3


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("reach", [5, 10, 20, 40])
def test_with_one_number_dragged_the_derived_curve_is_nearly_the_best_tanh(width, reach):
    for seed in range(20):
        x = draw(400, width, seed=seed)
        x[:, 0] = torch.linspace(-reach, reach, 400)
        moved, y = x[:, 0], curves()["normed"](x)[:, 0]
        best, bend, of_derived, of_line = errors(moved, y, swaps.size(x[:, 1:]), width)
        assert of_derived < 1.12 * best
        assert 0.75 < bend < 1.15
        assert of_derived < of_line


def test_with_one_number_dragged_another_s_of_that_slope_and_height_is_as_near():
    numbers = draw(2000, 32, seed=2)
    numbers[:, 0] = torch.linspace(-10, 10, 2000)
    y = curves()["normed"](numbers)[:, 0]
    x = numbers[:, 0] / swaps.size(numbers[:, 1:])
    root = 32**0.5
    error_of = curves()["with_best_gain"]
    tanh, _ = error_of(torch.tanh(x / root), y)
    arctangent, _ = error_of(torch.atan(x / root * torch.pi / 2), y)
    softsign, _ = error_of(x / (1 + x.abs() / root), y)
    line, _ = error_of(x, y)
    assert max(arctangent, softsign) < 1.05 * tanh < 0.5 * line
