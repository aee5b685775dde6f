"""Outputs of a distillation's teacher for the training data, which are computed once and kept in the run.

RUN/teacher/{outputs.bin, starts.npy, outputs.json, manifest.json}
"""

import hashlib
import json
import math
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from cloze import artifacts, file_io
from cloze.config import to_dict
from cloze.errors import InputError
from cloze.finetuning.preparation import PreparedData
from cloze.finetuning.teacher import TeacherOutputs, compute_targets
from cloze.progress import Progress
from cloze.tasks.predict import featurize
from cloze.tasks.task_batch import Array

_FOLDER = "teacher"
_KIND = "teacher outputs"
_VALUES, _STARTS, _DESCRIPTION = "outputs.bin", "starts.npy", "outputs.json"
_EXAMPLES_PER_PART = 1024


def with_teacher_outputs(prepared: PreparedData, run: Path, progress: Progress) -> PreparedData:
    """Add the outputs of the teacher for the training data, if there is one; the directory of the run keeps them."""
    if prepared.teacher is None or prepared.teacher_outputs is not None:
        return prepared
    prepared.context.run_on_rank_zero(lambda: _ensure_outputs(run, prepared, progress))
    return replace(prepared, teacher_outputs=read_outputs(run))


def _ensure_outputs(run: Path, prepared: PreparedData, progress: Progress) -> None:
    """Compute the teacher's outputs for the training data and keep them in a run, unless it has them."""
    task, config, tokenizer, teacher = prepared.task, prepared.config, prepared.tokenizer, prepared.teacher
    assert teacher is not None
    key = {
        "teacher": teacher.sha256,
        "data": config.data_sha256,
        "tokens": hashlib.sha256(json.dumps(to_dict(tokenizer)).encode()).hexdigest(),
        "task": task.to_dict(),
        "max_seq_length": config.max_seq_length,
        "train_examples": config.train_examples,
        "dev_fraction": config.dev_fraction,
    }
    path = run / _FOLDER
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
            groups = featurize(task.answer, part, tokenizer, max_seq_length=config.max_seq_length)
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
    """Return the teacher's outputs that `_ensure_outputs` keeps in a run."""
    path = run / _FOLDER
    description = file_io.read_json(path / _DESCRIPTION)
    starts = np.load(path / _STARTS)
    shape = (int(starts[-1]), *description["row_shape"])
    values: Array = np.zeros(shape, np.float32)
    if math.prod(shape):
        values = np.memmap(path / _VALUES, np.float32, "r", shape=shape)
    return TeacherOutputs(values, starts)
