"""The directory of a run: creating it, and what its settings may change when it is resumed."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from cloze import artifacts, file_io
from cloze import config as configuration
from cloze.errors import InputError, RunError
from cloze.training.checkpoints import SETTINGS_FILE, copy_of_settings

_CHANGEABLE_SECTIONS = ("checkpoints.", "distribution.")
_CHANGEABLE = (
    "data", "old_data", "train", "dev", "device", "precision", "micro_batch_tokens", "license", "patience",
    "evaluation.patience", "log_every_steps", "evaluation.log_every_steps", "optimizer.learning_rate",
    "optimizer.muon.learning_rate",
)  # fmt: skip
"""Settings that may change on resume; data may be moved, and are known by their SHA-256."""
_NEW_RUN = "Leave them out, or start a new run in another output, which may begin with this run's model"
_READ = ("model", "init")
"""Models that a run started from, which its checkpoints replace: they may be moved, too."""


def check_output(run: Path, *, overwrite: bool, inputs: Iterable[Path | str | None] = ()) -> None:
    """Check that a run may be created in a directory."""
    hint = ", continue with `resume`"
    artifacts.check_output_path(run, overwrite=overwrite, inputs=inputs, resume_hint=hint)


def create_run_directory(
    run: Path, settings: str, *, files: Mapping[str, Path] = {}, overwrite: bool
) -> None:
    """Write a run's settings and its copies of text files, by their names in it; the caller holds its lock.

    Raises:
        InputError: another process has created a run there, or a setting is not Unicode text.
        RunError: the disk is full or cannot be written; no file is left but the lock.
    """
    check_output(run, overwrite=overwrite)
    artifacts.clear_directory(run)
    try:
        # `artifacts.is_free` knows by the first file that a kill left the others, and the last one completes the run
        file_io.write_text(run / artifacts.FIRST_SETTINGS_FILE, settings)
        for name, file in files.items():
            file_io.write_text(run / name, file.read_text("utf-8"))
        file_io.write_text(run / artifacts.RUN_CONFIG, settings)
    except RunError:
        artifacts.clear_directory(run)
        raise


def is_changeable(setting: str) -> bool:
    """Return whether a setting, by its dotted key, may change when a run is resumed."""
    return setting.startswith(_CHANGEABLE_SECTIONS) or setting in _CHANGEABLE


def changed_settings(
    run: Path, differences: Mapping[str, tuple[object, object]], explicit: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a run to resume, with the permitted changes; refuse other differences.

    Args:
        differences: the value in the run and the new one, by setting.
        explicit: settings of arguments, not of a recipe, which may change a setting.
    """
    changeable = set(filter(is_changeable, configuration.differences(explicit, {})))
    different = {
        key: pair
        for key, pair in differences.items()
        if not all(isinstance(value, str) for value in pair) or len({*map(_absolute, pair)}) == 2
    }
    if refused := {key: pair for key, pair in different.items() if key not in changeable}:
        settings = ", ".join(f"{key} is {old!r}, not {new!r}" for key, (old, new) in refused.items())
        what = f"resume uses the settings of the run: {settings}"
        raise InputError(what, where=run, remedy=_NEW_RUN)
    table = configuration.read_toml(run / artifacts.RUN_CONFIG)
    configuration.merge_dicts(table, configuration.nest({key: new for key, (_, new) in different.items()}))
    return table


def _absolute(path: object) -> str:
    return os.path.realpath(str(path))


def check_settings(run: Path, settings: Mapping[str, Any], copy: Path | None) -> dict[str, tuple[Any, Any]]:
    """Return the settings that a run changes on resume: the values in a copy of `run.toml` and the new ones.

    Settings that may not change are refused.

    Args:
        settings: those that `run.toml` has, or will have.
        copy: that of the checkpoint to resume from; None compares nothing.
    """
    if copy is None:
        return {}
    changes = configuration.differences(configuration.read_toml(copy), settings)
    refused = {key: pair for key, pair in changes.items() if not is_changeable(key) and key not in _READ}
    if refused:
        named = ", ".join(f"{key} is {new!r}, not {old!r}" for key, (old, new) in refused.items())
        remedy = "Copy it over, or start a new run in another output"
        raise InputError(f"differs from {copy}: {named}", where=run / artifacts.RUN_CONFIG, remedy=remedy)
    return changes


def replace_settings(run: Path, settings: str, checkpoint: Path | None) -> dict[str, tuple[Any, Any]]:
    """Write the settings of a run to resume into `run.toml`; return the changes, and refuse forbidden ones.

    Args:
        checkpoint: the one to resume from; None resumes from the start.
    """
    copy = copy_of_settings(run) if checkpoint is None else checkpoint / SETTINGS_FILE
    changes = check_settings(run, tomllib.loads(settings), copy)
    file_io.write_text(run / artifacts.RUN_CONFIG, settings)
    return changes


def is_run(path: Path) -> bool:
    """Return whether a directory holds a run."""
    return (path / artifacts.RUN_CONFIG).is_file()


def run_settings_file(run: Path, *, verb: Literal["pretrain", "finetune"]) -> Path:
    """Return the settings of a run to resume."""
    if not is_run(run):
        what = f"no run to resume: it has no {artifacts.RUN_CONFIG}"
        raise InputError(what, where=run, remedy="Give the settings of a new run and a free `output`")
    file = run / artifacts.RUN_CONFIG
    try:
        written_by = "finetune" if "task" in configuration.read_toml(file) else "pretrain"
    except InputError as error:
        if (copy := copy_of_settings(run)) is not None:
            error.remedy = f"Copy {copy} over it"
        raise
    if written_by != verb:
        remedy = f"Resume it with cloze {written_by}"
        raise InputError(f"has the settings of cloze {written_by}", where=file, remedy=remedy)
    return file
