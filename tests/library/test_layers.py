"""Every layer gives torch.nn's outputs, gradients and state, in training and in evaluation."""

import copy
import inspect
import pickle

import numpy
import pytest
import torch
from torch import nn

from normlib import layers
from tests.library.norm_cases import draw
from tests.tolerances import assert_same_float64

# Constructor arguments newer than an older torch's: ours takes them, but there is nothing to
# compare with.
NEEDS_BIAS = pytest.mark.skipif(
    "bias" not in inspect.signature(nn.BatchNorm1d).parameters,
    reason="this torch's BatchNorm has no bias=",
)


def case(name, *args, shape, **kwargs):
    words = [*map(str, args), *(f"{key}={value}" for key, value in kwargs.items())]
    marks = NEEDS_BIAS if name[:5] in ("Batch", "Group", "Insta") and "bias" in kwargs else ()
    return pytest.param(name, args, kwargs, shape, id=f"{name}({', '.join(words)})", marks=marks)


IMAGE = (2, 4, 3, 5)
CASES = [
    case("BatchNorm1d", 4, shape=(7, 4)),
    case("BatchNorm1d", 4, 1e-2, 0.3, shape=(3, 4, 5)),
    case("BatchNorm1d", 1, shape=(2, 1)),
    case("BatchNorm1d", 4, momentum=None, shape=(7, 4)),
    case("BatchNorm1d", 4, momentum=0.0, shape=(7, 4)),
    case("BatchNorm1d", 4, track_running_stats=False, shape=(7, 4)),
    case("BatchNorm1d", 4, momentum=None, track_running_stats=False, shape=(7, 4)),
    case("BatchNorm2d", 4, shape=IMAGE),
    case("BatchNorm2d", 4, affine=False, shape=IMAGE),
    case("BatchNorm2d", 4, bias=False, shape=IMAGE),
    case("LayerNorm", 5, shape=(3, 5)),
    case("LayerNorm", (3, 5), 1e-2, shape=IMAGE),
    case("LayerNorm", [3, 5], elementwise_affine=False, shape=IMAGE),
    case("LayerNorm", 5, bias=False, shape=(2, 1, 3, 2, 5)),
    case("RMSNorm", 5, shape=(3, 5)),
    case("RMSNorm", (3, 5), 1e-2, shape=IMAGE),
    case("RMSNorm", 5, elementwise_affine=False, shape=(5,)),
    case("GroupNorm", 2, 4, shape=IMAGE),
    case("GroupNorm", 1, 4, 1e-2, shape=(3, 4)),
    case("GroupNorm", 4, 4, affine=False, shape=(2, 4, 3, 1, 2)),
    case("GroupNorm", 2, 4, bias=False, shape=IMAGE),
    case("InstanceNorm1d", 4, shape=(3, 4, 5)),
    case("InstanceNorm1d", 4, affine=True, track_running_stats=True, shape=(3, 4, 5)),
    case("InstanceNorm1d", 4, 1e-2, 0.3, True, True, shape=(4, 5)),
    case("InstanceNorm2d", 4, shape=IMAGE),
    case("InstanceNorm2d", 4, affine=True, bias=False, shape=IMAGE),
    case("InstanceNorm2d", 4, momentum=None, track_running_stats=True, shape=IMAGE),
    case("InstanceNorm2d", 4, affine=True, shape=IMAGE[1:]),
]
every_case = pytest.mark.parametrize(("name", "args", "kwargs", "shape"), CASES)


def pair(name, args, kwargs, **more):
    """Our layer and torch's, in float64, with the same parameters, all different."""
    ours, theirs = (
        getattr(library, name)(*args, **kwargs, **more).double() for library in (layers, nn)
    )
    for seed, parameter in enumerate(theirs.parameters()):
        parameter.data = draw(*parameter.shape, seed=seed)
    assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    return ours, theirs


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


# [EQ-BN] [EQ-BN-RUNNING] [EQ-BN-EVAL] [EQ-LN] [EQ-RMS] [EQ-GN] [EQ-IN]
@every_case
def test_three_training_steps_and_an_evaluation_equal_torchs(name, args, kwargs, shape):
    pair_ = ours, theirs = pair(name, args, kwargs)
    # parameters and buffers carry the rounding of the steps before
    terms = 4 * draw(*shape).numel()
    for seed in range(4):
        for layer in pair_:
            layer.train(seed < 3)
        before = [buffer.clone() for buffer in ours.buffers()]
        for got, want in zip(*(step(layer, seed, shape) for layer in pair_), strict=True):
            assert_same_float64(got, want, terms)
        assert_same_state(ours, theirs, terms)
        for buffer, old in zip(ours.buffers(), before, strict=True):
            assert buffer.grad_fn is None and not buffer.requires_grad
            assert ours.training or torch.equal(buffer, old)


@every_case
def test_the_repr_is_torchs_but_for_arguments_newer_than_that_torch(name, args, kwargs, shape):
    ours, theirs = pair(name, args, kwargs)
    words = (set(repr(layer).strip(")").split(", ")) for layer in (ours, theirs))
    newer = next(words) - next(words)
    assert repr(ours) == repr(theirs) or newer <= {"bias=True", "bias=False"}
    assert vars(ours).keys() - vars(theirs).keys() <= {"fused"}


@every_case
def test_a_state_dict_loads_strictly_both_ways(name, args, kwargs, shape):
    ours, theirs = pair(name, args, kwargs)
    step(ours, 0, shape)
    theirs.load_state_dict(ours.state_dict())
    assert_same_state(ours, theirs, terms=0)
    fresh = getattr(layers, name)(*args, **kwargs).double()
    fresh.load_state_dict(theirs.state_dict())
    assert_same_state(fresh, theirs, terms=0)
    if ours.state_dict():
        with pytest.raises(RuntimeError, match="Missing key"):
            fresh.load_state_dict({})


@every_case
def test_copies_and_pickles_are_equal_and_independent(name, args, kwargs, shape):
    ours, _ = pair(name, args, kwargs)
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert repr(twin) == repr(ours)
        for got, want in zip(
            step(twin, 0, shape), step(copy.deepcopy(ours), 0, shape), strict=True
        ):
            assert torch.equal(got, want)
    assert all(
        torch.equal(a, b)
        for a, b in zip(ours.buffers(), pair(name, args, kwargs)[0].buffers(), strict=True)
    )


@every_case
def test_device_and_dtype_reach_every_parameter_and_buffer(name, args, kwargs, shape):
    for options in (
        {"device": "meta"},
        {"dtype": torch.float16},
        {"device": "meta", "dtype": (torch.float64)},
    ):
        ours, theirs = (
            getattr(library, name)(*args, **kwargs, **options) for library in (layers, nn)
        )
        assert [(t.device, t.dtype, t.shape) for t in ours.state_dict().values()] == [
            (t.device, t.dtype, t.shape) for t in theirs.state_dict().values()
        ]
    empty = getattr(layers, name)(*args, **kwargs, device="meta").to_empty(device="cpu")
    empty.reset_parameters()
    for got, want in zip(
        empty.state_dict().values(),
        getattr(nn, name)(*args, **kwargs).state_dict().values(),
        strict=True,
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


@pytest.mark.parametrize("name", sorted({case.values[0] for case in CASES}))
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
