"""Benchmarks of latency, of learning a vocabulary and of starting, at a nano size. No test looks at a time."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze import artifacts
from cloze.errors import InputError, RunError
from cloze.evidence.bench.latency import LatencyBenchmark, bench_latency
from cloze.evidence.bench.start import StartBenchmark, bench_start
from cloze.evidence.bench.text import TextBenchmark
from cloze.evidence.bench.vocabulary import VocabularyBenchmark, bench_vocabulary
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import write_model_files
from cloze.model.heads import BertForPreTraining
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer

WORDS = ("paris", "is", "the", "of", "france", ".", "one", "two", "a", "dog")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = BertConfig(
        vocab_size=len(WORDS) + len(SPECIAL_PIECES),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    generator = torch.Generator().manual_seed(1)
    path = tmp_path_factory.mktemp("models") / "nano"
    with artifacts.write_directory(path, kind="checkpoint") as directory:
        model = BertForPreTraining(BertModel(config, generator=generator), generator=generator)
        write_model_files(directory, model, Tokenizer.from_pieces([*SPECIAL_PIECES, *WORDS]))
    return path


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("a dog\nparis is one of two\nthe dog is of france\n")
    return path


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_latency_is_of_texts_of_one_length(checkpoint: Path, texts: Path, precision: str) -> None:
    benchmark = LatencyBenchmark(model=checkpoint, texts=texts, tokens=7, precision=precision)
    found = bench_latency(benchmark, rounds=1, min_seconds=0.0)
    assert found.settings["texts"] == 2
    assert [timing.name for timing in found.timings] == ["cloze", "transformers"]
    (check,) = found.checks
    assert check.holds
    assert "milliseconds a sentence" in found.notes[0]


def test_no_text_of_that_length(checkpoint: Path, texts: Path) -> None:
    with pytest.raises(InputError, match="holds no text of 30 pieces"):
        bench_latency(LatencyBenchmark(model=checkpoint, texts=texts, tokens=30), rounds=1)


def test_a_vocabulary_is_as_good_as_the_peers(tmp_path: Path) -> None:
    draw = random.Random(1)
    syllables = ["ba", "ro", "ti", "lun", "ke", "sha", "mor"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(300)]
    lines = [" ".join(draw.choices(words, weights=1 / np.arange(1, 301), k=12)) + "." for _ in range(400)]
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(lines))
    benchmark = VocabularyBenchmark(text=TextBenchmark(inputs=[file]), size=150)
    found = bench_vocabulary(benchmark, rounds=1, min_seconds=0.0)
    assert len(found.timings) == 3
    (check,) = found.checks
    assert check.holds, check


@pytest.mark.long
def test_processes_answer_alike(checkpoint: Path) -> None:
    run = checkpoint.parent
    (run / "latest").write_text(checkpoint.name)
    found = bench_start(StartBenchmark(model=run), rounds=1, min_seconds=0.0)
    assert [timing.name for timing in found.timings] == ["cloze fill", "cloze --help", "transformers"]
    (check,) = found.checks
    assert check.holds


def test_a_process_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="-m cloze fill"):
        bench_start(StartBenchmark(model=tmp_path), peers=[], rounds=1, min_seconds=0.0)
