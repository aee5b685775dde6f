"""What a training step costs by formula, whoever computes it: floating-point operations, and bytes of memory."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cloze.corpus.batches import PackedBatch
from cloze.model.bert import BertConfig
from cloze.model.packed import Packed
from cloze.training.muon import Muon

_FLOAT32, _MASK = 4, 2  # bytes of an element: of weights and sums; of what dropout draws


@dataclass(frozen=True, slots=True)
class Workload:
    """What the cost depends on, besides the model."""

    num_tokens: int
    """Real ones; padding is no work."""
    sum_of_squared_lengths: int
    num_predictions: int = 0
    """Masked positions, at which there are scores over the vocabulary."""

    @classmethod
    def of(cls, batch: PackedBatch) -> "Workload":
        """Measure a batch of pre-training instances."""
        lengths = batch.cu_seqlens[1:].astype(int) - batch.cu_seqlens[:-1]
        return cls(int(lengths.sum()), int((lengths**2).sum()), len(batch.masked_lm_ids))

    @classmethod
    def of_packed(cls, packed: Packed) -> "Workload":
        """Measure a batch without masked positions."""
        return cls(packed.num_tokens, sum(run.count * run.length**2 for run in packed.runs))

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


def activation_bytes(config: BertConfig, work: Workload, compute_dtype: torch.dtype) -> int:
    """Return the bytes that a micro-batch keeps from its forward pass for its backward pass, on a CPU.

    Grows with the tokens, and with the squares of the lengths: a weight for each pair of tokens of a sequence.

    A layer keeps eleven vectors of the hidden size a token (its input; query, key and value, and again as attention
    groups them by length; the context; the sum before either LayerNorm, and the first one's output), two of the
    intermediate size (before and after GELU) and the draws of dropout. Under autocast it also keeps its weights in
    that format. The masked-word head keeps four vectors a masked position, and the scores, which become their own
    gradient.
    """
    element = compute_dtype.itemsize
    drops_hidden, drops_weights = config.hidden_dropout_prob > 0, config.attention_probs_dropout_prob > 0
    hidden, intermediate, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers

    token = element * (11 * hidden + 2 * intermediate) + 2 * _MASK * hidden * drops_hidden
    pair = (2 * element + _MASK if drops_weights else element) * config.num_attention_heads
    converted = 0 if compute_dtype == torch.float32 else element
    weights = converted * (4 * hidden**2 + 2 * hidden * intermediate)
    layer = token * work.num_tokens + pair * work.sum_of_squared_lengths + weights

    embeddings = (_FLOAT32 + _MASK * drops_hidden + element) * hidden * work.num_tokens
    head = element * (4 * hidden + config.vocab_size) * work.num_predictions
    table = converted * hidden * config.vocab_size if work.num_predictions else 0
    return layers * layer + embeddings + head + table


def transient_bytes(config: BertConfig, work: Workload, compute_dtype: torch.dtype) -> int:
    """Return the bytes that the backward pass needs for a moment on top of what is kept, on a CPU.

    The masked-word head's gradient of the table of embeddings; or, in a layer, the gradients of the intermediate
    vectors: whichever is more.
    """
    element = compute_dtype.itemsize
    head = element * config.vocab_size * config.hidden_size if work.num_predictions else 0
    return max(head, element * 2 * config.intermediate_size * work.num_tokens)


def parameter_bytes(model: nn.Module) -> tuple[int, int]:
    """Return the bytes of all parameters, and of those that are trained: the latter have gradients."""
    return (
        _bytes(model.parameters()),
        _bytes(parameter for parameter in model.parameters() if parameter.requires_grad),
    )


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes of an optimizer's averages once it has stepped, whether or not it has made them yet.

    AdamW, whose groups have betas, keeps two for each weight, Muon one.
    """
    return sum((2 if "betas" in group else 1) * _bytes(group["params"]) for group in optimizer.param_groups)


def update_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Return the bytes that an optimizer's step needs for a moment: AdamW, which is fused, none."""
    return optimizer.transient_bytes() if isinstance(optimizer, Muon) else 0


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
