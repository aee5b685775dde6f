"""The one thread that computes, and the queue before it: bounded, and batched by tokens across requests.

The event loop only reads and writes; so /health answers at once however much there is to compute, and torch has all
the cores to itself.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import torch

from cloze.errors import ClozeError
from cloze.serving.limits import Limits

Input = TypeVar("Input")
Output = TypeVar("Output")

_LOG = logging.getLogger(__name__)
_CALL_TOKENS = 512  # what a computation that says nothing of its size is taken for


class Overloaded(Exception):  # noqa: N818 (not an error: the work is as it should be, there is too much of it)
    """The queue is full."""


class DeadlineExceeded(Exception):  # noqa: N818
    """A request waited too long, and was given up."""


class ComputationFailed(Exception):  # noqa: N818
    """Something else than the input was wrong, as a panic in the tokenizer."""


@dataclass(eq=False, slots=True)
class _Job:
    """What a request wants computed: `compute` of its inputs, perhaps with those of others."""

    compute: Callable[[list[Any]], Sequence[Any]]
    inputs: list[Any]
    tokens: int
    future: asyncio.Future[list[Any]]
    since: float = field(default_factory=monotonic)

    def settle(self, outcome: Sequence[Any] | BaseException) -> None:
        """Give the request its answer, unless it has left. In the event loop."""
        if self.future.done():
            return
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(list(outcome))


class Engine:
    """Runs computations one after another in a thread of its own.

    Args:
        limits: how much may wait, how much goes together, and how long a request may wait.
        threads: of torch, for one computation.
    """

    def __init__(self, limits: Limits, *, threads: int) -> None:
        self._limits = limits
        self._threads = threads
        self._waiting: deque[_Job] = deque()
        self._waiting_tokens = 0
        self._batches = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="cloze-inference", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether a request would be refused."""
        return (
            len(self._waiting) >= self._limits.waiting_requests
            or self._waiting_tokens >= self._limits.waiting_tokens
        )

    @property
    def is_alive(self) -> bool:
        """Whether anything is computed at all."""
        return self._thread.is_alive() and not self._is_closed

    @property
    def waiting_requests(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def waiting_tokens(self) -> int:
        """How many tokens they have, estimated."""
        return self._waiting_tokens

    @property
    def batches(self) -> int:
        """How often something was computed."""
        return self._batches

    async def batched(
        self, compute: Callable[[list[Input]], Sequence[Output]], inputs: Sequence[Input], *, tokens: int
    ) -> list[Output]:
        """Return what `compute` makes of inputs, perhaps together with those of other requests.

        Args:
            compute: from any number of inputs to as many outputs, each as it would be alone; the same function (or
                method of the same object) for all that may go together.
            inputs: of this request.
            tokens: about how many they have.

        Raises:
            Overloaded, DeadlineExceeded: it was not computed.
            InputError: an input is wrong.
            ComputationFailed: something else is.
        """
        job = _Job(compute, list(inputs), tokens, asyncio.get_running_loop().create_future())
        with self._changed:
            if self.is_full or self._is_closed:
                raise Overloaded
            self._waiting.append(job)
            self._waiting_tokens += job.tokens
            self._changed.notify()
        try:
            async with asyncio.timeout(self._limits.deadline_seconds):
                return await job.future
        except TimeoutError:
            raise DeadlineExceeded from None
        finally:
            if job.future.cancelled():
                self._forget(job)

    async def run(self, compute: Callable[[], Output]) -> Output:
        """Return what `compute` does, alone; else as `batched`."""
        (output,) = await self.batched(lambda _: [compute()], [None], tokens=_CALL_TOKENS)
        return output

    def close(self) -> None:
        """End the thread after what it is at; what waits is refused."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _work(self) -> None:
        torch.set_num_threads(self._threads)  # of this thread
        while jobs := self._next_batch():
            outcomes = _outcomes(jobs)
            self._batches += 1
            loop = jobs[0].future.get_loop()
            try:
                loop.call_soon_threadsafe(_settle, jobs, outcomes)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _forget(self, job: _Job) -> None:
        """Take out a job that nobody waits for any more, unless it is being computed."""
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._waiting_tokens -= job.tokens

    def _next_batch(self) -> list[_Job]:
        """Wait for a job; return it with all others that go through the same function, the oldest first."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return [] if self._is_closed else self._take()

    def _take(self) -> list[_Job]:
        first = self._waiting.popleft()
        taken, tokens = [first], first.tokens
        left: deque[_Job] = deque()
        while self._waiting:
            job = self._waiting.popleft()
            if job.compute == first.compute and tokens + job.tokens <= self._limits.batch_tokens:
                taken.append(job)
                tokens += job.tokens
            else:
                left.append(job)
        self._waiting = left
        self._waiting_tokens -= tokens
        return taken


def _outcomes(jobs: list[_Job]) -> list[Sequence[Any] | BaseException]:
    """Return the outputs of each job, or what was wrong with it: where a batch fails, each is tried by itself."""
    try:
        outputs = jobs[0].compute([each for job in jobs for each in job.inputs])
    except BaseException as error:  # a panic of the tokenizer is no Exception
        if len(jobs) == 1:
            return [_as_told(error)]
        return [outcome for job in jobs for outcome in _outcomes([job])]
    rest = iter(outputs)
    return [[next(rest) for _ in job.inputs] for job in jobs]


def _as_told(error: BaseException) -> ClozeError | ComputationFailed:
    """Return what a person can be told; what nobody expected goes to the log with its traceback."""
    if isinstance(error, ClozeError):
        return error
    _LOG.error("a computation failed", exc_info=error)
    return ComputationFailed(type(error).__name__)


def _settle(jobs: list[_Job], outcomes: list[Sequence[Any] | BaseException]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        job.settle(outcome)
