"""Requests take turns: one thread reads and writes texts, one runs the model, each with a queue of requests.

The event loop only receives and sends, so /health answers at once. A text is split into windows of token ids in the
first thread, at most a batch's worth for each request, so that few are in memory; windows of several requests pass
through the model together in the second. A request that exceeds a batch takes turns with the others, and on a CPU a
third thread computes short requests meanwhile.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, count, islice
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from starlette.exceptions import HTTPException

from cloze.errors import ClozeError
from cloze.process import set_intra_op_threads
from cloze.serving.limits import Limits

Kernel: TypeAlias = Callable[[list[Any]], Sequence[Any]]
"""Returns the output of each of at least one item, independent of the others; items of equal kernels are batched."""

_LOG = logging.getLogger(__name__)
_RESULTS_PER_TURN = 4
_numbers = count(1)


class Overloaded(HTTPException):
    """The queue is full."""

    def __init__(self) -> None:
        super().__init__(429, "too many requests are queued: try again later", {"Retry-After": "1"})


class DeadlineExceeded(HTTPException):
    """A request waited too long and was canceled."""

    def __init__(self) -> None:
        super().__init__(504, "the request waited too long for the model")


class ShuttingDown(HTTPException):
    """No new requests are accepted."""

    def __init__(self) -> None:
        super().__init__(503, "the server is shutting down")


class ComputationFailed(HTTPException):
    """A computation failed for another reason than its input, such as a panic in the tokenizer."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(424, f"the computation failed: {type(error).__name__}")


@dataclass(eq=False, slots=True)
class Request:
    """A request, and the measurements for its headers, the log and the metrics."""

    id: str = ""
    model: str = ""
    tokens: int = 0
    """Tokens that the model computed."""
    truncated_texts: int = 0
    queue_seconds: float = 0.0
    tokenization_seconds: float = 0.0
    compute_seconds: float = 0.0
    number: int = 0
    """Counts the admitted requests from 1."""
    turn_tokens: int = 0
    """Tokens that either thread has taken."""


current_request: ContextVar[Request] = ContextVar("current_request")
"""The request that is answered, which the middleware sets."""


@dataclass(eq=False, slots=True)
class _Job:
    """The items of a request that wait for a kernel, with their tokens, and the outputs so far."""

    kernel: Kernel
    items: deque[tuple[Any, int]]
    future: asyncio.Future[list[Any]]
    request: Request
    tokens: int
    """Tokens of the items."""
    changes_model: bool
    """Whether the kernel changes the model while it computes, as hooks do."""
    outputs: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    """The time of its batches."""
    error: Exception | None = None

    def is_long(self, turn: int) -> bool:
        """Return whether it exceeds a turn, or its request has had one."""
        return self.tokens > turn or self.request.turn_tokens >= turn

    def take(self, budget: int) -> list[Any]:
        """Return the next items until they use up the budget of tokens."""
        taken: list[Any] = []
        while budget > 0 and self.items:
            item, tokens = self.items.popleft()
            taken.append(item)
            budget -= tokens
            self.tokens -= tokens
            self.request.turn_tokens += tokens
        return taken

    def fail(self, error: BaseException) -> None:
        """Record an error; an unexpected one is logged with its traceback."""
        self.items.clear()
        self.tokens = 0
        if isinstance(error, ClozeError):
            self.error = error
        else:
            _LOG.error("the computation of request %s failed", self.request.id, exc_info=error)
            self.error = ComputationFailed(error)


class _Worker:
    """One thread or two that apply kernels to the items of requests, in batches across requests.

    Args:
        short_tokens: maximum number of tokens of jobs that a second thread computes while this one computes a long
            job; 0 starts none.
    """

    def __init__(
        self, name: str, queue: "Queue", *, threads: int | None = None, short_tokens: int = 0
    ) -> None:
        self._queue, self._threads, self._short_tokens = queue, threads, short_tokens
        self.waiting: deque[_Job] = deque()
        self.batches = self.num_running = 0
        self._last = Request()
        self._changed = threading.Condition()
        self.is_closed = self.is_stopping = False
        self.starts: list[float] = []  # of the batches that are computed
        self._computes_long = False
        self._alone = threading.Lock()  # held by the second thread, or by a job that changes the model
        rules = [(self._next_batch, threads), (self._next_short, 1)][: 2 if short_tokens else 1]
        self.threads = [
            threading.Thread(target=self._run_jobs, args=rule, name=name, daemon=True) for rule in rules
        ]
        for thread in self.threads:
            thread.start()

    @property
    def waiting_tokens(self) -> int:
        """Tokens that a later request waits for: at most one batch of each job, since jobs take turns."""
        with self._changed:
            return sum(min(job.tokens, self._queue.turn_tokens) for job in self.waiting)

    async def run(
        self, kernel: Kernel, items: Sequence[Any], tokens: Sequence[int], *, changes_model: bool = False
    ) -> list[Any]:
        """Return the output for each item, given its number of tokens."""
        if not items:
            return []
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        request, start = current_request.get(Request()), time.perf_counter()
        numbered = deque(zip(items, tokens, strict=True))
        job = _Job(kernel, numbered, future, request, sum(tokens), changes_model)
        with self._changed:
            if self.is_closed:
                raise Overloaded
            self.waiting.append(job)
            self._changed.notify_all()
        try:
            return await future
        finally:
            with self._changed:
                if future.cancelled() and job in self.waiting:
                    self.waiting.remove(job)
            request.queue_seconds += max(0.0, time.perf_counter() - start - job.seconds)
            if self._threads is None:
                request.tokenization_seconds += job.seconds
            else:
                request.compute_seconds += job.seconds
                request.tokens += sum(tokens) - job.tokens

    def close(self) -> None:
        """End the threads after their current batch, whatever is queued."""
        with self._changed:
            self.is_closed = self.is_stopping = True
            self._changed.notify_all()

    def _run_jobs(self, next_batch: Callable[[], tuple[list[_Job], int] | None], threads: int | None) -> None:
        if threads is not None:
            set_intra_op_threads(threads)
        while batch := next_batch():
            jobs, tokens = batch
            is_alone = jobs[0].changes_model or next_batch == self._next_short
            with self._alone if is_alone else nullcontext():
                start = time.perf_counter()
                self.starts.append(start)
                _compute([(job, job.take(tokens)) for job in jobs])
            self.starts.remove(start)
            for job in jobs:
                job.seconds += time.perf_counter() - start
            done = [job for job in jobs if not job.items]
            with self._changed:
                self.batches += 1
                self.num_running -= _num_requests(jobs)
                self.waiting.extend(job for job in jobs if job.items and not job.future.cancelled())
            try:
                jobs[0].future.get_loop().call_soon_threadsafe(_settle, done)
            except RuntimeError:  # the event loop is closed: nobody waits any more
                return

    def _next_batch(self) -> tuple[list[_Job], int] | None:
        """Wait for a job; return it with all of its kernel that fit, in order, and how many tokens each may have.

        A long job has a turn while there are other requests, else a batch. Requests that have used up a
        turn alternate with others: a short one waits for one of them, not for all.
        Once the server stops, the oldest request is first: with turns none might finish in the time left.
        """
        with self._changed:
            self._computes_long = False
            self._changed.wait_for(lambda: self.waiting or self.is_closed)
            if self.is_closed:
                return None
            if self.is_stopping:
                self.waiting = deque(sorted(self.waiting, key=attrgetter("request.number")))
            turn, batch = self._queue.turn_tokens, self._queue.limits.batch_tokens
            was_long = self._last.turn_tokens >= turn
            others = (job for job in self.waiting if (job.request.turn_tokens >= turn) != was_long)
            first = self.waiting[0] if self.is_stopping else next(others, self.waiting[0])
            self._last, is_long = first.request, first.is_long(turn)
            if is_long and not first.changes_model:
                self._computes_long = True
                self._changed.notify_all()
            limit = turn if is_long and self._queue.is_shared else batch
            return self._take(first, limit), limit

    def _next_short(self) -> tuple[list[_Job], int] | None:
        """Wait for short jobs beside a long one; return as `_next_batch`."""
        turn, limit = self._queue.turn_tokens, self._short_tokens
        with self._changed:
            while not self.is_closed:
                short = (job for job in self.waiting if job.tokens <= limit and not job.is_long(turn))
                plain = (job for job in short if not job.changes_model)
                if self._computes_long and not self.is_stopping and (first := next(plain, None)):
                    return self._take(first, limit), limit
                self._changed.wait()
        return None

    def _take(self, first: _Job, limit: int) -> list[_Job]:
        """Take a job and other jobs of its kernel that fit with it, in order."""
        taken, left, tokens = list[_Job](), deque[_Job](), 0
        self.waiting.remove(first)
        for job in (first, *self.waiting):
            fits = tokens + job.tokens <= limit and not job.is_long(self._queue.turn_tokens)
            if job is first or (job.kernel == first.kernel and fits):
                taken.append(job)
                tokens += job.tokens
            else:
                left.append(job)
        self.waiting = left
        self.num_running += _num_requests(taken)
        return taken


def _num_requests(jobs: list[_Job]) -> int:
    return len({job.request.number for job in jobs if job.request.number})


def _compute(shares: list[tuple[_Job, list[Any]]]) -> None:
    """Compute items of jobs together; if that fails, those of each job separately."""
    items = [item for _, share in shares for item in share]
    try:
        outputs = [output for _, output in zip(items, shares[0][0].kernel(items), strict=True)]
    except BaseException as error:  # a panic of the tokenizer is not an Exception
        if len(shares) == 1:
            shares[0][0].fail(error)
        else:
            for alone in shares:
                _compute([alone])
        return
    rest = iter(outputs)
    for job, share in shares:
        job.outputs += islice(rest, len(share))


def _settle(jobs: list[_Job]) -> None:
    """Hand over a few results, and the rest after other events: writing each response takes time."""
    for job in jobs[:_RESULTS_PER_TURN]:
        if job.error is not None and not job.future.done():  # it is done if the client has disconnected
            job.future.set_exception(job.error)
        elif not job.future.done():
            job.future.set_result(job.outputs)
    if rest := jobs[_RESULTS_PER_TURN:]:
        asyncio.get_running_loop().call_soon(_settle, rest)


class Queue:
    """The requests that wait.

    Args:
        threads: of torch, for a computation.
        turn_tokens: maximum number of tokens in a turn of one request while others wait; None is a batch. With a
            maximum, a second thread computes jobs of at most half of one thread's share of a turn beside a long job.
    """

    def __init__(self, limits: Limits, *, threads: int, turn_tokens: int | None = None) -> None:
        self.limits = limits
        self.turn_tokens = min(turn_tokens or limits.batch_tokens, limits.batch_tokens)
        self.is_leaving = False
        """Whether `stop` follows soon; requests are still answered."""
        self._num_admitted = 0
        self._texts = _Worker("cloze-texts", self)
        short_tokens = self.turn_tokens // (2 * threads) if turn_tokens else 0
        self._model = _Worker("cloze-inference", self, threads=threads, short_tokens=short_tokens)
        self._workers = (self._texts, self._model)

    @property
    def is_full(self) -> bool:
        """Whether a new request would be refused."""
        limits = self.limits
        return (
            self.waiting_requests >= limits.waiting_requests or self.waiting_tokens >= limits.waiting_tokens
        )

    @property
    def is_alive(self) -> bool:
        """Whether new requests are accepted."""
        threads = (thread for worker in self._workers for thread in worker.threads)
        is_stopping = any(worker.is_stopping for worker in self._workers)
        return not is_stopping and all(thread.is_alive() for thread in threads)

    @property
    def is_stuck(self) -> bool:
        """Whether a batch takes longer than requests may wait."""
        limit = time.perf_counter() - self.limits.deadline_seconds
        return any(start < limit for worker in self._workers for start in tuple(worker.starts))

    @property
    def waiting_requests(self) -> int:
        """Number of requests that have been admitted and are not in the batch that the model computes."""
        return self._num_admitted - self._model.num_running

    @property
    def waiting_tokens(self) -> int:
        """Number of tokens, estimated of texts, that are read or computed before a new request gets its turn."""
        return sum(worker.waiting_tokens for worker in self._workers)

    @property
    def batches(self) -> int:
        """Number of batches that the model has computed."""
        return self._model.batches

    @property
    def is_shared(self) -> bool:
        """Whether there are several requests."""
        return self._num_admitted > 1

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Limit the time of a request; raise Overloaded, or at its end DeadlineExceeded."""
        if self.is_full:
            raise Overloaded
        request = current_request.get(Request())
        if request.number:  # of an earlier request of this task
            request = Request()
        current_request.set(request)
        request.number = next(_numbers)
        self._num_admitted += 1
        try:
            async with asyncio.timeout(self.limits.deadline_seconds):
                yield
        except TimeoutError:
            raise DeadlineExceeded from None
        finally:
            self._num_admitted -= 1

    async def convert(self, kernel: Kernel, items: Sequence[Any], tokens: Sequence[int]) -> list[Any]:
        """Return what a function of texts or of outputs returns for each item, in the thread for texts.

        Raises:
            InputError: an item is invalid.
            ComputationFailed: any other error.
        """
        return await self._texts.run(kernel, items, tokens)

    async def compute(
        self,
        kernel: Kernel,
        windows: Sequence[Sequence[Any]],
        tokens: Callable[[Any], int],
        *,
        changes_model: bool = False,
    ) -> list[list[Any]]:
        """Return the outputs of the windows of each input, given how to count their tokens; raises as `convert`."""
        flat = list(chain.from_iterable(windows))
        numbers = list(map(tokens, flat))
        outputs = iter(await self._model.run(kernel, flat, numbers, changes_model=changes_model))
        return [list(islice(outputs, len(group))) for group in windows]

    async def run(
        self, function: Callable[[], Any], *, tokens: int, thread: Literal["model", "texts"] = "model"
    ) -> Any:
        """Return the result of a function that runs alone in a thread; raises as `convert`."""
        worker = self._model if thread == "model" else self._texts
        (output,) = await worker.run(lambda _: [function()], [None], [tokens], changes_model=True)
        return output

    def stop(self) -> None:
        """Refuse new requests; answer the queued ones one after the other."""
        for worker in self._workers:
            worker.is_stopping = True

    def close(self) -> None:
        """End the threads after their current batches, whatever is queued."""
        for worker in self._workers:
            worker.close()

    def wait(self, seconds: float) -> bool:
        """Wait for the threads to end after `close`; return whether they have ended."""
        end = time.monotonic() + seconds
        threads = [thread for worker in self._workers for thread in worker.threads]
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)
