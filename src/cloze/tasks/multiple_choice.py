"""The family of tasks that choose how a text goes on, out of any number of choices.

Shapes: B examples, S sequences (a choice each), C choices of an example.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.metrics.classification import accuracy, majority_share
from cloze.model.bert import BertModel
from cloze.model.heads import BertForMultipleChoice
from cloze.model.packed import Packed
from cloze.stores import Place
from cloze.tasks.probabilities import softmax
from cloze.tasks.sequences import LongTexts, TextSequence, join, sequences_of, windows_of
from cloze.tasks.task import Array, Task
from cloze.text.tokenizer import Tokenizer
from cloze.training.measures import Measures


@dataclass(frozen=True, slots=True)
class Question:
    """An example: a beginning, how it may go on, and the number of the right choice where it is known."""

    prompt: str
    choices: tuple[str, ...]
    label: int | None
    where: str
    """File and line."""


@dataclass(frozen=True, slots=True)
class ChoiceFeature:
    """The beginning, or a window of it, with each of the choices."""

    sequences: tuple[TextSequence, ...]
    label: int | None

    @property
    def num_tokens(self) -> int:
        """Tokens of all choices."""
        return sum(sequence.num_tokens for sequence in self.sequences)

    @property
    def is_truncated(self) -> bool:
        """Whether some of the text did not fit."""
        return any(sequence.is_truncated for sequence in self.sequences)


@dataclass(frozen=True, slots=True)
class ChoiceBatch:
    """The choices of all examples end to end, how many each has, and which is right."""

    packed: Packed
    num_choices: tuple[int, ...]
    labels: Tensor

    @property
    def num_targets(self) -> int:
        """B."""
        return len(self.num_choices)

    def to(self, device: torch.device) -> "ChoiceBatch":
        """Copy the tensors to a device."""
        labels = self.labels.to(device, non_blocking=True)
        return ChoiceBatch(self.packed.to(device), self.num_choices, labels)


@dataclass(frozen=True, slots=True)
class Choice:
    """The number of the likeliest choice, and what the model gives each."""

    choice: int
    probability: float
    probabilities: list[float]


@dataclass(frozen=True, kw_only=True)
class MultipleChoice(Task[Question, ChoiceFeature, ChoiceBatch, Choice]):
    """A vector whose dot product with the pooled [CLS] scores a choice; a softmax over the choices.

    Source: Devlin et al. 2019, 4.4.
    """

    main_metric: ClassVar[str] = "accuracy"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    long_texts: LongTexts = "truncate"
    """Cut what is too long, or read the beginning in windows and take the mean of their scores."""

    def origin(self, example: Question) -> Hashable:
        """Return the beginning and the choices: a question that stands there twice is learned, or scored."""
        return example.prompt, example.choices

    def features(
        self, example: Question, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[ChoiceFeature]:
        """Tokenize the beginning with each of the choices."""
        whole = [
            sequences_of(tokenizer, example.prompt, choice, max_seq_length=max_seq_length)[0]
            for choice in example.choices
        ]
        if self.long_texts == "truncate" or not any(sequence.is_truncated for sequence in whole):
            return [ChoiceFeature(tuple(whole), example.label)]
        room = max_seq_length - 3
        pieces = [tokenizer.encode(choice).input_ids[1:-1] for choice in example.choices]
        prompt = tokenizer.encode(example.prompt).input_ids[1:-1]
        kept = [own[: max(room // 2, room - len(prompt))] for own in pieces]
        return [
            ChoiceFeature(
                tuple(
                    join(tokenizer, window, cut, is_truncated=len(cut) < len(own))
                    for cut, own in zip(kept, pieces, strict=True)
                ),
                example.label,
            )
            for window in windows_of(prompt, room - max(map(len, kept)))
        ]

    def batch(self, features: Sequence[ChoiceFeature]) -> ChoiceBatch:
        """Pack the choices in the order given; a label that is not known is packed as 0."""
        sequences = [sequence for feature in features for sequence in feature.sequences]
        packed = Packed.from_sequences(
            [sequence.input_ids for sequence in sequences],
            [sequence.token_type_ids for sequence in sequences],
        )
        return ChoiceBatch(
            packed,
            tuple(len(feature.sequences) for feature in features),
            torch.tensor([feature.label or 0 for feature in features]),
        )

    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> BertForMultipleChoice:
        """Return the encoder with one score for a sequence."""
        return BertForMultipleChoice(bert, generator=generator)

    def loss(self, logits: Tensor, batch: ChoiceBatch) -> tuple[Tensor, Measures]:
        """Return the summed cross entropy of scores [S], softmax over each example's own; also measured: accuracy."""
        rows = list(torch.split(logits, list(batch.num_choices)))
        logits_BC = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-torch.inf)
        loss = nn.functional.cross_entropy(logits_BC, batch.labels, reduction="sum")
        correct = (logits_BC.detach().argmax(-1) == batch.labels).sum()
        count = batch.num_targets
        return loss, {"loss": (loss.detach(), count), "accuracy": (correct, count)}

    def outputs(self, logits: Tensor, batch: ChoiceBatch) -> list[Array]:
        """Return the scores of each feature's choices, [C]."""
        return [own.numpy() for own in torch.split(logits.cpu(), list(batch.num_choices))]

    def decode(
        self, example: Question, features: Sequence[ChoiceFeature], outputs: Sequence[Array]
    ) -> Choice:
        """Return the likeliest choice, the first of several; the scores of windows are averaged."""
        probabilities_C = softmax(np.mean(outputs, axis=0, dtype=np.float64)).tolist()
        best = int(np.argmax(probabilities_C))
        return Choice(best, probabilities_C[best], probabilities_C)

    def score(self, examples: Sequence[Question], predictions: Sequence[Choice]) -> dict[str, float]:
        """Return the accuracy, beside that of always taking the choice that is right most often."""
        true = [example.label for example in examples if example.label is not None]
        predicted = [prediction.choice for prediction in predictions]
        return {"accuracy": accuracy(true, predicted), "majority_accuracy": majority_share(true)}

    def check_scored(self, examples: Sequence[Question]) -> None:
        """Refuse examples of which nothing says which choice is right."""
        for example in examples:
            if example.label is None:
                raise InputError("no label: nothing says which choice is right", where=example.where)

    def collapse(self, examples: Sequence[Question], predictions: Sequence[Choice]) -> str | None:
        """Name a model that is right no more often than who always takes the same choice, which is not always right."""
        scores = self.score(examples, predictions)
        is_no_better = scores["accuracy"] <= scores["majority_accuracy"] < 1
        return "no better than the majority" if is_no_better else None

    def to_json(self, example: Question, prediction: Choice) -> dict[str, Any]:
        """Return the choice, its number counted from 0, its probability, and those of all choices."""
        return {
            "choice": prediction.choice,
            "text": example.choices[prediction.choice],
            "probability": prediction.probability,
            "probabilities": prediction.probabilities,
        }

    def from_json(self, values: Mapping[str, Any]) -> Choice:
        """Read the number of the choice; probabilities may be missing."""
        number = values["choice"]
        if not isinstance(number, int):
            raise TypeError(f"choice {number!r} is not a number")
        return Choice(number, values.get("probability", 1.0), values.get("probabilities", []))

    def predictions(self, path: Place, examples: Sequence[Question]) -> list[Choice]:
        """Read predictions for examples; each must be one of its example's choices."""
        found = super().predictions(path, examples)
        for example, prediction in zip(examples, found, strict=True):
            if not 0 <= prediction.choice < len(example.choices):
                there = f"{example.where} has {len(example.choices)}, counted from 0"
                raise InputError(f"choice {prediction.choice}: {there}", where=path)
        return found


def question(prompt: str, choices: Sequence[str], label: str | None, where: str) -> Question:
    """Return an example, its label checked.

    Raises:
        InputError: there are fewer than two choices, or the label is none of their numbers.
    """
    if len(choices) < 2:
        raise InputError(f"{len(choices)} choices: give two at least", where=where)
    if label is not None and not (label.isascii() and label.isdigit() and int(label) < len(choices)):
        what = f"label {label!r} is not the number of a choice"
        remedy = f"There are {len(choices)}, counted from 0"
        raise InputError(what, where=where, remedy=remedy)
    return Question(prompt, tuple(choices), None if label is None else int(label), where)
