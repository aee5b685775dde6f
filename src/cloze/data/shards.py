"""The shards of a data set: Arrow files whose rows are documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze.data.reading.arrow_files import map_record_batch, write_record_batch

Integers = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
TokenIds = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
_COLUMNS = ("sentences", "digest", "long_paragraphs")
_PARAGRAPH_FIELDS = ("digest", "start", "end")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """The documents of one file. Long paragraphs do not overlap and need not cover all sentences.

    Shapes: T tokens, S sentences, D documents, Q long paragraphs. Offsets are the start of each, and the total.
    """

    token_ids: npt.NDArray[Any]
    """[T]."""
    sentence_offsets: Offsets
    """[S+1], in tokens."""
    document_offsets: Offsets
    """[D+1], in sentences."""
    document_digests: Digests
    """[D], of the text."""
    paragraph_offsets: Offsets
    """[D+1], in long paragraphs."""
    paragraph_digests: Digests
    """[Q], of the text."""
    paragraph_starts: Offsets
    """[Q], the first sentence of each."""
    paragraph_ends: Offsets
    """[Q], the sentence after the last."""

    @property
    def sentences_per_document(self) -> Integers:
        """Number of sentences of each document [D]."""
        return np.diff(self.document_offsets).astype(np.int64)

    @classmethod
    def open(cls, path: Path) -> "Shard":
        """Map a file that `write_shard` wrote."""
        remedy = "The file is damaged: copy or build the data set again"
        sentences, digests, paragraphs = map_record_batch(path, _COLUMNS, remedy=remedy).columns
        paragraph_digests, starts, ends = (paragraphs.values.field(name) for name in _PARAGRAPH_FIELDS)
        return cls(
            token_ids=sentences.values.values.to_numpy(),
            sentence_offsets=sentences.values.offsets.to_numpy(),
            document_offsets=sentences.offsets.to_numpy(),
            document_digests=digests.to_numpy(),
            paragraph_offsets=paragraphs.offsets.to_numpy(),
            paragraph_digests=paragraph_digests.to_numpy(),
            paragraph_starts=starts.to_numpy(),
            paragraph_ends=ends.to_numpy(),
        )


def write_shard(path: Path, shard: Shard, *, vocab_size: int) -> None:
    """Write documents as one Arrow file; `vocab_size` and the largest ID decide the width of a token ID."""
    num_ids = max(vocab_size, int(shard.token_ids.max(initial=0)) + 1)
    id_type = pa.uint16() if num_ids <= 2**16 else pa.uint32()
    token_ids = pa.array(shard.token_ids.astype(id_type.to_pandas_dtype(), copy=False))
    sentences = pa.ListArray.from_arrays(_int32(shard.sentence_offsets), token_ids)
    fields = [pa.array(shard.paragraph_digests), _int32(shard.paragraph_starts), _int32(shard.paragraph_ends)]
    paragraphs = pa.StructArray.from_arrays(fields, names=list(_PARAGRAPH_FIELDS))
    columns = (
        pa.ListArray.from_arrays(_int32(shard.document_offsets), sentences),
        pa.array(shard.document_digests),
        pa.ListArray.from_arrays(_int32(shard.paragraph_offsets), paragraphs),
    )
    write_record_batch(path, dict(zip(_COLUMNS, columns, strict=True)))


def to_offsets(lengths: npt.ArrayLike) -> Integers:
    """Return the start of each of consecutive runs of these lengths, and the end of the last."""
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), np.asarray(lengths, np.int64)]))


@dataclass(frozen=True, slots=True)
class JoinedOffsets:
    """The offsets of consecutive lists in several memory-mapped files, which all ranks share."""

    _parts: Sequence[Offsets]
    _part_starts: Integers
    """The number of the first list of each part."""
    _shifts: Integers
    """The sum of the parts before each."""

    @classmethod
    def of(cls, parts: Sequence[Offsets]) -> "JoinedOffsets":
        """Join the offsets of each file."""
        starts = to_offsets([len(part) - 1 for part in parts])
        return cls(parts, starts, to_offsets([part[-1] for part in parts]))

    def between(self, start: int, end: int) -> Integers:
        """Return the offsets of the lists from `start` to `end`, which are in one file, and the end of the last."""
        part = int(np.searchsorted(self._part_starts[1:-1], start, side="right"))
        first = start - self._part_starts[part]
        bounds: Integers = self._parts[part][first : first + end - start + 1] + self._shifts[part]
        return bounds

    def __getitem__(self, numbers: Integers) -> Integers:
        """Return the offset of each of these lists, [N]; the list after the last has the end."""
        offsets = np.zeros(len(numbers), np.int64)
        part_N = np.searchsorted(self._part_starts[1:-1], numbers, side="right")
        order = np.argsort(part_N, kind="stable")
        ends = np.searchsorted(part_N[order], np.arange(1, len(self._parts)))
        for part, at, start, shift in zip(
            self._parts, np.split(order, ends), self._part_starts, self._shifts, strict=False
        ):
            offsets[at] = part[numbers[at] - start] + shift
        return offsets


def _int32(values: Offsets) -> Any:
    return pa.array(values, pa.int32())
