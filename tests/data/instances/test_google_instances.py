"""Google's instances equal those of the original program."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import cloze
from cloze.choices import Step
from cloze.data.batch import DataPosition
from cloze.data.build.cleaning import CleaningConfig
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import ReadingConfig
from cloze.data.build.parts import BuildConfig
from cloze.data.dataset import Dataset
from cloze.data.instances.google_instances import GoogleInstances, GoogleSettings, materialize
from cloze.data.instances.instances import micro_batches, take
from cloze.tokenization.google_tokenizer import GoogleTokenizer
from cloze.tokenization.loading import load_tokenizer
from corpora import instances_of
from helpers import flip_bit

NAMES = ["sample_text_seed12345", "novel_seed7_wwm", "both_seed3"]


def _text(path: Path) -> str:
    packed = path.with_name(path.name + ".xz")
    return (lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()).decode()


def _documents(paths: list[Path], tokens: list[str]) -> list[list[list[int]]]:
    """Read as Google's program does: blank lines part documents, the end of a file does not."""
    tokenizer = GoogleTokenizer(tokens)
    documents: list[list[list[int]]] = [[]]
    for path in paths:
        for line in _text(path).removesuffix("\n").split("\n"):
            if not line.strip():
                documents.append([])
            elif ids := tokenizer.ids(line.strip()):
                documents[-1].append(ids)
    return [document for document in documents if document]


def _rows(directory: Path, tokens: list[str]) -> Iterator[dict[str, object]]:
    """Yield instances on disk as Google's program prints them."""
    source = GoogleInstances.open(directory)
    for position in range(source.num_instances(7)):
        batch = source.batch(7, np.array([position]))
        yield {
            "tokens": [tokens[i] for i in batch.input_ids],
            "segment_ids": batch.token_type_ids.tolist(),
            "is_random_next": bool(batch.next_sentence_labels[0]),
            "masked_lm_positions": batch.masked_lm_positions.tolist(),
            "masked_lm_labels": [tokens[i] for i in batch.masked_lm_ids],
        }


def _settings(raw: dict[str, Any]) -> GoogleSettings:
    names = "max_seq_length", "max_predictions_per_seq", "dupe_factor", "short_seq_prob", "masked_lm_prob"
    of_the_same_name = {name: raw[name] for name in names}
    return GoogleSettings(whole_word=raw["do_whole_word_mask"], seed=raw["random_seed"], **of_the_same_name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.protected
def test_instances_equal_googles(golden_instances, make_documents, uncased_vocabulary, tmp_path, name):
    first, *expected = _text(golden_instances / f"{name}.jsonl").splitlines()
    raw = json.loads(first)["settings"]
    rows = _documents([golden_instances / file for file in raw["input_files"]], uncased_vocabulary)
    tokenizer, documents = cloze.WordPieceTokenizer.from_tokens(uncased_vocabulary), make_documents(rows)
    materialize(documents, tokenizer, tmp_path / "instances", _settings(raw), shard_instances=300)
    for row, line in zip(_rows(tmp_path / "instances", uncased_vocabulary), expected, strict=True):
        assert row == json.loads(line)


@pytest.mark.protected
def test_instances_from_a_data_set_equal_googles(golden_instances, uncased_vocabulary, tmp_path):
    """As `google_instances` of a run has them made: read, cleaned of nothing, tokenized, stored, drawn."""
    (tmp_path / "vocab").mkdir()
    cloze.WordPieceTokenizer.from_tokens(uncased_vocabulary).save(tmp_path / "vocab")
    reading = ReadingConfig(text_format="sentences", cleaning=CleaningConfig(without=get_args(Step)))
    text, config = golden_instances / "sample_text.txt", BuildConfig(reading=reading)
    build_dataset([text], tmp_path / "vocab", tmp_path / "data", config)
    dataset = Dataset.open(tmp_path / "data")
    first, *expected = _text(golden_instances / "sample_text_seed12345.jsonl").splitlines()
    settings = _settings(json.loads(first)["settings"])
    materialize(dataset.documents, load_tokenizer(dataset.path), tmp_path / "instances", settings)
    for row, line in zip(_rows(tmp_path / "instances", uncased_vocabulary), expected, strict=True):
        assert row == json.loads(line)


SETTINGS = GoogleSettings(max_seq_length=48, max_predictions_per_seq=6, dupe_factor=2, seed=3)


@pytest.fixture
def directory(tmp_path: Path, documents, tokenizer) -> Path:
    materialize(documents, tokenizer, tmp_path / "instances", SETTINGS, shard_instances=300)
    assert len(list((tmp_path / "instances").glob("instances-*.arrow"))) > 3
    return tmp_path / "instances"


def test_batches_are_sorted_by_length(directory):
    source = GoogleInstances.open(directory)
    positions = np.arange(5, 205)
    batch = source.batch(1, positions)
    lengths = np.diff(batch.cu_seqlens)
    assert (np.diff(lengths) <= 0).all()
    alone = [instances_of(source.batch(0, np.array([position])))[0] for position in positions]
    assert instances_of(batch) == sorted(alone, key=lambda instance: -len(instance[0]))


def test_google_instances_are_a_source(directory):
    source = GoogleInstances.open(directory)
    parts, position = take(source, DataPosition(), source.num_instances(0) + 10)
    assert position == DataPosition(0, 1, 10)
    batches = [batch for part in parts for batch in micro_batches(source, *part, 1000)]
    assert all(len(batch.input_ids) <= 1000 for batch in batches)
    assert sum(len(batch.next_sentence_labels) for batch in batches) == source.num_instances(0) + 10


@pytest.mark.parametrize("name", ["instances-00001.arrow", "order.arrow"])
@pytest.mark.protected
def test_damage_is_found_on_opening(directory, name):
    flip_bit(directory / name)
    with pytest.raises(cloze.InputError, match=name):
        GoogleInstances.open(directory)


def test_no_documents(tmp_path, make_documents, tokenizer):
    with pytest.raises(cloze.InputError, match="no document"):
        materialize(make_documents([]), tokenizer, tmp_path / "instances", SETTINGS)
    assert not (tmp_path / "instances").exists()
