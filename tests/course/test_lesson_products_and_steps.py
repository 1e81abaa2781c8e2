"""The claims of lesson 00b that it does not print: networks that explode, and what helps."""

import math

import pytest
import torch
from torch import nn

from normcourse import draw, training
from tests.course.lesson_tables import each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

LESSON = "00b_products_and_steps.ipynb"
SEEDS = range(5)


@pytest.fixture(scope="module")
def lesson():
    defined = ("setup", "failure-net", "failure-loop", "growth", "width-walks")
    return run_cells(LESSON, *defined)


def trained(lesson, blocks=128, seed=0, network=None, **training_):
    """Accuracy of a network of the lesson after its 40 steps."""
    net = lesson["residual_net"](blocks, seed=seed, **(network or {}))
    lesson["train"](net, **training_)
    return lesson["accuracy"](net)


@pytest.mark.parametrize("seed", each(SEEDS, quick=1))
def test_128_blocks_explode_and_a_lower_rate_is_worse(lesson, seed):
    losses = []
    for lr in (1e-3, 1e-4):
        net = lesson["residual_net"](128, seed=seed)
        assert lesson["growth"](net) > 1e11
        losses.append(lesson["train"](net, lr=lr))
        assert lesson["accuracy"](net) <= 0.2
    assert 1e3 < losses[0] < losses[1] / 10
    assert trained(lesson, 16, seed) > 0.7
    assert trained(lesson, seed=seed, network={"linear_end": True}) > 0.5


@pytest.mark.parametrize("seed", each(SEEDS, quick=1))
def test_constants_beat_a_single_block_and_clipping_does_not(lesson, seed):
    one = trained(lesson, 1, seed)
    cautious = trained(lesson, seed=seed, network={"scale": 1 / 128})
    constants = [trained(lesson, seed=seed, network={"scale": s}) for s in (0.1, 128**-0.5)]
    assert min(constants) > max(one, cautious)
    assert trained(lesson, seed=seed, threshold=1.0) < one
    assert trained(lesson, seed=seed, network={"norm": nn.LayerNorm}) > max(constants)


@pytest.mark.slow
@pytest.mark.parametrize("seed", (0, 1))
def test_after_200_steps_clipping_draws_level(lesson, seed):
    one = trained(lesson, 1, seed, steps=200)
    assert abs(trained(lesson, seed=seed, threshold=1.0, steps=200) - one) <= 0.05


def lost(gain, steps, seed):
    """What removing its 29 blocks costs a trained network of lesson 00, in accuracy."""
    data = training.digits()
    net = training.mlp(depth=30, residual=True, branch_gain=gain, init="torch", seed=seed)
    training.train(net, data, steps=steps, lr=0.3, seed=seed)
    whole, rest = (
        training.accuracy(part, data.validation_x, data.validation_y)
        for part in (net, net[:2] + net[31:])
    )
    return whole - rest


@pytest.mark.parametrize("seed", each(SEEDS, quick=1))
def test_blocks_times_a_small_constant_are_not_used(lesson, seed):
    assert max(lost(0.05, steps, seed) for steps in (100, 400)) <= 0.02
    assert 0.03 <= lost(0.2, 400, seed) <= 0.15


def test_the_spread_depends_on_depth_over_width(lesson):
    """Real weight matrices instead of the lesson's walk."""
    for depth, width in ((15, 32), (30, 64)):
        logs = []
        for seed in range(40):
            h = draw(width, seed=seed)
            first = h.norm()
            for layer in range(depth):
                W = math.sqrt(2 / width) * draw(width, width, seed=1000 * seed + layer)
                h = (W @ h).relu()
            logs.append((h.norm() / first).log())
        spread = torch.stack(logs).std()
        assert abs(spread / lesson["log_scales"](depth, width).std() - 1) < 0.2
