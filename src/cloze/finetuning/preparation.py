"""The data and the models of fine-tuning, read and checked before the first step.

RUN/teacher/{outputs.npy, starts.npy, manifest.json}   outputs of a distillation's teacher for the training data

Shapes: N features, R rows of teacher outputs.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze import artifacts
from cloze.choices import Precision
from cloze.data.batch import Integers
from cloze.errors import DataWarning, InputError
from cloze.finetuning.config import DEV_FRACTION, FinetuneConfig, selection_metric
from cloze.finetuning.data import LabeledData, find_data, hash_files, load_data
from cloze.hub import name_of_snapshot
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model, verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, build_encoder, check_layers, find_encoder, keep_layers, set_dropout
from cloze.models.external_weights import find_model_class
from cloze.models.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    ModelWithOutputLayer,
)
from cloze.models.torch_engine import TorchEngine
from cloze.models.torch_internals import cpu_instructions
from cloze.models.weight_mapping import MissingWeightsError
from cloze.progress import Progress
from cloze.suggestions import list_names
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.config import load_task
from cloze.tasks.predict import compute_outputs
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.precision import finetuning_precision

_FOLDER, _KIND = "teacher", "teacher outputs"
_VALUES, _STARTS = "outputs.npy", "starts.npy"
_FEATURES_PER_PART = 1024
_WITHOUT_HEAD = (
    *(Encoder, BertForFeatureExtraction),
    *(BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction),  # of pre-training
)
_CONVERTIBLE = {"labels", "class_weights", "positive_weights"}
"""Settings that a head does not depend on: labels may have another order, weights are in the loss."""
_SCALE = {"minimum", "maximum"}
"""Settings that a linear head is converted to."""


@dataclass(frozen=True, slots=True)
class Teacher:
    """A fine-tuned model that a student learns from."""

    directory: Path
    task: Task
    sha256: str

    def load_model(self) -> nn.Module:
        """Return the model."""
        try:
            return load_model(self.directory, self.task.answer.head, verify=False)
        except MissingWeightsError as error:
            remedy = f"Fine-tune one: cloze finetune {self.task.name}"
            raise InputError(f"no teacher: {error.what}", where=self.directory, remedy=remedy) from error


@dataclass(frozen=True, slots=True)
class TeacherOutputs:
    """Outputs of a teacher that training features learn; memory-mapped."""

    values: Array
    """The rows of all features, [R, …]."""
    starts: npt.NDArray[np.int64]
    """First row of each feature, and R: [N+1]."""

    @classmethod
    def read(cls, run: Path) -> "TeacherOutputs":
        """Return the outputs that a run keeps."""
        return cls(np.load(run / _FOLDER / _VALUES, mmap_mode="r"), np.load(run / _FOLDER / _STARTS))

    def rows(self, indices: Sequence[int] | Integers) -> Array:
        """Return the rows of features, one after the other."""
        return np.concatenate([self.values[self.starts[i] : self.starts[i + 1]] for i in indices])


@dataclass(frozen=True, slots=True)
class PreparedData:
    """The data of a command's runs, read and tokenized, and the models that they start and learn from."""

    task: Task
    config: FinetuneConfig
    """The settings, with files in the place of directories, and the checksums of all that is read."""
    file_hashes: dict[str, str]
    """SHA-256 of each data file by its setting."""
    data: LabeledData
    tokenizer: Tokenizer
    start: Path
    context: DistributedContext
    metric: str
    """The score that decides the best checkpoint."""
    precision: Precision
    """The number format of matrix products."""
    head: dict[str, Tensor]
    """Weights of the head to start from; empty: a new head."""
    teacher: Teacher | None
    teacher_outputs: TeacherOutputs | None = None
    """Those of the training data, once they are computed."""

    def build_model(self, trained: nn.Module | None = None) -> nn.Module:
        """Return the initial model, the layers that the student keeps and the head, or a trained one of the run."""
        config, model = self.config, trained
        dropout, layers = config.dropout, config.distillation.student_layers
        if model is None:
            encoder = load_model(self.start)
            if layers:
                encoder = keep_layers(encoder, layers)
            if dropout is not None:
                set_dropout(encoder, hidden=dropout, attention=dropout)
            generator = torch.Generator().manual_seed(config.seed)
            model = self.task.answer.head(encoder, generator=generator)
            model.load_state_dict(self.head, strict=False)
        if dropout is not None and isinstance(model, ModelWithOutputLayer) and model.dropout_prob:
            model.dropout_prob = dropout
        body = find_encoder(model)
        if body is not None and (config.freeze_embeddings or config.freeze_layers):
            for part in (body.embeddings, *body.layers[: config.freeze_layers]):
                part.requires_grad_(requires_grad=False)
        return model.to(self.context.device)

    def with_teacher_outputs(self, run: Path, progress: Progress) -> "PreparedData":
        """Add the outputs of the teacher for the training data, if there is one; the run keeps them."""
        if self.teacher is None or self.teacher_outputs is not None:
            return self
        self.context.run_on_rank_zero(lambda: self._ensure_outputs(run, progress))
        return replace(self, teacher_outputs=TeacherOutputs.read(run))

    def _ensure_outputs(self, run: Path, progress: Progress) -> None:
        """Compute the teacher's outputs for the training data and keep them in a run, unless it has them."""
        task, config, teacher = self.task, self.config, self.teacher
        assert teacher is not None
        path = run / _FOLDER
        if path.is_dir():
            try:
                artifacts.verify(path, kind=_KIND)
                return
            except artifacts.IntegrityError as error:
                progress.note(f"{error}: computed again")
        artifacts.remove_temporary_files(run)
        model = teacher.load_model().to(self.context.device)
        features, rows = self.data.flat_train_features, list[Array]()
        max_tokens = config.micro_batch_on(self.context.device)
        with progress.bar("teacher", total=len(features), unit="sequences") as bar:
            for start in range(0, len(features), _FEATURES_PER_PART):
                part = features[start : start + _FEATURES_PER_PART]
                rows += compute_targets(task, teacher, model, part, max_tokens=max_tokens)
                bar.advance(len(part))
        values = np.concatenate(rows, dtype=np.float32)
        if not np.isfinite(values).all():
            remedy = "Give another teacher"
            raise InputError("its outputs are not finite", where=teacher.directory, remedy=remedy)
        with artifacts.write_directory(path, kind=_KIND, overwrite=True) as directory:
            np.save(directory / _VALUES, values)
            np.save(directory / _STARTS, np.cumsum([0, *map(len, rows)]))


def check_trainable(task: Task) -> None:
    """Check that a task can be trained."""
    if task.trained_as is not None:
        remedy = f"Fine-tune {task.trained_as}: its models answer {task.name}, too"
        raise InputError("has no data to learn from", where=task.name, remedy=remedy)


def prepare_data(
    task: Task, config: FinetuneConfig, context: DistributedContext, progress: Progress
) -> PreparedData:
    """Read, check and tokenize all data; check the models."""
    check_trainable(task)
    if config.head == "logistic" and not isinstance(task.answer, OneLabel | LabelSet):
        raise InputError("logistic is for tasks that classify texts", where="head", remedy="Leave it out")
    metric = selection_metric(task, config.best_metric)
    batch_sizes = config.grid.batch_sizes or [config.batch_size]
    context.check_batch_sizes(batch_sizes)
    if task.answer.uses_in_batch_negatives and context.world_size > 1:
        what = f"{context.world_size} ranks cannot share a batch whose examples are compared with each other"
        raise InputError(what, where=task.name, remedy="Start 1")
    if task.answer.uses_in_batch_negatives and min(batch_sizes) == 1:
        what = "a batch of 1 holds nothing to compare an example with"
        raise InputError(what, where=task.name, remedy="Say `batch_size=64`")
    start = resolve_checkpoint(config.model, commit=config.model_commit)
    distillation = config.distillation
    teacher_directory = None if distillation.teacher is None else resolve_checkpoint(distillation.teacher)
    files = find_data(task, config.train, config.dev, distillation.unlabeled)
    if config.dev_fraction != DEV_FRACTION and ("dev" in files or config.folds > 1):
        progress.note("dev_fraction is not used: no share of the training data is held out")
    if config.folds > 1 and (unread := files.pop("dev", None)) is not None:
        progress.note(f"{unread}: not read: the folds of the training data are scored")
    config = replace(config, train=files["train"], dev=files.get("dev"))
    # on resume first: the reason why rows are wrong
    hashed = None if config.data_sha256 is None else hash_files(files, config.data_sha256)
    encoder, layers = load_config(start), distillation.student_layers
    check_layers(layers, encoder.num_hidden_layers, where=start)
    num_layers, limit = len(layers) or encoder.num_hidden_layers, encoder.max_position_embeddings
    if config.freeze_layers > num_layers:
        what = f"{config.freeze_layers}, the model has {num_layers} layers"
        raise InputError(what, where="freeze_layers", remedy=f"Say `freeze_layers={num_layers}`, or less")
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit} tokens"
        raise InputError(what, where=config.model, remedy=f"Say `max_seq_length={limit}`")
    size, instructions = encoder.hidden_size, cpu_instructions()
    precision = finetuning_precision(config.precision, context.device, instructions, hidden_size=size)
    tokenizer = load_tokenizer(start)
    task = replace(task, answer=task.answer.with_checkpoint_settings(start))
    task, data = load_data(task, config, files, tokenizer, progress)
    digest, hashes = hashed or hash_files(files)  # after the rows: a file that is no table may have no end
    head: dict[str, Tensor] = {}
    if config.head == "dense":
        head = _load_initial_head(task, config.model, start, context, progress, is_student=bool(layers))
    teacher = None
    if teacher_directory is not None:
        teacher = load_teacher(task, config, teacher_directory, tokenizer)
        distillation = replace(distillation, teacher_sha256=teacher.sha256)
    hub_name = name_of_snapshot(start)
    commit = None if hub_name is None else hub_name.revision
    config = replace(config, model_commit=commit, data_sha256=digest, distillation=distillation)
    return PreparedData(
        task, config, hashes, data, tokenizer, start, context, metric, precision, head, teacher
    )


def _load_initial_head(
    task: Task, name: str, start: Path, context: DistributedContext, progress: Progress, *, is_student: bool
) -> dict[str, Tensor]:
    """Return the weights of the head to start from, empty for a new one, and say whether the checkpoint's is used.

    A student has a new one: the head of the checkpoint would read another layer.
    """
    try:
        head = load_trained_head(task, start)
    except InputError as error:
        if context.is_rank_zero:
            which = "the head is new" if task.answer.has_head else "its head is left out"
            warnings.warn(DataWarning(f"{name}: {which}: {error.what}"), stacklevel=2)
        return {}
    if head:
        progress.note(f"{name}: {'the head is new' if is_student else 'its head is trained further'}")
    return {} if is_student else head


def load_trained_head(task: Task, directory: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint's head, converted for a task whose labels are known; empty without a head.

    Raises:
        InputError: the head has other answers than the task.
    """
    stored = load_task(directory)
    with torch.device("meta"):
        encoder = build_encoder(load_config(directory))
        try:
            head_class = type(task.answer.head(encoder))
            model_class = type(stored[0].answer.head(encoder)) if stored else find_model_class(directory)
        except InputError:  # reported when the model is built
            return {}
    if issubclass(model_class, _WITHOUT_HEAD):
        return {}
    if not task.answer.has_head:
        raise InputError(f"{task.name} has none")
    trained = stored[0] if stored else task.for_external_checkpoint(directory)
    _check_same_answers(task, trained)
    if model_class is not head_class:
        raise InputError(f"the model is a {model_class.__name__}")
    model = load_model(directory, trained.answer.head, verify=False)
    weights = {name: weight for name, weight in model.state_dict().items() if not name.startswith("bert.")}
    order, factor, shift = task.answer.conversion_from(trained.answer)
    return {
        name: factor * (weight[order] if len(order) and name.startswith("classifier.") else weight)
        + (shift if name.endswith("bias") else 0.0)
        for name, weight in weights.items()
    }


def _check_same_answers(task: Task, trained: Task) -> None:
    """Refuse a head whose answers have another meaning than the task's.

    Another task may give the same numbers to its classes, or a number to something else.
    """
    names, known = task.answer.class_names, trained.answer.class_names
    has_names = not all(name.isdecimal() or name == "score" for name in names)
    is_other_task = names and not has_names and task.name != trained.name
    # outputs that are trained with the same loss mean the same, as those for both versions of SQuAD
    if type(task.answer).loss is not type(trained.answer).loss or is_other_task:
        raise InputError(f"the model was trained for the task {trained.name}")
    if set(names) != set(known):
        raise InputError(f"the model has the classes {list_names(known)}, the data have {list_names(names)}")
    settings, of_model = task.settings, trained.settings
    is_linear = settings.get("activation") == of_model.get("activation") == "identity"
    convertible = _CONVERTIBLE | (_SCALE if is_linear else set())
    for name in task.answer.weight_settings:
        if name not in convertible and settings[name] != of_model[name]:
            raise InputError(f"the model has {name} {of_model[name]}, not {settings[name]}")


def load_teacher(task: Task, config: FinetuneConfig, directory: Path, tokenizer: Tokenizer) -> Teacher:
    """Return the teacher in a directory, for a task whose labels are known."""
    if not task.answer.learns_from_teachers():
        remedy = "Leave out the teacher"
        raise InputError(f"{task.name} cannot learn from a teacher", where=directory, remedy=remedy)
    verify_checkpoint(directory)
    positions, sha256 = load_config(directory).max_position_embeddings, artifacts.directory_sha256(directory)
    if config.distillation.teacher_sha256 not in (None, sha256):
        remedy = "Restore the run's teacher, or leave teacher_sha256 out of a new run's settings"
        raise InputError("not the teacher that the settings were made for", where=directory, remedy=remedy)
    if replace(load_tokenizer(directory), model_max_length=tokenizer.model_max_length) != tokenizer:
        what = f"has another vocabulary than the student, {config.model}, or lowercases otherwise"
        remedy = "Give a student with the same, such as some layers of the teacher (`student_layers`)"
        raise InputError(what, where=directory, remedy=remedy)
    if config.max_seq_length > positions:
        what = f"max_seq_length {config.max_seq_length}, the teacher takes {positions} tokens"
        raise InputError(what, where=directory, remedy=f"Say `max_seq_length={positions}`")
    teacher_task = _load_teacher_task(task, directory)
    try:
        task.answer.check_teacher(teacher_task.answer)
    except InputError as error:
        remedy = error.remedy or "Give a teacher that was fine-tuned on the same classes"
        raise InputError(error.what, where=directory, remedy=remedy) from error
    return Teacher(directory, teacher_task, sha256)


def _load_teacher_task(task: Task, directory: Path) -> Task:
    """Return the task of a teacher, which may be a checkpoint of another program."""
    stored, remedy = load_task(directory), f"Fine-tune one: cloze finetune {task.name}"
    if stored is not None and type(stored[0].answer).distance is type(task.answer).distance:
        return stored[0]
    if stored is not None and (task.answer.has_head or stored[0].answer.has_head):
        what = f"is a model for the task {stored[0].name!r}, whose outputs are others than {task.name!r} has"
        raise InputError(what, where=directory, remedy=remedy)
    try:
        return (task if task.answer.has_head else find_task(task.name)).for_external_checkpoint(directory)
    except InputError as error:
        raise InputError(error.what, where=error.where or directory, remedy=remedy) from error


def compute_targets(
    task: Task, teacher: Teacher, model: nn.Module, features: Sequence[Any], *, max_tokens: int
) -> list[Array]:
    """Return what features learn from a teacher and its model, computed in float32; `task` is the student's."""
    outputs = compute_outputs(teacher.task.answer, TorchEngine(model), features, max_tokens=max_tokens)
    return [task.answer.teacher_rows(outputs[i], teacher.task.answer) for i in range(len(features))]
