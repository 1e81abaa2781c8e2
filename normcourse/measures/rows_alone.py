"""Batch invariance: whether a row's result has the same bits alone as among other rows."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Results = Tensor | Sequence[Tensor | None]


def rows_that_differ(
    call: Callable[..., Results], *inputs: Tensor, rows: Sequence[int] | None = None
) -> list[int]:
    """The rows of a batch whose result has other bits when call gets them alone.

    call takes the inputs, each (N, ...), and returns a tensor (N, ...), or several in a tuple, of
    which some may be None. Every row is tried, or those of `rows`.

    >>> def with_the_batch(x):
    ...     return x - x.mean(0)
    >>> rows_that_differ(torch.square, torch.tensor([[1.0], [2.0], [4.0]]))
    []
    >>> rows_that_differ(with_the_batch, torch.tensor([[1.0], [2.0], [4.0]]))
    [0, 1, 2]

    Raises: ValueError (no inputs, of different lengths, or a result that has not one row for each).
    """
    return [row for row, _ in _differing(call, inputs, rows)]


def assert_rows_equal_alone(
    call: Callable[..., Results], *inputs: Tensor, rows: Sequence[int] | None = None
) -> None:
    """AssertionError unless each row's result has the same bits alone as among the others.

    call, inputs and rows are those of rows_that_differ. The message names the rows, and how far the
    first of them is off.
    """
    found = list(_differing(call, inputs, rows))
    if not found:
        return
    tried = len(inputs[0]) if rows is None else len(rows)
    row, how_far = found[0]
    raise AssertionError(
        f"{len(found)} of {tried} rows have other bits alone than among {len(inputs[0])}; row "
        f"{row}: {how_far}. The order of its sums, or the code that it runs through, depends on "
        "the number of rows: let it depend on the row's length only."
    )


def _differing(
    call: Callable[..., Results], inputs: Sequence[Tensor], rows: Sequence[int] | None
) -> list[tuple[int, str]]:
    """Each row that differs, and how far."""
    if not inputs or len({len(value) for value in inputs}) != 1:
        shapes = [tuple(value.shape) for value in inputs]
        raise ValueError(
            f"expected inputs of one and the same number of rows, got shapes {shapes}. "
            "Bind what has no rows (a gain) in call."
        )
    count = len(inputs[0])
    together = _as_parts(call(*inputs), count)
    found = []
    for row in range(count) if rows is None else rows:
        alone = _as_parts(call(*(value[row : row + 1].contiguous() for value in inputs)), 1)
        for whole, single in zip(together, alone, strict=True):
            if (whole is None) != (single is None):
                raise ValueError("a result is None for one row or for all rows, not for both.")
            if whole is None or single is None:
                continue
            here, there = single[0].contiguous(), whole[row].contiguous()
            others = (_bits(here) != _bits(there)).any(-1)
            if others.any():
                away = (here.double() - there.double()).abs().max()
                far = f"{int(others.sum())} of {others.numel()} numbers, by up to {away:.2g}"
                found.append((row, far))
                break
    return found


def _as_parts(result: Results, count: int) -> Sequence[Tensor | None]:
    parts = [result] if isinstance(result, Tensor) else result
    for part in parts:
        if part is not None and (part.dim() == 0 or len(part) != count):
            raise ValueError(
                f"call returned shape {tuple(part.shape)} for {count} rows: expected one row of "
                "the result for each."
            )
    return parts


def _bits(values: Tensor) -> Tensor:
    """(numbers, bytes): also NaN is NaN, and 0 is not -0."""
    return values.reshape(-1, 1).view(torch.uint8)
