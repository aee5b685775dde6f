"""`cloze attention`: write an HTML page with the attention within a text."""

from typing import Annotated

from cloze.cli import options


def run(
    text: Annotated[str, options.Flag(metavar="TEXT")],
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
    from cloze.api.models import attention

    shown = attention(model, text, pair, output, device=device, overwrite=overwrite)
    num_layers, num_heads = len(shown.layers), len(shown.layers[0].query)
    shape = {"tokens": len(shown.tokens), "layers": num_layers, "heads": num_heads}
    line = f"wrote {output}: {shape['tokens']} tokens, {num_layers} layers of {num_heads} heads"
    flags.print({"page": str(output), **shape}, line)
