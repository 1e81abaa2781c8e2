"""Time callables on CPU or CUDA against each other, a copy of the same bytes and an empty call; keep records.

The rules that `measure` enforces, and the test of each, are in tests/course/test_timing_self_checks.py.
"""

from normcourse.timing.devices import Cpu, Cuda
from normcourse.timing.entries import backward_of, forward_backward
from normcourse.timing.errors import RecordError, TimingError
from normcourse.timing.estimates import Ratio, fit_line, interval
from normcourse.timing.loop import measure
from normcourse.timing.provenance import allocator, provenance
from normcourse.timing.records import check_record, load_record, make_record, save_record
from normcourse.timing.results import Result, Row

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
