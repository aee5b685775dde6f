"""A small data set for pre-training, and tasks to fine-tune for."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.tasks.registry import TASKS
from helpers import make_once, write_novel
from nano_fixtures import build_encoder, config, configure, nano_checkpoint, tokenizer  # noqa: F401 (fixtures)


@pytest.fixture(autouse=True, scope="module")
def without_tasks_of_studies() -> Iterator[None]:
    """Remove the task that a study of features registers, so that other tests find the tasks of cloze alone."""
    yield
    TASKS.pop("feature-tagging", None)
    sys.modules.pop("experiments.feature_tagging", None)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:

    def make(directory: Path) -> None:
        text = write_novel(directory / "novel.txt", 200)
        vocabulary, output = directory / "vocab", directory / "data"
        cloze.train_vocabulary(text, output=vocabulary, size=400, workers=1)
        settings: Any = {"format": "paragraphs", "validation_fraction": 0.2, "workers": 1}
        cloze.build_dataset(text, vocabulary=vocabulary, output=output, **settings)

    return make_once(tmp_path_factory, "study-data", make) / "data"


@pytest.fixture(scope="session")
def tasks_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = make_once(tmp_path_factory, "study-tasks", write_tasks)
    return {"reviews": directory, "names": directory}


def write_tasks(directory: Path) -> None:
    """Write examples to classify and names to find."""
    rows = "".join(f"{'a fine moor' if i % 2 else 'the hound was bad'} {i}\t{i % 2}\n" for i in range(40))
    for split, conll2003 in (("train", "eng.train"), ("dev", "eng.testa")):
        (directory / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
        for name in (f"{split}.conll", conll2003):
            (directory / name).write_text("Holmes\tB-PER\nsaw\tO\nWatson\tB-PER\n\nhe\tO\nran\tO\n\n" * 3)


@pytest.fixture(scope="session")
def reviews(tasks_data: dict[str, Path]) -> dict[str, Path]:
    """The data of one task."""
    return {"reviews": tasks_data["reviews"]}
