"""A student's code that runs or waits for ever, or changes torch's defaults, harms no notebook."""

import contextlib
import signal
import time
from collections.abc import Iterator

import torch

# of this process's own computing, so a busy machine does not trip it; answers need below 1
SECONDS = 60
# of a clock: long enough for torch.compile, which waits for a compiler in another process
IDLE_SECONDS = 300
# a process that wants to compute gets more of a clock's seconds than this, on a busy machine too
IDLE_SHARE = 0.001


class TooLong(BaseException):
    """The code computed for too long. No Exception, so that a student's `except` lets it by."""


class Idle(BaseException):
    """The code waits, for an input, a lock or a clock."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Raise TooLong after SECONDS of computing, Idle after IDLE_SECONDS without any.

    torch's default dtype and gradient mode are restored.
    """
    dtype = torch.get_default_dtype()
    gradients = torch.is_grad_enabled()
    try:
        with _computing_limited(SECONDS), _waiting_limited(IDLE_SECONDS):
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)


def _computing_limited(seconds: float) -> contextlib.AbstractContextManager:
    def stop(*_) -> None:
        raise TooLong

    return _alarmed("ITIMER_VIRTUAL", "SIGVTALRM", seconds, stop)


def _waiting_limited(seconds: float) -> contextlib.AbstractContextManager:
    computed = time.process_time()

    def look(*_) -> None:
        nonlocal computed
        before, computed = computed, time.process_time()
        if computed - before < IDLE_SHARE * seconds:
            raise Idle

    return _alarmed("ITIMER_REAL", "SIGALRM", seconds, look)


@contextlib.contextmanager
def _alarmed(timer: str, sent: str, seconds: float, handler) -> Iterator[None]:
    """Call handler every so many seconds of this timer; one that ran before goes on afterwards."""
    try:
        number = getattr(signal, sent)
        before = signal.signal(number, handler)
    except (AttributeError, ValueError):
        # Windows has no such signals; only a main thread may set one
        yield
        return
    left = signal.setitimer(getattr(signal, timer), seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(getattr(signal, timer), 0)
        signal.signal(number, before)
        signal.setitimer(getattr(signal, timer), *left)
