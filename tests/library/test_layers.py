"""Every layer gives torch.nn's outputs, gradients and state, or its formula's, in both modes."""

import copy
import inspect
import io
import pickle

import numpy
import pytest
import torch
from torch import nn

from normlib import layers
from tests.library.norm_cases import LAYERS, draw, pair
from tests.tolerances import assert_same_float64

TORCHS = [(case, layer) for case, layer in LAYERS if layer.is_torchs]
every_layer = pytest.mark.parametrize(("case", "layer"), LAYERS, ids=str)
each_of_torchs = pytest.mark.parametrize(("case", "layer"), TORCHS, ids=str)


def assert_same_state(ours, theirs, terms):
    got, want = ours.state_dict(), theirs.state_dict()
    assert list(got) == list(want) and got._metadata == want._metadata
    for key in want:
        assert got[key].shape == want[key].shape and got[key].dtype == want[key].dtype
        assert_same_float64(got[key].double(), want[key].double(), terms)


def step(layer, seed, shape):
    """The output and every gradient of one call, then a step of gradient descent."""
    layer.zero_grad()
    x = draw(*shape, seed=seed).requires_grad_()
    y = layer(x)
    y.backward(draw(*shape, seed=seed + 100))
    gradients = [x.grad, *(parameter.grad.clone() for parameter in layer.parameters())]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter -= 0.1 * parameter.grad
    return [y.detach(), *gradients]


# [EQ-BN] [EQ-BN-RUNNING] [EQ-BN-EVAL] [EQ-LN] [EQ-RMS] [EQ-GN] [EQ-IN] [EQ-DYT] [EQ-DYISRU]
# [EQ-DERF]
@every_layer
def test_three_training_steps_and_an_evaluation_are_torchs_or_the_formulas(case, layer):
    pair_ = ours, theirs = pair(case, layer)
    # parameters and buffers carry the rounding of the steps before
    terms = 4 * draw(*layer.shape).numel()
    for seed in range(4):
        for one in pair_:
            one.train(seed < 3)
        before = [buffer.clone() for buffer in ours.buffers()]
        for got, want in zip(*(step(one, seed, layer.shape) for one in pair_), strict=True):
            assert_same_float64(got, want, terms)
        assert_same_state(ours, theirs, terms)
        for buffer, old in zip(ours.buffers(), before, strict=True):
            assert buffer.grad_fn is None and not buffer.requires_grad
            assert ours.training or torch.equal(buffer, old)


@each_of_torchs
def test_the_repr_is_torchs_but_for_arguments_newer_than_that_torch(case, layer):
    ours, theirs = pair(case, layer)
    words = (set(repr(one).strip(")").split(", ")) for one in (ours, theirs))
    newer = next(words) - next(words)
    assert repr(ours) == repr(theirs) or newer <= {"bias=True", "bias=False"}
    assert vars(ours).keys() - vars(theirs).keys() <= {"fused"}


@every_layer
def test_a_state_dict_loads_strictly_both_ways(case, layer):
    ours, theirs = pair(case, layer)
    step(ours, 0, layer.shape)
    theirs.load_state_dict(ours.state_dict())
    assert_same_state(ours, theirs, terms=0)
    fresh = layer.make().double()
    fresh.load_state_dict(theirs.state_dict())
    assert_same_state(fresh, theirs, terms=0)
    if ours.state_dict():
        with pytest.raises(RuntimeError, match="Missing key"):
            fresh.load_state_dict({})


@every_layer
def test_copies_and_pickles_are_equal_and_independent(case, layer):
    ours, _ = pair(case, layer)
    buffer = io.BytesIO()
    torch.save(ours.state_dict(), buffer)
    buffer.seek(0)
    loaded = layer.make().double()
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), loaded):
        assert repr(twin) == repr(ours)
        got = step(twin, 0, layer.shape)
        want = step(copy.deepcopy(ours), 0, layer.shape)
        for one, other in zip(got, want, strict=True):
            assert torch.equal(one, other)
    assert_same_state(ours, pair(case, layer)[0], terms=0)


@every_layer
def test_device_and_dtype_reach_every_parameter_and_buffer(case, layer):
    for options in (
        {"device": "meta"},
        {"dtype": torch.float16},
        {"device": "meta", "dtype": torch.float64},
    ):
        module = layer.make(**options)
        for value in [*module.parameters(), *module.buffers()]:
            assert value.device.type == options.get("device", "cpu")
            wanted = options.get("dtype", torch.float32)
            assert value.dtype == (wanted if value.is_floating_point() else torch.int64)
        if layer.is_torchs:
            theirs = layer.make(nn, **options).state_dict().values()
            assert [(t.device, t.dtype, t.shape) for t in module.state_dict().values()] == [
                (t.device, t.dtype, t.shape) for t in theirs
            ]


@every_layer
def test_a_layer_from_the_meta_device_can_be_started_and_another_one_started_again(case, layer):
    start = layer.make()
    assert_same_state(start, layer.make(nn) if layer.is_torchs else layer.make(), terms=0)
    empty = layer.make(device="meta").to_empty(device="cpu")
    trained = layer.make()
    step(trained.double(), 0, layer.shape)
    trained.float()
    for module in (empty, trained):
        module.reset_parameters()
        for got, want in zip(
            module.state_dict().values(), start.state_dict().values(), strict=True
        ):
            assert torch.equal(got, want)


@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d"])
def test_a_checkpoint_from_before_num_batches_tracked_loads_as_in_torch(name):
    for library in (layers, nn):
        old = getattr(library, name)(3).state_dict()
        del old["num_batches_tracked"], old._metadata
        layer, meta = getattr(library, name)(3), getattr(library, name)(3, device="meta")
        layer.num_batches_tracked.fill_(5)
        layer.load_state_dict(dict(old))
        meta.load_state_dict(dict(old), assign=True)
        assert layer.num_batches_tracked == 5 and meta.num_batches_tracked == 0


@pytest.mark.parametrize("name", sorted({layer.name for _, layer in TORCHS}))
def test_the_constructor_takes_torchs_arguments_in_torchs_order(name):
    ours, theirs = (
        inspect.signature(getattr(library, name)).parameters for library in (layers, nn)
    )
    assert ours.keys() - theirs.keys() <= {"bias", "fused"}  # newer than that torch; ours
    facts = [
        [(p.name, p.default, p.kind) for p in ps.values() if p.name in theirs]
        for ps in (ours, theirs)
    ]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_a_numpy_integer_is_one_dimension_as_in_torch(name):
    for library in (layers, nn):
        layer = getattr(library, name)(numpy.int64(5))
        assert layer(torch.ones(2, 5)).shape == (2, 5) and layer.normalized_shape == (5,)


def test_reset_running_stats_and_reset_parameters_restore_the_start():
    layer, start = layers.BatchNorm1d(3).double(), layers.BatchNorm1d(3).double()
    step(layer, 0, (4, 3))
    layer.reset_running_stats()
    assert layer.num_batches_tracked == 0 and not torch.equal(layer.weight, start.weight)
    layer.reset_parameters()
    assert_same_state(layer, start, terms=0)


@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_a_layer_whose_buffers_were_removed_falls_back_as_torchs_does(name):
    results = []
    for library in (layers, nn):
        layer = getattr(library, name)(4, affine=True).double()
        layer.running_mean = layer.running_var = None
        results.append(
            [y for training in (True, False) for y in step(layer.train(training), 0, (3, 4, 5))]
        )
    for got, want in zip(*results, strict=True):
        assert_same_float64(got, want, terms=60)


def test_an_empty_batch_counts_but_leaves_the_running_statistics_alone():
    for library in (layers, nn):
        layer = library.BatchNorm1d(3)
        assert layer(torch.zeros(0, 3)).shape == (0, 3)
        assert layer.running_mean.eq(0).all() and layer.running_var.eq(1).all()
        assert layer.num_batches_tracked == 1


def test_instance_norm_without_affine_only_warns_of_another_number_of_channels():
    for library in (layers, nn):
        with pytest.warns(UserWarning, match="num_features"):
            library.InstanceNorm1d(7)(draw(3, 4, 5))
