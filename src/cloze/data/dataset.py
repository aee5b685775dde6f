"""A data set on disk: tokenized documents in memory-mapped Arrow files.

    DATASET/dataset.json  documents-00000.arrow …  vocab.txt …  report.json  manifest.json

A row of a shard is a document: a list of sentences, each a list of token IDs as uint16, or uint32 for vocabularies of
more than 65,536 tokens; and digests of its text, by which duplicates are found and documents are held out from
training. Several shards are read as one array without a copy.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cloze import artifacts, file_io
from cloze.data.shards import Digests, Integers, JoinedOffsets, Shard, TokenIds

KIND = "dataset"
INFO_FILE = "dataset.json"
REPORT_FILE = "report.json"
Split = Literal["train", "validation"]
MIN_DOCUMENTS_FOR_PAIRS = 4
"""With two sentences or more. Pairs need two documents in either split."""
_HELD_OUT_WITHOUT_PAIRS = 0.005
_NUM_DIGESTS = 2**64
_HELD_OUT_TOKENS = 40_000  # about 300 sequences of 128 tokens
_MIN_HELD_OUT_FRACTION, _MAX_HELD_OUT_FRACTION = 0.005, 0.1
_PART_SENTENCES, _MIN_PARTS = 100, 20
"""A single document is cut into parts of this many sentences, or this many parts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetInfo:
    """Counts in `dataset.json`."""

    vocab_size: int
    documents: int
    sentences: int
    tokens: int
    unknown_tokens: int
    held_out_below: int
    """Documents of two sentences or more are held out if their digest is below this; 0 if they are too few for
    pairs."""
    has_words: bool = False
    """Whether a segmenter split the text into words: a token that continues a word has its ID plus `vocab_size`."""
    language: str = "en"
    splitter: str | None = None
    """The function that split paragraphs into sentences, if any; appended text uses it and `language`."""

    @property
    def vocab_size_with_words(self) -> int | None:
        """Size of the vocabulary, if IDs from it on mark tokens that continue a word."""
        return self.vocab_size if self.has_words else None

    def write(self, directory: Path, train_token_counts: Integers) -> None:
        """Write `dataset.json`, with how often each token occurs in the training documents."""
        table = {**asdict(self), "train_token_counts": train_token_counts.tolist()}
        file_io.write_json(directory / INFO_FILE, table)


@dataclass(frozen=True, slots=True)
class Documents:
    """All documents of a data set, or one split of them. Sentences and tokens are numbered over all shards.

    Shapes:
        first_sentence, end_sentence [D]: the sentences of each document.
        digests [D]: of the text of each document.
        sentence_offsets: the first token of each sentence, and the number of tokens.
    """

    first_sentence: Integers
    end_sentence: Integers
    digests: Digests
    sentence_offsets: JoinedOffsets
    _shards: tuple[TokenIds, ...]
    _shard_starts: Integers
    vocab_size_with_words: int | None = None
    """Size of the vocabulary, if IDs from it on mark tokens that continue a word."""

    @classmethod
    def from_shards(cls, paths: Sequence[Path], vocab_size_with_words: int | None = None) -> "Documents":
        """Map Arrow files that `write_shard` wrote."""
        shards = [Shard.open(path) for path in paths]
        num_documents = sum(len(shard.document_digests) for shard in shards)
        document_offsets = JoinedOffsets.of([shard.document_offsets for shard in shards])[
            np.arange(num_documents + 1)
        ]
        return cls(
            document_offsets[:-1],
            document_offsets[1:],
            np.concatenate([np.zeros(0, np.uint64), *(shard.document_digests for shard in shards)]),
            JoinedOffsets.of([shard.sentence_offsets for shard in shards]),
            tuple(shard.token_ids for shard in shards),
            np.cumsum([0, *(len(shard.token_ids) for shard in shards)]),
            vocab_size_with_words,
        )

    @property
    def num_tokens(self) -> int:
        """Number of tokens."""
        return int(self.lengths.sum())

    @property
    def lengths(self) -> Integers:
        """Tokens of each document [D]."""
        return self.sentence_offsets[self.end_sentence] - self.sentence_offsets[self.first_sentence]

    @property
    def num_sentences(self) -> Integers:
        """Sentences of each document [D]."""
        return self.end_sentence - self.first_sentence

    def __len__(self) -> int:
        return len(self.first_sentence)

    def select(self, numbers: Integers) -> "Documents":
        """Return some of the documents."""
        return replace(
            self,
            first_sentence=self.first_sentence[numbers],
            end_sentence=self.end_sentence[numbers],
            digests=self.digests[numbers],
        )

    def cut(self) -> "Documents":
        """Return the parts of a single document, as documents of which the last are held out; several as they are."""
        if len(self) != 1:
            return self
        first, end = int(self.first_sentence[0]), int(self.end_sentence[0])
        num_sentences = end - first
        count = max(num_sentences // _PART_SENTENCES, min(_MIN_PARTS, num_sentences // 2), 1)
        edges = np.linspace(first, end, count + 1).astype(np.int64)
        digests = (np.arange(count, 0, -1) * (2.0**64 / (count + 1))).astype(np.uint64)
        return replace(self, first_sentence=edges[:-1], end_sentence=edges[1:], digests=digests)

    def read(self, start: int, end: int) -> TokenIds:
        """Return the tokens from `start` to `end`, which are in one document."""
        shard = int(np.searchsorted(self._shard_starts, start, side="right")) - 1
        base = int(self._shard_starts[shard])
        return self._without_words(self._shards[shard][start - base : end - base])

    def _without_words(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        size = self.vocab_size_with_words
        return ids if size is None else (ids % np.int64(size)).astype(ids.dtype)

    def gather(self, starts: Integers, lengths: Integers) -> tuple[TokenIds, npt.NDArray[np.bool_] | None]:
        """Return the tokens of several spans end to end, and which continue a word; each span must be in one document.

        Without words of a segmenter the second is None.
        """
        shards = np.searchsorted(self._shard_starts, starts, side="right") - 1
        begins = starts - self._shard_starts[shards]
        ends = begins + lengths
        spans = zip(shards.tolist(), begins.tolist(), ends.tolist(), strict=True)
        ids = np.concatenate([self._shards[shard][begin:end] for shard, begin, end in spans])
        size = self.vocab_size_with_words
        return self._without_words(ids), None if size is None else ids >= size

    def sentence_bounds(self, number: int) -> Integers:
        """Return the first token of each sentence of a document, and the token after its last."""
        return self.sentence_offsets.between(self.first_sentence[number], self.end_sentence[number])

    def token_counts(self, vocab_size: int) -> Integers:
        """Return how often each token of the vocabulary occurs."""
        counts = np.zeros(vocab_size, np.int64)
        starts = self.sentence_offsets[self.first_sentence]
        ends = self.sentence_offsets[self.end_sentence]
        for shard, base in zip(self._shards, self._shard_starts.tolist(), strict=False):
            edges = np.zeros(len(shard) + 1, np.int8)
            inside = (starts >= base) & (starts < base + len(shard))
            np.add.at(edges, starts[inside] - base, 1)
            np.add.at(edges, ends[inside] - base, -1)
            chosen = self._without_words(shard[np.cumsum(edges[:-1], dtype=np.int8) > 0])
            counts += np.bincount(chosen, minlength=vocab_size)
        return counts


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set that `cloze corpus` wrote. Its directory can also be loaded as a tokenizer."""

    path: Path
    info: DatasetInfo
    shards: tuple[Path, ...]
    documents: Documents
    """All documents, or the parts of a single one."""
    train_token_counts: Integers
    """How often each token of the vocabulary occurs in the training documents [V]."""

    @classmethod
    def open(cls, path: Path, *, verify: bool = True) -> "Dataset":
        """Open a data set and `verify` every file; InputError if the directory is not a data set or is damaged.

        The files are what their checksums say, so that their content is not checked again.
        """
        path = Path(path)
        manifest = (artifacts.verify if verify else artifacts.read_manifest)(path, kind=KIND)
        table = file_io.read_json(path / INFO_FILE)
        token_counts = np.array(table.pop("train_token_counts"), np.int64)
        info = DatasetInfo(**table)
        shards = tuple(path / name for name in sorted(manifest.files) if name.endswith(".arrow"))
        documents = Documents.from_shards(shards, info.vocab_size_with_words).cut()
        return cls(path, info, shards, documents, token_counts)

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return self.info.vocab_size

    @property
    def supports_pairs(self) -> bool:
        """Whether enough documents have two sentences for pairs in both splits."""
        return self.info.held_out_below > 0

    def split(self, name: Split) -> Documents:
        """Return the documents of a split in the order of the text."""
        return split_documents(self.documents, self.info, name)


def split_documents(documents: Documents, info: DatasetInfo, name: Split) -> Documents:
    """Return the documents of a split.

    Without pairs, documents of one sentence are held out, too: at least one of all, if there are two.
    """
    below, min_sentences = info.held_out_below, 2
    if not below:
        below = choose_held_out_threshold(documents.digests, _HELD_OUT_WITHOUT_PAIRS, on_each_side=1)
        min_sentences = 1
    is_long_enough = documents.num_sentences >= min_sentences
    held_out = is_long_enough & (documents.digests < np.uint64(below))
    return documents.select(np.flatnonzero(held_out if name == "validation" else ~held_out))


def choose_validation_fraction(digests: Digests, lengths: Integers) -> float:
    """Return the share of the documents to hold out: 0.005, or more if that share has fewer than 40,000 tokens.

    `digests` and `lengths` in tokens are of the documents of two sentences or more.
    """
    total = int(lengths.sum())
    if total * _MIN_HELD_OUT_FRACTION >= _HELD_OUT_TOKENS or not total:
        return _MIN_HELD_OUT_FRACTION
    order = np.argsort(digests)
    wanted = min(_HELD_OUT_TOKENS, _MAX_HELD_OUT_FRACTION * total)
    last = order[np.searchsorted(np.cumsum(lengths[order]), wanted)]
    return math.nextafter(int(digests[last]) / _NUM_DIGESTS, 1.0)


def choose_held_out_threshold(digests: Digests, validation_fraction: float, *, on_each_side: int) -> int:
    """Return the digest below which documents are held out. 0 if `on_each_side` of it there would be too few."""
    if len(digests) < 2 * on_each_side:
        return 0
    low = int(np.partition(digests, on_each_side - 1)[on_each_side - 1]) + 1
    high = int(np.partition(digests, -on_each_side)[-on_each_side])
    return min(max(int(validation_fraction * _NUM_DIGESTS), low), high) if low <= high else 0


def dataset_fingerprint(directory: Path) -> str:
    """Return the SHA-256 of the files of a data set, except for `report.json`, which names the paths of its text."""
    records = artifacts.read_manifest(directory, kind=KIND).files
    sums = {name: records[name].sha256 for name in sorted(records) if name != REPORT_FILE}
    return hashlib.sha256(json.dumps(sums).encode()).hexdigest()
