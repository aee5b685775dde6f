"""Training instances exactly as Google's create_pretraining_data.py makes them, from the same random numbers.

The random numbers are one sequence, so instances cannot be drawn by position. They are made once, in the order of
that sequence, written as Arrow files, and read from there in the order of the final shuffle:

    DIRECTORY/instances-00000.arrow …  order.arrow  manifest.json

Source: google-research/bert create_pretraining_data.py:177-453 @eedf571. Function by function it is the same; what
differs is that ids stand for words, that a document is a range of sentences, and that no more than one shard of
instances is in memory.

Shapes: T tokens in the packed batch, B sequences, P masked positions.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cloze import artifacts
from cloze.corpus.batches import PackedBatch
from cloze.corpus.store import Documents, Integers, list_array, map_batch, piece_type, write_batch
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

KIND = "instances"
_INSTANCES_A_SHARD = 50_000
_ORDER = "order.arrow"


@dataclass(frozen=True, kw_only=True, slots=True)
class OriginalConfig:
    """The flags of Google's script."""

    max_seq_length: int = 128
    max_predictions_per_seq: int | None = 20
    """None sets no limit."""
    short_seq_prob: float = 0.1
    """Share of the passes over a document that aim at a shorter length, the same for the whole document."""
    masked_lm_prob: float = 0.15
    whole_word: bool = False
    dupe_factor: int = 10
    """Passes over the corpus, each with other pairs and masks."""
    seed: int = 12345


@dataclass(frozen=True, slots=True)
class Instance:
    """A pair, masked."""

    input_ids: list[int]
    length_a: int
    """Tokens of segment 0: [CLS], A and its [SEP]."""
    next_sentence_label: int
    """0 = IsNext, 1 = NotNext."""
    masked_lm_positions: list[int]
    masked_lm_ids: list[int]


def create_instances(documents: Documents, tokenizer: Tokenizer, config: OriginalConfig) -> list[Instance]:
    """Make all instances in memory, in Google's order.

    Raises:
        InputError: there is no document.
    """
    rng = random.Random(config.seed)
    instances = list(_draw_instances(documents, tokenizer, config, rng))
    rng.shuffle(instances)
    return instances


def materialise(
    documents: Documents,
    tokenizer: Tokenizer,
    directory: Path,
    config: OriginalConfig,
    *,
    progress: Progress = SILENT,
) -> None:
    """Make all instances and write them as a directory for `MaterialisedInstances`.

    Raises:
        InputError: there is no document, or `directory` exists.
        RunError: the disk is full.
    """
    rng = random.Random(config.seed)
    count = 0
    with (
        artifacts.write_directory(directory, kind=KIND) as temporary,
        progress.bar("making instances", total=None, unit="instances") as bar,
    ):
        instances = _draw_instances(documents, tokenizer, config, rng)
        for number, shard in enumerate(iter(lambda: list(islice(instances, _INSTANCES_A_SHARD)), [])):
            _write_shard(temporary / f"instances-{number:05}.arrow", shard, tokenizer.vocab_size)
            count += len(shard)
            bar.advance(len(shard))
        order = list(range(count))
        rng.shuffle(order)  # as it would shuffle the instances themselves
        column = pa.array(np.array(order, np.int64))
        write_batch(temporary / _ORDER, pa.record_batch([column], names=["order"]))


def _draw_instances(
    documents: Documents, tokenizer: Tokenizer, config: OriginalConfig, rng: random.Random
) -> Iterator[Instance]:
    """Yield the instances as they are made, before the last shuffle."""
    if not len(documents):
        raise InputError("no document to make instances from", where="corpus", remedy="Give more text")
    order = list(range(len(documents)))
    rng.shuffle(order)
    for _ in range(config.dupe_factor):
        for place in range(len(order)):
            yield from _instances_of_document(documents, order, place, tokenizer, config, rng)


def _instances_of_document(
    documents: Documents,
    order: Sequence[int],
    place: int,
    tokenizer: Tokenizer,
    config: OriginalConfig,
    rng: random.Random,
) -> Iterator[Instance]:
    """Gather sentences until the target length is reached, cut them into A and B, replace every other B."""
    room = config.max_seq_length - 3
    target = rng.randint(2, room) if rng.random() < config.short_seq_prob else room
    first = sentence = int(documents.first_sentence[order[place]])
    end = int(documents.end_sentence[order[place]])
    while sentence < end:
        if sentence == end - 1 or documents.num_pieces(first, sentence + 1) >= target:
            num_sentences = sentence + 1 - first
            middle = first + (rng.randint(1, num_sentences - 1) if num_sentences >= 2 else 1)
            segment_a = documents.sentences(first, middle)
            if num_sentences == 1 or rng.random() < 0.5:
                label = 1
                segment_b = _random_segment(documents, order, place, target - len(segment_a), rng)
                sentence = middle - 1  # the text that B was not made of is gone over again
            else:
                label = 0
                segment_b = documents.sentences(middle, sentence + 1)
            yield _instance(segment_a, segment_b, label, tokenizer, config, rng)
            first = sentence + 1
        sentence += 1


def _random_segment(
    documents: Documents, order: Sequence[int], place: int, target: int, rng: random.Random
) -> list[int]:
    """Take text from anywhere in a random document, which after ten tries may be the same one."""
    for _ in range(10):
        other = rng.randint(0, len(order) - 1)
        if other != place:
            break
    first, end = int(documents.first_sentence[order[other]]), int(documents.end_sentence[order[other]])
    first = sentence = rng.randint(first, end - 1)
    while sentence < end - 1 and documents.num_pieces(first, sentence + 1) < target:
        sentence += 1
    return documents.sentences(first, sentence + 1)


def _instance(
    segment_a: list[int],
    segment_b: list[int],
    label: int,
    tokenizer: Tokenizer,
    config: OriginalConfig,
    rng: random.Random,
) -> Instance:
    _truncate(segment_a, segment_b, config.max_seq_length - 3, rng)
    ids = [tokenizer.cls_id, *segment_a, tokenizer.sep_id, *segment_b, tokenizer.sep_id]
    separators = {0, len(segment_a) + 1, len(ids) - 1}
    masked, positions = _mask(ids, separators, tokenizer, config, rng)
    return Instance(masked, len(segment_a) + 2, label, positions, [ids[position] for position in positions])


def _truncate(segment_a: list[int], segment_b: list[int], room: int, rng: random.Random) -> None:
    """Remove pieces from the longer segment, from its front or its back, until both fit."""
    while len(segment_a) + len(segment_b) > room:
        longer = segment_a if len(segment_a) > len(segment_b) else segment_b
        longer.pop(0 if rng.random() < 0.5 else -1)


def _mask(
    ids: list[int], separators: set[int], tokenizer: Tokenizer, config: OriginalConfig, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Hide pieces, or whole words as far as the quota holds them; return the ids and the hidden positions."""
    candidates: list[list[int]] = []
    for position, piece in enumerate(ids):
        if position in separators:
            continue
        if config.whole_word and candidates and tokenizer.is_continuation[piece]:
            candidates[-1].append(position)  # of the word before, even if [SEP] stands between
        else:
            candidates.append([position])
    rng.shuffle(candidates)
    quota = max(1, round(len(ids) * config.masked_lm_prob))
    if config.max_predictions_per_seq is not None:
        quota = min(quota, config.max_predictions_per_seq)
    masked = list(ids)
    chosen: list[int] = []
    for word in candidates:
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
    return masked, sorted(chosen)


def _write_shard(path: Path, instances: Sequence[Instance], vocab_size: int) -> None:
    pieces = piece_type(vocab_size)
    columns = {
        "input_ids": list_array([i.input_ids for i in instances], pieces),
        "length_a": pa.array([i.length_a for i in instances], pa.int32()),
        "next_sentence_label": pa.array([i.next_sentence_label for i in instances], pa.int8()),
        "masked_lm_positions": list_array([i.masked_lm_positions for i in instances], pa.int32()),
        "masked_lm_ids": list_array([i.masked_lm_ids for i in instances], pieces),
    }
    write_batch(path, pa.record_batch(list(columns.values()), names=list(columns)))
