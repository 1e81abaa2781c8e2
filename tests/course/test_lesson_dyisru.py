"""What lesson 06 says and does not print: what stands behind its reasons, and other nets."""

from functools import partial

import pytest
import torch

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {  # width, rate; digits that four times the constant costs five nets, and doubled outputs
    "as in the lesson": (32, 1e-2, 400, 700, 100),
    "twice the width": (64, 1e-2, 100, 300, 100),
    "three times the rate": (32, 3e-2, 50, 200, 150),
}


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson puts in the place of norms."""
    parts = (
        "setup",
        ("use-train", "trained = "),
        "exact-check",
        "use-layer",
        ("use-run", "copies = "),
    )
    return run_cells("06_dyisru.ipynb", *parts)


def test_with_the_slope_of_its_own_row_dyt_hands_back_more_than_rms_norm():
    page = run_cells("06_dyisru.ipynb", "setup", "failure-run")
    for outlier in torch.tensor([30.0, 100.0]):
        rho = page["row_with"](outlier).square().mean().sqrt()
        of_dyt = page["slope_of_dyt"](outlier, 1 / rho, 8.0)
        assert of_dyt > 1.5 * page["column_of_rms_norm"](outlier).norm()


def test_the_slope_is_a_larger_part_where_the_gradients_have_a_part_in_common():
    page = run_cells("06_dyisru.ipynb", "setup", "failure-run")
    column = page["column_of_rms_norm"](torch.tensor(100.0))
    correlations = []
    for common in (0.0, 0.5):
        covariance = (1 - common) * torch.eye(64) + common
        with_the_first = covariance[0] @ column
        correlations.append(with_the_first / (column @ covariance @ column).sqrt())
    independent, sharing = correlations
    torch.testing.assert_close(independent, column[0] / column.norm())
    assert sharing > 6 * independent


def test_a_zigzag_has_the_output_and_the_whole_size():
    """Its slope is plus or minus the whole, and turns where it leaves RMSNorm's curve."""
    x = torch.linspace(0, 210, 420_001)
    whole = (64 / (x.square() + 64) * (x[1] - x[0])).tolist()
    wanted = 8 * x / torch.sqrt(x.square() + 64)
    heights = [0.0]
    sign = 1
    for step, goal in zip(whole, wanted.tolist(), strict=True):
        if sign * (heights[-1] - goal) > 0.01:
            sign = -sign
        heights.append(heights[-1] + sign * step)
    off = torch.tensor(heights[:-1]) - wanted
    assert off.abs().max() < 0.02
    rising = 8 * torch.arctan(x / 8) - wanted
    assert rising[-1] > 4


@pytest.mark.parametrize("seed", range(3))
def test_tanh_is_nearer_at_the_outlier_and_level_elsewhere(seed):
    page = run_cells("06_dyisru.ipynb", "setup", "exact-check", "fan-fit", "nearer-rows")
    old = page["outlier_anywhere"](500, 16, seed)
    new = page["outlier_anywhere"](500, 16, seed + 90)
    wanted = page["rms"](new)
    largest = new.abs() == new.abs().amax(-1, keepdim=True)
    squares = {}
    for curve in (page["isru"], torch.tanh):
        knee, scale = page["fitted"](curve, old, page["rms"](old))
        off = (scale * curve(new / knee) - wanted).square()
        squares[curve] = torch.stack([off[largest].sum(), off[~largest].sum()])
        at_largest = old.abs().amax(-1)
        height = page["rms"](old).abs().amax(-1)
        assert knee > 1.2 * page["fitted"](curve, at_largest, height)[0]
    there, elsewhere = squares[page["isru"]] / squares[torch.tanh]
    assert there > 1.02
    assert 0.99 < elsewhere < 1.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_wrong_constant_costs_five_nets(lesson, kind):
    width, rate, least, most, doubled = KINDS[kind]
    data = training.digits()
    wrong = {
        times: partial(lesson["one_constant"], factor=4.0, times=times) for times in (1.0, 2.0)
    }
    wrong["half the line"] = partial(lesson["line"], times=0.5)
    lost = dict.fromkeys(wrong, 0)
    for seed in range(5):
        rms_norm = partial(layers.RMSNorm, eps=1e-5)
        net = training.transformer(rms_norm, depth=2, width=width, seed=seed)
        adam = {"optimizer": "adam", "lr": rate, "warmup": 10, "batch_size": 32}
        training.train(net, data, steps=80, seed=seed, **adam)
        of_norm = round(400 * training.accuracy(net, data.test_x, data.test_y))
        copied = lesson["with_places"](net)
        for name, function in wrong.items():
            lost[name] += of_norm - lesson["right_with"](copied, function)
    assert least < lost[1.0] < most
    assert least < lost["half the line"] < most
    assert lost[2.0] < doubled  # with the right size again
