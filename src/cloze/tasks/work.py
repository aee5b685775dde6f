"""What the training loop asks of a fine-tuning run: steps, losses, scores of the dev data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from cloze.tasks.batches import Indices, by_length, epoch_order
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.data import LabelledData
from cloze.tasks.predict import decode, logits_of
from cloze.tasks.task import AnyTask, Array
from cloze.training.checkpoints import Position
from cloze.training.distribution import World
from cloze.training.measures import Measures
from cloze.training.work import StepData


@dataclass(frozen=True, slots=True)
class FinetuningStep(StepData[Any]):
    """One step's batches, and what its mean is over."""

    num_targets: int


@dataclass(slots=True)
class FinetuningWork:
    """A task's data, as the training loop asks for them; `task` is as tuned by the last evaluation."""

    task: AnyTask
    data: LabelledData
    config: FinetuneConfig
    world: World
    losses: tuple[str, ...] = ("loss",)
    features: Sequence[Any] = field(init=False)
    """Those to learn from, of all examples."""
    _order: tuple[int, Indices] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.features = [feature for own in self.data.train_features for feature in own]

    @property
    def steps_per_epoch(self) -> int:
        """The last one takes what is left."""
        return -(-len(self.features) // self.config.batch_size)

    def step_data(self, progress: float, position: Position, micro_batch_tokens: int) -> FinetuningStep:
        """Return this rank's share of the next `batch_size` features of the epoch's order."""
        end = position.index + self.config.batch_size
        indices = self._order_of(position.epoch)[position.index : end]
        own = indices[self.world.rank :: self.world.size]
        has_share = len(own) > 0  # the last step of an epoch may have fewer features than there are ranks
        features = [self.features[i] for i in (own if has_share else indices[:1])]
        lengths = [feature.num_tokens for feature in features]
        max_tokens = sum(lengths) if self.task.compares_examples else micro_batch_tokens
        batches = [
            self.task.batch([features[i] for i in indices]) for indices in by_length(lengths, max_tokens)
        ]
        num_tokens, num_targets = self.world.sums(
            has_share * sum(lengths), has_share * sum(batch.num_targets for batch in batches)
        )
        over = end >= len(self.features)
        return FinetuningStep(
            batches=batches,
            num_tokens=int(num_tokens),
            next_position=Position(0, position.epoch + over, 0 if over else end),
            name=f"epoch {position.epoch + 1}, examples from {position.index}",
            has_share=has_share,
            num_targets=int(num_targets),
        )

    def _order_of(self, epoch: int) -> Indices:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, epoch_order(len(self.features), seed=self.config.seed, epoch=epoch)
        return self._order[1]

    def loss(self, model: nn.Module, batch: Any, step: StepData[Any]) -> tuple[Tensor, Measures]:
        """Return the batch's share of the step's mean loss."""
        assert isinstance(step, FinetuningStep)
        batch = batch.to(self.world.device)
        loss_sum, measures = self.task.loss(model(batch.packed).float(), batch)
        return loss_sum / max(step.num_targets, 1), measures

    def evaluate(self, model: nn.Module) -> Iterator[Measures]:
        """Measure loss and scores of all dev data, and tune the task on them."""
        examples, features = self.data.dev, self.data.dev_features
        flat = [feature for own in features for feature in own]
        outputs: dict[int, Array] = {}
        for indices, batch, logits in logits_of(
            self.task, model, flat, max_tokens=self.config.micro_batch_tokens
        ):
            outputs.update(zip(indices.tolist(), self.task.outputs(logits, batch), strict=True))
            yield {"loss": self.task.loss(logits, batch)[1]["loss"]}
        predictions = decode(self.task, examples, features, outputs)
        tuned = self.task.tuned(examples, predictions)
        if tuned is not self.task:
            self.task, predictions = tuned, decode(tuned, examples, features, outputs)
        scores = self.task.score(examples, predictions)
        yield {name: (torch.tensor(value, dtype=torch.float64), 1.0) for name, value in scores.items()}

    def merit(self, measured: Mapping[str, float]) -> tuple[float, ...]:
        """Return the score that chooses; of evaluations with the same, the one with the lower loss is better."""
        metric = self.config.metric_of(self.task)
        sign = -1 if metric in self.task.errors else 1
        return sign * measured[metric], -measured["loss"]
