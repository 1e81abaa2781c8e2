"""Time callables on CPU or CUDA against each other, a copy of the same bytes and an empty call; keep records.

The rules that `measure` enforces, and the test of each, are in tests/test_timing_self_checks.py.
"""

from normlib.timing.devices import Cpu, Cuda
from normlib.timing.entries import backward_of, forward_backward
from normlib.timing.errors import RecordError, TimingError
from normlib.timing.estimates import Ratio, fit_line, interval
from normlib.timing.loop import measure
from normlib.timing.provenance import allocator, provenance
from normlib.timing.records import check_record, load_record, make_record, save_record
from normlib.timing.results import Result, Row

__all__ = [
    "Cpu",
    "Cuda",
    "Ratio",
    "RecordError",
    "Result",
    "Row",
    "TimingError",
    "allocator",
    "backward_of",
    "check_record",
    "fit_line",
    "forward_backward",
    "interval",
    "load_record",
    "make_record",
    "measure",
    "provenance",
    "save_record",
]
