"""The queue: batches across requests, turns, limits, cancellation and failures, of both threads."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
from held_queue import PATIENCE, admitted, answers, held, start, wait_until

from cloze.errors import InputError
from cloze.serving.limits import Limits
from cloze.serving.queue import ComputationFailed, DeadlineExceeded, Overloaded, Queue

MakeQueue = Callable[..., Queue]


@pytest.fixture
def make_queue() -> Iterator[MakeQueue]:
    made = []

    def make(**limits: float) -> Queue:
        turn_tokens = limits.pop("turn_tokens", None)
        made.append(Queue(Limits(**limits), threads=1, turn_tokens=turn_tokens))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


async def compute(
    queue: Queue, kernel: Callable[[list[str]], list[str]], *texts: str, changes_model: bool = False
) -> list[str]:
    """Compute the letters of texts, which count four tokens each."""
    return list(map("".join, await queue.compute(kernel, texts, lambda _: 4, changes_model=changes_model)))


@dataclass(frozen=True)
class Upper:
    """Converts letters to capitals; records the batches, and waits in the batch number `waits_in`, counted from 0."""

    waits_in: int | None = None
    batches: list[str] = field(default_factory=list)
    waits: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, letters: list[str]) -> list[str]:
        if len(self.batches) == self.waits_in:
            self.waits.set()
            self.may_go_on.wait(PATIENCE)
        self.batches.append("".join(letters))
        if "?" in letters:
            raise ZeroDivisionError
        if "#" in letters:
            raise InputError("does not count")
        return [letter.upper() for letter in letters]


def ask_upper(queue: Queue, *requests: list[str]) -> tuple[list[object], list[int], Upper]:
    """Ask while the thread is held; return the answers, the requests in the order in which they were answered."""
    upper = Upper()
    order: list[int] = []

    async def one(number: int, texts: list[str]) -> list[str]:
        try:
            return list(await admitted(queue, compute(queue, upper, *texts)))
        finally:
            order.append(number)

    found = asyncio.run(answers(queue, *(one(i, texts) for i, texts in enumerate(requests))))
    return found, order, upper


def test_requests_are_batched_up_to_the_budget(make_queue):
    queue = make_queue(batch_tokens=20)
    found, _, upper = ask_upper(queue, *(["ab"], ["cd"], ["ef"], ["gh"], ["ij"]))
    assert found == [["AB"], ["CD"], ["EF"], ["GH"], ["IJ"]]
    assert upper.batches == ["abcd", "efgh", "ij"]


def test_a_request_larger_than_a_batch_takes_turns(make_queue):
    queue = make_queue(batch_tokens=12)
    found, order, upper = ask_upper(queue, ["abcdefg", "", "hi"], ["x"], ["yz"])
    assert found == [["ABCDEFG", "", "HI"], ["X"], ["YZ"]]
    assert order == [1, 2, 0]
    assert upper.batches == ["abc", "xyz", "def", "ghi"]
    assert queue.waiting_tokens == queue.waiting_requests == 0


def test_a_short_request_is_computed_beside_a_turn_of_long_ones(make_queue):
    queue, long, short = make_queue(turn_tokens=16), Upper(waits_in=0), Upper()

    async def ask() -> None:
        task = asyncio.create_task(admitted(queue, compute(queue, long, "abcdef")))
        await wait_until(long.waits.is_set)
        assert await admitted(queue, compute(queue, short, "x", "y")) == ["X", "Y"]
        assert not long.batches
        long.may_go_on.set()
        await task

    asyncio.run(ask())
    assert short.batches == ["xy"]


@pytest.mark.parametrize("changing", ["long", "short"])
def test_a_request_that_changes_the_model_is_computed_alone(make_queue, changing):
    queue, upper = make_queue(turn_tokens=16), Upper(waits_in=0)

    async def ask() -> None:
        of_long, of_short = changing == "long", changing == "short"
        asked = admitted(queue, compute(queue, upper, "abcdef", changes_model=of_long))
        long = asyncio.create_task(asked)
        await wait_until(upper.waits.is_set)
        asked = admitted(queue, compute(queue, lambda letters: upper(letters), "x", changes_model=of_short))
        short = asyncio.create_task(asked)
        await wait_until(lambda: queue.waiting_tokens == 4)
        upper.may_go_on.set()
        await asyncio.gather(long, short)

    asyncio.run(ask())
    assert upper.batches[1] == "x"


def test_a_change_of_the_model_waits_for_a_short_request(make_queue):
    queue, long, short, change = make_queue(turn_tokens=16), Upper(waits_in=0), Upper(waits_in=0), Upper()

    async def ask() -> None:
        tasks = [asyncio.create_task(admitted(queue, compute(queue, long, "abcdef")))]
        await wait_until(long.waits.is_set)
        tasks += [asyncio.create_task(admitted(queue, compute(queue, short, "x")))]
        await wait_until(short.waits.is_set)
        long.may_go_on.set()
        await tasks[0]
        tasks += [asyncio.create_task(admitted(queue, compute(queue, change, "y", changes_model=True)))]
        await asyncio.sleep(0)  # it is queued
        await wait_until(lambda: queue.waiting_tokens == 0)  # it has its turn
        await queue.convert(list, ["a"], [1])
        assert not change.batches
        short.may_go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    assert change.batches == ["y"]


def test_a_short_change_of_the_model_waits_for_one_turn_of_long_ones(make_queue):
    queue, upper = make_queue(batch_tokens=16, turn_tokens=8), Upper(waits_in=2)  # both had a turn

    async def ask() -> None:
        async with held(queue):
            texts = ("abcdef", "ghijkl")
            long = await start(queue, *(admitted(queue, compute(queue, upper, text)) for text in texts))
        await wait_until(upper.waits.is_set)
        changes = [queue.run(partial(upper, [text]), tokens=4) for text in "xy"]
        short = [asyncio.create_task(admitted(queue, change)) for change in changes]
        await wait_until(lambda: queue.waiting_tokens == 4 * 4)
        upper.may_go_on.set()
        await asyncio.gather(*long, *short)

    asyncio.run(ask())
    assert upper.batches == ["ab", "gh", "cd", "x", "ij", "y", "ef", "kl"]


def test_a_long_request_has_whole_batches_while_it_is_alone(make_queue):
    queue, upper = make_queue(batch_tokens=16, turn_tokens=8), Upper(waits_in=0)

    async def ask() -> None:
        long = asyncio.create_task(admitted(queue, compute(queue, upper, "abcdefghijkl")))
        await wait_until(upper.waits.is_set)
        short = asyncio.create_task(admitted(queue, compute(queue, upper, "xyz")))
        await wait_until(lambda: queue.waiting_tokens > 0)
        upper.may_go_on.set()
        await short
        await long

    asyncio.run(ask())
    assert upper.batches[:4] == ["abcd", "xy", "ef", "z"]  # then it may be alone again


def test_texts_of_two_requests_are_read_in_turns(make_queue):
    queue = make_queue(batch_tokens=8)
    read = []

    def tokenize(texts: list[str]) -> list[str]:
        read.append("".join(texts))
        return texts

    requests = (queue.convert(tokenize, texts, [4] * len(texts)) for texts in ("abcdef", "xyz"))
    asyncio.run(answers(queue, *(admitted(queue, request) for request in requests), thread="texts"))
    assert read == ["ab", "xy", "cd", "z", "ef"]


def test_texts_are_read_while_the_model_computes(make_queue):
    queue = make_queue()

    async def ask() -> list[str]:
        async with held(queue):
            return await queue.convert(list, ["a"], [1])

    assert asyncio.run(ask()) == ["a"]


@pytest.mark.parametrize(("bad", "told"), [("ab#", InputError), ("ab?", ComputationFailed)])
def test_invalid_windows_fail_only_their_request(make_queue, bad, told, caplog):
    queue = make_queue()
    (first, wrong, last), _, _ = ask_upper(queue, ["ab"], ["c", bad], ["de"])
    assert (first, last) == (["AB"], ["DE"])
    assert isinstance(wrong, told)
    assert queue.is_alive


def test_a_canceled_request_has_no_more_turns(make_queue):
    queue = make_queue(batch_tokens=4)
    upper = Upper(waits_in=0)

    async def ask() -> None:
        asked = asyncio.create_task(compute(queue, upper, "abcdef"))
        await wait_until(upper.waits.is_set)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        upper.may_go_on.set()
        await queue.run(lambda: None, tokens=1)

    asyncio.run(ask())
    assert upper.batches == ["a"]
    assert queue.waiting_tokens == queue.waiting_requests == 0


def test_a_request_that_takes_turns_does_not_fill_the_queue(make_queue):
    queue = make_queue(batch_tokens=8, waiting_tokens=16)
    upper = Upper()

    async def ask() -> None:
        async with held(queue):
            (long,) = await start(queue, admitted(queue, compute(queue, upper, "abcdefghijklmnop")))
            async with queue.admit():
                pass
        await long

    asyncio.run(ask())


def test_a_base_exception_does_not_end_the_thread(make_queue, caplog):
    class Panic(BaseException):
        pass

    def panic() -> None:
        raise Panic("in a library")

    queue = make_queue()
    with pytest.raises(ComputationFailed):
        asyncio.run(queue.run(panic, tokens=1))
    assert asyncio.run(queue.run(lambda: 5, tokens=1)) == 5
    assert "Panic" in caplog.text


def test_once_it_stops_requests_are_answered_in_order(make_queue):
    queue = make_queue(batch_tokens=12)
    queue.stop()
    assert not queue.is_alive
    found, order, upper = ask_upper(queue, ["abcdefg", "hi"], ["jklm"], ["n"])
    assert found == [["ABCDEFG", "HI"], ["JKLM"], ["N"]]
    assert order == [0, 1, 2]
    assert upper.batches[:3] == ["abc", "def", "ghi"]


def test_once_it_stops_the_oldest_request_goes_on(make_queue):
    queue, upper = make_queue(batch_tokens=4), Upper()

    async def ask() -> None:
        may_go_on = asyncio.Event()

        async def old() -> None:
            async with queue.admit():
                await compute(queue, upper, "a")
                await may_go_on.wait()
                await compute(queue, upper, "b")

        oldest = asyncio.create_task(old())
        await wait_until(lambda: upper.batches == ["a"])
        async with held(queue):
            newer = asyncio.create_task(admitted(queue, compute(queue, upper, "x")))
            await wait_until(lambda: queue.waiting_tokens == 4)
            queue.stop()
            may_go_on.set()
            await wait_until(lambda: queue.waiting_tokens == 8)
        await asyncio.gather(oldest, newer)

    asyncio.run(ask())
    assert upper.batches == ["a", "b", "x"]


def test_several_computations_have_one_deadline(make_queue):
    queue = make_queue(deadline_seconds=0.2)

    async def ask() -> None:
        async with asyncio.timeout(PATIENCE), queue.admit():
            while True:  # each is shorter than the deadline
                await queue.run(partial(time.sleep, 0.01), tokens=1)

    with pytest.raises(DeadlineExceeded):
        asyncio.run(ask())


async def wait(queue: Queue, tokens: int = 1) -> None:
    async with queue.admit():
        await queue.run(lambda: None, tokens=tokens)


@pytest.mark.parametrize(
    ("limits", "tokens"), [({"waiting_requests": 2}, [1, 1]), ({"waiting_tokens": 100}, [1000])]
)
def test_a_full_queue_refuses_at_once(make_queue, limits, tokens):
    queue = make_queue(**limits)

    async def ask() -> None:
        async with held(queue):
            waiting = await start(queue, *(wait(queue, number) for number in tokens))
            assert queue.is_full
            with pytest.raises(Overloaded):
                await wait(queue)
        await asyncio.gather(*waiting)
        assert not queue.is_full

    asyncio.run(ask())


def test_requests_past_the_deadline_are_not_computed(make_queue):
    queue = make_queue(deadline_seconds=0.05)
    computed: list[int] = []

    async def ask() -> None:
        async with held(queue):
            with pytest.raises(DeadlineExceeded):
                await admitted(queue, queue.run(lambda: computed.append(1), tokens=1))
        await queue.run(lambda: computed.append(2), tokens=1)

    asyncio.run(ask())
    assert computed == [2]
    assert queue.waiting_tokens == 0


def test_a_request_that_is_computed_does_not_wait(make_queue):
    queue = make_queue()
    request = admitted(queue, queue.run(lambda: queue.waiting_requests, tokens=1))
    assert asyncio.run(request) == 0
