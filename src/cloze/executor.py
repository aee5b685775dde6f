"""Mapping a function over data in several processes, with the results in order and memory bounded."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from cloze.errors import InputError, RunError

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in the order of the items.

    At most two items a worker are under way, so `items` may be a generator over more than memory holds.

    Args:
        function: a top-level function, which travels to other processes by name, or a `partial` of one.
        items: what to map over.
        workers: processes; 1 works in this one.

    Raises:
        InputError: `workers` is not positive.
        RunError: a worker died (most often killed for want of memory).
    """
    if workers < 1:
        raise InputError(f"{workers} is less than 1", where="workers")
    if workers == 1:
        yield from map(function, items)
        return
    # Not fork: the parent may hold threads (tokenizers' pool, progress), and a fork copies their locks held.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context)
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise RunError(
            "a worker process died", remedy="Run it again with fewer --workers if memory ran out"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
