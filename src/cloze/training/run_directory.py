"""The directory of a run: its creation, its lock, what its settings may change on resume, and its environment."""

import os
import platform
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock, Timeout

from cloze import artifacts, file_io
from cloze.config import CHANGEABLE, MOVABLE, differences, flatten, has_mark, read_toml
from cloze.errors import InputError, RunError
from cloze.process import processor, usable_processors
from cloze.progress import Progress
from cloze.training.checkpoints import SETTINGS_FILE, copy_of_settings
from cloze.training.distributed import DistributedContext

ENVIRONMENT = "environment.json"
EARLIER = "earlier"
"""Key of earlier environments of a run that was resumed elsewhere."""
_PACKAGES = ("cloze-bert", "torch", "numpy", "tokenizers", "safetensors", "pyarrow")
_NEW_RUN = "Leave them out, or start a new run in another output, which may begin with this run's model"


def check_output(run: Path, *, overwrite: bool, inputs: Iterable[Path | str | None] = ()) -> None:
    """Check that a run may be created in a directory."""
    hint = ", continue with `resume`"
    artifacts.check_output_path(run, overwrite=overwrite, inputs=inputs, resume_hint=hint)


def create_run_directory(
    run: Path, settings: str, *, files: Mapping[str, Path] = {}, overwrite: bool
) -> None:
    """Write a run's settings and its copies of text files, by their names in it; the caller holds its lock."""
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


def changed_settings(
    run: Path, config_class: type, changes: Mapping[str, tuple[Any, Any]], explicit: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that a run to resume changes, with their new values; refuse changes of others.

    Args:
        config_class: the class of the run's settings, whose annotations say which may change.
        changes: the value in the run and the new one, by setting.
        explicit: settings of arguments, not of a recipe, which may change a setting.
    """
    different = {
        key: pair
        for key, pair in changes.items()
        if not all(isinstance(value, str) for value in pair) or len(set(map(os.path.realpath, pair))) > 1
    }
    may_change = {key for key in dict(flatten(explicit)) if has_mark(config_class, key, CHANGEABLE)}
    refused = {key: pair for key, pair in different.items() if key not in may_change}
    _refuse(refused, "resume uses the settings of the run", where=run, remedy=_NEW_RUN)
    return {key: new for key, (_, new) in different.items()}


def _refuse(pairs: Mapping[str, tuple[Any, Any]], what: str, *, where: Path, remedy: str) -> None:
    if pairs:
        named = ", ".join(f"{key} is {one!r}, not {other!r}" for key, (one, other) in pairs.items())
        raise InputError(f"{what}: {named}", where=where, remedy=remedy)


def check_settings(
    run: Path, config_class: type, settings: Mapping[str, Any], copy: Path | None
) -> dict[str, tuple[Any, Any]]:
    """Return the settings that a run changes on resume: the values in a copy of `run.toml` and the new ones.

    Settings that may not change are refused.

    Args:
        settings: those that `run.toml` has, or will have.
        copy: that of the checkpoint to resume from; None compares nothing.
    """
    changes = {} if copy is None else differences(read_toml(copy), settings)
    refused = {
        key: (new, old)
        for key, (old, new) in changes.items()
        if not has_mark(config_class, key, CHANGEABLE, MOVABLE)
    }
    remedy = "Copy it over, or start a new run in another output"
    _refuse(refused, f"differs from {copy}", where=run / artifacts.RUN_CONFIG, remedy=remedy)
    return changes


def replace_settings(
    run: Path, config_class: type, settings: str, checkpoint: Path | None
) -> dict[str, tuple[Any, Any]]:
    """Write the settings of a run to resume into `run.toml`; return the changes, and refuse forbidden ones.

    Args:
        checkpoint: the one to resume from; None resumes from the start.
    """
    copy = copy_of_settings(run) if checkpoint is None else checkpoint / SETTINGS_FILE
    changes = check_settings(run, config_class, tomllib.loads(settings), copy)
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
        written_by = "finetune" if "task" in read_toml(file) else "pretrain"
    except InputError as error:
        if (copy := copy_of_settings(run)) is not None:
            error.remedy = f"Copy {copy} over it"
        raise
    if written_by != verb:
        remedy = f"Resume it with cloze {written_by}"
        raise InputError(f"has the settings of cloze {written_by}", where=file, remedy=remedy)
    return file


@contextmanager
def file_lock(file: Path, taken: InputError) -> Iterator[None]:
    """Hold a lock that the system releases when the process ends, however it ends; raise `taken` if it is held."""
    lock = FileLock(file, timeout=0)
    with file_io.disk_errors(file), suppress(NotImplementedError):  # raised on disks without locks
        try:
            lock.acquire()
        except Timeout:
            raise taken from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def run_lock(run: Path, context: DistributedContext) -> Iterator[None]:
    """Keep other processes from creating, resuming or replacing a run; leave what was there if none is created."""
    is_new = not run.exists()
    taken = InputError("another process is using this run", where=run, remedy="Wait for it, or stop it first")

    def lock() -> None:
        with file_io.disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
        locks.enter_context(file_lock(run / artifacts.LOCK_FILE, taken))

    with ExitStack() as locks:
        context.run_on_rank_zero(lock)
        try:
            yield
        finally:
            with suppress(OSError):
                if context.is_rank_zero and os.listdir(run) == [artifacts.LOCK_FILE]:
                    (run / artifacts.LOCK_FILE).unlink()
                    if is_new:
                        run.rmdir()


def describe_environment(device: torch.device, compute_dtype: torch.dtype) -> dict[str, Any]:
    """Return versions, processor, threads, device and number format."""
    return {
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",  # the rest may name it
        "processor": processor(),
        "cores": usable_processors(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "compute_dtype": str(compute_dtype).removeprefix("torch."),
    }


def write_environment(
    run: Path, context: DistributedContext, compute_dtype: torch.dtype, progress: Progress
) -> None:
    """Write the environment of a run, with earlier ones that differ."""
    described = describe_environment(context.device, compute_dtype) | {"ranks": context.world_size}
    file = run / ENVIRONMENT
    before = file_io.read_json(file) if file.exists() else described
    earlier = before.pop(EARLIER, [])
    if changed := [name for name, value in described.items() if before.get(name) != value]:
        earlier = [*earlier, before]
        progress.note(
            f"warning: {', '.join(changed)} changed since the run started: results may differ in the last bits"
        )
    if earlier:
        described[EARLIER] = earlier
    file_io.write_json(file, described)
