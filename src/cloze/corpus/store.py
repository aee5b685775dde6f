"""A data set on disk: documents of sentences of word pieces, in memory-mapped Arrow files.

    DATASET/dataset.json  documents-00000.arrow …  vocab.txt …  manifest.json

A row of a shard is a document: a list of sentences, each a list of pieces as uint16, or uint32 where the vocabulary
has more than 65,536. Several shards are read as one array without copying any. Which documents are held out from
training is decided on reading, by a hash of their numbers.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze import artifacts
from cloze.corpus.hashing import mix
from cloze.errors import InputError

KIND = "dataset"
FACTS = "dataset.json"
Split = Literal["train", "validation"]
MIN_DOCUMENTS_TO_SPLIT = 4
"""Of two sentences or more. With fewer nothing is held out: pairs need two documents on either side."""

Integers = npt.NDArray[np.int64]
Pieces = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What `dataset.json` says."""

    vocab_size: int
    documents: int
    sentences: int
    pieces: int
    unknown_pieces: int
    validation_documents: int
    """Held out; which ones is a hash of their numbers."""


def write_shard(
    path: Path,
    pieces: npt.NDArray[np.uint32],
    sentence_lengths: Integers,
    document_lengths: Integers,
    *,
    vocab_size: int,
) -> None:
    """Write documents as one Arrow file.

    Args:
        path: the file.
        pieces: of all documents, end to end.
        sentence_lengths: pieces of each sentence.
        document_lengths: sentences of each document.
        vocab_size: decides how wide a piece is.
    """
    piece_type = pa.uint16() if vocab_size <= 2**16 else pa.uint32()
    values = pa.array(pieces.astype(piece_type.to_pandas_dtype()))
    by_sentence = pa.ListArray.from_arrays(_offsets(sentence_lengths), values)
    by_document = pa.ListArray.from_arrays(_offsets(document_lengths), by_sentence)
    batch = pa.record_batch([by_document], names=["sentences"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _offsets(lengths: Integers) -> Any:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def write_facts(directory: Path, facts: Facts) -> None:
    """Write `dataset.json`."""
    (directory / FACTS).write_text(json.dumps(asdict(facts), indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of a data set: all, or one split of them. Sentences and pieces are numbered over all shards.

    Shapes:
        first_sentence, end_sentence [D]: the sentences of each document.
        sentence_offsets [S+1]: the first piece of each sentence, and the number of pieces.
    """

    first_sentence: Integers
    end_sentence: Integers
    sentence_offsets: Integers
    _shards: tuple[Pieces, ...]
    _shard_starts: Integers

    @classmethod
    def from_shards(cls, paths: Sequence[Path]) -> "Documents":
        """Map Arrow files that `write_shard` wrote."""
        document_lengths, sentence_lengths, shards = [], [], []
        for path in paths:
            by_document = _map_shard(path)
            document_lengths.append(np.diff(by_document.offsets.to_numpy()))
            by_sentence = by_document.values
            sentence_lengths.append(np.diff(by_sentence.offsets.to_numpy()))
            shards.append(by_sentence.values.to_numpy(zero_copy_only=True))
        document_offsets = _cumulative(document_lengths)
        return cls(
            document_offsets[:-1],
            document_offsets[1:],
            _cumulative(sentence_lengths),
            tuple(shards),
            np.cumsum([0, *(len(shard) for shard in shards)]),
        )

    def __len__(self) -> int:
        return len(self.first_sentence)

    def select(self, numbers: Integers) -> "Documents":
        """Return some of the documents."""
        return replace(
            self, first_sentence=self.first_sentence[numbers], end_sentence=self.end_sentence[numbers]
        )

    def read(self, start: int, end: int) -> Pieces:
        """Return the pieces from `start` to `end`, which lie in one document and so in one shard."""
        shard = int(np.searchsorted(self._shard_starts, start, side="right")) - 1
        base = int(self._shard_starts[shard])
        return self._shards[shard][start - base : end - base]

    def gather(self, starts: Integers, lengths: Integers) -> Pieces:
        """Return the pieces of spans end to end; each lies in one document and so in one shard.

        A copy a span costs less than an index a piece, and nothing for more shards.
        """
        shards = np.searchsorted(self._shard_starts, starts, side="right") - 1
        begins = starts - self._shard_starts[shards]
        ends = begins + lengths
        spans = zip(shards.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return np.concatenate([self._shards[shard][begin:end] for shard, begin, end in spans])

    def document(self, number: int) -> list[Pieces]:
        """Return the sentences of one document."""
        sentences = range(int(self.first_sentence[number]), int(self.end_sentence[number]))
        bounds = self.sentence_offsets
        return [self.read(int(bounds[s]), int(bounds[s + 1])) for s in sentences]

    def piece_counts(self, vocab_size: int) -> Integers:
        """Return how often each piece of the vocabulary occurs."""
        counts = np.zeros(vocab_size, np.int64)
        starts = self.sentence_offsets[self.first_sentence]
        ends = self.sentence_offsets[self.end_sentence]
        for shard, base in zip(self._shards, self._shard_starts.tolist(), strict=False):
            edges = np.zeros(len(shard) + 1, np.int8)
            inside = (starts >= base) & (starts < base + len(shard))
            np.add.at(edges, starts[inside] - base, 1)
            np.add.at(edges, ends[inside] - base, -1)
            counts += np.bincount(shard[np.cumsum(edges[:-1], dtype=np.int8) > 0], minlength=vocab_size)
        return counts


def _map_shard(path: Path) -> Any:
    try:
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        column = batch.column("sentences")
        batch.validate(full=True)
    except (pa.ArrowException, OSError, KeyError) as error:
        remedy = "The file is damaged: copy or build the data set anew"
        raise InputError(f"not a shard of a data set ({error})", where=path, remedy=remedy) from error
    return column


def _cumulative(lengths: list[npt.NDArray[np.int32]]) -> Integers:
    return np.concatenate(
        [np.zeros(1, np.int64), np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))]
    )


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set that `cloze corpus` wrote; a tokenizer can be loaded from its directory, too."""

    path: Path
    facts: Facts
    documents: Documents

    @classmethod
    def open(cls, path: Path, *, verify: bool = True) -> "Dataset":
        """Open a data set.

        Args:
            path: its directory.
            verify: check every file against the manifest first.

        Raises:
            InputError: it is none, or a file is not as it was written.
        """
        path = Path(path)
        manifest = (artifacts.verify if verify else artifacts.read_manifest)(path, kind=KIND)
        facts = _read_facts(path / FACTS)
        shards = sorted(name for name in manifest.files if name.endswith(".arrow"))
        documents = Documents.from_shards([path / name for name in shards])
        if (len(documents), documents.sentence_offsets[-1]) != (facts.documents, facts.pieces):
            what = "its numbers of documents and pieces are not those of the shards"
            raise InputError(what, where=path / FACTS, remedy="Build the data set anew")
        return cls(path, facts, documents)

    @property
    def vocab_size(self) -> int:
        """Pieces in the vocabulary."""
        return self.facts.vocab_size

    def split(self, name: Split) -> Documents:
        """Return the documents trained on, or those held out, both in the order of the text."""
        documents = self.documents
        long_enough = np.flatnonzero(documents.end_sentence - documents.first_sentence >= 2)
        rank = np.argsort(mix(long_enough), kind="stable")
        held_out = np.sort(long_enough[rank[: self.facts.validation_documents]])
        if name == "validation":
            return documents.select(held_out)
        return documents.select(np.setdiff1d(np.arange(len(documents)), held_out))


def _read_facts(path: Path) -> Facts:
    try:
        return Facts(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot be read ({error})", where=path, remedy="Build the data set anew") from error
