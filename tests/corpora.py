"""Small vocabularies and shards for tests, and what is in data sets and batches."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from cloze.data.batch import PretrainingBatch
from cloze.data.dataset import Documents
from cloze.data.shards import Shard, to_offsets
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.wordpiece import WordPieceTokenizer

Rows = Sequence[Sequence[Sequence[int]]]
"""Documents of sentences of tokens."""
Instance = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
"""The ids before masking, the ids, the segments, the predicted positions, and the label."""


def save_vocabulary(directory: Path, words: Iterable[str]) -> Path:
    """Write a tokenizer of the special tokens and some words."""
    directory.mkdir(exist_ok=True)
    WordPieceTokenizer.from_tokens([*SPECIAL_TOKENS, *words]).save(directory)
    return directory


def shard_of(rows: Rows, digests: Iterable[int]) -> Shard:
    """Return a shard without long paragraphs."""
    sentences = [sentence for row in rows for sentence in row]
    return Shard(
        token_ids=np.array([token for sentence in sentences for token in sentence], np.uint32),
        sentence_offsets=to_offsets(list(map(len, sentences))),
        document_offsets=to_offsets(list(map(len, rows))),
        document_digests=np.array(list(digests), np.uint64),
        paragraph_offsets=np.zeros(len(rows) + 1, np.int64),
        paragraph_digests=np.zeros(0, np.uint64),
        paragraph_starts=np.zeros(0, np.int64),
        paragraph_ends=np.zeros(0, np.int64),
    )


def rows_of(documents: Documents) -> list[list[list[int]]]:
    return [
        [
            documents.read(start, end).tolist()
            for start, end in pairwise(documents.sentence_bounds(n).tolist())
        ]
        for n in range(len(documents))
    ]


def instances_of(batch: PretrainingBatch) -> list[Instance]:
    """Take a batch apart."""
    original = batch.input_ids.copy()
    original[batch.masked_lm_positions] = batch.masked_lm_ids
    instances = []
    for number, (start, end) in enumerate(pairwise(batch.cu_seqlens.tolist())):
        assert batch.position_ids[start:end].tolist() == list(range(end - start))
        inside = (batch.masked_lm_positions >= start) & (batch.masked_lm_positions < end)
        arrays = (original[start:end], batch.input_ids[start:end], batch.token_type_ids[start:end])
        positions = batch.masked_lm_positions[inside] - start
        ids, read, types, positions = (tuple(array.tolist()) for array in (*arrays, positions))
        instances.append((ids, read, types, positions, int(batch.next_sentence_labels[number])))
    return instances
