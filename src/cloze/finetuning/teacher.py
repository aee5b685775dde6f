"""The teacher of a distillation: loading it, and its outputs, which are computed once and kept in the run.

RUN/teacher/{outputs.bin, starts.npy, outputs.json, manifest.json}

Shapes: N features, R rows.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import nn

from cloze import artifacts, file_io
from cloze.config import to_dict
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.quantization import refuse_int8
from cloze.models.torch_engine import TorchEngine
from cloze.models.weight_mapping import MissingWeightsError
from cloze.progress import Progress
from cloze.tasks.config import load_task
from cloze.tasks.features import featurize
from cloze.tasks.predict import compute_outputs
from cloze.tasks.task import AnyTask, Task, family_of
from cloze.tasks.task_batch import Array
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.model_card import card_license

if TYPE_CHECKING:  # which imports this module
    from cloze.finetuning.preparation import PreparedData

FOLDER = "teacher"
_KIND = "teacher outputs"
_VALUES, _STARTS, _DESCRIPTION = "outputs.bin", "starts.npy", "outputs.json"
_EXAMPLES_PER_PART = 1024


@dataclass(frozen=True, slots=True)
class Teacher:
    """A fine-tuned model that a student learns from."""

    directory: Path
    task: AnyTask
    sha256: str
    license: str

    def load_model(self) -> nn.Module:
        """Return the model.

        Raises:
            InputError: it is damaged, or not fine-tuned for the task.
        """
        try:
            return load_model(self.directory, self.task.head, verify=False)
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
    """Return the teacher in a directory, for a task whose labels are known.

    Raises:
        InputError: it is not the one that the settings were made for, it has another vocabulary than the student or
            fewer positions than a sequence has tokens, or its task or labels are others.
    """
    refuse_int8(directory, "used as a teacher")
    if family_of(task) is Task:
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
        task.check_teacher(teacher_task)
    except InputError as error:
        remedy = error.remedy or "Give a teacher that was fine-tuned on the same classes"
        raise InputError(error.what, where=directory, remedy=remedy) from error
    return Teacher(directory, teacher_task, sha256, card_license(directory))


def _load_teacher_task(task: AnyTask, directory: Path) -> AnyTask:
    """Return the task of a teacher, which may be a checkpoint of another program."""
    stored, remedy = load_task(directory), f"Fine-tune one: cloze finetune {task.name}"
    if stored is not None and family_of(stored[0]) is family_of(task):
        return stored[0]
    if stored is not None and (task.has_head or stored[0].has_head):
        what = f"is a model for the task {stored[0].name!r}, whose outputs are others than those of {task.name!r}"
        raise InputError(what, where=directory, remedy=remedy)
    try:
        return (task if task.has_head else type(task)()).for_external_checkpoint(directory)
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


def ensure_outputs(run: Path, prepared: "PreparedData", progress: Progress) -> None:
    """Compute the teacher's outputs for the training data and keep them in a run, unless it has them."""
    task, config, tokenizer, teacher = prepared.task, prepared.config, prepared.tokenizer, prepared.teacher
    assert teacher is not None
    key = {
        "teacher": teacher.sha256,
        "data": config.data_sha256,
        "tokens": hashlib.sha256(json.dumps(to_dict(tokenizer)).encode()).hexdigest(),
        "task": to_dict(task),
        "max_seq_length": config.max_seq_length,
        "train_examples": config.train_examples,
        "dev_fraction": config.dev_fraction,
    }
    path = run / FOLDER
    if path.is_dir():
        try:
            artifacts.verify(path, kind=_KIND)
            if file_io.read_json(path / _DESCRIPTION)["key"] == key:
                return
            progress.note(f"{path}: of another teacher or other data: computed again")
        except artifacts.IntegrityError as error:
            progress.note(f"{error}: computed again")
    artifacts.remove_temporary_files(run)
    model = teacher.load_model().to(prepared.context.device)
    examples = [*prepared.data.train, *prepared.data.unlabeled]
    with (
        artifacts.write_directory(path, kind=_KIND, overwrite=True) as directory,
        (directory / _VALUES).open("wb") as file,
        progress.bar("teacher", total=len(examples), unit="examples") as bar,
    ):
        row_shape: tuple[int, ...] = ()
        counts: list[int] = []
        for start in range(0, len(examples), _EXAMPLES_PER_PART):
            part = examples[start : start + _EXAMPLES_PER_PART]
            # not the features of `data`, which may have outputs of the student's encoder
            groups = featurize(task, part, tokenizer, max_seq_length=config.max_seq_length)
            features = list(chain.from_iterable(groups))
            for rows in compute_targets(task, teacher, model, features, max_tokens=config.micro_batch_tokens):
                if not np.isfinite(rows).all():
                    remedy = "Give another teacher"
                    raise InputError("its outputs are not finite", where=teacher.directory, remedy=remedy)
                file.write(rows.astype(np.float32).tobytes())
                row_shape = rows.shape[1:]
                counts.append(len(rows))
            bar.advance(len(part))
        file.flush()
        np.save(directory / _STARTS, np.cumsum([0, *counts]))
        description = json.dumps({"key": key, "row_shape": row_shape}, indent=1)
        (directory / _DESCRIPTION).write_text(description + "\n", "utf-8")


def read_outputs(run: Path) -> TeacherOutputs:
    """Return the teacher's outputs that `ensure_outputs` keeps in a run."""
    path = run / FOLDER
    description = file_io.read_json(path / _DESCRIPTION)
    starts = np.load(path / _STARTS)
    shape = (int(starts[-1]), *description["row_shape"])
    values: Array = np.zeros(shape, np.float32)
    if math.prod(shape):
        values = np.memmap(path / _VALUES, np.float32, "r", shape=shape)
    return TeacherOutputs(values, starts)


def compute_targets(
    task: AnyTask, teacher: Teacher, model: nn.Module, features: Sequence[Any], *, max_tokens: int
) -> list[Array]:
    """Return what features learn from a teacher and its model, computed in float32; `task` is the student's."""
    outputs = compute_outputs(
        teacher.task, TorchEngine(model, adapts_to_load=False), features, max_tokens=max_tokens
    )
    return [task.teacher_rows(outputs[i], teacher.task) for i in range(len(features))]
