"""The claims of lesson 01: each headline with its controls, and the traps of "In the field"."""

import copy
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.checkpoint import checkpoint

from normcourse import draw, training
from normlib import functional
from tests.course.lesson_tables import OWN, each
from tests.course.solutions import load

pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")

RECORDS = Path(__file__).resolve().parents[2] / "notebooks" / "records"
KINDS = {
    OWN: {},
    "half the width": {"width": 16},
    "twice the width": {"width": 64},
    "four times the steps": {"steps": 400},
    "other seeds and batches": {"seed": 1},
}
HALF = 0.5  # what five nets that learn reach on average
FAILS = 0.3
CLEARLY = 0.1


class Norm(nn.Module):
    """Batch norm of several nets side by side, (nets, samples, features), by the library."""

    def __init__(self, shape: tuple[int, int, int], eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.mean = torch.zeros(shape).flatten()
        self.var = torch.ones(shape).flatten()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        nets, samples, features = x.shape
        channels = x.transpose(0, 1).reshape(samples, nets * features)
        y = functional.batch_norm(
            channels,
            self.mean,
            self.var,
            self.weight.flatten(),
            self.bias.flatten(),
            self.training,
            eps=self.eps,
        )
        return y.reshape(samples, nets, features).transpose(0, 1)


class Shaken(Norm):
    """The statistics of the whole batch, with errors as large as those of a batch of GROUP."""

    GROUP = 50
    errors = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        if not self.training:
            return y
        nets, samples, features = x.shape
        shape = (nets, samples // self.GROUP, features)
        of_mean, of_size = torch.randn(2, *shape, generator=self.errors) / math.sqrt(self.GROUP)
        shift = of_mean.repeat_interleave(self.GROUP, 1)
        stretch = 1 + of_size.repeat_interleave(self.GROUP, 1) / math.sqrt(2)
        xhat = (y - self.bias) / self.weight
        return self.weight * (xhat + shift) * stretch + self.bias


def accuracies(data, norm, size, rate, steps=100, width=32, depth=1, seed=0, **how) -> Tensor:
    nets = training.stacked_mlp(depth, norm, width=width, seed=seed)
    training.train_stacked(nets, data, steps=steps, lr=rate, batch_size=size, seed=seed, **how)
    return training.stacked_accuracy(nets, data)


def best_of(rates, data, norm, size, **kind) -> Tensor:
    """Each net at the best of these learning rates."""
    return torch.stack([accuracies(data, norm, size, rate, **kind) for rate in rates]).amax(0)


# The reader's layer


def test_the_layer_of_exercise_2_trains_as_torchs():
    data = training.signals().images()
    nets = [
        training.signal_cnn(norm, init="he")
        for norm in (load("01_batch_norm")["BatchNorm"], nn.BatchNorm1d)
    ]
    for net in nets:
        training.train(net, data, steps=10, lr=0.01, optimizer="adam")
    ours, theirs = (net.state_dict() for net in nets)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-6, atol=1e-9)  # 10 steps of rounding


# The neighbors


def test_sorted_neighbors_spoil_the_answers_on_the_digits_too(data):
    nets = training.stacked_mlp(1, Norm)
    training.train_stacked(nets, data, steps=100, lr=0.5)
    nets.train()

    @torch.no_grad()
    def share(order):
        right = 0
        for places in order.split(16):
            answers = nets(data.validation_x[places]).argmax(-1)
            right += (answers == data.validation_y[places]).sum()
        return right / (5 * len(order))

    assert share(torch.arange(397)) > 0.9
    assert share(data.validation_y.argsort(stable=True)) < FAILS


# The learning rate


def at_rates(optimizer) -> dict[tuple[str, float], list[float]]:
    record = training.load_record(RECORDS / f"rates_{optimizer}.json")
    return {
        key: [0.0 if run.diverged else run.validation[-1] / 1000 for run in runs]
        for key, runs in training.sweep(record, "lr").items()
    }


@pytest.mark.parametrize("optimizer", ["sgd", "sgd_momentum", "adam"])
def test_five_to_ten_times_the_learning_rate_and_a_higher_end(optimizer):
    found = at_rates(optimizer)
    largest, best = {}, {}
    for norm in ("none", "batch_norm"):
        by_rate = {rate: ends for (name, rate), ends in found.items() if name == norm}
        best[norm] = max(map(statistics.mean, by_rate.values()))
        learns = [rate for rate, ends in by_rate.items() if min(ends) > best[norm] / 2]
        largest[norm] = max(learns)
        assert largest[norm] < max(by_rate)  # the grid shows where each of them fails
    assert 4.99 < largest["batch_norm"] / largest["none"] < 10.01
    assert best["batch_norm"] > best["none"] + 0.01


@pytest.mark.parametrize(
    ("optimizer", "fails", "learns"),
    [("sgd", 1.0, 2.0), ("sgd_momentum", 0.2, 1.0), ("adam", 0.1, 0.5), ("adamw", 0.1, 0.5)],
)
def test_on_the_digits_as_well(data, optimizer, fails, learns):
    def mean(norm, rate):
        nets = [training.mlp(norm, depth=6, width=32, seed=seed) for seed in range(3)]
        runs = [
            training.train(net, data, steps=100, lr=rate, optimizer=optimizer, seed=seed)
            for seed, net in enumerate(nets)
        ]
        return statistics.mean(0 if run.diverged else run.validation_accuracy[-1] for run in runs)

    assert mean(None, fails) < FAILS
    assert mean(nn.BatchNorm1d, learns) > HALF


def centered(data):
    """Each pixel without its mean over the training images."""
    mean = data.train_x.mean(0)
    return replace(data, train_x=data.train_x - mean, validation_x=data.validation_x - mean)


@pytest.mark.parametrize("kind", each(KINDS))
def test_six_layers_learn_at_the_rate_2_with_batch_norm_or_a_clipped_gradient(data, kind):
    how = {"depth": 6} | KINDS[kind]
    assert (accuracies(data, Norm, 64, 2.0, **how) > HALF).all()
    for images in (data, centered(data)):
        assert (accuracies(images, None, 64, 2.0, **how) < FAILS).all()
    assert (accuracies(data, None, 64, 2.0, clip=0.3, **how) > HALF).all()


# The noise


def noise() -> dict[str, dict[float, float]]:
    """{norm: {learning rate: accuracy on validation and test images, the mean of five seeds}}."""
    found: dict[str, dict[float, float]] = {}
    for (norm, rate), runs in training.sweep(
        training.load_record(RECORDS / "noise.json"), "lr"
    ).items():
        right = [0 if run.diverged else run.validation[-1] + run.test_right for run in runs]
        found.setdefault(norm, {})[rate] = statistics.mean(right) / 797
    return found


def test_with_the_statistics_of_all_the_data_batch_norm_ends_lower():
    found = noise()
    exact, noisy = found["torch_batch_norm"], found["batch_norm_ghost"]
    learned = [rate for rate, accuracy in exact.items() if accuracy > HALF]
    assert learned == [0.1, 0.2, 0.5, 1.0, 2.0]
    assert all(noisy[rate] - exact[rate] > 0.01 for rate in learned)


def test_exact_statistics_need_a_large_rate_and_noisy_ones_do_not():
    found = noise()
    none, exact, noisy = (found[n] for n in ("none", "torch_batch_norm", "batch_norm_ghost"))
    for rate in (0.1, 0.2):  # the rates at which all three learn
        assert exact[rate] < none[rate] < noisy[rate]
    assert max(none.values()) < max(exact.values()) < max(noisy.values())


@pytest.mark.slow  # the record above shows the same with real neighbors
def test_random_errors_do_what_the_neighbors_do(data):
    how = {"size": 1000, "rate": 0.5, "steps": 400, "depth": 6}
    exact, shaken = (accuracies(data, norm, **how) for norm in (Norm, Shaken))
    assert shaken.min() > exact.max()


# Pairs


def mild(shape):
    return Norm(shape, eps=1.0)


def tiny(shape):
    return Norm(shape, eps=1e-12)


@pytest.mark.parametrize("kind", each(KINDS))
def test_from_pairs_batch_norm_is_behind_and_learns_no_hidden_weights(data, kind):
    rates = (0.05, 0.2)
    none = best_of(rates, data, None, 2, **KINDS[kind])
    usual = best_of(rates, data, Norm, 2, **KINDS[kind])
    frozen = best_of(rates, data, Norm, 2, hidden_lr=0.0, **KINDS[kind])
    rescued = best_of(rates, data, mild, 2, **KINDS[kind])
    assert (none - usual > CLEARLY).all()
    assert usual.mean() <= frozen.mean() + 0.02
    assert (rescued - usual > CLEARLY).all()


def test_eps_is_all_that_passes_a_pair():
    for eps, d in ((1e-5, 1.0), (1e-5, 3e-3), (1e-12, 1e-4)):
        x = torch.tensor([[5 - d], [5 + d]], requires_grad=True)
        y = functional.batch_norm(x, None, None, training=True, eps=eps)
        (gradient,) = torch.autograd.grad(y[1, 0] - y[0, 0], x)
        want = eps / (d**2 + eps) ** 1.5  # of each of the two
        torch.testing.assert_close(gradient[:, 0], torch.tensor([-want, want]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2])
def test_with_a_tiny_eps_training_the_hidden_weights_below_pairs_is_freezing_them(data, rate):
    trained, frozen = (
        accuracies(data, tiny, 2, rate, hidden_lr=hidden).mean() for hidden in (None, 0.0)
    )
    assert abs(trained - frozen) < 0.02


# In the field


def seen(*batches) -> nn.BatchNorm1d:
    """A layer in training that has seen these batches of three features."""
    layer = nn.BatchNorm1d(3)
    for batch in batches:
        layer(batch)
    return layer


def buffers(layer) -> list[Tensor]:
    return [buffer.clone() for buffer in layer.buffers()]


BATCH = 2 * draw(8, 3, seed=1).double() + 1


def test_a_bias_before_the_layer_is_taken_out_again():
    bias = draw(3, seed=2)
    torch.testing.assert_close(nn.BatchNorm1d(3)(BATCH + bias), nn.BatchNorm1d(3)(BATCH))


def test_a_last_batch_of_one_vector_raises_and_of_one_image_does_not():
    own = load("01_batch_norm")["BatchNorm"]
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        nn.BatchNorm1d(3)(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="one value per channel"):
        own(3)(torch.zeros(1, 3))
    for kind in (nn.BatchNorm2d, own):
        kind(3)(torch.zeros(1, 3, 2, 2))


def test_a_last_batch_of_three_counts_as_much_as_a_full_one():
    small, layer = BATCH[:3], seen()
    layer(small)
    torch.testing.assert_close(layer.running_mean, 0.1 * small.mean(0))


def test_momentum_0_stops_the_buffers_and_still_reads_the_batch():
    layer = seen(BATCH)
    layer.momentum = 0.0
    before = buffers(layer)[:2]
    y = layer(BATCH[:4])
    torch.testing.assert_close(buffers(layer)[:2], before)
    torch.testing.assert_close(y, F.batch_norm(BATCH[:4], None, None, training=True))


class OfTorch(nn.modules.batchnorm._BatchNorm):
    """What a layer of one's own inherits from, so that torch's tools find it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, training=self.training)


@pytest.mark.parametrize(("kind", "is_found"), [(OfTorch, True), (None, False)])
def test_torchs_tools_find_only_what_inherits(kind, is_found):
    own = (kind or load("01_batch_norm")["BatchNorm"])(3)
    own.num_batches_tracked.fill_(7)
    net = nn.Sequential(own)
    update_bn([BATCH], net)
    assert (own.num_batches_tracked.item() != 7) == is_found
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)[0]
    assert isinstance(converted, nn.SyncBatchNorm) == is_found


def test_accumulated_gradients_do_not_join_the_statistics():
    whole, halves = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    together = whole(BATCH)
    apart = torch.cat([halves(half) for half in BATCH.split(4)])
    assert not torch.allclose(together, apart)
    assert halves.num_batches_tracked.item() == 2


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_updates_the_buffers_twice(reentrant):
    once, twice, mended = (seen(BATCH) for _ in range(3))
    mended.momentum = 1 - math.sqrt(1 - once.momentum)
    x = (BATCH + 1).requires_grad_()
    once(x).square().sum().backward()
    for layer in (twice, mended):
        checkpoint(layer, x, use_reentrant=reentrant).square().sum().backward()
    assert twice.num_batches_tracked.item() == once.num_batches_tracked.item() + 1
    assert not torch.allclose(twice.running_mean, once.running_mean)
    torch.testing.assert_close(mended.running_mean, once.running_mean)
    torch.testing.assert_close(mended.running_var, once.running_var)


def test_averaged_weights_need_their_statistics_measured_again():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, momentum=None))
    averaged = AveragedModel(net)
    averaged.update_parameters(net)
    with torch.no_grad():
        net[0].weight.mul_(3.0)
        net(BATCH)
    averaged.update_parameters(net)
    norm = averaged.module[1]
    inside = averaged.module[0](BATCH)
    assert not torch.allclose(norm.running_mean, inside.mean(0))
    update_bn([BATCH], averaged)
    torch.testing.assert_close(norm.running_mean, inside.mean(0))


def test_one_inf_stays_in_the_buffers():
    layer = seen(BATCH)
    ill = BATCH.clone()
    ill[0, 1] = math.inf
    layer(ill)
    layer(BATCH)  # a good batch does not wash it out
    healthy = copy.deepcopy(layer).eval()(BATCH).isfinite().all(0)
    assert healthy.tolist() == [True, False, True]
    layer.reset_running_stats()
    layer(BATCH)
    assert layer.eval()(BATCH).isfinite().all()


# The gradient


def bracket(g, xhat) -> Tensor:
    return g - g.mean(0) - xhat * (g * xhat).mean(0)


def test_of_the_nets_gradients_about_nine_tenths_pass_a_batch_of_64(data):
    nets = training.stacked_mlp(1, Norm)
    training.train_stacked(nets, data, steps=100, lr=0.2)
    linear, _, _, head = nets
    batch = data.train_x[:64]
    h = linear(batch).detach().transpose(0, 1).flatten(1)  # (samples, nets * features)
    xhat = functional.batch_norm(h, None, None, training=True).requires_grad_()
    gain, bias = (p.flatten() for p in (nets[1].weight, nets[1].bias))
    y = (gain * xhat + bias).unflatten(1, (5, -1)).transpose(0, 1)
    scores = head(torch.relu(y)).flatten(0, 1)
    loss = F.cross_entropy(scores, data.train_y[:64].repeat(5))
    (g,) = torch.autograd.grad(loss, xhat)
    share = bracket(g, xhat.detach()).square().sum() / g.square().sum()
    assert 0.85 < share < 0.97
