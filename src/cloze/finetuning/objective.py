"""The objective of a fine-tuning run, and its training batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cloze.data.batch import DataPosition, Indices, batch_by_length
from cloze.data.hashing import mix
from cloze.finetuning.preparation import PreparedData
from cloze.metrics.regression import LOWER_IS_BETTER
from cloze.models.batch import to_device
from cloze.tasks.config import save_finetuned
from cloze.tasks.predict import decode
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array, TaskBatch
from cloze.training.metric_sums import EvaluatedSums, MetricSums
from cloze.training.objective import Objective, StepData

_EPOCH_ORDER = 21  # a purpose of random numbers


@lru_cache(maxsize=1)  # all steps of an epoch need it
def shuffled_indices(count: int, *, seed: int, epoch: int) -> Indices:
    """Return `count` indices in the random order of a seed and epoch."""
    return np.argsort(mix(seed, _EPOCH_ORDER, epoch, np.arange(count)), kind="stable")


@dataclass(slots=True)
class FinetuningBatches:
    """The training batches of a run: the features of an epoch in random order; a rank takes its share of each step."""

    prepared: PreparedData
    features: Sequence[Any] = field(init=False)
    """Those of all training examples."""

    def __post_init__(self) -> None:
        self.features = self.prepared.data.flat_train_features

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch; the last one may have fewer features."""
        return -(-len(self.features) // self.prepared.config.batch_size)

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[Any]:
        """Return this rank's share of the next `batch_size` features of the epoch."""
        end = position.index + self.prepared.config.batch_size
        seed, count = self.prepared.config.seed, len(self.features)
        indices = shuffled_indices(count, seed=seed, epoch=position.epoch)[position.index : end]
        share = indices[self.prepared.context.rank :: self.prepared.context.world_size]
        has_share = len(share) > 0  # the last step of an epoch may have fewer features than there are ranks
        share = share if has_share else indices[:1]
        batches = list(self._micro_batches(share, micro_batch_tokens))
        is_over = end >= count
        return StepData(
            batches=batches,
            num_tokens=has_share * sum(self.features[i].num_tokens for i in share),
            num_targets={"loss": has_share * sum(batch.num_targets for batch in batches)},
            next_position=DataPosition(0, position.epoch + is_over, 0 if is_over else end),
            name=f"epoch {position.epoch + 1}, examples from {position.index}",
            has_share=has_share,
        )

    def _micro_batches(self, share: Indices, max_tokens: int) -> Iterator[TaskBatch]:
        """Yield batches of features of like lengths; each has only labeled or only unlabeled ones."""
        task, outputs = self.prepared.task, self.prepared.teacher_outputs
        is_labeled = share < self.prepared.data.num_labeled_features
        for indices, has_labels in ((share[is_labeled], True), (share[~is_labeled], False)):
            lengths = [self.features[i].num_tokens for i in indices]
            whole = sum(lengths) if task.answer.uses_in_batch_negatives else max_tokens
            for chosen in batch_by_length(lengths, whole):
                batch = task.answer.batch([self.features[i] for i in indices[chosen]])
                teacher = None if outputs is None else outputs.rows(indices[chosen])
                yield replace(batch, teacher=teacher, is_labeled=has_labels)


class FinetuningObjective(Objective):
    """The loss of a task, and its scores on the dev data, which the ranks divide.

    `task` is as an earlier evaluation tuned it (None: as it was fitted to the data); each evaluation tunes it.
    """

    def __init__(self, model: nn.Module, prepared: PreparedData, task: Task | None = None) -> None:
        super().__init__(model)
        self.task = task or prepared.task
        self.prepared = prepared
        self.config, self.context = prepared.config, prepared.context
        self.device = prepared.context.device
        self.dev_features = list(chain.from_iterable(prepared.data.dev_features))
        lengths = [feature.num_tokens for feature in self.dev_features]
        self.dev_batches = list(batch_by_length(lengths, self.config.micro_batch_tokens))
        self.num_evaluation_batches = len(self.dev_batches)

    def forward(self, batch: Any) -> MetricSums:
        """Return the loss of a batch, and what else the task measures."""
        batch = to_device(batch, self.device)
        logits = self.model(batch).float()
        loss_sum, metrics = self.task.answer.loss(logits, batch)
        count = metrics["loss"][1]
        if batch.teacher is None:
            return {**metrics, "loss": (loss_sum, count)}
        soft_loss = self.task.answer.distance(logits, batch, self.config.distillation.temperature)
        hard = {"hard_loss" if name == "loss" else name: value for name, value in metrics.items()}
        if not batch.is_labeled:
            # with the names of a labeled batch, since all steps of a run measure the same
            hard = {name: (torch.zeros_like(value), 0) for name, (value, _) in hard.items()}
        weight = self.config.distillation.weight if batch.is_labeled else 1.0
        loss = weight * soft_loss + ((1 - weight) * loss_sum if weight < 1 else 0.0)
        return {**hard, "soft_loss": (soft_loss.detach(), count), "loss": (loss, count)}

    def evaluate(self) -> Iterator[EvaluatedSums]:
        """Yield the loss of this rank's dev data, then the scores of all, for which the task is tuned.

        Rank zero alone yields the scores.
        """
        examples, features = self.prepared.data.dev, self.prepared.data.dev_features
        outputs: dict[int, Array] = {}
        for indices in self.context.share(self.dev_batches):
            if indices is None:
                yield {}
                continue
            batch = self.task.answer.batch([self.dev_features[i] for i in indices])
            on_device = to_device(batch, self.device)
            logits: Tensor = self.model(on_device).float()
            of_features = self.task.answer.outputs(logits.cpu().numpy(), batch)
            outputs.update(zip(indices.tolist(), of_features, strict=True))
            yield {"loss": self.task.answer.loss(logits, on_device)[1]["loss"]}
        outputs = {i: output for share in self.context.all_gather(outputs) for i, output in share.items()}
        predictions = decode(self.task.answer, examples, features, outputs)
        tuned = self.task.tuned(examples, predictions)
        if tuned != self.task:
            self.task, predictions = tuned, decode(tuned.answer, examples, features, outputs)
        scores = self.task.score(examples, predictions)
        yield {name: (value, 1.0) for name, value in scores.items()} if self.context.is_rank_zero else {}

    def selection_score(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Return the score of `best_metric`, then the negative loss."""
        metric = self.config.selection_metric(self.task)
        sign = -1 if metric in LOWER_IS_BETTER else 1
        return sign * metrics[metric], -metrics["loss"]

    def shown_metrics(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return the loss and the scores, without the accuracy of the most frequent class, which does not change."""
        return {name: value for name, value in metrics.items() if name != "majority_accuracy"}

    def save_model(self, directory: Path) -> None:
        """Write config, weights, tokenizer and the task as tuned."""
        tokenizer, max_seq_length = self.prepared.tokenizer, self.config.max_seq_length
        save_finetuned(directory, self.model, tokenizer, self.task, max_seq_length=max_seq_length)
