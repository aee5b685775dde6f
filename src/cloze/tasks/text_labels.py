"""The base of tasks whose texts have labels, one or any number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic

from cloze.data.reading.bad_rows import BadRows, MissingLabelError, source_of
from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.tasks.labels import check_unique, find_labels_for_none, warn_of_minus_one
from cloze.tasks.task import PredictionT
from cloze.tasks.texts import LabeledText, TextTask


@dataclass(frozen=True, kw_only=True)
class TextLabels(TextTask[PredictionT], Generic[PredictionT]):
    """A text or a pair has labels, which are the classes of the model."""

    ranked_field: ClassVar[str | None] = "probabilities"
    model_settings: ClassVar[tuple[str, ...]] = ("labels",)

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default those of the training data, sorted."""

    def __post_init__(self) -> None:
        check_unique(self.labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

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

    def breakdown(self, examples: Sequence[LabeledText], predictions: Sequence[PredictionT]) -> Breakdown:
        """Return precision, recall and F1 of each label, and the confusion matrix if a text has one label."""
        return class_breakdown(*self.compare(examples, predictions), self.labels)
