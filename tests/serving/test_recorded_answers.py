"""Requests to every route of models, valid and wrong ones, are answered as recorded in recorded_answers.json.

`python tests/serving/test_recorded_answers.py` asks them again and writes the answers: read the difference to the file.
"""

import base64
import json
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))
from clients import Client, client_of
from kinds_of_models import write_models

from cloze.serving.limits import Limits

pytestmark = pytest.mark.protected

FILE = Path(__file__).with_name("recorded_answers.json")
RECORDED: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
ROUTES = sorted({exchange["route"] for exchange in RECORDED})


def asked(client: Client, exchange: dict[str, Any]) -> dict[str, Any]:
    """Return the exchange with the answer that a request gets now."""
    response = client.post(exchange["route"], json=exchange["request"])
    truncated = response.headers.get("x-truncated-texts")
    answer = {"status": response.status_code, "answer": response.json()}
    sent = {name: exchange[name] for name in ("route", "request")}
    return sent | answer | ({} if truncated is None else {"truncated": truncated})


def check(found: Any, expected: Any, place: str) -> None:
    if isinstance(expected, dict | list):
        assert type(found) is type(expected), place
        assert len(found) == len(expected), place
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            check(found[key], expected[key], f"{place}.{key}")
    elif isinstance(expected, str) and place.endswith((".embedding", ".weights", ".values")):
        vectors = (np.frombuffer(base64.b64decode(text), "<f4") for text in (found, expected))
        np.testing.assert_allclose(*vectors, atol=1e-5)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("route", ROUTES)
def test_answers_are_those_recorded(client, route):
    for number, exchange in enumerate(RECORDED):
        if exchange["route"] == route:
            check(asked(client, exchange), exchange, f"{number}")


if __name__ == "__main__":
    with client_of(write_models(Path(mkdtemp())), Limits(max_batch_texts=32)) as client:
        lines = [json.dumps(asked(client, exchange), ensure_ascii=False) for exchange in RECORDED]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
