"""The teacher of a distillation, and its outputs for features.

Shapes: N features, R rows.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from cloze import artifacts, file_io
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.quantization import refuse_int8
from cloze.models.torch_engine import TorchEngine
from cloze.models.weight_mapping import MissingWeightsError
from cloze.tasks.config import load_task
from cloze.tasks.predict import compute_outputs
from cloze.tasks.registry import find_task
from cloze.tasks.task import AnyTask
from cloze.tasks.task_batch import Array
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.model_card import card_license


@dataclass(frozen=True, slots=True)
class Teacher:
    """A fine-tuned model that a student learns from."""

    directory: Path
    task: AnyTask
    sha256: str
    license: str

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

    def rows(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Array:
        """Return the rows of features, one after the other."""
        parts = [self.values[self.starts[i] : self.starts[i + 1]] for i in indices]
        return np.concatenate(parts)


def load_teacher(task: AnyTask, config: FinetuneConfig, directory: Path, tokenizer: Tokenizer) -> Teacher:
    """Return the teacher in a directory, for a task whose labels are known."""
    refuse_int8(directory, "used as a teacher")
    if not task.answer.learns_from_teachers():
        remedy = "Leave out the teacher"
        raise InputError(f"{task.name} cannot learn from a teacher", where=directory, remedy=remedy)
    positions = load_config(directory).max_position_embeddings
    sha256 = checkpoint_sha256(directory)
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
    return Teacher(directory, teacher_task, sha256, card_license(directory))


def _load_teacher_task(task: AnyTask, directory: Path) -> AnyTask:
    """Return the task of a teacher, which may be a checkpoint of another program."""
    stored, remedy = load_task(directory), f"Fine-tune one: cloze finetune {task.name}"
    if stored is not None and type(stored[0].answer).distance is type(task.answer).distance:
        return stored[0]
    if stored is not None and (task.answer.has_head or stored[0].answer.has_head):
        what = f"is a model for the task {stored[0].name!r}, whose outputs are others than those of {task.name!r}"
        raise InputError(what, where=directory, remedy=remedy)
    try:
        return (task if task.answer.has_head else find_task(task.name)).for_external_checkpoint(directory)
    except InputError as error:
        raise InputError(error.what, where=error.where or directory, remedy=remedy) from error


def checkpoint_sha256(directory: Path) -> str:
    """Return the SHA-256 of a checkpoint: of its manifest, or of all its files but the card if it has none."""
    manifest = directory / artifacts.MANIFEST
    if manifest.is_file():
        artifacts.verify(directory, kind="checkpoint")
        return file_io.sha256_of_file(manifest)
    digest = hashlib.sha256()
    for file in sorted(file for file in directory.iterdir() if file.is_file()):
        if file.name != artifacts.CARD_FILE:
            digest.update(f"{file.name}\n{file_io.sha256_of_file(file)}\n".encode())
    return digest.hexdigest()


def compute_targets(
    task: AnyTask, teacher: Teacher, model: nn.Module, features: Sequence[Any], *, max_tokens: int
) -> list[Array]:
    """Return what features learn from a teacher and its model, computed in float32; `task` is the student's."""
    outputs = compute_outputs(
        teacher.task.answer, TorchEngine(model, adapts_to_load=False), features, max_tokens=max_tokens
    )
    return [task.answer.teacher_rows(outputs[i], teacher.task.answer) for i in range(len(features))]
