"""Google's instances, every one of them, in order."""

import json
import lzma
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.cleaning import CleaningConfig, Step
from cloze.corpus.original import (
    GoogleSettings,
    Instance,
    MaterialisedInstances,
    create_instances,
    materialise,
)
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.store import Dataset
from cloze.text.reference import ReferenceTokenizer
from cloze.text.tokenizer import Tokenizer

NAMES = ["sample_text_seed12345", "novel_seed7_wwm", "both_seed3"]


def _text(path: Path) -> str:
    packed = path.with_name(path.name + ".xz")
    return (lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()).decode()


def _documents(paths: list[Path], pieces: list[str]) -> list[list[list[int]]]:
    """Read as Google's program does: blank lines part documents, the end of a file does not."""
    tokenizer = ReferenceTokenizer(pieces)
    documents: list[list[list[int]]] = [[]]
    for path in paths:
        for line in _text(path).removesuffix("\n").split("\n"):
            if not line.strip():
                documents.append([])
            elif ids := tokenizer.ids(line.strip()):
                documents[-1].append(ids)
    return [document for document in documents if document]


def _rows(instance: Instance, pieces: list[str]) -> dict[str, object]:
    return {
        "tokens": [pieces[i] for i in instance.input_ids],
        "segment_ids": [int(p >= instance.segment_b_start) for p in range(len(instance.input_ids))],
        "is_random_next": instance.is_random_next,
        "masked_lm_positions": instance.masked_lm_positions,
        "masked_lm_labels": [pieces[i] for i in instance.masked_lm_ids],
    }


def _settings(raw: dict[str, Any]) -> GoogleSettings:
    return GoogleSettings(
        max_seq_length=raw["max_seq_length"],
        max_predictions_per_seq=raw["max_predictions_per_seq"],
        dupe_factor=raw["dupe_factor"],
        short_seq_prob=raw["short_seq_prob"],
        masked_lm_prob=raw["masked_lm_prob"],
        whole_word=raw["do_whole_word_mask"],
        seed=raw["random_seed"],
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_instance_is_googles(golden_instances: Path, uncased_pieces: list[str], name: str) -> None:
    first, *expected = _text(golden_instances / f"{name}.jsonl").splitlines()
    raw = json.loads(first)["settings"]
    settings = _settings(raw)
    documents = _documents([golden_instances / file for file in raw["input_files"]], uncased_pieces)
    instances = create_instances(documents, Tokenizer.from_pieces(uncased_pieces), settings)
    assert len(instances) == len(expected)
    for instance, line in zip(instances, expected, strict=True):
        assert _rows(instance, uncased_pieces) == json.loads(line)


def test_a_text_becomes_googles_instances_by_way_of_a_data_set(
    golden_instances: Path, uncased_pieces: list[str], tmp_path: Path
) -> None:
    """As `google_instances` of a run has them made: read, cleaned of nothing, tokenized, stored, drawn."""
    (tmp_path / "vocab").mkdir()
    Tokenizer.from_pieces(uncased_pieces).save(tmp_path / "vocab")
    reading = ReadingConfig(text_format="sentences", cleaning=CleaningConfig(without=get_args(Step)))
    build_dataset(
        [golden_instances / "sample_text.txt"],
        tmp_path / "vocab",
        tmp_path / "data",
        BuildConfig(reading=reading),
    )
    dataset = Dataset.open(tmp_path / "data")
    first, *expected = _text(golden_instances / "sample_text_seed12345.jsonl").splitlines()
    settings = _settings(json.loads(first)["settings"])
    materialise(dataset.documents, Tokenizer.load(dataset.path), tmp_path / "instances", settings)
    source = MaterialisedInstances.open(tmp_path / "instances")
    assert source.num_instances(0) == len(expected)
    for position, line in enumerate(expected):
        batch, instance = source.batch(0, np.array([position])), json.loads(line)
        assert [uncased_pieces[i] for i in batch.input_ids] == instance["tokens"]
        assert batch.token_type_ids.tolist() == instance["segment_ids"]
        assert batch.masked_lm_positions.tolist() == instance["masked_lm_positions"]
        assert [uncased_pieces[i] for i in batch.masked_lm_ids] == instance["masked_lm_labels"]
        assert batch.next_sentence_labels.tolist() == [int(instance["is_random_next"])]
