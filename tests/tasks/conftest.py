"""A model of a few thousand weights, and data that it can learn in seconds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze import artifacts
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import write_model_files
from cloze.text.tokenizer import Tokenizer

PIECES = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *["good", "fine", "bad", "awful", "film", "book", "a", "the", "was", "very", ",", "."],
)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_pieces(PIECES, model_max_length=40)


@pytest.fixture(scope="session")
def build_encoder() -> Callable[..., BertModel]:
    def build(layers: int = 2) -> BertModel:
        config = BertConfig(
            vocab_size=len(PIECES),
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
        write_model_files(directory, build_encoder(), tokenizer)
    return path


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences whose label hangs on one word, in a TSV with a quotation mark that is never closed."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(70):
        label = int(rng.integers(2))
        word = [["bad", "awful"], ["good", "fine"]][label][number % 2]
        thing = ["film", "book"][int(rng.integers(2))]
        very = "very " * int(rng.integers(4))
        end = " " * number  # says nothing, and makes each text another
        rows.append(f'the "{thing} was {very}{word} .{end}\t{["no", "yes"][label]}\n')
    path = tmp_path_factory.mktemp("data") / "reviews.tsv"
    path.write_text("review\tliked\n" + "".join(rows))
    return path
