"""Golden files of Google's tokenizer."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tokenization"


@pytest.fixture(scope="session")
def golden_tokenization() -> Path:
    return GOLDEN
