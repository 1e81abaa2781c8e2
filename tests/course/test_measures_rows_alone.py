"""Whether a row's bits depend on the others: planted dependences are found, and told apart."""

import pytest
import torch

from normcourse import draw, measures
from normlib import functional

THREADS = 8


def in_shares(x):
    """RMSNorm whose idle threads share a row: of few rows each has more threads."""
    share = max(1, THREADS // len(x))
    parts = x.square().unflatten(1, (share, -1))  # (N, threads of a row, numbers of a thread)
    total = torch.zeros(len(x), share, dtype=x.dtype)
    for number in parts.unbind(-1):
        total = total + number
    mean_square = total[:, 0]
    for other in total.unbind(1)[1:]:
        mean_square = mean_square + other
    return x * torch.rsqrt(mean_square / x.shape[1] + 1e-5)[:, None]


def one_after_the_other(x):
    total = torch.zeros(len(x), dtype=x.dtype)
    for number in x.square().unbind(1):
        total = total + number
    return x * torch.rsqrt(total / x.shape[1] + 1e-5)[:, None]


def rows(count=16, dim=512):
    return draw(count, dim).float()


def test_a_norm_whose_threads_share_a_row_is_found():
    x = rows()
    assert torch.allclose(in_shares(x), functional.rms_norm(x, (512,), None, 1e-5))
    found = measures.rows_that_differ(in_shares, x)
    assert 3 < len(found) < 16  # by chance some rows round to the same
    assert measures.rows_that_differ(one_after_the_other, x) == []
    measures.assert_rows_equal_alone(one_after_the_other, x)
    with pytest.raises(AssertionError, match=rf"^{len(found)} of 16 rows have other bits alone"):
        measures.assert_rows_equal_alone(in_shares, x)


def test_rows_of_the_caller():
    x = rows()
    found = measures.rows_that_differ(in_shares, x)
    kept = [row for row in range(16) if row not in found]
    measures.assert_rows_equal_alone(in_shares, x, rows=kept)
    with pytest.raises(AssertionError, match=f"^1 of 1 rows .* row {found[-1]}: "):
        measures.assert_rows_equal_alone(in_shares, x, rows=[found[-1]])


def test_the_message_counts_numbers_and_says_how_far():
    def moved(x):
        return x + torch.tensor([0.0, 0.25, -0.5]) if len(x) == 1 else x

    with pytest.raises(AssertionError, match=r"row 0: 2 of 3 numbers, by up to 0\.5\. The order"):
        measures.assert_rows_equal_alone(moved, torch.ones(2, 3))


def test_one_of_several_results_and_one_of_several_inputs():
    x = rows(4)

    def both(x, dy):
        return x, None, one_after_the_other(x) * dy[:, :1], in_shares(dy).sum(1)

    measures.assert_rows_equal_alone(lambda *t: both(*t)[:3], x, rows(4))
    assert measures.rows_that_differ(both, x, rows(4))
    assert measures.rows_that_differ(lambda x: in_shares(x).T.contiguous().T, x)  # any strides


def test_the_last_bit_the_sign_of_zero_and_nan():
    def turned(x):
        return -x if len(x) == 1 else x

    def next_bit(x):
        return x.nextafter(torch.tensor(9.0)) if len(x) == 1 else x

    zeros = torch.zeros(2, 3)
    assert measures.rows_that_differ(turned, zeros) == [0, 1]
    assert measures.rows_that_differ(next_bit, torch.ones(2, 3)) == [0, 1]
    for dtype in (torch.bfloat16, torch.float64):
        assert (
            measures.rows_that_differ(torch.sqrt, torch.tensor([[-1.0], [2.0]], dtype=dtype)) == []
        )


@pytest.mark.parametrize(
    "call, inputs, message",
    [
        (torch.square, (), "expected inputs of one and the same number of rows"),
        (torch.add, (torch.ones(2, 3), torch.ones(3)), r"\(2, 3\), \(3,\).*Bind what has no rows"),
        (torch.sum, (torch.ones(2, 3),), r"shape \(\) for 2 rows"),
        (lambda x: x.sum(0), (torch.ones(2, 3),), r"shape \(3,\) for 2 rows: expected one row"),
        (lambda x: (x if len(x) > 1 else None,), (torch.ones(2, 3),), "is None for one row"),
    ],
    ids=["no inputs", "other lengths", "one number", "columns", "None alone"],
)
def test_what_cannot_be_compared_is_refused(call, inputs, message):
    with pytest.raises(ValueError, match=message):
        measures.assert_rows_equal_alone(call, *inputs)
