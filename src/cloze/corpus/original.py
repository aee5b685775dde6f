"""Training instances exactly as Google's create_pretraining_data.py makes them, from the same random numbers.

The random numbers are one sequence, so instances cannot be drawn by position. They are made once, in the order of
that sequence, written as Arrow files, and read from there in the order of the final shuffle:

    DIRECTORY/instances-00000.arrow …  order.arrow  manifest.json

Source: google-research/bert create_pretraining_data.py:177-453 @eedf571. Here pieces are ids, and no more than one
shard of instances is in memory.
"""

import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze import artifacts
from cloze.corpus.batches import PackedBatch
from cloze.corpus.store import Documents
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

KIND = "instances"
_INSTANCES_A_SHARD = 50_000
_ORDER = "order.arrow"

Integers = npt.NDArray[np.int64]
Document = Sequence[Sequence[int]]
"""Sentences of pieces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoogleSettings:
    """The flags of Google's script, with its defaults."""

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    dupe_factor: int = 10
    """Passes over the corpus, each with other pairs and masks."""
    short_seq_prob: float = 0.1
    """Share of the passes over a document that aim at a shorter length."""
    masked_lm_prob: float = 0.15
    whole_word: bool = False
    seed: int = 12345


@dataclass(frozen=True, slots=True)
class Instance:
    """A pair with some of its pieces hidden."""

    input_ids: list[int]
    segment_b_start: int
    is_random_next: bool
    masked_lm_positions: list[int]
    masked_lm_ids: list[int]


def create_instances(
    documents: Sequence[Document], tokenizer: Tokenizer, settings: GoogleSettings
) -> list[Instance]:
    """Make all instances in memory, in Google's order.

    Raises:
        InputError: there is no document.
    """
    rng = random.Random(settings.seed)
    instances = list(_draw(documents, tokenizer, settings, rng))
    rng.shuffle(instances)
    return instances


def materialise(
    documents: Documents,
    tokenizer: Tokenizer,
    directory: Path,
    settings: GoogleSettings,
    *,
    progress: Progress = SILENT,
) -> None:
    """Make all instances and write them as a directory that `MaterialisedInstances` reads.

    Raises:
        InputError: there is no document, or `directory` exists.
        RunError: the disk is full.
    """
    rng = random.Random(settings.seed)
    count = 0
    with (
        artifacts.write_directory(directory, kind=KIND) as temporary,
        progress.bar("making Google's instances", total=None, unit="instances") as bar,
    ):
        instances = _draw(_OnDisk(documents), tokenizer, settings, rng)
        while shard := list(islice(instances, _INSTANCES_A_SHARD)):
            path = temporary / f"instances-{count // _INSTANCES_A_SHARD:05}.arrow"
            _write(path, _columns(shard, tokenizer.vocab_size))
            count += len(shard)
            bar.advance(len(shard))
        order = array("q", range(count))
        rng.shuffle(order)  # just as it would shuffle the instances
        _write(temporary / _ORDER, {"order": pa.array(np.asarray(order), pa.int64())})


def _draw(
    documents: Sequence[Document], tokenizer: Tokenizer, settings: GoogleSettings, rng: random.Random
) -> Iterator[Instance]:
    """Yield the instances in the order in which they are made, before the last shuffle."""
    if not len(documents):
        raise InputError("no document to make instances of", where="corpus", remedy="Give more text")
    order = array("q", range(len(documents)))
    rng.shuffle(order)
    for _ in range(settings.dupe_factor):
        for place in range(len(order)):
            for segment_a, segment_b, is_random_next in _pairs(documents, order, place, settings, rng):
                _truncate(segment_a, segment_b, settings.max_seq_length - 3, rng)
                yield _masked_instance(segment_a, segment_b, is_random_next, tokenizer, settings, rng)


def _pairs(
    documents: Sequence[Document],
    order: Sequence[int],
    place: int,
    settings: GoogleSettings,
    rng: random.Random,
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Gather sentences of a document up to the target length, cut them in two, replace every other B."""
    document = documents[order[place]]
    target = room = settings.max_seq_length - 3
    if rng.random() < settings.short_seq_prob:
        target = rng.randint(2, room)
    start = sentence = length = 0
    while sentence < len(document):
        length += len(document[sentence])
        sentence += 1
        if length < target and sentence < len(document):
            continue
        middle = start + 1
        if sentence - start > 1:
            middle = start + rng.randint(1, sentence - start - 1)
        segment_a = _join(document[start:middle])
        is_random_next = sentence - start == 1 or rng.random() < 0.5
        if is_random_next:
            segment_b = _random_segment(documents, order, place, target - len(segment_a), rng)
            sentence = middle  # what would have been B is gone over again
        else:
            segment_b = _join(document[middle:sentence])
        yield segment_a, segment_b, is_random_next
        start, length = sentence, 0


def _random_segment(
    documents: Sequence[Document], order: Sequence[int], place: int, target: int, rng: random.Random
) -> list[int]:
    """Take sentences from anywhere in a random document, which after ten tries may be the same one."""
    for _ in range(10):
        other = rng.randint(0, len(order) - 1)
        if other != place:
            break
    document = documents[order[other]]
    segment: list[int] = []
    for number in range(rng.randint(0, len(document) - 1), len(document)):
        segment.extend(document[number])
        if len(segment) >= target:
            break
    return segment


def _join(sentences: Iterable[Sequence[int]]) -> list[int]:
    return [piece for sentence in sentences for piece in sentence]


def _truncate(segment_a: list[int], segment_b: list[int], room: int, rng: random.Random) -> None:
    """Remove pieces from the longer segment, from its front or its back, until both fit."""
    while len(segment_a) + len(segment_b) > room:
        longer = segment_a if len(segment_a) > len(segment_b) else segment_b
        longer.pop(0 if rng.random() < 0.5 else -1)


def _masked_instance(
    segment_a: list[int],
    segment_b: list[int],
    is_random_next: bool,  # noqa: FBT001 (a label)
    tokenizer: Tokenizer,
    settings: GoogleSettings,
    rng: random.Random,
) -> Instance:
    ids = [tokenizer.cls_id, *segment_a, tokenizer.sep_id, *segment_b, tokenizer.sep_id]
    segment_b_start = len(segment_a) + 2
    words = _words(ids, segment_b_start, tokenizer.is_continuation if settings.whole_word else None)
    rng.shuffle(words)
    quota = min(settings.max_predictions_per_seq, max(1, round(len(ids) * settings.masked_lm_prob)))
    masked = list(ids)
    chosen: list[int] = []
    for word in words:
        if len(chosen) >= quota:
            break
        if len(chosen) + len(word) > quota:
            continue
        for position in word:
            if rng.random() < 0.8:
                masked[position] = tokenizer.mask_id
            elif rng.random() >= 0.5:
                masked[position] = rng.randint(0, tokenizer.vocab_size - 1)
        chosen.extend(word)
    chosen.sort()
    return Instance(masked, segment_b_start, is_random_next, chosen, [ids[position] for position in chosen])


def _words(
    ids: Sequence[int], segment_b_start: int, is_continuation: npt.NDArray[np.bool_] | None
) -> list[list[int]]:
    """Return the positions that may be masked, pieces of a word together where `is_continuation` tells them.

    Where B was cut in the middle of a word, its first pieces go with the last word of A, as in Google's code.
    """
    words: list[list[int]] = []
    for position, piece in enumerate(ids):
        if position in (0, segment_b_start - 1, len(ids) - 1):
            continue
        if is_continuation is not None and words and is_continuation[piece]:
            words[-1].append(position)
        else:
            words.append([position])
    return words


@dataclass(frozen=True, slots=True)
class _OnDisk(Sequence[Document]):
    """The documents of a data set."""

    documents: Documents

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, number: Any) -> Any:
        return _SentencesOnDisk(self.documents, self.documents.sentences(number))


@dataclass(frozen=True, slots=True)
class _SentencesOnDisk(Sequence[Sequence[int]]):
    """The sentences of a document, each read when it is asked for: of a book, a random segment wants a few."""

    documents: Documents
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self.documents.sentence(number).tolist() for number in self.numbers[place]]
        return self.documents.sentence(self.numbers[place]).tolist()


def _columns(instances: Sequence[Instance], vocab_size: int) -> dict[str, Any]:
    piece = pa.uint16() if vocab_size <= 2**16 else pa.uint32()
    return {
        "input_ids": pa.array([each.input_ids for each in instances], pa.list_(piece)),
        "segment_b_start": pa.array([each.segment_b_start for each in instances], pa.int32()),
        "is_random_next": pa.array([int(each.is_random_next) for each in instances], pa.uint8()),
        "masked_lm_positions": pa.array(
            [each.masked_lm_positions for each in instances], pa.list_(pa.int32())
        ),
        "masked_lm_ids": pa.array([each.masked_lm_ids for each in instances], pa.list_(piece)),
    }


def _write(path: Path, columns: dict[str, Any]) -> None:
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _map(path: Path) -> Any:
    """Map an Arrow file into memory and check that it holds together."""
    try:
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        remedy = "The file is damaged: delete its directory and make the instances anew"
        raise InputError(f"not a shard of instances ({error})", where=path, remedy=remedy) from error
    return batch


@dataclass(frozen=True, slots=True)
class _Shard:
    """The columns of one file as arrays that view it; lists lie end to end, with their boundaries."""

    input_ids: npt.NDArray[Any]
    token_bounds: npt.NDArray[np.int32]
    segment_b_start: npt.NDArray[np.int32]
    is_random_next: npt.NDArray[np.uint8]
    masked_lm_positions: npt.NDArray[np.int32]
    masked_lm_ids: npt.NDArray[Any]
    prediction_bounds: npt.NDArray[np.int32]

    @classmethod
    def open(cls, path: Path) -> "_Shard":
        batch = _map(path)
        ids, positions, labels = (
            batch.column(name) for name in ("input_ids", "masked_lm_positions", "masked_lm_ids")
        )
        return cls(
            ids.values.to_numpy(),
            ids.offsets.to_numpy(),
            batch.column("segment_b_start").to_numpy(),
            batch.column("is_random_next").to_numpy(),
            positions.values.to_numpy(),
            labels.values.to_numpy(),
            positions.offsets.to_numpy(),
        )


@dataclass(frozen=True, slots=True)
class MaterialisedInstances:
    """Google's instances from disk, every epoch in the same order: other masks are other copies in the files.

    Differs: Google's training also shuffles what it reads through a buffer of 100 instances.
    """

    _shards: tuple[_Shard, ...]
    _shard_starts: Integers
    _order: Integers
    _lengths: Integers
    """By the order in which they were made."""

    @classmethod
    def open(cls, directory: Path) -> "MaterialisedInstances":
        """Open a directory that `materialise` wrote, after checking every file of it.

        Raises:
            InputError: it is none, or a file is not as it was written.
        """
        manifest = artifacts.verify(directory, kind=KIND)
        names = sorted(name for name in manifest.files if name != _ORDER)
        shards = tuple(_Shard.open(directory / name) for name in names)
        lengths = [np.diff(shard.token_bounds).astype(np.int64) for shard in shards]
        starts = np.cumsum([0, *map(len, lengths)])
        order = _map(directory / _ORDER).column("order").to_numpy()
        return cls(shards, starts, order, np.concatenate(lengths))

    def num_instances(self, epoch: int) -> int:
        """Return how many instances there are, in any epoch."""
        return len(self._order)

    def batch(self, epoch: int, positions: Integers, *, progress: float = 1.0) -> PackedBatch:
        """Return the instances at these positions, the longest first; their masks are always the same."""
        numbers = self._order[positions]
        numbers = numbers[np.argsort(-self._lengths[numbers], kind="stable")]
        lengths_B = self._lengths[numbers]
        cu_seqlens = np.concatenate([[0], np.cumsum(lengths_B)])
        ids, types, predicted, predicted_ids, labels = [], [], [], [], []
        in_shard = np.searchsorted(self._shard_starts, numbers, side="right") - 1
        rows = numbers - self._shard_starts[in_shard]
        for start, shard_number, row in zip(
            cu_seqlens[:-1].tolist(), in_shard.tolist(), rows.tolist(), strict=True
        ):
            shard = self._shards[shard_number]
            tokens = slice(shard.token_bounds[row], shard.token_bounds[row + 1])
            predictions = slice(shard.prediction_bounds[row], shard.prediction_bounds[row + 1])
            ids.append(shard.input_ids[tokens])
            types.append(np.arange(len(ids[-1])) >= shard.segment_b_start[row])
            predicted.append(start + shard.masked_lm_positions[predictions])
            predicted_ids.append(shard.masked_lm_ids[predictions])
            labels.append(shard.is_random_next[row])
        return PackedBatch(
            np.concatenate(ids).astype(np.int64),
            np.concatenate(types).astype(np.int64),
            np.arange(cu_seqlens[-1]) - np.repeat(cu_seqlens[:-1], lengths_B),
            cu_seqlens.astype(np.int32),
            np.concatenate(predicted).astype(np.int64),
            np.concatenate(predicted_ids).astype(np.int64),
            np.array(labels, np.int64),
        )
