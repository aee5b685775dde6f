"""Batches that run concurrently on a CPU, each on its own threads.

Threads that share a batch wait for each other at every operation, on a busy machine also for a processor.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from cloze.process import compute_threads, set_intra_op_threads

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_CONCURRENT_BATCHES = 8  # Python runs one thread at a time between the operations
_MIN_BATCH_TOKENS = 256  # with fewer, one batch on all threads is faster


def num_concurrent_batches(num_tokens: int) -> int:
    """Return how many batches to compute concurrently, given the number of tokens of all batches."""
    if num_tokens < 2 * _MIN_BATCH_TOKENS:
        return 1
    threads = compute_threads()
    concurrency = threads // -(-threads // _MAX_CONCURRENT_BATCHES)
    return concurrency if num_tokens >= concurrency * _MIN_BATCH_TOKENS else 1


def map_concurrently(
    function: Callable[[Item], Result], items: Iterable[Item], concurrency: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item and its result, in order.

    Args:
        function: called in several threads; each has an equal share of the threads of operations.
        items: read one at a time, `concurrency` items ahead of the results.
        concurrency: 1 calls the function in this thread.
    """
    if concurrency == 1:
        yield from ((item, function(item)) for item in items)
        return
    threads = compute_threads()

    def compute(item: Item) -> Result:
        set_intra_op_threads(threads // concurrency)
        return function(item)

    pool, pending = _pool(concurrency), deque[tuple[Item, Future[Result]]]()
    try:
        for item in items:
            pending.append((item, pool.submit(compute, item)))
            if len(pending) > concurrency:
                item, future = pending.popleft()
                yield item, future.result()
        for item, future in pending:
            yield item, future.result()
    finally:
        set_intra_op_threads(threads)  # MKL has one number for the whole process


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the thread pool of the process; threads keep their memory between calls, new ones would fault it in."""
    return ThreadPoolExecutor(threads, thread_name_prefix="cloze-batch")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no threads but its first
