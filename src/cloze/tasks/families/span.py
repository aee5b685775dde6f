"""The family of extractive question answering: the answer is a span of a paragraph.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, P tokens of the paragraph in it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cloze.config import check_positive
from cloze.data.batch import collate
from cloze.data.reading.columns import Column
from cloze.metrics.squad import exact_score
from cloze.tasks.features import max_context_windows, sliding_windows
from cloze.tasks.paragraphs import Questions, SpanFeature, SpanQuestion
from cloze.tasks.span_decoding import Answer, ScoredWindow, SpanPrediction, best_answers
from cloze.tasks.table_task import ID, TableTask
from cloze.tasks.task_batch import GoldAnswer, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class SpanTask(TableTask[SpanQuestion, SpanFeature, SpanPrediction]):
    """A start vector and an end vector, whose products with each token score it as first and last of the answer.

    Source: Devlin et al. 2019, 4.2 and 4.3; google-research/bert run_squad.py @eedf571.

    Differs: the softmax is over the sequence; Google's includes the padding. A window learns the first answer that it
    contains; Google's code takes the first answer of the question, and trains other windows as without an answer.
    """

    columns = (Column("question"), Column("context"), Column("answers", "label"), ID)
    allows_no_answer: ClassVar[bool]
    """Whether a paragraph may have no answer."""
    defaults: ClassVar[tuple[str, ...]] = ("max_seq_length=384",)
    ranked_field: ClassVar[str | None] = "candidates"
    head_name = "BertForQuestionAnswering"

    doc_stride: int = 128
    """Tokens from the start of a window to that of the next."""
    max_query_length: int = 64
    """Maximum tokens of a question; a longer one is truncated."""
    max_answer_length: int = 30
    """Maximum tokens of an answer."""
    n_best_size: int = 20
    """Number of candidates."""
    original: bool = False
    """Tokenize word by word and search for the text of an answer as Google's code does, without offsets, and train on
    the first answer only."""

    def __post_init__(self) -> None:
        check_positive(self, "doc_stride", "max_query_length", "max_answer_length", "n_best_size")

    def notes(self, examples: Questions, tokenizer: Tokenizer) -> list[str]:
        """Return how many questions have answers at several places, and which of them are trained."""
        several = sum(len({(answer.start, answer.end) for answer in e.answers}) > 1 for e in examples)
        trained = (
            "only the first is trained" if self.original else "a window learns the first that it contains"
        )
        what = f"{several:,} of {len(examples):,} training questions have answers at several places"
        return [f"{what}: {trained}"] if several else []

    def describe_truncation(self, examples: str, max_seq_length: int) -> str:
        """Return what was truncated: of long questions the end; texts are read in windows."""
        return f"{examples} have a question of more than {self.max_query_length} tokens"

    def split_group(self, example: SpanQuestion) -> str:
        return example.paragraph.text

    def features(
        self, example: SpanQuestion, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[SpanFeature]:
        """Tokenize a question and put it before each window of its paragraph."""
        context = example.paragraph.context(tokenizer, original=self.original)
        if self.original:
            query = tokenizer.google_tokenizer.ids(example.question)
        else:
            query = tokenizer.encode(example.question).input_ids[1:-1]
        num_special = tokenizer.template(is_pair=True).num_special
        kept = query[: min(self.max_query_length, max_seq_length - num_special - 1)]
        front_length = num_special - 1 + len(kept)
        answers = [context.token_span(a) for a in example.answers[: 1 if self.original else None]]
        size = max_seq_length - num_special - len(kept)
        features = []
        for window in sliding_windows(len(context.input_ids), size, self.doc_stride):
            input_ids, token_type_ids = tokenizer.join(kept, context.input_ids[window].tolist())
            target = _target(answers, window, front_length)
            is_truncated = len(kept) < len(query)
            features.append(
                SpanFeature(
                    np.array(input_ids, np.int32),
                    np.array(token_type_ids, np.int8),
                    context,
                    window,
                    target,
                    is_truncated,
                )
            )
        return features

    def batch(self, features: Sequence[SpanFeature]) -> TaskBatch:
        batch = collate(
            [feature.input_ids for feature in features],
            [feature.token_type_ids for feature in features],
        )
        targets = np.array([feature.target for feature in features])
        return TaskBatch.extend(batch, targets=targets, counts=tuple(f.num_tokens for f in features))

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the cross entropy of logits [T, 2] over each sequence, the mean of start and end, summed.

        Differs: the paper has the sum of start and end; Google's code takes the mean, and so does this.
        """
        from torch import nn

        from cloze.training.losses import pad_groups

        logits_BL2 = pad_groups(logits, batch.counts, -math.inf)
        loss = nn.functional.cross_entropy(logits_BL2, batch.targets, reduction="sum") / 2
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def decode(
        self, example: SpanQuestion, features: Sequence[SpanFeature], outputs: Outputs
    ) -> SpanPrediction:
        best_window_P = max_context_windows([feature.window for feature in features])
        windows = [
            ScoredWindow(feature, logits_L2.astype(np.float64), best_window_P[feature.window] == index)
            for index, (feature, logits_L2) in enumerate(zip(features, outputs, strict=True))
        ]
        candidates = best_answers(
            windows,
            n_best_size=self.n_best_size,
            max_answer_length=self.max_answer_length,
            allows_no_answer=self.allows_no_answer,
        )
        return SpanPrediction.choose(candidates[0], candidates)

    def gold(self, example: SpanQuestion) -> list[str]:
        """Return the accepted answers; "" if there is none."""
        return list(dict.fromkeys(answer.text for answer in example.answers)) or [""]

    def pairs(self, example: SpanQuestion, prediction: SpanPrediction) -> Iterator[GoldAnswer]:
        """Yield the accepted answers beside the predicted one, which is gold if it equals one; "" is "no answer"."""
        accepted, text = self.gold(example), prediction.text
        gold = text if exact_score(accepted, text) else accepted[0]
        context = {"context": example.paragraph.text}
        yield GoldAnswer(gold, text, prediction.probability, " | ".join(accepted), details=context)

    def to_json(self, example: SpanQuestion, prediction: SpanPrediction) -> dict[str, Any]:
        odds = {} if prediction.null_odds is None else {"null_odds": prediction.null_odds}
        candidates = [_answer_to_json(answer) for answer in prediction.candidates]
        return {"id": example.id, **_answer_to_json(prediction), **odds, "candidates": candidates}

    def from_json(self, values: Mapping[str, Any]) -> SpanPrediction:
        text = values["answer"]
        if not isinstance(text, str):
            raise TypeError(f"answer {text!r} is not a text")
        return SpanPrediction(text, probability=values.get("probability", math.nan))


def gold_answers(examples: Questions) -> dict[str, list[str]]:
    """Return the accepted answers of each question by its id, as the official scores need them."""
    return {example.id: [answer.text for answer in example.answers] for example in examples}


def _target(answers: Sequence[tuple[int, int]], window: slice, first_token: int) -> tuple[int, int]:
    """Return the first and the last token in the sequence of the first answer that is wholly in the window, or 0 and 0.

    Differs: the paper does not mention windows without the answer, and a comment in Google's code says that they are
    left out; the code trains on [CLS] there, and so does this.
    """
    shift = first_token - window.start
    contained = (a for a in answers if window.start <= a[0] <= a[1] < window.stop)
    return next(((shift + first, shift + last) for first, last in contained), (0, 0))


def _answer_to_json(answer: Answer) -> dict[str, Any]:
    place = {"start": answer.start, "end": answer.end}
    return {"answer": answer.text, **place, "probability": answer.probability}
