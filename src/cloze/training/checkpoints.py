"""Checkpoints of a run: writing, pruning, the pointers `latest` and `best`, and the state to resume from.

    RUN/run.toml  metrics.jsonl  latest  best
    RUN/checkpoints/step-00000500/{config.json, model.safetensors, …, training/, manifest.json}

`latest` and `best` are text files with a path relative to the run; unlike links, every system supports them.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from cloze import artifacts, file_io
from cloze.config import check_positive, differences, read_toml
from cloze.data.batch import DataPosition
from cloze.errors import InputError
from cloze.model_paths import follow_pointer
from cloze.models.checkpoint import KIND, TRAINING_FOLDER, save_weights
from cloze.progress import Progress
from cloze.run_files import METRICS, verify_run_files, write_run_files
from cloze.training.metric_sums import check_log_window
from cloze.training.optimizer import OptimizerConfig

STATE_FILE = f"{TRAINING_FOLDER}/state.json"
SETTINGS_FILE = f"{TRAINING_FOLDER}/{artifacts.RUN_CONFIG}"
"""The run's settings when the checkpoint was written."""
_CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step-\d+")
_PASSED_OVER = "damaged-"
_MAX_COUNT = 1 << 62
_OPTIMIZER = f"{TRAINING_FOLDER}/optimizer.safetensors"
_OPTIMIZER_KEYS = ("exp_avg", "exp_avg_sq", "momentum", "step")


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """When checkpoints are written, and which are kept."""

    every_minutes: float = 10.0
    every_steps: int | None = None
    """Also save after every so many steps."""
    keep_newest: int = 2
    keep_every_steps: int | None = None
    """Also save after every so many steps, and keep these checkpoints."""

    def __post_init__(self) -> None:
        check_positive(self, "every_minutes", "every_steps", "keep_newest", "keep_every_steps")


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state of a run after a step, besides its weights and the state of the optimizer."""

    step: int = 0
    elapsed_seconds: float = 0.0
    tokens: int = 0
    position: DataPosition = DataPosition()
    best_score: tuple[float, ...] = ()
    best_step: int | None = None
    micro_batch_tokens: int | None = None
    """The setting as halved after memory ran out; None if it never did."""
    immutable_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that must not change on resume, by name."""
    log_window: Mapping[str, Any] | None = None
    """Sums of the steps since the last row of the log, of all ranks; None before the first."""
    evaluation_seconds: float | None = None
    """Time of an evaluation as measured before the run, which is on the clock; None in other runs."""


def save_checkpoint(
    run: Path,
    state: TrainingState,
    optimizer_state: Mapping[str, Tensor],
    save_model: Callable[[Path], None],
) -> None:
    """Write the checkpoint of `state.step` atomically, and update `latest` and `best`.

    Args:
        run: the run's directory.
        state: the state after the step.
        optimizer_state: tensors by the names of `optimizer_state_tensors`.
        save_model: writes config, weights, tokenizer and card into a directory.

    Raises:
        RunError: the disk is full or cannot be written; earlier checkpoints stay intact.
    """
    path = run / _checkpoint_name(state.step)
    with artifacts.write_directory(path, kind=KIND, overwrite=True) as directory:
        save_model(directory)
        (directory / TRAINING_FOLDER).mkdir(exist_ok=True)
        save_weights(dict(optimizer_state), directory / _OPTIMIZER)
        (directory / STATE_FILE).write_text(json.dumps(asdict(state), indent=1) + "\n", encoding="utf-8")
    write_pointers(run, state, record_metrics=(run / METRICS).is_file())


def write_pointers(run: Path, state: TrainingState, *, record_metrics: bool = False) -> None:
    """Write `latest` and `best`, or delete them if there is no such checkpoint."""
    steps = {"latest": state.step, "best": state.best_step}
    texts = {
        pointer: None
        if step is None or not (run / _checkpoint_name(step)).is_dir()
        else _checkpoint_name(step) + "\n"
        for pointer, step in steps.items()
    }
    write_run_files(run, texts, record_metrics=record_metrics)


def move_later_checkpoints_aside(run: Path, step: int) -> None:
    """Rename the checkpoints after the step that a run resumes from, which are damaged.

    They can still be repaired; under their own names they would be taken for the newest.
    """
    for path in _checkpoints_of(run):
        if _step_of(path) > step:
            aside = path.with_name(f"{_PASSED_OVER}{path.name}")
            if aside.exists():  # from an earlier resume
                artifacts.remove_directory(aside)
            with file_io.disk_errors(path):
                path.rename(aside)


def _checkpoint_name(step: int) -> str:
    return f"{_CHECKPOINTS}/step-{step:08}"


def _checkpoints_of(run: Path) -> list[Path]:
    """Return a run's checkpoints by step, and no other directories."""
    return sorted(path for path in (run / _CHECKPOINTS).glob("step-*") if _NAME.fullmatch(path.name))


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def prune_checkpoints(run: Path, config: CheckpointConfig) -> None:
    """Delete all checkpoints but the newest ones, the best, and those at every `keep_every_steps`."""
    paths = _checkpoints_of(run)
    kept = set(paths[-config.keep_newest :])
    if (run / "best").exists():
        kept.add(run / (run / "best").read_text("utf-8").strip())
    for path in paths:
        if path not in kept and (config.keep_every_steps is None or _step_of(path) % config.keep_every_steps):
            artifacts.remove_directory(path)


def keep_best_checkpoint(run: Path) -> None:
    """Delete all checkpoints but the best, which is then the newest, too."""
    if not (run / _CHECKPOINTS).is_dir():
        return
    best = follow_pointer(run, "best")
    write_run_files(run, {"latest": _checkpoint_name(_step_of(best)) + "\n"})
    for path in _checkpoints_of(run):
        if path != best:
            artifacts.remove_directory(path)


def newest_checkpoint(run: Path, progress: Progress) -> Path | None:
    """Return the newest intact checkpoint, with a warning for each damaged one; None if there are no checkpoints.

    Raises:
        InputError: no checkpoint is intact, or one has another format. Starting again would delete them.
    """
    newest_damage = None
    for path in reversed(_checkpoints_of(run)):
        try:
            artifacts.verify(path, kind=KIND)
        except artifacts.IntegrityError as error:
            newest_damage = newest_damage or error
            progress.note(f"warning: skipped a damaged checkpoint: {error}")
        else:
            return path
    if newest_damage is not None:
        what = f"{newest_damage.what}, and no other checkpoint is intact"
        raise InputError(what, where=newest_damage.where, remedy="--overwrite starts from the first step")
    return None


def settings_of_newest_checkpoint(run: Path) -> Path | None:
    """Return the copy of `run.toml` in the newest checkpoint that has one."""
    copies = (path / SETTINGS_FILE for path in reversed(_checkpoints_of(run)))
    return next((copy for copy in copies if copy.is_file()), None)


def read_state(checkpoint: Path) -> TrainingState:
    """Read the state of a run.

    A best checkpoint that no longer exists is ignored: it was pruned for a later one, which is damaged.

    Raises:
        InputError: there is no state, or it is damaged.
    """
    try:
        values = file_io.read_json(checkpoint / STATE_FILE)
        if (
            missing := {*asdict(TrainingState())} - values.keys()
            or {*asdict(DataPosition())} - values["position"].keys()
        ):
            raise KeyError(", ".join(sorted(missing)))
        values["position"] = DataPosition(**values["position"])
        values["best_score"] = tuple(values["best_score"])
        state = TrainingState(**values)
        _check_state(state, checkpoint.name)
    except (InputError, AttributeError, TypeError, KeyError, ValueError) as error:
        what = f"holds no training state to resume from ({getattr(error, 'what', error)})"
        raise InputError(what, where=checkpoint, remedy="Start a new run with --init") from error
    run = checkpoint.parent.parent
    if state.best_step is None or (run / _checkpoint_name(state.best_step)).is_dir():
        return state
    return replace(state, best_step=None, best_score=())


def _check_state(state: TrainingState, name: str) -> None:
    """Check the values of the state in the checkpoint of a name.

    Raises:
        ValueError: one is of another type, or impossible.
    """
    counts = [
        state.step,
        state.tokens,
        *astuple(state.position),
        state.best_step or 0,
        state.micro_batch_tokens or 1,
    ]
    numbers = [state.elapsed_seconds, state.evaluation_seconds or 0, *state.best_score]
    if not all(type(count) is int and 0 <= count < _MAX_COUNT for count in counts):
        raise ValueError("a count is negative, too large or no whole number")
    if not all(type(number) in (int, float) for number in numbers) or not state.elapsed_seconds >= 0:
        raise ValueError("a time or score is no number, or negative")
    if (state.best_step or 0) > state.step or (
        _NAME.fullmatch(name) and _checkpoint_name(state.step) != f"{_CHECKPOINTS}/{name}"
    ):
        raise ValueError(f"step {state.step} and best step {state.best_step} in {name}")
    if not isinstance(state.immutable_settings, dict):
        raise ValueError("the settings are no table")
    if state.log_window is not None:
        check_log_window(state.log_window)


def check_unchanged(state: TrainingState, immutable_settings: Mapping[str, Any], run: Path) -> None:
    """Check that no immutable setting has changed.

    Raises:
        InputError: one has.
    """
    for name, value in immutable_settings.items():
        if state.immutable_settings.get(name) != json.loads(json.dumps(value)):
            raise changed_setting_error(name, run)


def check_settings(run: Path, written: Path | None) -> dict[str, tuple[Any, Any]]:
    """Return the settings that a resumed run changes, with the values in its checkpoint and in `run.toml`.

    Args:
        run: the run.
        written: the copy of `run.toml` in the checkpoint that it resumes from, if there is one.

    Raises:
        InputError: `run.toml` is not as cloze wrote it; the message names what differs from the checkpoint.
    """
    file, damage = run / artifacts.RUN_CONFIG, None
    try:
        is_recorded = verify_run_files(run, names=(artifacts.RUN_CONFIG,)) > 0
    except artifacts.IntegrityError as error:
        is_recorded, damage = False, error
    if written is None or not written.is_file():  # before the first checkpoint
        if damage is not None:
            raise damage
        return {}
    changes = differences(read_toml(written), read_toml(file))
    if changes and not is_recorded:
        values = ", ".join(f"{key} is {new!r}, not {old!r}" for key, (old, new) in changes.items())
        what = f"differs from {written}: {values}"
        remedy = "Restore it; what may change in a run is changed by --resume --set KEY=VALUE"
        raise InputError(what, where=file, remedy=remedy)
    return changes


def changed_setting_error(setting: str, run: Path) -> InputError:
    """Return the error of a setting that was changed in `run.toml`."""
    what = f"{setting} differs from the start of the run"
    remedy = "Restore it, or start a new run from the checkpoint"
    return InputError(what, where=run / artifacts.RUN_CONFIG, remedy=remedy)


def load_optimizer(
    checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: OptimizerConfig
) -> None:
    """Load the optimizer's state of a checkpoint.

    Raises:
        InputError: it is the state of another optimizer.
    """
    run, parameters = checkpoint.parent.parent, dict(model.named_parameters())
    tensors = _load_tensors(checkpoint / _OPTIMIZER)
    if not tensors:
        return
    if (config.muon is not None) != any(name.startswith("momentum/") for name in tensors):
        raise changed_setting_error("optimizer.muon", run)
    has_correction = any(name.startswith("step/") for name in tensors)
    if has_correction != config.bias_correction:
        raise changed_setting_error("optimizer.bias_correction", run)
    for key_and_name, tensor in tensors.items():
        key, _, name = key_and_name.partition("/")
        parameter = parameters.get(name)
        if key not in _OPTIMIZER_KEYS or parameter is None:
            raise _wrong_state(checkpoint / _OPTIMIZER, f"the model has no {key_and_name:.100}")
        if tensor.shape != (() if key == "step" else parameter.shape) or not tensor.isfinite().all():
            raise _wrong_state(checkpoint / _OPTIMIZER, f"{key_and_name} has another shape, or is not finite")
        optimizer.state[parameter][key] = tensor.to(parameter.device)
    for updated, state in optimizer.state.items():
        if len(state) < (1 if "momentum" in state else 2 + has_correction):
            name = next(name for name, other in parameters.items() if other is updated)
            raise _wrong_state(checkpoint / _OPTIMIZER, f"it has only {', '.join(state)} of {name}")


def _load_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise _wrong_state(file, f"it cannot be read: {error}") from error


def _wrong_state(file: Path, what: str) -> InputError:
    """Return the error of a file that is as it was written, but does not belong to the run."""
    return InputError(
        f"is not the state of this run: {what}", where=file, remedy="Resume an earlier checkpoint"
    )


def optimizer_state_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state on the CPU, named by key and parameter."""
    return {
        f"{key}/{name}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
