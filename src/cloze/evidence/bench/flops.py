"""How many floating-point operations a model takes, whoever computes it."""

from dataclasses import dataclass

from cloze.corpus.batches import PackedBatch
from cloze.model.bert import BertConfig


@dataclass(frozen=True, slots=True)
class Workload:
    """What the number of operations depends on, besides the model."""

    num_tokens: int
    """Real ones; padding is no work."""
    sum_of_squared_lengths: int
    num_predictions: int

    @classmethod
    def of(cls, batch: PackedBatch) -> "Workload":
        """Measure a packed batch."""
        lengths = batch.cu_seqlens[1:].astype(int) - batch.cu_seqlens[:-1]
        return cls(int(lengths.sum()), int((lengths**2).sum()), len(batch.masked_lm_ids))

    def __add__(self, other: "Workload") -> "Workload":
        return Workload(
            self.num_tokens + other.num_tokens,
            self.sum_of_squared_lengths + other.sum_of_squared_lengths,
            self.num_predictions + other.num_predictions,
        )


def pretraining_step_flops(config: BertConfig, work: Workload) -> int:
    """Return the operations of forward and backward: matrix products alone, each multiply-add as two.

    A layer has its four products with weights and its two within attention; the masked-word head stands at the
    masked positions only; the pooler's [CLS] is left out, being a token in a hundred. Backward takes twice forward.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    weights = layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size)
    encoder = 2 * weights * work.num_tokens
    attention = 4 * layers * hidden * work.sum_of_squared_lengths
    head = 2 * (hidden**2 + hidden * config.vocab_size) * work.num_predictions
    return 3 * (encoder + attention + head)
