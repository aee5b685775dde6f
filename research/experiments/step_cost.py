"""Floating-point operations of a training step, by formula."""

from cloze.models.encoder_config import EncoderConfig
from cloze.models.modern_bert import ModernBertConfig


def attention_pairs(config: EncoderConfig, num_tokens: int, sum_of_squared_lengths: int) -> int:
    """Return the attention weights of one head in all layers: a local one has three half windows for each token."""
    layers = range(config.num_hidden_layers)
    if not isinstance(config, ModernBertConfig):
        return len(layers) * sum_of_squared_lengths
    num_global = sum(map(config.is_global, layers))
    in_windows = min(sum_of_squared_lengths, 3 * (config.local_attention // 2) * num_tokens)
    return num_global * sum_of_squared_lengths + (len(layers) - num_global) * in_windows


def forward_flops(config: EncoderConfig, num_tokens: int, sum_of_squared_lengths: int) -> int:
    """Return the operations of the matrix products of a forward pass, a multiply-add counted as two.

    The pooler, for one token in a hundred, is left out.
    """
    weights = 2 * config.num_hidden_layers * config.layer_weights * num_tokens
    return weights + 4 * config.hidden_size * attention_pairs(config, num_tokens, sum_of_squared_lengths)


def pretraining_step_flops(
    config: EncoderConfig, *, num_tokens: int, sum_of_squared_lengths: int, num_predictions: int
) -> int:
    """Return the operations of forward and backward: matrix products only, a multiply-add counted as two.

    The masked-word head applies to the masked positions only. Backward takes twice as many as forward.

    Args:
        num_tokens: tokens without padding.
        num_predictions: masked positions.
    """
    hidden = config.hidden_size
    head = 2 * (hidden**2 + hidden * config.vocab_size) * num_predictions
    return 3 * (forward_flops(config, num_tokens, sum_of_squared_lengths) + head)
