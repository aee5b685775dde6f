"""Models of every kind, and servers of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from clients import Client, client_of, listening
from kinds_of_models import write_models
from server_process import ServerProcess

from cloze.progress import SILENT
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel, index_documents, load_models
from pages import chromium


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_models(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def models(
    directories: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, ServedModel]:
    documents = tmp_path_factory.mktemp("documents") / "documents.txt"
    documents.write_text("The river rose.\n\nIt was night.\n")
    return index_documents(load_models(directories, device="cpu"), documents, SILENT)


@pytest.fixture(scope="session")
def client(models: Mapping[str, ServedModel]) -> Iterator[Client]:
    with client_of(models, Limits(max_batch_texts=32)) as client:
        yield client


@pytest.fixture(scope="session")
def address(models: Mapping[str, ServedModel]) -> Iterator[str]:
    """Of a server of all models in this process."""
    with listening(create_app(models, Limits())) as address:
        yield address


@pytest.fixture(scope="session")
def served(directories: Mapping[str, Path]) -> Iterator[ServerProcess]:
    served = ServerProcess("-m", str(directories["bert"]))
    yield served
    served.end()


@pytest.fixture
def hugging_face(monkeypatch: pytest.MonkeyPatch) -> Any:
    """huggingface_hub, which the suite otherwise forbids all connections."""
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return hub


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser
