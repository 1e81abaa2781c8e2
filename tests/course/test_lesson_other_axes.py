"""Lesson 02b's sentences on groups of features, lights and spectral norms that no cell shows."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from normcourse import draw, training
from tests.course.lesson_tables import OWN, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


class Grouped(nn.Module):
    """GroupNorm without gain and bias, for (nets, samples, features)."""

    def __init__(self, shape: tuple[int, int, int], groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, h: Tensor) -> Tensor:
        return F.group_norm(h.flatten(0, 1), self.groups).reshape(h.shape)


def gradients_in_front(groups: int) -> Tensor:
    """Lengths (nets, digits) of the gradient where it leaves the first norm, before training."""
    data = training.digits()
    nets = training.stacked_mlp(3, partial(Grouped, groups=groups))
    h = nets[0](data.train_x)
    scores = nets[1:](h).flatten(0, 1)
    loss = F.cross_entropy(scores, data.train_y.repeat(len(h)), reduction="sum")
    (dh,) = torch.autograd.grad(loss, h)
    return dh.norm(dim=-1)


def test_pairs_pass_next_to_no_gradient_of_most_digits_and_more_on_average():
    pairs = gradients_in_front(16)
    fours = gradients_in_front(8)
    assert (pairs.median(1).values < fours.median(1).values / 1000).all()
    assert (pairs.mean(1) > fours.mean(1)).all()


LESSON = "02b_other_axes.ipynb"
OTHER_DRAWS = range(1, 6)  # of five starts each; the lesson's own is 0
CHANGES = {
    OWN: {},
    "a tenth of the rate": {"lr": 0.001},
    "ten times the rate": {"lr": 0.1},
    "four times the steps": {"steps": 320},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
}


def lesson_of(draw_of_starts: int) -> dict:
    """What the lesson defines for nets with groups; nothing is trained."""
    names = run_cells(LESSON, "setup", ("failure-run", "reached ="), ("pairs-repairs", "\n\n\nfor"))
    names["training"] = SimpleNamespace(
        stacked_mlp=partial(training.stacked_mlp, seed=draw_of_starts),
        train_stacked=training.train_stacked,
        stacked_accuracy=training.stacked_accuracy,
    )
    return names


@pytest.mark.slow
@pytest.mark.parametrize("change", each(CHANGES, quick=None))
def test_three_layers_learn_with_groups_of_four_and_not_with_pairs(change):
    changed = CHANGES[change]
    width = changed.get("width", 32)
    lesson = lesson_of(0)
    assert (lesson["accuracies"](width // 4, **changed) > lesson["LEARNED"]).all()
    assert (lesson["accuracies"](width // 2, **changed) < lesson["LEARNED"]).all()


@pytest.mark.slow
def test_at_ten_times_the_rate_fours_fail_in_one_or_two_nets_of_other_draws():
    failed = []
    for number in OTHER_DRAWS:
        lesson = lesson_of(number)
        failed.append(int((lesson["accuracies"](8, lr=0.1) <= lesson["LEARNED"]).sum()))
    assert 1 <= max(failed) <= 2


@pytest.mark.slow
def test_slow_and_long_training_lets_some_nets_with_pairs_read_a_third():
    reached = lesson_of(0)["accuracies"](16, lr=0.001, steps=1000)
    assert 0.3 < reached.max() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("number", OTHER_DRAWS)
def test_training_in_front_of_pairs_is_worth_nothing(number):
    gain = lesson_of(number)["gain"]
    for depth in (1, 3):
        assert gain(16, depth, 1e-5) < 0
        assert gain(16, depth, 1.0) > 0.1
        assert gain(8, depth, 1e-5) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, *OTHER_DRAWS])
def test_ten_layers_do_not_learn_with_fours_and_read_more_with_a_large_epsilon(number):
    lesson = lesson_of(number)
    steep = lesson["accuracies"](8, depth=10)
    gentle = lesson["accuracies"](8, depth=10, eps=1.0)
    assert (steep > lesson["LEARNED"]).sum() <= 1
    assert gentle.mean() > steep.mean() + 0.15


@pytest.mark.slow
def test_behind_steep_steps_the_last_place_of_a_weight_decides_digits():
    def reached(groups: int, nudge: float) -> Tensor:
        lesson = lesson_of(0)
        norm = partial(lesson["Grouped"], groups=groups, eps=1e-5)
        nets = training.stacked_mlp(1, norm)
        with torch.no_grad():
            nets[0].weight.mul_(1 + nudge)
        data = training.digits()
        training.train_stacked(nets, data, steps=80, lr=0.01, optimizer="adam")
        return training.stacked_accuracy(nets, data)

    assert not torch.equal(reached(16, 0.0), reached(16, 4e-16))
    assert torch.equal(reached(8, 0.0), reached(8, 4e-16))


@pytest.mark.slow
def test_in_other_starts_and_lights():
    names = run_cells(LESSON, "setup", "lights", "lights-net")
    images = names["images"]
    names["LIGHTS"] = {
        "as trained": images.test_x,
        "brighter": images.test_x + 1,
        "a tenth": images.test_x / 10,
        "brighter by 3": images.test_x + 3,
    }
    seen = {}
    for name in ("none", "BatchNorm", "GroupNorm", "InstanceNorm"):
        nets = [names["trained"](names["CNN_NORMS"][name], seed) for seed in range(5, 10)]
        seen[name] = torch.stack([names["in_each_light"](net) for net in nets])
    instance = seen["InstanceNorm"]
    for name in ("none", "BatchNorm"):
        assert (instance[:, 1] > seen[name][:, 1]).all()
    for name in ("none", "GroupNorm"):
        lost = 1 - seen[name].mean(0) / seen[name][:, 0].mean()
        assert 0.2 < lost[2] < 0.45
    assert instance[:, 2].mean() > instance[:, 0].mean() - 1
    assert 0.4 < 1 - instance[:, 3].mean() / instance[:, 0].mean() < 0.75


def test_spectral_normalization_bounds_the_trained_weights_and_not_others():
    linear = nn.Linear(4, 5, bias=False)
    nn.utils.parametrizations.spectral_norm(linear)
    weights = linear.parametrizations.weight.original
    with torch.no_grad():
        weights.copy_(draw(5, 4, seed=9))
        for _ in range(100):
            linear(torch.zeros(1, 4))  # a call in training: one power step
        stretch = torch.linalg.matrix_norm(linear.weight, 2)
        linear.eval()
        weights.copy_(draw(5, 4, seed=10))  # other weights, from outside
        unbound = torch.linalg.matrix_norm(linear.weight, 2)
    assert_close(stretch, torch.tensor(1.0))  # what is left shrinks by (second/first)^2 a step
    assert unbound > 1.1
