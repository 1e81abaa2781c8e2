"""float16 and bfloat16: computed in float32, rounded once, in the dtypes that torch gives."""

import pytest
import torch
import torch.nn.functional as F

from normlib import functional, layers
from tests.library.norm_cases import NORMS, apply, draw, output_and_gradients, parameters
from tests.tolerances import FLOAT32_ERROR, assert_rounded_once

HALVES = pytest.mark.parametrize(
    "half", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"]
)
SHAPES = {"layer_norm_2": (64, 4, 16), "group_norm": (16, 8, 16), "instance_norm": (16, 8, 16)}


def assert_half(got, want):
    assert_rounded_once(got, want, FLOAT32_ERROR * want.abs().max().item())


# torch's rms_norm tells that it has no fast path for mixed dtypes
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning")
@HALVES
@pytest.mark.parametrize("params", ["half parameters", "float32 parameters"])
@pytest.mark.parametrize("norm", NORMS)
def test_output_and_gradients_are_the_float64_ones_rounded_once(norm, params, half):
    shape = SHAPES.get(norm, (64, 32))
    tensors = [
        draw(*shape, dtype=half),
        *parameters(norm, shape, half if params[0] == "h" else torch.float32),
    ]
    grad_output = draw(*shape, seed=3, dtype=half)
    run = lambda *t: apply(functional, norm, *t)  # noqa: E731
    true = output_and_gradients(run, grad_output.double(), *(t.double() for t in tensors))
    ours = output_and_gradients(run, grad_output, *tensors)
    theirs = output_and_gradients(lambda *t: apply(F, norm, *t), grad_output, *tensors)
    for got, want, other in zip(ours, true, theirs, strict=True):
        assert got.dtype == other.dtype
        assert_half(got, want)


@HALVES
def test_weight_norm_is_rounded_once(half):
    v, g, grad_output = (
        draw(32, 16, dtype=half),
        draw(32, 1, seed=1, dtype=half),
        draw(32, 16, seed=3, dtype=half),
    )
    ours = output_and_gradients(functional.weight_norm, grad_output, v, g)
    true = output_and_gradients(
        functional.weight_norm, grad_output.double(), v.double(), g.double()
    )
    for got, want in zip(ours, true, strict=True):
        assert got.dtype == half
        assert_half(got, want)


@HALVES
@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_buffers_are_rounded_once_a_step_and_keep_their_dtype(name, half):
    layer = getattr(layers, name)(32, track_running_stats=True, dtype=half)
    true = getattr(layers, name)(32, track_running_stats=True).double()
    for seed in range(3):
        x = draw(8, 32, 5, seed=seed, dtype=half)
        true.load_state_dict(layer.state_dict())  # so that earlier roundings are not counted again
        layer(x), true(x.double())
        for got, want in zip(layer.buffers(), true.buffers(), strict=True):
            assert got.dtype in (half, torch.int64)
            if got.is_floating_point():
                assert_half(got, want)


@HALVES
def test_squares_that_overflow_float16_do_no_harm(half):
    x = torch.tensor([[300.0, -600.0, 900.0]], dtype=half)  # 600 squared is above float16's 65504
    for norm in ("layer_norm", "rms_norm"):
        assert_half(apply(functional, norm, x), apply(functional, norm, x.double()))
