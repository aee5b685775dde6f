"""A model of a few thousand weights, and data that it learns in seconds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cloze
from cloze import artifacts
from cloze.models.checkpoint import save_model
from cloze.training.optimizer import OptimizerConfig
from helpers import finetuning_of
from tiny_models import tiny_config

TOKENS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("good", "fine", "bad", "awful", "film", "book", "a", "the", "was", "very", ",", "."),
)


@pytest.fixture(scope="session")
def tokenizer() -> cloze.Tokenizer:
    return cloze.WordPieceTokenizer.from_tokens(TOKENS, model_max_length=40)


@pytest.fixture(scope="session")
def build_encoder() -> Callable[..., cloze.BertModel]:
    def build(layers: int = 2) -> cloze.BertModel:
        sizes = {
            "hidden_size": 20,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "intermediate_size": 28,
        }
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = tiny_config(TOKENS, **sizes, **dropout, max_position_embeddings=40, initializer_range=0.1)
        return cloze.BertModel(config, generator=torch.Generator().manual_seed(1))

    return build


@pytest.fixture(scope="session")
def nano_checkpoint(
    tmp_path_factory: pytest.TempPathFactory,
    build_encoder: Callable[[], cloze.BertModel],
    tokenizer: cloze.Tokenizer,
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
def config(nano_checkpoint: Path, reviews: Path) -> cloze.FinetuneConfig:
    return cloze.FinetuneConfig(
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
def configure(nano_checkpoint: Path) -> Callable[..., tuple[cloze.Task, cloze.FinetuneConfig]]:
    """Return a function from a task, its data and settings, separated by spaces, to the arguments of `finetune`."""

    def configure(
        task: str, train: Path, settings: str, *, dev: Path | None = None, model: Path = nano_checkpoint
    ) -> tuple[cloze.Task, cloze.FinetuneConfig]:
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
