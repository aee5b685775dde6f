"""The page of `cloze attention`: queries, keys, scores and softmax of every head, to be looked at with no network."""

import base64
import json
from pathlib import Path

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.evidence.page import page
from cloze.inference.attention_map import AttentionMap

_SCRIPT = Path(__file__).with_name("attention.js")
_MOST_MEGABYTES = 32


def attention_page(found: AttentionMap, *, model: str) -> str:
    """Return the page, one HTML file that needs no other: it holds every query and key, and multiplies them itself.

    Args:
        found: of a text.
        model: where it stands.

    Raises:
        InputError: the page would be larger than a browser likes.
    """
    num_heads, num_tokens, head_size = found.layers[0].query.shape
    numbers = 2 * len(found.layers) * num_heads * num_tokens * head_size
    megabytes = numbers * 4 * 4 / 3 / 1e6  # four bytes each, three of which are four characters
    if megabytes > _MOST_MEGABYTES:
        what = f"{num_tokens} tokens make a page of {megabytes:.0f} MB, over {_MOST_MEGABYTES}"
        raise InputError(what, where="text", remedy="Give a shorter text")
    data = {
        "tokens": found.tokens,
        "segments": found.token_type_ids,
        "layers": len(found.layers),
        "heads": num_heads,
        "headSize": head_size,
        "query": _packed([layer.query for layer in found.layers]),
        "key": _packed([layer.key for layer in found.layers]),
    }
    as_json = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")  # which could end the element
    return page(
        name=" ".join(token for token in found.tokens if token not in ("[CLS]", "[SEP]"))[:80] or "[CLS]",
        kind="Where it looks",
        extent=model,
        tiles=[
            ("Pieces", str(num_tokens), "[CLS] and [SEP] included"),
            ("Layers", str(len(found.layers)), "the first reads the embeddings"),
            ("Heads", str(num_heads), f"a layer, each {head_size} wide"),
        ],
        body=_BODY,
        footer="softmax(q·k / √head size), Vaswani et al. 2017, 3.2.1. Written by cloze.",
        script=f'<script type="application/json" id="data">{as_json}</script>\n'
        f"<script>\n{_SCRIPT.read_text('utf-8')}</script>\n",
    )


def _packed(layers: list[Tensor]) -> str:
    """Return [layers, N, T, H] as base64 of little-endian float32."""
    array = torch.stack(layers).float().numpy().astype("<f4")
    return base64.b64encode(array.tobytes()).decode()


_BODY = """<noscript><p class="warning">This page needs JavaScript, which it brings itself.</p></noscript>
<h2 id="heads-title">Layer and head</h2>
<p class="note">Every head at once: rows look, columns are looked at. Choose one.</p>
<div class="card scroll"><div id="heads" role="group" aria-labelledby="heads-title"></div></div>
<h2 id="pieces-title">Where a piece looks</h2>
<p class="note">Point at a piece, or reach it with Tab: the stronger a colour, the more a piece is looked at.</p>
<div class="card"><div id="pieces" role="group" aria-labelledby="pieces-title"></div></div>
<h2 id="matrix-title">All pieces</h2>
<p class="note">Choose a cell, or move with the arrow keys, to see how its number comes about.</p>
<div class="attention">
<div class="card scroll"><canvas id="matrix" tabindex="0" role="img" aria-labelledby="matrix-title"
 aria-describedby="sum"></canvas></div>
<div class="card" id="detail"><p id="sum" aria-live="polite"></p>
<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><caption id="row-caption"></caption>
<thead><tr><th scope="col">looked at</th><th scope="col">q·k</th><th scope="col">÷ √H</th><th scope="col">exp</th>
<th scope="col">softmax</th></tr></thead><tbody id="row"></tbody></table>
<table><caption id="parts-caption"></caption><thead><tr><th scope="col">dimension</th><th scope="col">q</th>
<th scope="col">k</th><th scope="col">q·k</th></tr></thead><tbody id="parts"></tbody></table></div></div>
</div>
"""
