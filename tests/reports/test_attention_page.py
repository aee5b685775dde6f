"""The attention page has queries and keys, is escaped, loads nothing, and its script computes the weights."""

import base64
import re

import numpy as np
import pytest
import torch

from cloze.errors import InputError
from cloze.explorer.encoder_internals import AttentionMap, LayerAttention
from pages import page_data, percent, share_of

TOKENS = ("[CLS]", "</script><b>", "bank", "[SEP]", "&amp;", "[SEP]")


def attention(*, num_layers: int = 2, num_tokens: int = 6) -> AttentionMap:
    generator = torch.Generator().manual_seed(3)
    draw = [torch.randn(3, num_tokens, 5, generator=generator) for _ in range(3 * num_layers)]
    layers = tuple(LayerAttention(*draw[3 * i : 3 * i + 3]) for i in range(num_layers))
    tokens = (TOKENS * (num_tokens // 6))[:num_tokens]
    return AttentionMap(tokens, (0,) * num_tokens, layers)


def test_queries_and_keys_on_the_page_give_the_weights():
    attention_map = attention()
    html = attention_map.page(model="some/<model>")
    data = page_data(html)
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


def test_the_page_loads_nothing_and_escapes_text():
    html = attention().page(model="some/<model>")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in html
    markup = re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)=|url\(|import", markup)
    assert "<b>" not in html
    assert "<model>" not in html
    assert html.count("</script>") == 2
    assert str(attention()._repr_html_()).startswith(
        '<iframe title="Attention" sandbox="allow-scripts" style='
    )


def test_a_page_that_is_too_large_is_refused():
    large = attention(num_tokens=60_000, num_layers=4)
    with pytest.raises(InputError, match=r"60000 tokens make a page of 38 MB, over 32. Give a shorter text"):
        large.page()
    assert large._repr_html_() is None
    assert repr(large) == "AttentionMap(60000 tokens, 4 layers, 3 heads)"


@pytest.mark.slow
def test_a_notebook_shows_the_page_in_a_frame(browser_page):
    from playwright.sync_api import expect

    notebook = '<html lang="en"><title>A notebook</title><main><h1>Out[1]</h1>{}</main>'
    browser_page.set_content(notebook.format(attention()._repr_html_()))
    frame = browser_page.frame_locator("iframe")
    expect(frame.locator(".piece").nth(2)).to_contain_text("bank")
    expect(frame.get_by_role("button", name="layer 2, head 3")).to_be_visible()


@pytest.mark.slow
def test_the_page_shows_these_numbers_in_a_browser(browser_page, tmp_path):
    from playwright.sync_api import expect

    attention_map = attention()
    (tmp_path / "attention.html").write_text(attention_map.page(model="m"), "utf-8")
    browser_page.goto((tmp_path / "attention.html").as_uri())
    browser_page.get_by_role("button", name="layer 2, head 3").click()
    for token in (0, 4):
        browser_page.locator(".piece").nth(token).click()
        weights = attention_map.layers[1].weights[2, token].tolist()
        best = max(range(6), key=lambda to: weights[to])
        sentence = f"{TOKENS[token]} attends to {TOKENS[best]} with weight {percent(weights[best])}."
        expect(browser_page.locator(".remark")).to_contain_text(sentence)
        shown = list(map(share_of, browser_page.locator(".piece small").all_text_contents()))
        np.testing.assert_allclose(shown, weights, atol=0.00051)
    assert browser_page.locator(".axis-number").all_text_contents() == ["2", "1", "1", "2", "3"]  # layers up
    width = browser_page.locator("#app").evaluate("app => app.getBoundingClientRect().width")
    assert width > 1200
