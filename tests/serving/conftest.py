"""Models of every kind, small and random, and a server of them."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn

from cloze import artifacts
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import TASK_FILE, write_model_files
from cloze.model.heads import BertForPreTraining
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.models import ServedModel, load_models
from cloze.tasks.choice import OwnChoices
from cloze.tasks.classification import Classification
from cloze.tasks.config import TaskSettings, to_toml
from cloze.tasks.ranking import Ranking
from cloze.tasks.squad import SquadV2
from cloze.tasks.tags import OwnTags
from cloze.tasks.task import AnyTask
from cloze.text.tokenizer import Tokenizer

LETTERS = "abcdefghij"
PIECES = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
)
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=40,
    initializer_range=0.5,
)
TASKS: dict[str, AnyTask] = {
    "classifier": Classification(labels=("bad", "good", "so-so")),
    "tagger": OwnTags(labels=("O", "B-X", "I-X", "B-Y", "I-Y")),
    "squad": SquadV2(null_threshold=-0.25, doc_stride=8),
    "chooser": OwnChoices(),
    "ranker": Ranking(),
}


def write_model(
    path: Path,
    head: Callable[[BertModel], nn.Module],
    *,
    config: BertConfig = CONFIG,
    task: AnyTask | None = None,
) -> Path:
    """Write a checkpoint of random weights."""
    generator = torch.Generator().manual_seed(len(path.name))
    model = head(BertModel(config, generator=generator))
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        labels = () if task is None else task.class_names
        problem = None if task is None else task.problem_type
        write_model_files(
            directory, model, Tokenizer.from_pieces(PIECES), labels=labels, problem_type=problem
        )
        if task is not None:
            (directory / TASK_FILE).write_text(to_toml(task, TaskSettings(max_seq_length=24)))
    return path


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("served")
    generator = torch.Generator().manual_seed(3)
    found = {"bert": write_model(folder / "bert", lambda bert: BertForPreTraining(bert, generator=generator))}
    for name, task in TASKS.items():
        found[name] = write_model(
            folder / name, lambda bert, t=task: t.head(bert, generator=generator), task=task
        )
    return found


@pytest.fixture(scope="session")
def models(directories: Mapping[str, Path]) -> dict[str, ServedModel]:
    return load_models(directories, device="cpu")


@pytest.fixture(scope="session")
def client(models: Mapping[str, ServedModel]) -> Iterator[TestClient]:
    with TestClient(create_app(models, Limits()), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def post(client: TestClient) -> Callable[..., Any]:
    def ask(route: str, /, **request: Any) -> Any:
        response = client.post(route, json=request)
        assert response.status_code == 200, response.text
        return response.json()

    return ask
