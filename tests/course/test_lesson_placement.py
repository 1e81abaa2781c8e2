"""The table "How sure is this?" of lesson 02a: other depths, starts and schedules."""

import pytest
import torch

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import run_cells, train_at

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("float64_as_in_the_lessons")]

LESSON = "02a_placement.ipynb"
NETS = ("setup", ("failure-run", "net = new_net"))


@pytest.mark.parametrize("init", ["xavier", "he"])
@pytest.mark.parametrize("depth", [6, 12, 24, 48])
def test_pre_ln_has_the_larger_ratio_and_post_ln_is_not_always_the_more_even_one(depth, init):
    lesson = run_cells(LESSON, *NETS, ("predict-02-answer", "ratios = {}"))

    def new_net(placement, seed, depth):
        options = {"depth": depth, "placement": placement, "init": init, "seed": seed}
        return training.residual_mlp(layers.LayerNorm, **options)

    lesson["new_net"] = new_net
    ratios = {}
    for placement in ("pre", "post"):
        found = [lesson["weight_gradients"](placement, depth, seed) for seed in range(20)]
        ratios[placement] = torch.stack([gradients[0] / gradients[-1] for gradients in found])
    away = {placement: found.log().abs() for placement, found in ratios.items()}
    assert (ratios["pre"] > ratios["post"]).sum() >= 18
    closer = (away["post"] < away["pre"]).sum()
    assert 16 <= closer <= 18 if init == "xavier" and depth <= 24 else 11 <= closer <= 13


class Scaled(torch.nn.Module):
    """Block `number` with LayerNorm scaling."""

    def __init__(self, block, number):
        super().__init__()
        self.block = block
        self.number = number

    def forward(self, x):
        return x + self.block.branch(self.block.norm(x) / self.number**0.5)


@torch.no_grad()
def last_part_and_first_six(net, data):
    """What the last block adds, in parts of the stream; the accuracy of the first six blocks."""
    first, *blocks, norm, head = net
    streams = [first(data.validation_x)]
    for block in blocks:
        streams.append(block(streams[-1]))
    part = (streams[-1] - streams[-2]).norm() / streams[-2].norm()
    answers = head(norm(streams[6])).argmax(-1)
    return part, (answers == data.validation_y).double().mean()


def test_with_layer_norm_scaling_late_blocks_do_less_in_trained_nets_too():
    lesson = run_cells(LESSON, *NETS)
    found = {"pre": [], "scaled": []}
    for name, measured in found.items():
        for seed in range(100, 103):
            net = lesson["new_net"]("pre", seed, depth=24)
            if name == "scaled":
                for number in range(1, 25):
                    net[number] = Scaled(net[number], number)
            lesson["trained"](net, rate=0.003, seed=seed)
            measured.append(torch.stack(last_part_and_first_six(net, lesson["data"])))
    plain = torch.stack(found["pre"])
    scaled = torch.stack(found["scaled"])
    assert plain[:, 0].min() > 0.12 and scaled[:, 0].max() < 0.1
    assert plain[:, 1].max() < scaled[:, 1].min()


def test_both_halves_of_deep_norm_learn_in_each_start_and_one_alone_rarely():
    cells = (("post-share", "# the course"), ("deepnorm-share", "def share"), "deepnorm-block")
    lesson = run_cells(LESSON, *NETS, *cells)
    alpha, beta = lesson["ALPHA"], lesson["BETA"]
    learned = {}
    for name, halves in {"both": (alpha, beta), "beta": (1, beta), "alpha": (alpha, 1)}.items():
        nets = [lesson["deep_net"](*halves, seed) for seed in range(100, 105)]
        reached = [
            lesson["trained"](net, rate=0.03, seed=seed) for seed, net in enumerate(nets, 100)
        ]
        learned[name] = sum(accuracy > 0.9 for accuracy in reached)
    assert learned["both"] == 5
    assert learned["beta"] <= 2 and learned["alpha"] <= 1


@pytest.mark.parametrize("depth, most, least", [(3, 1, 0.9), (6, 0.8, 0)])
def test_post_ln_of_three_blocks_bears_the_rate_and_of_six_does_not(depth, most, least):
    lesson = run_cells(LESSON, *NETS)
    for seed in range(100, 105):
        net = lesson["new_net"]("post", seed, depth)
        assert least < lesson["trained"](net, rate=0.03, seed=seed) < most


def test_at_ten_times_the_last_rate_pre_ln_falls_behind_the_two_others():
    lesson = run_cells(LESSON, *NETS)
    lowest = {}
    highest = {}
    for placement in ("pre", "output", "sandwich"):
        nets = [lesson["new_net"](placement, seed) for seed in range(100, 105)]
        reached = [
            lesson["trained"](net, rate=0.3, seed=seed) for seed, net in enumerate(nets, 100)
        ]
        lowest[placement] = min(reached)
        highest[placement] = max(reached)
    assert lowest["pre"] > 0.6 and highest["pre"] < 0.87
    assert min(lowest["output"], lowest["sandwich"]) > highest["pre"]


def trained_at(rates, lesson, seed):
    """Accuracy of the opening's net after one step of Adam at each of these rates."""
    data = lesson["data"]
    net = lesson["new_net"]("post", seed)
    train_at(rates, net, data, batch_size=64, seed=seed)
    return training.accuracy(net, data.validation_x, data.validation_y)


def test_it_is_the_first_steps_that_have_to_be_small():
    lesson = run_cells(LESSON, *NETS)
    up = [0.01 * min(1, (step + 1) / 51) for step in range(200)]
    reached = {}
    for name, rates in {"at first": up, "at the end": up[::-1]}.items():
        found = [trained_at(rates, lesson, seed) for seed in (*range(100, 105), *range(200, 205))]
        reached[name] = torch.tensor(found)
    assert reached["at first"].min() > 0.8
    assert reached["at the end"].min() < 0.7
    assert reached["at first"].mean() > reached["at the end"].mean()
