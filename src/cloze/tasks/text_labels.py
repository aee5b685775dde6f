"""The base of tasks whose texts have labels, one or any number."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Generic

import numpy as np

from cloze.data.reading.bad_rows import BadRows, MissingLabelError, source_of
from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.tasks.labels import check_unique, find_labels_for_none, warn_of_minus_one
from cloze.tasks.task import PredictionT
from cloze.tasks.task_batch import Array, Baseline
from cloze.tasks.texts import LabeledText, Texts, TextTask
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

    def with_plain_labels(self, examples: Iterator[LabeledText]) -> Iterator[LabeledText]:
        """Return the examples of a file without those whose labels stand for none beside the others of the file.

        Those of a task with labels of its own are checked row by row.

        Raises:
            InputError: there are such labels and `missing_labels` refuses them, or no example is left.
        """
        if self.labels:
            return examples
        read = list(examples)
        labels = frozenset().union(*map(self.classes_of, read))
        where = source_of(read[0].where)
        for_none = find_labels_for_none(labels)
        if not for_none:
            warn_of_minus_one(labels, where, self.name)
            return iter(read)
        named = f"""name all: `{self.name}.labels=["…", "{for_none[0]}"]`"""
        remedy = f"`missing_labels=drop` leaves out such rows; if it is a class, {named}"
        missing, kept = BadRows(), []
        for example in read:
            if label := next((label for label in self.classes_of(example) if label in for_none), None):
                what = f"the label is {label!r}, which stands for none"
                missing.add(MissingLabelError(what, where=example.where, remedy=remedy))
            else:
                kept.append(example)
        if not (kept and self.errors_left_out):
            raise missing.as_error(rows=len(read))
        missing.warn(where, len(read))
        return iter(kept)

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
