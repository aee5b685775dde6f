"""`cloze attention`: where each piece of a text looks, as one HTML file."""

from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Model, OptionalName, Output


def run(
    text: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT")],
    /,
    *,
    model: Model,
    output: Output,
    pair: OptionalName = None,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Write a page with the attention within a text: queries, keys, scores and softmax of every layer and head.

    Args:
        text: a text in quotes.
        model: cloze-mini, any checkpoint or a run; of a fine-tuning run the best is taken.
        output: the HTML file; it opens without a network.
        pair: a second text, read as sentence B.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.artifacts import refuse_existing, write_text
    from cloze.evidence.attention_page import attention_page
    from cloze.inference.attention_map import attention_map
    from cloze.inference.loading import load
    from cloze.locate import resolve_checkpoint
    from cloze.model.heads import BertForFeatureExtraction

    refuse_existing(output, overwrite=overwrite, directory=False)
    head, tokenizer = load(resolve_checkpoint(model, "best"), BertForFeatureExtraction, device=device)
    found = attention_map(head.bert, tokenizer, text, pair)
    write_text(output, attention_page(found, model=str(model)))
    shape = {"tokens": len(found.tokens), "layers": len(found.layers), "heads": len(found.layers[0].query)}
    line = f"wrote {output}: {shape['tokens']} pieces, {shape['layers']} layers of {shape['heads']} heads"
    flags.print({"page": str(output), **shape}, line)
