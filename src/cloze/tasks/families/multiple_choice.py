"""The family of multiple-choice tasks: the best continuation of a text, out of any number of choices.

Shapes: B examples, S sequences (one per choice), C choices of an example.
"""

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cloze.choices import LongTexts
from cloze.data.reading.bad_rows import MissingLabelError
from cloze.data.reading.memory import Source
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics.classification import is_majority_better
from cloze.results import Result
from cloze.tasks.arrays import softmax
from cloze.tasks.features import TextFeature, TextFeatures, encode_choices, pack
from cloze.tasks.labels import NO_LABELS, plain_label
from cloze.tasks.table_task import LabeledTask
from cloze.tasks.task_batch import Baseline, GoldAnswer, Outputs, SummedLoss, TaskBatch, Tensor
from cloze.tokenization.tokenizer import Tokenizer

_INDEX = re.compile(r"([0-9]+)(?:\.0+)?")  # programs that know missing numbers write 1.0


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """An example: a prompt, its possible continuations, and the index of the right one where it is known."""

    prompt: str
    choices: tuple[str, ...]
    label: int | None
    where: str
    """File and line."""
    row: int | None = field(default=None, kw_only=True, compare=False)
    """Row of the table, from 1."""


@dataclass(frozen=True, slots=True, repr=False)
class ChoicePrediction(Result):
    """The index of the most probable choice, and the probabilities of all."""

    choice: int
    probability: float
    probabilities: list[float]


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(LabeledTask[ChoiceQuestion, TextFeature, ChoicePrediction]):
    """A score for each choice, the product of a vector with the pooled [CLS]; a softmax over the choices.

    Source: Devlin et al. 2019, 4.4.
    """

    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    head_name = "BertForMultipleChoice"
    answer_keys = ("choice", "probability", "probabilities")

    long_texts: LongTexts = "truncate"
    """Truncate long texts, or read the prompt in windows and average their scores."""

    @abstractmethod
    def choices(self, row: Row) -> Sequence[str]:
        """Return the choices of a row."""

    def example(self, row: Row) -> ChoiceQuestion:
        choices = tuple(self.choices(row))
        if len(choices) < 2:
            raise InputError(f"{len(choices)} choices: give two at least", where=row.where)
        index = None
        if row.labeled:
            name = self.read_label(row)
            if (number := _INDEX.fullmatch(name)) is None or int(number[1]) >= len(choices):
                what = f"label {name!r} is not the number of a choice"
                kind = MissingLabelError if plain_label(name) in NO_LABELS else InputError
                raise kind(what, where=row.where, remedy=f"There are {len(choices)}, counted from 0")
            index = int(number[1])
        return ChoiceQuestion(row.text("prompt"), choices, index, row.where, row=row.number)

    def split_group(self, example: ChoiceQuestion) -> Hashable:
        """Return prompt and choices, so that duplicates are all in the training or all in the dev data."""
        return example.prompt, example.choices

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
        return [TextFeature(tuple(sequences), example.label) for sequences in windows]

    def batch(self, features: TextFeatures) -> TaskBatch:
        """Pack the choices in the given order; an unknown label is packed as 0."""
        return pack(features, np.array([feature.target or 0 for feature in features], np.int64))

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed cross entropy of scores [S], a softmax over each example's choices, and the accuracy."""
        from cloze.training.losses import cross_entropy, pad_groups

        return cross_entropy(pad_groups(logits, batch.counts, -math.inf), batch.targets)

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of the softmax over each example's choices from the teacher's."""
        from cloze.training.losses import IMPOSSIBLE, pad_groups, softmax_divergence

        student_BC, teacher_BC = (
            pad_groups(scores, batch.counts, IMPOSSIBLE) for scores in (logits, batch.teacher)
        )
        return softmax_divergence(student_BC, teacher_BC, temperature)

    def decode(self, example: ChoiceQuestion, features: TextFeatures, outputs: Outputs) -> ChoicePrediction:
        """Return the most probable choice (the first of equals) from the mean scores of the windows."""
        probabilities_C = softmax(np.mean(outputs, axis=0, dtype=np.float64)).tolist()
        best = int(np.argmax(probabilities_C))
        return ChoicePrediction(best, probabilities_C[best], probabilities_C)

    def gold(self, example: ChoiceQuestion) -> int:
        """Return the index of the right choice."""
        if example.label is None:
            raise InputError("no label: nothing says which choice is right", where=example.where)
        return example.label

    def pairs(self, example: ChoiceQuestion, prediction: ChoicePrediction) -> Iterator[GoldAnswer]:
        gold, choice = self.gold(example), prediction.choice
        yield GoldAnswer(gold, choice, prediction.probability, example.choices[gold], example.choices[choice])

    def baselines(self) -> Mapping[str, Baseline]:
        return {"majority": _most_frequent_choice}

    def collapse(
        self, examples: Sequence[ChoiceQuestion], predictions: Sequence[ChoicePrediction]
    ) -> str | None:
        """Detect a score no better than that of a constant index, unless that index is always right."""
        is_collapsed = is_majority_better(*self.compare(examples, predictions), ["accuracy"])
        return "no better than the majority" if is_collapsed else None

    def to_json(self, example: ChoiceQuestion, prediction: ChoicePrediction) -> dict[str, Any]:
        return {
            "choice": prediction.choice,
            "text": example.choices[prediction.choice],
            "probability": prediction.probability,
            "probabilities": prediction.probabilities,
        }

    def from_json(self, values: Mapping[str, Any]) -> ChoicePrediction:
        """Read the index of a choice; probabilities are optional."""
        choice = values["choice"]
        if not isinstance(choice, int):
            raise TypeError(f"choice {choice!r} is not a number")
        probabilities = values.get("probabilities", [])
        if isinstance(probabilities, Mapping):  # of columns
            probabilities = [*probabilities.values()]
        return ChoicePrediction(choice, values.get("probability", math.nan), probabilities)

    def read_predictions(self, source: Source, examples: Sequence[ChoiceQuestion]) -> list[ChoicePrediction]:
        """Read predictions for examples; each must be one of its example's choices."""
        predictions = super().read_predictions(source, examples)
        for example, prediction in zip(examples, predictions, strict=True):
            if not 0 <= prediction.choice < len(example.choices):
                count = f"{example.where} has {len(example.choices)}, counted from 0"
                raise InputError(f"choice {prediction.choice}: {count}", where=source)
        return predictions


def _most_frequent_choice(
    train: Sequence[ChoiceQuestion], dev: Sequence[ChoiceQuestion]
) -> list[ChoicePrediction]:
    """Choose the index that is right most often, the first of equals."""
    counts = Counter(example.label for example in train)
    predictions = []
    for example in dev:
        numbers = range(len(example.choices))
        best = max(numbers, key=counts.__getitem__)
        predictions.append(ChoicePrediction(best, 1.0, [float(i == best) for i in numbers]))
    return predictions
