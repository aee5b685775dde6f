"""Requests that are refused before a route sees them, errors under /v1, overload, disconnections and metrics."""

import asyncio
import gzip
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from clients import client_of, listening
from fastapi import FastAPI
from held_queue import answers, held, held_elsewhere, wait_for

from cloze.serving.app import create_app
from cloze.serving.limits import Limits

JSON = {"Content-Type": "application/json"}
KEY = "0123456789abcdef-secret"
RIGHT = {"Authorization": f"Bearer {KEY}"}


@pytest.mark.protected
@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b'{"inputs": "a", "inputs": "b"}', 422, "a key twice"),
        ('{"inputs": "a"}'.encode("utf-16"), 422, "codec"),
        (b'\xef\xbb\xbf{"inputs": "a"}', 422, "BOM"),
        (b'{"inputs": "\xff"}', 422, "codec"),
        (b'{"inputs": "\\ud800"}', 422, "valid string"),
        (b'{"inputs": "a", "\\udc00": 1}', 422, "valid string"),
        (b'{"inputs": "a", "dimensions": NaN}', 422, "dimensions"),
        (b'{"inputs": "a", "dimensions": 1e999}', 422, "dimensions"),
        (b'{"inputs": "a", "dimensions": 1' + b"0" * 5000 + b"}", 422, "digits"),
        (b'{"inputs": ' + b"[" * 65 + b"]" * 65 + b"}", 422, "inputs"),
        (b"[" * 100_000 + b"]" * 100_000, 422, "nested too deep"),
        (b'{"a":' * 100_000, 422, "body"),
        (b"", 422, "body"),
        (b"null", 422, "body"),
        (b'{"inputs": "a"', 422, "body"),
        (b'{"inputs": "a", "truncate": "yes"}', 422, "truncate"),
        (json.dumps({f"k{i}": 0 for i in range(65)}).encode(), 422, "65 keys, more than 64"),
        (json.dumps({f"k{i}": 0 for i in range(150_000)}).encode(), 422, "150,000 keys, more than 64"),
        (json.dumps({"inputs": "a" * 100_001}).encode(), 413, "100000"),
        (json.dumps({"inputs": ["b", "a" * 100_001]}).encode(), 413, "100000"),
        (json.dumps({"inputs": "a" * 2_000_000}).encode(), 413, "2,000,000"),
    ],
    ids=range(21),
)
def test_bad_bodies(client, body, status, told):
    response = client.post("/embed", content=body, headers=JSON)
    found = response.json()
    assert (response.status_code, set(found)) == (status, {"error", "error_type"}), found
    assert told in found["error"]
    assert "\n" not in found["error"]
    assert len(found["error"]) <= 500


def test_other_content_types_and_compressed_bodies_are_refused(client):
    body = b'{"inputs": "a"}'
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"}):
        assert client.post("/embed", content=body, headers=headers).status_code == 415
    body = gzip.compress(body)
    response = client.post("/embed", content=body, headers={**JSON, "Content-Encoding": "gzip"})
    assert response.status_code == 415


@pytest.mark.protected
@pytest.mark.parametrize(
    "path", ["/nothing", "/../../etc/passwd", "/page/../app.py", "/page/%2e%2e%2fapp.py"]
)
def test_unknown_routes_are_not_found(client, path):
    response = client.get(path)
    assert (response.status_code, response.json()["error_type"]) == (404, "NotFound")
    assert client.get("/embed").status_code == 405


@pytest.mark.protected
def test_no_path_or_address_in_a_request_is_opened(client, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("abc")
    for name in (str(secret), f"file://{secret}", "http://127.0.0.1:9/x", "../bert"):
        response = client.post("/embed", json={"inputs": "a", "model": name})
        assert (response.status_code, "no model" in response.json()["error"]) == (422, True)


@pytest.mark.parametrize("length", [{}, {"Content-Length": "5"}], ids=["not declared", "declared too small"])
def test_the_size_of_a_body_is_counted_on_arrival(client, length):
    parts = (b" " * 100_000 for _ in range(30))
    assert client.post("/embed", content=parts, headers={**JSON, **length}).status_code == 413


def test_a_body_that_is_declared_too_large_is_not_read(models):
    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    sent = asyncio.run(_ask(create_app(models, Limits()), receive, {"content-length": "2000001"}))
    assert sent[0]["status"] == 413


def test_a_request_that_does_not_arrive_times_out(models):
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    sent = asyncio.run(_ask(create_app(models, Limits(body_seconds=0.05)), receive, {}))
    assert sent[0]["status"] == 408


async def _ask(app: FastAPI, receive: Any, headers: dict[str, str]) -> list[Any]:
    sent = []

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(b"content-type", b"application/json"), *((k.encode(), v.encode()) for k, v in headers.items())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/embed",
        "raw_path": b"/embed",
        "query_string": b"",
        "headers": raw,
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 5),
        "root_path": "",
    }
    await app(scope, receive, send)
    return sent


@pytest.mark.protected
def test_a_body_with_two_ends_is_refused(models):
    headers = {"Transfer-Encoding": "chunked", "Content-Length": "15", "Content-Type": "application/json"}
    with client_of(models) as client:
        refused = client.post("/embed", content=b'{"inputs": "a"}', headers=headers)
    assert (refused.status_code, refused.headers["connection"]) == (400, "close")
    assert refused.json()["error"] == "both Content-Length and Transfer-Encoding"


@pytest.mark.protected
def test_a_key_is_required(models):
    with client_of(models, api_keys=lambda: {KEY}) as client:
        for wrong in (
            {},
            {"Authorization": KEY},
            {"Authorization": "Bearer no"},
            {"Authorization": f"Basic {KEY}"},
        ):
            response = client.post("/embed", json={"inputs": "a"}, headers=wrong)
            assert (response.status_code, response.json()["error_type"]) == (401, "Unauthorized")
            assert client.get("/info", headers=wrong).status_code == 401
            assert client.get("/metrics", headers=wrong).status_code == 401
        right = {"Authorization": f"bearer {KEY}"}
        assert client.post("/embed", json={"inputs": "a"}, headers=right).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/").status_code == 200


def async_client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.mark.slow
def test_overload_and_deadline_over_http(models):
    app = create_app(models, Limits(waiting_requests=3, deadline_seconds=2))

    async def ask() -> tuple[list[httpx.Response], list[httpx.Response], httpx.Response]:
        async with async_client(app) as client:
            health = []
            async with held(app.state.queue):
                health.append(await client.get("/health"))
                found = await asyncio.gather(*(client.post("/embed", json={"inputs": "a"}) for _ in range(8)))
                health.append(await client.get("/health"))  # the held batch takes longer than the deadline
            after = await client.post("/embed", json={"inputs": "a"})
            return found, [*health, await client.get("/health")], after

    found, health, after = asyncio.run(ask())
    assert sorted(each.status_code for each in found) == [429] * 5 + [504] * 3
    for each in found:
        if each.status_code == 429:
            assert int(each.headers["Retry-After"]) >= 1
            assert each.json()["error_type"] == "Overloaded"
        else:
            assert each.json()["error_type"] == "Timeout"
    assert [each.status_code for each in health] == [200, 503, 200]
    assert after.status_code == 200


@pytest.mark.parametrize("says_all", [True, False], ids=["queued", "incomplete body"])
def test_nothing_is_computed_for_a_disconnected_client(models, says_all):
    app = create_app(models, Limits())
    queue = app.state.queue
    body = b'{"inputs": "a"}'
    head = f"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    sent = head.encode() + b"\r\n\r\n" + (body if says_all else body[:5])
    with listening(app) as address:
        with held_elsewhere(queue):
            with socket.create_connection(("127.0.0.1", httpx.URL(address).port)) as connection:
                connection.sendall(sent)
                if says_all:
                    wait_for(lambda: queue.waiting_requests == 1)
            model = "bert" if says_all else ""
            counted = f'cloze_requests_total{{model="{model}",route="/embed",status="499"}} 1.0'
            wait_for(lambda: counted in httpx.get(f"{address}/metrics").text)
            assert queue.waiting_requests == queue.waiting_tokens == 0
        assert httpx.post(f"{address}/embed", json={"inputs": "a"}).status_code == 200
    assert queue.batches == 2


@pytest.mark.slow
def test_requests_unanswered_at_shutdown_get_503(models):
    app = create_app(models, Limits())
    queue = app.state.queue
    with held_elsewhere(queue), ThreadPoolExecutor(1) as pool:
        with listening(app) as address:
            asked = pool.submit(httpx.post, f"{address}/embed", json={"inputs": "a"}, timeout=20)
            wait_for(lambda: queue.waiting_requests == 1)
            queue.stop()
        response = asked.result()
    assert (response.status_code, response.json()["error_type"]) == (503, "Unhealthy")


def test_a_short_request_overtakes_a_long_one(models):
    app = create_app(models, Limits(batch_tokens=256))
    text = "a b c d. " * 200
    long: dict[str, Any] = {
        "/tag": {"inputs": text},
        "/answer": {"inputs": {"question": "a?", "context": text}},
        "/embed_all": {"inputs": [text] * 4},
        "/rerank": {"query": "a?", "texts": [text] * 4, "truncate": False},
        "/fill": {"inputs": [f"{text}[MASK]"] * 4, "long_texts": "windows"},
    }
    requests = long | {"/embed": {"inputs": "a"}, "/next-sentence": {"inputs": ["a", "b"]}}
    order: list[str] = []

    async def ask() -> list[Any]:
        async with async_client(app) as client:

            async def one(route: str) -> Any:
                response = await client.post(route, json=requests[route])
                assert response.status_code == 200, response.text
                order.append(route)
                return response.json()

            return await answers(app.state.queue, *map(one, requests))

    found = asyncio.run(ask())
    assert order[:2] == ["/embed", "/next-sentence"]
    with client_of(models, Limits(batch_tokens=1_000_000)) as client:
        for (route, request), in_turns in zip(long.items(), found, strict=False):
            assert in_turns == _approximately(client.ask(route, **request))


def test_a_short_request_overtakes_long_ones_that_are_only_read(models):
    app = create_app(models, Limits(batch_tokens=256))
    requests = {
        "/tokenize": {"inputs": ["a b c d. " * 2000] * 32},
        "/decode": {"ids": [[8, 9] * 2000] * 32},
        "/embed": {"inputs": "a"},
    }
    order: list[str] = []

    async def ask() -> None:
        async with async_client(app) as client:

            async def one(route: str) -> None:
                await client.post(route, json=requests[route])
                order.append(route)

            await answers(app.state.queue, *map(one, requests), thread="texts")

    asyncio.run(ask())
    assert order[0] == "/embed"


def _approximately(value: Any) -> Any:
    if isinstance(value, list):
        return [_approximately(each) for each in value]
    if isinstance(value, dict):
        return {name: _approximately(each) for name, each in value.items()}
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_an_invalid_request_does_not_affect_others(models):
    app = create_app(models, Limits())
    texts = ["a [MASK]", "no mask", "b [MASK] c", "[MASK] " * 60]

    async def ask() -> list[httpx.Response]:
        async with async_client(app) as client:
            requests = (client.post("/fill", json={"inputs": text}) for text in texts)
            return await answers(app.state.queue, *requests, thread="texts")

    found = asyncio.run(ask())
    assert [each.status_code for each in found] == [200, 422, 200, 422]
    assert "no [MASK]" in found[1].json()["error"]
    assert "the model takes 40" in found[3].json()["error"]


def test_a_server_that_is_being_stopped_says_so(models):
    client = client_of(models)
    client.app.state.queue.close()
    assert client.get("/health").status_code == 503
    assert client.post("/embed", json={"inputs": "a"}).json()["error_type"] == "Unhealthy"


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "openai_type", "told"),
    [
        ("POST", "embeddings", {"json": {"input": "a"}}, 401, "authentication_error", "Authorization"),
        ("POST", "embeddings", {"json": {"input": 1}, "headers": RIGHT}, 422, None, "input"),
        ("POST", "embeddings", {"json": {"input": "a", "model": "b"}, "headers": RIGHT}, 404, None, "'b'"),
        ("POST", "embeddings", {"content": "a", "headers": RIGHT}, 415, None, "JSON"),
        ("POST", "embeddings", {"content": "a" * 2_000_001, "headers": RIGHT}, 413, None, "2,000,000"),
        ("GET", "models/b", {"headers": RIGHT}, 404, None, "no model 'b' is served. Choose from model"),
        ("GET", "nothing", {"headers": RIGHT}, 404, None, "Not Found"),
    ],
)
def test_errors_have_the_form_of_openai(models, method, path, sent, status, openai_type, told):
    with client_of({"model": models["bert"]}, api_keys=lambda: {KEY}) as client:
        response = client.request(method, f"/v1/{path}", **sent)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert told in error["message"]
    assert error["type"] == (openai_type or "invalid_request_error")
    assert (error["code"] == "model_not_found") == ("no model 'b'" in error["message"])


def test_many_texts_are_limited_by_their_number_and_their_tokens(models):
    with client_of(models, Limits(max_batch_texts=40)) as client:
        assert len(client.ask("/embed", inputs=["a"] * 40)) == 40
        refused = client.post("/embed", json={"inputs": ["a"] * 41})
        assert (refused.status_code, "--max-batch-texts 41." in refused.text) == (413, True)
        assert client.get("/info").json()["max_client_batch_size"] == 40
    with client_of(models) as client:
        assert len(client.ask("/v1/embeddings", input=["a"] * 2048)["data"]) == 2048
        assert client.post("/embed", json={"inputs": ["a" * 50_000] * 32}).status_code == 200
        for route, texts in (("/embed", ["a" * 33_000] * 33), ("/embed_all", ["a" * 160] * 33)):
            refused = client.post(route, json={"inputs": texts})
            assert (refused.status_code, "Send several requests." in refused.text) == (413, True)
