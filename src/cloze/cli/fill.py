"""`cloze fill`: fill in the [MASK]s of a text."""

from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Model, read_lines
from cloze.errors import InputError


def run(
    texts: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT…")],
    /,
    *,
    model: Model,
    top_k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 5,
    device: Device = "auto",
    flags: Flags,
) -> None:
    """Fill in the [MASK]s of a text: the likeliest word pieces of each, with their probabilities.

    Args:
        texts: one text or several; - reads them from stdin, one a line.
        model: cloze-mini, a pre-trained checkpoint or a run.
        top_k: how many pieces for each mask.
        device: cpu, cuda, mps or auto.
        flags: flags of every verb.
    """
    from cloze.inference.fill import FillMask

    fill_mask = FillMask.load(model, device=device)
    for text, where in read_lines(texts):
        try:
            masks = fill_mask(text, top_k=top_k)
        except InputError as error:
            raise InputError(error.what, where=where or error.where, remedy=error.remedy) from error
        result = [[{"token": c.token, "probability": c.probability} for c in mask] for mask in masks]
        lines = [
            f"  [MASK] {number}: " + "  ".join(f"{c.token} {c.probability:.3f}" for c in mask)
            for number, mask in enumerate(masks, 1)
        ]
        flags.print({"text": text, "masks": result}, "\n".join([text, *lines]))
