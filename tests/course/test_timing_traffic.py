"""What the kernels read and write in the interpreter: every byte once, and nothing outside."""

import pytest
import torch

from normcourse.timing.traffic import count_traffic
from normlib.kernels import launch, pointwise, rows, wide
from tests.library.kernel_device import DEVICE, draw

if DEVICE != "cpu":
    pytest.skip("traffic is counted in the interpreter only", allow_module_level=True)

PROGRAMS = 3
SHAPES = pytest.mark.parametrize("shape", [(9, 1000), (700, 3)], ids=str)
CENTRE = pytest.mark.parametrize("centre", [True, False], ids=["layer_norm", "rms_norm"])


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    for module in (launch, rows):  # which took the name when it was imported
        monkeypatch.setattr(module, "persistent_programs", lambda *_: PROGRAMS)


def inputs(*shape):
    """dy and x inside larger memory, weight, bias, in bfloat16."""
    dy, x = (
        draw(shape[0] + 2, shape[1] + 4, seed=s, dtype=torch.bfloat16)[1:-1, 2:-2] for s in (0, 1)
    )
    return dy, x, *(draw(shape[1], seed=seed, dtype=torch.bfloat16) for seed in (2, 3))


def nbytes(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


@SHAPES
@CENTRE
def test_a_norm_reads_x_once_and_writes_y_once(shape, centre):
    _, x, weight, bias = inputs(*shape)
    with count_traffic() as traffic:
        y, mean, rstd = rows.norm_forward(x, weight, bias, 1e-5, centre=centre)
    assert traffic.of(x) == (nbytes(x), 0)
    assert traffic.of(y) == (0, nbytes(y))
    assert traffic.written == nbytes(y, mean, rstd)  # so nothing outside of them was
    assert traffic.read == nbytes(x) + traffic.of(weight)[0] + traffic.of(bias)[0]


@SHAPES
@CENTRE
def test_a_norm_s_backward_reads_x_and_dy_once_and_writes_dx_once(shape, centre):
    dy, x, weight, bias = inputs(*shape)
    _, mean, rstd = rows.norm_forward(x, weight, bias, 1e-5, centre=centre)
    with count_traffic() as traffic:
        dx, _, _ = rows.norm_backward(dy, x, weight, mean, rstd, bias=True)
    programs = min(PROGRAMS, -(-shape[0] // max(1, 2048 // (1024 if shape[1] == 1000 else 4))))
    assert traffic.of(x) == (nbytes(x), 0)
    assert traffic.of(dy) == (nbytes(dy), 0)
    assert traffic.of(dx) == (0, nbytes(dx))
    # partial sums of dw and db in float32
    assert traffic.written == nbytes(dx) + 2 * programs * shape[1] * 4
    assert traffic.read == nbytes(x, dy, mean, rstd) + traffic.of(weight)[0]


@SHAPES
@pytest.mark.parametrize("kind", ["tanh", "isru"])
def test_a_curve_reads_and_writes_once_too(shape, kind):
    dy, x, weight, bias = inputs(*shape)
    parameter = torch.tensor([0.5])
    with count_traffic() as traffic:
        y = pointwise.curve_forward(x, parameter, weight, bias, 1.0, kind=kind)
    assert (traffic.of(x), traffic.of(y), traffic.written) == (
        (nbytes(x), 0),
        (0, nbytes(y)),
        nbytes(y),
    )
    assert traffic.read == nbytes(x) + sum(traffic.of(t)[0] for t in (weight, bias, parameter))
    with count_traffic() as traffic:
        dx, *_ = pointwise.curve_backward(dy, x, parameter, weight, 1.0, kind=kind, bias=True)
    programs = traffic.of(parameter)[0] // 4
    assert traffic.of(x) == (nbytes(x), 0) and traffic.of(dy) == (nbytes(dy), 0)
    assert traffic.of(dx) == (0, nbytes(dx))
    assert traffic.written == nbytes(dx) + programs * (2 * shape[1] + 1) * 4
    assert traffic.read == nbytes(x, dy) + sum(traffic.of(t)[0] for t in (weight, parameter))


@CENTRE
def test_a_wide_row_is_read_twice(centre, monkeypatch):
    monkeypatch.setattr(rows, "FORWARD_BYTES", 0)
    monkeypatch.setattr(rows, "BACKWARD_BYTES", 0)
    monkeypatch.setattr(wide, "PIECE", 256)
    dy, x, weight, bias = inputs(3, 1000)
    first_piece = 3 * 256 * 2 if centre else 0  # for the shift
    with count_traffic() as traffic:
        y, mean, rstd = rows.norm_forward(x, weight, bias, 1e-5, centre=centre)
    assert traffic.of(x) == (2 * nbytes(x) + first_piece, 0)
    assert traffic.written == nbytes(y, mean, rstd)
    with count_traffic() as traffic:
        dx, *_ = rows.norm_backward(dy, x, weight, mean, rstd, bias=True)
    assert traffic.of(x) == (2 * nbytes(x), 0) and traffic.of(dy) == (2 * nbytes(dy), 0)
    assert traffic.of(dx) == (0, nbytes(dx))
    sums_of_a_row = 3 if centre else 1
    assert traffic.written == nbytes(dx) + 3 * sums_of_a_row * 4 + 2 * 2 * 1000 * 4


def test_counting_ends_with_the_block():
    _, x, _, _ = inputs(2, 3)
    with count_traffic() as traffic:
        pass
    rows.norm_forward(x, None, None, 1e-5, centre=False)
    assert traffic.read == traffic.written == 0


def test_counting_compiled_kernels_is_refused(monkeypatch):
    monkeypatch.setattr("normcourse.timing.traffic.is_interpreted", lambda: False)
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"), count_traffic():
        pass
