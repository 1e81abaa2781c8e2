"""The table "How sure is this?" of lesson 00a: nets of sigmoids, five starts, each kind alone."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from normcourse import measures, training
from normcourse.checks import saturation
from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

LESSON = "00a_saturation.ipynb"
KINDS = {
    OWN: {},
    "half the width": {"width": 32},
    "twice the width": {"width": 128},
    "four times the steps": {"steps": 400},
    "other starts": {"first": 5},
    "rate 0.03": {"lr": 0.03},
    "rate 0.3": {"lr": 0.3},
}
ANY_RATE = KINDS | {
    "rate 0.01": {"lr": 0.01},
    "rate 1": {"lr": 1.0},
    "rate 10": {"lr": 10.0},
    "20 more starts": {"first": 5, "count": 20},
}
DEEPER = KINDS | {"twice the depth": {"depth": 16}}
MENDS = {"steeper by A": (4, 1, 0), "steeper by B": (1, 4, 0), "only centred": (1, 1, -0.5)}


class Moved(nn.Module):
    """A sigmoid(B x) + C."""

    def __init__(self, A: float, B: float, C: float) -> None:
        super().__init__()
        self.numbers = (A, B, C)

    def forward(self, x: Tensor) -> Tensor:
        A, B, C = self.numbers
        return A * torch.sigmoid(B * x) + C


both = partial(Moved, 2, 2, -1)


def chain(activation, depth: int, width: int, seed: int) -> nn.Sequential:
    """depth times (Linear, activation), and the head; variance 1 over the number of inputs."""
    generator = torch.Generator().manual_seed(seed)
    parts: list[nn.Module] = []
    inputs = 64
    for outputs in [width] * depth + [10]:
        linear = nn.Linear(inputs, outputs)
        nn.init.normal_(linear.weight, std=inputs**-0.5, generator=generator)
        nn.init.zeros_(linear.bias)
        parts += [linear, activation()]
        inputs = outputs
    return nn.Sequential(*parts[:-1])


def accuracies(data, activation, depth=8, width=64, first=0, count=5, **how) -> Tensor:
    reached = []
    for seed in range(first, first + count):
        net = chain(activation, depth, width, seed)
        run = training.train(net, data, **{"steps": 100, "lr": 0.1, "seed": seed} | how)
        reached.append(0.0 if run.diverged else run.validation_accuracy[-1])
    return torch.tensor(reached)


@pytest.mark.parametrize("kind", each(ANY_RATE))
def test_eight_layers_of_sigmoids_learn_nothing(data, kind):
    assert accuracies(data, nn.Sigmoid, **ANY_RATE[kind]).max() < 0.2


@pytest.mark.parametrize("kind", each(DEEPER))
def test_the_repaired_curve_learns(data, kind):
    assert accuracies(data, both, **DEEPER[kind]).min() > 0.7


@pytest.mark.slow
def test_a_factor_near_1_is_no_guarantee(data):
    numbers = (0.01, 400, -0.005)
    assert saturation.repaired(numbers).startswith("[ok]")
    assert accuracies(data, partial(Moved, *numbers)).max() < 0.2


def test_the_factor_is_predicted_from_the_size_behind_the_first_weights():
    lesson = run_cells(LESSON, "setup", "mean-field", "decay-lengths")
    tanh = measures.ACTIVATIONS["tanh"]
    predicted = lesson["factors_by_layer"](*tanh, 4, 10).log().mean().exp()
    lengths = [lesson["gradient_lengths"](tanh.function, 4, seed, depth=10) for seed in range(5)]
    measured = torch.tensor([measures.decay_rate(one) for one in lengths]).log().mean().exp()
    assert abs(measured / predicted - 1) < 0.02  # from the size 1 it is 5 % off


@pytest.mark.slow
def test_a_learned_swish_is_behind_one_fixed_at_2_in_20_more_starts():
    run = run_cells(LESSON, "setup", "failure-net", "swish-net")["swish_run"]
    seeds = range(5, 25)
    behind = [run(1.0, True, seed)[0] - run(2.0, False, seed)[0] for seed in seeds]
    difference = torch.tensor(behind)
    half = 2.093 * difference.std() / 20**0.5  # 95 % t-interval of twenty differences
    assert difference.mean() + half < 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", each(KINDS))
def test_one_mend_alone_is_worse_than_both(data, kind):
    worst = accuracies(data, both, **KINDS[kind]).min()
    for numbers in MENDS.values():
        assert accuracies(data, partial(Moved, *numbers), **KINDS[kind]).max() < worst
