"""Fine-tuning as transformers' documentation has it: its model of the same head, its Trainer, padded batches.

Shapes: T tokens in the packed batch, B sequences, C classes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from cloze.errors import InputError
from cloze.evidence.bench.harness import import_peer
from cloze.model.bert import BertConfig
from cloze.model.layouts import HUGGING_FACE
from cloze.model.packed import Packed
from cloze.tasks.batches import epoch_order
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.predict import predict
from cloze.tasks.run import Prepared
from cloze.tasks.task import AnyTask
from cloze.training.budget import Steps
from cloze.training.optimizer import build_optimizer, learning_rate_at, with_whole_warmup

_NO_LABEL = -100  # what transformers asks nothing of


class PaddedModel(nn.Module):
    """A model of transformers that takes packed batches as ours do, and gives logits in their order."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, packed: Packed) -> Tensor:
        """Return logits [B, C] or [T, C], as the head has them."""
        batch = pad(packed)
        output = self.model(**batch)
        is_real = batch["attention_mask"].bool()
        if "start_logits" in output:
            return torch.stack([output.start_logits, output.end_logits], dim=-1)[is_real]
        logits: Tensor = output.logits
        return logits[is_real] if logits.ndim == 3 else logits


def build_padded_model(ours: nn.Module, task: AnyTask) -> PaddedModel:
    """Build transformers' model of the head of one of ours, with its weights.

    Raises:
        InputError: the head has no counterpart that is trained here, or transformers is not installed.
    """
    head = type(ours).__name__
    if head not in _LABELS:
        what = f"{task.name} stands on a {head}; transformers is measured with {', '.join(_LABELS)}"
        raise InputError(what, where="bench finetune")
    transformers = import_peer("transformers")
    config = ours.config
    assert isinstance(config, BertConfig)
    num_labels = getattr(ours, "num_labels", 2)
    their_config = transformers.BertConfig(
        **_their_settings(config), num_labels=num_labels, problem_type=task.problem_type
    )
    theirs = getattr(transformers, head)(their_config)
    wanted = theirs.state_dict()
    weights = HUGGING_FACE.to_foreign(ours.state_dict())
    theirs.load_state_dict({name: weight for name, weight in weights.items() if name in wanted})
    return PaddedModel(theirs)


def train_with_trainer(
    padded: PaddedModel,
    prepared: Prepared,
    config: FinetuneConfig,
    *,
    directory: Path,
    tuned: bool,
) -> tuple[list[dict[str, float]], list[float]]:
    """Fine-tune by transformers' Trainer; return the scores of the dev data and the seconds of each epoch.

    The seconds are those of training: collating, forward, backward, optimizer. Scoring is ours, for both sides.

    Args:
        padded: what is trained.
        prepared: the data.
        config: the settings.
        directory: for what Trainer writes.
        tuned: in bfloat16 and with sequences of like lengths in a batch; otherwise as documented, but that examples
            come in the order of ours.
    """
    transformers = import_peer("transformers")
    import_peer("accelerate")
    callback: Any = transformers.TrainerCallback
    task, data = prepared.task, prepared.data
    labels = _LABELS[type(padded.model).__name__]

    def collate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        batch = task.batch([row["feature"] for row in rows])
        padded_batch = pad(batch.packed)
        return padded_batch | labels(batch, padded_batch["attention_mask"].bool())

    scores: list[dict[str, float]] = []
    seconds: list[float] = []

    class Watch(callback):  # type: ignore[misc]
        """Times epochs and scores what they leave."""

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, *_: Any, **__: Any) -> None:
            seconds.append(time.perf_counter() - self.began)
            scores.append(_score(padded, prepared, config))
            padded.train()

    # Trainer, told to put like lengths together, measures input_ids
    rows = [
        {"feature": feature, "input_ids": range(feature.num_tokens)}
        for own in data.train_features
        for feature in own
    ]
    steps = -(-len(rows) // config.batch_size) * config.epochs
    rates = with_whole_warmup(config.optimizer, Steps(steps))
    optimizer = build_optimizer(padded.model, rates)
    for group in optimizer.param_groups:
        group["lr"] = rates.learning_rate
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: learning_rate_at(step / steps, rates) / rates.learning_rate,
    )

    class InOurOrder(transformers.Trainer):  # type: ignore[misc, name-defined]
        """Takes the examples in the order of ours, so that a seed differs between the sides by dropout alone."""

        def _get_train_sampler(self, *given: Any) -> Any:
            return super()._get_train_sampler(*given) if tuned else _OurOrder(len(rows), config.seed)

    trainer = InOurOrder(
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
        callbacks=[Watch],
        optimizers=(optimizer, schedule),
    )
    trainer.train()
    return scores, seconds


class _OurOrder(torch.utils.data.Sampler[int]):
    """The orders of our epochs, one after the other."""

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._seed = seed
        self._epoch = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        order = epoch_order(self._count, seed=self._seed, epoch=self._epoch)
        self._epoch += 1
        return iter(order.tolist())


def _score(padded: PaddedModel, prepared: Prepared, config: FinetuneConfig) -> dict[str, float]:
    """Return the scores of the dev data, with what they tell of the task, as an epoch of ours ends."""
    task, data = prepared.task, prepared.data
    max_tokens = config.micro_batch_tokens
    predictions = predict(task, padded, data.dev, data.dev_features, max_tokens=max_tokens)
    tuned = task.tuned(data.dev, predictions)
    if tuned != task:
        predictions = predict(tuned, padded, data.dev, data.dev_features, max_tokens=max_tokens)
    return tuned.score(data.dev, predictions)


def pad(packed: Packed) -> dict[str, Tensor]:
    """Lay a packed batch out in rows, padded to the longest."""
    lengths = packed.cu_seqlens.diff().tolist()
    rows = {
        "input_ids": packed.input_ids,
        "token_type_ids": packed.token_type_ids,
        "attention_mask": torch.ones_like(packed.input_ids),
    }
    return {
        name: pad_sequence(list(torch.split(values, lengths)), batch_first=True)
        for name, values in rows.items()
    }


def _sequence_labels(batch: Any, is_real: Tensor) -> dict[str, Tensor]:
    return {"labels": batch.targets}


def _token_labels(batch: Any, is_real: Tensor) -> dict[str, Tensor]:
    labels = torch.full_like(batch.packed.input_ids, _NO_LABEL)
    labels[batch.positions] = batch.targets
    padded_labels = torch.full(is_real.shape, _NO_LABEL)
    padded_labels[is_real] = labels
    return {"labels": padded_labels}


def _span_labels(batch: Any, is_real: Tensor) -> dict[str, Tensor]:
    return {"start_positions": batch.targets[:, 0], "end_positions": batch.targets[:, 1]}


_LABELS: Mapping[str, Callable[[Any, Tensor], dict[str, Tensor]]] = MappingProxyType(
    {
        "BertForSequenceClassification": _sequence_labels,
        "BertForTokenClassification": _token_labels,
        "BertForQuestionAnswering": _span_labels,
    }
)
"""By the head: what transformers wants to be told."""


def _their_settings(config: BertConfig) -> dict[str, Any]:
    settings = asdict(config)
    if settings["hidden_act"] == "gelu_tanh":
        settings["hidden_act"] = "gelu_new"
    return settings
