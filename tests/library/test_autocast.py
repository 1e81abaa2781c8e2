"""CPU autocast gives the dtypes that it gives with torch's norms."""

import pytest
import torch
import torch.nn.functional as F

from normlib import functional, fused
from tests.library.norm_cases import NORMS, SMALL, apply, draw, output_and_gradients, parameters

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [(half, parameter) for half in HALVES for parameter in (half, torch.float32)]
DTYPES.append((torch.float32, torch.float32))


def dtypes(library, norm, half, input_dtype, parameter_dtype):
    """Of the output, and of the gradients of the input and the parameters."""
    x = draw(*SMALL[norm], dtype=input_dtype)
    own = parameters(norm, SMALL[norm], parameter_dtype)

    def run(*tensors):
        with torch.autocast("cpu", half):
            return apply(library, norm, *tensors)

    results = output_and_gradients(run, draw(*SMALL[norm], seed=3, dtype=input_dtype), x, *own)
    return [result.dtype for result in results]


# torch's rms_norm tells that it has no fast path for mixed dtypes
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning")
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize(("input_dtype", "parameter_dtype"), DTYPES, ids=str)
@pytest.mark.parametrize("norm", NORMS)
def test_dtypes_under_cpu_autocast_are_torchs(norm, input_dtype, parameter_dtype, half):
    own = [parameter_dtype for _ in parameters(norm, SMALL[norm])]
    libraries = [functional, F, *([fused] if hasattr(fused, norm) else [])]
    for library in libraries:
        got = dtypes(library, norm, half, input_dtype, parameter_dtype)
        assert got == [input_dtype, input_dtype, *own]
