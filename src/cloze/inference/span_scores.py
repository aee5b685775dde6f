"""How well each piece of a text begins, or ends, the answer to a question: what an answer is chosen from.

Shapes: L tokens of a sequence, P pieces of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloze.inference.predictor import Predictor
from cloze.tasks.contexts import Paragraph
from cloze.tasks.span import SpanFeature, SpanQuestion
from cloze.tasks.task import Array
from cloze.tasks.windows import window_of_most_context
from cloze.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SpanScores:
    """The two logits of every piece of a text."""

    pieces: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """The characters of each piece, [P]."""
    start_logits: tuple[float, ...]
    """[P]."""
    end_logits: tuple[float, ...]
    """[P]."""
    null_score: float
    """Of no answer: the sum of both logits of [CLS], in the window where that is lowest."""


def span_scores(answerer: Predictor, question: str, context: str) -> SpanScores:
    """Score every piece of a text, in the window that shows most of what is around it.

    Args:
        answerer: a model that answers questions.
        question: one.
        context: the text, of any length.

    Source:
        Devlin et al. 2019, 4.2: S·T_i and E·T_i.
    """
    features = answerer.features(SpanQuestion("0", question, Paragraph(context)))
    return join_scores(answerer.tokenizer, features, answerer.outputs(features))


def join_scores(
    tokenizer: Tokenizer, features: Sequence[SpanFeature], outputs: Sequence[Array]
) -> SpanScores:
    """Return the scores of every piece of a text out of those of all its windows."""
    own = features[0].context
    ids_P = own.input_ids
    excerpts = [own.excerpt(piece, piece) for piece in range(len(ids_P))]
    logits_P2 = np.zeros((len(ids_P), 2))
    best_window_P = window_of_most_context([feature.window for feature in features])
    for number, feature in enumerate(features):
        start, length = feature.window.start, feature.window.length
        own_L2 = outputs[number][feature.first_token :][:length]
        shown_L = best_window_P[start : start + length] == number
        logits_P2[start : start + length][shown_L] = own_L2[shown_L]
    return SpanScores(
        tuple(tokenizer.pieces[i] for i in ids_P),
        tuple((excerpt.start, excerpt.end) for excerpt in excerpts),
        tuple(logits_P2[:, 0].tolist()),
        tuple(logits_P2[:, 1].tolist()),
        min(float(own_L2[0].sum()) for own_L2 in outputs),
    )
