"""The files of / and /docs, compressed and with ETags; the file of an evaluation, and windows of texts."""

import gzip
import re
from collections.abc import Iterator, Mapping

import pytest
from clients import Client, client_of, listening

from cloze.explorer.text_window import max_window_tokens, text_window
from cloze.serving.app import DOCS_PAGE, PAGE, create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel
from pages import chromium

KEY = "0123456789abcdef-secret"
PATHS = {
    "/": PAGE / "index.html",
    "/page/main.js": PAGE / "main.js",
    "/page/style.css": PAGE / "style.css",
    "/docs": DOCS_PAGE / "index.html",
    "/docs/docs.js": DOCS_PAGE / "docs.js",
}


@pytest.fixture(scope="module")
def locked(models: Mapping[str, ServedModel]) -> Iterator[Client]:
    with client_of({"bert": models["bert"]}, api_keys=lambda: {KEY}) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_files_are_compressed_and_not_sent_again(locked, path):
    content = PATHS[path].read_bytes()
    plain = locked.get(path, headers={"Accept-Encoding": "identity"})
    assert (plain.status_code, plain.content) == (200, content)
    assert "content-encoding" not in plain.headers
    assert plain.headers["x-content-type-options"] == "nosniff"
    assert plain.headers["cache-control"] == "no-cache"
    media_type = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}[PATHS[path].suffix]
    assert plain.headers["content-type"] == f"{media_type}; charset=utf-8"
    with locked.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as response:
        raw = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(raw) == content
    assert len(raw) < len(content)
    etag = plain.headers["etag"]
    for sent, status in ((etag, 304), (f'"other", {etag}', 304), ("*", 304), ('"other"', 200)):
        again = locked.get(path, headers={"If-None-Match": sent})
        assert (again.status_code, again.headers["etag"], bool(again.content)) == (
            status,
            etag,
            status == 200,
        )
    assert etag not in {locked.get(other).headers["etag"] for other in PATHS if other != path}


def test_head_has_the_headers_of_get_and_no_body(models):
    httpx = pytest.importorskip("httpx")
    with listening(create_app({"bert": models["bert"]}, Limits())) as address:
        for path in (*PATHS, "/docs/", "/health", "/info", "/metrics", "/v1/models", "/openapi.json"):
            head, get = httpx.head(f"{address}{path}"), httpx.get(f"{address}{path}")
            assert (head.status_code, head.content) == (200, b"")
            for name in ("content-type", "etag", "content-security-policy"):
                assert head.headers.get(name) == get.headers.get(name)
        assert httpx.head(f"{address}/embed").status_code == 405


def test_docs_need_no_other_host():
    for path in DOCS_PAGE.iterdir():
        text = path.read_text("utf-8")
        assert not re.search(r"https?://|//\w+\.\w+/|innerHTML|eval\(", text), path.name
        assert path.stat().st_size < 250_000


def test_only_the_files_of_the_page_are_served(client):
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    for path in PAGE.iterdir():
        answer = client.get(f"/page/{path.name}")
        assert answer.content == path.read_bytes()
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for name in ("../explorer.py", "..%2Fexplorer.py", "explorer.py", "%2Fetc%2Fpasswd", ""):
        assert client.get(f"/page/{name}").status_code == 404


def test_the_file_of_an_evaluation_is_read_again_for_each_request(client, models, tmp_path):
    assert client.get("/explore/evaluation").json() == {"name": None, "content": None}
    file = tmp_path / "answers.csv"
    with client_of(models, evaluation=file, api_keys=lambda: {"sesame"}) as other:
        assert other.get("/explore/evaluation").status_code == 401
        for content in ('"text","gold","label"\n', '"text","gold","label"\n"ä","a","b"\n'):
            file.write_text(content, "utf-8")
            answer = other.get("/explore/evaluation", headers={"Authorization": "Bearer sesame"})
            assert answer.json() == {"name": "answers.csv", "content": content}


def test_a_window_cuts_no_word_and_is_limited_by_attention_weights(models):
    tokenizer, encoder = models["bert"].tokenizer, models["bert"].model.encoder
    for start in range(7):
        window = text_window(tokenizer, "a bcdef a", start=start, max_tokens=8)
        assert len(tokenizer.encode(window.text)) == window.count + 2 <= 8
        assert window.text in ("a bcdef", "bcdef a"), start
    assert text_window(tokenizer, "bcdef", max_tokens=5).text == "bcd"  # but one that is longer than a window
    assert max_window_tokens(encoder, max_weights=600) == 10  # of 6 heads


@pytest.mark.slow
def test_docs_describe_and_send_every_route(models):
    app = create_app(models, Limits(), api_keys=lambda: {KEY})
    with chromium() as browser, listening(app) as address:
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{address}/docs")
        page.get_by_text("Authorization: Bearer KEY").wait_for()
        page.get_by_label("Key").fill(KEY)
        page.get_by_label("Key").press("Enter")
        page.wait_for_selector("details")
        assert page.locator("details").count() == len(app.openapi()["paths"])
        route = page.locator("details", has_text="POST /tokenize")
        route.locator("summary").click()
        route.get_by_role("button").click()
        route.get_by_text("200 OK").wait_for()
        assert '"text":"[CLS]"' in route.locator("pre").inner_text()
        assert route.get_by_text("Whether the response includes [CLS] and [SEP].").is_visible()
    assert faults == []
