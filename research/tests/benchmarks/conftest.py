"""Benchmarks run in one thread and repeat nothing; no test looks at a time."""

import random
from pathlib import Path

import pytest

from corpora import save_vocabulary


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    pass


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences with words to split, unknown ones, and the name of a special token as plain text."""
    rng = random.Random(5)
    words = ["one", "two", "threefold", "four-fold", "Fünf", "[MASK]", "six,", "日本", "zzz"]
    file = tmp_path / "text.txt"
    documents = [[" ".join(rng.choices(words, k=8)) + "." for _ in range(4)] for _ in range(30)]
    file.write_text("\n\n".join("\n".join(lines) for lines in documents))
    return file


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    words = ["one", "two", "three", "##fold", "four", "fold", "six", "f", "##u", "##n", "##f", "mask"]
    return save_vocabulary(tmp_path / "vocabulary", [*words, *"日本[]-,."])
