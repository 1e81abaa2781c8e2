"""The table "How sure is this?" of lesson 03a: the bare exchange, and rotations, elsewhere."""

import pytest
import torch

from tests.course.lesson_tables import run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


@pytest.mark.slow  # the lesson trains five nets of its own width, for 60 steps
@pytest.mark.parametrize(
    "width, steps, costly", [(16, 60, 4), (64, 60, 0), (32, 200, 2), (32, 600, 2)]
)
def test_the_bare_exchange_costs_most_where_the_net_is_narrow(width, steps, costly):
    cells = ("setup", "exchange-swap", ("exchange-run", "trained = ["))
    lesson = run_cells("03a_rms_norm_in_models.ipynb", *cells)
    right = lesson["right"]
    nets = [lesson["trained_with"](seed, width, steps) for seed in range(5)]
    lost = [right(net) - right(lesson["swapped"](net)) for net in nets]
    assert sum(digits >= 10 for digits in lost) == costly


@pytest.mark.slow  # the lesson draws the widths 64 and 256
@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_hadamards_matrix_bears_a_larger_outlier_than_a_random_rotation(width):
    cells = ("setup", "predict-03", "predict-03-answer", "turn-run")
    lesson = run_cells("03a_rms_norm_in_models.ipynb", *cells)
    gains = {}
    for roots in (4, 8, 16, 24):
        outlier = roots * width**0.5
        errors = torch.stack([lesson["lost"](width, seed, outlier) for seed in range(600, 620)])
        gains[roots] = errors[:, :1] / errors[:, 1:]  # of the two rotations
    assert (gains[4] > 1.4).all()
    assert (gains[8][:, 0] < 1.6).all() and (gains[8][:, 1] > 2).all()
    assert (gains[16][:, 0] < 1).all()
    assert all((found[:, 1] > found[:, 0]).all() for found in gains.values())
