"""What operators use: request IDs, the log, metrics, keys, hosts, other origins, variables, warm-up and shutdown."""

import asyncio
import json
import logging
import re
import signal
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import httpx
import pytest
from clients import client_of
from fastapi.testclient import TestClient
from server_process import ServerProcess

import cloze
from cloze.cli import load_verb, main
from cloze.cli.parser import Command
from cloze.serving.app import create_app, warm_up
from cloze.serving.json_log import REQUESTS
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel
from cloze.serving.server import KeyFile

KEYS = ("0123456789abcdef-first", "0123456789abcdef-second")
TIMES = {f"x-{name}-time" for name in ("compute", "total", "tokenization", "queue", "inference")}


@pytest.fixture
def bert(models: Mapping[str, ServedModel]) -> dict[str, ServedModel]:
    return {"bert": models["bert"]}


@pytest.mark.parametrize(
    ("sent", "is_kept"),
    [("a-b_c:1", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("", False), (None, False)],
)
def test_a_request_has_an_id(bert, sent, is_kept):
    client = client_of(bert)
    for answer in (
        client.post("/embed", json={"inputs": "a"}, headers={} if sent is None else {"X-Request-ID": sent}),
        client.get("/nowhere", headers={} if sent is None else {"X-Request-ID": sent}),
    ):
        found = answer.headers["x-request-id"]
        assert found == sent if is_kept else re.fullmatch("[0-9a-f]{32}", found)


def test_headers_have_the_tokens_and_times_of_text_embeddings_inference(bert):
    client = client_of(bert)
    answer = client.post("/embed", json={"inputs": ["a b c", "d"]})
    assert answer.headers["x-compute-tokens"] == "8"
    times = {name: int(answer.headers[name]) for name in TIMES}
    assert times["x-compute-time"] == times["x-total-time"] < 30_000
    assert sum(times.values()) <= 3 * times["x-total-time"] + 2
    assert not TIMES & {*client.get("/info").headers}


def test_a_computation_that_fails_is_logged_with_the_id(bert, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(ServedModel, "embed", fail)
    answer = client_of(bert).post("/embed", json={"inputs": "a"}, headers={"X-Request-ID": "of-mine"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (424, "of-mine")
    assert "the computation of request of-mine failed" in caplog.text


def test_a_line_is_logged_for_each_request(bert, caplog):
    client = client_of(bert)
    client.get("/info")
    assert not caplog.records
    with caplog.at_level(logging.INFO, REQUESTS.name):
        client.post("/embed", json={"inputs": ["a " * 100, "a"]}, headers={"X-Request-ID": "1"})
        client.get("/nowhere")
    embed, nowhere = (record.__dict__["fields"] for record in caplog.records)
    asked = {"id": "1", "method": "POST", "route": "/embed", "status": 200, "model": "bert"}
    assert embed.items() >= (asked | {"tokens": 43, "truncated_texts": 1}).items()
    assert 0 < embed["tokenization_seconds"] + embed["compute_seconds"] <= embed["seconds"] < 30
    assert (nowhere["route"], nowhere["status"], nowhere["model"], nowhere["tokens"]) == ("other", 404, "", 0)


def test_metrics_count_by_model_and_route(models):
    client = client_of({name: models[name] for name in ("bert", "tagger")})
    client.ask("/embed", inputs="a b c")
    client.ask("/tag", inputs="a b c d")
    client.post("/embed", json={"inputs": "a", "model": "unknown"})
    client.post("/embed", json={"inputs": []})
    client.get("/nowhere")
    client.get("/health")
    text = client.get("/metrics").text
    for line in (
        'cloze_tokens_total{model="bert"} 5.0',
        'cloze_tokens_total{model="tagger"} 6.0',
        'cloze_queue_seconds_count{model="bert"} 1.0',
        'cloze_compute_seconds_bucket{le="30.0",model="tagger"} 1.0',
        'cloze_requests_total{model="bert",route="/embed",status="200"} 1.0',
        'cloze_requests_total{model="tagger",route="/tag",status="200"} 1.0',
        'cloze_requests_total{model="",route="/embed",status="400"} 1.0',
        'cloze_requests_total{model="",route="/embed",status="422"} 1.0',
        'cloze_requests_total{model="",route="other",status="404"} 1.0',
        'cloze_requests_total{model="",route="/health",status="200"} 1.0',
        "cloze_waiting_requests 0.0",
        "cloze_requests_in_progress 1.0",  # the one for these metrics
        "cloze_batches 2.0",
        f'cloze_build_info{{version="{cloze.__version__}"}} 1.0',
    ):
        assert f"\n{line}\n" in text
    assert "unknown" not in text


def test_each_of_several_keys_is_right_and_the_file_is_read_again(bert, tmp_path):
    file = tmp_path / "keys"
    file.write_text("".join(f"{key}\n" for key in KEYS))
    client = client_of(bert, api_keys=KeyFile(file))

    def statuses() -> list[int]:
        headers = [{"Authorization": f"Bearer {key}"} for key in (*KEYS, "0123456789abcdef-third")]
        return [client.get("/info", headers=header).status_code for header in headers]

    assert statuses() == [200, 200, 401]
    new = tmp_path / "new"
    new.write_text(f"{KEYS[1]}\n0123456789abcdef-third")
    new.replace(file)  # as Kubernetes changes a secret
    assert statuses() == [401, 200, 200]
    file.write_text("short")
    assert statuses() == [401, 200, 200]
    file.write_text(f"{'x' * 8_000}\n" * 130 + KEYS[0])  # over a million characters are read to their end
    assert statuses() == [200, 401, 401]
    file.write_text(f"{KEYS[1]}\n0123456789abcdef-third")
    assert statuses() == [401, 200, 200]
    file.unlink()
    assert statuses() == [401, 200, 200]


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), (f"{KEYS[0]}\nshort\n", 2), ("a key with spaces", 1), ("a" * 8193, 1)]
)
def test_a_line_that_is_not_a_key_is_refused(tmp_path, text, line):
    (tmp_path / "keys").write_text(text)
    with pytest.raises(cloze.InputError, match=f"line {line} has not 16 to 8,192 printable ASCII"):
        KeyFile(tmp_path / "keys")


def test_pages_of_a_named_origin_may_send_requests(bert):
    ours, other = {"Origin": "https://ours.example"}, {"Origin": "https://other.example"}
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origins in ((), ("https://ours.example",)):
        client = client_of(bert, api_keys=lambda: {KEYS[0]}, cors=origins)
        assert client.options("/embed", headers=ours | preflight).status_code == (200 if origins else 401)
        for sent, allowed in ((ours, bool(origins)), (other, False)):
            answer = client.post("/embed", json={"inputs": "a"}, headers=sent)
            assert answer.status_code == 401
            assert ("access-control-allow-origin" in answer.headers) == allowed


def parse(*words: str) -> dict[str, Any]:
    return Command(load_verb("serve"), "cloze serve").parse(words)


def test_a_variable_stands_for_each_flag(monkeypatch):
    flags = {
        name: f"CLOZE_{parameter.names[0][2:].replace('-', '_').upper()}"
        for name, parameter in Command(load_verb("serve"), "cloze serve").parameters.items()
    }
    assert {"max_batch_texts", "drain_seconds", "log", "model", "open"} <= {*flags}
    for name, variable in flags.items():
        monkeypatch.setenv(variable, {"open": "true", "log": "json", "precision": "int8"}.get(name, "1"))
    assert parse().keys() == flags.keys()
    monkeypatch.setenv("CLOZE_MODEL", "a=x b=y")
    monkeypatch.setenv("CLOZE_PORT_8080_TCP", "tcp://10.0.0.1:8080")  # as Kubernetes sets it for a service
    assert (parse()["model"], parse("-m", "z", "--port", "2")["model"]) == (("a=x", "b=y"), ("z",))
    assert (parse("--port", "2")["port"], parse()["port"], parse()["open"]) == (2, 1, True)


@pytest.mark.parametrize("variable", ["CLOZE_PORT=x", "CLOZE_DEADLINE_SECONDS=0", "CLOZE_LOG=xml"])
def test_a_wrong_variable_is_refused(variable, monkeypatch, capsys):
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    assert main(["serve", "-m", "nowhere"]) == 2
    assert f"--{name[6:].lower().replace('_', '-')}" in capsys.readouterr().err


def test_examples_are_computed_before_the_port_opens(models):
    app = create_app(models, Limits())
    asyncio.run(warm_up(models, app.state.queue))
    assert app.state.queue.batches > len(models)
    assert "cloze_requests_total{" not in TestClient(app).get("/metrics").text


@pytest.mark.slow
def test_a_server_of_variables_logs_json_and_leaves_slowly(directories, monkeypatch, tmp_path):
    (document := tmp_path / "a.txt").write_text("a b")
    variables = {"MODEL": f"m={directories['bert']}", "LOG": "json", "ALLOWED_HOST": "a.example b.example"}
    variables |= {"SEARCH": str(document), "SHUTDOWN_DELAY": "2", "BODY_BYTES": "100"}
    for name, value in variables.items():
        monkeypatch.setenv(f"CLOZE_{name}", value)
    served = ServerProcess()
    assert json.loads(served.told)["message"] == f"serving m at {served.url}"
    hosts = {"a.example": 200, "b.example:80": 200, "localhost": 200, "c.example": 421}
    for host, status in hosts.items():
        assert httpx.get(f"{served.url}/info", headers={"Host": host}).status_code == status
    assert served.post("/embed", inputs="a" * 100).status_code == 413
    served.process.send_signal(signal.SIGTERM)
    healths = [200]
    while healths[-1] == 200:
        healths.append(httpx.get(f"{served.url}/health").status_code)
    assert served.post("/embed", inputs="a").status_code == 200
    assert served.process.wait(15) == 0
    served.end()
    rows = [json.loads(line) for line in served.log]
    assert [row["status"] for row in rows] == [*hosts.values(), 413, *healths[1:], 200]
    assert healths[-1] == 503
    assert all(datetime.fromisoformat(row["time"]).tzinfo for row in rows)
