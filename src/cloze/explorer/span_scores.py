"""The start and end logits of every token of a text, from which the answer to a question is chosen.

Shapes: L tokens of a sequence, P tokens of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloze.tasks.features import max_context_windows
from cloze.tasks.questions import SpanFeature
from cloze.tasks.task_batch import Array
from cloze.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SpanScores:
    """Two logits for every token of a text; the lists have P items each."""

    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """The characters of each token."""
    start_logits: tuple[float, ...]
    end_logits: tuple[float, ...]
    null_score: float
    """The score of "no answer": the sum of both logits of [CLS], in the window where that is lowest."""


def join_scores(
    tokenizer: Tokenizer, features: Sequence[SpanFeature], outputs: Sequence[Array]
) -> SpanScores:
    """Return the scores of every token of a text, each from the window with the most context around it.

    Source:
        Devlin et al. 2019, 4.2: S·T_i and E·T_i.
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
    return SpanScores(
        tuple(tokenizer.tokens[i] for i in ids_P),
        tuple((excerpt.start, excerpt.end) for excerpt in excerpts),
        tuple(logits_P2[:, 0].tolist()),
        tuple(logits_P2[:, 1].tolist()),
        min(float(output_L2[0].sum()) for output_L2 in outputs),
    )
