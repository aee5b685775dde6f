"""A data set on disk: documents of sentences of word pieces, in memory-mapped Arrow files.

    DATASET/dataset.json  documents-00000.arrow …  vocab.txt …  report.json  manifest.json

A row of a shard is a document: a list of sentences, each a list of pieces as uint16, or uint32 where the vocabulary
has more than 65,536; and digests of the text it was made of, which tell what occurs twice and what is held out from
training. Several shards are read as one array without copying any.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze import artifacts
from cloze.errors import InputError

KIND = "dataset"
FACTS = "dataset.json"
REPORT = "report.json"
Split = Literal["train", "validation"]
MIN_DOCUMENTS_TO_SPLIT = 4
"""Of two sentences or more. Of fewer no pairs are made: they need two documents on either side."""
DOMINATING_SHARE = 0.5
"""Of the pieces, from which on a document is warned of."""
_ALL_DIGESTS = 2**64
_HELD_OUT_WITHOUT_PAIRS = 0.005

Integers = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
Pieces = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What `dataset.json` says."""

    vocab_size: int
    documents: int
    sentences: int
    pieces: int
    unknown_pieces: int
    held_out_below: int
    """Documents of two sentences or more are held out from training if their digest is less than this; 0 where there
    are too few for pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """The documents of one file, and their long paragraphs, which may overlap nothing but need not cover all.

    Shapes: P pieces, S sentences, D documents, Q long paragraphs; offsets are where each begins, and the number of all.
    """

    pieces: npt.NDArray[Any]
    """[P]."""
    sentence_offsets: Offsets
    """[S+1], in pieces."""
    document_offsets: Offsets
    """[D+1], in sentences."""
    document_digests: Digests
    """[D], of the text."""
    paragraph_offsets: Offsets
    """[D+1], in paragraphs."""
    paragraph_digests: Digests
    """[Q], of the text."""
    paragraph_starts: Offsets
    """[Q], the first sentence of each."""
    paragraph_ends: Offsets
    """[Q], the sentence after the last."""

    @classmethod
    def without_paragraphs(
        cls,
        pieces: npt.NDArray[Any],
        sentence_lengths: npt.ArrayLike,
        document_lengths: npt.ArrayLike,
        document_digests: npt.ArrayLike,
    ) -> "Shard":
        """Return a shard in which no paragraph is looked for again.

        Args:
            pieces: of all documents, end to end.
            sentence_lengths: pieces of each sentence.
            document_lengths: sentences of each document.
            document_digests: of the text of each document.
        """
        digests = np.asarray(document_digests, np.uint64)
        return cls(
            pieces=pieces,
            sentence_offsets=offsets_of(sentence_lengths),
            document_offsets=offsets_of(document_lengths),
            document_digests=digests,
            paragraph_offsets=np.zeros(len(digests) + 1, np.int64),
            paragraph_digests=_NOTHING.astype(np.uint64),
            paragraph_starts=_NOTHING,
            paragraph_ends=_NOTHING,
        )

    @property
    def sentences_of_documents(self) -> Integers:
        """[D], the number of each one's sentences."""
        return np.diff(self.document_offsets).astype(np.int64)

    @property
    def digests_of_long_documents(self) -> Digests:
        """Of the documents of two sentences or more, which may be held out."""
        return self.document_digests[self.sentences_of_documents >= 2]

    @classmethod
    def open(cls, path: Path) -> "Shard":
        """Map a file that `write_shard` wrote.

        Raises:
            InputError: it is none.
        """
        try:
            batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
            sentences, digest, paragraphs = map(batch.column, _COLUMNS)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, KeyError) as error:
            remedy = "The file is damaged: copy or build the data set anew"
            raise InputError(f"not a shard of a data set ({error})", where=path, remedy=remedy) from error
        paragraph_digests, starts, ends = (paragraphs.values.field(name) for name in _PARAGRAPH_FIELDS)
        return cls(
            pieces=sentences.values.values.to_numpy(),
            sentence_offsets=sentences.values.offsets.to_numpy(),
            document_offsets=sentences.offsets.to_numpy(),
            document_digests=digest.to_numpy(),
            paragraph_offsets=paragraphs.offsets.to_numpy(),
            paragraph_digests=paragraph_digests.to_numpy(),
            paragraph_starts=starts.to_numpy(),
            paragraph_ends=ends.to_numpy(),
        )


_NOTHING = np.zeros(0, np.int64)
_COLUMNS = ("sentences", "digest", "long_paragraphs")
_PARAGRAPH_FIELDS = ("digest", "start", "end")


def write_shard(path: Path, shard: Shard, *, vocab_size: int) -> None:
    """Write documents as one Arrow file; `vocab_size` decides how wide a piece is."""
    piece_type = pa.uint16() if vocab_size <= 2**16 else pa.uint32()
    pieces = pa.array(shard.pieces.astype(piece_type.to_pandas_dtype(), copy=False))
    sentences = pa.ListArray.from_arrays(_int32(shard.sentence_offsets), pieces)
    paragraphs = pa.StructArray.from_arrays(
        [
            pa.array(shard.paragraph_digests),
            _int32(shard.paragraph_starts),
            _int32(shard.paragraph_ends),
        ],
        names=list(_PARAGRAPH_FIELDS),
    )
    columns = [
        pa.ListArray.from_arrays(_int32(shard.document_offsets), sentences),
        pa.array(shard.document_digests),
        pa.ListArray.from_arrays(_int32(shard.paragraph_offsets), paragraphs),
    ]
    batch = pa.record_batch(columns, names=list(_COLUMNS))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def offsets_of(lengths: npt.ArrayLike) -> Integers:
    """Return where things begin that lie end to end, and where the last one ends."""
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), np.asarray(lengths, np.int64)]))


def shard_name(number: int) -> str:
    """Return the name of a shard in its data set."""
    return f"documents-{number:05}.arrow"


def _int32(values: Offsets) -> Any:
    return pa.array(values, pa.int32())


def choose_held_out(digests: Iterable[Digests], validation_fraction: float, *, on_each_side: int) -> int:
    """Choose the digest below which documents are held out.

    Args:
        digests: of the documents that may be.
        validation_fraction: share of them to hold out.
        on_each_side: documents that are held out at least, and that are not.

    Returns:
        0, which holds out nothing, where there are too few.
    """
    total = 0
    smallest, largest = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    for some in digests:
        total += len(some)
        smallest = np.sort(np.concatenate([smallest, some]))[:on_each_side]
        largest = np.sort(np.concatenate([largest, some]))[-on_each_side:]
    if total < 2 * on_each_side:
        return 0
    least, most = int(smallest[-1]) + 1, int(largest[0])
    return min(max(int(validation_fraction * _ALL_DIGESTS), least), most) if least <= most else 0


def write_facts(directory: Path, facts: Facts) -> None:
    """Write `dataset.json`."""
    (directory / FACTS).write_text(json.dumps(asdict(facts), indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of a data set: all, or one split of them. Sentences and pieces are numbered over all shards.

    Shapes:
        first_sentence, end_sentence [D]: the sentences of each document.
        digests [D]: of the text of each document.
        sentence_offsets [S+1]: the first piece of each sentence, and the number of pieces.
    """

    first_sentence: Integers
    end_sentence: Integers
    digests: Digests
    sentence_offsets: Integers
    _shards: tuple[Pieces, ...]
    _shard_starts: Integers

    @classmethod
    def from_shards(cls, paths: Sequence[Path]) -> "Documents":
        """Map Arrow files that `write_shard` wrote."""
        shards = [Shard.open(path) for path in paths]
        document_offsets = offsets_of(np.concatenate([_NOTHING, *(s.sentences_of_documents for s in shards)]))
        return cls(
            document_offsets[:-1],
            document_offsets[1:],
            np.concatenate([np.zeros(0, np.uint64), *(shard.document_digests for shard in shards)]),
            offsets_of(np.concatenate([_NOTHING, *(np.diff(s.sentence_offsets) for s in shards)])),
            tuple(shard.pieces for shard in shards),
            np.cumsum([0, *(len(shard.pieces) for shard in shards)]),
        )

    @property
    def largest_share(self) -> float:
        """Of all pieces, those of the largest document."""
        pieces_D = self.sentence_offsets[self.end_sentence] - self.sentence_offsets[self.first_sentence]
        return float(pieces_D.max(initial=0) / max(pieces_D.sum(), 1))

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

    def read(self, start: int, end: int) -> Pieces:
        """Return the pieces from `start` to `end`, which lie in one document and so in one shard."""
        shard = int(np.searchsorted(self._shard_starts, start, side="right")) - 1
        base = int(self._shard_starts[shard])
        return self._shards[shard][start - base : end - base]

    def gather(self, starts: Integers, lengths: Integers) -> Pieces:
        """Return the pieces of spans end to end; each lies in one document and so in one shard.

        One copy a span, whatever the number of shards.
        """
        shards = np.searchsorted(self._shard_starts, starts, side="right") - 1
        begins = starts - self._shard_starts[shards]
        ends = begins + lengths
        spans = zip(shards.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return np.concatenate([self._shards[shard][begin:end] for shard, begin, end in spans])

    def sentences(self, number: int) -> range:
        """Return the numbers of a document's sentences."""
        return range(int(self.first_sentence[number]), int(self.end_sentence[number]))

    def document(self, number: int) -> list[Pieces]:
        """Return the sentences of a document."""
        return [self.sentence(sentence) for sentence in self.sentences(number)]

    def sentence(self, number: int) -> Pieces:
        """Return the pieces of a sentence."""
        return self.read(int(self.sentence_offsets[number]), int(self.sentence_offsets[number + 1]))

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


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set that `cloze corpus` wrote; a tokenizer can be loaded from its directory, too."""

    path: Path
    facts: Facts
    shards: tuple[Path, ...]
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
        shards = tuple(path / name for name in sorted(manifest.files) if name.endswith(".arrow"))
        documents = Documents.from_shards(shards)
        if (len(documents), documents.sentence_offsets[-1]) != (facts.documents, facts.pieces):
            what = "its numbers of documents and pieces are not those of the shards"
            raise InputError(what, where=path / FACTS, remedy="Build the data set anew")
        return cls(path, facts, shards, documents)

    @property
    def vocab_size(self) -> int:
        """Pieces in the vocabulary."""
        return self.facts.vocab_size

    @property
    def makes_pairs(self) -> bool:
        """Whether enough documents have two sentences for pairs to train on, and to measure on."""
        return self.facts.held_out_below > 0

    def split(self, name: Split) -> Documents:
        """Return the documents trained on, or those held out, both in the order of the text.

        Where no pairs are made, documents of one sentence are held out, too: one of all at least, where there are two.
        """
        documents, below = self.documents, self.facts.held_out_below
        least_sentences = 2
        if not self.makes_pairs:
            below = choose_held_out([documents.digests], _HELD_OUT_WITHOUT_PAIRS, on_each_side=1)
            least_sentences = 1
        long_enough = documents.end_sentence - documents.first_sentence >= least_sentences
        held_out = long_enough & (documents.digests < np.uint64(below))
        return documents.select(np.flatnonzero(held_out if name == "validation" else ~held_out))


def identity_of(directory: Path, *, named: str | None = None) -> str:
    """Return the SHA-256 by which a data set is known, wherever its text lay: that of its files, but for `report.json`.

    Args:
        directory: of the data set.
        named: by what it is called elsewhere. Runs of old name it by its manifest: where this does, so is it returned.

    Raises:
        InputError: it is none.
    """
    records = artifacts.read_manifest(directory, kind=KIND).files
    if named is not None and named == artifacts.sha256_of(directory / artifacts.MANIFEST):
        return named
    sums = {name: records[name].sha256 for name in sorted(records) if name != REPORT}
    return hashlib.sha256(json.dumps(sums).encode()).hexdigest()


def _read_facts(path: Path) -> Facts:
    try:
        table = json.loads(path.read_text("utf-8"))
        if not all(isinstance(value, int) and 0 <= value < 2**64 for value in table.values()):
            raise TypeError("values must be whole numbers")
        return Facts(**table)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"cannot be read ({error})", where=path, remedy="Build the data set anew") from error
