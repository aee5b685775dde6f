"""Batch requests across clients: one thread computes, in front of it a bounded queue.

The event loop only reads and writes, so /health answers at once, and torch has all cores to itself. A computation that
exceeds one batch takes turns with the other requests in the queue.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from cloze.errors import ClozeError
from cloze.process import set_intra_op_threads
from cloze.serving.limits import Limits

Input = TypeVar("Input")
Output = TypeVar("Output")
InputT = TypeVar("InputT", contravariant=True)
OutputT = TypeVar("OutputT", covariant=True)

_LOG = logging.getLogger(__name__)
_RESULTS_PER_TURN = 4
_READ_PER_COMPUTED = 4  # tokens that are tokenized in the time in which a small model computes one


class Overloaded(Exception):  # noqa: N818 (nothing is wrong but the load)
    """The queue is full."""


class DeadlineExceeded(Exception):  # noqa: N818
    """A request waited too long and was canceled."""


class ComputationFailed(Exception):  # noqa: N818
    """A computation failed for another reason than its input, such as a panic in the tokenizer."""


class Window(Protocol):
    """A unit of input that passes through the model whole."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens, possibly estimated."""


@dataclass(frozen=True, slots=True)
class WindowedInput(Generic[OutputT]):
    """An input that is split into windows."""

    windows: Sequence[Window]
    join: Callable[[Sequence[Any]], OutputT]
    """Combines the outputs of the windows into the output of the input."""


class Computation(Protocol[InputT, OutputT]):
    """A computation on inputs of any length; the windows of equal computations are batched."""

    def split(self, value: InputT) -> WindowedInput[OutputT]:
        """Split an input into windows."""

    def compute(self, windows: list[Any]) -> Sequence[Any]:
        """Return the output of each of at least one window, independent of the others."""


@dataclass(frozen=True, slots=True)
class _UnsplitInput:
    value: Any
    num_tokens: int


@dataclass(frozen=True, slots=True)
class _UnsplitComputation:
    """A function as a computation whose inputs are windows."""

    function: Callable[[list[Any]], Sequence[Any]]

    def split(self, value: _UnsplitInput) -> WindowedInput[Any]:
        return WindowedInput((value,), lambda outputs: outputs[0])

    def compute(self, windows: list[_UnsplitInput]) -> Sequence[Any]:
        return self.function([window.value for window in windows])


@dataclass(eq=False, slots=True)
class _Job:
    """The computation of one request, and its progress."""

    computation: Computation[Any, Any]
    inputs: deque[tuple[Any, int]]
    """Inputs that are not split yet, with their estimated tokens."""
    future: asyncio.Future[list[Any]]
    tokens: int = 0
    """Tokens that are not computed yet."""
    windows: deque[Window] = field(default_factory=deque)
    """Windows that are not computed yet."""
    partial: deque[tuple[WindowedInput[Any], list[Any]]] = field(default_factory=deque)
    """Inputs that are split, with the outputs of their first windows."""
    outputs: list[Any] = field(default_factory=list)
    error: Exception | None = None
    is_canceled: bool = False

    def __post_init__(self) -> None:
        self.count_tokens()

    @property
    def is_done(self) -> bool:
        return self.error is not None or not (self.inputs or self.partial)

    def count_tokens(self) -> None:
        self.tokens = sum(estimate for _, estimate in self.inputs)
        self.tokens += sum(window.num_tokens for window in self.windows)

    def take_windows(self, budget: int) -> tuple[list[Window], int]:
        """Return the next windows until they use up the budget of tokens, and the rest of it.

        An input is split when its turn comes, which takes time for tokens in no window, too, as those truncated.
        """
        taken: list[Window] = []
        while budget > 0 and (self.windows or self.inputs):
            if self.windows:
                taken.append(self.windows.popleft())
                budget -= taken[-1].num_tokens
            else:
                value, estimate = self.inputs.popleft()
                split = self.computation.split(value)
                self.partial.append((split, []))
                self.windows.extend(split.windows)
                in_windows = sum(window.num_tokens for window in split.windows)
                budget -= max(0, estimate - in_windows) // _READ_PER_COMPUTED
        return taken, budget

    def add(self, outputs: Sequence[Any]) -> None:
        """Record the outputs of the windows taken, and join those of complete inputs."""
        rest = iter(outputs)
        while self.partial:
            split, outputs_so_far = self.partial[0]
            outputs_so_far += islice(rest, len(split.windows) - len(outputs_so_far))
            if len(outputs_so_far) < len(split.windows):
                break
            self.outputs.append(split.join(outputs_so_far))
            self.partial.popleft()
        self.count_tokens()

    def fail(self, error: BaseException) -> None:
        """Record an error; an unexpected one is logged with its traceback."""
        if isinstance(error, ClozeError):
            self.error = error
        else:
            _LOG.error("a computation failed", exc_info=error)
            self.error = ComputationFailed(type(error).__name__)

    def settle(self) -> None:
        """Hand the result to the request, unless it is gone. Runs in the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outputs)


class Batcher:
    """Runs computations in one thread, in batches across requests; torch uses `threads` for a computation."""

    def __init__(self, limits: Limits, *, threads: int) -> None:
        self.limits = limits
        self._threads = threads
        self._waiting: deque[_Job] = deque()
        self.waiting_tokens = 0
        """Estimated number of tokens that are computed before a new request gets its turn."""
        self.batches = 0
        """Number of batches computed so far."""
        self._changed = threading.Condition()
        self._is_closed = self._is_stopping = False
        self._thread = threading.Thread(target=self._run_jobs, name="cloze-inference", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether a new request would be refused."""
        return (
            len(self._waiting) >= self.limits.waiting_requests
            or self.waiting_tokens >= self.limits.waiting_tokens
        )

    @property
    def is_alive(self) -> bool:
        """Whether new requests are accepted."""
        return self._thread.is_alive() and not self._is_stopping

    @property
    def waiting_requests(self) -> int:
        return len(self._waiting)

    async def run_batched(
        self,
        function: Callable[[list[Input]], Sequence[Output]],
        inputs: Sequence[Input],
        *,
        tokens: Sequence[int],
    ) -> list[Output]:
        """Return a function's output for each input, batched with other requests for the same function.

        Args:
            function: maps any number of inputs to as many outputs, each independent of the others. Functions (or
                methods of one object) that compare equal are batched.
            tokens: estimated number of tokens of each input.

        Raises:
            Overloaded, DeadlineExceeded: nothing was computed.
            InputError: an input is invalid.
            ComputationFailed: any other error.
        """
        unsplit = [_UnsplitInput(value, size) for value, size in zip(inputs, tokens, strict=True)]
        return await self.run_windowed(_UnsplitComputation(function), unsplit, tokens=tokens)

    async def run(self, compute: Callable[[], Output], *, tokens: int) -> Output:
        """Return the result of a function that is not batched; arguments and errors as of `run_batched`."""
        (output,) = await self.run_batched(lambda _: [compute()], [None], tokens=[tokens])
        return output

    async def run_windowed(
        self, computation: Computation[Input, Output], inputs: Sequence[Input], *, tokens: Sequence[int]
    ) -> list[Output]:
        """Return the output for each input, computed in windows; raises as `run_batched`."""
        future: asyncio.Future[list[Output]] = asyncio.get_running_loop().create_future()
        job = _Job(computation, deque(zip(inputs, tokens, strict=True)), future)
        with self._changed:
            if self.is_full or self._is_closed:
                raise Overloaded
            self._waiting.append(job)
            self.waiting_tokens += self._queued_tokens(job)
            self._changed.notify()
        try:
            async with self.deadline():
                return await future
        finally:
            if future.cancelled():
                self._cancel(job)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Limit the time of one computation, or of several in sequence, by DeadlineExceeded."""
        try:
            async with asyncio.timeout(self.limits.deadline_seconds):
                yield
        except TimeoutError:
            raise DeadlineExceeded from None

    def stop(self) -> None:
        """Refuse new requests; answer the queued ones one after the other."""
        self._is_stopping = True

    def close(self) -> None:
        """End the thread after its current batch, whatever is queued."""
        with self._changed:
            self._is_closed = self._is_stopping = True
            self._changed.notify()

    def wait(self, seconds: float) -> bool:
        """Wait for the thread to end after `close`; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _cancel(self, job: _Job) -> None:
        with self._changed:
            job.is_canceled = True
            if job in self._waiting:
                self._waiting.remove(job)
                self.waiting_tokens -= self._queued_tokens(job)

    def _run_jobs(self) -> None:
        set_intra_op_threads(self._threads)
        while jobs := self._next_batch():
            served = _compute_batch(jobs, self.limits.batch_tokens)
            self.batches += 1
            self._requeue(jobs, served)
            done = [job for job in jobs if job.is_done]
            try:
                jobs[0].future.get_loop().call_soon_threadsafe(_settle, done)
            except RuntimeError:  # the event loop is closed: nobody waits any more
                return

    def _requeue(self, jobs: list[_Job], served: list[_Job]) -> None:
        """Return unfinished jobs to the queue: those without a turn to its front, the others to its end.

        Once the server stops, all to its front: with turns, none might finish in the time that is left.
        """
        served = [] if self._is_stopping else served
        with self._changed:
            unfinished = [job for job in jobs if not (job.is_done or job.is_canceled)]
            self._waiting.extendleft(job for job in reversed(unfinished) if job not in served)
            self._waiting.extend(job for job in unfinished if job in served)
            self.waiting_tokens += sum(map(self._queued_tokens, unfinished))

    def _next_batch(self) -> list[_Job]:
        """Wait for a job; return it with all others of the same computation that fit, the oldest first."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if self._is_closed:
                return []
            first = self._waiting.popleft()
            taken, tokens = [first], first.tokens
            left: deque[_Job] = deque()
            for job in self._waiting:
                if job.computation == first.computation and tokens + job.tokens <= self.limits.batch_tokens:
                    taken.append(job)
                    tokens += job.tokens
                else:
                    left.append(job)
            self._waiting = left
            self.waiting_tokens -= sum(map(self._queued_tokens, taken))
            return taken

    def _queued_tokens(self, job: _Job) -> int:
        """Return the tokens that a later request waits for: at most one batch, since jobs take turns."""
        return min(job.tokens, self.limits.batch_tokens)


def _compute_batch(jobs: list[_Job], budget: int) -> list[_Job]:
    """Compute windows of jobs together within a budget of tokens; return the jobs that had some."""
    shares: list[tuple[_Job, list[Window]]] = []
    for job in jobs:
        if budget <= 0:
            break
        try:
            windows, budget = job.take_windows(budget)
        except BaseException as error:  # a panic of the tokenizer is not an Exception
            job.fail(error)
            continue
        shares.append((job, windows))
    _compute(shares)
    return [job for job, _ in shares]


def _compute(shares: list[tuple[_Job, list[Window]]]) -> None:
    """Compute windows of jobs together; if that fails, those of each job separately."""
    windows = [window for _, share in shares for window in share]
    outputs: list[Any] = []
    if windows:
        try:
            computed = shares[0][0].computation.compute(windows)
            outputs = [output for _, output in zip(windows, computed, strict=True)]
        except BaseException as error:
            if len(shares) == 1:
                shares[0][0].fail(error)
            else:
                for job, share in shares:
                    _compute([(job, share)])
            return
    rest = iter(outputs)
    for job, share in shares:
        try:
            job.add(list(islice(rest, len(share))))
        except BaseException as error:
            job.fail(error)


def _settle(jobs: list[_Job]) -> None:
    """Hand over a few results, and the rest after other events: writing each response takes time."""
    for job in jobs[:_RESULTS_PER_TURN]:
        job.settle()
    if rest := jobs[_RESULTS_PER_TURN:]:
        asyncio.get_running_loop().call_soon(_settle, rest)
