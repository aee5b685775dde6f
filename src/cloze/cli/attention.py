"""`cloze attention`: write an HTML page with the attention within a text."""

from typing import TYPE_CHECKING, Any

from cloze.api.models import attention
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.explorer.encoder_internals import AttentionMap


@verb(attention)
def show(shown: "AttentionMap", *, output: str | None) -> tuple[Any, str]:
    """Return the size of the map, and the page with it."""
    num_layers, num_heads = len(shown.layers), len(shown.layers[0].query)
    shape = {"tokens": len(shown.tokens), "layers": num_layers, "heads": num_heads}
    written = "" if output is None else f"wrote {output}: "
    line = f"{written}{shape['tokens']} tokens, {num_layers} layers of {num_heads} heads"
    return {"page": output, **shape}, line
