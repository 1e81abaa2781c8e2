"""A student's code may run for ever or change a default of torch; the notebook must not suffer."""

import contextlib
import signal
from collections.abc import Iterator

import torch

# of this process's own computing, so a busy machine does not trip it; answers need below 1
SECONDS = 60


class TooLong(BaseException):
    """The code computed for too long. No Exception, so that a student's `except` lets it by."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Raise TooLong after SECONDS of computing; restore torch's default dtype and gradient mode."""
    dtype = torch.get_default_dtype()
    gradients = torch.is_grad_enabled()
    try:
        with _limited(SECONDS):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_) -> None:
        raise TooLong

    try:
        before = signal.signal(signal.SIGVTALRM, stop)
    except (AttributeError, ValueError):
        # Windows has no such signal; only a main thread may set one
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
