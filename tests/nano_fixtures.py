"""A model of a few thousand weights, and data that it learns in seconds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cloze import artifacts
from cloze.finetuning.config import FinetuneConfig
from cloze.models.bert import BertConfig, BertModel
from cloze.models.checkpoint import save_model
from cloze.tasks.task import Task
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.optimizer import OptimizerConfig
from helpers import finetuning_of

TOKENS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("good", "fine", "bad", "awful", "film", "book", "a", "the", "was", "very", ",", "."),
)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return WordPieceTokenizer.from_tokens(TOKENS, model_max_length=40)


@pytest.fixture(scope="session")
def build_encoder() -> Callable[..., BertModel]:
    def build(layers: int = 2) -> BertModel:
        config = BertConfig(
            vocab_size=len(TOKENS),
            hidden_size=20,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=28,
            max_position_embeddings=40,
            initializer_range=0.1,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        return BertModel(config, generator=torch.Generator().manual_seed(1))

    return build


@pytest.fixture(scope="session")
def nano_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> Path:
    path = tmp_path_factory.mktemp("model") / "nano"
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        save_model(directory, build_encoder(), tokenizer)
    return path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Return a function that writes a file: a text, or rows as JSON lines."""

    def write(name: str, content: Any) -> Path:
        text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def config(nano_checkpoint: Path, reviews: Path) -> FinetuneConfig:
    return FinetuneConfig(
        model=str(nano_checkpoint),
        train=str(reviews),
        dev_fraction=0.2,
        epochs=2,
        batch_size=9,
        max_seq_length=16,
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_fraction=0.1),
        log_every_steps=1,
        precision="float32",
        device="cpu",
        micro_batch_tokens=400,
    )


@pytest.fixture
def configure(nano_checkpoint: Path) -> Callable[..., tuple[Task, FinetuneConfig]]:
    """Return a function from a task, its data and settings, separated by spaces, to the arguments of `finetune`."""

    def configure(
        task: str, train: Path, settings: str, *, dev: Path | None = None, model: Path = nano_checkpoint
    ) -> tuple[Task, FinetuneConfig]:
        dev_settings = [] if dev is None else [f"dev={dev}"]
        overrides = [f"model={model}", f"train={train}", *dev_settings, "device=cpu", *settings.split()]
        return finetuning_of(task, overrides)

    return configure


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a TSV of sentences whose label depends on one word, with an unclosed quotation mark."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(70):
        label = int(rng.integers(2))
        word = [["bad", "awful"], ["good", "fine"]][label][number % 2]
        thing = ["film", "book"][int(rng.integers(2))]
        very = "very " * int(rng.integers(4))
        end = " " * number  # makes every text different
        rows.append(f'the "{thing} was {very}{word} .{end}\t{["no", "yes"][label]}\n')
    path = tmp_path_factory.mktemp("data") / "reviews.tsv"
    path.write_text("review\tliked\n" + "".join(rows))
    return path
