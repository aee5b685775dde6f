"""A fine-tuning run from labelled data to a scored model."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from cloze import artifacts
from cloze.errors import InputError
from cloze.model.checkpoint import load_model, write_model_files
from cloze.progress import SILENT, Progress
from cloze.tasks.batches import Indices, by_length, epoch_order, held_out
from cloze.tasks.config import TASK_FILE, FinetuneConfig, TaskSettings, load_finetuning, to_toml
from cloze.tasks.features import count_truncated, featurize
from cloze.tasks.predict import predict
from cloze.tasks.task import AnyTask
from cloze.text.tokenizer import Tokenizer
from cloze.training.budget import Budget, Steps, StepsWithin
from cloze.training.checkpoints import (
    Position,
    TrainingState,
    newest_checkpoint,
    read_state,
    resolve_checkpoint,
)
from cloze.training.environment import write_environment
from cloze.training.loop import Measures, StepData, Trainer
from cloze.training.precision import resolve_device, resolve_dtype

SCORES = "scores.json"

Features: TypeAlias = list[list[Any]]
"""Of each example, its features."""


@dataclass(frozen=True, slots=True)
class LabelledData:
    """The examples of a run, to learn from and to be scored on, and their features."""

    train: list[Any]
    train_features: Features
    dev: list[Any]
    dev_features: Features


def finetune(
    task: AnyTask,
    config: FinetuneConfig,
    run: Path,
    *,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> dict[str, float]:
    """Fine-tune a model on a task. All data are read, checked and tokenized before the first step.

    Args:
        task: what is learned, with its settings.
        config: how; `run.toml` keeps both.
        run: directory of the run.
        overwrite: replace the run that is there.
        progress: where to tell how far it is.

    Returns:
        The task's scores on the dev data, as `scores.json` keeps them.

    Raises:
        InputError: a setting, a line of the data or the model to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM came, and the state was saved.
        RunError: the loss stayed infinite or NaN, or the disk is full.

    Source:
        Devlin et al. 2019, 4; google-research/bert run_classifier.py @eedf571.

    Differs:
        The last batch of an epoch has what is left, where Google's code fills it from the next epoch.
    """
    run = Path(run)
    artifacts.refuse_existing(run, overwrite=overwrite, resume_hint=", go on with --resume")
    config = replace(config, data_sha256=_fingerprint(config))
    start = resolve_checkpoint(Path(config.model))
    tokenizer = Tokenizer.load(start)
    task, data = _read_data(task, config, tokenizer, progress)
    model = _initial_model(task, config, start).to(resolve_device(config.device))
    if run.exists():
        shutil.rmtree(run)
    artifacts.write_text(run / artifacts.RUN_CONFIG, to_toml(task, config))
    return _train(task, config, run, data, tokenizer, model, TrainingState(), None, progress)


def resume_finetuning(run: Path, *, progress: Progress = SILENT) -> dict[str, float]:
    """Go on with a run from its newest checkpoint that is whole, with the settings it was started with.

    Raises:
        InputError: `run` is not a run of `finetune`, or its data are not those it began with.
    """
    run = Path(run)
    if not (run / artifacts.RUN_CONFIG).is_file():
        raise InputError(
            f"no run to resume: it has no {artifacts.RUN_CONFIG}", where=run, remedy="Leave out --resume"
        )
    task, config = load_finetuning(path=run / artifacts.RUN_CONFIG)
    _fingerprint(config)
    checkpoint = newest_checkpoint(run, progress)
    start = checkpoint or resolve_checkpoint(Path(config.model))
    tokenizer = Tokenizer.load(start)
    task, data = _read_data(task, config, tokenizer, progress)
    if checkpoint is None:
        model, state = _initial_model(task, config, start), TrainingState()
    else:
        model, state = load_model(checkpoint, task.head, verify=False), read_state(checkpoint)
    return _train(task, config, run, data, tokenizer, model, state, checkpoint, progress)


def _fingerprint(config: FinetuneConfig) -> str:
    """Return what identifies the content of the data; refuse other data than the settings name."""
    digest = hashlib.sha256()
    for name in (config.train, config.dev):
        if name is not None:
            if not Path(name).is_file():
                raise InputError("no such file", where=name)
            digest.update(bytes.fromhex(artifacts.sha256_of(Path(name))))
    found = digest.hexdigest()
    if config.data_sha256 not in (None, found):
        remedy = "Give the run its data back, or leave data_sha256 out of a new run's settings"
        raise InputError("not the data that the settings were made for", where=config.train, remedy=remedy)
    return found


def _read_data(
    task: AnyTask, config: FinetuneConfig, tokenizer: Tokenizer, progress: Progress
) -> tuple[AnyTask, LabelledData]:
    train = task.examples(Path(config.train))
    task = task.fitted(train)
    if config.dev is not None:
        dev = task.examples(Path(config.dev))
    else:
        is_dev = held_out(len(train), config.dev_fraction, seed=config.seed)
        dev = [example for example, out in zip(train, is_dev, strict=True) if out]
        train = [example for example, out in zip(train, is_dev, strict=True) if not out]
        if not train:
            remedy = "Give more examples, or a file with --dev"
            raise InputError("nothing is left to learn from", where=config.train, remedy=remedy)
    data = LabelledData(
        train,
        _featurize(task, train, tokenizer, config, "training", progress),
        dev,
        _featurize(task, dev, tokenizer, config, "dev", progress),
    )
    return task, data


def _featurize(
    task: AnyTask,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    config: FinetuneConfig,
    what: str,
    progress: Progress,
) -> Features:
    """Tokenize examples, and say how many were cut."""
    limit = config.max_seq_length
    features = featurize(task, examples, tokenizer, max_seq_length=limit, progress=progress)
    if cut := count_truncated(features):
        progress.note(f"{cut:,} of {len(examples):,} {what} examples are longer than {limit} tokens: cut")
    return features


def _initial_model(task: AnyTask, config: FinetuneConfig, start: Path) -> nn.Module:
    """Return the encoder of a checkpoint with a new head."""
    encoder = load_model(start)
    limit = encoder.config.max_position_embeddings
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit} tokens"
        raise InputError(what, where=config.model, remedy=f"Say --set max_seq_length={limit}")
    return task.head(encoder, generator=torch.Generator().manual_seed(config.seed)).train()


@dataclass(frozen=True, slots=True)
class FinetuningStep(StepData[Any]):
    """One step's batches, and what its mean is over."""

    num_targets: int


@dataclass(slots=True)
class FinetuningWork:
    """A task's features, as the training loop asks for them."""

    task: AnyTask
    features: Sequence[Any]
    dev_features: Sequence[Any]
    config: FinetuneConfig
    device: torch.device
    losses: tuple[str, ...] = ("loss",)
    _order: tuple[int, Indices] | None = field(init=False, default=None)

    @property
    def steps_per_epoch(self) -> int:
        """The last one takes what is left."""
        return -(-len(self.features) // self.config.batch_size)

    def step_data(self, progress: float, position: Position) -> FinetuningStep:
        """Return the next `batch_size` features of the epoch's order."""
        end = position.index + self.config.batch_size
        features = [self.features[i] for i in self._order_of(position.epoch)[position.index : end]]
        batches = list(self._batches(features))
        over = end >= len(self.features)
        return FinetuningStep(
            batches=batches,
            num_tokens=sum(feature.num_tokens for feature in features),
            next_position=Position(0, position.epoch + over, 0 if over else end),
            name=f"epoch {position.epoch + 1}, examples from {position.index}",
            num_targets=sum(batch.num_targets for batch in batches),
        )

    def _order_of(self, epoch: int) -> Indices:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, epoch_order(len(self.features), seed=self.config.seed, epoch=epoch)
        return self._order[1]

    def loss(self, model: nn.Module, batch: Any, step: StepData[Any]) -> tuple[Tensor, Measures]:
        """Return the batch's share of the step's mean loss."""
        assert isinstance(step, FinetuningStep)
        loss_sum, measures = self.task.loss(model, batch.to(self.device))
        return loss_sum / step.num_targets, measures

    def evaluation_batches(self) -> Iterable[Any]:
        """Return the first dev features of an order that mixes them: the same ones each time."""
        order = epoch_order(len(self.dev_features), seed=0, epoch=0)
        return self._batches([self.dev_features[i] for i in order[: self.config.evaluation.max_instances]])

    def measure(self, model: nn.Module, batch: Any) -> Measures:
        """Measure loss and what else the task measures."""
        return self.task.loss(model, batch.to(self.device))[1]

    def _batches(self, features: Sequence[Any]) -> Iterable[Any]:
        for indices in by_length(
            [feature.num_tokens for feature in features], self.config.micro_batch_tokens
        ):
            yield self.task.batch([features[i] for i in indices])


def _train(
    task: AnyTask,
    config: FinetuneConfig,
    run: Path,
    data: LabelledData,
    tokenizer: Tokenizer,
    model: nn.Module,
    state: TrainingState,
    checkpoint: Path | None,
    progress: Progress,
) -> dict[str, float]:
    device = resolve_device(config.device)
    compute_dtype = resolve_dtype(config.precision, device)
    work = FinetuningWork(
        task=task,
        features=[feature for own in data.train_features for feature in own],
        dev_features=[feature for own in data.dev_features for feature in own],
        config=config,
        device=device,
    )
    write_environment(run, device, compute_dtype)
    card = _model_card(task, config)
    settings = to_toml(task, TaskSettings(max_seq_length=config.max_seq_length))

    def write_model(directory: Path) -> None:
        write_model_files(directory, model, tokenizer, labels=task.class_names)
        (directory / TASK_FILE).write_text(settings, encoding="utf-8")
        (directory / "README.md").write_text(card, encoding="utf-8")

    trainer = Trainer(
        model=model.to(device),
        work=work,
        budget=_budget(config, work.steps_per_epoch * config.epochs),
        run=run,
        write_model=write_model,
        optimizer_config=config.optimizer,
        checkpoint_config=config.checkpoints,
        evaluation_config=config.evaluation,
        seed=config.seed,
        compute_dtype=compute_dtype,
        progress=progress,
        state=state,
    )
    trainer.train(resume_from=checkpoint)
    predictions = predict(
        task, model, data.dev, data.dev_features, max_tokens=config.micro_batch_tokens, progress=progress
    )
    scores = task.score(data.dev, predictions)
    described = {
        "task": task.name,
        "data": config.dev or f"held out of {config.train}",
        "examples": len(data.dev),
    }
    artifacts.write_text(run / SCORES, json.dumps({**described, **scores}, indent=1) + "\n")
    return scores


def _budget(config: FinetuneConfig, steps: int) -> Budget:
    return Steps(steps) if config.budget_seconds is None else StepsWithin(steps, config.budget_seconds)


def _model_card(task: AnyTask, config: FinetuneConfig) -> str:
    """Return the README.md of a checkpoint: what it is, how it was made, how to use it."""
    return f"""---
library_name: transformers
tags: [bert, cloze]
---

# A BERT fine-tuned with cloze: {task.name}

From {config.model}, on {config.train}. `metrics.jsonl` of its run has the curves, `scores.json` its scores.

    cloze predict {task.name} -m DIR INPUT

It knows what its data say, errors and prejudice included, and nothing else.

## Settings

```toml
{to_toml(task, config).strip()}
```
"""
