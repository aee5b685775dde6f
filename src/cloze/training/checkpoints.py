"""A run on disk: its checkpoints, which of them is the newest and the best, and what a resumed run needs.

    RUN/run.toml  metrics.jsonl  latest  best
    RUN/checkpoints/step-00000500/{config.json, model.safetensors, …, training/, manifest.json}

`latest` and `best` are text files that hold a path relative to the run; unlike links, every system has them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from cloze import artifacts
from cloze.errors import InputError
from cloze.locate import follow
from cloze.model.checkpoint import KIND, TRAINING_FOLDER, write_weights
from cloze.progress import Progress
from cloze.training.optimizer import OptimizerConfig, corrects_bias
from cloze.training.replicas import like

STATE_FILE = f"{TRAINING_FOLDER}/state.json"
_CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step-\d+")
_PASSED_OVER = "damaged-"
_AVERAGE = f"{TRAINING_FOLDER}/average.safetensors"
_OPTIMIZER = f"{TRAINING_FOLDER}/optimizer.safetensors"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointConfig:
    """When the state of a run is saved, and what is kept of it."""

    every_minutes: float = 10.0
    every_steps: int | None = None
    """Save after this many steps, too."""
    keep_newest: int = 2
    keep_every_steps: int | None = None
    """Save after this many steps, too, and keep these checkpoints for ever."""

    def __post_init__(self) -> None:
        if not self.every_minutes > 0 or self.keep_newest < 1:
            raise ValueError("every_minutes and keep_newest must be positive")
        for name in ("every_steps", "keep_every_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} {value} is not positive")


@dataclass(frozen=True, slots=True)
class Position:
    """Where the next instance is read: data are a pure function of it, so nothing else is kept."""

    phase: int = 0
    epoch: int = 0
    index: int = 0


@dataclass(frozen=True, slots=True)
class TrainingState:
    """What a run is, besides its weights and the optimizer's averages, after a completed step."""

    step: int = 0
    elapsed_seconds: float = 0.0
    tokens: int = 0
    position: Position = Position()
    best_merit: tuple[float, ...] = ()
    best_step: int | None = None
    micro_batch_tokens: int | None = None
    """What is left of the setting after memory ran out; None where it never did."""
    fixed: Mapping[str, Any] | None = None
    """Settings without which a run would not go on but become another, by name."""


def save_checkpoint(
    run: Path,
    state: TrainingState,
    averages: Mapping[str, Tensor],
    write_model: Callable[[Path], None],
    *,
    average: Mapping[str, Tensor] | None = None,
) -> None:
    """Write the checkpoint of `state.step` whole, and make `latest` and `best` point to what they name.

    Args:
        run: the run's directory.
        state: of the last completed step.
        averages: of the optimizer, as `optimizer_averages` names them.
        write_model: puts config, weights, tokenizer and card into a directory.
        average: where the weights written are a mean, what is needed to go on with it.

    Raises:
        RunError: the disk is full or cannot be written; earlier checkpoints stand.
    """
    path = run / _checkpoint_name(state.step)
    with artifacts.write_directory(path, kind=KIND, overwrite=True) as directory:
        write_model(directory)
        (directory / TRAINING_FOLDER).mkdir()
        write_weights(dict(averages), directory / _OPTIMIZER)
        if average is not None:
            write_weights(dict(average), directory / _AVERAGE)
        (directory / STATE_FILE).write_text(json.dumps(asdict(state), indent=1) + "\n", encoding="utf-8")
    point_to_checkpoints(run, state)


def point_to_checkpoints(run: Path, state: TrainingState) -> None:
    """Make `latest` and `best` name the checkpoint of a state and the best one before it, where there are any."""
    for pointer, step in (("latest", state.step or None), ("best", state.best_step)):
        if step is None:
            (run / pointer).unlink(missing_ok=True)
        else:
            artifacts.write_text(run / pointer, _checkpoint_name(step) + "\n")


def set_aside_later_checkpoints(run: Path, step: int) -> None:
    """Rename what a run that goes on from a step had saved after it: these were found to be damaged.

    Somebody may yet mend them; under their own names they would be taken for the newest.
    """
    for path in _checkpoints_of(run):
        if _step_of(path) > step:
            aside = path.with_name(f"{_PASSED_OVER}{path.name}")
            if aside.exists():  # from when the run came this far before
                artifacts.remove_directory(aside)
            with artifacts.disk_errors(path):
                path.rename(aside)


def _checkpoint_name(step: int) -> str:
    return f"{_CHECKPOINTS}/step-{step:08}"


def _checkpoints_of(run: Path) -> list[Path]:
    """Return a run's checkpoints in their order, and not what else somebody put there."""
    return sorted(path for path in (run / _CHECKPOINTS).glob("step-*") if _NAME.fullmatch(path.name))


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def prune_checkpoints(run: Path, config: CheckpointConfig) -> None:
    """Delete the checkpoints that are neither among the newest, nor the best, nor one of every n-th."""
    paths = _checkpoints_of(run)
    kept = set(paths[-config.keep_newest :])
    if (run / "best").exists():
        kept.add(run / (run / "best").read_text("utf-8").strip())
    for path in paths:
        if path not in kept and (config.keep_every_steps is None or _step_of(path) % config.keep_every_steps):
            artifacts.remove_directory(path)


def keep_best_checkpoint(run: Path) -> None:
    """Delete all checkpoints but the best, which is then the newest, too; where there are none do nothing."""
    if not (run / _CHECKPOINTS).is_dir():
        return
    best = follow(run, "best")
    artifacts.write_text(run / "latest", _checkpoint_name(_step_of(best)) + "\n")
    for path in _checkpoints_of(run):
        if path != best:
            artifacts.remove_directory(path)


def newest_checkpoint(run: Path, progress: Progress) -> Path | None:
    """Return the newest checkpoint whose every file is as it was written; damaged ones are named. None without any.

    Raises:
        InputError: none is whole, or one is of another format: to begin anew would cost what it holds.
    """
    newest_damage = None
    for path in reversed(_checkpoints_of(run)):
        try:
            artifacts.verify(path, kind=KIND)
        except artifacts.DamageError as error:
            newest_damage = newest_damage or error
            progress.note(f"warning: passed over a damaged checkpoint: {error}")
        else:
            return path
    if newest_damage is not None:
        what, remedy = f"{newest_damage.what}, and no other checkpoint is whole", "--overwrite begins anew"
        raise InputError(what, where=newest_damage.where, remedy=remedy)
    return None


def read_state(checkpoint: Path) -> TrainingState:
    """Read what `save_checkpoint` wrote of the run's state.

    A best checkpoint that is no longer there is forgotten: a later one, found to be damaged, had taken its place.

    Raises:
        InputError: it is not there, or damaged.
    """
    try:
        raw = json.loads((checkpoint / STATE_FILE).read_text("utf-8"))
        position, merit = Position(**raw["position"]), tuple(raw["best_merit"])
        state = replace(TrainingState(**raw), position=position, best_merit=merit)
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"holds no training state to resume from ({error})"
        raise InputError(what, where=checkpoint, remedy="Start a new run with --init") from error
    if (
        state.best_step is not None
        and not (checkpoint.parent.parent / _checkpoint_name(state.best_step)).is_dir()
    ):
        return replace(state, best_step=None, best_merit=())
    return state


def check_fixed(state: TrainingState, fixed: Mapping[str, Any], run: Path) -> None:
    """Refuse to go on with settings that somebody changed, where these are ones to be kept.

    Raises:
        InputError: one of them is another than the state was saved with.
    """
    if state.fixed is None:
        return  # saved by an older cloze
    for name, value in fixed.items():
        if state.fixed.get(name) != json.loads(json.dumps(value)):
            raise not_as_begun(name, run)


def not_as_begun(setting: str, run: Path) -> InputError:
    """Return the error that a run cannot go on with a setting that somebody changed in its file."""
    remedy = "Put it back, or start a new run from the checkpoint"
    return InputError(f"{setting} is not as the run began", where=run / artifacts.RUN_CONFIG, remedy=remedy)


def load_optimizer(
    checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: OptimizerConfig
) -> None:
    """Put the optimizer's averages of a checkpoint in place.

    Raises:
        InputError: they are those of another optimizer.
    """
    run, parameters = checkpoint.parent.parent, dict(model.named_parameters())
    averages = safetensors.torch.load_file(checkpoint / _OPTIMIZER)
    if averages and (config.muon is not None) != any(name.startswith("momentum/") for name in averages):
        raise not_as_begun("optimizer.muon", run)
    steps = [tensor for name, tensor in averages.items() if name.startswith("step/")]
    if any(corrects_bias(step) != config.bias_correction for step in steps):
        raise not_as_begun("optimizer.bias_correction", run)
    for key_and_name, tensor in averages.items():
        key, name = key_and_name.split("/", 1)
        optimizer.state[parameters[name]][key] = like(parameters[name], tensor)


def read_average(checkpoint: Path) -> dict[str, Tensor] | None:
    """Read what `save_checkpoint` wrote of a mean of weights; None where it wrote none."""
    file = checkpoint / _AVERAGE
    return safetensors.torch.load_file(file) if file.exists() else None


def optimizer_averages(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yield the optimizer's averages by the names of the parameters that they are of."""
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"{key}/{name}", value
