"""One fine-tuning run, from prepared data to a scored model."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cloze import artifacts
from cloze.artifacts import LEARNED_FROM, SCORED_ON
from cloze.data.row_files import write_rows
from cloze.file_io import write_json
from cloze.file_names import MANIFEST
from cloze.finetuning.logistic_head import fit_logistic_head
from cloze.finetuning.objective import FinetuningBatches, FinetuningObjective
from cloze.finetuning.preparation import PreparedData
from cloze.markdown import code_span
from cloze.model_paths import follow_link
from cloze.models.checkpoint import KIND, load_model
from cloze.models.torch_engine import TorchEngine
from cloze.progress import Progress
from cloze.tasks.config import load_finetuned_task, save_finetuned, to_toml
from cloze.tasks.predict import predict, prediction_row
from cloze.training.config import EvaluationConfig
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference, card_license
from cloze.training.optimizer import Budget
from cloze.training.precision import inference_arithmetic
from cloze.training.run import Launch, TrainingRun

SCORES = "scores.json"
ANSWERS = "answers.jsonl"
"""The answers to the fold that a run scores."""


def train_and_score(
    prepared: PreparedData, run: Path, launch: Launch, files: Mapping[str, Path] = {}
) -> dict[str, Any]:
    """Make one run, score its best checkpoint, and return the content of `scores.json`."""
    config, context = prepared.config, prepared.context
    is_logistic = config.head == "logistic"
    steps = 0 if is_logistic else config.epochs * FinetuningBatches(prepared).steps_per_epoch

    def load(checkpoint: Path | None) -> FinetuningObjective:
        if checkpoint is None:
            initial: Any = prepared.build_model()
            if is_logistic:
                fit_logistic_head(initial, prepared, launch.progress)
            return FinetuningObjective(initial, prepared)
        task = load_finetuned_task(checkpoint)  # with the threshold of the last evaluation
        model = load_model(checkpoint, task.answer.head, verify=False)
        return FinetuningObjective(prepared.build_model(model), prepared, task)

    def build_batches() -> FinetuningBatches:
        return FinetuningBatches(prepared.with_teacher_outputs(run, launch.progress))

    training_run = TrainingRun(
        path=run,
        settings=to_toml(prepared.task, config),
        config=replace(config, precision=prepared.precision),
        evaluation=EvaluationConfig(
            times=config.epochs * config.evaluations_per_epoch,
            log_every_steps=config.log_every_steps,
            patience=config.patience,
        ),
        budget=Budget(steps, None if is_logistic else config.budget_seconds),
        card=_build_card_info(prepared),
        context=context,
        launch=launch,
        files=files,
    )
    training_run.train(load, build_batches)
    return context.run_on_rank_zero(lambda: _score_best(prepared, run, launch.progress))


def _score_best(prepared: PreparedData, run: Path, progress: Progress) -> dict[str, Any]:
    """Calibrate the best checkpoint, score it on the dev data as it answers by default, and write the scores."""
    data, config = prepared.data, prepared.config
    best = follow_link(run, "best")
    task = load_finetuned_task(best)
    model: Any = load_model(best, task.answer.head, verify=False).to(prepared.context.device)
    predict_dev = partial(
        predict,
        engine=TorchEngine(model),
        examples=data.dev,
        features=data.dev_features,
        max_tokens=config.micro_batch_on(prepared.context.device),
        progress=progress,
    )
    with inference_arithmetic(model):
        predictions = predict_dev(task.answer)
    answer, temperature = task.answer.calibrated(data.dev, predictions)
    if temperature != 1:
        task = replace(task, answer=answer)
        with torch.no_grad():  # so that every program answers with calibrated probabilities
            for parameter in model.output_layer.parameters():
                parameter /= temperature
        with artifacts.write_directory(best, kind=KIND, overwrite=True) as directory:
            ignored = shutil.ignore_patterns(MANIFEST)
            shutil.copytree(best, directory, dirs_exist_ok=True, ignore=ignored)
            save_finetuned(directory, model, prepared.tokenizer, task, max_seq_length=config.max_seq_length)
        with inference_arithmetic(model):
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
    if config.fold is not None:
        rows = zip(data.dev, predictions, strict=True)
        answers = (prediction_row(task, i, *row, is_labeled=True) for i, row in enumerate(rows, 1))
        write_rows(answers, str(run / ANSWERS))
    write_json(run / SCORES, scores)
    return scores


def _build_card_info(prepared: PreparedData) -> CardInfo:
    """Return the facts about the run that are known before its first step."""
    task, config, data, hashes = prepared.task, prepared.config, prepared.data, prepared.file_hashes
    parts = {
        "train": (config.train, LEARNED_FROM, data.train),
        "dev": (config.dev, SCORED_ON, data.dev),
        "unlabeled": (config.distillation.unlabeled, "unlabeled", data.unlabeled),
    }
    references = [
        DatasetReference(role, name, f"{len(examples):,} examples", hashes[setting])
        for setting, (name, role, examples) in parts.items()
        if name is not None
    ]
    if config.dev is None:
        measured_on = f"{len(data.dev):,} examples held out of {code_span(config.train)}"
    else:
        measured_on = f"the {len(data.dev):,} examples of {code_span(config.dev)}"
    license = None if prepared.teacher is None else card_license(prepared.teacher.directory)
    return CardInfo(
        template="finetuning/card.md",
        facts={"task": task, "config": config, "teacher": prepared.teacher, "teacher_license": license},
        data=references,
        measured_on=measured_on,
        license=config.license,
        settings=to_toml(task, config),
        base=BaseModel.read(config.model, prepared.start, commit=config.model_commit),
    )
