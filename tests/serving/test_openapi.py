"""Responses match the OpenAPI schema, to requests that follow it and to requests that violate it."""

import json
import re
import threading
from collections.abc import Mapping
from typing import Any

import pytest
import schemathesis
from clients import Client
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks

import cloze
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel

load_all_checks()
pytestmark = pytest.mark.protected

CHECKS = {
    # requests may be refused for a reason that no schema states: a text without [MASK], an unknown model
    "positive_data_acceptance": {"enabled": False},
    "negative_data_rejection": {"expected-statuses": [400, 413, 422]},
    "unsupported_method": {"enabled": False},
}


@pytest.fixture
def app(models: Mapping[str, ServedModel]) -> FastAPI:
    return create_app(models, Limits())


def _attack(app: FastAPI, *, requests_of_a_route: int) -> int:
    """Send requests that follow and that violate the schema; return their number."""
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", app, config=schemathesis.Config.from_dict({"checks": CHECKS})
    )
    sent = 0
    operations = [each.ok() for each in schema.get_all_operations()]
    for operation in operations:
        for mode in GenerationMode if operation.method == "post" else [GenerationMode.POSITIVE]:

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=requests_of_a_route // 2,
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            def check(case: schemathesis.Case) -> None:
                nonlocal sent
                sent += 1
                case.call_and_validate()

            check()
    return sent


def test_the_schema_describes_every_route_and_field(app):
    schema = app.openapi()
    tags = {tag["name"] for tag in schema["tags"]}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["description"].endswith("."), path
            assert len(operation["tags"]) == 1, path
            assert tags.issuperset(operation["tags"]), path
            assert "security" not in operation
            if method == "post":
                assert operation["requestBody"]["content"]["application/json"]["example"], path
    for values in re.findall(r'"enum": (\[.*?\])', json.dumps(schema)):
        assert len({value.lower() for value in json.loads(values)}) == len(json.loads(values))
    for name, described in schema["components"]["schemas"].items():
        for field, value in described.get("properties", {}).items():
            assert value.get("description", "").strip(), f"{name}.{field}"


def _examples(client: Client) -> dict[str, dict[str, Any]]:
    return {
        path: methods["post"]["requestBody"]["content"]["application/json"]["example"]
        for path, methods in client.get("/openapi.json").json()["paths"].items()
        if "post" in methods
    }


def test_only_one_thread_tokenizes(client, monkeypatch):
    """Neither the event loop nor the thread that computes."""
    seen: set[tuple[str, str]] = set()

    def record(kind: type, name: str) -> None:
        function = getattr(kind, name)

        def recorded(*args: Any, **options: Any) -> Any:
            seen.add((name, threading.current_thread().name))
            return function(*args, **options)

        monkeypatch.setattr(kind, name, recorded)

    record(cloze.Tokenizer, "encode")
    record(cloze.Tokenizer, "decode")
    record(cloze.WordPieceTokenizer, "ids")
    examples = _examples(client)
    assert len(examples) > 15
    for path, example in examples.items():
        client.ask(path, **example)
        if path in ("/fill", "/predict", "/tag", "/answer"):
            client.ask(path, **example, parameters={})
    assert seen == {(name, "cloze-texts") for name in ("encode", "decode", "ids")}


def test_the_schema_names_the_key_where_one_is_required(models):
    schema = create_app(models, Limits(), api_keys=lambda: {"0123456789abcdef-secret"}).openapi()
    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert operation.get("security") == (None if path == "/health" else [{"key": []}])


@pytest.mark.parametrize(
    ("requests_of_a_route", "requests"),
    [
        pytest.param(12, 101, marks=pytest.mark.slow),
        pytest.param(320, 5000, marks=[pytest.mark.exhaustive, pytest.mark.timeout(1200)]),
    ],
)
def test_openapi_is_true(app, requests_of_a_route, requests):
    assert _attack(app, requests_of_a_route=requests_of_a_route) >= requests
