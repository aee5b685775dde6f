"""Hold a thread of a queue while a test queues requests; nothing depends on how fast that happens."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, TypeAlias

from cloze.serving.queue import Queue

Thread: TypeAlias = Literal["model", "texts"]
PATIENCE = 20.0
"""Seconds after which a test fails."""


async def wait_until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.002)


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait outside of an event loop."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "waited for nothing"
        time.sleep(0.005)


@asynccontextmanager
async def held(queue: Queue, thread: Thread = "model") -> AsyncIterator[None]:
    """Hold a thread from the start of the block to its end."""
    has_started, may_end = threading.Event(), threading.Event()

    def hold() -> bool:
        has_started.set()
        return may_end.wait(3 * PATIENCE)

    holding = asyncio.create_task(queue.run(hold, tokens=1, thread=thread))
    await wait_until(has_started.is_set)
    try:
        yield
    finally:
        may_end.set()
        await asyncio.gather(holding, return_exceptions=True)


@contextmanager
def held_elsewhere(queue: Queue) -> Iterator[None]:
    """Hold the thread by a request of another event loop than those of the test."""
    is_held, may_end = threading.Event(), threading.Event()

    async def hold() -> None:
        async with held(queue):
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


async def admitted(queue: Queue, request: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a request that is admitted to the queue, as the routes do."""
    async with queue.admit():
        return await request


async def start(queue: Queue, *requests: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """Start requests; each is in the queue before the next one starts."""
    tasks: list[asyncio.Task[Any]] = []
    for request in requests:
        tasks.append(asyncio.create_task(request))
        await wait_until(lambda: queue.waiting_requests == len(tasks))
    return tasks


async def answers(queue: Queue, *requests: Coroutine[Any, Any, Any], thread: Thread = "model") -> list[Any]:
    """Queue requests while a thread is held; return the result or exception of each."""
    async with held(queue, thread):
        tasks = await start(queue, *requests)
    return await asyncio.gather(*tasks, return_exceptions=True)
