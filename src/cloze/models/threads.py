"""The threads that compute on a CPU: one for each of several batches, or some together for one batch.

Threads that share a batch wait for each other at every operation, and beside other programs for one that has no
processor. So batches do not share them where there are several, and few tokens get no more than are free.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from cloze.process import chooses_threads, compute_threads

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_BATCHES = 8  # at once: Python runs one thread at a time between the operations
_MIN_TOKENS = 256  # of each of several batches: with fewer, threads are faster together
_READINGS = 4

_others: deque[int] = deque(maxlen=_READINGS)
"""Tasks of other programs that ran when this one was about to compute, the newest last."""


def batches_at_once(num_tokens: int) -> int:
    """Return how many batches to compute at once, given the tokens of all."""
    if num_tokens < 2 * _MIN_TOKENS:
        return 1
    threads = compute_threads()
    at_once = threads // -(-threads // _MAX_BATCHES)
    return at_once if num_tokens >= at_once * _MIN_TOKENS else 1


def map_in_threads(
    function: Callable[[Item], Result], items: Iterable[Item], at_once: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item and its result, in order; so many are computed at once, each by its share of the threads."""
    if at_once == 1:
        yield from ((item, function(item)) for item in items)
        return
    threads = compute_threads()

    def compute(item: Item) -> Result:
        _set_threads(threads // at_once)
        return function(item)

    pool, started = _pool(at_once), deque[tuple[Item, Future[Result]]]()
    try:
        for item in items:
            started.append((item, pool.submit(compute, item)))
            if len(started) > at_once:
                item, future = started.popleft()
                yield item, future.result()
        for item, future in started:
            yield item, future.result()
    finally:
        _set_threads(threads)  # MKL has one number for all threads


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads of all computations: new ones would have to fault in their memory."""
    return ThreadPoolExecutor(threads, thread_name_prefix="cloze-batch")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of the threads


def _set_threads(threads: int) -> None:
    """Set the threads of an operation that this thread starts."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


@contextmanager
def free_threads() -> Iterator[None]:
    """Compute in this block with no more threads than processors are free, in a process that cloze has configured."""
    threads = compute_threads()
    if threads == 1 or not chooses_threads():
        yield
        return
    _others.append(_running_tasks() - 1)
    free = (os.cpu_count() or 1) - (min(_others) if len(_others) == _READINGS else 0)
    if free >= threads:
        yield
        return
    _set_threads(max(1, free))
    try:
        yield
    finally:
        _set_threads(threads)


def _running_tasks() -> int:
    """Return the number of tasks of all programs that run or wait for a processor, this one among them.

    Source: https://man7.org/linux/man-pages/man5/proc_loadavg.5.html (the fourth field).
    """
    with suppress(OSError, ValueError, IndexError):  # not Linux
        return max(1, int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0]))
    return 1
