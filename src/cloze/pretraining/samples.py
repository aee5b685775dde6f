"""Choose a few held-out texts with a hidden word, which a run fills in at each evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from cloze.data.batch import PretrainingBatch
from cloze.tokenization.tokenizer import Tokenizer

NUM_SAMPLES = 3
TOP_K = 3
_CONTEXT_TOKENS = 9
"""Tokens of a text on each side of the hidden word that are shown."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A held-out instance, and the hidden word of it that is shown."""

    batch: PretrainingBatch
    """The instance alone."""
    row: int
    """The masked position, counted among those of the instance."""
    text: str
    answer: str


def choose_samples(
    held_out: Sequence[PretrainingBatch], tokenizer: Tokenizer, unigram_nats: Tensor
) -> list[Sample]:
    """Return one hidden word of each of the first held-out instances.

    Of the words of an instance that are hidden by [MASK], the one of median frequency is chosen: neither one that the
    frequencies alone give, nor one that a small model never learns.
    """
    instances = (batch.sequences(i, i + 1) for batch in held_out for i in range(batch.num_sequences))
    samples: list[Sample] = []
    for instance in instances:
        rows = [
            row
            for row, position in enumerate(instance.masked_lm_positions)
            if instance.input_ids[position] == tokenizer.mask_id
            and tokenizer.tokens[instance.masked_lm_ids[row]].isalpha()
        ]
        if not rows:
            continue
        rows.sort(key=lambda row: (float(unigram_nats[instance.masked_lm_ids[row]]), row))
        row = rows[len(rows) // 2]
        answer = tokenizer.text_of(int(instance.masked_lm_ids[row]))
        samples.append(Sample(instance, row, _text_around(instance, row, tokenizer), answer))
        if len(samples) == NUM_SAMPLES:
            break
    return samples


def _text_around(instance: PretrainingBatch, row: int, tokenizer: Tokenizer) -> str:
    """Return the text around a hidden word, with the other hidden words as the model sees them."""
    position = int(instance.masked_lm_positions[row])
    start = max(1, position - _CONTEXT_TOKENS)  # not [CLS]
    end = min(len(instance.input_ids) - 1, position + 1 + _CONTEXT_TOKENS)
    ids = np.asarray(instance.input_ids).tolist()
    hidden = tokenizer.special_token("mask")
    # the other hidden words have another mark: the text has one blank
    parts = [tokenizer.decode(ids[start:position]), tokenizer.decode(ids[position + 1 : end])]
    before, after = (part.replace(hidden, "▢") for part in parts)
    return f"{before} {hidden} {after}".strip()
