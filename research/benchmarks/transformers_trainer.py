"""Fine-tune with transformers as documented: its model with the same head, its Trainer, padded batches.

Shapes: T tokens in the packed batch, B sequences, L tokens of the longest, C classes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from benchmarks.harness import import_peer
from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.finetuning.objective import shuffled_indices
from cloze.finetuning.preparation import PreparedData
from cloze.models.batch import to_device
from cloze.models.bert import BertConfig, BertModel
from cloze.models.torch_engine import TorchEngine
from cloze.tasks.predict import predict
from cloze.tasks.task import Task
from cloze.training.optimizer import AdamW, Budget, build_optimizer, learning_rate_at, round_warmup

IGNORED = -100
"""transformers' label of positions without a loss."""


def pad(*batches: PackedBatch) -> dict[str, Tensor]:
    """Return the inputs of a model, [B, L], for all sequences of some batches."""
    return {
        "input_ids": pad_rows(batches, [batch.input_ids for batch in batches]),
        "token_type_ids": pad_rows(batches, [batch.token_type_ids for batch in batches]),
        "attention_mask": pad_rows(batches, [torch.ones_like(batch.input_ids) for batch in batches]),
    }


def pad_rows(batches: Sequence[PackedBatch], values: Sequence[Tensor], *, padding: int = 0) -> Tensor:
    """Return values of the tokens of batches as [B, L]."""
    rows = (
        torch.split(values, batch.cu_seqlens.diff().tolist())
        for batch, values in zip(batches, values, strict=True)
    )
    return pad_sequence(list(chain.from_iterable(rows)), batch_first=True, padding_value=padding)


def token_labels(batch: PackedBatch, positions: Tensor, targets: Tensor) -> Tensor:
    """Return the labels of all tokens of a packed batch, [T]; only those at some positions count."""
    return torch.full_like(batch.input_ids, IGNORED).index_copy(0, positions, targets)


class PaddedModel(nn.Module):
    """A model of transformers with the interface of cloze's heads: packed batches to logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, packed: PackedBatch) -> Tensor:
        """Return logits [B, C] or [T, C], depending on the head."""
        batch = pad(packed)
        output = self.model(**batch)
        is_real = batch["attention_mask"].bool()
        if "start_logits" in output:
            return torch.stack([output.start_logits, output.end_logits], dim=-1)[is_real]
        logits: Tensor = output.logits
        return logits[is_real] if logits.ndim == 3 else logits

    def named_outputs(self, packed: PackedBatch) -> dict[str, Tensor]:
        """Return the logits by their name."""
        return {"logits": self(packed)}


def build_padded_model(ours: nn.Module, task: Task) -> PaddedModel:
    """Build transformers' model with the head and weights of one of cloze."""
    head = type(ours).__name__
    if head not in _LABELS:
        what = f"{task.name} uses a {head}; transformers is measured with {', '.join(_LABELS)}"
        raise InputError(what, where="benchmarks finetune")
    transformers = import_peer("transformers")
    config = ours.config
    assert isinstance(config, BertConfig)
    num_labels = getattr(ours, "num_labels", 2)
    settings = asdict(config)
    if settings["hidden_act"] == "gelu_tanh":
        settings["hidden_act"] = "gelu_new"
    theirs = getattr(transformers, head)(
        transformers.BertConfig(**settings, num_labels=num_labels, problem_type=task.answer.problem_type)
    )
    names = theirs.state_dict().keys()
    weights = BertModel.names.mapping.to_external(ours.state_dict())
    theirs.load_state_dict({name: weight for name, weight in weights.items() if name in names})
    return PaddedModel(theirs)


class _TorchOptimizer(torch.optim.Optimizer):
    """The optimizer of cloze as schedules of torch and transformers require it."""

    def __init__(self, optimizer: AdamW) -> None:
        super().__init__(optimizer.param_groups, {})
        self._optimizer = optimizer

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self._optimizer.step()


def train_with_trainer(
    padded: PaddedModel, prepared: PreparedData, config: FinetuneConfig, *, directory: Path, tuned: bool
) -> tuple[list[dict[str, float]], list[float]]:
    """Fine-tune with transformers' Trainer; return the dev scores and the seconds of each epoch.

    The seconds are those of training: collating, forward, backward, optimizer. Scoring is cloze's.

    Args:
        directory: for the files of Trainer.
        tuned: train in bfloat16 with sequences of similar lengths in a batch; otherwise as documented, except that
            examples are in cloze's order.
    """
    transformers = import_peer("transformers")
    import_peer("accelerate")
    callback: Any = transformers.TrainerCallback
    task, data = prepared.task, prepared.data
    labels = _LABELS[type(padded.model).__name__]

    def collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        batch = to_device(task.answer.batch([row["feature"] for row in rows]))
        return pad(batch) | labels(batch)

    scores: list[dict[str, float]] = []
    seconds: list[float] = []

    class Recorder(callback):  # type: ignore[misc]
        """Record the seconds and scores of epochs."""

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            self.started = time.perf_counter()

        def on_epoch_end(self, *_: Any, **__: Any) -> None:
            seconds.append(time.perf_counter() - self.started)
            scores.append(_score(padded, prepared, config))
            padded.train()

    # Trainer groups by the length of input_ids
    rows = [
        {"feature": feature, "input_ids": range(feature.num_tokens)}
        for features in data.train_features
        for feature in features
    ]
    steps = -(-len(rows) // config.batch_size) * config.epochs
    rates = round_warmup(config.optimizer, Budget(steps))
    optimizer = _TorchOptimizer(build_optimizer(padded.model, rates))
    for group in optimizer.param_groups:
        group["lr"] = rates.learning_rate
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_at(step / steps, rates) / rates.learning_rate
    )

    class OrderedTrainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        """Use cloze's order of examples, so that with equal seeds only dropout differs."""

        def _get_train_sampler(self, *args: Any) -> Any:
            return super()._get_train_sampler(*args) if tuned else _ClozeOrder(len(rows), config.seed)

    trainer = OrderedTrainer(
        model=padded.model,
        args=transformers.TrainingArguments(
            output_dir=str(directory),
            num_train_epochs=config.epochs,
            per_device_train_batch_size=config.batch_size,
            max_grad_norm=config.optimizer.max_grad_norm,
            seed=config.seed,
            bf16=tuned,
            train_sampling_strategy="group_by_length" if tuned else "random",
            use_cpu=config.device == "cpu",
            remove_unused_columns=False,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=rows,
        data_collator=collate,
        callbacks=[Recorder],
        optimizers=(optimizer, schedule),
    )
    trainer.remove_callback(transformers.PrinterCallback)  # prints on stdout, where --json is
    trainer.train()
    return scores, seconds


@dataclass
class _ClozeOrder(torch.utils.data.Sampler[int]):
    """The orders of examples in cloze's epochs, one after the other."""

    num_examples: int
    seed: int
    epochs: Iterator[int] = field(default_factory=count)

    def __len__(self) -> int:
        return self.num_examples

    def __iter__(self) -> Iterator[int]:
        return iter(shuffled_indices(self.num_examples, seed=self.seed, epoch=next(self.epochs)).tolist())


def _score(padded: PaddedModel, prepared: PreparedData, config: FinetuneConfig) -> dict[str, float]:
    """Return the dev scores, with a threshold tuned on them where the task has one, as after an epoch of cloze."""
    task, data = prepared.task, prepared.data
    max_tokens = config.micro_batch_on(prepared.context.device)
    predictions = predict(
        task.answer, TorchEngine(padded), data.dev, data.dev_features, max_tokens=max_tokens
    )
    tuned = task.tuned(data.dev, predictions)
    if tuned != task:
        predictions = predict(
            tuned.answer, TorchEngine(padded), data.dev, data.dev_features, max_tokens=max_tokens
        )
    return tuned.score(data.dev, predictions)


def _token_labels(batch: Any) -> dict[str, Tensor]:
    labels = token_labels(batch, batch.positions, batch.targets)
    return {"labels": pad_rows([batch], [labels], padding=IGNORED)}


_LABELS: Mapping[str, Callable[[Any], dict[str, Tensor]]] = {
    "BertForSequenceClassification": lambda batch: {"labels": batch.targets},
    "BertForTokenClassification": _token_labels,
    "BertForQuestionAnswering": lambda batch: {
        "start_positions": batch.targets[:, 0],
        "end_positions": batch.targets[:, 1],
    },
}
"""By head, the labels in the format of transformers."""
