"""Sentences of `/likelihood`, explanations and ablations take turns with other requests."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from held_queue import PATIENCE, Thread, admitted, held, start, wait_until

from cloze.inference.explain import ExplainConfig
from cloze.serving.explorer_routes import ROUTES, AblationRequest
from cloze.serving.limits import Limits
from cloze.serving.native import explain, likelihood
from cloze.serving.queue import Queue
from cloze.serving.routes import estimate_tokens
from cloze.serving.schema import ExplainRequest, TextsRequest

(ABLATION,) = [route.verb for route in ROUTES if route.path == "/explore/ablation"]


@pytest.fixture
def queue() -> Iterator[Queue]:
    queue = Queue(Limits(), threads=1)
    yield queue
    queue.close()


def test_a_long_sentence_is_scored_in_turns(client, models):
    queue = Queue(Limits(batch_tokens=12), threads=1)
    (found,) = asyncio.run(likelihood(models["bert"], TextsRequest(inputs="a b c d"), queue))
    queue.close()
    assert queue.batches == 2  # of four copies of six tokens
    assert found.score == pytest.approx(client.ask("/likelihood", inputs="a b c d")[0]["score"], abs=1e-5)


def test_likelihoods_of_two_requests_share_a_batch(models, queue):
    requests = [likelihood(models["bert"], TextsRequest(inputs=text), queue) for text in ("a b", "c d e")]

    async def ask() -> list[Any]:
        async with held(queue):
            tasks = await start(queue, *(admitted(queue, request) for request in requests))
            await wait_until(lambda: queue.waiting_tokens == 2 * 4 + 3 * 5)  # both texts are read
        return await asyncio.gather(*tasks)

    found = asyncio.run(ask())
    assert [len(scores[0].tokens) for scores in found] == [2, 3]
    assert queue.batches == 2  # the first one holds the thread


def test_a_likelihood_waits_with_the_square_of_its_tokens(models, queue):
    texts = ["a b c", "d"]

    async def ask(thread: Thread, tokens: int) -> None:
        async with held(queue, thread):
            request = likelihood(models["bert"], TextsRequest(inputs=texts), queue)
            (task,) = await start(queue, admitted(queue, request))
            await wait_until(lambda: queue.waiting_tokens == tokens)
        await task

    asyncio.run(ask("texts", sum(estimate_tokens(text) ** 2 for text in texts)))
    asyncio.run(ask("model", 3 * 5 + 1 * 3))


def test_heads_are_removed_one_by_one_in_turns(models, client):
    queue = Queue(Limits(batch_tokens=12), threads=1)
    asked: dict[str, Any] = {"text": "a [MASK]", "pair": "b"}
    found = asyncio.run(ABLATION(models["bert"], AblationRequest(**asked), queue))
    queue.close()
    heads = found["layers"] * found["heads"]
    assert len(found["without"]) == heads
    assert queue.batches == 1 + heads  # [CLS] a [MASK] [SEP] b [SEP], for both heads of pre-training
    for number, without in enumerate([found["all"], *found["without"]]):
        off = [list(divmod(number - 1, found["heads"]))] if number else []
        (alone,) = client.ask("/explore/ablation", **asked, heads=off)["without"]
        assert alone["first"] == pytest.approx(without["first"], abs=1e-6)
        assert alone["is_next"] == pytest.approx(without["is_next"], abs=1e-6)
        names = [[candidate.token for candidate in of_mask] for of_mask in without["masks"]]
        assert names == [[candidate["token"] for candidate in of_mask] for of_mask in alone["masks"]]


@pytest.mark.slow
def test_a_long_explanation_takes_turns_with_other_requests(models):
    config = ExplainConfig(max_tokens=16, max_gap=-1)  # never converges
    queue = Queue(Limits(batch_tokens=160), threads=1)
    request = ExplainRequest(inputs="a b c")
    (explanation,) = asyncio.run(explain(models["classifier"], request, queue, config))
    queue.close()
    assert explanation.steps == 512
    assert queue.batches >= 5 * sum(config.steps) // 160  # [CLS] a b c [SEP]


@pytest.mark.parametrize(
    ("model", "verb", "request_of_verb", "tokens"),
    [
        ("bert", ABLATION, AblationRequest(text="a [MASK]", heads=[[0, 0]]), 2 * 4),
        ("classifier", explain, ExplainRequest(inputs="a b c"), 32 * 5),
    ],
)
def test_hooks_are_not_set_beside_a_turn_of_another_request(models, model, verb, request_of_verb, tokens):
    queue, is_computed, may_end = (
        Queue(Limits(), threads=1, turn_tokens=1024),
        threading.Event(),
        threading.Event(),
    )

    def hold(items: list[Any]) -> list[Any]:
        is_computed.set()
        may_end.wait(PATIENCE)
        return items

    async def ask() -> None:
        tasks = [asyncio.create_task(admitted(queue, queue.compute(hold, [["x"]], lambda _: 2000)))]
        await wait_until(is_computed.is_set)
        tasks.append(asyncio.create_task(admitted(queue, verb(models[model], request_of_verb, queue))))
        await wait_until(lambda: queue.waiting_tokens >= tokens)
        may_end.set()
        await asyncio.gather(*tasks)

    asyncio.run(ask())
    queue.close()
