"""Floating-point operations of a training step, by formula."""

from cloze.models.encoder_config import EncoderConfig


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
    return 3 * (config.forward_flops(num_tokens, sum_of_squared_lengths) + head)
