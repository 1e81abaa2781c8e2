"""Time callables on CPU or CUDA against each other, a copy of the same bytes and an empty call.

The rules that `measure` enforces, and the test of each, are in
tests/course/test_timing_self_checks.py.
"""

import normcourse.computing  # noqa: F401 (one torch thread)
from normcourse.jsonfile import RecordError
from normcourse.timing.devices import Cpu, Cuda
from normcourse.timing.errors import TimingError
from normcourse.timing.estimates import Ratio, fit_line, interval
from normcourse.timing.gpu_timer import time_on_gpu
from normcourse.timing.loop import measure
from normcourse.timing.passes import backward_of, forward_backward
from normcourse.timing.provenance import allocator, provenance
from normcourse.timing.records import load_record, new_record, save_record
from normcourse.timing.records_shown import Shown, find_records
from normcourse.timing.results import Output, Result, Row

__all__ = [
    "Cpu",
    "Cuda",
    "Output",
    "Ratio",
    "RecordError",
    "Result",
    "Row",
    "Shown",
    "TimingError",
    "allocator",
    "backward_of",
    "find_records",
    "fit_line",
    "forward_backward",
    "interval",
    "load_record",
    "measure",
    "new_record",
    "provenance",
    "save_record",
    "time_on_gpu",
]
