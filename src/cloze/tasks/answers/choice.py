"""The best continuation of a text, out of any number of choices.

A score for each choice is the product of a vector with the pooled [CLS] of text and choice; a softmax over them.

Shapes: B examples, S sequences (one per choice), C choices of an example.

Source: Devlin et al. 2019, 4.4.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from cloze.choices import LongTexts, MissingLabels
from cloze.data.reading.bad_rows import MissingLabelError
from cloze.data.reading.memory import Data
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics.classification import is_majority_better
from cloze.results import Result
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.arrays import softmax
from cloze.tasks.features import TextFeature, TextFeatures, encode_choices, pack
from cloze.tasks.labels import NO_LABELS, read_label
from cloze.tasks.task_batch import Baseline, GoldAnswer, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import ChoiceQuestion
from cloze.tokenization.tokenizer import Tokenizer

ChoiceQuestions = Sequence[ChoiceQuestion]


@dataclass(frozen=True, slots=True, repr=False)
class ChoicePrediction(Result):
    """The index of the most probable choice, and the probabilities of all."""

    choice: int
    probability: float
    probabilities: list[float]


@dataclass(frozen=True, kw_only=True)
class Choice(AnswerKind[ChoiceQuestion, ChoicePrediction]):
    """One of the choices. A label is its index, counted from 0."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    head_name = "BertForMultipleChoice"
    keys: ClassVar[tuple[str, ...]] = ("choice", "probability", "probabilities")

    label_column: str = "label"
    missing_labels: MissingLabels = "refuse"
    """Refuse rows without a label, or drop and count them, with those whose label is a placeholder such as n/a or -."""
    long_texts: LongTexts = "truncate"
    """Truncate long texts, or read the prompt in windows and average their scores."""

    def read(self, row: Row) -> int:
        label = read_label(row, missing=self.missing_labels)
        if not (label.isascii() and label.isdigit()):
            kind = MissingLabelError if label in NO_LABELS else InputError
            raise kind(f"label {label!r} is not the number of a choice, counted from 0", where=row.where)
        return int(label)

    def features(
        self, example: ChoiceQuestion, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        windows = encode_choices(
            tokenizer,
            example.prompt,
            example.choices,
            max_seq_length=max_seq_length,
            long_texts=self.long_texts,
        )
        return [TextFeature(tuple(sequences), example.gold) for sequences in windows]

    def batch(self, features: TextFeatures) -> TaskBatch:
        return pack(features, np.array([feature.target or 0 for feature in features], np.int64))

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the cross entropy of scores [S], a softmax over each example's choices, and the accuracy."""
        from cloze.training.metric_sums import cross_entropy, pad_groups

        return cross_entropy(pad_groups(logits, batch.counts, -math.inf), batch.targets)

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from cloze.training.metric_sums import IMPOSSIBLE, pad_groups, softmax_divergence

        student_BC, teacher_BC = (
            pad_groups(scores, batch.counts, IMPOSSIBLE) for scores in (logits, batch.teacher)
        )
        return softmax_divergence(student_BC, teacher_BC, temperature)

    def decode(self, example: ChoiceQuestion, features: TextFeatures, outputs: Outputs) -> ChoicePrediction:
        """Return the most probable choice, the first of equals."""
        probabilities_C = softmax(np.mean(outputs, axis=0, dtype=np.float64)).tolist()
        best = int(np.argmax(probabilities_C))
        return ChoicePrediction(best, probabilities_C[best], probabilities_C)

    def pairs(self, example: ChoiceQuestion, answer: ChoicePrediction) -> Iterator[GoldAnswer]:
        gold, choice = self.gold(example), answer.choice
        yield GoldAnswer(gold, choice, answer.probability, example.choices[gold], example.choices[choice])

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"majority": _most_frequent_choice}

    def collapse(
        self, examples: ChoiceQuestions, answers: Sequence[ChoicePrediction], metrics: Sequence[str]
    ) -> str | None:
        is_collapsed = is_majority_better(*self.compare(examples, answers), ["accuracy"])
        return "no better than the majority" if is_collapsed else None

    def to_json(self, example: ChoiceQuestion, answer: ChoicePrediction) -> dict[str, Any]:
        text = example.choices[answer.choice]
        return {"choice": answer.choice, "text": text, **asdict(answer)}

    def from_json(self, values: Mapping[str, Any]) -> ChoicePrediction:
        choice = values["choice"]
        if not isinstance(choice, int):
            raise TypeError(f"choice {choice!r} is not a number")
        probabilities = values.get("probabilities", [])
        if isinstance(probabilities, Mapping):  # of columns
            probabilities = [*probabilities.values()]
        return ChoicePrediction(choice, values.get("probability", math.nan), probabilities)

    def read_answers(self, source: Data, examples: ChoiceQuestions) -> list[ChoicePrediction]:
        answers = super().read_answers(source, examples)
        for example, answer in zip(examples, answers, strict=True):
            if not 0 <= answer.choice < len(example.choices):
                count = f"{example.where} has {len(example.choices)}, counted from 0"
                raise InputError(f"choice {answer.choice}: {count}", where=source)
        return answers


def _most_frequent_choice(train: ChoiceQuestions, dev: ChoiceQuestions) -> list[ChoicePrediction]:
    """Choose the index that is right most often, the first of equals."""
    counts = Counter(example.gold for example in train)
    best = (max(range(len(example.choices)), key=counts.__getitem__) for example in dev)
    return [
        ChoicePrediction(index, 1.0, [float(i == index) for i in range(len(example.choices))])
        for index, example in zip(best, dev, strict=True)
    ]
