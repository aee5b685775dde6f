"""A browser for the pages that cloze writes."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from pages import serious_violations


@pytest.fixture
def browser_page() -> Iterator[Any]:
    """A page in Chromium; in the end, no script has failed, no other host was asked, and axe-core finds nothing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs chromium")
    failures, requests = [], []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda said: failures.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: requests.append(request.url))
        yield page
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert serious_violations(page) == [], scheme
        browser.close()
    assert failures == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
