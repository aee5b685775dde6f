"""HTML page of `cloze attention`: queries, keys, scores and attention weights of every head."""

import base64
import json
from pathlib import Path

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.encoder_internals import AttentionMap
from cloze.reports.page import render_page

_SCRIPT = Path(__file__).with_name("attention.js")
_MAX_MEGABYTES = 32


def attention_page(attention: AttentionMap, *, model: str) -> str:
    """Return one HTML file without external resources; its script computes the weights from queries and keys.

    Args:
        attention: queries and keys of a text.
        model: name or path of the model.

    Raises:
        InputError: the page would be too large for a browser.
    """
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
    as_json = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # no text may end the element
    return render_page(
        name=" ".join(token for token in attention.tokens if token not in ("[CLS]", "[SEP]"))[:80] or "[CLS]",
        kind="Attention",
        extent=model,
        tiles=[
            ("Tokens", str(num_tokens), "with [CLS] and [SEP]"),
            ("Layers", str(len(attention.layers)), "the first reads the embeddings"),
            ("Heads", str(num_heads), f"in each layer, of size {head_size}"),
        ],
        body=_BODY,
        footer="softmax(q·k / √head size), Vaswani et al. 2017, section 3.2.1. Written by cloze.",
        script=f'<script type="application/json" id="data">{as_json}</script>\n'
        f"<script>\n{_SCRIPT.read_text('utf-8')}</script>\n",
    )


def _to_base64(layers: list[Tensor]) -> str:
    """Encode [layers, N, T, H] as base64 of little-endian float32."""
    array = torch.stack(layers).float().numpy().astype("<f4")
    return base64.b64encode(array.tobytes()).decode()


_BODY = """<noscript><p class="warning">This page needs JavaScript; its script is in the file.</p></noscript>
<h2 id="heads-title">Layer and head</h2>
<p class="note">All heads. Rows are queries, columns are keys. Select a head.</p>
<div class="card scroll"><div id="heads" role="group" aria-labelledby="heads-title"></div></div>
<h2 id="tokens-title">Attention of a token</h2>
<p class="note">Point at a token or select it with Tab: the stronger the color of another, the larger its weight.</p>
<div class="card"><div id="tokens" role="group" aria-labelledby="tokens-title"></div></div>
<h2 id="matrix-title">All tokens</h2>
<p class="note">Select a cell, or move with the arrow keys, to see how its weight is computed.</p>
<div class="attention">
<div class="card scroll"><canvas id="matrix" tabindex="0" role="img" aria-labelledby="matrix-title"
 aria-describedby="sum"></canvas></div>
<div class="card" id="detail"><p id="sum" aria-live="polite"></p>
<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><caption id="row-caption"></caption>
<thead><tr><th scope="col">key</th><th scope="col">q·k</th><th scope="col">÷ √H</th><th scope="col">exp</th>
<th scope="col">softmax</th></tr></thead><tbody id="row"></tbody></table>
<table><caption id="parts-caption"></caption><thead><tr><th scope="col">dimension</th><th scope="col">q</th>
<th scope="col">k</th><th scope="col">q·k</th></tr></thead><tbody id="parts"></tbody></table></div></div>
</div>
"""
