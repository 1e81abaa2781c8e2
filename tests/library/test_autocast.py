"""CPU autocast gives the dtypes that it gives with torch's norms."""

import pytest
import torch

from normlib import fused
from tests.library.norm_cases import FUNCTIONS, draw, output_and_gradients

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [(half, parameter) for half in HALVES for parameter in (half, torch.float32)]
DTYPES.append((torch.float32, torch.float32))


def dtypes(call, half, *tensors):
    """Of the output, and of the gradients of the input and the parameters."""

    def run(*tensors):
        with torch.autocast("cpu", half):
            return call(*tensors)

    grad_output = draw(*tensors[0].shape, seed=3, dtype=tensors[0].dtype)
    return [result.dtype for result in output_and_gradients(run, grad_output, *tensors)]


# torch's rms_norm tells that it has no fast path for mixed dtypes
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning")
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize(("input_dtype", "parameter_dtype"), DTYPES, ids=str)
@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_dtypes_under_cpu_autocast_are_torchs(case, input_dtype, parameter_dtype, half):
    x = draw(*case.small, dtype=input_dtype)
    own = case.draw_parameters(case.small, parameter_dtype)
    calls = [case.call]
    if hasattr(fused, case.function):
        calls.append(lambda *tensors: case.call(*tensors, library=fused))
    if case.torch_function and (case.name != "weight_norm" or input_dtype == parameter_dtype):
        calls.append(case.call_torch)
    for call in calls:
        got = dtypes(call, half, x, *own)
        assert got == [input_dtype, input_dtype, *(tensor.dtype for tensor in own)]
