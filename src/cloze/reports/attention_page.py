"""HTML page of `cloze attention`: queries, keys, scores and attention weights of every head."""

import base64
from collections.abc import Sequence

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.reports.page import render_page

_MAX_MEGABYTES = 32


def attention_page(
    tokens: Sequence[str],
    token_type_ids: Sequence[int],
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    *,
    model: str,
) -> str:
    """Return an HTML page without external resources; its script computes the weights from queries and keys.

    Args:
        tokens: tokens of the text, [T].
        token_type_ids: their segments.
        queries: queries of each layer, [N, T, H].
        keys: keys of each layer, [N, T, H].
        model: name or path of the model.

    Raises:
        InputError: the page would be too large for a browser.
    """
    num_heads, num_tokens, head_size = queries[0].shape
    num_floats = 2 * len(queries) * num_heads * num_tokens * head_size
    megabytes = num_floats * 4 * 4 / 3 / 1e6  # base64 writes 3 of the 4 bytes of a float as 4 characters
    if megabytes > _MAX_MEGABYTES:
        what = f"{num_tokens} tokens make a page of {megabytes:.0f} MB, over {_MAX_MEGABYTES}"
        raise InputError(what, where="text", remedy="Give a shorter text")
    data = {
        "tokens": tokens,
        "segments": token_type_ids,
        "layers": len(queries),
        "heads": num_heads,
        "headSize": head_size,
        "query": _to_base64(queries),
        "key": _to_base64(keys),
    }
    return render_page(
        "attention",
        data,
        name=" ".join(token for token in tokens if token not in ("[CLS]", "[SEP]"))[:80] or "[CLS]",
        kind="Attention",
        extent=model,
        tiles=[
            ("Tokens", str(num_tokens), "with [CLS] and [SEP]"),
            ("Layers", str(len(queries)), "the first reads the embeddings"),
            ("Heads", str(num_heads), f"in each layer, of size {head_size}"),
        ],
    )


def _to_base64(layers: Sequence[Tensor]) -> str:
    """Encode [layers, N, T, H] as base64 of little-endian float32."""
    array = torch.stack(list(layers)).float().numpy().astype("<f4")
    return base64.b64encode(array.tobytes()).decode()
