"""The form of errors under /v1, and the number of texts that a request may have."""

from collections.abc import Mapping
from typing import Any

import pytest
from clients import client_of

from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel

KEY = "0123456789abcdef-secret"
RIGHT = {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "openai_type", "told"),
    [
        ("POST", "embeddings", {"json": {"input": "a"}}, 401, "authentication_error", "Authorization"),
        ("POST", "embeddings", {"json": {"input": 1}, "headers": RIGHT}, 422, None, "input"),
        ("POST", "embeddings", {"json": {"input": "a", "model": "b"}, "headers": RIGHT}, 422, None, "'b'"),
        ("POST", "embeddings", {"content": "a", "headers": RIGHT}, 415, None, "JSON"),
        ("POST", "embeddings", {"content": "a" * 2_000_001, "headers": RIGHT}, 413, None, "2,000,000"),
        ("GET", "models/b", {"headers": RIGHT}, 404, None, "no model 'b' is served. Choose from model"),
        ("GET", "nothing", {"headers": RIGHT}, 404, None, "Not Found"),
    ],
)
def test_errors_have_the_form_of_openai(
    models: Mapping[str, ServedModel],
    method: str,
    path: str,
    sent: Mapping[str, Any],
    status: int,
    openai_type: str | None,
    told: str,
) -> None:
    with client_of({"model": models["bert"]}, api_key=KEY) as client:
        response = client.request(method, f"/v1/{path}", **sent)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert told in error["message"]
    assert error["type"] == (openai_type or "invalid_request_error")


@pytest.mark.parametrize(
    ("model", "route", "request_of"),
    [
        ("bert", "/embed", lambda n: {"inputs": ["a"] * n}),
        ("bert", "/v1/embeddings", lambda n: {"input": ["a"] * n}),
        ("bert", "/similarity", lambda n: {"inputs": {"source_sentence": "a", "sentences": ["b"] * n}}),
        ("bert", "/decode", lambda n: {"ids": [[8]] * n}),
        ("ranker", "/rerank", lambda n: {"query": "a", "texts": ["b"] * n}),
        ("chooser", "/choose", lambda n: {"inputs": {"prompt": "a", "choices": ["b"] * n}}),
    ],
)
def test_the_number_of_texts_has_a_limit(
    models: Mapping[str, ServedModel], model: str, route: str, request_of: Any
) -> None:
    for limit in (32, 40):
        with client_of({"model": models[model]}, Limits(batch_texts=limit)) as client:
            assert client.post(route, json=request_of(limit)).status_code == 200
            refused = client.post(route, json=request_of(limit + 1))
            assert client.get("/info").json()["max_client_batch_size"] == limit
        assert refused.status_code == 413
        assert f"{limit + 1} are more than {limit}." in refused.text
        assert f"serve with --max-batch-texts {limit + 1}." in refused.text


def test_many_texts_are_bounded_by_their_tokens(models: Mapping[str, ServedModel]) -> None:
    with client_of(models) as client:
        assert len(client.ask("/v1/embeddings", input=["a"] * 2048)["data"]) == 2048
        assert client.post("/embed", json={"inputs": ["a" * 50_000] * 32}).status_code == 200
        for route, texts in (("/embed", ["a" * 33_000] * 33), ("/embed_all", ["a" * 160] * 33)):
            refused = client.post(route, json={"inputs": texts})
            assert (refused.status_code, "Send several requests." in refused.text) == (413, True)
