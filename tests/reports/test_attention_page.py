"""The attention page has queries and keys, is escaped, loads nothing, and its script computes the weights."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze.errors import InputError
from cloze.inference.encoder_internals import AttentionMap, LayerAttention
from cloze.reports.attention_page import attention_page

TOKENS = ("[CLS]", "</script><b>", "bank", "[SEP]", "&amp;", "[SEP]")


def attention(*, num_layers: int = 2, num_tokens: int = 6) -> AttentionMap:
    generator = torch.Generator().manual_seed(3)
    draw = [torch.randn(3, num_tokens, 5, generator=generator) for _ in range(3 * num_layers)]
    layers = tuple(LayerAttention(*draw[3 * i : 3 * i + 3]) for i in range(num_layers))
    tokens = (TOKENS * (num_tokens // 6))[:num_tokens]
    return AttentionMap(tokens, (0,) * num_tokens, layers)


def test_queries_and_keys_on_the_page_give_the_weights() -> None:
    attention_map = attention()
    html = attention_page(attention_map, model="some/<model>")
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    data = json.loads(text)
    assert tuple(data["tokens"]) == TOKENS
    shape = (data["layers"], data["heads"], len(TOKENS), data["headSize"])
    query, key = (
        np.frombuffer(base64.b64decode(data[name]), "<f4").reshape(shape) for name in ("query", "key")
    )
    scores = query @ key.swapaxes(2, 3) / np.sqrt(data["headSize"])
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        weights, torch.stack([layer.weights for layer in attention_map.layers]), atol=1e-6
    )


def test_the_page_loads_nothing_and_escapes_text() -> None:
    html = attention_page(attention(), model="some/<model>")
    assert "http" not in html
    assert not re.search(r"\b(src|href|url\(|import\s*\()", html)
    assert "<b>" not in html
    assert "<model>" not in html
    assert html.count("</script>") == 2


def test_a_page_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match=r"60000 tokens make a page of 38 MB, over 32. Give a shorter text"):
        attention_page(attention(num_tokens=60_000, num_layers=4), model="m")


def test_the_script_computes_the_same_numbers(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    attention_map = attention()
    html = attention_page(attention_map, model="m")
    (data,) = re.findall(r'id="data">(.*?)</script>', html)
    script = html.rpartition("<script>")[2].partition("// Thumbnails")[0]
    (tmp_path / "page.js").write_text(
        f"const document = {{getElementById: () => ({{textContent: {json.dumps(data)}}})}};\n"
        + script.replace('"use strict";', "")
        + "console.log(JSON.stringify(Array.from({length: 6}, (_, from) => rowOf(1, 2, from).weights)));\n"
    )
    printed = subprocess.run([node, tmp_path / "page.js"], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(printed.stdout), attention_map.layers[1].weights[2], atol=1e-6)
