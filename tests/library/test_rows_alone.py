"""A row's result has the same bits alone as among other rows: the fused norms, and the kernels.

On the CPU this is a promise of the forward of LayerNorm and RMSNorm. A backward, and DyT and
DyISRU, take other code from so many elements on; the kernels hold it for all.
"""

import pytest
import torch

from normcourse.measures import assert_rows_equal_alone
from normlib import fused
from normlib.fused import blocks, operators
from tests.library.norm_cases import draw

DTYPES = [torch.float32, torch.float64, torch.bfloat16]
# rows and their length: functional's way and the operators', one block and several, a row that
# torch shares among its threads, and one that is longer than a block
SHAPES = [(3, 5), (300, 1024), (9, 2**15 - 1), (9, 2**15 + 1), (16, 2**16), (2, 2**19 + 7)]
NORMS = {
    "layer_norm": lambda x, w: fused.layer_norm(x, w.shape, w, w),
    "rms_norm": lambda x, w: fused.rms_norm(x, w.shape, w, 1e-5),
}


@pytest.fixture(params=[1, 2])
def threads(request):
    usual = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(usual)


def some(count):
    return sorted({0, count // 2, count - 1})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_the_fused_norms_on_the_cpu(norm, dtype, shape, threads):
    x = draw(*shape, dtype=dtype)
    weight = draw(shape[1], seed=1, dtype=dtype)
    assert_rows_equal_alone(lambda x: norm(x, weight), x, rows=some(len(x)))


def test_small_inputs_go_another_way_than_large_ones():
    """What SHAPES are for: 300 rows of 1024 run through the operators, one of them does not."""
    assert 1024 <= operators.SMALL < 300 * 1024 < blocks.BLOCK < 2**19 + 7
    assert operators.is_for_functional(draw(1, 1024))
    assert not operators.is_for_functional(draw(300, 1024))


def test_a_long_row_is_never_functionals(monkeypatch):
    """Its lone row is added up by all of torch's threads, in an order of their own."""

    def refuse(*_):
        raise AssertionError("functional was called")

    monkeypatch.setattr("normlib.fused.norms.checked_rms_norm", refuse)
    fused.rms_norm(draw(1, operators.LONG_ROW), (operators.LONG_ROW,))
    with pytest.raises(AssertionError, match="functional was called"):
        fused.rms_norm(draw(1, 8), (8,))
