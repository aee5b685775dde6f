"""Load a model as the class that answers with it, or several as one; predict with several workers.

Source: Devlin et al. 2019, table 2 ("BERT-Large (Ensemble)"), which does not give the method; here it is the mean of
logits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cloze.arguments import check_paths
from cloze.choices import InferencePrecision
from cloze.config import differences
from cloze.errors import InputError
from cloze.inference.answerer import open_model
from cloze.inference.embedder import Embedder
from cloze.inference.model import Ensemble
from cloze.inference.predictor import EXAMPLES_PER_PART, Predictor, find_task_name
from cloze.inference.pretrained_heads import FillMask, NextSentence
from cloze.inference.text_predictors import (
    ChoiceAnswerer,
    EntityTagger,
    MultiLabelClassifier,
    QuestionAnswerer,
    TextClassifier,
    TextRanker,
    TextRegressor,
)
from cloze.model_paths import resolve_checkpoint
from cloze.models.sentence_transformers import load_sentence_encoder_config
from cloze.options import Device, ModelPrecision
from cloze.parallel_map import WorkerPlacement
from cloze.progress import SILENT, Progress
from cloze.signatures import checks_arguments
from cloze.tasks.config import load_task
from cloze.tasks.features import Losses
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.training.workers import LoadedPerWorker

_OF_TASK = (
    TextClassifier,
    MultiLabelClassifier,
    TextRegressor,
    TextRanker,
    EntityTagger,
    QuestionAnswerer,
    ChoiceAnswerer,
)


@checks_arguments()
def load(model: Path | str, *, device: Device = "auto", precision: ModelPrecision = None) -> Any:
    """Load a model as the class that answers with it, whatever wrote it.

    A fine-tuned model is a `TextClassifier` or another class for its task; a pre-trained one is a `FillMask`, or a
    `NextSentence` if it has that head alone. Sentence encoders and encoders without a head are an `Embedder`.

    >>> import cloze
    >>> cloze.load("cloze-mini")("She closed the [MASK].")[0][0].token
    'door'

    Args:
        model: a checkpoint, a run (its best checkpoint), "cloze-mini", or hf://org/name.
    """
    opened = open_model(model, device=device, precision=precision)
    kind: Any = Embedder
    if (name := find_task_name(opened.directory)) is not None:
        answer = find_task(name).answer
        kind = next((of_task for of_task in _OF_TASK if isinstance(answer, of_task.answers)), Embedder)
    elif load_sentence_encoder_config(opened.directory) is None:
        kind = next((of_head for of_head in (FillMask, NextSentence) if opened.has(of_head.output)), Embedder)
    return kind.load(opened)


Name = TypeVar("Name", bound=Path | str)
"""The path or the name of a model."""


def load_ensemble(
    directories: Sequence[Path | str],
    task: str | None = None,
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> Predictor:
    """Load models that were fine-tuned for one task, such as runs with different seeds, as one predictor.

    All models are in memory at once. Those whose logits cannot be averaged are refused.
    """
    _check_distinct(directories)
    loaded = [
        Predictor.load(directory, device=device, precision=precision, task=task) for directory in directories
    ]
    first, *others = loaded
    if not others:
        return first
    if not first.task.answer.has_head:
        what = f"the vectors that {first.task.name} compares cannot be averaged over models"
        raise InputError(what, where=directories[1], remedy="Give one model")
    for directory, other in zip(directories[1:], others, strict=True):
        problem = ""
        if replace(other.tokenizer, model_max_length=first.tokenizer.model_max_length) != first.tokenizer:
            problem = "has another tokenizer than"
        elif other.max_seq_length != first.max_seq_length:
            problem = f"reads {other.max_seq_length} tokens at once, unlike"
        elif settings := differences(first.task.reader, other.task.reader):
            name, (_, value) = next(iter(settings.items()))
            problem = f"{name} is {value!r}, unlike"
        if problem:
            remedy = (
                "Models of an ensemble need the same tokenizer, `max_seq_length` and settings of the task"
            )
            raise InputError(f"{problem} {directories[0]}", where=directory, remedy=remedy)
        try:
            first.task.averaged([other.task])
        except InputError as error:
            what = f"{error.what}, unlike {directories[0]}"
            raise InputError(what, where=directory, remedy=error.remedy) from error
    model = Ensemble([predictor.model for predictor in loaded])
    return replace(first, model=model, task=first.task.averaged([other.task for other in others]))


def as_predictor(
    model: Predictor | str | Path | Iterable[str | Path],
    task: str | None = None,
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> Predictor:
    """Return a model that is loaded already, or load one or several."""
    if not isinstance(model, Predictor):
        return load_ensemble(check_models(model), task, device=device, precision=precision)
    if task not in (None, model.task.name) or device != "auto" or precision is not None:
        what = "a loaded model keeps its task, device and precision"
        raise InputError(what, where="model", remedy="Leave them out, or give its path")
    return model


def check_models(model: object) -> list[str | Path]:
    """Return the paths or names of one or several models."""
    models = check_paths(model, "model")
    if not models:
        raise InputError("has no model", where="model", remedy="Give one or several")
    return models


def group_models_by_task(directories: Sequence[Name], *, ensemble: bool) -> dict[str, list[Name]]:
    """Return the models fine-tuned for each task, by its name; refuse several of one task without `ensemble`."""
    _check_distinct(directories)
    models: dict[str, list[Name]] = {}
    for directory in directories:
        checkpoint = resolve_checkpoint(directory, graphs=True)
        if not checkpoint.is_dir():
            raise InputError("no such directory", where=directory)
        stored = load_task(checkpoint)
        if stored is None:
            remedy = "Give a model of cloze finetune"
            raise InputError("has no task.toml, so its task is unknown", where=directory, remedy=remedy)
        name = stored[0].name
        if name in models and not ensemble:
            remedy = "Give one of them, or say `ensemble` to take their mean"
            raise InputError(f"is for {name}, as {models[name][0]} is", where=directory, remedy=remedy)
        models.setdefault(name, []).append(directory)
    return models


def _check_distinct(directories: Sequence[Path | str]) -> None:
    seen: set[Path] = set()
    for directory in directories:
        checkpoint = resolve_checkpoint(directory, graphs=True).resolve()
        if checkpoint in seen:
            raise InputError("is given twice", where=directory, remedy="Name each model once")
        seen.add(checkpoint)


def stream_predictions(
    predictor: Predictor,
    models: Sequence[Path | str],
    examples: Iterable[Any],
    placement: WorkerPlacement,
    *,
    precision: InferencePrecision | None = None,
    part_size: int = EXAMPLES_PER_PART,
    total: int | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[Any, Any]]:
    """Yield every example with its prediction, in order and in bounded memory; workers load the same `models`."""
    predict = predictor.predict
    if not placement.in_process:
        load = partial(
            load_ensemble, tuple(models), predictor.task.name, device=placement.device, precision=precision
        )
        predict = partial(_predict_in_worker, LoadedPerWorker(load, placement.threads), predictor.task)
    return predictor.stream(
        examples,
        predict=predict,
        part_size=part_size,
        workers=placement.workers,
        total=total,
        progress=progress,
    )


def _predict_in_worker(
    predictor: LoadedPerWorker[Predictor], task: Task, examples: Sequence[Any]
) -> tuple[list[Any], Losses]:
    return replace(predictor.get(), task=task).predict(examples)
