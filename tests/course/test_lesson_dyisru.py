"""What lesson 06 says of nets that it does not train: what a wrong constant costs them."""

from functools import partial

import pytest

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import run_cells

pytestmark = [pytest.mark.usefixtures("float64_as_in_the_lessons"), pytest.mark.slow]

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
