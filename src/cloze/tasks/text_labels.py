"""The base of tasks whose texts have labels, one or any number."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Generic

import numpy as np

from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.tasks.labels import check_unique
from cloze.tasks.task import PredictionT
from cloze.tasks.task_batch import Array, Baseline
from cloze.tasks.texts import Texts, TextTask
from cloze.tasks.tfidf import tfidf_features


@dataclass(frozen=True, kw_only=True)
class TextLabels(TextTask[PredictionT], Generic[PredictionT]):
    """A text or a pair has labels, which are the classes of the model."""

    ranked_field: ClassVar[str | None] = "probabilities"
    model_settings: ClassVar[tuple[str, ...]] = ("labels",)

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""

    def __post_init__(self) -> None:
        check_unique(self.labels)

    def baselines(self) -> Mapping[str, Baseline]:
        """Return the most frequent answer, and a logistic regression on TF-IDF weights."""
        return {"majority": self.most_frequent_answer, "tfidf_logistic": self.logistic_regression}

    @abstractmethod
    def most_frequent_answer(self, train: Texts, dev: Texts) -> list[PredictionT]:
        """Predict the most frequent answer, the first of equals."""

    @abstractmethod
    def fit_logistic_regression(self, train: Texts, train_features: Any, dev_features: Any) -> Array:
        """Return the logits of the dev examples, [N, C]."""

    def logistic_regression(self, train: Texts, dev: Texts) -> list[PredictionT]:
        """Predict labels with a logistic regression on TF-IDF weights."""
        with np.errstate(divide="ignore"):
            logits_NC = self.fit_logistic_regression(train, *tfidf_features(train, dev))
        return [
            self.decode(example, [], [logits_C]) for example, logits_C in zip(dev, logits_NC, strict=True)
        ]

    def label_shares(self, examples: Texts) -> dict[str, float]:
        """Return the share of the examples that have each label."""
        counts = Counter(chain.from_iterable(map(self.classes_of, examples)))
        return {label: counts[label] / len(examples) for label in self.labels}

    def breakdown(self, examples: Texts, predictions: Sequence[PredictionT]) -> Breakdown:
        """Return precision, recall and F1 of each label, and the confusion matrix if a text has one label."""
        return class_breakdown(*self.compare(examples, predictions), self.labels)
