"""Lesson 00's sentences on other starts, widths, biases and Adam's ε, which no cell shows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import training
from normlib import layers
from tests.course.lesson_tables import NOTEBOOKS, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def definitions() -> dict:
    """The lesson's digits and its own plain net; nothing is trained."""
    measures = ("second-measures", "print(")
    return run_cells("00_why_normalize.ipynb", "setup", "failure-net", "failure-loop", measures)


NORMS = {
    "none": None,
    "batch_norm": layers.BatchNorm1d,
    "layer_norm": layers.LayerNorm,
    "rms_norm": layers.RMSNorm,
}


def equally_long(rows):
    return rows / rows.square().mean(1, keepdim=True).sqrt()


@torch.no_grad()
def test_a_layer_multiplies_the_size_by_nearly_the_same_factor_in_all_starts():
    x = definitions()["data"].validation_x
    for width in (32, 64, 128):
        for seed in range(20):
            net = training.mlp(depth=30, width=width, init="torch", seed=seed)
            first = net[:2](x).square().mean()
            last = net[:-1](x).square().mean()
            factor = (last / first) ** (1 / 58)  # 29 layers, and the root
            assert 0.355 < factor < 0.435


def test_the_head_alone_learns_at_rates_over_a_factor_of_ten():
    lesson = definitions()
    for rate in (0.1, 0.3, 1.0):
        head = lesson["plain_net"](0)
        lesson["train"](head, steps=100, rate=rate)
        assert 0.92 < lesson["accuracy"](head) < 0.96


def test_what_training_moves_in_the_plain_net_is_the_same_for_all_pictures():
    lesson = definitions()
    net = lesson["plain_net"](30)
    lesson["train"](net, steps=100, rate=0.3)
    with torch.no_grad():
        rows = net[:-1](lesson["data"].validation_x)
    assert 1e-3 < rows.square().mean().sqrt() < 1e-2  # the biases of the last layers have moved
    assert (rows - rows.mean(0)).square().mean().sqrt() < 1e-11


@pytest.mark.parametrize("seed", range(3))
def test_torchs_own_biases_hold_the_size_and_the_net_fails_as_well(seed):
    lesson = definitions()
    data = lesson["data"]
    chain = []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for _ in range(30):
            chain += [nn.Linear(64, 64), nn.ReLU()]
        net = nn.Sequential(*chain, nn.Linear(64, 10))
    with torch.no_grad():
        rows = net[:-1](data.validation_x)
    size = rows.square().mean().sqrt()
    assert 0.05 < size < 0.065
    assert (rows - rows.mean(0)).abs().max() < 1e-6 * size  # all rows are the same
    lesson["train"](net, steps=100, rate=0.3)
    assert lesson["accuracy"](net) < 0.14


@torch.no_grad()
@pytest.mark.parametrize("width", each([64, 256, 1024], quick=64))
def test_rows_become_as_alike_at_each_width_and_tell_digits_apart_in_wide_nets(width):
    """Widths share the bands of the spread; what is told apart grows from one to the next."""
    lesson = definitions()
    data = lesson["data"]
    told = {64: (0.35, 0.43, 0.17, 0.27), 256: (0.55, 0.7, 0.27, 0.4), 1024: (0.7, 0.85, 0.5, 0.7)}
    least_10, most_10, least_30, most_30 = told[width]
    for depth, low, high, least, most in (
        (10, 0.25, 0.36, least_10, most_10),
        (30, 0.09, 0.19, least_30, most_30),
    ):
        spreads = []
        shares = []
        for seed in range(5):
            rows = training.mlp(depth=depth, width=width, seed=seed)[:-1](data.validation_x)
            shares.append(lesson["told_apart"](rows, data.validation_y))
            rows = equally_long(rows)
            spreads.append((rows - rows.mean(0)).square().mean().sqrt().item())
        assert low < sum(spreads) / 5 < high
        assert least < sum(shares) / 5 < most


@torch.no_grad()
@pytest.mark.parametrize("width", each([8, 32, 64, 128], quick=64))
def test_the_worst_fresh_net_with_shortcuts_is_ahead_of_the_best_one_without(width):
    lesson = definitions()
    data = lesson["data"]

    def share(body):
        rows = equally_long(body(data.validation_x))
        return lesson["told_apart"](rows, data.validation_y)

    plain = []
    beside = []
    for seed in range(20):
        settings = {"depth": 30, "width": width, "init": "torch", "seed": seed}
        plain.append(share(training.mlp(**settings)[:-1]))
        for norm in NORMS.values():  # no last norm, no head
            beside.append(share(training.mlp(norm, residual=True, **settings)[:31]))
    assert (max(plain) < min(beside)) == (width > 8)


@torch.no_grad()
def test_with_hes_weights_and_no_norm_a_shortcut_keeps_fewer_digits():
    lesson = definitions()
    data = lesson["data"]
    kept = []
    for seed in range(20):
        body = training.mlp(depth=30, residual=True, seed=seed)[:31]
        kept.append(lesson["told_apart"](body(data.validation_x), data.validation_y))
    assert 0.25 < min(kept) < 0.32
    assert 0.43 < max(kept) < 0.5


def read_by_a_linear_head(body, data):
    """Accuracy of a ridge regression on rows that the training pictures standardize."""
    rows = body(data.train_x)
    mean, deviation = rows.mean(0), rows.std(0)
    deviation = deviation.clamp(min=1e-12 * deviation.max())  # a dead unit is 0 everywhere
    rows = (rows - mean) / deviation
    wanted = F.one_hot(data.train_y, 10).double()
    level = wanted.mean(0)
    weights = torch.linalg.solve(rows.T @ rows + torch.eye(64), rows.T @ (wanted - level))
    scores = (body(data.validation_x) - mean) / deviation @ weights + level
    return (scores.argmax(1) == data.validation_y).double().mean().item()


@torch.no_grad()
@pytest.mark.slow
def test_a_linear_head_too_reads_more_from_the_worst_fresh_net_with_shortcuts():
    data = definitions()["data"]
    plain = []
    beside = []
    for seed in range(20):
        settings = {"depth": 30, "init": "torch", "seed": seed}
        for norm in NORMS.values():  # no last norm, no head
            plain.append(read_by_a_linear_head(training.mlp(norm, **settings)[:-1], data))
            with_shortcuts = training.mlp(norm, residual=True, **settings)[:31]
            beside.append(read_by_a_linear_head(with_shortcuts, data))
    assert max(plain) < 0.5 < 0.6 < min(beside)


@torch.no_grad()
@pytest.mark.parametrize("seed", each(list(range(5)), quick=0))
def test_behind_200_layers_with_shortcuts_only_norms_keep_the_digits(seed):
    lesson = definitions()
    data = lesson["data"]
    for name, norm in NORMS.items():
        how = {"depth": 200, "residual": True, "init": "torch", "seed": seed}
        rows = training.mlp(norm, **how)[:201](data.validation_x)  # no last norm, no head
        kept = lesson["told_apart"](rows, data.validation_y)
        assert (kept < 0.4) == (name == "none")


def test_at_the_rate_1_rms_norm_beside_shortcuts_learns_nothing():
    record = training.load_record(NOTEBOOKS / "records/capstone_deep.json")
    runs = [run for run in record.runs if (run.norm, run.lr) == ("rms_norm", 1.0)]
    assert len(runs) == 2
    assert all(run.validation[-1] < 0.14 * 397 for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, norm",
    [
        ("zero", None),
        ("small", None),
        ("smaller", None),
        ("smaller_hes", None),
        ("smaller_deep", None),
        ("full", layers.LayerNorm),
        ("full_hes", layers.LayerNorm),
        ("full_deep", layers.LayerNorm),
        ("full", layers.BatchNorm1d),
    ],
)
def test_a_net_of_the_lesson_ends_as_in_its_record(name, norm):
    lesson = definitions()
    record = training.load_record(NOTEBOOKS / f"records/opening_{name}.json")
    named = next(key for key, value in NORMS.items() if value is norm)
    final = next(run for run in record.runs if run.phase == "final" and run.norm == named)
    model = {name: value for name, value in record.settings.model.items() if name != "build"}
    net = training.mlp(norm, seed=final.seed, **model)
    lesson["train"](net, steps=100, rate=final.lr)
    assert abs(round(397 * lesson["accuracy"](net)) - final.validation[0]) <= 2  # pictures


def lost_without_branches(lesson, norm, constant, rate, seed, **net):
    """What the net reached, and how much of it goes when the trained branches are taken away."""
    net = {"depth": 30, "init": "torch"} | net
    net = training.mlp(norm, residual=True, branch_gain=constant, seed=seed, **net)
    lesson["train"](net, steps=100, rate=rate)
    trained = lesson["accuracy"](net)
    for block in net:
        if isinstance(block, training.Block):
            block.gain = 0.0
    return trained, trained - lesson["accuracy"](net)


NORMED = (nn.LayerNorm, 1.0)
HARDLY_USED = (-0.03, 0.07)
OF_FULL_SIZE = (0.45, 0.9)
# norm and constant, rate, the net; the least and the most that it loses
BRANCHES = [
    ((None, 0.05), 0.3, {}, HARDLY_USED),
    ((None, 0.05), 1.0, {}, HARDLY_USED),
    ((None, 0.05), 0.3, {"init": "he"}, HARDLY_USED),
    ((None, 0.05), 0.3, {"depth": 100}, HARDLY_USED),
    ((None, 0.2), 0.3, {}, (-0.03, 0.1)),
    ((nn.LayerNorm, 0.05), 0.1, {}, HARDLY_USED),
    (NORMED, 0.1, {}, OF_FULL_SIZE),
    (NORMED, 0.3, {"init": "he"}, OF_FULL_SIZE),
    (NORMED, 0.03, {"depth": 100}, OF_FULL_SIZE),
    ((layers.BatchNorm1d, 1.0), 0.1, {}, OF_FULL_SIZE),
]


@pytest.mark.slow  # the lesson does it with two nets
@pytest.mark.parametrize("branches, rate, net, lost", BRANCHES)
def test_small_branches_are_hardly_used_and_those_of_full_size_are(branches, rate, net, lost):
    lesson = definitions()
    for seed in range(5):
        trained, gone = lost_without_branches(lesson, *branches, rate, seed, **net)
        assert trained > 0.8
        assert lost[0] < gone < lost[1]
        assert lost != OF_FULL_SIZE or trained - gone < 0.5


# norm, rate, starts; accuracy with the blocks trained, and frozen at random
BLOCKS = [
    ("batch_norm", 0.1, 5, (0.95, 1.0), (0.93, 0.98)),
    ("layer_norm", 0.1, 20, (0.95, 1.0), (0.93, 0.99)),
    ("layer_norm", 0.3, 20, (0.92, 1.0), (0.93, 0.99)),
    ("rms_norm", 0.3, 5, (0.88, 1.0), (0.6, 0.8)),
]


@pytest.mark.slow  # the lesson does it with one net
@pytest.mark.parametrize("norm, rate, starts, trained, frozen", BLOCKS)
def test_the_blocks_need_not_learn(norm, rate, starts, trained, frozen):
    lesson = definitions()
    for seed in range(starts):
        for learns, (least, most) in ((True, trained), (False, frozen)):
            how = {"depth": 30, "residual": True, "init": "torch", "seed": seed}
            net = training.mlp(NORMS[norm], **how)
            net[2:31].requires_grad_(learns)
            lesson["train"](net, steps=100, rate=rate)
            assert least < lesson["accuracy"](net) < most


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_with_rms_norm_frozen_blocks_are_slower_and_do_as_well_in_the_end(seed):
    lesson = definitions()
    net = training.mlp(layers.RMSNorm, depth=30, residual=True, init="torch", seed=seed)
    net[2:31].requires_grad_(False)
    lesson["train"](net, steps=400, rate=0.3)
    assert 0.94 < lesson["accuracy"](net) < 0.98


def absolute(h):
    return h / (h.abs().mean(-1, keepdim=True) + 1e-6)


def largest(h):
    return h / (h.abs().amax(-1, keepdim=True) + 1e-6)


def centred(h):
    return absolute(h - h.mean(-1, keepdim=True))


class RowNorm(nn.Module):
    def __init__(self, formula):
        super().__init__()
        self.formula = formula

    def forward(self, h):
        return self.formula(h)


@pytest.mark.slow
def test_of_norms_of_one_s_own_the_one_that_subtracts_the_mean_ends_ahead():
    """Each at the best of the check's rates."""
    lesson = definitions()

    def found(formula, rate, seed):
        how = {"depth": 30, "residual": True, "init": "torch", "seed": seed}
        net = training.mlp(lambda width: RowNorm(formula), **how)
        lesson["train"](net, steps=100, rate=rate)
        return lesson["accuracy"](net)

    for seed in range(5):
        assert 0.85 < found(absolute, 0.1, seed) < 0.957
        assert 0.85 < found(largest, 0.3, seed) < 0.957
        assert 0.957 < found(centred, 0.1, seed) < 0.99


@torch.no_grad()
@pytest.mark.parametrize("width", each([16, 64, 512], quick=64))
def test_rows_far_apart_lose_the_digits_and_rows_that_are_alike_keep_them(width):
    """BatchNorm in each layer, and RMSNorm in each branch: the spread does not decide."""
    lesson = definitions()
    data = lesson["data"]

    def spread_and_told(body):
        rows = equally_long(body(data.validation_x))
        spread = (rows - rows.mean(0)).square().mean().sqrt()
        return spread, lesson["told_apart"](rows, data.validation_y)

    for seed in range(6):
        how = {"depth": 30, "width": width, "init": "torch", "seed": seed}
        spread, told = spread_and_told(training.mlp(layers.BatchNorm1d, **how)[:-1])
        assert 0.7 < spread < 0.9
        assert 0.03 < told < 0.17
        spread, told = spread_and_told(training.mlp(layers.RMSNorm, residual=True, **how)[:31])
        assert 0.06 < spread < 0.12
        assert told > 0.3
