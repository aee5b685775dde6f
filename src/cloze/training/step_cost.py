"""The cost of a training step by formula: floating-point operations and bytes of memory."""

from dataclasses import dataclass

import torch
from torch import nn

from cloze.data.batch import PackedBatch, PretrainingBatch
from cloze.models.attention import MAX_LENGTH_OF_SCORES
from cloze.models.bert import BertConfig
from cloze.models.modern_bert import ModernBertConfig

_FLOAT32, _MASK = 4, 2  # bytes of a weight, and of a random number of dropout


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
    attention = 4 * hidden * sum(_attention_pairs(config, workload))
    head = 2 * (hidden**2 + hidden * config.vocab_size) * workload.num_predictions
    return 3 * (encoder + attention + head)


def activation_bytes(config: BertConfig, workload: Workload, compute_dtype: torch.dtype) -> int:
    """Return the bytes that a micro-batch keeps from forward for backward on a CPU.

    They grow with the tokens, and with the squares of the lengths: a weight for each pair of tokens of a sequence.

    A layer keeps eleven vectors of the hidden size per token (its input; query, key and value, and again as attention
    groups them by length; the context; the sum before either LayerNorm, and the first one's output), two of the
    intermediate size (before and after GELU) and the random numbers of dropout. One of ModernBERT keeps about ten (the
    rotated query and key besides, its inputs after LayerNorm, no sum) and four (both factors of the gate, GELU, their
    product). Under autocast it also keeps its weights in that format. The masked-word head keeps four vectors per
    masked position, and the logits, whose memory their gradient takes over.
    """
    element = compute_dtype.itemsize
    drops_hidden, drops_weights = config.hidden_dropout_prob > 0, config.attention_probs_dropout_prob > 0
    hidden, intermediate, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers

    vectors, intermediate_vectors = (10, 4) if isinstance(config, ModernBertConfig) else (11, 2)
    token = (
        element * (vectors * hidden + intermediate_vectors * intermediate) + 2 * _MASK * hidden * drops_hidden
    )
    pair = (2 * element + _MASK if drops_weights else element) * config.num_attention_heads
    converted = 0 if compute_dtype == torch.float32 else element
    all_layers = layers * (token * workload.num_tokens + converted * config.layer_weights)
    global_pairs, local_pairs = _attention_pairs(config, workload)
    is_long = workload.sum_of_squared_lengths > MAX_LENGTH_OF_SCORES * workload.num_tokens
    if is_long and config.attends_to == "all" and not drops_weights:
        global_pairs = 0  # such sequences are attended to by blocks
    attention = pair * (global_pairs + local_pairs)

    embeddings = (_FLOAT32 + _MASK * drops_hidden + element) * hidden * workload.num_tokens
    head = element * (4 * hidden + config.vocab_size) * workload.num_predictions
    table = converted * hidden * config.vocab_size if workload.num_predictions else 0
    return all_layers + attention + embeddings + head + table


def _attention_pairs(config: BertConfig, workload: Workload) -> tuple[int, int]:
    """Return the attention weights of one head in all global and all local layers.

    A local layer computes those of three half windows for each token.
    """
    layers, all_pairs = config.num_hidden_layers, workload.sum_of_squared_lengths
    if not isinstance(config, ModernBertConfig):
        return layers * all_pairs, 0
    num_global = sum(map(config.is_global, range(layers)))
    in_windows = min(all_pairs, 3 * (config.local_attention // 2) * workload.num_tokens)
    return num_global * all_pairs, (layers - num_global) * in_windows


def transient_bytes(config: BertConfig, workload: Workload, compute_dtype: torch.dtype) -> int:
    """Return the temporary bytes of the backward pass on a CPU, beyond those of `activation_bytes`.

    The larger of two: the masked-word head's gradient of the word embeddings, and the gradients of the intermediate
    vectors of a layer.
    """
    element = compute_dtype.itemsize
    head = element * config.vocab_size * config.hidden_size if workload.num_predictions else 0
    return max(head, element * 2 * config.intermediate_size * workload.num_tokens)


def parameter_bytes(model: nn.Module) -> tuple[int, int]:
    """Return the bytes of all parameters, and of the trained ones, which have gradients."""
    parameters = list(model.parameters())
    return sum(p.nbytes for p in parameters), sum(p.nbytes for p in parameters if p.requires_grad)
