"""The family of tasks that give a text, or a pair of texts, one of several labels.

Shapes: B sequences, C classes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.metrics.classification import accuracy, macro_f1, majority_share
from cloze.model.bert import BertModel
from cloze.model.heads import BertForSequenceClassification
from cloze.model.packed import Packed
from cloze.tasks.task import Array, Task
from cloze.text.tokenizer import Tokenizer
from cloze.training.loop import Measures


@dataclass(frozen=True, slots=True)
class LabelledText:
    """An example: a text or a pair, and its label where it is known."""

    text: str
    pair: str | None = None
    label: str | None = None
    where: str = "text"
    """File and line."""


@dataclass(frozen=True, slots=True)
class LabelledSequence:
    """A feature: the pieces of a text or a pair, cut to length, and the number of its label."""

    input_ids: list[int]
    token_type_ids: list[int]
    label_id: int | None
    is_truncated: bool

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.input_ids)


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    """Sequences end to end, and the numbers of their labels."""

    packed: Packed
    label_ids: Tensor

    @property
    def num_targets(self) -> int:
        """B."""
        return len(self.label_ids)

    def to(self, device: torch.device) -> "LabelledBatch":
        """Copy the tensors to a device."""
        return LabelledBatch(self.packed.to(device), self.label_ids.to(device, non_blocking=True))


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest label, and what the model gives each."""

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class SequenceClassification(Task[LabelledText, LabelledSequence, LabelledBatch, Prediction]):
    """A softmax over the labels, from the pooled [CLS] (Devlin et al. 2019, 4.1).

    Source: google-research/bert run_classifier.py @eedf571.
    """

    main_metric: ClassVar[str] = "accuracy"

    labels: tuple[str, ...] = ()
    """In the order of the classes; none given, they are found in the training data and sorted."""

    def __post_init__(self) -> None:
        twice = [label for label, count in Counter(self.labels).items() if count > 1]
        if twice:
            raise ValueError(f"labels holds {twice[0]!r} twice")

    def fitted(self, examples: Sequence[LabelledText]) -> Self:
        """Return the task with the labels that the examples have.

        Raises:
            InputError: there are fewer than two.
        """
        if self.labels:
            return self
        found = sorted({example.label for example in examples if example.label is not None})
        if len(found) < 2:
            where = examples[0].where.rpartition(":")[0]
            what = f"every row has the label {found[0]!r}" if found else "no row has a label"
            raise InputError(what, where=where, remedy="A classifier needs examples of two labels at least")
        return replace(self, labels=tuple(found))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def with_classes(self, names: tuple[str, ...]) -> Self:
        """Return the task with the labels that a model names; other names than the task's own are refused."""
        if not names:
            raise InputError("no classifier: config.json names no labels")
        if self.labels and set(names) != set(self.labels):
            raise InputError(f"its classes are {', '.join(names)}, the task's {', '.join(self.labels)}")
        return replace(self, labels=names)

    def features(
        self, example: LabelledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[LabelledSequence]:
        """Tokenize a text or a pair; what is too long loses pieces at the end of the longer text first.

        Raises:
            InputError: the example's label is none of `labels`.
        """
        encoding = tokenizer.encode(example.text, example.pair)
        is_truncated = len(encoding) > max_seq_length
        if is_truncated:
            encoding = tokenizer.encode(example.text, example.pair, max_length=max_seq_length)
        label_id = None if example.label is None else self._label_id(example.label, example.where)
        return [LabelledSequence(encoding.input_ids, encoding.token_type_ids, label_id, is_truncated)]

    def _label_id(self, label: str, where: str) -> int:
        if label not in self.labels:
            some = ", ".join(self.labels[:10]) + (", …" if len(self.labels) > 10 else "")
            raise InputError(
                f"label {label!r} is none of the model's", where=where, remedy=f"It knows {some}"
            )
        return self.labels.index(label)

    def batch(self, features: Sequence[LabelledSequence]) -> LabelledBatch:
        """Pack sequences in the order given; a label that is not known is packed as 0."""
        packed = Packed.from_sequences(
            [feature.input_ids for feature in features], [feature.token_type_ids for feature in features]
        )
        return LabelledBatch(packed, torch.tensor([feature.label_id or 0 for feature in features]))

    def head(
        self, bert: BertModel, *, generator: torch.Generator | None = None
    ) -> BertForSequenceClassification:
        """Return the encoder with a dense layer on its pooled output."""
        return BertForSequenceClassification(bert, num_labels=len(self.labels), generator=generator)

    def loss(self, logits: Tensor, batch: LabelledBatch) -> tuple[Tensor, Measures]:
        """Return the summed cross entropy of logits [B, C]; also measured: the accuracy."""
        loss = nn.functional.cross_entropy(logits, batch.label_ids, reduction="sum")
        correct = (logits.detach().argmax(-1) == batch.label_ids).sum()
        count = batch.num_targets
        return loss, {"loss": (loss.detach(), count), "accuracy": (correct, count)}

    def outputs(self, logits: Tensor, batch: LabelledBatch) -> list[Array]:
        """Return logits, [C] for each sequence."""
        return list(logits.cpu().numpy())

    def decode(
        self, example: LabelledText, features: Sequence[LabelledSequence], outputs: Sequence[Array]
    ) -> Prediction:
        """Return the likeliest label; the first of several."""
        (logits_C,) = outputs
        exponentials_C = np.exp(logits_C.astype(np.float64) - logits_C.max())
        probabilities_C = (exponentials_C / exponentials_C.sum()).tolist()
        best = int(np.argmax(probabilities_C))
        return Prediction(
            self.labels[best], probabilities_C[best], dict(zip(self.labels, probabilities_C, strict=True))
        )

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return accuracy and macro F1, beside the accuracy of always answering the most frequent label."""
        true = [example.label or "" for example in examples]
        predicted = [prediction.label for prediction in predictions]
        return {
            "accuracy": accuracy(true, predicted),
            "macro_f1": macro_f1(true, predicted),
            "majority_share": majority_share(true),
        }

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[Prediction]) -> str | None:
        """Name a classifier that always says the same, or is right no more often than such a one."""
        predicted = [prediction.label for prediction in predictions]
        if len(set(predicted)) == 1:
            return "one class only"
        true = [example.label or "" for example in examples]
        no_better = accuracy(true, predicted) <= majority_share(true)
        return "no better than the majority" if no_better else None

    def to_json(self, example: LabelledText, prediction: Prediction) -> dict[str, Any]:
        """Return the label, its probability, and those of all labels."""
        return asdict(prediction)

    def from_json(self, values: Mapping[str, Any]) -> Prediction:
        """Read the label; probabilities may be missing."""
        return Prediction(
            str(values["label"]), values.get("probability", 1.0), values.get("probabilities", {})
        )
