"""Training: the split is fixed, the loop is seeded and quiet, the models take any norm."""

import importlib.util
import math
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from normcourse import draw, training
from normcourse.training.data import bundled_digits
from normcourse.training.looks import gradient_norm
from normlib import layers

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


@pytest.mark.slow
def test_the_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    expected = [torch.from_numpy(array) for array in load_digits(return_X_y=True)]
    for got, want in zip(bundled_digits(), expected, strict=True):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


@pytest.mark.parametrize("missing", ["package", "file"])
def test_digits_that_are_not_there_are_an_error_that_says_what_to_install(
    missing, monkeypatch, tmp_path
):
    spec = None if missing == "package" else SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    with pytest.raises(
        ModuleNotFoundError, match=r"digits\.csv\.gz, .*not found\. Install scikit-learn"
    ):
        training.digits()


@pytest.mark.slow
def test_digits_are_read_without_importing_scikit_learn():
    script = (
        "import sys; from normcourse import training; training.digits(); "
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_the_split_is_complete_standardized_and_has_no_sample_twice(data):
    assert [len(y) for y in (data.train_y, data.validation_y, data.test_y)] == [1000, 397, 400]
    x = torch.cat([data.train_x, data.validation_x, data.test_x])
    y = torch.cat([data.train_y, data.validation_y, data.test_y])
    pixels, labels = bundled_digits()
    assert torch.equal(y.bincount(), labels.bincount())
    assert x.unique(dim=0).shape == pixels.unique(dim=0).shape  # standardizing is one-to-one
    assert x.dtype == torch.float64
    # Mean and std of 64,000 float64 numbers of order 1: the sum's rounding is far below 1e-12.
    assert abs(data.train_x.mean()) < 1e-12
    assert abs(data.train_x.std() - 1) < 1e-12


def test_images_are_the_same_pixels_in_rows(data):
    images = data.images()
    assert images.train_x.shape == (1000, 1, 8, 8)
    assert torch.equal(images.test_x[3, 0, 2], data.test_x[3, 16:24])


MODELS = {
    "mlp": (training.mlp, [None, layers.BatchNorm1d, layers.LayerNorm, layers.RMSNorm], (5, 64)),
    "cnn": (
        training.cnn,
        [None, layers.BatchNorm2d, lambda c: layers.GroupNorm(4, c)],
        (5, 1, 8, 8),
    ),
    "transformer": (training.transformer, [None, layers.LayerNorm, layers.RMSNorm], (5, 64)),
}
CASES = [(name, norm) for name, (_, norms, _) in MODELS.items() for norm in norms]


@pytest.mark.parametrize(("name", "norm"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_models_take_any_norm_and_repeat_from_their_seed(name, norm):
    build, _, shape = MODELS[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    output = build(norm, seed=3)(x)
    assert output.shape == (5, 10)
    assert torch.equal(output, build(norm, seed=3)(x))
    assert not torch.equal(output, build(norm, seed=4)(x))


def test_weights_have_the_variance_of_he_and_of_xavier():
    # 160,000 draws: std known to 1/sqrt(320,000), x 5
    weight = training.mlp(width=400, depth=2)[2].weight
    assert math.isclose(weight.std().item(), math.sqrt(2 / 400), rel_tol=5 / math.sqrt(320_000))
    qkv = training.transformer(width=256, heads=4)[3].branch.qkv.weight  # (768, 256)
    assert math.isclose(
        qkv.std().item(), math.sqrt(2 / 1024), rel_tol=5 / math.sqrt(2 * qkv.numel())
    )


PLACED = {
    "pre": lambda x, f, n: x + f(n(x)),
    "post": lambda x, f, n: n(x + f(x)),
    "output": lambda x, f, n: x + n(f(x)),
    "sandwich": lambda x, f, n: x + n(f(n(x))),
}


@pytest.mark.parametrize("placement", PLACED)
def test_a_block_has_its_norm_where_its_placement_says(placement):
    branch = nn.Linear(8, 8)
    x = draw(2, 3, 8)
    block = training.Block(branch, layers.LayerNorm, 8, placement)
    wanted = PLACED[placement](x, branch, lambda h: nn.functional.layer_norm(h, (8,)))
    torch.testing.assert_close(block(x), wanted)
    bare = training.Block(branch, None, 8, placement)
    assert torch.equal(bare(x), x + branch(x))


def test_a_branch_gain_multiplies_each_branch_and_nothing_else():
    net = training.mlp(depth=3, width=8, residual=True, branch_gain=0.1)
    x = draw(5, 64)
    h = net[1](net[0](x))
    for block in net[2:4]:
        h = h + 0.1 * torch.relu(block.branch[0](h))
    torch.testing.assert_close(net(x), net[-1](h))
    assert len(list(net.parameters())) == len(list(training.mlp(depth=3, width=8).parameters()))
    with pytest.raises(ValueError, match="pass residual=True"):
        training.mlp(branch_gain=0.1)


@pytest.mark.parametrize(("normed", "blocks", "last"), [("branches", 3, 0), ("last", 0, 1)])
def test_a_residual_network_has_its_norms_in_its_branches_or_before_its_head(normed, blocks, last):
    def norms(net):
        return sum(isinstance(part, layers.LayerNorm) for part in net.modules())

    net = training.residual_mlp(layers.LayerNorm, depth=3, width=8, normed=normed)
    assert (norms(net[:4]), norms(net[4:])) == (blocks, last)
    net = training.mlp(layers.LayerNorm, depth=4, width=8, residual=True, normed=normed)
    assert (norms(net[:5]), norms(net[5:])) == (blocks, last)
    for build in (training.residual_mlp, partial(training.mlp, residual=True)):
        with pytest.raises(ValueError, match="'all', 'branches', 'last', got 'first'"):
            build(normed="first")
    with pytest.raises(ValueError, match="normed='last' is for residual networks"):
        training.mlp(normed="last")


def test_an_unknown_placement_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="'pre', 'post', 'output', 'sandwich', got 'middle'"):
        training.Block(nn.Linear(8, 8), None, 8, "middle")


def test_skip_init_starts_as_the_identity_and_learns_to_use_its_branch():
    x = draw(2, 8)
    block = training.Block(nn.Linear(8, 8), skip_init=True)
    assert torch.equal(block(x), x)
    block(x).sum().backward()
    assert block.gain.grad != 0
    torch.testing.assert_close(block.gain.grad, block.branch(x).sum())


@pytest.mark.parametrize("placement", PLACED)
def test_only_post_ln_has_no_last_norm(placement):
    """Post-LN's blocks end with one."""
    build = partial(training.residual_mlp, layers.LayerNorm, placement=placement)
    for model in (build(), training.transformer(layers.LayerNorm, placement=placement)):
        behind = list(model)[len(model) - 3 :]
        assert any(isinstance(layer, layers.LayerNorm) for layer in behind) is (placement != "post")


def test_a_residual_connection_adds_what_each_layer_but_the_first_reads():
    model = training.mlp(layers.LayerNorm, depth=3, width=8, residual=True)
    first, *_, head = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
    x = draw(5, 64)
    h = first(x).relu()
    for block in (module for module in model if isinstance(module, training.Block)):
        h = h + block.branch[0](nn.functional.layer_norm(h, (8,))).relu()
    torch.testing.assert_close(model(x), head(nn.functional.layer_norm(h, (8,))))
    plain = training.mlp(depth=3, width=8, residual=True)
    assert sum(isinstance(module, training.Block) for module in plain) == 2


def test_weights_start_in_the_size_that_is_asked_for_and_biases_at_0():
    reference = nn.Linear(400, 400).weight.std().item()
    weight = training.mlp(width=400, depth=2, init="torch")[2].weight
    # 160,000 draws each: a std is known to 1 / sqrt(320,000); five of them, and as much for torch's
    assert math.isclose(weight.std().item(), reference, rel_tol=10 / math.sqrt(320_000))
    named = training.mlp(depth=3, init="torch").named_parameters()
    assert all(not value.any() for name, value in named if name.endswith("bias"))
    with pytest.raises(ValueError, match="'torch', 'default', got 'kaiming'"):
        training.mlp(init="kaiming")


@pytest.mark.parametrize("build", [training.mlp, training.signal_cnn])
def test_the_default_initialization_draws_weights_and_biases_as_torch_does(build):
    ours = build(depth=3, width=256, init="default")
    torch.manual_seed(0)
    theirs = build(depth=3, width=256)
    kinds = nn.Linear | nn.Conv1d
    for layer, other in zip(ours.modules(), theirs.modules(), strict=True):
        if not isinstance(layer, kinds) or layer.weight.shape[0] < 256:
            continue
        other.reset_parameters()
        for name in ("weight", "bias"):
            drawn, expected = getattr(layer, name), getattr(other, name)
            # uniform draws: both maxima are near the bound, within 10 / n of it (chance e^-10)
            bound = layer.weight[0].numel() ** -0.5
            for values in (drawn, expected):
                assert bound * (1 - 10 / values.numel()) < values.abs().max() <= bound
            # of n draws a mean is known to std / sqrt(n): five of them
            assert abs(drawn.mean()) < 5 * bound / math.sqrt(3 * drawn.numel())
    again = build(depth=3, width=256, init="default")
    assert torch.equal(
        parameters_to_vector(again.parameters()), parameters_to_vector(ours.parameters())
    )


def run(data, **changes):
    return training.train(
        training.mlp(layers.BatchNorm1d, depth=2, width=16), data, **{"steps": 12} | changes
    )


def test_a_run_repeats_from_its_seed_and_learns(data):
    first, second, other = run(data, lr=0.1), run(data, lr=0.1), run(data, lr=0.1, seed=1)
    assert first.losses == second.losses != other.losses
    assert len(first.losses) == 12
    assert first.losses[-1] < first.losses[0] / 1.5
    assert first.steps == [12]
    assert first.validation_accuracy[0] > 0.3  # ten classes: 0.1 by chance


@pytest.mark.parametrize("optimizer", training.OPTIMIZERS)
def test_the_first_step_is_the_optimizers_own(data, optimizer):
    ours, theirs = (training.mlp(depth=1, width=16) for _ in range(2))
    training.train(ours, data, steps=1, lr=0.01, optimizer=optimizer)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))[:64]
    loss = nn.functional.cross_entropy(theirs(data.train_x[order]), data.train_y[order])
    loss.backward()
    training.OPTIMIZERS[optimizer](theirs.parameters(), lr=0.01, weight_decay=0.0).step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_longer_gradient_is_shortened_to_the_length_of_clip(data):
    """SGD's step is the rate times the gradient: no longer than rate times clip, in one line."""
    start = parameters_to_vector(training.mlp(depth=1, width=16).parameters()).detach()
    steps = []
    lengths = []
    for clip in (None, 0.1, 100.0):
        model = training.mlp(depth=1, width=16)
        record = training.train(model, data, steps=1, lr=0.5, clip=clip, watch=gradient_norm)
        lengths += record.watched
        steps.append(parameters_to_vector(model.parameters()).detach() - start)
    free, shortened, untouched = steps
    assert 0.1 < lengths[0] < 100
    assert lengths == [lengths[0]] * 3  # what is watched is the gradient before
    assert torch.equal(untouched, free)
    # torch divides by the length plus 1e-6: below 1e-6 / 0.1 of the step
    torch.testing.assert_close(shortened, free * 0.1 / lengths[0], rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan])
def test_a_length_to_clip_at_is_above_0(data, clip):
    with pytest.raises(ValueError, match=f"above 0, got {clip}"):
        training.train(training.mlp(depth=1, width=16), data, steps=1, clip=clip)


def test_warm_up_raises_the_rate_step_by_step(data):
    """With one step, warmup=4 is a fifth of the rate: SGD moves the weights a fifth as far."""
    start = training.mlp(depth=1, width=16)[0].weight
    moved = []
    for warmup in (0, 4):
        model = training.mlp(depth=1, width=16)
        training.train(model, data, steps=1, lr=0.5, warmup=warmup)
        moved.append(model[0].weight - start)
    torch.testing.assert_close(
        moved[1] * 5, moved[0]
    )  # default tolerance: one subtraction of order-1 weights


def test_accuracy_is_looked_at_on_time_and_what_is_watched_is_kept(data):
    record = run(data, evaluate_every=5, watch=lambda model: model[0].weight.grad.norm().item())
    assert record.steps == [5, 10, 12]
    assert len(record.validation_accuracy) == 3
    assert len(record.watched) == 12
    assert min(record.watched) > 0


def test_what_is_looked_at_is_the_validation_data(data):
    model = training.mlp(layers.BatchNorm1d, depth=2, width=16)
    record = training.train(model, data, steps=12, lr=0.1)
    # of 397; the test has 400
    wanted = training.accuracy(model, data.validation_x, data.validation_y)
    assert record.validation_accuracy == [wanted]
    assert training.accuracy(model, data.test_x, data.test_y) != wanted


def test_a_run_that_diverges_stops_and_says_so(data):
    record = training.train(training.mlp(), data, steps=50, lr=1e6)
    assert record.diverged
    assert len(record.losses) < 50
    assert not math.isfinite(record.losses[-1])


def test_accuracy_uses_eval_mode_and_gives_the_mode_back(data):
    model = training.mlp(layers.BatchNorm1d)
    for mode in (True, False):
        model.train(mode)
        training.accuracy(model, data.test_x, data.test_y)
        assert all(module.training == mode for module in model.modules())
    assert model[1].num_batches_tracked == 0


def test_no_bar_is_drawn_unless_someone_watches(data, capfd, monkeypatch):
    monkeypatch.delenv("NORMLIB_PROGRESS", raising=False)
    run(data)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("NORMLIB_PROGRESS", "1")
    run(data, name="batch norm")
    shown = capfd.readouterr()
    assert "batch norm" in shown.out
    assert shown.err == ""  # the lab shows it on red, and keeps the red when the bar is gone


def test_accuracy_gives_a_frozen_layer_its_own_mode_back(data):
    model = training.mlp(layers.BatchNorm1d).train()
    model[1].eval()
    training.accuracy(model, data.test_x, data.test_y)
    assert model.training and not model[1].training

    class Breaks(nn.Module):
        def forward(self, x):
            raise RuntimeError("no")

    broken = nn.Sequential(Breaks()).train()
    with pytest.raises(RuntimeError):
        training.accuracy(broken, data.test_x, data.test_y)
    assert broken.training and broken[0].training


@pytest.mark.parametrize("batch_size", [0, 1001])
def test_a_batch_that_the_data_cannot_fill_is_refused_before_anything_changes(data, batch_size):
    model = training.mlp(depth=1, width=16).eval()
    with pytest.raises(ValueError, match=f"from 1 to the 1000 training samples, got {batch_size}"):
        training.train(model, data, steps=1, batch_size=batch_size)
    assert not model.training
    training.train(model, data, steps=1, batch_size=1000)


def test_an_unknown_optimizer_is_refused_with_those_that_there_are(data):
    with pytest.raises(ValueError, match="'adam' or 'adamw' as optimizer, got 'lion'"):
        training.train(training.mlp(), data, optimizer="lion")


def test_the_rate_rises_and_falls_as_asked(data, monkeypatch):
    seen = []

    class Noted(torch.optim.SGD):
        def step(self):
            seen.append(self.param_groups[0]["lr"])
            return super().step()

    monkeypatch.setitem(training.OPTIMIZERS, "sgd", Noted)
    run(data, lr=0.6, warmup=2, decay_to_zero=True)
    rises = [0.2, 0.4, 0.6]
    falls = [(12 - step) / 12 for step in range(12)]
    torch.testing.assert_close(
        torch.tensor(seen), torch.tensor(rises + 9 * [0.6]) * torch.tensor(falls)
    )
    seen.clear()
    run(data, lr=0.6, warmup=2)
    torch.testing.assert_close(torch.tensor(seen), torch.tensor(rises + 9 * [0.6]))


def test_sgd_with_momentum_is_torchs_with_nine_tenths():
    weight = torch.ones(1, requires_grad=True)
    update = training.OPTIMIZERS["sgd_momentum"]([weight], lr=0.1)
    for expected in (0.9, 0.71):  # the gradient is 1: steps of 0.1, then 0.19
        weight.grad = torch.ones(1)
        update.step()
        assert weight.item() == pytest.approx(expected)


def test_training_needs_no_tqdm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)  # it cannot be imported
    monkeypatch.setenv("NORMLIB_PROGRESS", "1")
    x = torch.randn(8, 64)
    y = torch.arange(8)
    data = training.Data(x, y, x, y, x, y)
    record = training.train(training.mlp(), data, steps=2, batch_size=8)
    assert len(record.losses) == 2
    assert capsys.readouterr() == ("", "")


def test_a_seeded_net_has_torchs_own_draws_of_its_seed():
    net = nn.Sequential(nn.Linear(9, 400), nn.ReLU(), nn.Conv1d(16, 50, 4))
    training.seeded(net, seed=5)
    drawn = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    assert set(drawn) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    for name, values in drawn.items():
        bound = (9 if name.startswith("0") else 64) ** -0.5
        assert 0.9 * bound < values.abs().max() <= bound
    training.seeded(net, seed=5)
    assert all(torch.equal(drawn[name], again) for name, again in net.named_parameters())
    assert not torch.equal(training.seeded(net, seed=6)[0].weight, drawn["0.weight"])
