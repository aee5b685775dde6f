"""The data and the models of fine-tuning, read and checked before the first step."""

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from cloze.choices import Precision
from cloze.errors import DataWarning, InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.finetuning.data import LabeledData, add_checksums, find_data, load_data
from cloze.finetuning.initial_head import load_trained_head
from cloze.finetuning.teacher import Teacher, TeacherOutputs, load_teacher
from cloze.model_paths import commit_of, resolve_checkpoint
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, check_layers, keep_layers, set_dropout
from cloze.models.quantization import refuse_int8
from cloze.models.torch_internals import cpu_instructions
from cloze.progress import Progress
from cloze.tasks.task import AnyTask
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.precision import finetuning_precision


@dataclass(frozen=True, slots=True)
class PreparedData:
    """The data of a command's runs, read and tokenized, and the model that they start from."""

    task: AnyTask
    config: FinetuneConfig
    """The settings, with files in the place of directories, and the checksums of all that is read."""
    file_hashes: dict[str, str]
    """SHA-256 of each data file by its setting."""
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
    """Check that a task can be trained."""
    if task.trained_as is not None:
        remedy = f"Fine-tune {task.trained_as}: its models answer {task.name}, too"
        raise InputError("has no data to learn from", where=task.name, remedy=remedy)


def prepare_data(
    task: AnyTask,
    config: FinetuneConfig,
    context: DistributedContext,
    progress: Progress,
) -> PreparedData:
    """Read, check and tokenize all data."""
    check_trainable(task)
    config.selection_metric(task)
    batch_sizes = config.grid.batch_sizes or [config.batch_size]
    context.check_batch_sizes(batch_sizes)
    if task.answer.uses_in_batch_negatives and context.world_size > 1:
        what = f"{context.world_size} ranks cannot share a batch whose examples are compared with each other"
        raise InputError(what, where=task.name, remedy="Start 1")
    if task.answer.uses_in_batch_negatives and min(batch_sizes) == 1:
        what = "a batch of 1 holds nothing to compare an example with"
        raise InputError(what, where=task.name, remedy="Say `batch_size=64`")
    start = resolve_checkpoint(config.model, commit=config.model_commit)
    distillation = config.distillation
    teacher_directory = None if distillation.teacher is None else resolve_checkpoint(distillation.teacher)
    config, file_hashes = find_data(task, config), None
    if config.data_sha256 is not None:  # on resume the reason why rows are wrong
        config, file_hashes = add_checksums(config)
    refuse_int8(start, "trained")
    encoder_config = load_config(start)
    student_layers = distillation.student_layers
    check_layers(student_layers, encoder_config.num_hidden_layers, where=start)
    num_layers = len(student_layers) or encoder_config.num_hidden_layers
    if config.freeze_layers > num_layers:
        what = f"{config.freeze_layers}, the model has {num_layers} layers"
        remedy = f"Say `freeze_layers={num_layers}`, or less"
        raise InputError(what, where="freeze_layers", remedy=remedy)
    limit = encoder_config.max_position_embeddings
    tokenizer = load_tokenizer(start)
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit} tokens"
        raise InputError(what, where=config.model, remedy=f"Say `max_seq_length={limit}`")
    task = replace(task, answer=task.answer.with_checkpoint_settings(start))
    task, data = load_data(task, config, tokenizer, progress)
    if file_hashes is None:  # after the rows: a file that is no table may have no end
        config, file_hashes = add_checksums(config)
    head = _load_initial_head(task, config, start, context, progress)
    teacher = None
    if teacher_directory is not None:
        teacher = load_teacher(task, config, teacher_directory, tokenizer)
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
            which = "the head is new" if task.answer.has_head else "its head is left out"
            what = ". ".join(filter(None, (error.what, error.remedy)))
            warnings.warn(DataWarning(f"{config.model}: {which}: {what}"), stacklevel=2)
        return {}
    is_student = bool(config.distillation.student_layers)  # whose head would read another layer
    if head:
        progress.note(f"{config.model}: {'the head is new' if is_student else 'its head is trained further'}")
    return {} if is_student else head


def load_initial_encoder(prepared: PreparedData) -> Encoder:
    """Return the encoder to start from, with the layers that the student keeps and the dropout of the settings."""
    layers, dropout = prepared.config.distillation.student_layers, prepared.config.dropout
    encoder = load_model(prepared.start)
    if layers:
        encoder = keep_layers(encoder, layers)
    if dropout is not None:
        set_dropout(encoder, hidden=dropout, attention=dropout)
    return encoder
