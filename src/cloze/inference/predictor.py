"""Predict with a fine-tuned model and its task, from examples."""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, is_dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

from cloze.arguments import describe, iterate
from cloze.data.reading.files import STDIN
from cloze.data.reading.memory import Data
from cloze.errors import InputError
from cloze.inference.answerer import Answerer, open_model
from cloze.inference.model import Model
from cloze.models.config_file import find_task_of_head
from cloze.models.engine import HeadOutput, Output, VectorOutput
from cloze.models.sentence_transformers import load_max_seq_length, load_sentence_encoder_config
from cloze.options import Device, ModelPrecision
from cloze.parallel_map import Workers, map_ordered
from cloze.progress import SILENT, Progress
from cloze.signatures import checks_arguments
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.answers.vectors import Vectors
from cloze.tasks.config import load_task, save_finetuned
from cloze.tasks.features import Losses, count_losses
from cloze.tasks.predict import compute_outputs, featurize, predict, top_k_limiter
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array
from cloze.tasks.texts import LabeledText

_MAY_RANK = {"classification", "regression", "multi-label"}
"""The tasks of heads that a ranker of another program may have: its files do not say that it ranks."""
_READ_AHEAD = 20_000
EXAMPLES_PER_PART = 256
"""Examples that are predicted at once, each with all its windows."""


@dataclass(frozen=True, repr=False)
class Predictor(Answerer):
    """A fine-tuned model, its tokenizer, and the task that defines inputs and outputs."""

    _: KW_ONLY
    task: Task
    max_seq_length: int
    reads_pairs: bool | None = None
    """Whether the model was fine-tuned on pairs of texts or on single ones; None if nothing says which."""
    answers: ClassVar[type] = AnswerKind
    """The kind of answers that the class gives."""
    default_task: ClassVar[str] = "classification"
    """The task of a model whose config.json names neither a task nor an architecture."""

    @classmethod
    @checks_arguments()
    def load(
        cls,
        model: Path | str | Model,
        *,
        device: Device = "auto",
        precision: ModelPrecision = None,
        task: str | None = None,
    ) -> Self:
        """Load a fine-tuned model of cloze or transformers, and its tokenizer.

        Args:
            model: a checkpoint, a run (its best checkpoint), or hf://org/name.
            task: the name of its task; by default the one it was fine-tuned for. For a model of another program that is
                the one of its architecture, or else of the class.
        """
        opened = open_model(model, device=device, precision=precision)
        directory, positions = opened.directory, opened.config.max_position_embeddings
        loaded_task, max_seq_length, reads_pairs = _load_task(directory, task, cls.default_task)
        if not isinstance(loaded_task.answer, cls.answers):
            what = f"a model for the task {loaded_task.name!r}, which {cls.__name__} cannot use"
            remedy = f"Load it with cloze.load, or give a model for the task {cls.default_task}"
            raise InputError(what, where=directory, remedy=remedy)
        return cls(
            opened,
            task=loaded_task,
            max_seq_length=positions if max_seq_length is None else min(max_seq_length, positions),
            reads_pairs=reads_pairs,
        )

    @property
    def output(self) -> Output:
        answer = self.task.answer
        if isinstance(answer, Vectors):
            return VectorOutput(answer.pooling or "mean", answer.normalize or False, answer.truncate_dim)
        description = f"a head for the task {self.task.name}"
        return HeadOutput(answer.head_name, description, len(answer.class_names), answer.head)

    def _facts(self) -> list[str]:
        return [f"{len(self.labels)} classes"] if len(self.labels) > 1 else []

    def _write(self, directory: Path) -> None:
        save_finetuned(directory, self.module, self.tokenizer, self.task, max_seq_length=self.max_seq_length)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes or tags of the model, in the order of its logits."""
        return tuple(self.task.answer.class_names)

    def _predict_all(self, examples: Sequence[Any], name: str, *, top_k: int | None = None) -> list[Any]:
        """Return a prediction for each example; warn if any were truncated or have unknown words."""
        limit = top_k_limiter(self.task.answer, top_k)
        predictions, losses = self.predict(examples)
        if losses.truncated:
            truncated = f"{losses.truncated:,} of {len(examples):,} {name}"
            what = self.task.answer.describe_truncation(truncated, self.max_seq_length)
            warnings.warn(f"{what}: truncated", stacklevel=3)
        losses.unknown.warn(name, stacklevel=3)
        return list(map(limit, predictions))

    def predict(self, examples: Sequence[Any]) -> tuple[list[Any], Losses]:
        """Return a prediction for each example, and what was lost of the examples."""
        examples = list(self._iterate(examples))
        features = featurize(self.task.answer, examples, self.tokenizer, max_seq_length=self.max_seq_length)
        predictions = predict(self.task.answer, self.engine, examples, features)
        return predictions, count_losses(examples, features, self.tokenizer)

    def features(self, example: Any) -> list[Any]:
        """Return the inputs of the model for an example: one feature, or one for each window."""
        self.check_example(example, "example")
        return self.task.answer.features(example, self.tokenizer, max_seq_length=self.max_seq_length)

    def check_example(self, example: object, name: str) -> None:
        """Refuse an argument called `name` that is not an example of the form that the model was fine-tuned on."""
        if not is_dataclass(example) or isinstance(example, type):
            remedy = "Read examples with predictor.task.examples(path), or give texts to a class such as TextClassifier"
            raise InputError(f"{name} is {describe(example)}", remedy=remedy)
        if self.reads_pairs is None or not isinstance(example, LabeledText):
            return
        name = name if example.where == "text" else example.where  # the place in a file or in an argument
        if self.reads_pairs and example.pair is None:
            remedy = 'Give pairs, as in [("text", "pair")], in JSON [["text", "pair"]]'
            raise InputError("a single text, and the model reads pairs", where=name, remedy=remedy)
        if not self.reads_pairs and example.pair is not None:
            remedy = 'Give a list of texts, as in ["text", "text"], in JSON [["text"], ["text"]]'
            raise InputError("a pair of texts, and the model reads single texts", where=name, remedy=remedy)

    def _iterate(self, examples: object) -> Iterator[Any]:
        for number, example in enumerate(iterate(examples, "examples", "example")):
            self.check_example(example, f"examples[{number}]")
            yield example

    def outputs(self, features: Sequence[Any]) -> list[Array]:
        """Return the model's output for each feature, which the task decodes."""
        outputs = compute_outputs(self.task.answer, self.engine, features)
        return [outputs[number] for number in range(len(features))]

    def stream(
        self,
        examples: Iterable[Any],
        *,
        predict: Callable[[Sequence[Any]], tuple[list[Any], Losses]] | None = None,
        part_size: int = EXAMPLES_PER_PART,
        workers: Workers = 1,
        total: int | None = None,
        progress: Progress = SILENT,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield every example with its prediction, in order and in bounded memory; the first ones of invalid data, too.

        `predict` is `self.predict`, or the same in a worker.
        """
        remaining = self._iterate(examples)
        pending: deque[Sequence[Any]] = deque()

        def parts() -> Iterator[Sequence[Any]]:
            while part := list(islice(remaining, part_size)):
                pending.append(part)
                yield part

        losses = Losses()
        with progress.bar("predicting", total=total, unit="examples") as bar:
            for predictions, lost in map_ordered(predict or self.predict, parts(), workers=workers):
                for answer in zip(pending.popleft(), predictions, strict=True):
                    yield answer
                    bar.advance(1)  # the caller may take its time, as to explain an answer
                losses += lost
        if losses.truncated:
            what = self.task.answer.describe_truncation(f"{losses.truncated:,} examples", self.max_seq_length)
            progress.note(f"{what}: truncated")
        losses.unknown.warn("examples")

    def evaluate(
        self, examples: Iterable[Any], *, progress: Progress = SILENT
    ) -> tuple[dict[str, float], list[tuple[Any, Any]]]:
        """Return the scores of the predictions for labeled examples, which are checked first, and each with its own."""
        labeled = list(self._iterate(examples))
        self.task.answer.check_scorable(labeled)
        answers = list(self.stream(labeled, total=len(labeled), progress=progress))
        return self.task.score(
            [example for example, _ in answers], [answer for _, answer in answers]
        ), answers


def read_ahead(examples: Iterable[Any], source: Data) -> tuple[Iterator[Any], int | None]:
    """Read up to 20,000 examples, so that an invalid one is reported first; return all, and their number if known."""
    if str(source) == STDIN:
        return iter(examples), None
    remaining = iter(examples)
    first = list(islice(remaining, _READ_AHEAD + 1))
    return chain(first, remaining), len(first) if len(first) <= _READ_AHEAD else None


def find_task_name(checkpoint: Path) -> str | None:
    """Return the task that a model was fine-tuned for, by cloze or another program; None for a pre-trained model."""
    if (stored := load_task(checkpoint)) is not None:
        return stored[0].name
    return find_task_of_head(checkpoint)


def _load_task(checkpoint: Path, name: str | None, default: str) -> tuple[Task, int | None, bool | None]:
    """Return the task of a checkpoint, or the one called `name`; its length and whether it reads pairs, if known."""
    stored = load_task(checkpoint)
    if stored is None:
        of_head = find_task_name(checkpoint)
        if default == "ranking" and of_head in _MAY_RANK:
            of_head = default
        return *_load_external_task(find_task(name or of_head or default), checkpoint), None
    task, settings = stored
    if name in (None, task.name):
        return task, settings.max_seq_length, task.reader.reads_pairs
    named = find_task(name)
    if not named.answer.has_head:
        return *_load_external_task(named, checkpoint), named.reader.reads_pairs
    if named.trained_as != task.name:
        what = f"a model for the task {task.name!r}, not {name!r}"
        raise InputError(what, where=checkpoint, remedy=f"Say {task.name}, or give another model")
    column = named.settings.get("label_column")  # the files of the named task have their own columns
    task = replace(named, answer=task.answer).with_settings({"label_column": column})
    return task, settings.max_seq_length, task.reader.reads_pairs


def _load_external_task(task: Task, checkpoint: Path) -> tuple[Task, int | None]:
    """Return a task as the files of another program describe it, and its length if they have one."""
    try:
        task = task.for_external_checkpoint(checkpoint)
        if not task.answer.has_head:
            config = load_sentence_encoder_config(checkpoint)
            return task, None if config is None else config.max_seq_length
        return task, load_max_seq_length(checkpoint)
    except InputError as error:
        remedy = error.remedy or f"Fine-tune one: cloze finetune {task.name}"
        raise InputError(error.what, where=error.where or checkpoint, remedy=remedy) from error
