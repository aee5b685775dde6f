"""Training instances exactly as Google's create_pretraining_data.py makes them, from the same random numbers.

The random numbers are one sequence, so an instance cannot be drawn by its position. All instances are made once, in
the order of that sequence, written as Arrow files, and read in the order of the final shuffle:

    DIRECTORY/instances-00000.arrow …  order.arrow  manifest.json

Source: google-research/bert create_pretraining_data.py:177-453 @eedf571.

Differs: tokens are IDs, and only one shard of instances is in memory.
"""

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cloze import artifacts
from cloze.data.batch import Integers, PretrainingBatch
from cloze.data.dataset import Documents
from cloze.data.reading.arrow_files import map_record_batch, write_record_batch
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.tokenization.tokenizer import Tokenizer

KIND = "instances"
_ORDER = "order.arrow"


@dataclass(frozen=True, kw_only=True, slots=True)
class GoogleSettings:
    """The flags of Google's script, with its defaults."""

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    dupe_factor: int = 10
    """Passes over the documents, each with different pairs and masks."""
    short_seq_prob: float = 0.1
    """Share of the passes over a document with a shorter target length."""
    masked_lm_prob: float = 0.15
    whole_word: bool = False
    seed: int = 12345


class TrainingInstance(NamedTuple):
    """A pair of segments with some tokens masked; on disk each field is a column."""

    input_ids: list[int]
    segment_b_start: int
    is_random_next: bool
    masked_lm_positions: list[int]
    masked_lm_ids: list[int]


def materialize(
    documents: Documents,
    tokenizer: Tokenizer,
    directory: Path,
    settings: GoogleSettings,
    *,
    shard_instances: int = 50_000,
    progress: Progress = SILENT,
) -> None:
    """Write all instances, `shard_instances` per file, to a directory that `GoogleInstances` reads."""
    if settings.whole_word and documents.vocab_size_with_words is not None:
        what = "whole words of Google's instances are those of ##, not those of the data set's segmenter"
        raise InputError(what, where="masking.whole_word", remedy="Use instances that are drawn on reading")
    rng = random.Random(settings.seed)
    id_type = pa.uint16() if tokenizer.vocab_size <= 2**16 else pa.uint32()
    types = (pa.list_(id_type), pa.int32(), pa.bool_(), pa.list_(pa.int32()), pa.list_(id_type))
    count = 0
    with (
        artifacts.write_directory(directory, kind=KIND) as temporary,
        progress.bar("making Google's instances", total=None, unit="instances") as bar,
    ):
        instances = _draw(documents, tokenizer, settings, rng)
        while shard := list(islice(instances, shard_instances)):
            path = temporary / f"instances-{count // shard_instances:05}.arrow"
            values = map(pa.array, zip(*shard, strict=True), types)
            columns = dict(zip(TrainingInstance._fields, values, strict=True))
            columns["is_random_next"] = columns["is_random_next"].cast(pa.uint8())
            write_record_batch(path, columns)
            count += len(shard)
            bar.advance(len(shard))
        order = array("q", range(count))
        rng.shuffle(order)  # as it would shuffle the instances
        write_record_batch(temporary / _ORDER, {"order": pa.array(np.asarray(order), pa.int64())})


def _draw(
    documents: Documents, tokenizer: Tokenizer, settings: GoogleSettings, rng: random.Random
) -> Iterator[TrainingInstance]:
    if not len(documents):
        raise InputError("no document to make instances of", where="corpus", remedy="Give more text")
    order = array("q", range(len(documents)))
    rng.shuffle(order)
    for _ in range(settings.dupe_factor):
        for place in range(len(order)):
            for segment_a, segment_b, is_random_next in _pairs(documents, order, place, settings, rng):
                while len(segment_a) + len(segment_b) > settings.max_seq_length - 3:
                    # from the front or the back of the longer one
                    longer = segment_a if len(segment_a) > len(segment_b) else segment_b
                    longer.pop(0 if rng.random() < 0.5 else -1)
                yield _masked_instance(segment_a, segment_b, is_random_next, tokenizer, settings, rng)


def _pairs(
    documents: Documents, order: Sequence[int], place: int, settings: GoogleSettings, rng: random.Random
) -> Iterator[tuple[list[int], list[int], bool]]:
    """Split runs of sentences of the target length in two, and replace B in half of them."""
    bounds = documents.sentence_bounds(order[place]).tolist()
    target = max_tokens = settings.max_seq_length - 3
    if rng.random() < settings.short_seq_prob:
        target = rng.randint(2, max_tokens)
    start = end = 0
    while end < len(bounds) - 1:
        end += 1
        if bounds[end] - bounds[start] < target and end < len(bounds) - 1:
            continue
        middle = start + 1
        if end - start > 1:
            middle = start + rng.randint(1, end - start - 1)
        segment_a = documents.read(bounds[start], bounds[middle]).tolist()
        is_random_next = end - start == 1 or rng.random() < 0.5
        if is_random_next:
            segment_b = _random_segment(documents, order, place, target - len(segment_a), rng)
            end = middle  # the displaced sentences are used again
        else:
            segment_b = documents.read(bounds[middle], bounds[end]).tolist()
        yield segment_a, segment_b, is_random_next
        start = end


def _random_segment(
    documents: Documents, order: Sequence[int], place: int, target: int, rng: random.Random
) -> list[int]:
    """Take sentences from a random place in a random document, which after ten tries may be the same one."""
    for _ in range(10):
        other = rng.randint(0, len(order) - 1)
        if other != place:
            break
    bounds = documents.sentence_bounds(order[other])
    start = rng.randint(0, len(bounds) - 2)
    end = min(max(int(np.searchsorted(bounds, bounds[start] + target)), start + 1), len(bounds) - 1)
    tokens: list[int] = documents.read(int(bounds[start]), int(bounds[end])).tolist()
    return tokens


def _masked_instance(
    segment_a: list[int],
    segment_b: list[int],
    is_random_next: bool,  # noqa: FBT001 (a label)
    tokenizer: Tokenizer,
    settings: GoogleSettings,
    rng: random.Random,
) -> TrainingInstance:
    ids = [tokenizer.cls_id, *segment_a, tokenizer.sep_id, *segment_b, tokenizer.sep_id]
    segment_b_start = len(segment_a) + 2
    is_continuation = tokenizer.is_continuation
    words: list[list[int]] = []
    for position, token in enumerate(ids):
        if position in (0, segment_b_start - 1, len(ids) - 1):
            continue
        # if B begins in the middle of a word, its first tokens belong to the last word of A, as in Google's code
        if settings.whole_word and words and is_continuation[token]:
            words[-1].append(position)
        else:
            words.append([position])
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
    return TrainingInstance(
        masked, segment_b_start, is_random_next, chosen, [ids[position] for position in chosen]
    )


@dataclass(frozen=True, slots=True)
class GoogleInstances:
    """Google's instances on disk. Every epoch is the same block: the files hold copies with different masks.

    Differs: Google's training also shuffles what it reads through a buffer of 100 instances.
    """

    _shards: tuple[Any, ...]
    """Record batches with the fields of `TrainingInstance`."""
    _shard_starts: Integers
    _order: Integers
    _lengths: Integers
    """In the order in which they were made."""
    num_blocks: int = 1

    @classmethod
    def open(cls, directory: Path, *, verify: bool = True) -> "GoogleInstances":
        """Open a directory that `materialize` wrote, and `verify` every file."""
        manifest = (artifacts.verify if verify else artifacts.read_manifest)(directory, kind=KIND)
        remedy = "The file is damaged: delete its directory and make the instances again"
        open_file = partial(map_record_batch, remedy=remedy)
        names = sorted(name for name in manifest.files if name != _ORDER)
        shards = tuple(open_file(directory / name, TrainingInstance._fields) for name in names)
        lengths = [np.diff(shard["input_ids"].offsets.to_numpy()).astype(np.int64) for shard in shards]
        starts = np.cumsum([0, *map(len, lengths)])
        order = open_file(directory / _ORDER, ["order"])["order"].to_numpy()
        return cls(shards, starts, order, np.concatenate(lengths))

    def num_instances(self, block: int) -> int:
        """Return the number of instances of any epoch."""
        return len(self._order)

    def batch(self, block: int, positions: Integers, *, progress: float = 1.0) -> PretrainingBatch:
        """Return the instances at these positions, the longest first; their masks are always the same."""
        numbers = self._order[positions]
        numbers = numbers[np.argsort(-self._lengths[numbers], kind="stable")]
        in_shard = np.searchsorted(self._shard_starts, numbers, side="right") - 1
        by_shard = np.argsort(in_shard, kind="stable")
        taken = [
            self._shards[shard].take(pa.array(numbers[in_shard == shard] - self._shard_starts[shard]))
            for shard in np.unique(in_shard)
        ]
        rows = pa.Table.from_batches(taken).combine_chunks().take(pa.array(np.argsort(by_shard)))
        ids, b_starts_B, labels_B, predicted, predicted_ids = (
            column.combine_chunks() for column in rows.select(TrainingInstance._fields).columns
        )
        lengths_B = np.diff(ids.offsets.to_numpy())
        starts_B = np.cumsum(lengths_B, dtype=np.int64) - lengths_B
        is_b_T = np.arange(lengths_B.sum()) >= np.repeat(starts_B + b_starts_B.to_numpy(), lengths_B)
        predictions_B = np.diff(predicted.offsets.to_numpy())
        return PretrainingBatch.from_flat(
            ids.flatten().to_numpy().astype(np.int64),
            is_b_T.astype(np.int64),
            lengths_B.tolist(),
            masked_lm_positions=np.repeat(starts_B, predictions_B) + predicted.flatten().to_numpy(),
            masked_lm_ids=predicted_ids.flatten().to_numpy().astype(np.int64),
            next_sentence_labels=labels_B.to_numpy().astype(np.int64),
        )
