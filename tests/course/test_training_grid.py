"""The capstone's parts: contenders fit every model, a trial measures what it says."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from normcourse import draw, training
from normcourse.training import trials
from normcourse.training.contenders import CAP, GROUPS, Curve
from normcourse.training.records import CURVES, WINDOW, Run, Sizes, Sweep
from normlib import functional, layers
from tests.course.small_grid import cell, small_grid

MODELS = {
    "mlp": {"depth": 3, "width": 8},
    "residual_mlp": {"depth": 2, "width": 8},
    "cnn": {"depth": 2, "channels": 8},
    "signal_cnn": {"depth": 3, "width": 8},
    "transformer": {"depth": 1, "width": 8, "heads": 2},
}
SHAPES = {"cnn": (1, 8, 8), "signal_cnn": (1, 40)}  # what a model reads that takes no rows
IN_ATTENTION = ("qk_norm", "rms_norm_qk")
IN_BLOCKS = ("skip_init",)  # it needs residual connections
OTHER_WEIGHTS = ("fixup",)  # it scales them


def has_place(kind, name):
    if name in OTHER_WEIGHTS:
        return False
    if name in IN_ATTENTION:
        return kind == "transformer"
    return name not in IN_BLOCKS or kind in ("residual_mlp", "transformer")


PAIRS = [(kind, name) for kind in MODELS for name in training.CONTENDERS if has_place(kind, name)]


pytestmark = pytest.mark.usefixtures("float64_as_in_the_lessons")


def build(kind, name, **changes):
    return training.build({"build": kind, **MODELS[kind], **changes}, name, seed=3)


@pytest.mark.parametrize("kind, name", PAIRS)
def test_every_contender_trains_in_every_model_from_the_same_weights(kind, name):
    model = build(kind, name)
    plain = build(kind, "none")
    x = draw(5, *SHAPES.get(kind, (64,)))
    output = model(x)
    assert output.shape == (5, 10)
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    ours, theirs = (
        [m.weight for m in net.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]
        for net in (model, plain)
    )
    for a, b in zip(ours, theirs, strict=True):  # weight norm multiplies and divides by a length
        torch.testing.assert_close(a, b)


def test_weight_norm_starts_as_the_same_function_and_normalizes_every_weight():
    model, x = build("mlp", "weight_norm"), draw(5, 64)
    torch.testing.assert_close(model(x), build("mlp", "none")(x))
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    for layer in linear:
        g, v = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1
        torch.testing.assert_close(layer.weight, functional.weight_norm(v, g))
    assert len(linear) == 4


def norms_of(model):
    return [m for m in model.modules() if type(m).__module__.startswith("normlib.layers")]


def test_on_images_batch_and_group_norm_see_space_and_the_others_the_channels_of_a_pixel():
    x = draw(3, 8, 4, 4)
    wanted = {
        "batch_norm": F.batch_norm(x, None, None, training=True),
        "group_norm": F.group_norm(x, GROUPS),
        "layer_norm": F.layer_norm(x.movedim(1, -1), (8,)).movedim(-1, 1),
        "rms_norm": F.rms_norm(x.movedim(1, -1), (8,), eps=1e-5).movedim(-1, 1),
        "dyt": torch.tanh(0.5 * x),
    }
    for name, y in wanted.items():
        torch.testing.assert_close(build("cnn", name)[1](x), y)


def test_on_signals_batch_and_group_norm_see_the_points_and_the_others_the_channels_of_one():
    x = draw(3, 8, 40)
    wanted = {
        "batch_norm": F.batch_norm(x, None, None, training=True),
        "group_norm": F.group_norm(x, GROUPS),
        "torch_batch_norm": F.batch_norm(x, None, None, training=True),
        "torch_group_norm_1": F.group_norm(x, 1),
        "layer_norm": F.layer_norm(x.movedim(1, -1), (8,)).movedim(-1, 1),
    }
    for name, y in wanted.items():
        torch.testing.assert_close(build("signal_cnn", name)[3](x), y)


def test_on_tokens_batch_norms_batch_is_every_token_and_group_norm_sees_one_token():
    x = draw(3, 5, 8)
    layers_of = {name: build("transformer", name)[3].norm for name in ("batch_norm", "group_norm")}
    rows = x.flatten(0, 1)
    batch = F.batch_norm(rows, None, None, training=True).view_as(x)
    torch.testing.assert_close(layers_of["batch_norm"](x), batch)
    torch.testing.assert_close(layers_of["group_norm"](x), F.group_norm(rows, GROUPS).view_as(x))


@pytest.mark.parametrize("names, slope, level", [(("dyt", "dyisru"), 0.5, 1), (None, 1.0, 4)])
def test_a_pair_of_curves_starts_with_one_slope_and_one_level(names, slope, level):
    x = torch.tensor([1e-6, 1e9])
    for name in names or ("dyt_sqrt_d", "dyisru_sqrt_d"):
        contender = training.CONTENDERS[name]
        for layer, wanted in ((contender.rows(16), slope), (contender.from_slope(0.2)(16), 0.2)):
            near, far = layer(x[:, None].expand(2, 16))[:, 0]
            torch.testing.assert_close(near / x[0], torch.tensor(wanted))
            torch.testing.assert_close(far, torch.tensor(float(level)))


@pytest.mark.parametrize("name", ["line", "line_held"])
def test_the_lines_beside_dyt_start_as_it_does(name):
    x = 5 * draw(3, 8)
    contender = training.CONTENDERS[name]
    torch.testing.assert_close(contender.rows(8)(x), 0.5 * x)
    torch.testing.assert_close(contender.from_slope(0.1)(8)(x), 0.1 * x)
    ours = {part: tuple(p.shape) for part, p in contender.rows(8).named_parameters()}
    assert ours == {part: tuple(p.shape) for part, p in layers.DyT(8).named_parameters()}
    learned = {part for part, p in contender.rows(8).named_parameters() if p.requires_grad}
    assert learned == set(ours) - ({"alpha"} if name == "line_held" else set())


@pytest.mark.parametrize(
    "name, function, last",
    [("line_last_tanh", nn.Identity, nn.Tanh), ("tanh_last_line", nn.Tanh, nn.Identity)],
)
@pytest.mark.parametrize("kind", MODELS)
def test_the_last_curve_is_the_one_before_the_head(kind, name, function, last):
    residual = {"residual": True} if kind == "mlp" else {}
    net = build(kind, name, **residual)
    curves = [layer for layer in net.modules() if isinstance(layer, Curve)]
    assert {type(curve.function) for curve in curves[:-1]} == {function}
    assert type(curves[-1].function) is last
    if kind == "mlp":
        assert net[-2] is curves[-1]


def test_the_mild_norm_of_lesson_01a_changes_nothing_but_the_gradient():
    pair = draw(2, 6)
    arriving = draw(2, 6, seed=1)
    outputs, gradients = {}, {}
    norms = {
        "batch_norm": training.CONTENDERS["batch_norm"].rows(6),
        "eps 10": layers.BatchNorm1d(6, eps=10.0),
        "batch_norm_mild": training.CONTENDERS["batch_norm_mild"].rows(6),
    }
    for name, layer in norms.items():
        with torch.no_grad():
            layer.weight.copy_(1 + draw(6, seed=2))
        x = pair.clone().requires_grad_()
        outputs[name] = layer(x)
        outputs[name].backward(arriving)
        gradients[name] = (x.grad, layer.weight.grad)
    torch.testing.assert_close(outputs["batch_norm_mild"], outputs["batch_norm"])
    at_inputs, at_gain = gradients["batch_norm_mild"]
    torch.testing.assert_close(at_inputs, gradients["eps 10"][0])
    torch.testing.assert_close(at_gain, gradients["batch_norm"][1])


def test_derf_starts_as_published_or_with_the_slope_asked_for():
    """erf has slope 2 / sqrt(pi) at 0, so alpha 0.5 has 1 / sqrt(pi)."""
    contender = training.CONTENDERS["derf"]
    x = torch.tensor([[1e-6, 1e9]])
    for layer, slope in ((contender.rows(2), math.pi**-0.5), (contender.from_slope(0.2)(2), 0.2)):
        near, far = layer(x)[0].tolist()
        assert math.isclose(near / 1e-6, slope, rel_tol=1e-9)  # erf's next term is x^2 / 3
        assert far == 1


def test_the_softcap_is_functional_softcap_and_learns_nothing():
    model, x = build("mlp", "softcap"), draw(5, 8)
    torch.testing.assert_close(model[1](x), functional.softcap(x, CAP))
    assert not any(p.requires_grad for p in model[1].parameters())


@pytest.mark.parametrize("name, other", [("qk_norm", "none"), ("rms_norm_qk", "rms_norm")])
def test_with_qk_norm_the_scale_of_queries_and_keys_does_not_matter(name, other):
    x = 100 * draw(2, 64)  # far above eps
    for which, same in ((name, True), (other, False)):
        model = build("transformer", which)
        before = model(x)
        with torch.no_grad():
            model[3].branch.qkv.weight[:16] *= 7  # queries and keys of width 8
        # eps 1e-5 against mean squares above 1: the outputs differ by less than 1e-5 of themselves
        close = torch.allclose(model(x), before, rtol=1e-4, atol=1e-4)
        assert close is same


def test_a_contender_without_a_place_or_a_slope_is_refused():
    with pytest.raises(ValueError, match="qk_norm needs queries and keys: a transformer, not mlp"):
        build("mlp", "qk_norm")
    with pytest.raises(ValueError, match="layer_norm has no slope"):
        training.build({"build": "mlp"}, "layer_norm", seed=0, slope=1.0)
    for kind in ("mlp", "cnn", "signal_cnn"):
        with pytest.raises(
            ValueError, match=f"skip_init needs residual connections, and this {kind} has none"
        ):
            build(kind, "skip_init")


@pytest.mark.parametrize("kind", ["mlp", "residual_mlp", "transformer"])
def test_skip_init_starts_with_branches_that_add_nothing(kind):
    residual = {"residual": True} if kind == "mlp" else {}
    model = build(kind, "skip_init", **residual)
    blocks = [module for module in model.modules() if isinstance(module, training.Block)]
    x = draw(5, 8, 8)
    assert blocks and all(torch.equal(block(x), x) for block in blocks)
    assert not norms_of(model)


def test_fixup_starts_as_the_identity_with_branches_scaled_by_depth():
    model = build("residual_mlp", "fixup", depth=9)
    plain = build("residual_mlp", "none", depth=9)
    x = draw(5, 8)
    for block, other in zip(model[1:-1], plain[1:-1], strict=True):
        assert torch.equal(block(x), x)
        torch.testing.assert_close(block.branch.first.weight, other.branch[0].weight / 3)
    assert not model(draw(5, 64)).any()
    assert not norms_of(model)
    with pytest.raises(ValueError, match="fixup needs the branches of a residual_mlp, not of a"):
        build("transformer", "fixup")


def test_fixup_learns_its_zero_layers_first(data):
    model = build("residual_mlp", "fixup")
    training.train(model, data, steps=3, lr=0.1)
    assert all(block.branch.second.weight.any() for block in model[1:-1])


def test_a_trial_repeats_and_measures_what_the_loop_did(data):
    settings, one = small_grid(), cell(lr=0.03)
    found = training.trial(settings, one)
    assert found == training.trial(settings, found, data)
    assert found.cell == one
    model = training.build(settings.model, "rms_norm", seed=0)
    start = training.by_depth(model, data.train_x[:256], data.train_y[:256])
    norms = []

    def watch(model):
        norms.append(sum(p.grad.square().sum().item() for p in model.parameters()) ** 0.5)

    how = {name: value for name, value in settings.train.items() if name != "dtype"}
    run = training.train(model, data, lr=0.03, seed=0, watch=watch, **how)
    near = {"rel_tol": 1e-3}  # four digits are stored
    assert math.isclose(found.gradient_first, norms[0], **near)
    assert math.isclose(found.gradient_mean, sum(norms) / 12, **near)
    assert math.isclose(found.gradient_largest, max(norms), **near)
    assert math.isclose(found.losses[0], sum(run.losses[:WINDOW]) / WINDOW, **near)
    assert len(found.losses) == 1
    assert found.loss == round(run.losses[-1], 5) and found.validation == [
        round(397 * share) for share in run.validation_accuracy
    ]
    brief = training.trial(settings, replace(one, phase="tuning"), data)
    assert all(getattr(brief, name) is None for name in CURVES)
    assert brief.validation == found.validation[-1:]
    for x, y, name in ((data.train_x, data.train_y, "train"), (data.test_x, data.test_y, "test")):
        assert getattr(found, f"{name}_right") == (model(x).argmax(1) == y).sum()
    for stored, now in zip(
        (found.activations_by_depth, found.gradients_by_depth), start, strict=True
    ):
        torch.testing.assert_close(torch.tensor(stored[0]), torch.tensor(now), rtol=1e-3, atol=0.0)
        assert stored[1] != stored[0]


def test_activations_and_gradients_by_depth_are_autograds_and_leave_the_model_alone(data):
    model = build("mlp", "batch_norm", depth=2).eval()
    x, y = data.train_x[:50], data.train_y[:50]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    activations, gradients = training.by_depth(model, x, y)
    assert not model.training and all(
        torch.equal(v, before[k]) for k, v in model.state_dict().items()
    )
    assert all(p.grad is None for p in model.parameters())
    model.train()
    first = model[:3](x).detach().requires_grad_()
    F.cross_entropy(model[3:](first), y).backward()
    assert len(activations) == len(gradients) == 2
    assert math.isclose(activations[0], first.detach().square().mean().sqrt())
    assert math.isclose(gradients[0], first.grad.norm())


def test_depth_is_counted_in_blocks_where_there_are_blocks(data):
    for kind, points in (("residual_mlp", 2), ("transformer", 2), ("cnn", 2)):
        x = (data.images() if kind == "cnn" else data).train_x[:9]
        assert len(training.by_depth(build(kind, "none"), x, data.train_y[:9])[0]) == points


def test_a_sweep_changes_one_thing(data, monkeypatch):
    seen = []

    def train(model, data, **how):
        seen.append((model, how))
        return real(model, data, **how | {"steps": 1})

    real = training.train
    monkeypatch.setattr("normcourse.training.trials.train", train)
    for one in (
        cell("dyt", "depth", 4),
        cell("dyt", "batch_size", 7),
        cell("dyt", "slope", 0.2),
        cell("dyt"),
    ):
        training.trial(small_grid(), one, data)
    assert [len(list(model)) for model, _ in seen] == [13, 7, 7, 7]
    assert [how["batch_size"] for _, how in seen] == [16, 7, 16, 16]
    assert [model[1].alpha_init for model, _ in seen] == [0.5, 0.5, 0.2, 0.5]


def test_a_net_is_trained_with_its_changes_and_tuning_does_not_look_at_the_test(data, monkeypatch):
    seen = []

    def train(model, data, **how):
        seen.append(model)
        return real(model, data, **how | {"steps": 1})

    real = training.train
    monkeypatch.setattr("normcourse.training.trials.train", train)
    read = []
    looked_at = trials.accuracy
    monkeypatch.setattr(
        trials, "accuracy", lambda net, x, y: read.append(x) or looked_at(net, x, y)
    )
    nets = {"deep": {"norm": "rms_norm", "depth": 5}}
    grid = small_grid(norms={"deep": "eps 1e-5"}, nets=nets, test_once=True)
    tuning = training.trial(grid, cell("deep", "tuning"), data)
    assert tuning.test_right is None and not any(x is data.test_x for x in read)
    final = training.trial(grid, cell("deep"), data)
    assert final.test_right is not None and any(x is data.test_x for x in read)
    for model in seen:
        assert sum(isinstance(part, layers.RMSNorm) for part in model) == 5


def test_signals_come_to_a_network_of_convolutions_as_images(monkeypatch):
    points = draw(90, 40)
    x, y = points.split(30), torch.arange(90) % 10
    made = training.Data(x[0], y[:30], x[1], y[30:60], x[2], y[60:], shape=(1, 40))
    monkeypatch.setitem(training.SOURCES, "signals", lambda: made)
    grid = small_grid(
        data=Sizes("signals", 30, 30, 30), model={"build": "signal_cnn", "depth": 2, "width": 4}
    )
    found = training.trial(grid, cell("rms_norm"))
    assert len(found.activations_by_depth[0]) == 2
    assert found == training.trial(grid, cell("rms_norm"), made)


def test_a_run_that_diverges_is_a_record_without_numbers_that_are_none(data):
    settings = small_grid(norms={"none": "no norm"})
    settings.train["optimizer"] = "sgd"
    found = training.trial(settings, cell("none", lr=1e200), data)
    assert found.diverged and found.loss is None and found.losses == []
    stored = json.loads(json.dumps(vars(found), allow_nan=False))
    assert Run(**stored) == found


def test_a_slope_that_is_tuned_is_the_start_of_tuning_and_final_runs(data, monkeypatch):
    seen = []
    real = training.train

    def train(model, data, **how):
        seen.append(model[1].alpha_init)
        return real(model, data, **how | {"steps": 1})

    monkeypatch.setattr("normcourse.training.trials.train", train)
    for phase in ("tuning", "final"):
        training.trial(small_grid(), cell("dyt_tuned", phase, 0.2), data)
    assert seen == [0.2, 0.2]


def test_another_dtype_or_other_data_is_refused(data):
    torch.set_default_dtype(torch.float32)
    with pytest.raises(ValueError, match=r"ran in float64: call torch.set_default_dtype"):
        training.trial(small_grid(), cell())
    torch.set_default_dtype(torch.float64)
    other = small_grid(data=Sizes("others", train=45, validation=5, test=10))
    with pytest.raises(ValueError, match=r"The grid ran on .*others.*, and this data has"):
        training.trial(other, cell(), data)


def test_the_verdict_is_divergence_and_the_test_count_within_the_tolerance():
    stored = SimpleNamespace(diverged=False, test_right=360)
    for right, same in ((363, True), (357, True), (364, False), (356, False)):
        live = SimpleNamespace(diverged=False, test_right=right)
        assert training.same_verdict(live, stored, 3) is same
    assert not training.same_verdict(SimpleNamespace(diverged=True, test_right=360), stored, 3)


def test_layers_that_normalize_have_the_same_eps():
    for name in ("batch_norm", "layer_norm", "rms_norm", "group_norm"):
        found = norms_of(build("mlp", name))
        assert len(found) == 3 and {layer.eps for layer in found} == {1e-5}
        assert "eps 1e-5" in training.CONTENDERS[name].start
    assert isinstance(norms_of(build("cnn", "batch_norm"))[0], layers.BatchNorm2d)


def test_all_runs_are_the_plans_with_the_choice_that_they_led_to(data):
    settings = small_grid(norms={"rms_norm": "eps 1e-5"}, sweeps={})
    runs = training.all_runs(settings, data)
    assert [run.cell for run in runs] == list(training.plan(settings, runs))
    assert [run.phase for run in runs] == ["tuning", "tuning", "final"]
    assert runs[2] == training.trial(settings, runs[2], data)


# A nudge: as far apart as two CPUs


def moved(model, number, seed):
    """By how many units of its last place each weight is moved."""
    before = [p.detach().clone() for p in model.parameters()]
    trials.nudge(model, number, seed)
    after = [p.detach() for p in model.parameters()]
    eps = torch.finfo(torch.float64).eps
    relative = [((b - a) / (a * eps)).flatten() for a, b in zip(before, after, strict=True)]
    return torch.cat(relative).nan_to_num()  # a bias of 0 stays


def test_a_nudge_moves_weights_by_two_units_at_most_and_is_the_same_at_each_call():
    first = moved(build("mlp", "none"), 1, seed=0)
    assert first.abs().max() <= 2
    assert (first != 0).double().mean() > 0.5
    torch.testing.assert_close(moved(build("mlp", "none"), 1, seed=0), first)
    for number, seed in ((2, 0), (1, 1)):
        assert not torch.equal(moved(build("mlp", "none"), number, seed), first)


def test_a_nudged_run_is_the_final_one_from_moved_weights_with_all_its_looks(data, monkeypatch):
    settings = small_grid()
    nudged = training.trial(settings, cell(phase=training.NUDGE, value=3, lr=0.1), data)
    assert nudged.cell == cell(phase=training.NUDGE, value=3, lr=0.1)
    final = training.trial(settings, cell(lr=0.1), data)
    assert len(nudged.validation) == len(final.validation) == 3
    assert training.same_verdict(nudged, final, 2)  # nothing is chaotic in twelve steps

    def silence(model, number, seed):
        assert (number, seed) == (3, 0)
        for parameter in model.parameters():
            parameter.data.mul_(0)

    monkeypatch.setattr(trials, "nudge", silence)
    silenced = training.trial(settings, cell(phase=training.NUDGE, value=3, lr=0.1), data)
    assert silenced.validation != nudged.validation


def test_nudged_runs_come_by_nudge_and_seed():
    def cells(lr):
        wanted = Sweep(["rms_norm"], [0, 1], [0, 5], lr)
        settings = small_grid(norms={"rms_norm": "-"}, sweeps={training.NUDGE: wanted})
        tuned = [
            SimpleNamespace(**vars(one), cell=one, validation=[one.lr], diverged=False)
            for one in training.plan(settings, [])
        ]
        plan = training.plan(settings, tuned)
        return settings, [one for one in plan if one.phase == training.NUDGE]

    settings, found = cells(lr=None)
    assert {one.lr for one in found} == {0.1}  # the tuned one
    record = SimpleNamespace(settings=settings, runs=found[::-1])
    repeats = training.nudged(record, "rms_norm")
    assert [[(run.value, run.seed) for run in runs] for runs in repeats] == [
        [(0, 0), (0, 5)],
        [(1, 0), (1, 5)],
    ]
    _, found = cells(lr=0.01)
    assert {one.lr for one in found} == {0.01}


# A swap: what stands in the place of a trained net's norms


@pytest.mark.parametrize("only", [None, 0, 1])
def test_a_swap_puts_a_layer_in_the_place_of_each_norm_or_of_one(only):
    first, second = layers.RMSNorm(8), layers.RMSNorm(8)
    with torch.no_grad():
        first.weight.copy_(1 + 0.3 * draw(8, seed=1))
        second.weight.copy_(1 + 0.3 * draw(8, seed=2))
    writes = nn.Linear(8, 8)
    net = nn.Sequential(first, writes, second)
    pictures = 3 * draw(20, 8, seed=3)
    read = writes(first(pictures))
    assert all(map(torch.equal, training.rows_read(net, pictures).values(), (pictures, read)))

    class Times(nn.Module):
        """A line: gain over size."""

        def __init__(self, norm, rows):
            super().__init__()
            self.slope = norm.weight.detach() / rows.square().mean().sqrt()

        def forward(self, x):
            return self.slope * x

    x = draw(5, 8, seed=4)
    of_first = first(x) if only == 1 else Times(first, pictures)(x)
    last = second if only == 0 else Times(second, read)
    exchanged = training.swapped(net, pictures, Times, only=only)
    torch.testing.assert_close(exchanged(x), last(writes(of_first)))
    assert isinstance(net[0], layers.RMSNorm)
    assert not any(layer._forward_pre_hooks for layer in net.modules())
