"""Benchmarks over text at a nano size: cloze and its peers compute the same."""

import os
import random

import numpy as np
import pytest

from benchmarks.text import BuildCorpus, Tokenize, TrainVocabulary, compare_tokens, tokenizers_threads
from cloze.errors import InputError

ONCE = {"rounds": 1, "min_seconds": 0.0}


def test_tokenizing_gives_equal_ids(text, vocabulary):
    result = Tokenize(input=(str(text),), vocab=vocabulary, **ONCE).run()
    (check,) = result.checks
    assert check.difference == 0.0
    assert "tokens" in check.what
    names = [side["name"] for side in result.record["sides"]]
    assert names == ["cloze", "cloze, warm cache", "tokenizers, 1 thread", "tokenizers, 2 threads"]
    assert result.record["settings"]["lines"] == len(text.read_text().split("\n\n")) * 4 // 2


@pytest.mark.slow
def test_building_a_corpus_gives_equal_ids(text, vocabulary):
    result = BuildCorpus(input=(str(text),), vocab=vocabulary, **ONCE).run()
    (check,) = result.checks
    assert check.difference == 0.0
    assert result.record["settings"]["format"] == "sentences"
    size = result.record["settings"]["megabytes"]
    assert size == pytest.approx(len(text.read_bytes()) / 1e6, rel=0.01, abs=5e-4)


def test_a_vocabulary_is_as_good_as_the_peers(tmp_path):
    draw = random.Random(1)
    syllables = ["ba", "ro", "ti", "lun", "ke", "sha", "mor"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(300)]
    lines = [" ".join(draw.choices(words, weights=1 / np.arange(1, 301), k=12)) + "." for _ in range(400)]
    file = tmp_path / "text.txt"
    file.write_text("\n\n".join(lines))
    result = TrainVocabulary(input=(str(file),), size=150, **ONCE).run()
    assert len(result.record["sides"]) == 3
    (check,) = result.checks
    assert check.holds, check


def test_without_a_vocabulary_the_text_must_be_large_enough(text):
    with pytest.raises(InputError, match=r"--vocab: .*Give a vocabulary, or more text"):
        Tokenize(input=(str(text),)).run()


def test_only_the_beginning_of_a_text_is_taken(text, vocabulary):
    result = Tokenize(input=(str(text),), vocab=vocabulary, megabytes=0.0005, vs="", **ONCE).run()
    assert result.record["settings"]["lines"] < 10


def test_tokens_that_differ():
    ours = np.array([1, 2, 3, 4], np.uint32)
    assert compare_tokens("p", ours, np.array([1, 2, 9, 4], np.uint32)).difference == 0.25
    assert not compare_tokens("p", ours, ours[:3]).holds


def test_threads_are_restored(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "yes")
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    with tokenizers_threads(1):
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    assert os.environ["TOKENIZERS_PARALLELISM"] == "yes"
    assert "RAYON_NUM_THREADS" not in os.environ
