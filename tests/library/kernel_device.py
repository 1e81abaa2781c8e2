"""What the tests of the kernels share.

Without a GPU the kernels run in the interpreter, see conftest.py.
"""

import sys

import pytest
import torch

import normcourse

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if sys.platform != "linux":  # on Linux it must be there
    pytest.importorskip("triton", reason="triton has no wheel for this system")

from normcourse.timing.traffic import is_interpreted  # noqa: E402
from tests.tolerances import assert_rounded_once, computed_in  # noqa: E402

assert is_interpreted() == (DEVICE == "cpu"), "triton was imported before TRITON_INTERPRET was set"

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
EPS = 1e-3  # large, so that a wrong place of eps shows


def draw(*shape, seed=0, dtype=torch.float32, mean=0.5):
    return (normcourse.draw(*shape, seed=seed) + mean).to(DEVICE, dtype)


def assert_near(got, want, dtype, size, steps):
    """got has dtype, and differs from want by its own rounding and by steps of size.

    A step is one rounding of a number as large as size.
    """
    assert got.dtype == dtype
    cut_off = is_interpreted() and dtype == torch.bfloat16
    error = steps * torch.finfo(computed_in(dtype)).eps * (size + want.abs())
    assert_rounded_once(got, want, error, last=1.0 if cut_off else 0.5)


def steps_of(*sizes):
    """Roundings on the way to a value, which a sum's length decides.

    They are some 8, and those of sums, whose error grows with their logarithm.
    """
    return 8 + sum(torch.tensor(size).log2().item() for size in sizes if size > 0)


def unchanged(function, *tensors):
    """function(*tensors), which must not change them. Fresh memory holds NaN, so that gaps show."""
    before = [None if t is None else t.clone() for t in tensors]
    torch.use_deterministic_algorithms(True)
    try:
        result = function(*tensors)
    finally:
        torch.use_deterministic_algorithms(False)
    for old, t in zip(before, tensors, strict=True):
        assert t is None or torch.equal(old, t), "an input was changed"
    return result


def float64(*tensors):
    return [None if t is None else t.detach().double() for t in tensors]
