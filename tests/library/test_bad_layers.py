"""Bad input to the layers: rejected with torch's kind of error, and no state has changed."""

import re

import pytest
import torch

from normlib import layers
from tests.library.norm_cases import FIRST_LAYERS, LAYERS, draw
from tests.library.rejection import INF, NAN, OURS, assert_rejected, error_of

RUNNING = {
    "BatchNorm1d": (4, 6, 5),
    "BatchNorm2d": (4, 6, 5, 2),
    "InstanceNorm1d": (4, 6, 5),
    "InstanceNorm2d": (4, 6, 5, 2),
}


HAS_EPS = [layer for _, layer in FIRST_LAYERS if "eps" in layer.arguments]


@pytest.mark.parametrize("eps", [-1e-5, NAN, INF, "1e-5"], ids=str)
@pytest.mark.parametrize("layer", HAS_EPS, ids=str)
def test_every_constructor_rejects_a_bad_eps(layer, eps):
    # torch takes any eps, and raises or returns NaN in the call
    error = error_of(lambda lib: layer.remade(eps=eps), OURS)
    assert type(error) is (TypeError if isinstance(eps, str) else ValueError)
    assert layer.name in str(error) and f"eps={eps!r}" in str(error)
    assert str(error).endswith("say.")


@pytest.mark.parametrize("layer", [layer for _, layer in LAYERS], ids=str)
def test_an_input_that_does_not_fit_is_refused_and_changes_nothing(layer):
    module = layer.make()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    larger = torch.ones([size + 1 for size in layer.shape])
    bad = [torch.ones(layer.shape).long(), torch.tensor(1.0), None]
    if list(module.parameters()) or layer.name == "LayerNorm":
        bad.append(larger)
    for x in bad:
        error = error_of(lambda lib, x=x: module(x), OURS)
        assert isinstance(error, (RuntimeError, ValueError, TypeError, AttributeError)), x
        if x is not None:
            assert re.search(r"(\. |: )[A-Z].*\.$", str(error)), f"no fix in: {error}"
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())


@pytest.mark.parametrize("momentum", [NAN, INF, -INF, -1, 1.5], ids=str)
def test_every_constructor_rejects_a_bad_momentum(momentum):
    for name in RUNNING:
        assert_rejected(
            lambda lib, name=name: getattr(lib.nn, name)(6, momentum=momentum),
            f"momentum={momentum}",
        )


@pytest.mark.parametrize("groups", [0, -2, 4])
def test_group_norms_constructor_rejects_groups_that_do_not_divide(groups):
    assert_rejected(lambda lib: lib.nn.GroupNorm(groups, 6), f"num_groups={groups}", "6 channels")


def bad_calls():
    for name, shape in RUNNING.items():
        positions = shape[2:]
        yield name, "wrong channels", torch.ones(4, 7, *positions), {}
        yield name, "no rank", torch.tensor(1.0), {}
        yield name, "rank 1", torch.ones(6), {}
        yield name, "rank too high", torch.ones(*shape, 2, 2), {}
        yield name, "integers", torch.ones(shape, dtype=torch.int64), {}
        yield name, "float64 input", torch.ones(shape).double(), {}
        yield name, "one value", torch.ones(1, 6, *(1 for _ in positions)), {}
        yield name, "eps set to NaN", torch.ones(shape), {"eps": NAN}
        yield name, "eps set below 0", torch.ones(shape), {"eps": -1e-3}
        yield name, "momentum set to NaN", torch.ones(shape), {"momentum": NAN}


BAD_CALLS = [pytest.param(*call, id=f"{call[0]}, {call[1]}") for call in bad_calls()]


@pytest.mark.parametrize(("name", "what", "x", "attributes"), BAD_CALLS)
def test_a_call_that_raises_leaves_parameters_and_buffers_alone(name, what, x, attributes):
    def call(lib):
        layer = getattr(lib.nn, name)(6, affine=True, track_running_stats=True)
        for attribute in attributes.items():
            setattr(layer, *attribute)
        before = {key: value.clone() for key, value in layer.state_dict().items()}
        try:
            layer(x)
        finally:
            changed = [
                key
                for key, value in layer.state_dict().items()
                if not torch.equal(value, before[key])
            ]
            assert lib is not OURS or changed == []

    pieces = (
        (str(tuple(x.shape)),)
        if what in ("no rank", "rank 1", "rank too high", "one value")
        else ()
    )
    assert_rejected(call, *pieces)


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm"])
def test_row_norms_reject_another_size_rank_and_type(name):
    assert_rejected(lambda lib: getattr(lib.nn, name)(7)(torch.ones(4, 6)), "(4, 6)", "(7,)")
    assert_rejected(lambda lib: getattr(lib.nn, name)((2, 6))(torch.ones(6)), "(6,)", "(2, 6)")
    assert_rejected(lambda lib: getattr(lib.nn, name)(6)(torch.tensor(1.0)), "()", "(6,)")
    assert_rejected(lambda lib: getattr(lib.nn, name)(6)(torch.ones(4, 6).long()), "torch.int64")


def test_group_norm_rejects_another_number_of_channels_rank_and_type():
    assert_rejected(lambda lib: lib.nn.GroupNorm(2, 4)(torch.ones(3, 6, 5)), "weight", "(4,)")
    assert_rejected(lambda lib: lib.nn.GroupNorm(2, 4)(torch.ones(4)), "(4,)")
    assert_rejected(lambda lib: lib.nn.GroupNorm(2, 4)(torch.ones(3, 4, 5).int()), "torch.int32")


def test_evaluation_takes_one_value_per_channel():
    for name in ("BatchNorm1d", "InstanceNorm1d"):
        layer = getattr(layers, name)(6, track_running_stats=True).eval()
        assert layer(draw(1, 6, 1, dtype=torch.float32)).shape == (1, 6, 1)


@pytest.mark.parametrize("missing", ["running_mean", "running_var"])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_that_lost_one_running_statistic_raises_as_torchs(missing, training):
    def call(lib):
        layer = lib.nn.BatchNorm1d(6).train(training)
        setattr(layer, missing, None)
        try:
            layer(torch.ones(4, 6))
        finally:
            assert lib is not OURS or layer.num_batches_tracked == 0

    assert_rejected(call, "running_mean and running_var")


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_without_both_running_statistics_takes_the_batchs_as_torchs(training):
    x = draw(4, 6, dtype=torch.float32)
    outputs = []
    for nn in (layers, torch.nn):
        layer = nn.BatchNorm1d(6).train(training)
        layer.running_mean = layer.running_var = None
        outputs.append(layer(x))
        assert layer.num_batches_tracked == int(training)
    torch.testing.assert_close(*outputs)
