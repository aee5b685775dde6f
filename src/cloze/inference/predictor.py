"""A fine-tuned model with its task: examples in, predictions out, any number of them in bounded memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import nn

from cloze.errors import InputError
from cloze.executor import Workers, map_ordered
from cloze.extras import require
from cloze.locate import resolve_checkpoint
from cloze.model.checkpoint import load_config, load_model
from cloze.model.sentence_transformers import read_sentence_transformer
from cloze.progress import SILENT, Progress
from cloze.tasks.config import load_task
from cloze.tasks.features import count_truncated, featurize
from cloze.tasks.predict import outputs_of, predict
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask, Array, Task
from cloze.text.tokenizer import Tokenizer
from cloze.training.precision import resolve_device

_MAX_TOKENS = 8192
_EXAMPLES_AT_ONCE = 256  # with all their windows


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores, and what they were computed of."""

    scores: dict[str, float]
    answers: list[tuple[Any, Any]]
    """Every example with its prediction."""


@dataclass(frozen=True)
class Predictor:
    """A model, its tokenizer, and the task that says what goes in and what comes out."""

    model: nn.Module
    tokenizer: Tokenizer
    task: AnyTask
    max_seq_length: int
    family: ClassVar[type] = Task
    """What its task must be."""
    unfit: ClassVar[str] = ""
    """What a model for another task is not, in a few words."""

    @classmethod
    def load(cls, directory: Path | str, task: str | None = None, *, device: str = "auto") -> Self:
        """Read a fine-tuned checkpoint, or the best one of a run; also one that transformers wrote.

        Args:
            directory: the checkpoint or run.
            task: the name of what it was fine-tuned for; None takes its word for it. Of a checkpoint that
                transformers wrote None is classification.
            device: cpu, cuda, mps or auto.

        Raises:
            InputError: it was fine-tuned for something else, for nothing, or is damaged.
        """
        checkpoint = resolve_checkpoint(Path(directory), "best")
        own, max_seq_length = _task_of(checkpoint, task)
        if not isinstance(own, cls.family):
            raise InputError(f"a model for the task {own.name!r}, {cls.unfit}", where=directory)
        model = load_model(checkpoint, own.head)
        positions = load_config(checkpoint).max_position_embeddings
        max_seq_length = positions if max_seq_length is None else min(max_seq_length, positions)
        return cls(model.to(resolve_device(device)), Tokenizer.load(checkpoint), own, max_seq_length)

    def predict(self, examples: Sequence[Any]) -> tuple[list[Any], int]:
        """Return a prediction for each example, and how many examples were cut."""
        features = featurize(self.task, examples, self.tokenizer, max_seq_length=self.max_seq_length)
        predictions = predict(self.task, self.model, examples, features, max_tokens=_MAX_TOKENS)
        return predictions, count_truncated(features)

    def features(self, example: Any) -> list[Any]:
        """Return what the model reads of an example: one feature, or as many as it has windows."""
        return self.task.features(example, self.tokenizer, max_seq_length=self.max_seq_length)

    def outputs(self, features: Sequence[Any]) -> list[Array]:
        """Return what the model says of each feature, for the task to decode."""
        found = outputs_of(self.task, self.model, features, max_tokens=_MAX_TOKENS)
        return [found[number] for number in range(len(features))]

    def stream(
        self, examples: Iterable[Any], *, total: int | None = None, progress: Progress = SILENT
    ) -> Iterator[tuple[Any, Any]]:
        """Yield every example with its prediction, in their order; memory does not grow with their number.

        Args:
            examples: any number.
            total: about how many, where that is known.
            progress: where to tell how far it is.

        Raises:
            InputError: an example is wrong; those before it may have been answered.
        """
        return stream_parts(
            self.predict, examples, max_seq_length=self.max_seq_length, total=total, progress=progress
        )

    def evaluate(self, examples: Iterable[Any], *, progress: Progress = SILENT) -> Evaluation:
        """Score predictions for labelled examples, one at least; all are looked at before one is answered.

        Raises:
            InputError: an example is wrong, or a package is missing that scores are computed with.
        """
        require(self.task.libraries, extra="tasks", where=self.task.name)
        labelled = list(examples)
        self.task.check_scored(labelled)
        answers = list(self.stream(labelled, total=len(labelled), progress=progress))
        scores = self.task.score([example for example, _ in answers], [answer for _, answer in answers])
        return Evaluation(scores, answers)


def stream_parts(
    predict: Callable[[Sequence[Any]], tuple[list[Any], int]],
    examples: Iterable[Any],
    *,
    max_seq_length: int,
    workers: Workers = 1,
    total: int | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[Any, Any]]:
    """Yield every example with its prediction, in their order, by what predicts a part of them.

    Args:
        predict: as `Predictor.predict`, or what does the same in a worker.
        examples: any number.
        max_seq_length: what `predict` cuts to, which is told.
        workers: where it is done.
        total: about how many examples, where that is known.
        progress: where to tell how far it is.
    """
    rest = iter(examples)
    under_way: deque[Sequence[Any]] = deque()

    def parts() -> Iterator[Sequence[Any]]:
        while part := list(islice(rest, _EXAMPLES_AT_ONCE)):
            under_way.append(part)
            yield part

    cut = 0
    with progress.bar("predicting", total=total, unit="examples") as bar:
        for predictions, cut_here in map_ordered(predict, parts(), workers=workers):
            part = under_way.popleft()
            yield from zip(part, predictions, strict=True)
            cut += cut_here
            bar.advance(len(part))
    if cut:
        progress.note(f"{cut:,} examples are longer than {max_seq_length} tokens: cut")


def _task_of(checkpoint: Path, name: str | None) -> tuple[AnyTask, int | None]:
    """Return the task that a checkpoint says it is for, or the one called `name`, and its length where known."""
    stored = load_task(checkpoint)
    if stored is None:
        return _foreign_task(find_task(name or "classification"), checkpoint)
    task, settings = stored
    if name not in (None, task.name) and find_task(name).answered_by_any_encoder:
        return _foreign_task(find_task(name), checkpoint)
    asked = type(task) if name is None else find_task(name)
    if asked.trained_as == task.name:
        return asked(
            **{field.name: getattr(task, field.name) for field in fields(task)}
        ), settings.max_seq_length
    if asked is not type(task):
        what = f"a model for the task {task.name!r}, not {name!r}"
        raise InputError(what, where=checkpoint, remedy=f"Say {task.name}, or give another model")
    return task, settings.max_seq_length


def _foreign_task(task_class: type[AnyTask], checkpoint: Path) -> tuple[AnyTask, int | None]:
    """Return the task as what other programs write beside a model describes it, and its length where they say it."""
    try:
        task = task_class().of_checkpoint(checkpoint)
        found = read_sentence_transformer(checkpoint) if task.answered_by_any_encoder else None
        return task, None if found is None else found.max_seq_length
    except InputError as error:
        remedy = f"Fine-tune one: cloze finetune {task_class.name}"
        raise InputError(error.what, where=error.where or checkpoint, remedy=remedy) from error
