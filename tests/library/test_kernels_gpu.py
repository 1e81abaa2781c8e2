"""Sizes that only a real GPU can do; everything else in test_kernels_*.py runs there as well."""

import pytest
import torch

from normcourse.measures import assert_rows_equal_alone
from normlib.kernels import pointwise, rows
from tests.library.kernel_device import DEVICE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU and up to 30 GB of its memory"),
]
CENTRE = pytest.mark.parametrize("centre", [True, False], ids=["layer_norm", "rms_norm"])


def draw(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


@CENTRE
def test_more_than_65535_rows_at_full_width(centre):
    x, weight = draw(70_000, 4096), draw(4096)

    def call(x):
        return rows.norm_forward(x, weight, None, 1e-5, centre=centre)

    assert_rows_equal_alone(call, x, rows=[0, 65_535, 65_536, 69_999])


@CENTRE
@pytest.mark.parametrize("columns", [4096, 65_536])
def test_offsets_beyond_2_to_the_31(columns, centre):
    """Rows of a view whose last one begins past element 2**31, forward and backward."""
    count, stride = 36_000 * 4096 // columns, 16 * columns
    x = torch.empty((count - 1) * stride + columns, device=DEVICE, dtype=torch.bfloat16)
    assert (count - 1) * stride > 2**31
    x = x.as_strided((count, columns), (stride, 1)).normal_()
    dy, weight = draw(count, columns), draw(columns)

    def call(dy, x):
        y, mean, rstd = rows.norm_forward(x, weight, None, 1e-5, centre=centre)
        return y, mean, rstd, rows.norm_backward(dy, x, weight, mean, rstd, bias=True)[0]

    assert_rows_equal_alone(call, dy, x, rows=[0, count // 2, count - 1])


@pytest.mark.parametrize("kind", ["tanh", "isru"])
def test_curves_beyond_2_to_the_31(kind):
    x, alpha = draw(2**19 + 9, 4096), torch.ones(1, device=DEVICE)  # 2^31 elements and nine rows

    def call(x):
        y = pointwise.curve_forward(x, alpha, None, None, 1.0, kind=kind)
        return y, pointwise.curve_backward(x, x, alpha, None, 1.0, kind=kind, bias=False)[0]

    assert_rows_equal_alone(call, x, rows=[0, 70_000, len(x) - 1])


@CENTRE
def test_dw_is_bit_equal_over_100_runs(centre):
    x, dy, weight = draw(4096, 1024), draw(4096, 1024), draw(1024)
    _, mean, rstd = rows.norm_forward(x, weight, None, 1e-5, centre=centre)
    first = rows.norm_backward(dy, x, weight, mean, rstd, bias=True)
    for _ in range(100):
        again = rows.norm_backward(dy, x, weight, mean, rstd, bias=True)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
