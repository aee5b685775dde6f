"""`cloze bench load`: a data set to packed, masked batches in memory, in tokens a second of one processor."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cloze.corpus.batches import Cursor, DrawnInstances, PackedBatch, micro_batches, take
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.corpus.store import Dataset
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Comparison,
    Side,
    alternate,
    environment_of,
    import_peer,
    require_peers,
)
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

PEERS = ("transformers",)
_STEPS = 16
_SHARE_TOLERANCE = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadBenchmark:
    """What is measured."""

    data: Path
    """A data set of `cloze corpus`."""
    batch_size: int = 256
    """Sequence pairs a step."""
    max_seq_length: int = 128
    micro_batch_tokens: int = 4096
    """As the training cuts a step."""
    seed: int = 12345

    def source(self, *, whole_word: bool) -> DrawnInstances:
        """Return the instances of a run's first phase."""
        dataset, masking = Dataset.open(self.data), MaskingConfig(whole_word=whole_word)
        return DrawnInstances(
            dataset.split("train"),
            Tokenizer.load(self.data),
            max_seq_length=self.max_seq_length,
            max_predictions_per_seq=math.ceil(masking.masked_lm_prob * self.max_seq_length),
            pairs=PairsConfig(),
            masking=masking,
            seed=self.seed,
            phase=0,
        )


def bench_load(
    benchmark: LoadBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare reading, pairing, cutting, masking and packing with a peer that pads and masks pairs in memory.

    Raises:
        InputError: there is no such data set, a peer is unknown or not installed.
    """
    require_peers(peers, PEERS)
    pieces, words = (benchmark.source(whole_word=whole_word) for whole_word in (False, True))
    started = time.perf_counter()
    instances = pieces.num_instances(0)
    planning = time.perf_counter() - started
    words.num_instances(0)
    batches = _load(pieces, benchmark)
    num_tokens = sum(len(batch.input_ids) for batch in batches)
    sides = [
        _our_side("cloze", "pieces are masked", pieces, benchmark),
        _our_side("cloze, whole words", "words are masked", words, benchmark),
    ]
    checks: list[Check] = []
    with _one_thread():
        if "transformers" in peers:
            tokenizer = import_peer("transformers").AutoTokenizer.from_pretrained(benchmark.data)
            collate = import_peer("transformers").DataCollatorForLanguageModeling(tokenizer)
            examples = [_examples(batch, tokenizer) for batch in batches]
            checks += _compare(batches, [collate(each) for each in examples])
            sides.append(_their_side(collate, examples))
        timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    return Comparison(
        name="load",
        settings={
            "batch_size": benchmark.batch_size,
            "max_seq_length": benchmark.max_seq_length,
            "micro_batch_tokens": benchmark.micro_batch_tokens,
            "steps": _STEPS,
            "rounds": rounds,
        },
        amount=float(num_tokens),
        unit="tokens",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(torch.device("cpu"), torch.float32, peers),
        notes=(
            f"{num_tokens:,} real tokens of {benchmark.data}, read before the first round",
            f"planning an epoch's {instances:,} pairs, once an epoch: {planning:.3g} s",
        ),
    )


def _load(source: DrawnInstances, benchmark: LoadBenchmark) -> list[PackedBatch]:
    """Draw the batches of an epoch's first steps, as the training does."""
    batches: list[PackedBatch] = []
    cursor = Cursor()
    for _ in range(_STEPS):
        parts, cursor = take(source, cursor, benchmark.batch_size)
        for epoch, positions in parts:
            batches += micro_batches(source, epoch, positions, benchmark.micro_batch_tokens)
    return batches


def _our_side(name: str, how: str, source: DrawnInstances, benchmark: LoadBenchmark) -> Side:
    does = f"reads mapped shards, pairs, cuts, masks and packs; {how}; one thread"
    return Side(name, does, lambda: lambda: _load(source, benchmark))


def _examples(batch: PackedBatch, tokenizer: Any) -> list[dict[str, list[int]]]:
    """Return the sequences of a batch as one has them before collating: lists, nothing masked, nothing padded."""
    ids = _original(batch).tolist()
    types = batch.token_type_ids.tolist()
    return [
        {
            "input_ids": ids[start:end],
            "token_type_ids": types[start:end],
            "special_tokens_mask": tokenizer.get_special_tokens_mask(
                ids[start:end], already_has_special_tokens=True
            ),
        }
        for start, end in pairwise(batch.cu_seqlens.tolist())
    ]


def _original(batch: PackedBatch) -> npt.NDArray[np.int64]:
    ids = batch.input_ids.copy()
    ids[batch.masked_lm_positions] = batch.masked_lm_ids
    return ids


def _their_side(collate: Callable[[Any], Any], examples: list[list[dict[str, list[int]]]]) -> Side:
    does = (
        "DataCollatorForLanguageModeling pads and masks the same pairs, which lie ready as lists with their special "
        "tokens marked; one thread"
    )
    return Side("transformers", does, lambda: lambda: [collate(each) for each in examples])


def _compare(ours: list[PackedBatch], theirs: list[Any]) -> tuple[Check, Check]:
    """Compare the text beneath the masks, and how much of it is to be predicted."""
    differ = predicted = tokens = 0
    for batch, collated in zip(ours, theirs, strict=True):
        labels = collated["labels"]
        ids = torch.where(labels == -100, collated["input_ids"], labels)[collated["attention_mask"].bool()]
        differ += int((ids.numpy() != _original(batch)).sum())
        predicted += int((labels != -100).sum()) - len(batch.masked_lm_ids)
        tokens += len(batch.input_ids)
    return (
        Check("tokens beside transformers, share that differs", differ / tokens, 0.0),
        Check("share of tokens predicted beside transformers", abs(predicted) / tokens, _SHARE_TOLERANCE),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
