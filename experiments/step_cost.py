"""Floating-point operations of a training step, by formula."""

from dataclasses import dataclass

from cloze.data.batch import PackedBatch, PretrainingBatch
from cloze.models.encoder_config import EncoderConfig


@dataclass(frozen=True, slots=True)
class Workload:
    """The size of a batch."""

    num_tokens: int
    """Tokens without padding."""
    sum_of_squared_lengths: int
    num_predictions: int = 0
    """Masked positions, which have logits over the vocabulary."""

    @classmethod
    def of(cls, batch: PackedBatch) -> "Workload":
        """Return the workload of a batch."""
        squares = sum(group.count * group.length**2 for group in batch.length_groups)
        num_predictions = len(batch.masked_lm_ids) if isinstance(batch, PretrainingBatch) else 0
        return cls(batch.num_tokens, squares, num_predictions)

    def __add__(self, other: "Workload") -> "Workload":
        return Workload(
            self.num_tokens + other.num_tokens,
            self.sum_of_squared_lengths + other.sum_of_squared_lengths,
            self.num_predictions + other.num_predictions,
        )


def pretraining_step_flops(config: EncoderConfig, workload: Workload) -> int:
    """Return the operations of forward and backward: matrix products only, a multiply-add counted as two.

    The masked-word head applies to the masked positions only. Backward takes twice as many as forward.
    """
    hidden = config.hidden_size
    encoder = config.forward_flops(workload.num_tokens, workload.sum_of_squared_lengths)
    head = 2 * (hidden**2 + hidden * config.vocab_size) * workload.num_predictions
    return 3 * (encoder + head)
