"""Work in threads of our own, each of which uses one of torch's threads.

torch spreads every operation over all its threads and waits for the last of them; where other
processes keep the cores busy, each of the operations on a block waits for a core. A thread that
does a whole block waits for nobody.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

START_S = 10  # seconds at most that the threads of an executor wait for each other
AHEAD = 4  # items started for each thread before the first result must be taken

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_executors: dict[int, ThreadPoolExecutor] = {}  # by their number of threads


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """work(item) for each item, in as many threads as torch has; results in the order of items.

    An exception of work is raised here, when no thread is at work any more.
    """
    threads = torch.get_num_threads()
    executor = _executor(threads)
    started: deque[Future[Result]] = deque()
    try:
        for item in items:
            started.append(_start(executor, work, item))
            if len(started) == AHEAD * threads:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    finally:
        for future in started:
            future.cancel()
        wait(started)


def _start(
    executor: ThreadPoolExecutor, work: Callable[[Item], Result], item: Item
) -> Future[Result]:
    try:
        return executor.submit(work, item)
    except RuntimeError as error:
        if "cannot schedule" not in str(error):
            raise
        done: Future[Result] = Future()  # the interpreter is ending: executors take no more work
        done.set_result(work(item))
        return done


def _executor(threads: int) -> ThreadPoolExecutor:
    """Made at its first call, one for each number of threads."""
    with _lock:
        executor = _executors.get(threads)
        if executor is not None:
            return executor
        executor = ThreadPoolExecutor(threads, "normlib", _take_one_thread)
        _executors[threads] = executor
    # All threads start now, so that none of them changes torch's number later.
    together = threading.Barrier(threads)
    with contextlib.suppress(RuntimeError):  # the interpreter is ending: executors take no work
        wait([executor.submit(together.wait, START_S) for _ in range(threads)])
    return executor


def _take_one_thread() -> None:
    """Let torch use one thread in this thread, and as many as before in others.

    torch.set_num_threads sets the number for this thread and for those that are yet to start.
    """
    with _lock:
        usual = torch.get_num_threads()
        torch.set_num_threads(1)
        restore = threading.Thread(target=torch.set_num_threads, args=(usual,))
        restore.start()
        restore.join()


def _forget() -> None:
    """A forked process has none of its parent's threads, and perhaps a lock that stays closed."""
    global _lock, _executors
    _lock = threading.Lock()
    _executors = {}


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget)
