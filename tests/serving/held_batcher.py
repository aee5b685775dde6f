"""Hold the thread of a batcher while a test queues requests; nothing depends on how fast that happens."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from cloze.serving.batcher import Batcher

PATIENCE = 20.0
"""Seconds after which a test fails."""


async def wait_until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def held(batcher: Batcher) -> AsyncIterator[None]:
    """Hold the thread from the start of the block to its end."""
    has_started, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        has_started.set()
        may_end.wait(3 * PATIENCE)

    holding = asyncio.create_task(batcher.run(hold, tokens=1))
    await wait_until(has_started.is_set)
    try:
        yield
    finally:
        may_end.set()
        await asyncio.gather(holding, return_exceptions=True)


@contextmanager
def held_elsewhere(batcher: Batcher) -> Iterator[None]:
    """Hold the thread by a request of another event loop than those of the test."""
    is_held, may_end = threading.Event(), threading.Event()

    async def hold() -> None:
        async with held(batcher):
            is_held.set()
            await asyncio.to_thread(may_end.wait, 3 * PATIENCE)

    holding = threading.Thread(target=lambda: asyncio.run(hold()))
    holding.start()
    try:
        assert is_held.wait(PATIENCE)
        yield
    finally:
        may_end.set()
        holding.join()


async def queue(batcher: Batcher, *requests: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Start requests; each is in the queue before the next one starts."""
    tasks: list[asyncio.Task[Any]] = []
    for request in requests:
        tasks.append(asyncio.create_task(request))
        await wait_until(lambda: batcher.waiting_requests == len(tasks))
    return tasks


async def answers(batcher: Batcher, *requests: Coroutine[Any, Any, Any]) -> list[Any]:
    """Queue requests while the thread is held; return the result or exception of each."""
    async with held(batcher):
        tasks = await queue(batcher, *requests)
    return await asyncio.gather(*tasks, return_exceptions=True)
