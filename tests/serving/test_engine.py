"""One thread, a bounded queue, batches across requests: nobody spoils another's answer, nobody waits for ever."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from cloze.errors import InputError
from cloze.serving.engine import ComputationFailed, Cut, DeadlineExceeded, Engine, Overloaded
from cloze.serving.limits import Limits
from cloze.serving.models import ServedModel

MakeEngine = Callable[..., Engine]


@pytest.fixture
def make_engine() -> Iterator[MakeEngine]:
    made = []

    def make(**limits: float) -> Engine:
        made.append(Engine(Limits(**limits), threads=1))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for engine in made:
        engine.close()


class Busy:
    """Holds the thread until it is released."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.has_begun.set()
        self.may_end.wait(10)


async def hold(engine: Engine) -> tuple[Busy, asyncio.Task[None]]:
    busy = Busy()
    task = asyncio.create_task(engine.run(busy))
    while not busy.has_begun.is_set():
        await asyncio.sleep(0.001)
    return busy, task


def test_requests_go_together_up_to_the_budget(make_engine: MakeEngine) -> None:
    engine = make_engine(batch_tokens=10)
    batches: list[list[int]] = []

    def double(inputs: list[int]) -> list[int]:
        batches.append(inputs)
        return [2 * each for each in inputs]

    async def ask() -> list[list[int]]:
        busy, holding = await hold(engine)
        asked = [asyncio.create_task(engine.batched(double, [i, 10 * i], tokens=[2, 2])) for i in range(5)]
        await asyncio.sleep(0.01)
        busy.may_end.set()
        await holding
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [[2 * i, 20 * i] for i in range(5)]
    assert batches == [[0, 0, 1, 10], [2, 20, 3, 30], [4, 40]]


@dataclass(frozen=True)
class Letter:
    text: str
    num_tokens: int = 4


@dataclass(frozen=True)
class Upper:
    """Turns letters, which are its windows, into capitals; what it computes together, and what it cuts, is noted."""

    batches: list[str] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)

    def cut(self, given: str) -> Cut[str]:
        if "!" in given:
            raise InputError("shouts")
        self.cuts.append(given)
        return Cut([Letter(letter) for letter in given], "".join)

    def compute(self, windows: list[Letter]) -> list[str]:
        self.batches.append("".join(each.text for each in windows))
        if "?" in self.batches[-1]:
            raise ZeroDivisionError
        return [each.text.upper() for each in windows]


def ask_upper(engine: Engine, *requests: list[str]) -> tuple[list[object], list[int], Upper]:
    """Ask while the thread is held; return the answers, the requests in the order in which they were answered."""
    upper = Upper()
    order: list[int] = []

    async def one(number: int, given: list[str]) -> list[str]:
        try:
            return await engine.in_windows(upper, given, tokens=[4 * len(each) for each in given])
        finally:
            order.append(number)

    async def ask() -> list[object]:
        busy, holding = await hold(engine)
        asked = [asyncio.create_task(one(i, given)) for i, given in enumerate(requests)]
        await asyncio.sleep(0.01)
        busy.may_end.set()
        await holding
        return list(await asyncio.gather(*asked, return_exceptions=True))

    return asyncio.run(ask()), order, upper


def test_what_is_too_much_for_a_batch_takes_turns_with_others(make_engine: MakeEngine) -> None:
    engine = make_engine(batch_tokens=12)
    found, order, upper = ask_upper(engine, ["abcdefg", "", "hi"], ["x"], ["yz"])
    assert found == [["ABCDEFG", "", "HI"], ["X"], ["YZ"]]
    assert order == [1, 2, 0]
    assert upper.batches == ["abc", "xyz", "def", "ghi"]
    assert engine.waiting_tokens == engine.waiting_requests == 0


def test_an_input_is_cut_when_its_turn_comes(make_engine: MakeEngine) -> None:
    _, _, upper = ask_upper(make_engine(batch_tokens=8), ["abcd", "efgh"], ["x"])
    assert upper.cuts == ["abcd", "x", "efgh"]


def test_many_inputs_of_a_function_take_turns_too(make_engine: MakeEngine) -> None:
    engine = make_engine(batch_tokens=10)
    batches: list[list[int]] = []

    def same(inputs: list[int]) -> list[int]:
        batches.append(inputs)
        return inputs

    assert asyncio.run(engine.batched(same, range(5), tokens=[5] * 5)) == list(range(5))
    assert batches == [[0, 1], [2, 3], [4]]


def test_what_had_no_room_though_it_seemed_to_fit_is_next(make_engine: MakeEngine) -> None:
    engine = make_engine(batch_tokens=8)
    upper, order = Upper(), list[str]()

    async def one(given: str) -> None:
        await engine.in_windows(upper, [given], tokens=[1])
        order.append(given)

    async def ask() -> None:
        busy, holding = await hold(engine)
        asked = [asyncio.create_task(one(given)) for given in ("abcd", "xy", "z")]
        await asyncio.sleep(0.01)
        busy.may_end.set()
        await asyncio.gather(holding, *asked)

    asyncio.run(ask())
    assert upper.batches[:2] == ["ab", "xy"]
    assert order == ["xy", "z", "abcd"]


@pytest.mark.parametrize(("bad", "told"), [("a!", InputError), ("ab?", ComputationFailed)])
def test_windows_that_are_bad_fail_their_request_alone(
    make_engine: MakeEngine, bad: str, told: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    (first, wrong, last), _, _ = ask_upper(make_engine(), ["ab"], ["c", bad], ["de"])
    assert (first, last) == (["AB"], ["DE"])
    assert isinstance(wrong, told)


def test_a_long_request_that_is_given_up_has_no_more_turns(make_engine: MakeEngine) -> None:
    engine = make_engine(batch_tokens=4)
    has_begun, may_end = threading.Event(), threading.Event()

    class Slow(Upper):
        def compute(self, windows: list[Letter]) -> list[str]:
            has_begun.set()
            may_end.wait(10)
            return super().compute(windows)

    slow = Slow()

    async def ask() -> None:
        asked = asyncio.create_task(engine.in_windows(slow, ["abcdef"], tokens=[24]))
        while not has_begun.is_set():
            await asyncio.sleep(0.001)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        may_end.set()
        await engine.run(lambda: None)

    asyncio.run(ask())
    assert slow.batches == ["a"]
    assert engine.waiting_tokens == engine.waiting_requests == 0


def test_who_takes_turns_leaves_room_for_others(make_engine: MakeEngine) -> None:
    engine = make_engine(batch_tokens=8, waiting_tokens=16)
    found, _, _ = ask_upper(engine, ["abcdefghijklmnop"], ["x"])
    assert found[1] == ["X"]


@pytest.mark.parametrize(
    ("error", "told"), [(InputError("bad"), InputError), (ZeroDivisionError(), ComputationFailed)]
)
def test_what_is_bad_fails_alone(
    make_engine: MakeEngine, error: Exception, told: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine()

    def compute(inputs: list[int]) -> list[int]:
        if 3 in inputs:
            raise error
        return inputs

    async def ask() -> list[object]:
        busy, holding = await hold(engine)
        asked = [asyncio.create_task(engine.batched(compute, [i], tokens=[1])) for i in range(6)]
        await asyncio.sleep(0.01)
        busy.may_end.set()
        await holding
        return list(await asyncio.gather(*asked, return_exceptions=True))

    found = asyncio.run(ask())
    assert [each for i, each in enumerate(found) if i != 3] == [[0], [1], [2], [4], [5]]
    assert isinstance(found[3], told)
    assert engine.is_alive


def test_a_panic_that_is_no_exception_does_not_end_the_thread(
    make_engine: MakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class Panic(BaseException):
        pass

    def panic() -> None:
        raise Panic("in a library")

    engine = make_engine()
    with pytest.raises(ComputationFailed):
        asyncio.run(engine.run(panic))
    assert asyncio.run(engine.run(lambda: 5)) == 5
    assert "Panic" in caplog.text


def test_who_stops_lets_nothing_in_and_answers_what_waits(make_engine: MakeEngine) -> None:
    engine = make_engine()

    async def ask() -> int:
        busy, holding = await hold(engine)
        waiting = asyncio.create_task(engine.run(lambda: 5))
        await asyncio.sleep(0.01)
        engine.stop()
        assert not engine.is_alive
        busy.may_end.set()
        await holding
        return await waiting

    assert asyncio.run(ask()) == 5


def test_several_computations_have_one_deadline(make_engine: MakeEngine) -> None:
    engine = make_engine(deadline_seconds=0.2)
    done = []

    async def ask() -> None:
        async with engine.deadline():
            while True:
                await engine.run(lambda: done.append(time.sleep(0.05)))

    with pytest.raises(DeadlineExceeded):
        asyncio.run(ask())
    assert 1 <= len(done) <= 4


def test_a_full_queue_refuses_at_once(make_engine: MakeEngine) -> None:
    engine = make_engine(waiting_requests=2)

    async def ask() -> None:
        busy, holding = await hold(engine)
        waiting = [asyncio.create_task(engine.run(lambda: None)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert engine.is_full
        with pytest.raises(Overloaded):
            await engine.run(lambda: None)
        busy.may_end.set()
        await asyncio.gather(holding, *waiting)
        assert not engine.is_full

    asyncio.run(ask())


def test_tokens_fill_the_queue_but_a_single_large_request_is_let_in(make_engine: MakeEngine) -> None:
    engine = make_engine(waiting_tokens=100)

    async def ask() -> None:
        busy, holding = await hold(engine)
        large = asyncio.create_task(engine.batched(list, [1], tokens=[1000]))
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await engine.batched(list, [1], tokens=[1])
        busy.may_end.set()
        assert await large == [1]
        await holding

    asyncio.run(ask())


def test_what_waits_too_long_is_given_up_and_not_computed(make_engine: MakeEngine) -> None:
    engine = make_engine(deadline_seconds=0.05)
    computed: list[int] = []

    async def ask() -> None:
        busy = Busy()
        holding = asyncio.create_task(engine.run(busy))
        late = asyncio.create_task(engine.run(lambda: computed.append(1)))
        for each in (holding, late):
            with pytest.raises(DeadlineExceeded):
                await each
        busy.may_end.set()
        await engine.run(lambda: computed.append(2))

    asyncio.run(ask())
    assert computed == [2]
    assert engine.waiting_tokens == 0


def test_the_loop_is_free_while_the_model_computes(make_engine: MakeEngine) -> None:
    engine = make_engine()

    async def ask() -> bool:
        loop_has_run = threading.Event()
        computing = asyncio.create_task(engine.run(lambda: loop_has_run.wait(10)))
        for _ in range(10):
            await asyncio.sleep(0.001)
        loop_has_run.set()
        return await computing

    assert asyncio.run(ask())


def test_an_answer_is_the_same_alone_and_in_any_batch(
    make_engine: MakeEngine, models: Mapping[str, ServedModel]
) -> None:
    engine = make_engine()
    random = np.random.default_rng(5)
    texts = [" ".join(random.choice(list("abcdefghij."), size=n)) for n in random.integers(0, 60, size=60)]
    served = models["bert"]

    async def ask(*, at_once: bool) -> list[np.ndarray]:  # type: ignore[type-arg]
        asked = [engine.batched(served.embed, [text], tokens=[len(text)]) for text in texts]
        found = await asyncio.gather(*asked) if at_once else [await each for each in asked]
        return [vector.vector for (vector,) in found]

    together, alone = asyncio.run(ask(at_once=True)), asyncio.run(ask(at_once=False))
    assert engine.batches < len(texts) * 2
    np.testing.assert_allclose(together, alone, atol=1e-5)
