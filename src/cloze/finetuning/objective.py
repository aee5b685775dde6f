"""The objective of a fine-tuning run, and its training batches."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cloze.data.batch import DataPosition, Integers, batch_by_length
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
def shuffled_indices(count: int, *, seed: int, epoch: int) -> Integers:
    """Return `count` indices in the random order of a seed and epoch."""
    return np.argsort(mix(seed, _EPOCH_ORDER, epoch, np.arange(count)), kind="stable")


class FinetuningBatches:
    """The training batches of a run: the features of an epoch in random order; a rank takes its share of each step."""

    def __init__(self, prepared: PreparedData) -> None:
        self.answer, self.teacher_outputs = prepared.task.answer, prepared.teacher_outputs
        self.features = prepared.data.flat_train_features
        self.num_labeled = sum(map(len, prepared.data.train_features))
        self.batch_size, self.seed = prepared.config.batch_size, prepared.config.seed
        self.context = prepared.context
        self.steps_per_epoch = -(-len(self.features) // self.batch_size)
        """The last one may have fewer features."""

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[Any]:
        """Return this rank's share of the next `batch_size` features of the epoch, in batches of like lengths.

        Each batch has only labeled or only unlabeled features.
        """
        end, count = position.index + self.batch_size, len(self.features)
        indices = shuffled_indices(count, seed=self.seed, epoch=position.epoch)[position.index : end]
        share = indices[self.context.rank :: self.context.world_size]
        has_share = len(share) > 0  # the last step of an epoch may have fewer features than there are ranks
        share = share if has_share else indices[:1]
        is_labeled = share < self.num_labeled
        batches: list[TaskBatch] = []
        for of_kind, has_labels in ((share[is_labeled], True), (share[~is_labeled], False)):
            lengths = [self.features[i].num_tokens for i in of_kind]
            whole = sum(lengths) if self.answer.uses_in_batch_negatives else micro_batch_tokens
            for chosen in batch_by_length(lengths, whole):
                batch = self.answer.batch([self.features[i] for i in of_kind[chosen]])
                teacher = None if self.teacher_outputs is None else self.teacher_outputs.rows(of_kind[chosen])
                batches.append(replace(batch, teacher=teacher, is_labeled=has_labels))
        is_over = end >= count
        return StepData(
            batches=batches,
            num_tokens=has_share * sum(self.features[i].num_tokens for i in share),
            num_targets={"loss": has_share * sum(batch.num_targets for batch in batches)},
            next_position=DataPosition(0, position.epoch + is_over, 0 if is_over else end),
            name=f"epoch {position.epoch + 1}, examples from {position.index}",
            has_share=has_share,
        )


class FinetuningObjective(Objective):
    """The loss of a task, and its scores on the dev data, which the ranks divide.

    `task` is as an earlier evaluation tuned it (None: as it was fitted to the data); each evaluation tunes it.
    """

    def __init__(self, model: nn.Module, prepared: PreparedData, task: Task | None = None) -> None:
        super().__init__(model)
        config = prepared.config
        self.task, self.context, self.tokenizer = task or prepared.task, prepared.context, prepared.tokenizer
        self.metric, self.distillation = prepared.metric, config.distillation
        self.max_seq_length = config.max_seq_length
        self.dev, self.dev_features = prepared.data.dev, prepared.data.dev_features
        self.flat_dev_features = list(chain.from_iterable(self.dev_features))
        lengths = [feature.num_tokens for feature in self.flat_dev_features]
        self.dev_batches = list(batch_by_length(lengths, config.micro_batch_on(self.context.device)))
        self.num_evaluation_batches = len(self.dev_batches)

    def forward(self, batch: Any) -> MetricSums:
        """Return the loss of a batch, and what else the task measures."""
        batch = to_device(batch, self.context.device)
        logits = self.model(batch).float()
        loss_sum, metrics = self.task.answer.loss(logits, batch)
        count = metrics["loss"][1]
        if batch.teacher is None:
            return {**metrics, "loss": (loss_sum, count)}
        soft_loss = self.task.answer.distance(logits, batch, self.distillation.temperature)
        hard = {"hard_loss" if name == "loss" else name: value for name, value in metrics.items()}
        if not batch.is_labeled:
            # with the names of a labeled batch, since all steps of a run measure the same
            hard = {name: (torch.zeros_like(value), 0) for name, (value, _) in hard.items()}
        weight = self.distillation.weight if batch.is_labeled else 1.0
        loss = weight * soft_loss + ((1 - weight) * loss_sum if weight < 1 else 0.0)
        return {**hard, "soft_loss": (soft_loss.detach(), count), "loss": (loss, count)}

    def evaluate(self) -> Iterator[EvaluatedSums]:
        """Yield the loss of this rank's dev data, then the scores of all, for which the task is tuned.

        Rank zero alone yields the scores.
        """
        outputs: dict[int, Array] = {}
        for indices in self.context.share(self.dev_batches):
            if indices is None:
                yield {}
                continue
            batch = self.task.answer.batch([self.flat_dev_features[i] for i in indices])
            on_device = to_device(batch, self.context.device)
            logits: Tensor = self.model(on_device).float()
            of_features = self.task.answer.outputs(logits.cpu().numpy(), batch)
            outputs.update(zip(indices, of_features, strict=True))
            yield {"loss": self.task.answer.loss(logits, on_device)[1]["loss"]}
        outputs = {i: output for share in self.context.all_gather(outputs) for i, output in share.items()}
        predictions = decode(self.task.answer, self.dev, self.dev_features, outputs)
        tuned = self.task.tuned(self.dev, predictions)
        if tuned != self.task:
            self.task, predictions = tuned, decode(tuned.answer, self.dev, self.dev_features, outputs)
        scores = self.task.score(self.dev, predictions)
        yield {name: (value, 1.0) for name, value in scores.items()} if self.context.is_rank_zero else {}

    def selection_score(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """Return the score of `best_metric`, then the negative loss."""
        sign = -1 if self.metric in LOWER_IS_BETTER else 1
        return sign * metrics[self.metric], -metrics["loss"]

    def shown_metrics(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return the loss and the scores, without the accuracy of the most frequent class, which does not change."""
        return {name: value for name, value in metrics.items() if name != "majority_accuracy"}

    def save_model(self, directory: Path) -> None:
        """Write config, weights, tokenizer and the task as tuned."""
        save_finetuned(directory, self.model, self.tokenizer, self.task, max_seq_length=self.max_seq_length)
