"""Floating-point operations of a training step, by formula."""

from dataclasses import dataclass

from cloze.data.batch import PackedBatch, PretrainingBatch
from cloze.models.bert import BertConfig
from cloze.models.modern_bert import ModernBertConfig


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


def pretraining_step_flops(config: BertConfig, workload: Workload) -> int:
    """Return the operations of forward and backward: matrix products only, a multiply-add counted as two.

    A layer has four products with weights, one of them twice as wide if it is gated, and two within attention; the
    masked-word head applies to the masked positions only; the pooler, for one token in a hundred, is left out. Backward
    takes twice as many as forward.
    """
    hidden = config.hidden_size
    encoder = 2 * config.num_hidden_layers * config.layer_weights * workload.num_tokens
    attention = 4 * hidden * _attention_pairs(config, workload)
    head = 2 * (hidden**2 + hidden * config.vocab_size) * workload.num_predictions
    return 3 * (encoder + attention + head)


def _attention_pairs(config: BertConfig, workload: Workload) -> int:
    """Return the attention weights of one head in all layers.

    A local layer computes those of three half windows for each token.
    """
    layers, all_pairs = config.num_hidden_layers, workload.sum_of_squared_lengths
    if not isinstance(config, ModernBertConfig):
        return layers * all_pairs
    num_global = sum(map(config.is_global, range(layers)))
    in_windows = min(all_pairs, 3 * (config.local_attention // 2) * workload.num_tokens)
    return num_global * all_pairs + (layers - num_global) * in_windows
