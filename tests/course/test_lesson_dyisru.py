"""What lesson 06 says and does not print: what stands behind its reasons, and other nets."""

from functools import partial

import pytest
import torch

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

KINDS = {  # width, rate, and the least and the most that four times the constant costs
    "as in the lesson": (32, 1e-2, 300, 500),
    "twice the width": (64, 1e-2, 50, 150),
    "three times the rate": (32, 3e-2, 50, 150),
}


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson puts in the place of norms."""
    parts = ("setup", "exact-check", "use-layer", ("use-run", "functions = "))
    return run_cells("06_dyisru.ipynb", *parts)


def test_with_the_slope_of_its_own_row_dyt_hands_back_more_than_rms_norm():
    page = run_cells("06_dyisru.ipynb", "setup", "failure-run")
    for outlier in torch.tensor([30.0, 100.0]):
        rho = page["row_with"](outlier).square().mean().sqrt()
        of_dyt = page["slope_of_dyt"](outlier, 1 / rho, 8.0)
        assert of_dyt > 1.5 * page["column_of_rms_norm"](outlier).norm()


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
    width, rate, least, most = KINDS[kind]
    data = training.digits()
    wrong = partial(lesson["one_constant"], factor=4.0)
    lost = 0
    for seed in range(5):
        net = training.transformer(layers.RMSNorm, depth=2, width=width, seed=seed)
        adam = {"optimizer": "adam", "lr": rate, "warmup": 10, "batch_size": 32}
        training.train(net, data, steps=80, seed=seed, **adam)
        for sign, one in ((1, net), (-1, lesson["with_function"](net, wrong))):
            lost += sign * round(400 * training.accuracy(one, data.test_x, data.test_y))
    assert least < lost < most
