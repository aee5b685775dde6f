"""HTML page of `cloze attention`: queries, keys, scores and attention weights of every head."""

import base64

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.encoder_internals import AttentionMap
from cloze.reports.page import render_page

_MAX_MEGABYTES = 32


def attention_page(attention: AttentionMap, *, model: str) -> str:
    """Return one HTML file without external resources; its script computes the weights from queries and keys.

    Args:
        attention: queries and keys of a text.
        model: name or path of the model.

    Raises:
        InputError: the page would be too large for a browser, or the model's scores have a bias.
    """
    if attention.layers[0].bias is not None:
        what = "its attention scores have a bias, which the page does not show"
        raise InputError(what, where="model", remedy="Read the weights in Python, with cloze.attention")
    num_heads, num_tokens, head_size = attention.layers[0].query.shape
    num_floats = 2 * len(attention.layers) * num_heads * num_tokens * head_size
    megabytes = num_floats * 4 * 4 / 3 / 1e6  # base64 writes 3 of the 4 bytes of a float as 4 characters
    if megabytes > _MAX_MEGABYTES:
        what = f"{num_tokens} tokens make a page of {megabytes:.0f} MB, over {_MAX_MEGABYTES}"
        raise InputError(what, where="text", remedy="Give a shorter text")
    data = {
        "tokens": attention.tokens,
        "segments": attention.token_type_ids,
        "layers": len(attention.layers),
        "heads": num_heads,
        "headSize": head_size,
        "query": _to_base64([layer.query for layer in attention.layers]),
        "key": _to_base64([layer.key for layer in attention.layers]),
    }
    return render_page(
        "attention",
        data,
        name=" ".join(token for token in attention.tokens if token not in ("[CLS]", "[SEP]"))[:80] or "[CLS]",
        kind="Attention",
        extent=model,
        tiles=[
            ("Tokens", str(num_tokens), "with [CLS] and [SEP]"),
            ("Layers", str(len(attention.layers)), "the first reads the embeddings"),
            ("Heads", str(num_heads), f"in each layer, of size {head_size}"),
        ],
    )


def _to_base64(layers: list[Tensor]) -> str:
    """Encode [layers, N, T, H] as base64 of little-endian float32."""
    array = torch.stack(layers).float().numpy().astype("<f4")
    return base64.b64encode(array.tobytes()).decode()
