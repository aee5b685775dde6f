"""Data sets on disk round-trip, and damage is found on opening."""

import json
import zlib
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from cloze import artifacts
from cloze.data.dataset import Dataset, DatasetInfo, Documents, dataset_fingerprint, split_documents
from cloze.data.shards import JoinedOffsets, to_offsets, write_shard
from cloze.errors import InputError
from corpora import rows_of, shard_of
from helpers import flip_bit

ROWS = [[[[1, 2], [3]], [[4, 5, 6]]], [[[7], [8, 9], [10]]], [[[11], [12]], [[13], [14, 15]], [[16], [17]]]]
"""Three shards of documents of sentences of tokens."""


def write(path: Path, shards: list, *, vocab_size: int = 20, held_out_below: int = 0) -> Path:
    """Write a data set whose documents have a byte of a hash as their digests."""
    documents = [document for shard in shards for document in shard]
    sentences = [sentence for document in documents for sentence in document]
    info = DatasetInfo(
        vocab_size=vocab_size,
        documents=len(documents),
        sentences=len(sentences),
        tokens=sum(map(len, sentences)),
        unknown_tokens=0,
        held_out_below=held_out_below,
    )
    with artifacts.write_directory(path, kind="dataset") as directory:
        for number, shard in enumerate(shards):
            written = shard_of(shard, map(text_digest, shard))
            write_shard(directory / f"documents-{number:05}.arrow", written, vocab_size=vocab_size)
        written = Documents.from_shards(sorted(directory.glob("*.arrow")))
        info.write(directory, split_documents(written, info, "train").token_counts(vocab_size))
    return path


def text_digest(document: list) -> int:
    return zlib.crc32(repr(document).encode()) % 256


def test_the_fingerprint_ignores_paths_of_the_text(tmp_path):
    data = write(tmp_path / "data", ROWS)
    identity, manifest = dataset_fingerprint(data), json.loads((data / "manifest.json").read_text())
    assert dataset_fingerprint(write(tmp_path / "elsewhere", ROWS)) == identity
    assert dataset_fingerprint(write(tmp_path / "less", ROWS[:2])) != identity
    manifest["files"]["report.json"] = {"bytes": 2, "sha256": "ab"}
    (data / "manifest.json").write_text(json.dumps(manifest))
    assert dataset_fingerprint(data) == identity


def test_documents_round_trip_over_several_shards(tmp_path):
    dataset = Dataset.open(write(tmp_path / "data", ROWS, held_out_below=1))
    documents = dataset.split("train")
    assert rows_of(documents) == [document for shard in ROWS for document in shard]
    assert documents.num_tokens == 17
    assert len(dataset.split("validation")) == 0


@pytest.mark.parametrize(
    ("vocab_size", "largest", "bits"),
    [(20, 19, 16), (2**16, 2**16 - 1, 16), (2**16 + 1, 2**16, 32), (2**16 + 1, 5, 32)],
)
def test_token_ids_are_as_wide_as_the_vocabulary_and_the_largest_need(tmp_path, vocab_size, largest, bits):
    rows = [[[[0, largest]]]]
    documents = Dataset.open(write(tmp_path / "data", rows, vocab_size=vocab_size)).documents
    assert documents.read(0, 2).dtype == np.dtype(f"uint{bits}")
    assert rows_of(documents) == rows[0]


def test_reading_does_not_copy(tmp_path):
    documents = Dataset.open(write(tmp_path / "data", ROWS)).documents
    tokens = documents.read(0, 5)
    assert not tokens.flags.owndata
    assert not tokens.flags.writeable


def test_splits_divide_documents_by_digest(tmp_path):
    shards = [[[[number], [number]] for number in range(10 * i, 10 * i + 10)] for i in range(3)]
    shards[0][3] = next([[n]] for n in range(30) if text_digest([[n]]) < 120)  # one sentence makes no pair
    documents = [document for shard in shards for document in shard]
    dataset = Dataset.open(write(tmp_path / "data", shards, vocab_size=30, held_out_below=120))
    train, held_out = rows_of(dataset.split("train")), rows_of(dataset.split("validation"))
    assert held_out == [row for row in documents if text_digest(row) < 120 and len(row) > 1]
    assert train == [row for row in documents if row not in held_out]
    assert 5 < len(held_out) < 25
    other_order = Dataset.open(write(tmp_path / "o", shards[::-1], vocab_size=30, held_out_below=120))
    assert sorted(rows_of(other_order.split("validation"))) == sorted(held_out)


@pytest.mark.parametrize(
    ("num_sentences", "parts"),
    [(1, [1]), (3, [3]), (4, [2, 2]), (9, [2, 2, 2, 3]), (41, None), (3000, [100] * 30)],
)
def test_a_single_document_is_cut_into_parts(tmp_path, num_sentences, parts):
    sentences = [[number % 20] for number in range(num_sentences)]
    write_shard(tmp_path / "a.arrow", shard_of([sentences], [9]), vocab_size=20)
    documents = Documents.from_shards([tmp_path / "a.arrow"])
    cut = documents.cut()
    rows = rows_of(cut)
    assert [sentence for row in rows for sentence in row] == sentences
    assert [len(row) for row in rows] == (parts or [2] * 19 + [3])
    assert (np.diff(cut.digests.astype(float)) < 0).all()  # the last parts are held out first
    assert cut.cut() is cut or len(parts) == 1


def test_token_counts_are_those_of_the_split(tmp_path):
    shards = [[[[1, 2], [number]] for number in range(3, 9)], [[[9, 9], [2]], [[1], [2]]]]
    dataset = Dataset.open(write(tmp_path / "data", shards, held_out_below=128))
    for name in ("train", "validation"):
        documents = dataset.split(name)
        tokens = [token for row in rows_of(documents) for sentence in row for token in sentence]
        assert documents.token_counts(20).tolist() == np.bincount(tokens, minlength=20).tolist()
        assert documents.num_tokens == len(tokens)
    assert (dataset.train_token_counts == dataset.split("train").token_counts(20)).all()


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


@pytest.mark.parametrize("name", ["documents-00001.arrow", "dataset.json"])
@pytest.mark.parametrize("damage", [flip_bit, cut_short, Path.unlink])
@pytest.mark.protected
def test_damage_is_found_on_opening(tmp_path, name, damage):
    damage(write(tmp_path / "data", ROWS) / name)
    with pytest.raises(InputError, match=name):
        Dataset.open(tmp_path / "data")


@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0 and then nothing", b"x" * 2000])
@pytest.mark.protected
def test_a_file_that_is_not_a_shard_is_refused(tmp_path, content):
    data = write(tmp_path / "data", ROWS)
    (data / "documents-00001.arrow").write_bytes(content)
    with pytest.raises(InputError, match=r"documents-00001\.arrow"):
        Dataset.open(data, verify=False)


def test_offsets_of_several_files_are_those_of_one_list():
    lengths = [[3, 1, 4], [], [1, 5], [9]]
    joined = JoinedOffsets.of([to_offsets(part).astype(np.int32) for part in lengths])
    numbers = np.array([6, 0, 3, 5, 3, 1, 2, 4])
    assert joined[numbers].tolist() == to_offsets([*chain(*lengths)])[numbers].tolist()
    assert joined[np.zeros(0, np.int64)].tolist() == []
    assert JoinedOffsets.of([])[np.zeros(1, np.int64)].tolist() == [0]
    assert joined.between(3, 5).tolist() == [8, 9, 14]
