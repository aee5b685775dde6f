"""`cloze serve` as a process: its address, threads, memory, signals, shutdown and wrong use."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from server_process import ServerProcess

from cloze.cli import main
from cloze.model_paths import find_model_directory
from cloze.serving.server import bind, listen


@pytest.fixture
def start() -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def begin(*arguments: str, omp_threads: int = 1) -> ServerProcess:
        started.append(ServerProcess(*arguments, omp_threads=omp_threads))
        return started[-1]

    # not ignored, as it is by whatever a shell starts in the background
    own = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield begin
    signal.signal(signal.SIGINT, own)
    for served in started:
        served.end()


def compute_threads(served: ServerProcess) -> int:
    """Return how many threads the first computation, of texts for several batches, starts."""
    before = served.state()[1]
    assert served.post("/embed", inputs=["She closed the door. " * 30] * 8).status_code == 200
    return served.state()[1] - before


@pytest.mark.slow
def test_a_model_of_the_hub_is_open_to_other_machines(start, hub):
    hub.add_model("ardent/mini", find_model_directory("cloze-mini"))
    served = start("-m", "hf://ardent/mini", "--host", "0.0.0.0", "--open", "--threads", "3", "--quiet")
    assert "serving mini at" in served.told
    if sys.platform == "linux":
        assert compute_threads(served) == 3
    request = {"model": "mini", "inputs": "She closed the [MASK]."}
    headers = {"Host": "some.machine.example"}
    assert httpx.post(f"{served.url}/fill", json=request, headers=headers, timeout=30).status_code == 200


@pytest.mark.skipif(sys.platform != "linux" or os.cpu_count() == 1, reason="reads /proc; needs two cores")
@pytest.mark.slow
def test_only_the_computing_thread_starts_others(start, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # those of numpy, which rest
    one, two = (start("--threads", "1", omp_threads=number) for number in (1, 2))
    assert one.state()[1] == two.state()[1]


@pytest.mark.slow
def test_cloze_mini_is_served_by_default(start):
    served = start()
    if sys.platform == "linux":
        assert compute_threads(served) == 0, "OMP_NUM_THREADS=1 is set"
    assert served.told.startswith("serving cloze-mini at http://127.0.0.1:")
    (masks,) = served.post("/fill", inputs="She closed the [MASK].").json()
    assert len(masks[0]) == 5
    assert httpx.get(f"{served.url}/info").json()["max_batch_tokens"] == 4096


@pytest.mark.slow
def test_ctrl_c_stops_a_server_with_a_key(start, directories, tmp_path):
    key = "0123456789abcdef0123"
    (tmp_path / "key").write_text(f"{key}\n")
    key_file = str(tmp_path / "key")
    locked = start("-m", str(directories["bert"]), "--api-key-file", key_file, "--keep-alive", "1")
    with socket.create_connection(("127.0.0.1", locked.port), timeout=8) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while idle.recv(4096):
            pass  # until the server closes the connection, before the 10 seconds for a head
    assert locked.post("/embed", inputs="a").status_code == 401
    right = {"Authorization": f"Bearer {key}", "Host": "some.machine.example"}
    answer = httpx.post(f"{locked.url}/embed", json={"inputs": "a"}, headers=right, timeout=30)
    assert answer.status_code == 200
    locked.process.send_signal(signal.SIGINT)
    assert locked.process.wait(15) == 130
    locked.end()
    assert locked.log == ["stopped\n"]


@pytest.mark.protected
@pytest.mark.slow
def test_open_requests_are_answered_at_shutdown(start, directories):
    served = start("-m", str(directories["bert"]), "-m", f"ner={directories['tagger']}")
    assert served.told.startswith("serving bert, ner at http://127.0.0.1:")
    text = "a b c d. " * 100
    # one client for all: creating one for each takes longer than the server takes to answer
    with ThreadPoolExecutor(6) as pool, httpx.Client(base_url=served.url, timeout=30) as client:
        asked = [pool.submit(client.post, "/tag", json={"inputs": [text + "a" * i] * 12}) for i in range(6)]
        while "cloze_requests_in_progress 7" not in client.get("/metrics").text:  # with this one
            assert not any(each.done() for each in asked), "too fast to be stopped"
            time.sleep(0.01)
        served.process.terminate()
        assert [each.result().status_code for each in asked] == [200] * 6
    assert served.process.wait(15) == 0
    with pytest.raises(httpx.ConnectError):
        served.post("/tag", inputs="a")


@pytest.mark.protected
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["in a finalizer", "during a long batch"])
def test_sigterm_ends_the_process_with_0(directories, moment):
    """Also in a finalizer, where an exception of a signal handler is dropped, and while native code computes."""
    program = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import load_models
from cloze.serving.server import bind, run

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def tell(address):
    if sys.argv[2] == "during a long batch":
        batch = app.state.queue.run(lambda: time.sleep(90), tokens=1)
        threading.Thread(target=asyncio.run, args=(batch,), daemon=True).start()
        time.sleep(0.2)
    Dropped()

app = create_app(load_models({"bert": Path(sys.argv[1])}, device="cpu"), Limits(), threads=1)
run(app, bind("127.0.0.1", 0), Limits(), tell=tell)
"""
    command = [sys.executable, "-c", program, str(directories["bert"]), moment]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_memory_threads_and_files_do_not_grow(served):
    def load(seed: int) -> None:
        random = np.random.default_rng(seed)
        with httpx.Client(base_url=served.url, timeout=30) as client:
            for _ in range(60):
                text = "ab " * int(random.integers(1, 40))
                is_good = random.random() < 0.8
                body = json.dumps({"inputs": text}) if is_good else '{"inputs": [1, "\\ud800"'
                answer = client.post("/embed", content=body, headers={"Content-Type": "application/json"})
                assert answer.status_code == (200 if is_good else 422)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(load, range(40)))  # until no allocator takes more
        before = served.state()
        list(pool.map(load, range(40, 56)))
    after = served.state()
    assert after[0] - before[0] < 4 << 20
    assert after[1] <= before[1]
    assert after[2] <= before[2] + 2


def test_a_port_in_use_is_reported_before_models_are_loaded(capsys):
    with bind("127.0.0.1", 0) as listening:
        listen(listening)
        port = str(listening.getsockname()[1])
        assert main(["serve", "-m", "nowhere", "--port", port]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.protected
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-m"], "--model"),
        (["-m", "nowhere"], "nowhere"),
        (["-m", "a=x", "-m", "a=y"], "is used twice"),
        (["-m", "=cloze-mini"], "'=cloze-mini' lacks a name or a directory"),
        (["-m", "a="], "'a=' lacks a name or a directory"),
        (["-m", "{bert}", "--host", "203.0.113.7", "--open", "--port", "1"], "cannot listen on 203.0.113.7"),
        (["-m", "{bert}", "--host", ""], "--host: the address is empty. Give an address"),
        (["-m", "{bert}", "--host", " "], "--host: the address is empty. Give an address"),
        (["-m", "{bert}", "--host", "0.0.0.0", "--port", "0"], "--host: 0.0.0.0 is open to other machines"),
        (["-m", "{bert}", "--host", "0", "--port", "0"], "--host: 0 is open to other machines"),
        (["-m", "{bert}", "--host", "::", "--port", "0"], "--host: :: is open to other machines"),
        (["-m", "{bert}", "--port", "70000"], "70000 is not in"),
        (["-m", "{bert}", "--api-key-file", "nowhere"], "nowhere"),
        (["-m", "{bert}", "--api-key-file", "/dev/zero"], "/dev/zero: line 1 has not"),
        (["-m", "{bert}", "--evaluation", "no.csv"], "no.csv: no such file. Write it with cloze evaluate -o"),
        (["-m", "{bert}", "--lesson", "no.json"], "error: no.json: No such file or directory"),
        (["-m", "{bert}", "--lesson", "{short}"], "short: invalid JSON: expected value at line 1 column 1."),
        (
            ["-m", "{bert}", "--evaluation", "{short}"],
            "short: the page does not read this format. Write it with",
        ),
    ],
)
def test_wrong_use(arguments, told, directories, tmp_path, capsys):
    (tmp_path / "short").write_text("abc")
    filled = [each.format(bert=directories["bert"], short=tmp_path / "short") for each in arguments]
    own = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["serve", *filled]) in (1, 2)
    finally:
        signal.signal(signal.SIGTERM, own)
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_connections_do_not_delay_packets():
    with bind("127.0.0.1", 0) as listening:
        listen(listening)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
