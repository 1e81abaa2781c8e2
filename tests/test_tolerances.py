"""The functions that judge closeness accept what they promise.

They see the smallest error above it.
"""

import math

import pytest
import torch

from tests.library import norm_cases
from tests.tolerances import (
    FLOAT32_ERROR,
    LARGEST_RSTD,
    TWO_ULP,
    assert_rounded_once,
    assert_same_bits,
    assert_same_float64,
)

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


def values(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1000, dtype=torch.float64, generator=generator).to(dtype)


@HALVES
def test_one_rounding_is_accepted_and_a_unit_too_much_is_seen(dtype):
    want = values()
    got = want.to(dtype)
    assert_rounded_once(got, want, error=0.0)
    wrong = got.clone()
    wrong[7] *= 1 + torch.finfo(dtype).eps
    with pytest.raises(AssertionError, match=r"error up to .* times the bound"):
        assert_rounded_once(wrong, want, error=0.0)


@HALVES
def test_two_roundings_are_seen(dtype):
    want = values()
    with pytest.raises(AssertionError, match="times the bound"):
        assert_rounded_once((want.to(dtype) / 3).to(dtype) * 3, want, error=0.0)


@HALVES
def test_cutting_off_needs_a_whole_unit(dtype):
    want = values().abs()
    rounded = want.to(dtype)
    cut = torch.where(
        rounded.double() > want, torch.nextafter(rounded, torch.zeros((), dtype=dtype)), rounded
    )
    assert_rounded_once(cut, want, error=0.0, last=1.0)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_rounded_once(cut, want, error=0.0)


def test_float32_has_no_rounding_at_the_end():
    want = values(torch.float32).double()
    assert_rounded_once(want.float(), want, error=0.0)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_rounded_once(want.float() * (1 + torch.finfo(torch.float32).eps), want, error=0.0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_seen(wrong):
    with pytest.raises(AssertionError):
        assert_rounded_once(torch.tensor([wrong]).half(), torch.ones(1).double(), error=1.0)


def test_another_shape_is_seen():
    with pytest.raises(AssertionError):
        assert_rounded_once(torch.ones(1, 2).half(), torch.ones(2).double(), error=1.0)
    with pytest.raises(AssertionError):
        assert_same_float64(torch.ones(1, 2).double(), torch.ones(2).double(), terms=1)


@pytest.mark.parametrize("units", [1, 1000])
def test_float64_is_judged_by_terms(units):
    want = values()
    got = want + units * torch.finfo(torch.float64).eps * want.abs().max()
    if units == 1:
        assert_same_float64(got, want, terms=1)
        return
    with pytest.raises(AssertionError, match="not close"):
        assert_same_float64(got, want, terms=1)


def test_one_bit_is_seen():
    x = values()
    assert_same_bits([x, None], [x.clone(), None])
    with pytest.raises(AssertionError):
        assert_same_bits([x], [torch.nextafter(x, x + 1)])
    with pytest.raises(AssertionError):
        assert_same_bits([x], [None])


# The bounds once more, written in another way: a looser one is seen


def test_the_constants_are_those_that_were_derived():
    assert math.isclose(TWO_ULP, 2 * 2.0**-23, rel_tol=0.01)
    assert math.isclose(FLOAT32_ERROR, 4 * 2.0**-23, rel_tol=0.01)
    assert norm_cases.EPS == 1e-3
    assert math.isclose(LARGEST_RSTD, 1000**0.5)


@pytest.mark.parametrize("terms", [1, 64])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_float64_may_be_off_by_a_unit_for_each_operation(terms, scale):
    want = torch.full((3,), scale, dtype=torch.float64)
    bound = (terms + 16) * 2.0**-52 * max(1000**0.5, scale)
    assert_same_float64(want + 0.99 * bound, want, terms)
    with pytest.raises(AssertionError, match="not close"):
        assert_same_float64(want + 1.05 * bound, want, terms)


@pytest.mark.parametrize(
    ("dtype", "unit"), [(torch.float16, 2.0**-10), (torch.bfloat16, 2.0**-7)], ids=str
)
def test_a_rounding_may_be_off_by_half_a_unit_and_the_error(dtype, unit):
    got = torch.ones(3, dtype=dtype)
    half = (got.double() * (1 + 0.49 * unit)).double()
    assert_rounded_once(got, half, error=0.0)
    more = got.double() * (1 + 0.55 * unit)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_rounded_once(got, more, error=0.0)
    assert_rounded_once(got, more, error=0.06 * unit)
