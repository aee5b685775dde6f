"""The family of tasks that give a text, or a pair of texts, one of several labels.

Shapes: B sequences, C classes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.metrics.classification import METRICS, majority_share
from cloze.model.bert import BertModel
from cloze.model.heads import BertForSequenceClassification
from cloze.tasks.probabilities import softmax
from cloze.tasks.tables import as_text
from cloze.tasks.task import Array, TargetBatch, check_labels
from cloze.tasks.texts import LabelledText, Target, TextFeature, TextTask
from cloze.training.measures import Measures


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest label, and what the model gives each."""

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class SequenceClassification(TextTask[Prediction]):
    """A softmax over the labels, from the pooled [CLS] (Devlin et al. 2019, 4.1).

    Source: Devlin et al. 2019, 4.1; google-research/bert run_classifier.py @eedf571.
    """

    main_metric: ClassVar[str] = "accuracy"
    learned_settings: ClassVar[tuple[str, ...]] = ("labels", "class_weights", "balanced")
    problem_type: ClassVar[str | None] = "single_label_classification"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    """Names of `cloze.metrics.classification.METRICS`."""

    labels: tuple[str, ...] = ()
    """In the order of the classes; none given, they are found in the training data and sorted."""
    class_weights: tuple[float, ...] = ()
    """How much a mistake on each class weighs; none given, all weigh the same."""
    balanced: bool = False
    """Weigh the classes by the inverse of their share of the training data, 1 in the mean."""

    def __post_init__(self) -> None:
        check_labels(self.labels)
        if self.class_weights and len(self.class_weights) != len(self.labels):
            what = f"{len(self.class_weights)} class_weights for {len(self.labels)} labels"
            raise ValueError(f"{what}: give both, in one order")
        if self.class_weights and self.balanced:
            raise ValueError("class_weights and balanced: one of them says the weights")
        if not all(0 <= weight < math.inf for weight in self.class_weights):
            raise ValueError("class_weights must be numbers of 0 or more")
        if self.class_weights and not any(self.class_weights):
            raise ValueError("class_weights are all 0: nothing would be learned")

    def fitted(self, examples: Sequence[LabelledText]) -> Self:
        """Return the task with the labels that the examples have, and in the place of `balanced` their weights.

        Raises:
            InputError: there are fewer than two labels.
        """
        counts = Counter(example.label for example in examples if example.label is not None)
        labels = self.labels or tuple(sorted(counts))
        if len(labels) < 2:
            where = examples[0].where.rpartition(":")[0]
            what = f"every row has the label {labels[0]!r}" if labels else "no row has a label"
            raise InputError(what, where=where, remedy="A classifier needs examples of two labels at least")
        weights = self.class_weights
        if self.balanced:
            weights = tuple(len(examples) / (len(labels) * max(counts[label], 1)) for label in labels)
        return replace(self, labels=labels, class_weights=weights, balanced=False)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def with_classes(self, names: tuple[str, ...]) -> Self:
        """Return the task with the labels that a model names; other names than the task's own are refused.

        transformers calls classes LABEL_0, LABEL_1 where nobody named them: they are 0 and 1, and mean a task's own
        labels only where these are numbers, since the order of others is anyone's guess.
        """
        if len(names) < 2:
            what = "one class only, which is a number: see the task regression" if names else "no labels"
            raise InputError(f"no classifier: config.json names {what}")
        if self.labels:
            names = tuple(name.removeprefix("LABEL_") for name in names)
        if self.labels and set(names) != set(self.labels):
            raise InputError(f"its classes are {', '.join(names)}, the task's {', '.join(self.labels)}")
        return replace(self, labels=names)

    def target(self, example: LabelledText) -> int:
        """Return the number of the class."""
        if example.label not in self.labels:
            some = ", ".join(self.labels[:10]) + (", …" if len(self.labels) > 10 else "")
            what = f"label {example.label!r} is none of the task's"
            raise InputError(what, where=example.where, remedy=f"It knows {some}")
        return self.labels.index(example.label)

    def check_scored(self, examples: Sequence[LabelledText]) -> None:
        """Refuse examples whose label is none of the task's, where it names its own."""
        if self.labels:
            for example in examples:
                self.target(example)

    def targets(self, targets: Sequence[Target | None]) -> Tensor:
        """Return the numbers of the classes, [B]."""
        return torch.tensor([target or 0 for target in targets])

    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the encoder with a dense layer on its pooled output."""
        return BertForSequenceClassification(bert, num_labels=len(self.labels), generator=generator)

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the summed cross entropy of logits [B, C]; also measured: the accuracy."""
        weights_C = torch.tensor(self.class_weights).to(logits) if self.class_weights else None
        loss = nn.functional.cross_entropy(logits, batch.targets, weight=weights_C, reduction="sum")
        correct = (logits.detach().argmax(-1) == batch.targets).sum()
        count = batch.num_targets
        return loss, {"loss": (loss.detach(), count), "accuracy": (correct, count)}

    def decode(
        self, example: LabelledText, features: Sequence[TextFeature], outputs: Sequence[Array]
    ) -> Prediction:
        """Return the likeliest label, the first of several; the logits of windows are averaged."""
        probabilities_C = softmax(np.mean(outputs, axis=0, dtype=np.float64)).tolist()
        best = int(np.argmax(probabilities_C))
        return Prediction(
            self.labels[best], probabilities_C[best], dict(zip(self.labels, probabilities_C, strict=True))
        )

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return the task's metrics, beside the accuracy of always answering the most frequent label."""
        true = [example.label or "" for example in examples]
        predicted = [prediction.label for prediction in predictions]
        scores = {name: METRICS[name](true, predicted) for name in self.metrics}
        return {**scores, "majority_accuracy": majority_share(true)}

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[Prediction]) -> str | None:
        """Name a classifier that always says the same, or scores no better than who says the most frequent label.

        No better by the main metric, nor by accuracy: where most labels are 1, as MRPC's, saying so has a high F1.
        Where all examples have one label, who says it may have learned more than that.
        """
        counts = Counter(example.label or "" for example in examples)
        predicted = {prediction.label for prediction in predictions}
        if len(predictions) > 1 and len(predicted) == 1 and predicted != set(counts):
            return "one class only"
        if len(counts) == 1:
            return None
        [(label, _)] = counts.most_common(1)
        majority = self.score(examples, [Prediction(label, 1.0, {})] * len(examples))
        scores = self.score(examples, predictions)
        better = any(scores[name] > majority[name] for name in (self.main_metric, "accuracy"))
        return None if better else "no better than the majority"

    def to_json(self, example: LabelledText, prediction: Prediction) -> dict[str, Any]:
        """Return the label, its probability, and those of all labels."""
        return asdict(prediction)

    def from_json(self, values: Mapping[str, Any]) -> Prediction:
        """Read the label, which the task must know where it names its own; probabilities may be missing."""
        label = as_text(values["label"])
        if label is None:
            raise TypeError(f"label is {values['label']!r}, not a text")
        if self.labels and label not in self.labels:
            raise ValueError(f"label {label!r} is none of {', '.join(self.labels[:10])}")
        return Prediction(label, values.get("probability", 1.0), values.get("probabilities", {}))
