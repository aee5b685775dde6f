"""The header that counts truncated texts."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from clients import listening

from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel

LONG = " ".join("abcdefghij"[i % 10] for i in range(60))
SHORT = "a b c"


@pytest.fixture(scope="module")
def address(models: Mapping[str, ServedModel]) -> Iterator[str]:
    with listening(create_app(models, Limits())) as address:
        yield address


@pytest.mark.parametrize(
    ("route", "request_", "count"),
    [
        ("/embed", {"inputs": [LONG, SHORT, LONG]}, "2"),
        ("/embed", {"inputs": LONG, "truncation_direction": "Left"}, "1"),
        ("/embed", {"inputs": [[8] * 60, [8] * 5]}, "1"),
        ("/embed", {"inputs": [SHORT]}, None),
        ("/embed_all", {"inputs": [LONG, SHORT]}, "1"),
        ("/similarity", {"inputs": {"source_sentence": LONG, "sentences": [LONG, SHORT]}}, "2"),
        ("/v1/embeddings", {"input": [SHORT, LONG]}, "1"),
        ("/predict", {"inputs": [[LONG], [SHORT]]}, "1"),
        ("/predict", {"inputs": [[LONG], [SHORT]], "raw_scores": True, "truncation_direction": "Left"}, "1"),
        ("/predict", {"model": "matcher", "inputs": [[SHORT, LONG], [SHORT, SHORT]]}, "1"),
        ("/predict", {"inputs": SHORT}, None),
        ("/rerank", {"query": SHORT, "texts": [LONG, SHORT]}, None),  # read in windows
        ("/choose", {"inputs": {"prompt": LONG, "choices": ["a", "b"]}}, "1"),
        ("/tag", {"inputs": LONG}, None),
        ("/answer", {"inputs": {"question": SHORT, "context": LONG}}, None),
        ("/answer", {"inputs": {"question": LONG * 2, "context": SHORT}}, "1"),
        ("/answer", {"inputs": {"question": LONG * 2, "context": SHORT}, "parameters": {}}, "1"),
        ("/explain", {"inputs": [[LONG], [SHORT]]}, "1"),
        ("/tokenize", {"inputs": LONG}, None),
    ],
)
def test_truncated_texts_are_counted(
    address: str, route: str, request_: dict[str, Any], count: str | None
) -> None:
    response = httpx.post(address + route, json=request_, timeout=30)
    assert response.status_code == 200, response.text
    assert response.headers.get("x-truncated-texts") == count
