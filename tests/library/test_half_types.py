"""float16 and bfloat16: computed in float32, rounded once, in the dtypes that torch gives."""

import pytest
import torch

from normlib import layers
from tests.library.norm_cases import FUNCTIONS, ROWS, TORCHS, draw, output_and_gradients
from tests.tolerances import FLOAT32_ERROR, assert_rounded_once

HALVES = pytest.mark.parametrize(
    "half", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"]
)


def assert_half(got, want):
    assert_rounded_once(got, want, FLOAT32_ERROR * want.abs().max().item())


# torch's rms_norm tells that it has no fast path for mixed dtypes
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning")
@HALVES
@pytest.mark.parametrize("params", ["half parameters", "float32 parameters"])
@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_output_and_gradients_are_the_float64_ones_rounded_once(case, params, half):
    shape = case.wide(64)
    wide = torch.float32 if params == "float32 parameters" else half
    tensors = [draw(*shape, dtype=half), *case.draw_parameters(shape, wide)]
    grad_output = draw(*shape, seed=3, dtype=half)
    true = output_and_gradients(case.formula, grad_output.double(), *(t.double() for t in tensors))
    exact = output_and_gradients(case.call, grad_output.float(), *(t.float() for t in tensors))
    ours = output_and_gradients(case.call, grad_output, *tensors)
    for got, want, single, tensor in zip(ours, true, exact, [tensors[0], *tensors], strict=True):
        assert got.dtype == tensor.dtype
        assert torch.equal(got, single.to(got.dtype))
        assert_half(got, want)
    if case in TORCHS and (case.name != "weight_norm" or wide == half):  # torch's wants one type
        theirs = output_and_gradients(case.call_torch, grad_output, *tensors)
        assert [got.dtype for got in ours] == [other.dtype for other in theirs]


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
    for case in ROWS:
        if case.name in ("layer_norm", "rms_norm"):
            assert_half(case.call(x), case.call(x.double()))
