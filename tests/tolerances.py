"""How close is close: each kind of tolerance, its reason, and the function that applies it.

Truth is float64 or a second derivation. A tolerance is derived from the number of roundings, never
tried out. A unit is torch.finfo(dtype).eps: float64 2.2e-16, float32 1.2e-7, float16 9.8e-4,
bfloat16 7.8e-3.

- float64 norms with torch: assert_same_float64, (terms + 16) units of the largest number. Each
  operation rounds by at most one unit of numbers so large.
- float16 and bfloat16 with float64: assert_rounded_once, half a unit of the value, and float32's
  error. They are computed in float32 and rounded once, at the end.
- float32 with float64: assert_rounded_once with the error of the sums alone. Nothing is rounded at
  the end.
- the kernels with float64: kernel_device.assert_near, the same; a whole unit for bfloat16 in
  Triton's interpreter, which cuts off where a GPU rounds.
- the same numbers in another layout, twice, or stored: assert_same_bits or torch.equal. Nothing may
  differ.
- a closed formula with autograd, both float64: rtol = atol = 1e-12 or 1e-13. Sums of at most some
  hundred terms of order 1, each rounded by 1e-16.
- statistics of random draws: 4 or 5 standard deviations; the variance stands beside each.
- what a timed function returns: TOLERANCE in normcourse/timing/correctness.py, by dtype. It is to
  find another formula and does not judge roundings.
- an answer to an exercise: rtol and atol of expect in normcourse/checks/verdict.py. A learner may
  round.
- a stored output of a notebook: none, the text is the same. Lessons print what is true on every
  machine.
"""

import torch
from torch.testing import assert_close

TWO_ULP = 2.4e-7  # what float32 may lose in a few operations: test_accuracy.py measures by it
FLOAT32_ERROR = 2 * TWO_ULP  # of the largest magnitude
LARGEST_RSTD = 1e-3**-0.5  # 1/sqrt(eps) of the tests, whose eps is 1e-3


def computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def assert_same_float64(got, want, terms):
    """Equal up to float64 rounding, and in shape and dtype.

    A result is a sum of at most `terms` products of numbers near 1 and of 1/std, at most
    LARGEST_RSTD, made in some 16 operations; each rounds by at most eps. Cancellation makes a
    result smaller, not its error.
    """
    assert want.dtype == torch.float64
    scale = max(LARGEST_RSTD, want.abs().max().item()) if want.numel() else 1.0
    assert_close(got, want, rtol=0, atol=(terms + 16) * torch.finfo(torch.float64).eps * scale)


def assert_rounded_once(got, want, error, last=0.5):
    """got is want, but for `error` of the arithmetic, and for its dtype's rounding at the end.

    error: a number or tensor, absolute.
    last: of the final rounding, in units in the last place: 0.5 rounds to nearest, 1.0 truncates.
    A dtype that is computed in itself has no final rounding. The smallest subnormal number is
    always allowed.
    """
    limits = torch.finfo(got.dtype)
    if got.dtype == computed_in(got.dtype):
        last = 0.0
    subnormal = limits.smallest_normal * limits.eps
    bound = last * limits.eps * want.abs() + error + subnormal
    excess = (got.double() - want).abs() / bound
    assert got.shape == want.shape
    assert (excess <= 1).all(), f"error up to {excess.max():.3g} times the bound"


def assert_same_bits(first, second):
    for a, b in zip(first, second, strict=True):
        if a is None or b is None:
            assert a is b
        else:
            assert torch.equal(a, b)
