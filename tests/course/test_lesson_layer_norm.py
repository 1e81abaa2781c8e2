"""Lesson 02's table of claims: other seeds, lengths, widths, depths and learning rates."""

import pytest
import torch
from torch import nn

from normcourse import training
from tests.course.lesson_tables import run_cells

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("float64_as_in_the_lessons")]
LESSON = "02_layer_norm.ipynb"
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def page():
    """What the lesson's cells define."""
    before_pairs = ("pairs", "\n\nfor size in ")
    cells = ("failure-data", "failure-net", "failure-loop", before_pairs, "stream-net")
    names = run_cells(LESSON, "setup", *cells)
    names["none"] = lambda features: nn.Identity()
    return names


# The coin


def tosses(count, seed, moments):
    """As the lesson's, for sequences of any length."""
    generator = torch.Generator().manual_seed(seed)
    coin = torch.randint(0, 2, (count, moments), generator=generator)
    return (2.0 * coin - 1)[:, None, :].expand(-1, moments, -1).tril(), coin[:, 1:]


def coin_accuracies(page, norm, *, seed=0, moments=8, width=64, steps=300, batch=32, lr=0.01):
    """Of a trained network the accuracy with whole tables, and toss by toss; and the network."""
    layers = [nn.Linear(moments, width), norm(width), nn.ReLU()]
    layers += [nn.Linear(width, width), norm(width), nn.ReLU()]
    net = training.seeded(nn.Sequential(*layers, nn.Linear(width, 2)), seed)
    first = 10_000 * seed
    batches = (tosses(batch, first + step, moments) for step in range(steps))
    page["train"](net, batches, lr)
    x, y = tosses(1000, 999_999, moments)
    ways = page["whole"], page["as_it_comes"]
    return [page["accuracy"](way(net.eval(), x), y) for way in ways], net


VARIED = [{}, {"moments": 4}, {"moments": 12, "steps": 900}, {"width": 32}, {"width": 128}]


@pytest.mark.parametrize("change", VARIED, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_through_a_norm_over_time_a_network_predicts_a_fair_coin(page, change, seed):
    (whole, streamed), _ = coin_accuracies(page, page["group_norm"], seed=seed, **change)
    assert whole > 0.8
    assert 0.47 < streamed < 0.53


@pytest.mark.parametrize("change", VARIED, ids=str)
@pytest.mark.parametrize("norm", ["LayerNorm", "none"])
def test_with_layer_norm_or_without_a_norm_it_does_not(page, change, norm):
    layer = nn.LayerNorm if norm == "LayerNorm" else page["none"]
    for seed in SEEDS:
        accuracies, _ = coin_accuracies(page, layer, seed=seed, **change)
        assert all(0.47 < accuracy < 0.53 for accuracy in accuracies)


def in_training(page, net, x, y, size):
    """Accuracy in training mode, with batches of this many sequences."""
    batches = zip(x.split(size), y.split(size), strict=True)
    found = [page["accuracy"](page["whole"](net.train(), a), b) for a, b in batches]
    return sum(found) / len(found)


@pytest.mark.parametrize(("size", "least", "most"), [(1, 0.9, 1), (2, 0.7, 0.9), (25, 0.47, 0.56)])
@pytest.mark.parametrize("lr", [0.01, 0.003])
@pytest.mark.parametrize("seed", SEEDS)
def test_batch_norm_reads_one_sequence_or_two_in_training_and_none_in_evaluation(
    page, seed, lr, size, least, most
):
    how = {"seed": seed, "batch": size, "steps": 600, "lr": lr}
    (in_evaluation, _), net = coin_accuracies(page, page["batch_norm"], **how)
    x, y = tosses(1000, 999_999, 8)
    assert least < in_training(page, net, x, y, size) <= most
    page["update_bn"]([(x, y)], net.train())
    for accuracy in (in_evaluation, page["accuracy"](page["whole"](net.eval(), x), y)):
        assert 0.47 < accuracy < 0.53


class EachMoment(nn.Module):
    """BatchNorm whose statistics are those of one moment, over the batch alone."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(8 * features)

    def forward(self, h):
        return self.norm(h.flatten(1)).view_as(h)


@pytest.mark.parametrize("size", [2, 25])
@pytest.mark.parametrize("seed", SEEDS)
def test_batch_norm_of_each_moment_reads_nothing(page, seed, size):
    x, y = tosses(1000, 999_999, 8)
    layers = [nn.Linear(8, 64), EachMoment(64), nn.ReLU()]
    layers += [nn.Linear(64, 64), EachMoment(64), nn.ReLU()]
    net = training.seeded(nn.Sequential(*layers, nn.Linear(64, 2)), seed)
    page["train"](net, (tosses(size, 10_000 * seed + step, 8) for step in range(600)), 0.01)
    assert 0.47 < in_training(page, net, x, y, size) < 0.53


class OneMean(nn.Module):
    """Subtracts one mean of all moments and features."""

    def forward(self, h):
        return h - h.mean((1, 2), keepdim=True)


def test_one_mean_is_enough(page):
    layers = [nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), OneMean(), nn.ReLU()]
    net = training.seeded(nn.Sequential(*layers, nn.Linear(64, 2)))
    page["train"](net, (tosses(32, step, 8) for step in range(300)), 0.01)
    x, y = tosses(1000, 999_999, 8)
    assert page["accuracy"](page["whole"](net, x), y) > 0.9
    assert 0.47 < page["accuracy"](page["as_it_comes"](net, x), y) < 0.53


# The signals


@pytest.fixture(scope="module")
def signals():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield training.signals()
    torch.set_default_dtype(default)


def listener(page, norm, seed=0, width=24, dilations=(1, 3, 6, 9)):
    conv = page["CausalConv"]
    blocks = [
        training.Block(nn.Sequential(conv(width, width, 3, dilation=d), nn.ReLU()), norm, width)
        for d in dilations
    ]
    stem = [conv(1, width, 5), nn.ReLU()]
    net = nn.Sequential(*stem, *blocks, norm(width), nn.Linear(width, 10))
    return training.seeded(net, seed)


def curves(page, signals, norm, *, lr=0.015, **how):
    """Accuracy at every third moment, with whole signals and as the points come."""
    net = listener(page, norm, **how)
    batches = page["signal_batches"](signals.train_x, signals.train_y)
    page["train"](net, batches, lr).eval()
    x, y = signals.test_x[..., None], signals.test_y[:, None]
    whole = (page["whole"](net, x)[:, ::3] == y).double().mean(0)
    streamed = (page["as_it_comes"](net, x, every=3) == y).double().mean(0)
    return whole, streamed


NETS = [{}, {"seed": 1}, {"seed": 2}, {"width": 16}, {"dilations": (1, 2, 4, 8, 1, 2)}]


@pytest.mark.parametrize("change", NETS, ids=str)
def test_early_in_a_signal_group_norm_knows_the_rest_of_it(page, signals, change):
    whole, streamed = curves(page, signals, page["group_norm"], **change)
    assert whole[0] > 0.4
    assert streamed[0] < 0.13


@pytest.mark.parametrize("change", NETS, ids=str)
def test_as_the_points_come_layer_norm_is_the_more_accurate_one(page, signals, change):
    _, leaking = curves(page, signals, page["group_norm"], **change)
    whole, streamed = curves(page, signals, nn.LayerNorm, **change)
    assert torch.equal(whole, streamed)
    assert streamed.mean() > leaking.mean() + 0.01


def test_layer_norm_ends_above_no_norm_and_below_batch_norm_each_at_its_best_rate(page, signals):
    ends = {}
    norms = {"none": page["none"], "layer": nn.LayerNorm, "batch": page["batch_norm"]}
    for name, norm in norms.items():
        found = [
            [curves(page, signals, norm, seed=seed, lr=lr)[0][-1].item() for seed in SEEDS]
            for lr in (0.005, 0.015, 0.03)
        ]
        ends[name] = max(found, key=sum)
    assert max(ends["none"]) < min(ends["layer"])
    assert max(ends["layer"]) < min(ends["batch"])
