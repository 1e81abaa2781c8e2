"""Surgery says what it leaves or loses, and refuses, the model untouched, what it cannot carry."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.testing import assert_close

from normlib import layers
from normlib.surgery import replace
from tests.library.norm_cases import draw
from tests.library.surgery_cases import (
    ForeignRMSNorm,
    OffsetRMSNorm,
    assert_unchanged,
    snapshot,
    trained,
)


class NeedsMore(nn.Module):
    def __init__(self, normalized_shape, groups):
        super().__init__()


class Conditioned(ForeignRMSNorm):
    def forward(self, x, condition):
        return super().forward(x) * condition


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (trained(nn.LayerNorm(4)), nn.RMSNorm, ["1: the bias (4,)", "fold it into the next layer"]),
        (trained(nn.LayerNorm(4)), nn.Identity, ["1: the weight (4,)", "no place in Identity()"]),
        (nn.LayerNorm(4, device="meta"), nn.RMSNorm, ["1: the bias (4,)"]),
        (
            nn.BatchNorm2d(4),
            layers.LayerNorm,
            ["1: of BatchNorm2d", "dimension 1", "Pass a callable"],
        ),
        (nn.LayerNorm(4), nn.BatchNorm1d, ["1: of LayerNorm", "dimension 1"]),
        (layers.DyT(4, channels_first=True), nn.LayerNorm, ["dimension 1"]),
        (nn.BatchNorm2d(4), nn.GroupNorm, ["GroupNorm needs num_groups", "Pass it to replace"]),
        (nn.LayerNorm(4), NeedsMore, ["1: NeedsMore needs groups"]),
        (nn.Linear(4, 4), layers.DyT, ["1: Linear", "no size and eps"]),
        (nn.LayerNorm((2, 3)), nn.BatchNorm2d, ["1: BatchNorm2d needs num_features"]),
        (OffsetRMSNorm(4), layers.DyT, ["1: OffsetRMSNorm", "not weight * normalized + bias"]),
        (Conditioned(4), layers.DyT, ["1: Conditioned", "failed on rows (1, D)"]),
    ],
    ids=str,
)
def test_what_cannot_be_carried_is_refused(old, new, words):
    model = nn.Sequential(nn.Identity(), old)
    with pytest.raises(ValueError) as error:
        replace(model, type(old), new)
    assert all(word in str(error.value) for word in words), error.value
    assert model[1] is old


def test_one_refusal_leaves_the_whole_model_untouched():
    model = nn.Sequential(
        nn.LayerNorm(4), nn.Linear(4, 4), trained(nn.LayerNorm(4), dtype=torch.float32)
    )
    before = snapshot(model)
    with pytest.raises(ValueError, match=r"2: the bias \(4,\)"):
        # the first has no trained bias and could be replaced
        replace(model, nn.LayerNorm, layers.RMSNorm)
    assert_unchanged(model, before)
    with pytest.raises(ZeroDivisionError):
        replace(model, nn.LayerNorm, lambda old: layers.DyT(4) if old is model[0] else 1 / 0)
    assert_unchanged(model, before)


def test_what_was_never_trained_can_be_dropped():
    model, report = replace(nn.Sequential(nn.LayerNorm(4)), nn.LayerNorm, layers.RMSNorm)
    assert type(model[0]) is layers.RMSNorm and report.replaced[0].notes == [
        "drops bias, which was 0"
    ]
    assert type(replace(model, layers.RMSNorm, nn.Identity)[0][0]) is nn.Identity


def test_nothing_found_is_an_error_that_names_what_is_there():
    model = nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4), nn.Linear(4, 4))
    replace(model, nn.LayerNorm, layers.LayerNorm)
    before = snapshot(model)
    with pytest.raises(
        ValueError, match=r"no layer of .*0: LayerNorm is not in old; 1: RMSNorm is not in old\."
    ):
        replace(model, nn.LayerNorm, layers.LayerNorm)  # the second call; ours is another class
    with pytest.raises(ValueError, match="no layer of"):
        replace(model, (), layers.LayerNorm)
    with pytest.raises(ValueError, match=r"The model's norms: none\."):
        replace(nn.Linear(4, 4), nn.LayerNorm, layers.LayerNorm)
    assert_unchanged(model, before)


@pytest.mark.parametrize("old", ["LayerNorm", nn.LayerNorm(4), (nn.LayerNorm, None)], ids=str)
def test_old_must_be_classes(old):
    with pytest.raises(TypeError, match="a class or a tuple of classes"):
        replace(nn.Sequential(nn.LayerNorm(4)), old, layers.DyT)


def test_a_callable_decides_alone():
    model = nn.Sequential(
        *(trained(nn.LayerNorm(size), dtype=torch.bfloat16) for size in (4, 8))
    ).eval()
    small, large = model

    def new(old, alpha_init):
        return old if old is large else layers.DyT(old.normalized_shape, alpha_init)

    _, report = replace(model, nn.LayerNorm, new, alpha_init=0.25)
    assert (
        model[0].alpha.item() == 0.25
        and model[0].weight.eq(1).all()
        and not small.weight.eq(1).all()
    )
    assert model[0].weight.dtype == torch.bfloat16 and not model[0].training
    assert model[1] is large and report.left == {"1": "the callable returned it"}
    with pytest.raises(ValueError, match="1: the callable returned it"):
        replace(model, nn.LayerNorm, lambda old: old)
    with pytest.raises(TypeError, match=r"1: replace needs an nn\.Module"):
        replace(model, nn.LayerNorm, lambda old: None)


def test_a_wrapper_of_the_old_layer_is_put_in_once():
    model = nn.Sequential(nn.LayerNorm(4))
    old = model[0]
    replace(model, nn.LayerNorm, lambda layer: nn.Sequential(layer, nn.Tanh()))
    assert model[0][0] is old and torch.equal(model(torch.ones(1, 4)), torch.zeros(1, 4))


def test_hooks_and_parametrizations_are_reported_as_lost():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4), nn.LayerNorm(4))
    model[0].register_forward_hook(lambda *_: None)
    parametrize.register_parametrization(model[1], "weight", nn.Softplus())
    weight = model[1].weight.detach().clone()
    _, report = replace(model, (nn.LayerNorm, type(model[1])), layers.DyT)
    lost = ["loses the old layer's hooks, patched forward or parametrizations"]
    assert [record.notes[-1:] for record in report.replaced] == [lost, lost, []]
    assert (
        torch.equal(model[1].weight, weight)
        and model[1].weight.requires_grad
        and model[1].weight.is_leaf
    )


def test_what_has_channels_or_eps_but_is_no_norm_is_not_reported():
    model = nn.Sequential(nn.LayerNorm(4), nn.Identity(), nn.CosineSimilarity(eps=1e-3))
    model[1].num_channels = 3  # as Hugging Face's patch embedding
    assert replace(model, nn.LayerNorm, layers.DyT)[1].left == {}


def test_a_parametrized_layer_is_a_subclass_and_left():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4))
    parametrize.register_parametrization(model[1], "weight", nn.Softplus())
    _, report = replace(model, nn.LayerNorm, layers.DyT)
    assert report.left["1"].startswith("ParametrizedLayerNorm is a subclass")


def test_running_statistics_are_reported_as_dropped():
    model = nn.Sequential(nn.BatchNorm2d(4), nn.InstanceNorm2d(4))
    _, report = replace(model, (nn.BatchNorm2d, nn.InstanceNorm2d), layers.DyT)
    notes = [record.notes for record in report.replaced]
    assert notes[0] == ["drops running_mean, running_var, num_batches_tracked"]
    assert notes[1] == ["weight starts at 1: the old layer had none"] and model[1].bias is None


def test_options_reach_the_constructor_and_win():
    model = nn.Sequential(nn.BatchNorm2d(4, eps=0.5), trained(nn.BatchNorm2d(4)))
    replace(model, nn.BatchNorm2d, layers.GroupNorm, num_groups=2, eps=0.25)
    assert model[1].num_groups == 2 and model[1].eps == 0.25 and not model[1].weight.eq(1).all()
    with pytest.raises(TypeError, match="colour"):
        replace(model, layers.GroupNorm, layers.DyT, colour="red")
    assert type(model[0]) is layers.GroupNorm


@pytest.mark.parametrize("new", [layers.DyT, layers.DyISRU])
def test_a_norm_of_another_library_is_known_by_its_attributes(new):
    model = nn.Sequential(trained(ForeignRMSNorm(6)))
    weight, x = model[0].weight, draw(3, 6)
    assert_close(replace(model, ForeignRMSNorm, new)[0](x), weight * new(6).double()(x))
    assert model[0].weight is weight and model[0].bias is None


def test_another_librarys_norm_can_be_the_new_one():
    model = nn.Sequential(trained(nn.RMSNorm(6, eps=0.25)))
    want = model(draw(3, 6))
    assert_close(replace(model, nn.RMSNorm, ForeignRMSNorm)[0](draw(3, 6)), want)
    back, _ = replace(model, ForeignRMSNorm, layers.RMSNorm)
    assert back[0].eps == 0.25
    assert_close(back(draw(3, 6)), want)


def test_a_partial_of_a_class_is_the_class_with_options():
    model = nn.Sequential(trained(nn.RMSNorm(4, eps=0.5)), nn.BatchNorm2d(6))
    weight = model[0].weight
    replace(model, nn.RMSNorm, partial(layers.RMSNorm, eps=1e-6))
    assert model[0].eps == 1e-6 and model[0].weight is weight
    replace(model, nn.BatchNorm2d, partial(layers.GroupNorm, 3, eps=1e-6), eps=1e-4)
    assert model[1].num_groups == 3 and model[1].num_channels == 6
    assert model[1].eps == 1e-4  # replace's own options win
    replace(model, layers.RMSNorm, partial(lambda old, width: layers.DyT(width), width=4))
    # of a callable: nothing is carried
    assert type(model[0]) is layers.DyT and model[0].weight is not weight


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (nn.BatchNorm2d(4), layers.BatchNorm2d, {"track_running_stats": False}),
        (
            nn.InstanceNorm2d(4, track_running_stats=True),
            layers.InstanceNorm2d,
            {"track_running_stats": False},
        ),
    ],
    ids=["batch", "instance"],
)
def test_a_new_layer_without_running_statistics_drops_the_old_ones(old, new, kind):
    model, report = replace(nn.Sequential(old), type(old), new, **kind)
    assert model[0].running_mean is None and model[0].num_batches_tracked is None
    assert report.replaced[0].notes == ["drops running_mean, running_var, num_batches_tracked"]


def test_fused_is_kept_where_the_new_layer_can_be_and_noted_where_not():
    model = nn.Sequential(layers.LayerNorm(8, fused=True))
    _, report = replace(model, layers.LayerNorm, layers.RMSNorm)
    assert model[0].fused and "is not fused" not in str(report)
    _, report = replace(model, layers.RMSNorm, layers.DyISRU, fused=False)
    assert (
        not model[0].fused and report.replaced[0].notes[-1] == "is not fused, as the old layer was"
    )
    model = nn.Sequential(layers.RMSNorm(8, fused=True))
    _, report = replace(model, layers.RMSNorm, layers.Derf)
    assert "is not fused, as the old layer was" in report.replaced[0].notes


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_batches_of_nan_or_infinity_are_refused(bad):
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    before = snapshot(model)
    x = draw(9, 4, dtype=torch.float32)
    x[3, 2] = bad
    with pytest.raises(
        ValueError, match=r"cannot fit to NaN or infinity, which LayerNorm.* Look at the"
    ):
        replace(model, nn.LayerNorm, layers.DyT, fit_to=[draw(9, 4, dtype=torch.float32), x])
    assert_unchanged(model, before)


def test_arguments_of_another_kind_are_named():
    model = nn.Sequential(nn.LayerNorm(4))
    with pytest.raises(TypeError, match=r"^replace needs an nn\.Module as model, got None\. Pass"):
        replace(None, nn.LayerNorm, layers.DyT)
    with pytest.raises(
        TypeError, match=r"^replace needs a layer class .* got DyT\(.*\)\. Pass the class"
    ):
        replace(model, nn.LayerNorm, layers.DyT(4))
    with pytest.raises(
        TypeError, match=r"^replace needs a layer class or a callable as new, got 'DyT'"
    ):
        replace(model, nn.LayerNorm, "DyT")
    with pytest.raises(TypeError, match=r"as old, got 'LayerNorm'\. Pass nn\.LayerNorm"):
        replace(model, "LayerNorm", layers.DyT)
    assert type(model[0]) is nn.LayerNorm


def test_derf_takes_a_norms_place_and_can_be_fitted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), trained(nn.LayerNorm(4))).double()
    weight, x = model[1].weight, draw(400, 4)
    want = model(x).detach()
    model, report = replace(model, nn.LayerNorm, layers.Derf, fit_to=[x])
    (record,) = report.replaced
    assert type(model[1]) is layers.Derf and model[1].weight is weight and model[1].shift == 0
    assert record.error_fitted < 0.8 * record.error_unfitted
    assert "fitted: alpha = " in record.notes[-1]
    error = (model(x) - want).norm() / want.norm()
    assert error.item() == pytest.approx(record.error_fitted, rel=1e-9)
    # the best Derf for a Derf is itself
    _, report = replace(model, layers.Derf, layers.Derf, fit_to=[x])
    assert report.replaced[0].error_fitted < 1e-6
