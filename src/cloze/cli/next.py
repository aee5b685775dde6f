"""`cloze next`: say whether sentence B follows sentence A."""

from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Model


def run(
    sentence_a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A")],
    sentence_b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B")],
    /,
    *,
    model: Model,
    device: Device = "auto",
    flags: Flags,
) -> None:
    """Say how likely sentence B is to follow sentence A.

    Args:
        sentence_a: the first sentence.
        sentence_b: the one that may follow it.
        model: cloze-mini, a pre-trained checkpoint or a run.
        device: cpu, cuda, mps or auto.
        flags: flags of every verb.
    """
    from cloze.inference.next_sentence import NextSentence

    probability = NextSentence.load(model, device=device)(sentence_a, sentence_b)
    flags.print({"is_next": probability}, f"B follows A with probability {probability:.3f}")
