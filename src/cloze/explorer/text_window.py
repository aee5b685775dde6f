"""What the explorer shows of a text: a part that fits, and scores of its tokens as answers.

Shapes: P tokens of a text, L tokens of a sequence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from cloze.errors import InputError
from cloze.tasks.features import max_context_windows
from cloze.tasks.questions import SpanFeature
from cloze.tasks.task_batch import Array
from cloze.tokenization.tokenizer import Encoding, Tokenizer

if TYPE_CHECKING:  # a graph answers without torch
    from cloze.models.encoder import Encoder

MAX_WEIGHTS = 1 << 20
"""Attention weights in a response, 4 bytes each."""


@dataclass(frozen=True, slots=True)
class TextWindow:
    """A part of a text that the model computes alone or with a pair; tokens are counted without special ones."""

    text: str
    pair: str | None
    encoding: Encoding
    """Of the part and the pair."""
    start: int
    """The first of its tokens, counted from 0."""
    count: int
    total: int
    """Tokens of the whole text."""

    def written_tokens(self, tokenizer: Tokenizer) -> list[str]:
        """Return the tokens of both, in place of unknown ones the characters of their text."""
        encoding = self.encoding
        columns = encoding.input_ids, encoding.tokens, encoding.offsets, encoding.sequence_ids
        return [
            ((self.pair or "") if sequence else self.text)[start:end]
            if token_id == tokenizer.unknown_id and start < end
            else token
            for token_id, token, (start, end), sequence in zip(*columns, strict=True)
        ]


def max_window_tokens(encoder: "Encoder", *, max_weights: int = MAX_WEIGHTS) -> int:
    """Return the tokens, with [CLS] and [SEP], that all heads can be shown for."""
    config = encoder.config
    limit = isqrt(max_weights // (config.num_hidden_layers * config.num_attention_heads))
    if encoder.half_window is not None:
        limit = min(limit, encoder.half_window + 1)
    return min(limit, config.max_position_embeddings)


def text_window(
    tokenizer: Tokenizer, text: str, pair: str | None = None, *, start: int | None = None, max_tokens: int
) -> TextWindow:
    """Return the whole text, or as many of its words from a token on as are shown beside the pair.

    Args:
        pair: a second text, which is not cut.
        start: the first token of the window, counted from 0 without [CLS]. None puts the first [MASK] into the
            middle, and begins with the text where it has none.
        max_tokens: with [CLS], [SEP] and the pair, which must leave room for a token.
    """
    encoding, whole = tokenizer.encode(text), tokenizer.encode(text, pair)
    total, length = len(encoding) - 2, len(whole)
    if length <= max_tokens:
        return TextWindow(text, pair, whole, 0, total, total)
    room = max_tokens - (length - total)
    if room < 1:
        what = f"{length - total} tokens beside the text, at most {max_tokens - 1} can be shown"
        raise InputError(what, where="pair", remedy="Give a shorter second text")
    ids, continues = encoding.input_ids[1:-1], tokenizer.is_continuation
    if start is None:
        start = ids.index(tokenizer.mask_id) - room // 2 if tokenizer.mask_id in ids else 0
    start = max(0, min(start, total - room))
    starts = [place for place in range(total) if not continues[ids[place]]]  # of words
    start = next((place for place in starts if start <= place < start + room), start)
    end = min(start + room, total)
    if end < total:
        end = next((place for place in reversed(starts) if start < place <= end), end)
    offsets = encoding.offsets[1:-1]
    shown = text[offsets[start][0] : offsets[end - 1][1]]
    return TextWindow(shown, pair, tokenizer.encode(shown, pair), start, end - start, total)


def join_scores(
    tokenizer: Tokenizer, features: Sequence[SpanFeature], outputs: Sequence[Array]
) -> dict[str, Any]:
    """Return the logits of every token of a text, each from the window with the most context around it.

    Returns:
        `tokens`, in place of unknown ones their characters; `offsets`, the characters of each; `start_logits` and
        `end_logits`; and `null_score`, the score of "no answer": the lowest sum of both logits of [CLS].

    Source: Devlin et al. 2019, 4.2: S·T_i and E·T_i.
    """
    context = features[0].context
    ids_P = context.input_ids
    excerpts = [context.excerpt(token, token) for token in range(len(ids_P))]
    logits_P2 = np.zeros((len(ids_P), 2))
    best_window_P = max_context_windows([feature.window for feature in features])
    for number, (feature, output_L2) in enumerate(zip(features, outputs, strict=True)):
        window_L2 = output_L2[feature.first_token : -1]
        is_best_L = best_window_P[feature.window] == number
        logits_P2[feature.window][is_best_L] = window_L2[is_best_L]
    return {
        "tokens": [
            excerpt.text if token_id == tokenizer.unknown_id and excerpt.text else tokenizer.tokens[token_id]
            for token_id, excerpt in zip(ids_P, excerpts, strict=True)
        ],
        "offsets": [(excerpt.start, excerpt.end) for excerpt in excerpts],
        "start_logits": logits_P2[:, 0].tolist(),
        "end_logits": logits_P2[:, 1].tolist(),
        "null_score": min(float(output_L2[0].sum()) for output_L2 in outputs),
    }
