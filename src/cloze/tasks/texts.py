"""Tasks on a text or a pair of texts: examples from tables, features and batches.

Shapes: B sequences.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.choices import LongTexts
from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Source
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.models.config_file import load_labels
from cloze.models.cross_encoder import load_activation
from cloze.tasks.features import Target, TextFeature, TextFeatures, encode_text, pack
from cloze.tasks.table_task import ID, LabeledTask
from cloze.tasks.task import PredictionT
from cloze.tasks.task_batch import Array, Outputs, TaskBatch
from cloze.tokenization.tokenizer import Tokenizer

_TASK_OF_PROBLEM_TYPE = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}


@dataclass(frozen=True, slots=True)
class LabeledText:
    """An example: a text or a pair, and its label as in the file where it is known."""

    text: str
    pair: str | None = None
    label: str | None = None
    where: str = "text"
    """File and line."""
    row: int | None = field(default=None, kw_only=True, compare=False)
    """Row of the table, or line of the text, from 1."""
    id: str | None = field(default=None, kw_only=True, compare=False)
    """From the column `id`, if the table has one."""


Texts: TypeAlias = Sequence[LabeledText]


def text_columns(
    text: str | tuple[str, ...],
    pair: str | tuple[str, ...] | None = None,
    label: str | tuple[str, ...] = "label",
) -> tuple[Column, ...]:
    """Return the columns of texts or pairs and their labels; of several names the first that data have is used."""
    names = {"text": text, "pair": pair, "label": label}
    columns = [
        Column(key, "label" if key == "label" else "text", (name,) if isinstance(name, str) else name)
        for key, name in names.items()
        if name is not None
    ]
    return (*columns, ID)


@dataclass(frozen=True, kw_only=True)
class LabeledTexts(LabeledTask[LabeledText, TextFeature, PredictionT], Generic[PredictionT]):
    """A task on tables of texts or pairs with labels."""

    def example(self, row: Row) -> LabeledText:
        """Return the text or the pair of a row, and its label; gold data may lack the texts."""
        text, pair = (row.text(key) if key in row.cells else None for key in ("text", "pair"))
        label = self.read_label(row).strip() if row.labeled else None
        identifier = as_text(row.cells.get("id"))
        return LabeledText(text or "", pair, label, row.where, row=row.number, id=identifier)

    def split_group(self, example: LabeledText) -> Hashable:
        """Return the text or the pair, so that duplicates are all in the training or all in the dev data."""
        return example.text, example.pair

    @property
    def reads_pairs(self) -> bool:
        """Whether there is a column of second texts."""
        return any(column.key == "pair" for column in self.named_columns())


@dataclass(frozen=True, kw_only=True)
class CustomTexts(LabeledTexts[PredictionT], Generic[PredictionT]):
    """A task on custom tables: the columns are settings."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column("text", setting="text_column"),
        Column("pair", setting="pair_column"),
        Column("label", "label", setting="label_column"),
        ID,
    )

    text_column: str = "text"
    pair_column: str | None = None
    """Column of the second text, for tasks on pairs."""
    label_column: str = "label"

    def gold_examples(self, source: Source) -> Iterator[LabeledText]:
        """Read the labels of a table; columns of texts that it does not have are empty texts."""
        table = self.table(labeled=True)
        columns = tuple(replace(column, is_required=column.is_label) for column in table.columns)
        return self.read_table(source, replace(table, columns=columns))


@dataclass(frozen=True, kw_only=True)
class TextTask(LabeledTexts[PredictionT], Generic[PredictionT]):
    """A task on a text or a pair, with a dense layer on the pooled [CLS]."""

    target_dtype: ClassVar[npt.DTypeLike] = np.float32
    head_name = "BertForSequenceClassification"

    long_texts: LongTexts = "truncate"
    """Truncate a long text, as Google's code does for GLUE, or read it in windows and average their logits."""

    @abstractmethod
    def target(self, example: LabeledText) -> Target:
        """Return the training target of a labeled example."""

    def targets(self, targets: Sequence[Target | None]) -> npt.NDArray[Any]:
        """Return the targets of a batch as an array; an unknown one is 0."""
        return np.array([0 if target is None else target for target in targets], self.target_dtype)

    def features(
        self, example: LabeledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        """Tokenize a text or a pair."""
        target = None if example.label is None else self.target(example)
        sequences = encode_text(
            tokenizer, example.text, example.pair, max_seq_length=max_seq_length, long_texts=self.long_texts
        )
        return [TextFeature((sequence,), target) for sequence in sequences]

    def batch(self, features: TextFeatures) -> TaskBatch:
        """Pack sequences in the given order."""
        return pack(features, self.targets([feature.target for feature in features]))

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the task for a checkpoint of another program, whose config.json may name another problem."""
        num_classes, config = len(load_labels(directory)), read_json(directory / CONFIG_FILE)
        problem_type = str(config.get("problem_type"))
        other = _TASK_OF_PROBLEM_TYPE.get(problem_type)
        activation = load_activation(directory, config)
        if num_classes > 1 and activation == "sigmoid" and self.problem_type == "single_label_classification":
            what = "activation_fn is a sigmoid for each class: see the task multi-label"
            raise InputError(f"no model for {self.name}: {what}")
        # a single logit is one number to all of them
        if num_classes > 1 and other is not None and self.problem_type != problem_type:
            what = f"config.json says problem_type {problem_type!r}: see the task {other}"
            raise InputError(f"no model for {self.name}: {what}")
        return super().for_external_checkpoint(directory)

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the row of logits of each sequence."""
        return list(logits)

    def raw_scores(self, outputs: Outputs) -> list[float]:
        """Return the logits that `decode` turns into a prediction: the mean over the windows, one for each class."""
        return [float(mean) for mean in np.asarray(outputs, np.float64).mean(axis=0)]
