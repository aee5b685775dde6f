"""Checkpoints of a run: writing, pruning, the links to them, and the state to resume from.

    RUN/checkpoints/step-00000500/{config.json, model.safetensors, …, training/, manifest.json}
    RUN/latest  best                       links to checkpoints
    RUN/config.json  model.safetensors …   links to the files of the best, else of the latest

All links are relative. Those to files are for other programs, which load the run as they load a checkpoint.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated

from safetensors.torch import load_file
from torch import nn

from cloze import artifacts, file_io
from cloze.config import Positive, Range, Settings
from cloze.data.batch import DataPosition
from cloze.errors import InputError
from cloze.file_names import CARD_FILE, MANIFEST, TRAINING_FOLDER
from cloze.model_paths import RunLink, follow_link
from cloze.models.checkpoint import KIND, save_weights
from cloze.progress import Progress
from cloze.training.metrics_log import METRICS
from cloze.training.optimizer import AdamW

STATE_FILE = f"{TRAINING_FOLDER}/state.json"
SETTINGS_FILE = f"{TRAINING_FOLDER}/{artifacts.RUN_CONFIG}"
"""The run's settings when the checkpoint was written."""
_CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step-\d+")
_PASSED_OVER = "damaged-"
_OPTIMIZER = f"{TRAINING_FOLDER}/optimizer.safetensors"
_NOT_OF_MODEL = {MANIFEST, CARD_FILE, TRAINING_FOLDER}
"""Files of a checkpoint that no program needs for loading it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig(Settings):
    """When checkpoints are written, and which are kept."""

    every_minutes: Annotated[float, Range("(0, inf]")] = 10.0
    every_steps: Positive[int | None] = None
    """Also save after every so many steps."""
    keep_newest: Positive[int] = 2
    keep_every_steps: Positive[int | None] = None
    """Also save after every so many steps, and keep these checkpoints."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a run after a step, besides its weights and the state of the optimizer."""

    step: int = 0
    elapsed_seconds: float = 0.0
    tokens: int = 0
    position: DataPosition = DataPosition()
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Those of the last evaluation."""
    evaluations: int = 0
    """Evaluations that the schedule has had so far."""
    evaluations_since_best: int = 0
    best_score: tuple[float, ...] = ()
    best_step: int | None = None
    micro_batch_tokens: int | None = None
    """The setting as halved after memory ran out; None if it never did."""


def save_checkpoint(
    run: Path,
    state: TrainingState,
    config: CheckpointConfig,
    model: nn.Module,
    optimizer: AdamW,
    save_model: Callable[[Path], None],
) -> None:
    """Write the checkpoint of `state.step` atomically, update `latest` and `best`, and delete those not kept."""
    path = run / _checkpoint_name(state.step)
    with artifacts.write_directory(path, kind=KIND, overwrite=True) as directory:
        save_model(directory)
        (directory / TRAINING_FOLDER).mkdir(exist_ok=True)
        moments = {
            f"{key}/{name}": value.detach().cpu().contiguous()
            for name, parameter in model.named_parameters()
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        save_weights(moments, directory / _OPTIMIZER)
        values = json.dumps(file_io.with_nulls(asdict(state)), indent=1, allow_nan=False)
        (directory / STATE_FILE).write_text(f"{values}\n", encoding="utf-8")
    if (run / METRICS).is_file():  # a resumed run reads the rows before its checkpoint
        file_io.sync_file(run / METRICS)
    link_steps(run, state.step, state.best_step)
    paths = _checkpoints_of(run)
    kept = set(paths[-config.keep_newest :])
    if os.path.lexists(run / "best"):
        kept.add(run / file_io.read_link(run / "best"))
    for path in paths:
        if path not in kept and (config.keep_every_steps is None or _step_of(path) % config.keep_every_steps):
            artifacts.remove_directory(path)


def link_steps(run: Path, latest: int | None, best: int | None) -> None:
    """Link a run to its checkpoints of two steps, as `link_checkpoints` does; not to one that does not exist."""
    names = (None if step is None else _checkpoint_name(step) for step in (latest, best))
    link_checkpoints(run, *(name if name and (run / name).is_dir() else None for name in names))


def link_checkpoints(run: Path, latest: str | None, best: str | None) -> None:
    """Write the links `latest` and `best`, and those to the files of the model of the best, else of the latest.

    Paths of checkpoints are relative to the run; None deletes the link.
    """
    targets = {name: path for name, path in (("latest", latest), ("best", best)) if path is not None}
    for name, target in targets.items():
        _write_link(run / name, target)
    link = "best" if best is not None else "latest"
    if link in targets and (run / link).is_symlink():  # else the disk has no links
        model = {file.name for file in (run / link).iterdir()} - _NOT_OF_MODEL
        for name in sorted(model):
            targets[name] = f"{link}/{name}"
            _write_link(run / name, targets[name])
    for path in run.iterdir():
        is_link = path.is_symlink() and os.readlink(path).startswith(("latest/", "best/"))
        is_named_so = path.name in ("latest", "best") and (path.is_symlink() or path.is_file())
        if path.name not in targets and (is_link or is_named_so):
            path.unlink()


def _write_link(path: Path, target: str) -> None:
    if path.is_dir() and not path.is_symlink():  # copied by a program that follows links
        artifacts.remove_directory(path)
    file_io.write_link(path, target)


def repair_checkpoints(run: Path, state: TrainingState, progress: Progress) -> None:
    """Make the checkpoint that a run resumes from its newest one; name the links that lead to no checkpoint.

    Later ones are damaged. They are renamed: they can still be repaired, but would be taken for the newest.
    """
    links: tuple[RunLink, ...] = ("latest", "best")
    for link in links:
        if os.path.lexists(run / link):
            try:
                follow_link(run, link)
            except InputError as error:
                progress.note(f"warning: {error.where}: {error.what}: it is written again")
    for path in _checkpoints_of(run):
        if _step_of(path) > state.step:
            aside = path.with_name(f"{_PASSED_OVER}{path.name}")
            if aside.exists():  # from an earlier resume
                artifacts.remove_directory(aside)
            with file_io.disk_errors(path):
                path.rename(aside)
    link_steps(run, state.step, state.best_step)


def _checkpoint_name(step: int) -> str:
    return f"{_CHECKPOINTS}/step-{step:08}"


def _checkpoints_of(run: Path) -> list[Path]:
    """Return a run's checkpoints by step, and no other directories."""
    return sorted(path for path in (run / _CHECKPOINTS).glob("step-*") if _NAME.fullmatch(path.name))


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def keep_best_checkpoint(run: Path) -> None:
    """Delete all checkpoints but the best, which is then the newest, too."""
    if not (run / _CHECKPOINTS).is_dir():
        return
    step = read_state(follow_link(run, "best")).step
    link_steps(run, step, step)
    for path in _checkpoints_of(run):
        if _step_of(path) != step:
            artifacts.remove_directory(path)


def remove_checkpoints(run: Path) -> None:
    """Delete all checkpoints, and the links to them."""
    link_checkpoints(run, None, None)
    if (run / _CHECKPOINTS).exists():
        artifacts.remove_directory(run / _CHECKPOINTS)


def newest_checkpoint(run: Path, progress: Progress) -> Path | None:
    """Return the newest intact checkpoint, with a warning for each damaged one; None if there are no checkpoints."""
    newest_damage = None
    for path in reversed(_checkpoints_of(run)):
        try:
            artifacts.verify(path, kind=KIND)
        except artifacts.IntegrityError as error:
            newest_damage = newest_damage or error
            progress.note(f"warning: skipped a damaged checkpoint: {error}")
        else:
            return path
    if newest_damage is not None:  # a new start would delete checkpoints that can be repaired
        what = f"{newest_damage.what}, and no other checkpoint is intact"
        raise InputError(what, where=newest_damage.where, remedy="`overwrite` starts from the first step")
    return None


def copy_of_settings(run: Path) -> Path | None:
    """Return the copy of `run.toml` in the newest checkpoint, intact or not, else that of the start; None without."""
    copies = [path / SETTINGS_FILE for path in reversed(_checkpoints_of(run))]
    return next((copy for copy in (*copies, run / artifacts.FIRST_SETTINGS_FILE) if copy.is_file()), None)


def read_state(checkpoint: Path) -> TrainingState:
    """Read the state of a run.

    A best checkpoint that no longer exists is ignored: it was pruned for a later one, which is damaged.
    """
    values, run = file_io.read_json(checkpoint / STATE_FILE), checkpoint.parent.parent
    if values.keys() != {part.name for part in fields(TrainingState)}:
        remedy = "Resume with the version that wrote it, or start a new run from this checkpoint"
        raise InputError(
            "the state of another version of cloze", where=checkpoint / STATE_FILE, remedy=remedy
        )
    position, best_score = DataPosition(**values["position"]), tuple(values["best_score"])
    metrics = {name: math.nan if value is None else value for name, value in values["metrics"].items()}
    state = TrainingState(**values | {"position": position, "best_score": best_score, "metrics": metrics})
    if state.best_step is None or (run / _checkpoint_name(state.best_step)).is_dir():
        return state
    return replace(state, best_step=None, best_score=())


def load_optimizer(checkpoint: Path, model: nn.Module, optimizer: AdamW) -> None:
    """Load the optimizer's state of a checkpoint."""
    parameters = dict(model.named_parameters())
    for key_and_name, tensor in load_file(checkpoint / _OPTIMIZER).items():
        key, _, name = key_and_name.partition("/")
        optimizer.state[parameters[name]][key] = tensor.to(parameters[name].device)
