"""What lesson 06 says and does not print: DyT with another slope, and other nets."""

from functools import partial

import pytest
import torch

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

NETS = [(16, 1e-2), (32, 1e-3), (32, 3e-3), (32, 1e-2), (32, 3e-2), (64, 1e-2)]  # width, rate


@pytest.fixture(scope="module")
def lesson() -> dict:
    """What the lesson puts in the place of norms."""
    parts = (
        "setup",
        "exact-others",
        "exact-check",
        ("use-train", "trained = "),
        "use-layer",
        ("use-run", "print("),
    )
    return run_cells("06_dyisru.ipynb", *parts)


def test_with_the_slope_of_its_own_row_dyt_hands_back_more_than_rms_norm():
    page = run_cells("06_dyisru.ipynb", "setup", "failure-run")
    for outlier in torch.tensor([30.0, 100.0]):
        rho = page["row_with"](outlier).square().mean().sqrt()
        of_dyt = page["slope_of_dyt"](outlier, 1 / rho, 8.0)
        assert of_dyt > 1.5 * page["column_of_rms_norm"](outlier).norm()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "rate"), NETS)
def test_with_one_constant_a_net_keeps_nine_of_ten_digits(lesson, width, rate):
    data = training.digits()
    for seed in range(5):
        rms_norm = partial(layers.RMSNorm, eps=1e-5)
        net = training.transformer(rms_norm, depth=2, width=width, seed=seed)
        adam = {"optimizer": "adam", "lr": rate, "warmup": 10, "batch_size": 32}
        training.train(net, data, steps=80, seed=seed, **adam)
        of_norm = lesson["right"](net)
        kept = {
            name: lesson["right_with"](net, new) / of_norm
            for name, new in lesson["in_their_place"].items()
        }
        assert kept["told each c"] == 1
        assert kept["one c"] >= 0.9
        assert kept["the line"] >= 0.8
