"""One thread, a bounded queue, batches across requests: nobody spoils another's answer, nobody waits for ever."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from cloze.errors import InputError
from cloze.serving.engine import ComputationFailed, DeadlineExceeded, Engine, Overloaded
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
        asked = [asyncio.create_task(engine.batched(double, [i, 10 * i], tokens=4)) for i in range(5)]
        await asyncio.sleep(0.01)
        busy.may_end.set()
        await holding
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [[2 * i, 20 * i] for i in range(5)]
    assert batches == [[0, 0, 1, 10], [2, 20, 3, 30], [4, 40]]


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
        asked = [asyncio.create_task(engine.batched(compute, [i], tokens=1)) for i in range(6)]
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
        large = asyncio.create_task(engine.batched(list, [1], tokens=1000))
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await engine.batched(list, [1], tokens=1)
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
        asked = [engine.batched(served.embed, [text], tokens=len(text)) for text in texts]
        found = await asyncio.gather(*asked) if at_once else [await each for each in asked]
        return [vector.vector for (vector,) in found]

    together, alone = asyncio.run(ask(at_once=True)), asyncio.run(ask(at_once=False))
    assert engine.batches < len(texts) * 2
    np.testing.assert_allclose(together, alone, atol=1e-5)
