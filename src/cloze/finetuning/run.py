"""One fine-tuning run, from prepared data to a scored model."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cloze import artifacts
from cloze.artifacts import LEARNED_FROM, SCORED_ON
from cloze.callbacks import Callback
from cloze.file_io import write_json
from cloze.finetuning.config import FinetuneConfig
from cloze.finetuning.objective import FinetuningBatches, FinetuningObjective
from cloze.finetuning.preparation import PreparedData, load_initial_encoder
from cloze.finetuning.teacher_outputs import with_teacher_outputs
from cloze.markdown import code_span
from cloze.model_paths import follow_link
from cloze.models.checkpoint import KIND, load_model
from cloze.models.encoder import find_encoder
from cloze.models.heads import ModelWithOutputLayer
from cloze.models.torch_engine import TorchEngine
from cloze.progress import Progress
from cloze.tasks.config import load_finetuned_task, save_finetuned, to_toml
from cloze.tasks.predict import predict
from cloze.tasks.task import AnyTask
from cloze.training.budget import Budget
from cloze.training.config import EvaluationConfig
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference
from cloze.training.run import TrainingRun

SCORES = "scores.json"


def build_model(prepared: PreparedData) -> nn.Module:
    """Return the initial model: the layers that the student keeps, the head, and frozen parts as the settings say."""
    generator = torch.Generator().manual_seed(prepared.config.seed)
    model = prepared.task.answer.head(load_initial_encoder(prepared), generator=generator)
    model.load_state_dict(prepared.head, strict=False)
    return prepare_for_training(model, prepared.config)


def prepare_for_training(model: nn.Module, config: FinetuneConfig) -> nn.Module:
    """Set the dropout of the head, and freeze embeddings and lower layers, as the settings say; return the model."""
    if config.dropout is not None and isinstance(model, ModelWithOutputLayer) and model.dropout_prob:
        model.dropout_prob = config.dropout
    encoder = find_encoder(model)
    if encoder is not None and (config.freeze_embeddings or config.freeze_layers):
        for part in (encoder.embeddings, *encoder.layers[: config.freeze_layers]):
            part.requires_grad_(requires_grad=False)
    return model


def train_and_score(
    prepared: PreparedData,
    run: Path,
    progress: Progress,
    *,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    files: Mapping[str, Path] = {},
) -> dict[str, Any]:
    """Make one run, score its best checkpoint, and return the content of `scores.json`."""
    task, config, context = prepared.task, prepared.config, prepared.context
    steps_per_epoch = FinetuningBatches(prepared).steps_per_epoch
    if prepared.teacher is not None and prepared.teacher_outputs is None and not resume:
        prepared.teacher.load_model()  # one that cannot be read is found before anything is written

    def load(checkpoint: Path | None) -> FinetuningObjective:
        if checkpoint is None:
            return FinetuningObjective(build_model(prepared).to(context.device), prepared)
        model = load_model(checkpoint, task.answer.head, verify=False).to(context.device)
        # with the threshold of the last evaluation
        return FinetuningObjective(
            prepare_for_training(model, config), prepared, load_finetuned_task(checkpoint)
        )

    def build_batches() -> FinetuningBatches:
        return FinetuningBatches(with_teacher_outputs(prepared, run, progress))

    training_run = TrainingRun(
        path=run,
        settings=to_toml(task, config),
        config=replace(config, precision=prepared.precision),
        evaluation=EvaluationConfig(
            times=config.epochs * config.evaluations_per_epoch,
            log_every_steps=config.log_every_steps,
            patience=config.patience,
        ),
        budget=Budget(config.epochs * steps_per_epoch, config.budget_seconds),
        card=_build_card_info(prepared),
        context=context,
        progress=progress,
        files=files,
        callbacks=callbacks,
    )
    training_run.train(load, build_batches, resume=resume, overwrite=overwrite)
    return context.run_on_rank_zero(lambda: _score_best(prepared, run, progress))


def _score_best(prepared: PreparedData, run: Path, progress: Progress) -> dict[str, Any]:
    """Calibrate the best checkpoint, score it on the dev data, as `cloze evaluate` does, and write the scores."""
    data, config = prepared.data, prepared.config
    best = follow_link(run, "best")
    task = load_finetuned_task(best)
    model = load_model(best, task.answer.head, verify=False).to(prepared.context.device)
    engine = TorchEngine(model, adapts_to_load=False)
    predict_dev = partial(
        predict,
        engine=engine,
        examples=data.dev,
        features=data.dev_features,
        max_tokens=config.micro_batch_tokens,
        progress=progress,
    )
    predictions = predict_dev(task.answer)
    answer, temperature = task.answer.calibrated(data.dev, predictions)
    if temperature != 1:
        task = replace(task, answer=answer)
        _save_calibrated(prepared, best, model, task, temperature)
        predictions = predict_dev(task.answer)
    scores: dict[str, Any] = {
        "task": task.name,
        "data": config.dev or f"held out of {config.train}",
        "examples": len(data.dev),
        "checkpoint": best.name,
    }
    if collapse := task.collapse(data.dev, predictions):
        scores["collapse"] = collapse
    scores |= task.score(data.dev, predictions)
    if (breakdown := task.answer.breakdown(data.dev, predictions)) is not None:
        scores |= breakdown.to_dict()
    if (calibration := task.answer.calibration(data.dev, predictions, is_dev=True)) is not None:
        scores["calibration"] = asdict(calibration)
    write_json(run / SCORES, scores)
    return scores


def _save_calibrated(
    prepared: PreparedData, checkpoint: Path, model: Any, task: AnyTask, temperature: float
) -> None:
    """Divide the output layer by the temperature, so that every program answers with calibrated probabilities."""
    with torch.no_grad():
        for parameter in model.output_layer.parameters():
            parameter /= temperature
    with artifacts.write_directory(checkpoint, kind=KIND, overwrite=True) as directory:
        shutil.copytree(
            checkpoint, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(artifacts.MANIFEST)
        )
        max_seq_length = prepared.config.max_seq_length
        save_finetuned(directory, model, prepared.tokenizer, task, max_seq_length=max_seq_length)


def _build_card_info(prepared: PreparedData) -> CardInfo:
    """Return the facts about the run that are known before its first step."""
    task, config, data = prepared.task, prepared.config, prepared.data

    def reference(role: str, setting: str, name: str, num_examples: int) -> DatasetReference:
        return DatasetReference(role, name, f"{num_examples:,} examples", prepared.file_hashes[setting])

    references = [reference(LEARNED_FROM, "train", config.train, len(data.train))]
    if config.dev is None:
        measured_on = f"{len(data.dev):,} examples held out of {code_span(config.train)}"
    else:
        measured_on = f"the {len(data.dev):,} examples of {code_span(config.dev)}"
        references.append(reference(SCORED_ON, "dev", config.dev, len(data.dev)))
    if (unlabeled := config.distillation.unlabeled) is not None:
        references.append(reference("unlabeled", "unlabeled", unlabeled, len(data.unlabeled)))
    return CardInfo(
        template="finetuning/card.md",
        facts={"task": task, "config": config, "teacher": prepared.teacher},
        data=references,
        measured_on=measured_on,
        license=config.license,
        settings=to_toml(task, config),
        base=BaseModel.read(config.model, prepared.start, commit=config.model_commit),
    )
