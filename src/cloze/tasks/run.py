"""One fine-tuning run, from prepared data to a scored model."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cloze.callbacks import Callback
from cloze.choices import Precision
from cloze.errors import DataWarning, InputError
from cloze.file_io import write_json
from cloze.markdown import code_span
from cloze.model_paths import commit_of, follow_pointer, resolve_checkpoint
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, check_layers, find_encoder, keep_layers, set_dropout
from cloze.models.engine import TorchEngine
from cloze.models.quantization import refuse_int8
from cloze.models.torch_internals import cpu_instructions
from cloze.progress import Progress
from cloze.tasks.config import FinetuneConfig, load_finetuned_task, to_toml
from cloze.tasks.data import NOTHING_IN_MEMORY, InMemory, LabeledData, load_data, resolve_files
from cloze.tasks.initial_head import load_trained_head
from cloze.tasks.objective import FinetuningBatches, FinetuningObjective
from cloze.tasks.predict import precompute_states, predict
from cloze.tasks.task import AnyTask
from cloze.tasks.teacher import Teacher, TeacherOutputs, ensure_outputs, load_teacher, read_outputs
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.budget import Budget
from cloze.training.config import EvaluationConfig
from cloze.training.distributed import DistributedContext
from cloze.training.model_card import (
    LEARNED_FROM,
    SCORED_ON,
    UNKNOWN_LICENSE,
    BaseModel,
    CardInfo,
    DatasetReference,
    describe_commit,
)
from cloze.training.precision import finetuning_precision
from cloze.training.run import TrainingRun

SCORES = "scores.json"


class RunInputs(NamedTuple):
    """The models and the data in memory that a run reads."""

    start: Path
    """Directory of the model to start from."""
    teacher: Path | None
    """Directory of the teacher."""
    in_memory: InMemory

    @classmethod
    def find(cls, config: FinetuneConfig, in_memory: InMemory = NOTHING_IN_MEMORY) -> "RunInputs":
        """Return the inputs of a run with the models that the settings name.

        Raises:
            InputError: there is no such model.
        """
        name = config.distillation.teacher
        teacher = None if name is None else resolve_checkpoint(name)
        return cls(resolve_checkpoint(config.model, commit=config.model_commit), teacher, in_memory)


@dataclass(frozen=True, slots=True)
class PreparedData:
    """The data of a command's runs, read and tokenized, and the model that they start from."""

    task: AnyTask
    config: FinetuneConfig
    """The settings, with files in the place of directories, and the checksums of all that is read."""
    file_hashes: dict[str, str]
    """SHA-256 of each data file."""
    data: LabeledData
    tokenizer: Tokenizer
    start: Path
    context: DistributedContext
    head: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the head to start from; empty: a new head."""
    teacher: Teacher | None = None
    teacher_outputs: TeacherOutputs | None = None
    """Those of the training data, once they are computed."""

    @property
    def precision(self) -> Precision:
        """The number format of matrix products."""
        size = load_config(self.start).hidden_size
        device = self.context.device
        return finetuning_precision(self.config.precision, device, cpu_instructions(), hidden_size=size)


def check_trainable(task: AnyTask) -> None:
    """Check that a task can be trained and scored.

    Raises:
        InputError: it has no training data, or an optional package is not installed.
    """
    if task.trained_as is not None:
        remedy = f"Fine-tune {task.trained_as}: its models answer {task.name}, too"
        raise InputError("has no data to learn from", where=task.name, remedy=remedy)


def prepare_data(
    task: AnyTask,
    config: FinetuneConfig,
    inputs: RunInputs,
    context: DistributedContext,
    progress: Progress,
) -> PreparedData:
    """Read, check and tokenize all data.

    Args:
        task: the task, with its settings.
        config: the settings of the run, or of several.
        inputs: what they name.
        context: this rank.
        progress: receives progress messages.

    Raises:
        InputError: a data file is wrong, there is no such model or score, or the ranks cannot share the batches.
    """
    check_trainable(task)
    config.selection_metric(task)
    batch_sizes = config.grid.batch_sizes or [config.batch_size]
    context.check_batch_sizes(batch_sizes)
    if task.uses_in_batch_negatives and context.world_size > 1:
        what = f"{context.world_size} ranks cannot share a batch whose examples are compared with each other"
        raise InputError(what, where=task.name, remedy="Start 1")
    if task.uses_in_batch_negatives and min(batch_sizes) == 1:
        what = "a batch of 1 holds nothing to compare an example with"
        raise InputError(what, where=task.name, remedy="Say `batch_size=64`")
    config, file_hashes = resolve_files(task, config, inputs.in_memory)
    start = inputs.start
    refuse_int8(start, "trained")
    encoder_config = load_config(start)
    student_layers = config.distillation.student_layers
    check_layers(student_layers, encoder_config.num_hidden_layers, where=start)
    _check_encoder_settings(task, config, len(student_layers) or encoder_config.num_hidden_layers)
    limit = encoder_config.max_position_embeddings
    tokenizer = load_tokenizer(start)
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit} tokens"
        raise InputError(what, where=config.model, remedy=f"Say `max_seq_length={limit}`")
    task, data = load_data(
        task.with_checkpoint_settings(start), config, tokenizer, progress, inputs.in_memory
    )
    head = _load_initial_head(task, config, start, context, progress)
    teacher, distillation = None, config.distillation
    if inputs.teacher is not None:
        teacher = load_teacher(task, config, inputs.teacher, tokenizer)
        distillation = replace(distillation, teacher_sha256=teacher.sha256)
    config = replace(config, model_commit=commit_of(start), distillation=distillation)
    return PreparedData(task, config, file_hashes, data, tokenizer, start, context, head, teacher)


def _load_initial_head(
    task: AnyTask, config: FinetuneConfig, start: Path, context: DistributedContext, progress: Progress
) -> dict[str, Tensor]:
    """Return the weights of the head to start from, empty for a new one, and say whether the checkpoint's is used."""
    try:
        head = load_trained_head(task, start)
    except InputError as error:
        if context.is_rank_zero:
            which = "the head is new" if task.has_head else "its head is left out"
            what = ". ".join(filter(None, (error.what, error.remedy)))
            warnings.warn(DataWarning(f"{config.model}: {which}: {what}"), stacklevel=2)
        return {}
    is_student = bool(config.distillation.student_layers)  # whose head would read another layer
    if head:
        progress.note(f"{config.model}: {'the head is new' if is_student else 'its head is trained further'}")
    return {} if is_student else head


def with_teacher_outputs(prepared: PreparedData, run: Path, progress: Progress) -> PreparedData:
    """Add the outputs of the teacher for the training data, if there is one; the directory of the run keeps them."""
    teacher, context = prepared.teacher, prepared.context
    if teacher is None or prepared.teacher_outputs is not None:
        return prepared
    task, config, tokenizer = prepared.task, prepared.config, prepared.tokenizer
    context.run_on_rank_zero(
        lambda: ensure_outputs(run, teacher, context.device, task, config, tokenizer, prepared.data, progress)
    )
    return replace(prepared, teacher_outputs=read_outputs(run))


def _check_encoder_settings(task: AnyTask, config: FinetuneConfig, num_layers: int) -> None:
    """Refuse settings of training for an encoder that is not trained, and to freeze more layers than it has."""
    values = {
        "freeze_layers": config.freeze_layers or None,
        "freeze_embeddings": config.freeze_embeddings or None,
        "dropout": config.dropout,
    }
    unused = [name for name, value in values.items() if value is not None and task.frozen_states is not None]
    if unused:
        raise InputError(f"the encoder of {task.name} is frozen", where=unused[0], remedy="Leave it out")
    if config.freeze_layers > num_layers:
        remedy = f"Say `freeze_layers={num_layers}`, or less"
        what = f"{config.freeze_layers}, the model has {num_layers} layers"
        raise InputError(what, where="freeze_layers", remedy=remedy)


def precompute_features(prepared: PreparedData, progress: Progress) -> PreparedData:
    """Add the outputs of the encoder to the features, if it is not trained."""
    task, data, max_tokens = prepared.task, prepared.data, prepared.config.micro_batch_tokens
    if task.frozen_states is None:
        return prepared
    encoder = load_initial_encoder(prepared).to(prepared.context.device)
    train_features, dev_features = (
        precompute_states(task, encoder, features, max_tokens=max_tokens, progress=progress)
        for features in (data.train_features, data.dev_features)
    )
    return replace(prepared, data=replace(data, train_features=train_features, dev_features=dev_features))


def build_model(prepared: PreparedData) -> nn.Module:
    """Return the initial model: the layers that the student keeps, the head, and frozen parts as the settings say.

    Raises:
        InputError: it cannot be read.
    """
    generator = torch.Generator().manual_seed(prepared.config.seed)
    model = prepared.task.head(load_initial_encoder(prepared), generator=generator)
    model.load_state_dict(prepared.head, strict=False)
    return freeze(model, prepared.config)


def load_initial_encoder(prepared: PreparedData) -> Encoder:
    """Return the encoder to start from, with the layers that the student keeps and the dropout of the settings.

    Raises:
        InputError: it cannot be read.
    """
    layers, dropout = prepared.config.distillation.student_layers, prepared.config.dropout
    encoder = load_model(prepared.start)
    if layers:
        encoder = keep_layers(encoder, layers)
    if dropout is not None:
        set_dropout(encoder, hidden=dropout, attention=dropout)
    return encoder


def freeze(model: nn.Module, config: FinetuneConfig) -> nn.Module:
    """Freeze embeddings and lower layers as the settings say; return the model."""
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
    callbacks: Sequence[Callback] = (),
    in_memory: InMemory = NOTHING_IN_MEMORY,
) -> dict[str, Any]:
    """Make one run, and score its best checkpoint.

    Args:
        prepared: the data, and the settings of this run.
        run: its directory.
        progress: receives progress messages.
        resume: continue from the newest intact checkpoint; otherwise an existing run is replaced.
        callbacks: receive what the run measures.
        in_memory: data in memory, which the run keeps.

    Returns:
        The content of `scores.json`.

    Raises:
        InputError: the model to start from cannot be read; nothing was written.
    """
    task, config, context = prepared.task, prepared.config, prepared.context
    features = prepared.data.flat_train_features
    steps_per_epoch = -(-len(features) // config.batch_size)
    if prepared.teacher is not None and prepared.teacher_outputs is None and not resume:
        prepared.teacher.load_model()  # one that cannot be read is found before anything is written

    def load(checkpoint: Path | None) -> FinetuningObjective:
        tuned = task
        if checkpoint is None:
            model = build_model(prepared)
        else:
            model = freeze(load_model(checkpoint, task.head, verify=False), config)
            tuned = load_finetuned_task(checkpoint)  # with the threshold of the last evaluation
        return FinetuningObjective(model.to(context.device), tuned, prepared.data, config, prepared.tokenizer)

    def build_batches() -> FinetuningBatches:
        outputs = with_teacher_outputs(prepared, run, progress).teacher_outputs
        return FinetuningBatches(task, features, config, context, prepared.data.num_labeled_features, outputs)

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
        in_memory=in_memory,
        callbacks=callbacks,
    )
    training_run.train(load, build_batches, resume=resume)
    return context.run_on_rank_zero(lambda: _score_best(prepared, run, progress))


def _score_best(prepared: PreparedData, run: Path, progress: Progress) -> dict[str, Any]:
    """Score the best checkpoint on the dev data in float32, as `cloze evaluate` does, and write the scores."""
    data, config = prepared.data, prepared.config
    best = follow_pointer(run, "best")
    task = load_finetuned_task(best)
    model = load_model(best, task.head, verify=False).to(prepared.context.device)
    max_tokens = config.micro_batch_tokens
    predictions = predict(
        task, TorchEngine(model), data.dev, data.dev_features, max_tokens=max_tokens, progress=progress
    )
    scores: dict[str, Any] = {
        "task": task.name,
        "data": config.dev or f"held out of {config.train}",
        "examples": len(data.dev),
        "checkpoint": best.name,
    }
    if collapse := task.collapse(data.dev, predictions):
        scores["collapse"] = collapse
    scores |= task.score(data.dev, predictions)
    if (breakdown := task.breakdown(data.dev, predictions)) is not None:
        scores |= breakdown.to_dict()
    write_json(run / SCORES, scores)
    return scores


def _summary(prepared: PreparedData) -> str:
    """Return what the model is and where it comes from, in Markdown."""
    task, config = prepared.task, prepared.config
    settings = config.distillation
    layers = f", layers {', '.join(map(str, settings.student_layers))}" if settings.student_layers else ""
    start = f"{code_span(config.model)}{describe_commit(config.model_commit)}{layers}"
    text = f"From {start}, for the task {task.name} ({task.source})."
    if prepared.teacher is None:
        return text
    license_name = prepared.teacher.license
    named = "unknown" if license_name == UNKNOWN_LICENSE else f"`{license_name}`"
    return (
        f"{text} It learned the outputs of the teacher {code_span(str(settings.teacher))} "
        f"(license: {named}; SHA-256 `{prepared.teacher.sha256}`), temperature {settings.temperature:g}, "
        f"weight {settings.weight:g}."
    )


def _build_card_info(prepared: PreparedData) -> CardInfo:
    """Return the facts about the run that are known before its first step."""
    task, config, data = prepared.task, prepared.config, prepared.data

    def reference(role: str, name: str, num_examples: int) -> DatasetReference:
        sha256 = prepared.file_hashes[name]
        return DatasetReference(role=role, name=name, extent=f"{num_examples:,} examples", sha256=sha256)

    references = [reference(LEARNED_FROM, config.train, len(data.train))]
    if config.dev is None:
        measured_on = f"{len(data.dev):,} examples held out of {code_span(config.train)}"
    else:
        measured_on = f"the {len(data.dev):,} examples of {code_span(config.dev)}"
        references.append(reference(SCORED_ON, config.dev, len(data.dev)))
    if config.distillation.unlabeled is not None:
        references.append(reference("unlabeled", config.distillation.unlabeled, len(data.unlabeled)))
    return CardInfo(
        title=f"A BERT fine-tuned with cloze: {task.name}",
        summary=_summary(prepared),
        use=f"cloze predict {task.name} -m DIR INPUT\ncloze evaluate {task.name} -m DIR -d LABELED",
        data=references,
        measured_on=measured_on,
        intended_use=f"The task {task.name}, on texts like those it learned from. Where an answer matters to someone, "
        "a person should decide.",
        limits=f"It reads {config.max_seq_length} tokens at once; longer texts are cut or read in windows, as the task "
        "defines. The checkpoint called best was chosen by these scores, so they flatter it a little.",
        license=config.license,
        pipeline_tag=None,
        settings=to_toml(task, config),
        base=BaseModel.read(config.model, prepared.start, commit=config.model_commit),
    )
