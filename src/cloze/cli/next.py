"""`cloze next`: predict whether sentence B follows sentence A."""

from typing import TYPE_CHECKING, Any

from cloze.api.models import next_sentence
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.inference.pretrained_heads import NextSentencePrediction


@verb(next_sentence)
def show(prediction: "NextSentencePrediction") -> tuple[Any, str]:
    """Return the probability that sentence B follows sentence A."""
    probability = prediction.probability
    return {"is_next": probability}, f"B follows A with probability {probability:.3f}"
