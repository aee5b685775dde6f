"""A real vocabulary for the tests of the text room."""

import lzma
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tokenization"


@pytest.fixture(scope="session")
def golden_tokenization() -> Path:
    return GOLDEN


@pytest.fixture(scope="session")
def uncased_pieces() -> list[str]:
    """The vocabulary of BERT-Base, Uncased."""
    text = lzma.decompress((GOLDEN / "bert-base-uncased-vocab.txt.xz").read_bytes()).decode()
    return text.removesuffix("\n").split("\n")
