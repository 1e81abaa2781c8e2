"""What lesson 06 says and does not print: one constant in other nets."""

from functools import partial

import pytest

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
        ("use-run", "of_norm ="),
    )
    return run_cells("06_dyisru.ipynb", *parts)


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
        assert kept["the line"] >= 0.85
