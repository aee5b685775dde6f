"""The family of tasks that answer a question with a part of a text.

Shapes: T tokens in the packed batch, B sequences, L tokens of a sequence, P pieces of the text in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.model.bert import BertModel
from cloze.model.heads import BertForQuestionAnswering
from cloze.model.packed import Packed
from cloze.tasks.answers import Answer, ScoredWindow, likeliest_answers
from cloze.tasks.contexts import Context, Excerpt, Paragraph
from cloze.tasks.task import Array, TargetBatch, Task
from cloze.tasks.windows import Window, cut_windows, window_of_most_context
from cloze.text.tokenizer import Tokenizer
from cloze.training.measures import Measures

Integers: TypeAlias = npt.NDArray[np.int32]

_NUM_SPECIALS = 3  # [CLS] and two [SEP]


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    """An example: a question on a text, and its answers where they are known."""

    id: str
    question: str
    paragraph: Paragraph
    answers: tuple[Excerpt, ...] = ()
    """What is right; training learns the first. None where the text does not answer the question."""
    where: str = "question"
    """File and place in it."""


@dataclass(frozen=True, eq=False, slots=True)
class SpanFeature:
    """A feature: `[CLS] question [SEP] window [SEP]` of the text, and where the answer is in it."""

    input_ids: Integers
    context: Context
    window: Window
    target: tuple[int, int]
    """The first and the last token of the answer; [CLS], 0, where the window does not hold all of it."""
    is_truncated: bool
    """Whether the question was cut."""

    @property
    def num_tokens(self) -> int:
        """L."""
        return len(self.input_ids)

    @property
    def first_token(self) -> int:
        """Where the pieces of the text begin."""
        return self.num_tokens - self.window.length - 1


@dataclass(frozen=True, slots=True)
class SpanPrediction:
    """A prediction: the answer, and what else it could be."""

    answer: Answer
    candidates: tuple[Answer, ...]
    """The likeliest first, "no answer" among them where that may be."""
    null_odds: float | None = None
    """How much more the model says for no answer than for the best one: a difference of logits."""

    @property
    def best(self) -> Answer | None:
        """The likeliest answer that says something."""
        return next((answer for answer in self.candidates if answer.text), None)


@dataclass(frozen=True, kw_only=True)
class SpanTask(Task[SpanQuestion, SpanFeature, TargetBatch, SpanPrediction]):
    """A vector for the beginning of the answer and one for its end (Devlin et al. 2019, 4.2 and 4.3).

    Source: Devlin et al. 2019, 4.2 and 4.3; google-research/bert run_squad.py @eedf571.

    Differs: the softmax is over the sequence, where Google's runs over its padding as well.
    """

    main_metric: ClassVar[str] = "f1"
    may_be_none: ClassVar[bool]
    """Whether a text may hold no answer."""
    defaults: ClassVar[tuple[str, ...]] = ("max_seq_length=384",)

    doc_stride: int = 128
    """From the beginning of a window of the text to that of the next, in pieces."""
    max_query_length: int = 64
    """Pieces of a question; what is longer is cut."""
    max_answer_length: int = 30
    """Pieces of an answer."""
    n_best_size: int = 20
    """Answers to choose from."""
    original: bool = False
    """Tokenize and find the text of an answer as Google's code does, word by word, without offsets."""

    def __post_init__(self) -> None:
        for name in ("doc_stride", "max_query_length", "max_answer_length", "n_best_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is not positive")

    def origin(self, example: SpanQuestion) -> str:
        """Return the text of a question."""
        return example.paragraph.text

    def features(
        self, example: SpanQuestion, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[SpanFeature]:
        """Tokenize a question and put it before each window of its text."""
        context = example.paragraph.context(tokenizer, original=self.original)
        query = (
            tokenizer.reference.ids(example.question)
            if self.original
            else tokenizer.encode(example.question).input_ids[1:-1]
        )
        kept = query[: min(self.max_query_length, max_seq_length - _NUM_SPECIALS - 1)]
        front = np.array([tokenizer.cls_id, *kept, tokenizer.sep_id], np.int32)
        end = np.array([tokenizer.sep_id], np.int32)
        answer = context.pieces_of(example.answers[0]) if example.answers else None
        size = max_seq_length - _NUM_SPECIALS - len(kept)
        return [
            SpanFeature(
                np.concatenate([front, context.input_ids[window.start :][: window.length], end]),
                context,
                window,
                _target(answer, window, len(front)),
                is_truncated=len(kept) < len(query),
            )
            for window in cut_windows(len(context.input_ids), size, self.doc_stride)
        ]

    def batch(self, features: Sequence[SpanFeature]) -> TargetBatch:
        """Pack windows in the order given."""
        lengths = [feature.num_tokens for feature in features]
        packed = Packed.from_arrays(
            np.concatenate([feature.input_ids for feature in features]),
            np.concatenate([np.arange(feature.num_tokens) >= feature.first_token for feature in features]),
            np.concatenate([np.arange(length) for length in lengths]),
            [0, *accumulate(lengths)],
        )
        return TargetBatch(packed, torch.tensor([feature.target for feature in features]))

    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> BertForQuestionAnswering:
        """Return the encoder with two scores for every token."""
        return BertForQuestionAnswering(bert, generator=generator)

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the cross entropy of logits [T, 2], softmax over each sequence: the mean of begin and end, summed.

        Differs: the paper's is the sum of begin and end; Google's code takes the mean, and so does this.
        """
        logits_BL2 = nn.utils.rnn.pad_sequence(
            _split(logits, batch), batch_first=True, padding_value=-torch.inf
        )
        loss = nn.functional.cross_entropy(logits_BL2, batch.targets, reduction="sum") / 2
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def outputs(self, logits: Tensor, batch: TargetBatch) -> list[Array]:
        """Return logits, [L, 2] for each sequence."""
        return [own_L2.numpy() for own_L2 in _split(logits.cpu(), batch)]

    def decode(
        self, example: SpanQuestion, features: Sequence[SpanFeature], outputs: Sequence[Array]
    ) -> SpanPrediction:
        """Return the likeliest answers, of all windows."""
        best_window_P = window_of_most_context([feature.window for feature in features])
        windows = [
            ScoredWindow(
                logits_L2[:, 0].astype(np.float64),
                logits_L2[:, 1].astype(np.float64),
                feature.context,
                feature.first_token,
                feature.window.start,
                best_window_P[feature.window.start :][: feature.window.length] == number,
            )
            for number, (feature, logits_L2) in enumerate(zip(features, outputs, strict=True))
        ]
        candidates = likeliest_answers(
            windows,
            n_best_size=self.n_best_size,
            max_answer_length=self.max_answer_length,
            may_be_none=self.may_be_none,
        )
        return SpanPrediction(candidates[0], tuple(candidates))

    def to_json(self, example: SpanQuestion, prediction: SpanPrediction) -> dict[str, Any]:
        """Return the answer with its place in the text, in characters, and the other candidates."""
        odds = prediction.null_odds
        return {
            "id": example.id,
            **_answer_to_json(prediction.answer),
            **({} if odds is None else {"null_odds": odds}),
            "candidates": [_answer_to_json(answer) for answer in prediction.candidates],
        }

    def from_json(self, values: Mapping[str, Any]) -> SpanPrediction:
        """Read the answer."""
        text = values["answer"]
        if not isinstance(text, str):
            raise TypeError(f"answer {text!r} is not a text")
        return SpanPrediction(Answer(Excerpt(text, 0, len(text)) if text else None), ())


def answers_of(examples: Sequence[SpanQuestion]) -> dict[str, list[str]]:
    """Return the accepted answers of each question by its id, as the official scores want them."""
    return {example.id: [answer.text for answer in example.answers] for example in examples}


def _target(answer: tuple[int, int] | None, window: Window, first_token: int) -> tuple[int, int]:
    """Return the first and the last token of an answer, given its pieces; 0 and 0 where it is not all there.

    Differs: the paper says nothing of a window without the answer, and a comment in Google's code that it is left
    out; that code learns to point at [CLS] there, and so does this.
    """
    if answer is None:
        return 0, 0
    first, last = answer
    if not window.start <= first <= last < window.start + window.length:
        return 0, 0
    return first_token + first - window.start, first_token + last - window.start


def _split(logits: Tensor, batch: TargetBatch) -> list[Tensor]:
    lengths = [run.length for run in batch.packed.runs for _ in range(run.count)]
    return list(torch.split(logits, lengths))


def _answer_to_json(answer: Answer) -> dict[str, Any]:
    place = answer.excerpt
    return {
        "answer": answer.text,
        "start": None if place is None else place.start,
        "end": None if place is None else place.end,
        "probability": answer.probability,
    }
