"""The claims in the Evidence of lesson 02a: other seeds, depths, rates, steps and schedules."""

import pytest
import torch
from torch import nn

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import cells_of, run_cells, train_at

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("float64_as_in_the_lessons")]

LESSON = "02a_placement.ipynb"
SEEDS = range(5)


@pytest.fixture
def lesson():
    """The networks of the page; ex1 is not solved, so its rules are the course's."""
    names = run_cells(LESSON, "setup", "failure-net", "failure-loop", "bug", "ex1-stub")
    names["place_verdict"] = "[ ]"
    names["at_chance"] = lambda accuracy: accuracy < 0.2
    exec(cells_of(LESSON)["own-rules"], names)
    return names


def with_steps(lesson, steps):
    """The page's train with another number of steps."""
    names = dict(lesson)
    source = cells_of(LESSON)["failure-loop"]
    assert "range(100)" in source
    exec(source.replace("range(100)", f"range({steps})"), names)
    return names["train"]


@pytest.mark.parametrize("steps", [100, 200])
def test_at_the_large_rate_what_has_a_free_path_trains_and_the_rest_is_at_chance(lesson, steps):
    train = with_steps(lesson, steps)
    rules = lesson["RULES"] | {"first": lesson["norm_comes_first"]}
    for name, rule in rules.items():
        reached = [train(lesson["deep_net"](rule, seed), 0.03, seed) for seed in SEEDS]
        if name in ("post", "first"):
            assert max(reached) < 0.2, name
        else:
            assert min(reached) > 0.85, name


def test_post_ln_of_three_blocks_trains_at_this_rate_and_of_six_does_not(lesson):
    for seed in SEEDS:
        reached = {}
        for depth in (3, 6):
            net = lesson["deep_net"](lesson["RULES"]["post"], seed, depth)
            reached[depth] = with_steps(lesson, 200)(net, 0.03, seed)
        assert reached[3] > 0.85 and reached[6] < 0.85


def test_at_ten_times_this_rate_pre_ln_falls_behind_the_two_others(lesson):
    train = with_steps(lesson, 200)
    reached = {}
    for name in ("pre", "output", "sandwich"):
        nets = [lesson["deep_net"](lesson["RULES"][name], seed) for seed in SEEDS]
        found = [train(net, 0.3, seed) for seed, net in enumerate(nets)]
        reached[name] = torch.tensor(found).mean()
    assert reached["pre"] < min(reached["output"], reached["sandwich"]) - 0.05


@pytest.mark.parametrize("steps", [100, 200])
def test_both_halves_of_deep_norm_learn_with_each_seed_and_one_alone_rarely(lesson, steps):
    source = cells_of(LESSON)["deepnorm-run"]
    exec(source[: source.index("\n\n\n@torch.no_grad")], lesson)
    alpha, beta = lesson["ALPHA"], lesson["BETA"]
    train = with_steps(lesson, steps)
    learned = {}
    for name, halves in {"both": (alpha, beta), "beta": (1, beta), "alpha": (alpha, 1)}.items():
        reached = []
        for seed in SEEDS:
            net = lesson["deep_net"](scaled(halves[0]), seed)
            shrink(net, halves[1])
            reached.append(train(net, 0.03, seed))
        learned[name] = sum(accuracy > 0.85 for accuracy in reached)
    assert learned["both"] == 5
    assert learned["beta"] <= 3 and learned["alpha"] <= 1, learned


def scaled(alpha):
    return lambda x, branch, norm: norm(alpha * x + branch(x))


@torch.no_grad()
def shrink(net, beta):
    for block in net[1:-2]:
        block.branch[0].weight.mul_(beta)
        block.branch[-1].weight.mul_(beta)


@pytest.mark.parametrize(
    ("depth", "lr", "steps", "pre_least", "post_most"),
    [
        (12, 0.003, 100, 0.85, 0.6),
        (12, 0.001, 200, 0.7, 0.45),
        (12, 0.003, 800, 0.85, 0.65),
        (24, 0.001, 200, 0.7, 0.3),
        (6, 0.003, 200, 0.85, 0.75),
    ],
)
def test_pre_ln_keeps_more_of_its_accuracy_without_its_last_blocks(
    lesson, depth, lr, steps, pre_least, post_most
):
    train = with_steps(lesson, steps)
    for seed in range(3):
        half = {}
        for name in ("pre", "post"):
            net = lesson["deep_net"](lesson["RULES"][name], seed, depth)
            assert train(net, lr, seed) > 0.87
            half[name] = lesson["accuracy"](nn.Sequential(*net[: 1 + depth // 2], *net[-2:]))
        assert half["pre"] > pre_least and half["post"] < post_most


@pytest.mark.parametrize("init", ["xavier", "he"])
@pytest.mark.parametrize("depth", [6, 12, 24, 48])
def test_pre_ln_has_the_larger_ratio_and_post_ln_is_not_always_the_more_even_one(
    lesson, depth, init
):
    source = cells_of(LESSON)["gradients-run"]
    exec(source[: source.index('\n\n\nfor name in ("pre"')], lesson)

    def deep_net(placement, seed, depth):
        options = {"depth": depth, "placement": placement, "init": init, "seed": seed}
        net = training.residual_mlp(layers.LayerNorm, **options)
        return net if placement == "pre" else net.insert(-1, nn.Identity())

    lesson["deep_net"] = deep_net
    ratios = {}
    for placement in ("pre", "post"):
        found = [lesson["weight_gradients"](placement, seed, depth) for seed in range(20)]
        ratios[placement] = torch.stack([gradients[0] / gradients[-1] for gradients in found])
    away = {placement: found.log().abs() for placement, found in ratios.items()}
    assert (ratios["pre"] > ratios["post"]).sum() >= 18
    closer = (away["post"] < away["pre"]).sum()
    assert 16 <= closer <= 18 if init == "xavier" and depth <= 24 else 11 <= closer <= 13


class Scaled(nn.Module):
    """Block `number` with LayerNorm scaling."""

    def __init__(self, block, number):
        super().__init__()
        self.block = block
        self.number = number

    def forward(self, x):
        return x + self.block.branch(self.block.norm(x) / self.number**0.5)


@torch.no_grad()
def last_part_and_first_six(net, lesson):
    """What the last block adds, in parts of the stream; the accuracy of the first six blocks."""
    streams = [net[0](lesson["data"].validation_x)]
    for block in net[1:-2]:
        streams.append(block(streams[-1]))
    part = (streams[-1] - streams[-2]).norm() / streams[-2].norm()
    return part, torch.tensor(lesson["accuracy"](nn.Sequential(*net[:7], *net[-2:])))


def test_with_layer_norm_scaling_late_blocks_do_less_in_trained_nets_too(lesson):
    train = with_steps(lesson, 200)
    found = {"pre": [], "scaled": []}
    for name, measured in found.items():
        for seed in range(3):
            net = lesson["deep_net"](lesson["RULES"]["pre"], seed, depth=24)
            if name == "scaled":
                for number in range(1, 25):
                    net[number] = Scaled(net[number], number)
            train(net, 0.003, seed)
            measured.append(torch.stack(last_part_and_first_six(net, lesson)))
    plain = torch.stack(found["pre"])
    scaled = torch.stack(found["scaled"])
    assert plain[:, 0].min() > scaled[:, 0].max()
    assert plain[:, 1].max() < scaled[:, 1].min()


def test_it_is_the_first_steps_that_have_to_be_small():
    data = training.digits()
    up = [0.01 * min(1, (step + 1) / 51) for step in range(200)]
    reached = {}
    for name, rates in {"at first": up, "at the end": up[::-1]}.items():
        found = []
        for seed in (*range(100, 105), *range(200, 205)):
            how = {"depth": 12, "placement": "post", "init": "xavier", "seed": seed}
            net = training.residual_mlp(layers.LayerNorm, **how)
            train_at(rates, net, data, batch_size=64, seed=seed)
            found.append(training.accuracy(net, data.validation_x, data.validation_y))
        reached[name] = torch.tensor(found)
    assert reached["at first"].min() > 0.8
    assert reached["at the end"].min() < 0.7
    assert reached["at first"].mean() > reached["at the end"].mean()
