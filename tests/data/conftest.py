"""Small corpora, and a real vocabulary."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import cloze
from cloze.data.dataset import Documents
from cloze.data.shards import write_shard
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from corpora import Rows, shard_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
MakeDocuments = Callable[[Rows], Documents]


@pytest.fixture(scope="session")
def golden_instances() -> Path:
    return GOLDEN / "instances"


@pytest.fixture(scope="session")
def tokenizer() -> cloze.Tokenizer:
    """A hundred tokens; every third continues a word."""
    words = [f"##w{i}" if i % 3 == 2 else f"w{i}" for i in range(100)]
    return cloze.WordPieceTokenizer.from_tokens([*SPECIAL_TOKENS, *words])


@pytest.fixture(scope="session")
def make_documents(tmp_path_factory: pytest.TempPathFactory) -> MakeDocuments:
    """Write documents, given as lists of sentences of tokens, and return them mapped from disk."""
    folder, numbers = tmp_path_factory.mktemp("shards"), count()

    def make(rows: Rows) -> Documents:
        path = folder / f"{next(numbers)}.arrow"
        write_shard(path, shard_of(rows, range(len(rows))), vocab_size=105)
        return Documents.from_shards([path])

    return make


@pytest.fixture(scope="session")
def documents(make_documents: MakeDocuments) -> Documents:
    """Two hundred documents of a few to many sentences, long ones among them."""
    rng = np.random.default_rng(3)
    return make_documents(
        [
            [
                rng.integers(5, 105, length).tolist()
                for length in np.maximum(1, rng.gamma(2, 9, rng.integers(1, 60)).astype(int))
            ]
            for _ in range(200)
        ]
    )
