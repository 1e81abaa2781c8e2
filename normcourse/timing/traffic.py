"""Counts the bytes that interpreted kernels read and write."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import triton
from torch import Tensor
from triton.runtime import interpreter


@dataclass
class Traffic:
    """Every address that was loaded and stored, with its bytes; masked lanes are left out."""

    loads: list[tuple[np.ndarray, int]] = field(default_factory=list)
    stores: list[tuple[np.ndarray, int]] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Bytes loaded, each as often as it was."""
        return sum(addresses.size * nbytes for addresses, nbytes in self.loads)

    @property
    def written(self) -> int:
        return sum(addresses.size * nbytes for addresses, nbytes in self.stores)

    def of(self, tensor: Tensor) -> tuple[int, int]:
        """Bytes loaded from and stored to the memory between tensor's first and last element."""
        first = tensor.data_ptr()
        span = (
            sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
            + 1
        )
        last = first + span * tensor.element_size()

        def inside(some: list[tuple[np.ndarray, int]]) -> int:
            return sum(
                int(((addresses >= first) & (addresses < last)).sum()) * nbytes
                for addresses, nbytes in some
            )

        return inside(self.loads), inside(self.stores)


@contextmanager
def count_traffic() -> Iterator[Traffic]:
    """The Traffic of the kernels launched inside.

    Args: none. Only interpreted kernels can be counted: those of a process that had
        TRITON_INTERPRET=1 set before it imported triton.
    Raises: RuntimeError if kernels are compiled here.
    """
    if not triton.knobs.runtime.interpret or not is_interpreted():
        raise RuntimeError(
            "count_traffic needs Triton's interpreter, but kernels are compiled here. "
            "Set TRITON_INTERPRET=1 before triton is imported for the first time; "
            "in a notebook, in its first cell."
        )
    builder = interpreter.interpreter_builder
    traffic = Traffic()
    load = builder.create_masked_load
    store = builder.create_masked_store

    def counted_load(ptrs, mask, *rest):
        value = load(ptrs, mask, *rest)
        traffic.loads.append(_touched(ptrs, mask))
        return value

    def counted_store(ptrs, value, mask, *rest):
        store(ptrs, value, mask, *rest)
        traffic.stores.append(_touched(ptrs, mask))

    builder.create_masked_load = counted_load
    builder.create_masked_store = counted_store
    try:
        yield traffic
    finally:
        del builder.create_masked_load, builder.create_masked_store


def is_interpreted() -> bool:
    return isinstance(triton.language.sum, interpreter.InterpretedFunction)


def _touched(ptrs, mask) -> tuple[np.ndarray, int]:
    addresses, inside = np.broadcast_arrays(ptrs.data, mask.data)
    return addresses[inside], ptrs.get_element_ty().primitive_bitwidth // 8
