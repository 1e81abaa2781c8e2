"""Lesson 00's claims on other seeds, widths and depths, which no cell shows."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import measures, training
from normlib import layers
from tests.course.lesson_tables import NOTEBOOKS, each, run_cells

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def definitions() -> dict:
    """The lesson's digits, its own plain network and its loop; nothing is trained."""
    return run_cells("00_why_normalize.ipynb", "setup", "failure-net", "failure-loop")


NORMS = {
    "none": None,
    "batch_norm": layers.BatchNorm1d,
    "layer_norm": layers.LayerNorm,
    "rms_norm": layers.RMSNorm,
}
RATES = (0.1, 1.0, 10.0, 1e4)


# The signal is a product


@torch.no_grad()
def test_a_layer_multiplies_the_scale_by_nearly_the_same_factor_in_all_seeds():
    x = definitions()["data"].validation_x
    for width in (32, 64, 128):
        for seed in range(20):
            net = training.mlp(depth=30, width=width, init="torch", seed=seed)
            first = net[:2](x).square().mean()
            last = net[:-1](x).square().mean()
            factor = (last / first) ** (1 / 58)  # 29 layers, and the root
            assert 0.355 < factor < 0.435


@pytest.mark.parametrize("rate", each(RATES, quick=1.0))
def test_no_learning_rate_of_sgd_trains_the_thirty_layers(rate):
    lesson = definitions()
    net = lesson["plain_net"](30)
    lesson["train"](net, steps=100, rate=rate)
    assert lesson["accuracy"](net) < 0.14


@pytest.mark.slow
@pytest.mark.parametrize("optimizer, rate", [("sgd_momentum", 0.3), ("adam", 1e-3), ("adam", 3e-3)])
def test_nor_do_momentum_and_adam(optimizer, rate):
    lesson = definitions()
    net = lesson["plain_net"](30)
    run = training.train(net, lesson["data"], steps=400, lr=rate, optimizer=optimizer)
    assert run.validation_accuracy[-1] < 0.14


def test_what_training_moves_in_the_plain_net_is_the_same_for_all_images():
    lesson = definitions()
    net = lesson["plain_net"](30)
    lesson["train"](net, steps=100, rate=0.3)
    with torch.no_grad():
        rows = net[:-1](lesson["data"].validation_x)
    assert 1e-3 < rows.square().mean().sqrt() < 1e-2  # the biases of the last layers have moved
    assert (rows - rows.mean(0)).square().mean().sqrt() < 1e-11


@pytest.mark.parametrize("seed", range(3))
def test_torchs_own_biases_hide_the_fault_and_the_net_fails_as_well(seed):
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
    scale = rows.square().mean().sqrt()
    assert 0.05 < scale < 0.065
    assert (rows - rows.mean(0)).abs().max() < 1e-6 * scale  # all rows are the same
    lesson["train"](net, steps=100, rate=0.3)
    assert lesson["accuracy"](net) < 0.14


# What a linear probe finds


def separability(body, data):
    with torch.no_grad():
        known, new = body(data.train_x), body(data.validation_x)
    return measures.separability(known, data.train_y, new, data.validation_y)


@pytest.mark.parametrize("width", each([16, 32, 64, 128], quick=64))
@pytest.mark.parametrize("seeds", each([3, 20], quick=3))
def test_the_worst_residual_net_keeps_more_than_the_best_one_without(width, seeds):
    data = definitions()["data"]
    plain = []
    residual = []
    for seed in range(seeds):
        how = {"depth": 30, "width": width, "init": "torch", "seed": seed}
        for norm in NORMS.values():  # no last norm, no head
            plain.append(separability(training.mlp(norm, **how)[:-1], data))
            residual.append(separability(training.mlp(norm, residual=True, **how)[:31], data))
    assert max(plain) < min(residual)


@pytest.mark.parametrize("seed", each(list(range(5)), quick=0))
def test_after_200_residual_layers_only_norms_keep_the_digits(seed):
    data = definitions()["data"]
    how = {"depth": 200, "residual": True, "init": "torch", "seed": seed}
    for name, norm in NORMS.items():
        kept = separability(training.mlp(norm, **how)[:201], data)  # no last norm, no head
        assert kept < 0.3 if name == "none" else kept > 0.5


def orthogonal(size, generator):
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator))
    return q * r.diagonal().sign()


def mirrored_net(plain, seed):
    """Each layer adds up again what the ReLU before it has split: relu(z) - relu(-z) is z."""
    generator = torch.Generator().manual_seed(seed)
    net = plain(30)
    for place in range(0, 60, 2):
        half = orthogonal(64, generator)[:32] if place == 0 else orthogonal(32, generator)
        rows = torch.cat([half, -half])
        net[place].weight.data = rows if place == 0 else torch.cat([rows, -rows], 1)
    return net


@pytest.mark.parametrize("seed", each(list(range(3)), quick=0))
def test_paired_weights_need_no_repair(seed):
    """Independent weights lose the image; looks-linear ones keep both, and learn."""
    lesson = definitions()
    net = mirrored_net(lesson["plain_net"], seed)
    with torch.no_grad():
        rows = net[:-1](lesson["data"].validation_x)
    assert 0.6 < rows.square().mean().sqrt() < 0.9
    lesson["train"](net, steps=100, rate=0.03)
    assert 0.93 < lesson["accuracy"](net) < 0.98


# The example of Keras


def keras_example(order, seed):
    """The network of its CIFAR-10 example, with Glorot's variances as the order counts the fans."""
    convolutions = [(3, 32, 1), (32, 32, 0), (32, 64, 1), (64, 64, 0)]
    parts = []
    for place, (inputs, outputs, padding) in enumerate(convolutions):
        parts += [nn.Conv2d(inputs, outputs, 3, padding=padding), nn.ReLU()]
        if place % 2:
            parts += [nn.MaxPool2d(2), nn.Dropout(0.25)]
    parts += [nn.Flatten(), nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.5), nn.Linear(512, 10)]
    net = nn.Sequential(*parts)
    generator = torch.Generator().manual_seed(seed)
    for layer in net:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            outputs, inputs, *side = layer.weight.shape
            fans = inputs + outputs
            if side:
                fans = 9 * fans if order == "right" else 6 * inputs * outputs
            bound = (6 / fans) ** 0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            nn.init.zeros_(layer.bias)
    return net.float()


@pytest.mark.slow
@pytest.mark.parametrize("order", ["right", "wrong"])
def test_the_example_of_keras_learns_or_not_as_its_fans_are_counted(order):
    """Its optimizer, batches of 32, six epochs; the digits in 16 by 16 pixels and three colors."""
    data = training.digits()
    low, high = data.train_x.min(), data.train_x.max()

    def images(x):
        pixels = ((x - low) / (high - low)).float().reshape(-1, 1, 8, 8)
        return F.interpolate(pixels, size=(16, 16), mode="bilinear").expand(-1, 3, -1, -1)

    x, new_x = images(data.train_x), images(data.validation_x)
    net = keras_example(order, seed=0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(6):
            losses = []
            for batch in torch.randperm(1000)[:992].split(32):
                loss = F.cross_entropy(net(x[batch]), data.train_y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            assert order == "right" or 2.297 < sum(losses) / len(losses) < 2.308
    found = (net.eval()(new_x).argmax(1) == data.validation_y).double().mean()
    assert found > 0.88 if order == "right" else found < 0.14


# The repaired networks


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, norm",
    [("plain", None), ("shortcut", layers.LayerNorm), ("shortcut", layers.BatchNorm1d)],
)
def test_a_net_of_the_lesson_ends_as_in_its_record(name, norm):
    lesson = definitions()
    record = training.load_record(NOTEBOOKS / f"records/opening_{name}.json")
    named = next(key for key, value in NORMS.items() if value is norm)
    final = next(run for run in record.runs if run.phase == "final" and run.norm == named)
    model = {name: value for name, value in record.settings.model.items() if name != "build"}
    net = training.mlp(norm, seed=final.seed, **model)
    lesson["train"](net, steps=100, rate=final.lr)
    assert abs(round(397 * lesson["accuracy"](net)) - final.validation[0]) <= 2  # images


# norm, rate, seeds; accuracy with the blocks trained, and frozen at random
BLOCKS = [
    ("batch_norm", 0.1, 5, (0.95, 1.0), (0.93, 0.98)),
    ("layer_norm", 0.1, 20, (0.95, 1.0), (0.93, 0.99)),
    ("layer_norm", 0.3, 20, (0.92, 1.0), (0.93, 0.99)),
    ("rms_norm", 0.3, 5, (0.88, 1.0), (0.6, 0.8)),
]


@pytest.mark.slow  # the lesson does it with one net
@pytest.mark.parametrize("norm, rate, seeds, trained, frozen", BLOCKS)
def test_the_blocks_need_not_learn(norm, rate, seeds, trained, frozen):
    lesson = definitions()
    for seed in range(seeds):
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


@pytest.mark.slow  # the lesson does it with one net
@pytest.mark.parametrize("seed", range(5))
def test_the_last_19_blocks_of_a_trained_net_are_worth_a_few_points_and_the_first_all(seed):
    lesson = definitions()
    net = training.mlp(nn.LayerNorm, depth=30, residual=True, init="torch", seed=seed)
    lesson["train"](net, steps=100, rate=0.1)
    whole = lesson["accuracy"](net)
    assert whole - lesson["accuracy"](net[:12] + net[31:]) < 0.04
    assert lesson["accuracy"](net[:2] + net[21:]) < 0.5  # the last 10 blocks alone


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
    """At the check's learning rate."""
    lesson = definitions()

    def found(formula, seed):
        how = {"depth": 30, "residual": True, "init": "torch", "seed": seed}
        net = training.mlp(lambda width: RowNorm(formula), **how)
        lesson["train"](net, steps=100, rate=0.1)
        return lesson["accuracy"](net)

    for seed in range(5):
        assert 0.85 < found(absolute, seed) < 0.957
        assert 0.6 < found(largest, seed) < 0.9
        assert 0.957 < found(centred, seed) < 0.99


# Accuracy against depth, on the signals

RECORDS = ["depth", "depth_narrow", "depth_wide", "depth_sgd", "depth_no_warmup"]
BOTH = ["batch_norm_residual", "group_norm_residual"]
NEITHER = ["default_plain", "he_plain"]
PLACES = ("plain", "residual")


def accuracies(record, kind, depth):
    """The test accuracy of each seed."""
    loaded = training.load_record(NOTEBOOKS / f"records/{record}.json")
    named = (f"{kind}_{depth}", "final")
    found = [run.test_right for run in loaded.runs if (run.norm, run.phase) == named]
    return torch.tensor(found) / loaded.settings.data.test


def gained(record, kind):
    """By 16 layers, over 4."""
    return accuracies(record, kind, 16).mean() - accuracies(record, kind, 4).mean()


@pytest.mark.parametrize("record", RECORDS)
def test_both_repairs_gain_with_depth_and_neither_loses(record):
    assert all(gained(record, kind) > 0 for kind in BOTH)
    assert all(gained(record, kind) < -0.01 for kind in NEITHER)


@pytest.mark.parametrize("record", RECORDS)
def test_at_sixteen_layers_the_best_network_has_both(record):
    others = [*BOTH[1:], *NEITHER, "batch_norm_plain", "none_residual"]
    most = max(accuracies(record, kind, 16).mean() for kind in others)
    assert accuracies(record, BOTH[0], 16).mean() > most


def test_with_four_times_the_steps_too_both_gain_and_neither_loses():
    assert gained("depth_long", BOTH[0]) > 0
    assert all(gained("depth_long", kind) < -0.01 for kind in NEITHER)
    others = [*NEITHER, "none_residual"]
    most = max(accuracies("depth_long", kind, 16).mean() for kind in others)
    assert accuracies("depth_long", BOTH[0], 16).mean() > most
    assert gained("depth_long", "none_residual") > 0  # the exception that the page names


def test_sixteen_layers_with_both_beat_two_and_with_neither_two_beat_sixteen():
    """In each seed of those with a norm; and the worst of these is ahead of all without one."""
    for kind in BOTH:
        assert accuracies("depth", kind, 16).min() > accuracies("depth", kind, 2).max()
    for kind in NEITHER:
        assert accuracies("depth", kind, 16).mean() < accuracies("depth", kind, 2).mean() - 0.04
    without = [f"{kind}_{place}" for kind in ("none", "he", "default") for place in PLACES]
    most = max(accuracies("depth", kind, 16).max() for kind in without)
    assert min(accuracies("depth", kind, 16).min() for kind in BOTH) > most


def test_with_batch_norm_each_seed_gains_from_8_to_16_layers():
    assert (accuracies("depth", BOTH[0], 16) > accuracies("depth", BOTH[0], 8)).all()


def test_up_to_8_layers_batch_norm_alone_does_as_well():
    for depth in (2, 4, 8):
        alone, beside = (
            accuracies("depth", f"batch_norm_{place}", depth).mean() for place in PLACES
        )
        assert abs(alone - beside) < 0.002


def test_as_many_parameters_in_four_layers_do_as_well_and_in_two_they_do_not():
    deep = accuracies("depth", BOTH[0], 16)
    assert 0 < deep.mean() - accuracies("depth_width", BOTH[0], 4).mean() < 0.003
    assert accuracies("depth_width", BOTH[0], 2).max() < deep.min()
    nets = training.load_record(NOTEBOOKS / "records/depth_width.json").settings.nets.values()
    sizes = [
        sum(
            p.numel()
            for p in training.signal_cnn(nn.BatchNorm1d, residual=True, **net).parameters()
        )
        for net in ({"depth": 16, "width": 16}, *(only_shape(net) for net in nets))
    ]
    assert max(sizes) < 1.02 * min(sizes)


def only_shape(net):
    return {name: net[name] for name in ("depth", "width")}


def test_small_branches_lose_nothing_with_depth_and_end_below_the_repaired_ones():
    for kind in ("none", "he"):
        assert gained("depth_constants", f"{kind}_tenth") > 0
        for name in ("tenth", "by_depth"):
            assert accuracies("depth_constants", f"{kind}_{name}", 16).mean() < 0.95


@torch.no_grad()
def test_random_layers_make_the_outputs_of_different_images_alike():
    """The mean cosine of all pairs of images is 0.48 before and nearly 1 after thirty layers."""
    lesson = definitions()
    x = lesson["data"].validation_x
    for seed in range(5):
        net = lesson["plain_net"](30, init=nn.init.kaiming_normal_, seed=seed)
        found = [F.normalize(net[:layers_](x), dim=1).mean(0).square().sum() for layers_ in (0, 60)]
        assert found[0] < 0.5 and found[1] > 0.9


@pytest.mark.parametrize("rate, shuffled", [(1e-3, False), (0.1, True)])
def test_a_loss_at_ln_10_has_other_causes_and_the_spread_tells(rate, shuffled):
    lesson = definitions()
    data = lesson["data"]
    if shuffled:
        order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
        data = replace(data, train_y=data.train_y[order])
        lesson["train"].__globals__["data"] = data  # which the loop reads
    net = lesson["plain_net"](3)
    lesson["train"](net, steps=100, rate=rate)
    with torch.no_grad():
        outputs = net(data.train_x)
    assert abs(F.cross_entropy(outputs, data.train_y) - 2.303) < 0.02
    assert outputs.std(0).mean() > 0.01
