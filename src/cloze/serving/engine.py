"""The one thread that computes, and the queue before it: bounded, batched by tokens across requests, and in turns.

The event loop only reads and writes; so /health answers at once however much there is to compute, and torch has all
the cores to itself. What is too much for one batch is computed batch by batch, and others have their turn between.
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

import torch

from cloze.errors import ClozeError
from cloze.serving.limits import Limits

Input = TypeVar("Input")
Output = TypeVar("Output")
InputT = TypeVar("InputT", contravariant=True)
OutputT = TypeVar("OutputT", covariant=True)

_LOG = logging.getLogger(__name__)
_SETTLED_AT_ONCE = 4
_CALL_TOKENS = 512  # what a computation that says nothing of its size is taken for


class Overloaded(Exception):  # noqa: N818 (not an error: the work is as it should be, there is too much of it)
    """The queue is full."""


class DeadlineExceeded(Exception):  # noqa: N818
    """A request waited too long, and was given up."""


class ComputationFailed(Exception):  # noqa: N818
    """Something else than the input was wrong, as a panic in the tokenizer."""


class Window(Protocol):
    """What goes through the model in one piece."""

    @property
    def num_tokens(self) -> int:
        """Tokens, or about as many."""


@dataclass(frozen=True, slots=True)
class Cut(Generic[OutputT]):
    """An input, cut into windows."""

    windows: Sequence[Window]
    join: Callable[[Sequence[Any]], OutputT]
    """From what is computed of each window to what is computed of the input."""


class Computation(Protocol[InputT, OutputT]):
    """What is computed of inputs of any length. The windows of equal computations go through the model together."""

    def cut(self, given: InputT) -> Cut[OutputT]:
        """Return an input in windows.

        Raises:
            InputError: it is wrong.
        """

    def compute(self, windows: list[Any]) -> Sequence[Any]:
        """Return what there is to each of at least one window, the same in any company."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """An input that is not cut."""

    given: Any
    num_tokens: int


@dataclass(frozen=True, slots=True)
class _OfWholes:
    """A function as a computation: its inputs are windows."""

    function: Callable[[list[Any]], Sequence[Any]]

    def cut(self, given: _Whole) -> Cut[Any]:
        return Cut((given,), lambda outputs: outputs[0])

    def compute(self, windows: list[_Whole]) -> Sequence[Any]:
        return self.function([each.given for each in windows])


@dataclass(eq=False, slots=True)
class _Part:
    """An input of a request, and how far it is."""

    given: Any
    estimate: int
    """Of its tokens, before it is cut."""
    cut: Cut[Any] | None = None
    outputs: list[Any] = field(default_factory=list)
    """Of the first windows."""

    @property
    def rest(self) -> Sequence[Window]:
        """The windows that are not computed yet."""
        assert self.cut is not None
        return self.cut.windows[len(self.outputs) :]

    @property
    def tokens(self) -> int:
        """Those of what is not computed yet."""
        return self.estimate if self.cut is None else sum(window.num_tokens for window in self.rest)


@dataclass(eq=False, slots=True)
class _Job:
    """What a request wants computed."""

    computation: Computation[Any, Any]
    parts: deque[_Part]
    """The inputs that are not done, in their order."""
    future: asyncio.Future[list[Any]]
    tokens: int
    """Those of what is not computed yet."""
    outputs: list[Any] = field(default_factory=list)
    """Of the inputs that are done."""
    error: Exception | None = None
    is_given_up: bool = False

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return not self.parts or self.error is not None

    def next_windows(self, room: int) -> list[Window]:
        """Return the next windows, as many as there is room for; an input is cut when its turn comes."""
        taken: list[Window] = []
        for part in self.parts:
            if room <= 0:
                break
            if part.cut is None:
                part.cut = self.computation.cut(part.given)
            for window in part.rest:
                if room <= 0:
                    break
                taken.append(window)
                room -= window.num_tokens
        return taken

    def add(self, outputs: Sequence[Any]) -> None:
        """Take what was computed of the next windows; where an input has all of them, they are joined."""
        rest = iter(outputs)
        while self.parts and (part := self.parts[0]).cut is not None:
            part.outputs += islice(rest, len(part.rest))
            if part.rest:
                break
            self.outputs.append(part.cut.join(part.outputs))
            self.parts.popleft()
        self.tokens = sum(part.tokens for part in self.parts)

    def fail(self, error: BaseException) -> None:
        """Say why there are no outputs; what nobody expected goes to the log with its traceback."""
        if isinstance(error, ClozeError):
            self.error = error
        else:
            _LOG.error("a computation failed", exc_info=error)
            self.error = ComputationFailed(type(error).__name__)

    def settle(self) -> None:
        """Give the request its answer, unless it has left. In the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.outputs)


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
        self._is_closed = self._is_stopping = False
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
        """Whether anything more is taken."""
        return self._thread.is_alive() and not self._is_stopping

    @property
    def waiting_requests(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def waiting_tokens(self) -> int:
        """How many tokens of theirs are computed before whoever comes next has a turn, estimated."""
        return self._waiting_tokens

    @property
    def batches(self) -> int:
        """How often something was computed."""
        return self._batches

    async def batched(
        self,
        function: Callable[[list[Input]], Sequence[Output]],
        inputs: Sequence[Input],
        *,
        tokens: Sequence[int],
    ) -> list[Output]:
        """Return what a function makes of inputs, perhaps together with those of other requests.

        Args:
            function: from any number of inputs to as many outputs, each as it would be alone; the same function (or
                method of the same object) for all that may go together.
            inputs: of this request.
            tokens: about how many each has.

        Raises:
            Overloaded, DeadlineExceeded: it was not computed.
            InputError: an input is wrong.
            ComputationFailed: something else is.
        """
        wholes = [_Whole(*each) for each in zip(inputs, tokens, strict=True)]
        return await self.in_windows(_OfWholes(function), wholes, tokens=tokens)

    async def run(self, compute: Callable[[], Output]) -> Output:
        """Return what `compute` does, alone; else as `batched`."""
        (output,) = await self.batched(lambda _: [compute()], [None], tokens=[_CALL_TOKENS])
        return output

    async def in_windows(
        self, computation: Computation[Input, Output], inputs: Sequence[Input], *, tokens: Sequence[int]
    ) -> list[Output]:
        """Return what is computed of inputs that are cut into windows; else as `batched`."""
        parts = deque(_Part(*each) for each in zip(inputs, tokens, strict=True))
        future: asyncio.Future[list[Output]] = asyncio.get_running_loop().create_future()
        job = _Job(computation, parts, future, sum(tokens))
        with self._changed:
            if self.is_full or self._is_closed:
                raise Overloaded
            self._waiting.append(job)
            self._waiting_tokens += self._weight(job)
            self._changed.notify()
        try:
            async with self.deadline():
                return await future
        finally:
            if future.cancelled():
                self._forget(job)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Give up what takes too long: a computation each, and all that a request asks one after another.

        Raises:
            DeadlineExceeded: it did.
        """
        try:
            async with asyncio.timeout(self._limits.deadline_seconds):
                yield
        except TimeoutError:
            raise DeadlineExceeded from None

    def stop(self) -> None:
        """Have no new requests let in; those under way are answered."""
        self._is_stopping = True

    def close(self) -> None:
        """End the thread after what it is at, whatever waits."""
        with self._changed:
            self._is_closed = self._is_stopping = True
            self._changed.notify()

    def _forget(self, job: _Job) -> None:
        """Compute no more of a job that nobody waits for."""
        with self._changed:
            job.is_given_up = True
            if job in self._waiting:
                self._waiting.remove(job)
                self._waiting_tokens -= self._weight(job)

    def _work(self) -> None:
        torch.set_num_threads(self._threads)  # of this thread
        while jobs := self._next_batch():
            had_turn = _compute_turn(jobs, self._limits.batch_tokens)
            self._batches += 1
            self._put_back(jobs, had_turn)
            done = [job for job in jobs if job.is_done]
            try:
                jobs[0].future.get_loop().call_soon_threadsafe(_settle, done)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _put_back(self, jobs: list[_Job], had_turn: list[_Job]) -> None:
        """Let what is not done wait on: whoever had no turn at the front, the others behind all that wait."""
        with self._changed:
            unfinished = [job for job in jobs if not (job.is_done or job.is_given_up)]
            self._waiting.extendleft(job for job in reversed(unfinished) if job not in had_turn)
            self._waiting.extend(job for job in unfinished if job in had_turn)
            self._waiting_tokens += sum(map(self._weight, unfinished))

    def _next_batch(self) -> list[_Job]:
        """Wait for a job; return it with all others of the same computation that fit in, the oldest first."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return [] if self._is_closed else self._take()

    def _take(self) -> list[_Job]:
        first = self._waiting.popleft()
        taken, tokens = [first], first.tokens
        left: deque[_Job] = deque()
        while self._waiting:
            job = self._waiting.popleft()
            if job.computation == first.computation and tokens + job.tokens <= self._limits.batch_tokens:
                taken.append(job)
                tokens += job.tokens
            else:
                left.append(job)
        self._waiting = left
        self._waiting_tokens -= sum(map(self._weight, taken))
        return taken

    def _weight(self, job: _Job) -> int:
        """Return how many tokens whoever comes next has to wait for: of a job that takes turns, those of one."""
        return min(job.tokens, self._limits.batch_tokens)


def _compute_turn(jobs: list[_Job], room: int) -> list[_Job]:
    """Compute windows of jobs together, as many as there is room for; return the jobs that had some of it."""
    shares: list[tuple[_Job, list[Window]]] = []
    for job in jobs:
        if room <= 0:
            break
        try:
            windows = job.next_windows(room)
        except BaseException as error:  # a panic of the tokenizer is no Exception
            job.fail(error)
            continue
        shares.append((job, windows))
        room -= sum(window.num_tokens for window in windows)
    _compute(shares)
    return [job for job, _ in shares]


def _compute(shares: list[tuple[_Job, list[Window]]]) -> None:
    """Compute windows of jobs together; where that fails, those of each by themselves."""
    windows = [window for _, own in shares for window in own]
    outputs: list[Any] = []
    if windows:
        try:
            found = shares[0][0].computation.compute(windows)
            outputs = [output for _, output in zip(windows, found, strict=True)]
        except BaseException as error:
            if len(shares) == 1:
                shares[0][0].fail(error)
            else:
                for share in shares:
                    _compute([share])
            return
    rest = iter(outputs)
    for job, own in shares:
        try:
            job.add(list(islice(rest, len(own))))
        except BaseException as error:
            job.fail(error)


def _settle(jobs: list[_Job]) -> None:
    """Hand a few answers over, and the rest after what else has come: each takes its time to be written out."""
    for job in jobs[:_SETTLED_AT_ONCE]:
        job.settle()
    if rest := jobs[_SETTLED_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(_settle, rest)
