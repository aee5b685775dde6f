"""Graphs that differ from their description, or whose values are no answer, are refused; none gives a wrong answer."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import cloze
from answering_models import INPUTS, TOKENS, answers, assert_same, write_graphs
from helpers import make_once
from serving.clients import client_of
from serving.server_process import ServerProcess
from tiny_models import tiny_config, write_checkpoint

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, TensorProto = onnx.helper, onnx.TensorProto
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
RED = "\x1b[31mred\x07"


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "exported", write_graphs) / "graphs"


def change(source: Path, target: Path, file: str, edit: Callable[[Any], Any]) -> Path:
    """Copy a graph with one file edited, a JSON object or the graph, and with the manifest of that."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    if file.endswith(".json"):
        table = json.loads((source / file).read_text())
        edit(table)
        data = json.dumps(table).encode()
    else:
        model = onnx.load(source / file)
        edit(model.graph)
        data = model.SerializeToString().replace(b"UNREADABLE", b"\xff" * 10)  # not UTF-8
    (target / file).write_bytes(data)
    manifest = json.loads((source / "manifest.json").read_text())
    manifest["files"][file] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (target / "manifest.json").write_text(json.dumps(manifest))
    return target


def refusal(name: str, graph: Path, expected: Any) -> str:
    """Return the message of a refused graph; empty if it gives the right answers."""
    try:
        found = answers(name, cloze.load(graph))
    except cloze.InputError as error:
        message = str(error)
    else:
        message = ""
        assert_same(found, expected)
    assert message.isprintable()
    return message


def without_names(graph: Any) -> None:
    for value in (*graph.input, *graph.output):
        for size in value.type.tensor_type.shape.dim:
            size.ClearField("dim_param")


def insert(
    graph: Any, number: int, operator: str, *constants: Any, kind: int = FLOAT, **attributes: Any
) -> None:
    """Put an operator between an output and what computes it."""
    output = graph.output[number]
    (node,) = (node for node in graph.node if output.name in node.output)
    node.output[list(node.output).index(output.name)] = "before"
    names = []
    for index, constant in enumerate(constants):
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(constant), f"constant{index}"))
        names.append(f"constant{index}")
    graph.node.append(helper.make_node(operator, ["before", *names], [output.name], **attributes))
    output.CopyFrom(helper.make_tensor_value_info(output.name, kind, None))


def fix(value: Any, axis: int, size: int) -> None:
    value.type.tensor_type.shape.dim[axis].dim_value = size


def set_input(
    number: int, name: str, kind: int = INT64, shape: Any = ("batch", "length")
) -> Callable[[Any], None]:
    def edit(graph: Any) -> None:
        old = graph.input[number].name
        graph.input[number].CopyFrom(helper.make_tensor_value_info(name or old, kind, shape))
        for node in graph.node:
            node.input[:] = [name or old if each == old else each for each in node.input]

    return edit


def add_input(graph: Any) -> None:
    graph.input.append(helper.make_tensor_value_info("position_ids", INT64, ("batch", "length")))
    graph.node.append(helper.make_node("Identity", ["position_ids"], ["positions"]))
    graph.output.append(helper.make_tensor_value_info("positions", INT64, ("batch", "length")))


def rename_output(name: str) -> Callable[[Any], None]:
    def edit(graph: Any) -> None:
        insert(graph, 0, "Identity")
        graph.node[-1].output[0] = graph.output[0].name = name

    return edit


HARMLESS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda graph: None,
    "no names of dimensions": without_names,
    "another declared width": lambda graph: fix(graph.output[0], -1, 77),
    "no types of outputs": lambda graph: insert(graph, 0, "Identity"),
}
WRONG: dict[str, Callable[[Any], Any]] = {
    **{f"input {number} with another name": set_input(number, RED) for number in range(3)},
    **{f"input {number} of another type": set_input(number, "", TensorProto.INT32) for number in range(3)},
    **{f"input {number} of another rank": set_input(number, "", INT64, ("b", "l", 1)) for number in range(3)},
    "one text at a time": lambda graph: fix(graph.input[0], 0, 1),
    "a further input": add_input,
    "a further output": lambda graph: graph.output.append(graph.input[0]),
    "an output with another name": rename_output(RED),
    "an output with an unreadable name": rename_output("UNREADABLE"),
    "an input with an unreadable name": set_input(0, "UNREADABLE"),
    "no last output": lambda graph: graph.output.pop(),
    "a higher rank": lambda graph: insert(graph, 0, "Unsqueeze", [0]),
    "a lower rank": lambda graph: insert(graph, 0, "ReduceSum", [0], keepdims=0),
    "another batch": lambda graph: insert(graph, 0, "ReduceSum", [0], keepdims=1),
    "a double last size": lambda graph: (
        insert(graph, 0, "Concat", axis=-1) or graph.node[-1].input.append("before")
    ),
    "numbers of double precision": lambda graph: insert(
        graph, 0, "Cast", kind=TensorProto.DOUBLE, to=TensorProto.DOUBLE
    ),
    "an unknown operator": lambda graph: insert(graph, 0, RED),
    "escapes in the names of a node": lambda graph: graph.node.append(
        helper.make_node("Relu", [RED], ["\n"])
    ),
}
"""Edits of a graph."""


@pytest.mark.parametrize("name", INPUTS)
def test_a_graph_with_other_inputs_or_outputs_is_refused(name, graphs, tmp_path, capfd):
    expected = answers(name, cloze.load(graphs / name))
    for label, edit in HARMLESS.items():
        assert refusal(name, change(graphs / name, tmp_path / "graph", "model.onnx", edit), expected) == "", (
            label
        )
    for label, edit in WRONG.items():
        graph = change(graphs / name, tmp_path / "graph", "model.onnx", edit)
        message = refusal(name, graph, expected)
        assert re.search(r"model\.onnx: (not the graph that|ONNX Runtime [0-9.]+ cannot read it)", message), (
            label
        )
    assert capfd.readouterr() == ("", ""), "ONNX Runtime prints nothing"


def test_a_graph_with_another_number_of_classes_is_refused(graphs, tmp_path):
    """The task of a run counts them, or else config.json."""
    source = shutil.copytree(graphs / "TextClassifier", tmp_path / "source")
    (source / "task.toml").write_text((source / "task.toml").read_text().replace('"bad"', '"bad", "worse"'))
    for kind, number in (("task.toml", 4), ("config.json", 2)):
        if number == 2:
            (source / "task.toml").unlink()
        graph = change(
            source,
            tmp_path / kind,
            "config.json",
            lambda table: table.update(id2label={"0": "bad", "1": "good"}),
        )
        manifest = json.loads((graph / "manifest.json").read_text())
        del manifest["files"]["task.toml"]
        (graph / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(
            cloze.InputError, match=rf"logits is float32 \(2, 3\), not float32 \(2, {number}\)\."
        ):
            cloze.load(graph)


@pytest.mark.parametrize(
    ("key", "value"),
    [("model", "BertForMaskedLM"), ("outputs", ["hidden"]), ("precision", "int4"), ("parameters", None)],
)
def test_a_description_of_another_graph_is_refused(key, value, graphs, tmp_path):
    graph = change(
        graphs / "TextClassifier", tmp_path / "graph", "export.json", lambda table: table.update({key: value})
    )
    assert refusal("TextClassifier", graph, None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", INPUTS)
def test_values_that_are_not_finite_are_no_answer(name, value, graphs, tmp_path):
    graph = change(
        graphs / name,
        tmp_path / "graph",
        "model.onnx",
        lambda graph: [insert(graph, 0, "Add", np.float32(value))],
    )
    with pytest.raises(cloze.RunError, match="the exported graph computes values that are not finite"):
        answers(name, cloze.load(graph))


def test_a_server_says_that_the_computation_failed(graphs, tmp_path):
    """Not that the request is invalid."""
    graph = change(graphs / "Embedder", tmp_path / "g", "model.onnx", lambda graph: [insert(graph, 0, "Log")])
    with client_of({"g": graph}) as client:
        response = client.post("/embed", json={"inputs": "a b"})
    assert (response.status_code, response.json()["error_type"]) == (424, "Backend")
    assert "the exported graph computes values that are not finite" in response.json()["error"]


def loop(graph: Any) -> None:
    """Let the first output wait for a loop without end where a token has another id than 0."""
    scalar = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["goes_on"], ["go_on"]),
            helper.make_node("Add", ["one", "one"], ["two"]),
        ],
        "body",
        [scalar("turn", INT64, []), scalar("goes_on", TensorProto.BOOL, []), scalar("one", INT64, [1])],
        [scalar("go_on", TensorProto.BOOL, []), scalar("two", INT64, [1])],
    )
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(2**62), "turns"))
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "zero"))
    graph.node.extend(
        [
            helper.make_node("ReduceMax", ["input_ids"], ["largest"], keepdims=0),
            helper.make_node("Sign", ["largest"], ["sign"]),
            helper.make_node("Mul", ["sign", "turns"], ["count"]),
            helper.make_node("Loop", ["count", "", "zero"], ["nothing"], body=body),
            helper.make_node("Cast", ["nothing"], ["shift"], to=FLOAT),
        ]
    )
    insert(graph, 0, "Add")
    graph.node[-1].input.append("shift")


INTERRUPTED = """
import os, signal, sys, threading, time
from cloze.cli import main
from cloze.models.engine import RUNNING

def interrupt():
    running = set()
    while not running & RUNNING:
        running = set(RUNNING)
        time.sleep(0.5)
    os.kill(os.getpid(), int(sys.argv[1]))

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main(sys.argv[2:]))
"""


LONG_TEXT = "a b c d e f g h " * 36
"""A text of more than 256 tokens, whose computation a signal ends."""


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Return a graph that reads `LONG_TEXT` and never ends."""
    model = cloze.BertModel(tiny_config(TOKENS, max_position_embeddings=300))
    write_checkpoint(tmp_path / "model", model, TOKENS)
    cloze.export_model(tmp_path / "model", output=tmp_path / "exported")
    return change(tmp_path / "exported", tmp_path / "graph", "model.onnx", loop)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_loop_in_a_graph(number, threads, endless, tmp_path):
    """With two threads, batches are computed by other threads than the main one."""
    (tmp_path / "texts.txt").write_text(f"{LONG_TEXT}\n" * 4)
    command = [sys.executable, "-c", INTERRUPTED, str(int(number)), "embed", str(tmp_path / "texts.txt")]
    ended = subprocess.run(
        [*command, "-m", str(endless), "-o", str(tmp_path / "v.npy"), "--quiet"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    assert (ended.returncode, ended.stderr) == (130, "error: interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process")
def test_a_program_goes_on_after_signals(endless):
    """One whose handler raises ends the computation, another does not."""
    embedder, numbers = cloze.Embedder.load(endless), list[int]()
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    try:
        for _ in range(2):
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                embedder(LONG_TEXT)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert numbers == [signal.SIGTERM] * 2


def _num_arrived(server: ServerProcess) -> int:
    """Return the number of requests to /embed that a server has read or answered."""
    text = httpx.get(f"{server.url}/metrics", timeout=30).text
    counts = re.findall(
        r'^cloze_requests_(?:in_progress|total\{[^}]*route="/embed",.*\}) ([\d.]+)$', text, re.MULTILINE
    )
    return int(sum(map(float, counts))) - 1  # this request is in progress, too


@pytest.mark.slow
def test_sigterm_ends_servers_that_compute_for_long(graphs, tmp_path):
    """The thread still computes after the time for open requests: of torch a batch of many, of a graph one forever."""
    graph = change(graphs / "Embedder", tmp_path / "endless", "model.onnx", loop)
    served = [
        ServerProcess("-m", model) for model in ("cloze-mini-sentences", "cloze-mini-sentences", str(graph))
    ]
    request = {"inputs": ["She closed the door behind her and went home. " * 45] * 32}
    with ThreadPoolExecutor(24) as pool, httpx.Client(timeout=60) as client:
        asked = [
            [pool.submit(client.post, f"{server.url}/embed", json=request) for _ in range(8)]
            for server in served
        ]
        for server in served:
            while _num_arrived(server) < 8:
                time.sleep(0.1)
        for server in served:
            server.process.terminate()
        statuses = [[each.result().status_code for each in of_server] for of_server in asked]
        assert [server.process.wait(30) for server in served] == [0, 0, 0]
    assert {status for of_server in statuses for status in of_server} <= {200, 503}
    for server in served:
        server.end()
        assert not [line for line in server.log if "Fatal" in line or "terminate called" in line]


@pytest.mark.slow
def test_a_second_ctrl_c_ends_a_server_at_once(graphs, tmp_path):
    own = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    graph = change(graphs / "Embedder", tmp_path / "endless", "model.onnx", loop)
    server = ServerProcess("-m", str(graph))
    signal.signal(signal.SIGINT, own)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.post, "/embed", inputs="a b")
        while not _num_arrived(server):
            time.sleep(0.1)
        for _ in range(2):
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        assert server.process.wait(8) == 130
        assert asked.result().status_code == 503
    server.end()
    assert not [line for line in server.log if "Traceback" in line]
