"""The batcher: batches across requests, turns, limits of the queue, cancellation and failures."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from held_batcher import answers, held, queue, wait_until

from cloze.errors import InputError
from cloze.serving.batcher import Batcher, ComputationFailed, DeadlineExceeded, Overloaded, WindowedInput
from cloze.serving.limits import Limits

MakeBatcher = Callable[..., Batcher]


@pytest.fixture
def make_batcher() -> Iterator[MakeBatcher]:
    made = []

    def make(**limits: float) -> Batcher:
        made.append(Batcher(Limits(**limits), threads=1))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for batcher in made:
        batcher.close()


def test_requests_are_batched_up_to_the_budget(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(batch_tokens=10)
    batches: list[list[int]] = []

    def double(inputs: list[int]) -> list[int]:
        batches.append(inputs)
        return [2 * each for each in inputs]

    requests = (batcher.run_batched(double, [i, 10 * i], tokens=[2, 2]) for i in range(5))
    assert asyncio.run(answers(batcher, *requests)) == [[2 * i, 20 * i] for i in range(5)]
    assert batches == [[0, 0, 1, 10], [2, 20, 3, 30], [4, 40]]


@dataclass(frozen=True)
class Letter:
    text: str
    num_tokens: int = 4


@dataclass(frozen=True)
class Upper:
    """Converts letters, its windows, to capitals; records the batches and the inputs that it splits."""

    batches: list[str] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)

    def split(self, given: str) -> WindowedInput[str]:
        if "!" in given:
            raise InputError("shouts")
        self.cuts.append(given)
        return WindowedInput([Letter(letter) for letter in given], "".join)

    def compute(self, windows: list[Letter]) -> list[str]:
        self.batches.append("".join(each.text for each in windows))
        if "?" in self.batches[-1]:
            raise ZeroDivisionError
        if "#" in self.batches[-1]:
            raise InputError("does not count")
        return [each.text.upper() for each in windows]


def ask_upper(batcher: Batcher, *requests: list[str]) -> tuple[list[object], list[int], Upper]:
    """Ask while the thread is held; return the answers, the requests in the order in which they were answered."""
    upper = Upper()
    order: list[int] = []

    async def one(number: int, given: list[str]) -> list[str]:
        try:
            return await batcher.run_windowed(upper, given, tokens=[4 * len(each) for each in given])
        finally:
            order.append(number)

    found = asyncio.run(answers(batcher, *(one(i, given) for i, given in enumerate(requests))))
    return found, order, upper


def test_a_request_larger_than_a_batch_takes_turns(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(batch_tokens=12)
    found, order, upper = ask_upper(batcher, ["abcdefg", "", "hi"], ["x"], ["yz"])
    assert found == [["ABCDEFG", "", "HI"], ["X"], ["YZ"]]
    assert order == [1, 2, 0]
    assert upper.batches == ["abc", "xyz", "def", "ghi"]
    assert batcher.waiting_tokens == batcher.waiting_requests == 0


def test_an_input_is_split_when_its_turn_comes(make_batcher: MakeBatcher) -> None:
    _, _, upper = ask_upper(make_batcher(batch_tokens=8), ["abcd", "efgh"], ["x"])
    assert upper.cuts == ["abcd", "x", "efgh"]


def test_a_job_without_a_turn_is_next(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(batch_tokens=8)
    upper, order = Upper(), list[str]()

    async def one(given: str) -> None:
        await batcher.run_windowed(upper, [given], tokens=[1])
        order.append(given)

    asyncio.run(answers(batcher, *(one(given) for given in ("abcd", "xy", "z"))))
    assert upper.batches[:2] == ["ab", "xy"]
    assert order == ["xy", "z", "abcd"]


@pytest.mark.parametrize(
    ("bad", "told"), [("a!", InputError), ("ab#", InputError), ("ab?", ComputationFailed)]
)
def test_invalid_windows_fail_only_their_request(
    make_batcher: MakeBatcher, bad: str, told: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    batcher = make_batcher()
    (first, wrong, last), _, _ = ask_upper(batcher, ["ab"], ["c", bad], ["de"])
    assert (first, last) == (["AB"], ["DE"])
    assert isinstance(wrong, told)
    assert batcher.is_alive


def test_a_canceled_request_has_no_more_turns(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(batch_tokens=4)
    has_begun, may_end = threading.Event(), threading.Event()

    class Slow(Upper):
        def compute(self, windows: list[Letter]) -> list[str]:
            has_begun.set()
            may_end.wait(10)
            return super().compute(windows)

    slow = Slow()

    async def ask() -> None:
        asked = asyncio.create_task(batcher.run_windowed(slow, ["abcdef"], tokens=[24]))
        await wait_until(has_begun.is_set)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        may_end.set()
        await batcher.run(lambda: None, tokens=1)

    asyncio.run(ask())
    assert slow.batches == ["a"]
    assert batcher.waiting_tokens == batcher.waiting_requests == 0


def test_a_request_that_takes_turns_does_not_fill_the_queue(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(batch_tokens=8, waiting_tokens=16)
    found, _, _ = ask_upper(batcher, ["abcdefghijklmnop"], ["x"])
    assert found[1] == ["X"]


def test_a_base_exception_does_not_end_the_thread(
    make_batcher: MakeBatcher, caplog: pytest.LogCaptureFixture
) -> None:
    class Panic(BaseException):
        pass

    def panic() -> None:
        raise Panic("in a library")

    batcher = make_batcher()
    with pytest.raises(ComputationFailed):
        asyncio.run(batcher.run(panic, tokens=1))
    assert asyncio.run(batcher.run(lambda: 5, tokens=1)) == 5
    assert "Panic" in caplog.text


def test_stopping_refuses_new_requests_and_answers_queued_ones(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher()

    async def ask() -> int:
        async with held(batcher):
            (waiting,) = await queue(batcher, batcher.run(lambda: 5, tokens=1))
            batcher.stop()
            assert not batcher.is_alive
        return await waiting

    assert asyncio.run(ask()) == 5


def test_once_it_stops_requests_are_answered_in_order(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(batch_tokens=12)
    batcher.stop()
    found, order, upper = ask_upper(batcher, ["abcdefg", "hi"], ["jklm"], ["n"])
    assert found == [["ABCDEFG", "HI"], ["JKLM"], ["N"]]
    assert order == [0, 1, 2]
    assert upper.batches[:3] == ["abc", "def", "ghi"]


def test_several_computations_have_one_deadline(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(deadline_seconds=0.2)
    done = []

    async def ask() -> None:
        async with batcher.deadline():
            while True:
                await batcher.run(lambda: done.append(time.sleep(0.05)), tokens=1)

    with pytest.raises(DeadlineExceeded):
        asyncio.run(ask())
    assert 1 <= len(done) <= 4


def test_a_full_queue_refuses_at_once(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(waiting_requests=2)

    async def ask() -> None:
        async with held(batcher):
            waiting = await queue(batcher, *(batcher.run(lambda: None, tokens=1) for _ in range(2)))
            assert batcher.is_full
            with pytest.raises(Overloaded):
                await batcher.run(lambda: None, tokens=1)
        await asyncio.gather(*waiting)
        assert not batcher.is_full

    asyncio.run(ask())


def test_tokens_fill_the_queue_but_one_large_request_is_accepted(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(waiting_tokens=100)

    async def ask() -> None:
        async with held(batcher):
            (large,) = await queue(batcher, batcher.run_batched(list, [1], tokens=[1000]))
            with pytest.raises(Overloaded):
                await batcher.run_batched(list, [1], tokens=[1])
        assert await large == [1]

    asyncio.run(ask())


def test_requests_past_the_deadline_are_not_computed(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher(deadline_seconds=0.05)
    computed: list[int] = []

    async def ask() -> None:
        async with held(batcher):
            with pytest.raises(DeadlineExceeded):
                await batcher.run(lambda: computed.append(1), tokens=1)
        await batcher.run(lambda: computed.append(2), tokens=1)

    asyncio.run(ask())
    assert computed == [2]
    assert batcher.waiting_tokens == 0


def test_the_event_loop_is_free_during_a_computation(make_batcher: MakeBatcher) -> None:
    batcher = make_batcher()

    async def ask() -> bool:
        loop_has_run = threading.Event()
        computing = asyncio.create_task(batcher.run(lambda: loop_has_run.wait(10), tokens=1))
        for _ in range(10):
            await asyncio.sleep(0.001)
        loop_has_run.set()
        return await computing

    assert asyncio.run(ask())


def test_a_text_that_is_truncated_uses_up_a_turn_too(make_batcher: MakeBatcher) -> None:
    """Tokens that are in no window take time when an input is split."""

    class Truncating(Upper):
        def split(self, given: str) -> WindowedInput[str]:
            return super().split(given[:1])

    batcher, upper = make_batcher(batch_tokens=8), Truncating()
    requests = (batcher.run_windowed(upper, [text] * 2, tokens=[len(text)] * 2) for text in ("a" * 99, "b"))
    assert asyncio.run(answers(batcher, *requests)) == [["A", "A"], ["B", "B"]]
    assert upper.cuts == ["a", "b", "b", "a"]
