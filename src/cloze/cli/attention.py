"""`cloze attention`: write an HTML page with the attention within a text."""

from typing import Annotated

from tyro.conf import Positional, arg

from cloze.cli import options


def run(
    text: Annotated[Positional[str], arg(metavar="TEXT")],
    /,
    *,
    model: options.Model,
    output: options.Output,
    pair: options.OptionalName = None,
    device: options.Device = "auto",
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Write an HTML page with queries, keys and attention weights of every head.

    Args:
        text: Text, in quotes.
        output: HTML file; it opens without a network.
        pair: Second text, read as sentence B.
    """
    from cloze.artifacts import check_output_path
    from cloze.file_io import write_text
    from cloze.inference.encoder_internals import attention_map
    from cloze.inference.loading import load
    from cloze.models.heads import BertForFeatureExtraction
    from cloze.reports.attention_page import attention_page

    check_output_path(output, overwrite=overwrite, directory=False)
    head, tokenizer = load(model, BertForFeatureExtraction, device=device)
    attention = attention_map(head.bert, tokenizer, text, pair)
    write_text(output, attention_page(attention, model=str(model)))
    num_layers, num_heads = len(attention.layers), len(attention.layers[0].query)
    shape = {"tokens": len(attention.tokens), "layers": num_layers, "heads": num_heads}
    line = f"wrote {output}: {shape['tokens']} tokens, {num_layers} layers of {num_heads} heads"
    flags.print({"page": str(output), **shape}, line)
