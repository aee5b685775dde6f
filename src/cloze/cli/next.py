"""`cloze next`: predict whether sentence B follows sentence A."""

from typing import Annotated

from cloze.cli import options


def run(
    sentence_a: Annotated[str, options.Flag(metavar="A")],
    sentence_b: Annotated[str, options.Flag(metavar="B")],
    /,
    *,
    model: options.Model,
    device: options.Device = "auto",
    precision: options.Precision = None,
    flags: options.Flags,
) -> None:
    """Print the probability that sentence B follows sentence A.

    Args:
        sentence_a: First sentence.
        sentence_b: Second sentence.
    """
    from cloze.inference.next_sentence import NextSentence

    probability = NextSentence.load(model, device=device, precision=precision)(
        sentence_a, sentence_b
    ).probability
    flags.print({"is_next": probability}, f"B follows A with probability {probability:.3f}")
