"""A small data set of real text, and settings of a run over it that takes seconds."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cloze
from helpers import make_once, resolve_pretraining, write_novel
from runs import pretrain

NANO = """
seed = 3
micro_batch_tokens = 256
precision = "float32"
device = "cpu"

[model]
num_hidden_layers = 2
hidden_size = 24
num_attention_heads = 3
intermediate_size = 40
max_position_embeddings = 64

[[phases]]
max_seq_length = 32
fraction = 0.75
batch_size = 12
max_predictions_per_seq = 5

[[phases]]
max_seq_length = 64
fraction = 0.25
batch_size = 6

[optimizer]
learning_rate = 1e-3
warmup_fraction = 0.1

[evaluation]
times = 4
max_instances = 40
log_every_steps = 1
"""


@pytest.fixture(scope="session")
def novel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some chapters, every few paragraphs a document."""
    directory = make_once(tmp_path_factory, "novel", lambda path: write_novel(path / "novel.txt", 400))
    return directory / "novel.txt"


@pytest.fixture(scope="session")
def dataset(novel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(directory: Path) -> None:
        vocabulary, output = directory / "vocab", directory / "dataset"
        cloze.train_vocabulary(novel, output=vocabulary, size=700, workers=1)
        settings: Any = {"format": "paragraphs", "validation_fraction": 0.1, "workers": 1}
        cloze.build_dataset(novel, vocabulary=vocabulary, output=output, **settings)

    return make_once(tmp_path_factory, "pretraining-data", make) / "dataset"


@pytest.fixture(scope="session")
def nano(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> cloze.PretrainConfig:
    recipe = tmp_path_factory.mktemp("recipe") / "nano.toml"
    recipe.write_text(NANO)
    return resolve_pretraining(recipe, {"data": str(dataset), "steps": 24})


@pytest.fixture(scope="session")
def quiet(nano: cloze.PretrainConfig) -> cloze.PretrainConfig:
    """Settings without dropout, whose numbers depend on ranks and micro-batches."""
    model = replace(nano.model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return replace(nano, model=model)


@pytest.fixture(scope="session")
def finished(nano: cloze.PretrainConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run for tests that only look at it, start from it, or change a copy."""

    def make(directory: Path) -> None:
        measured = pretrain(replace(nano, license="cc0-1.0"), directory / "run")
        (directory / "measured.json").write_text(json.dumps(measured))

    return make_once(tmp_path_factory, "finished", make) / "run"


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "copy", symlinks=True))


@pytest.fixture
def pretrained(nano: cloze.PretrainConfig, tmp_path: Path) -> Callable[..., Path]:
    """A function that pre-trains with changed settings, and returns the run."""

    def run_of(name: str = "run", **changes: object) -> Path:
        pretrain(replace(nano, **changes), tmp_path / name)
        return tmp_path / name

    return run_of
