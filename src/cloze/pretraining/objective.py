"""What pre-training learns: the mean loss of the masked words plus the mean loss of the next sentence.

Source: Devlin et al. 2019, A.2 ("the sum of the mean masked LM likelihood and the mean next sentence prediction
likelihood"); google-research/bert run_pretraining.py:149 @eedf571.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.corpus.batches import Cursor, InstanceSource, Integers, PackedBatch, micro_batches, take
from cloze.corpus.masking import Targets
from cloze.model.attention import AttendsTo
from cloze.model.bert import Packed
from cloze.model.heads import BertForPreTraining
from cloze.pretraining.config import PhaseConfig
from cloze.training.checkpoints import Position
from cloze.training.distribution import World
from cloze.training.measures import Measures
from cloze.training.work import StepData

Reals: TypeAlias = npt.NDArray[np.float64]

_ASKED_MORE_OFTEN = 8  # at every place, where 15% of the pieces are hidden
TARGETS: Mapping[AttendsTo, Targets] = MappingProxyType(
    {"all": "masked", "left": "next", "right": "previous"}
)
"""What an encoder learns by what it sees: hidden pieces, or the neighbour on the side where it does not look."""


def held_out_batches(
    source: InstanceSource, count: int, attends_to: AttendsTo, micro_batch_tokens: int
) -> list[PackedBatch]:
    """Return the first instances of an epoch as batches to be measured; an epoch's plan is in mixed order.

    There are scores over the vocabulary at every place that is asked about: for what looks one way at all of them, so
    that its batches are the smaller.
    """
    tokens = micro_batch_tokens if attends_to == "all" else micro_batch_tokens // _ASKED_MORE_OFTEN
    return list(micro_batches(source, 0, np.arange(min(source.num_instances(0), count)), tokens))


def phases_at(progress: Reals, phases: Sequence[PhaseConfig]) -> Integers:
    """Return which phase each step belongs to that begins when such a share of the run is over."""
    ends = np.cumsum([phase.fraction for phase in phases])
    return np.minimum(np.searchsorted(ends, progress + 1e-9, side="right"), len(phases) - 1)


def steps_of_phases(steps: int, phases: Sequence[PhaseConfig]) -> list[int]:
    """Return how many steps of a run each phase gets: none where it is short and so is the run."""
    numbers = phases_at(np.arange(steps) / steps, phases)
    return [int(count) for count in np.bincount(numbers, minlength=len(phases))]


@dataclass(frozen=True, slots=True)
class PretrainingStep(StepData[PackedBatch]):
    """One step's instances, and the counts that its two means are over."""

    num_predictions: int
    num_pairs: int


@dataclass(frozen=True, slots=True)
class PretrainingWork:
    """Masked words and next sentence, as the training loop asks for them.

    Args:
        phases: the stretches of the run, with the source of each one's instances.
        held_out: batches of held-out instances.
        unigram_nats: for every piece, minus the logarithm of its share of the training text: what knowing
            frequencies alone would lose on it.
        next_sentence: whether the instances are pairs.
        world: the ranks of the run, of which this one has its share of every step.
        old_held_out: batches of held-out instances of the text that the model knows from before.
    """

    phases: Sequence[tuple[PhaseConfig, InstanceSource]]
    held_out: Sequence[PackedBatch]
    unigram_nats: Tensor
    next_sentence: bool
    world: World
    old_held_out: Sequence[PackedBatch] = ()

    @property
    def losses(self) -> tuple[str, ...]:
        """The measures whose sum is the loss."""
        return ("masked_lm_loss", "next_sentence_loss") if self.next_sentence else ("masked_lm_loss",)

    def step_data(self, progress: float, position: Position, micro_batch_tokens: int) -> PretrainingStep:
        """Return the next `batch_size` instances of the phase that `progress` lies in."""
        number = int(phases_at(np.array(progress), [phase for phase, _ in self.phases]))
        if number != position.phase:
            position = Position(phase=number)
        phase, source = self.phases[number]
        cursor = Cursor(position.epoch, position.index)
        parts, after = take(source, cursor, phase.batch_size)
        batches = [
            batch
            for part in _share(parts, self.world)
            for batch in micro_batches(source, *part, micro_batch_tokens, progress=progress)
        ]
        num_tokens, num_predictions, num_pairs = self.world.sums(
            sum(len(batch.input_ids) for batch in batches),
            sum(len(batch.masked_lm_ids) for batch in batches),
            sum(len(batch.next_sentence_labels) for batch in batches),
        )
        return PretrainingStep(
            batches=batches,
            num_tokens=int(num_tokens),
            next_position=Position(number, after.epoch, after.position),
            name=f"phase {number + 1}, epoch {cursor.epoch}, instances from {cursor.position}",
            num_predictions=int(num_predictions),
            num_pairs=int(num_pairs),
        )

    def loss(
        self, model: nn.Module, batch: PackedBatch, step: StepData[PackedBatch]
    ) -> tuple[Tensor, Measures]:
        """Return the batch's share of the step's loss."""
        assert isinstance(model, BertForPreTraining)
        assert isinstance(step, PretrainingStep)
        sums = model.losses(
            self._packed(batch),
            self._tensor(batch.masked_lm_positions),
            self._tensor(batch.masked_lm_ids),
            self._tensor(batch.next_sentence_labels),
        )
        loss = sums.masked_lm_loss_sum / max(step.num_predictions, 1)
        measures = {"masked_lm_loss": (sums.masked_lm_loss_sum.detach(), len(batch.masked_lm_ids))}
        if self.next_sentence:
            loss = loss + sums.next_sentence_loss_sum / step.num_pairs
            measures["next_sentence_loss"] = (
                sums.next_sentence_loss_sum.detach(),
                len(batch.next_sentence_labels),
            )
        return loss, measures

    def evaluate(self, model: nn.Module) -> Iterator[Measures]:
        """Measure losses and accuracies, and what a unigram model would lose: the same pairs and masks each time."""
        assert isinstance(model, BertForPreTraining)
        for batch in self.held_out:
            measures = self._measure(model, batch)
            unigram_nats = self.unigram_nats[self._tensor(batch.masked_lm_ids)]
            yield {**measures, "masked_lm_unigram_loss": (unigram_nats.sum(), len(unigram_nats))}
        for batch in self.old_held_out:
            yield {f"old_{name}": measure for name, measure in self._measure(model, batch).items()}

    def merit(self, measured: Mapping[str, float]) -> tuple[float, ...]:
        """Return the loss with its sign changed."""
        return (-measured["loss"],)

    def _measure(self, model: BertForPreTraining, batch: PackedBatch) -> Measures:
        logits = model(self._packed(batch), self._tensor(batch.masked_lm_positions))
        ids_P = self._tensor(batch.masked_lm_ids)
        masked = _loss_and_accuracy("masked_lm", logits.masked_lm_logits, ids_P)
        if not self.next_sentence:
            return masked
        labels_B = self._tensor(batch.next_sentence_labels)
        return {**masked, **_loss_and_accuracy("next_sentence", logits.next_sentence_logits, labels_B)}

    def _packed(self, batch: PackedBatch) -> Packed:
        return Packed.from_arrays(
            batch.input_ids, batch.token_type_ids, batch.position_ids, batch.cu_seqlens
        ).to(self.world.device)

    def _tensor(self, array: object) -> Tensor:
        return torch.as_tensor(array).to(self.world.device, non_blocking=True)


def _share(parts: Sequence[tuple[int, Integers]], world: World) -> list[tuple[int, Integers]]:
    """Return the instances of a rank: of the whole batch, not of each part, so that all ranks have as many."""
    shares = []
    before = 0
    for epoch, positions in parts:
        share = positions[(world.rank - before) % world.size :: world.size]
        if len(share):
            shares.append((epoch, share))
        before += len(positions)
    return shares


def _loss_and_accuracy(name: str, logits: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, float]]:
    loss = nn.functional.cross_entropy(logits.float(), targets, reduction="sum")
    correct = (logits.argmax(-1) == targets).sum()
    return {f"{name}_loss": (loss, len(targets)), f"{name}_accuracy": (correct, len(targets))}
