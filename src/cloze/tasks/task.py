"""A fine-tuning task: a reader, a kind of answer, and metrics."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from cloze.config import from_dict, to_dict
from cloze.data.reading.memory import Data
from cloze.errors import InputError
from cloze.file_names import CONFIG_FILE
from cloze.models.config_file import load_labels
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.tagged_reader import TaggedReader
from cloze.tasks.task_batch import Scores
from cloze.tasks.texts import RowReader

Split: TypeAlias = Literal["train", "dev"]

KEYWORDS = (
    "text_column", "label_column", "missing_labels", "skip_bad_rows", "format", "encoding", "clean", "column_names",
    "long_texts",
)  # fmt: skip
"""Settings of many tasks, which have a keyword and a flag of their own."""
_SETTING = re.compile(r"(?<=`)\w+(?==|`)")


@dataclass(frozen=True)
class Task:
    """What a model learns and answers. The fields of reader and answer are its settings."""

    name: str
    about: str
    """What the texts are and what is answered, in a sentence."""
    source: str
    """References for the data and the metrics."""
    reader: RowReader[Any] | TaggedReader
    answer: AnswerKind[Any, Any]
    metrics: tuple[str, ...] = ()
    """Scores that may choose the best epoch and run, the main one first; by default those of the answer."""
    data_format: str = "a table"
    """The files it reads, in a few words."""
    defaults: tuple[str, ...] = field(default=(), kw_only=True)
    """Run settings that differ from GLUE's, as in "max_seq_length=384"."""
    train_files: tuple[str, ...] = field(default=("train.tsv",), kw_only=True)
    """Names of the training file in a directory of data."""
    dev_files: tuple[str, ...] = field(default=("dev.tsv",), kw_only=True)
    """Names of the dev file in a directory of data."""
    trained_as: str | None = field(default=None, kw_only=True)
    """Task whose models answer this one, if it has no training data."""

    def __post_init__(self) -> None:
        if not self.metrics:
            object.__setattr__(self, "metrics", self.answer.metrics)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name, the reader's first."""
        return {
            part.name: getattr(owner, part.name)
            for owner in (self.reader, self.answer)
            for part in fields(owner)
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that are not None, as JSON and TOML have them."""
        return to_dict(self.reader) | to_dict(self.answer)

    def with_settings(self, settings: Mapping[str, Any], *, where: str = "settings") -> Self:
        """Return the task with other settings, which are checked; None is not given."""
        settings = {name: value for name, value in settings.items() if value is not None}
        prefix, names = f"{self.name}.", [part.name for part in fields(self.reader)]
        of_reader = {name: value for name, value in settings.items() if name in names}
        of_answer = {name: value for name, value in settings.items() if name not in names}
        reader = from_dict(type(self.reader), of_reader, where=where, prefix=prefix, default=self.reader)
        others = [prefix + name for name in names]
        answer = from_dict(
            type(self.answer), of_answer, where=where, prefix=prefix, default=self.answer, others=others
        )
        return replace(self, reader=reader, answer=answer)

    def read(self, source: Data, **how: bool) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        """Yield the examples of a source, each with cells of other columns, as `RowReader.read` does."""
        with self._naming_settings():
            yield from self.reader.read(source, self.answer, **how)

    def examples(self, source: Data, *, labeled: bool = True) -> Iterator[Any]:
        """Yield the examples of a source; unless `labeled`, gold answers are ignored and may be missing."""
        return (example for example, _ in self.read(source, labeled=labeled))

    def fit(self, examples: Sequence[Any]) -> Self:
        """Return the task with the labels and other settings found in the training data."""
        with self._naming_settings():
            return replace(self, answer=self.answer.fit(examples))

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the task for a checkpoint of another program or another task."""
        if repeated := [name for name, count in Counter(load_labels(directory)).items() if count > 1]:
            what, remedy = f"id2label has {repeated[0]!r} twice", "Give each class a name of its own"
            raise InputError(what, where=directory / CONFIG_FILE, remedy=remedy)
        return replace(self, answer=self.answer.for_external_checkpoint(directory))

    def tuned(self, examples: Sequence[Any], answers: Sequence[Any]) -> Self:
        """Return the task with settings, such as a threshold, tuned on the answers to dev data."""
        return replace(self, answer=self.answer.tuned(examples, answers))

    def averaged(self, others: Sequence[Self]) -> Self:
        """Return the task for the averaged logits of several models."""
        return replace(self, answer=self.answer.averaged([other.answer for other in others]))

    def collapse(self, examples: Sequence[Any], answers: Sequence[Any]) -> str | None:
        """Describe how answers show that nothing was learned, as in "one class only"; else return None."""
        return self.answer.collapse(examples, answers, self.metrics)

    def score(self, examples: Sequence[Any], answers: Sequence[Any]) -> Scores:
        """Return the metrics of the answers to at least one labeled example."""
        return self.answer.score(examples, answers, self.metrics)

    @contextmanager
    def _naming_settings(self) -> Iterator[None]:
        """Name settings in errors by their keys, such as regression.decimal: reader and answer have no name."""
        keys = {name: f"{self.name}.{name}" for name in self.settings.keys() - KEYWORDS}

        try:
            yield
        except InputError as error:
            error.where = error.where and keys.get(error.where, error.where)
            error.remedy = error.remedy and _SETTING.sub(lambda m: keys.get(m[0], m[0]), error.remedy)
            raise
