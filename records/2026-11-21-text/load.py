"""Time reading a data set into packed, masked batches in memory, compared with transformers.

    PYTHONPATH=. python records/2026-11-21-text/load.py DATASET -o record
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.commands import run_program
from benchmarks.harness import Check, Contestant, Result, TimedBenchmark, import_peer, repeat
from benchmarks.padding import IGNORED
from benchmarks.pretrain import Pretrain
from cloze.cli.options import Flag
from cloze.data.batch import DataPosition, PretrainingBatch
from cloze.data.dataset import Dataset
from cloze.data.instances.instances import DynamicInstances, micro_batches, take
from cloze.data.instances.masking import MaskingConfig
from cloze.pretraining.data import build_dynamic_instances
from cloze.tokenization.loading import load_tokenizer

_STEPS = 16
_SHARE_TOLERANCE = 0.01


@dataclass(frozen=True, kw_only=True)
class Load(TimedBenchmark):
    """A data set to packed, masked batches in memory, in tokens per second of one processor core."""

    name: ClassVar[str] = "load"

    data: Annotated[Path, Flag(metavar="DATASET", is_positional=True)]
    """A data set of cloze corpus."""
    batch: int = 256
    """Sequence pairs per step."""
    max_seq_length: int = 128
    """Maximum number of tokens of a pair."""
    micro_batch_tokens: int = 4096
    """Maximum number of tokens of a micro-batch."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare reading, pairing, truncating, masking and packing with a collator that pads and masks ready pairs."""
        tokens, words = (self._instances(whole_word=whole_word) for whole_word in (False, True))
        started = time.perf_counter()
        num_instances = tokens.num_instances(0)
        planning = time.perf_counter() - started
        words.num_instances(0)
        batches = self._load(tokens)
        num_tokens = sum(len(batch.input_ids) for batch in batches)
        does = "reads mapped shards, pairs, truncates, masks and packs; {} are masked; one thread"
        contestants = [
            Contestant("cloze", does.format("tokens"), repeat(partial(self._load, tokens))),
            Contestant("cloze, whole words", does.format("words"), repeat(partial(self._load, words))),
        ]
        checks: Sequence[Check] = ()
        with _one_thread():
            if peers:
                transformers = import_peer("transformers")
                tokenizer = transformers.AutoTokenizer.from_pretrained(self.data)
                collate = transformers.DataCollatorForLanguageModeling(tokenizer)
                examples = [_examples(batch, tokenizer) for batch in batches]
                does = (
                    "DataCollatorForLanguageModeling pads and masks the same pairs, given as lists with their special "
                    "tokens marked; one thread"
                )

                def work() -> list[Any]:
                    return list(map(collate, examples))

                checks = _compare(batches, work())
                contestants.append(Contestant("transformers", does, repeat(work)))
            timings = self.measure(contestants)
        return self.describe(
            timings,
            settings={
                "batch_size": self.batch,
                "max_seq_length": self.max_seq_length,
                "micro_batch_tokens": self.micro_batch_tokens,
                "steps": _STEPS,
                "rounds": self.rounds,
            },
            amount=float(num_tokens),
            unit="tokens",
            checks=checks,
            notes=(
                f"{num_tokens:,} real tokens of {self.data}, read before the first round",
                f"planning the {num_instances:,} pairs of an epoch, once per epoch: {planning:.3g} s",
            ),
        )

    def _instances(self, *, whole_word: bool) -> DynamicInstances:
        """Return the instances of a run's first phase."""
        step = Pretrain(data=self.data, batch=self.batch, max_seq_length=self.max_seq_length)
        settings = replace(step.settings(), masking=MaskingConfig(whole_word=whole_word))
        documents, tokenizer = Dataset.open(self.data).split("train"), load_tokenizer(self.data)
        return build_dynamic_instances(
            settings, settings.phases[0], documents, tokenizer, seed=settings.seed, number=0
        )

    def _load(self, source: DynamicInstances) -> list[PretrainingBatch]:
        """Draw the batches of the first steps of an epoch, as training does."""
        batches: list[PretrainingBatch] = []
        position = DataPosition()
        for _ in range(_STEPS):
            parts, position = take(source, position, self.batch)
            for epoch, positions in parts:
                batches += micro_batches(source, epoch, positions, self.micro_batch_tokens)
        return batches


def _examples(batch: PretrainingBatch, tokenizer: Any) -> list[dict[str, list[int]]]:
    """Return the sequences of a batch as lists without masks and padding."""
    ids, types = _unmasked(batch).tolist(), batch.token_type_ids.tolist()
    special = partial(tokenizer.get_special_tokens_mask, already_has_special_tokens=True)
    return [
        {
            "input_ids": ids[start:end],
            "token_type_ids": types[start:end],
            "special_tokens_mask": special(ids[start:end]),
        }
        for start, end in pairwise(batch.cu_seqlens.tolist())
    ]


def _unmasked(batch: PretrainingBatch) -> npt.NDArray[np.int64]:
    ids: npt.NDArray[np.int64] = batch.input_ids.copy()
    ids[batch.masked_lm_positions] = batch.masked_lm_ids
    return ids


def _compare(ours: list[PretrainingBatch], theirs: list[Any]) -> tuple[Check, Check]:
    """Compare the text under the masks, and the share of tokens to predict."""
    differ = predicted = tokens = 0
    for batch, collated in zip(ours, theirs, strict=True):
        labels = collated["labels"]
        ids = torch.where(labels == IGNORED, collated["input_ids"], labels)
        differ += int((ids[collated["attention_mask"].bool()].numpy() != _unmasked(batch)).sum())
        predicted += int((labels != IGNORED).sum()) - len(batch.masked_lm_ids)
        tokens += len(batch.input_ids)
    return (
        Check("share of tokens that differ from transformers", differ / tokens, 0.0),
        Check(
            "share of predicted tokens compared with transformers", abs(predicted) / tokens, _SHARE_TOLERANCE
        ),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


if __name__ == "__main__":
    sys.exit(run_program(Load, "load.py", sys.argv[1:]))
