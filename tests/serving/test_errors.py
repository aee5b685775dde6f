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


def test_many_texts_are_limited_by_their_number_and_their_tokens(models: Mapping[str, ServedModel]) -> None:
    with client_of(models, Limits(batch_texts=40)) as client:
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
