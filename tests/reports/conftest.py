"""A browser for the pages that cloze writes."""

from collections.abc import Iterator
from typing import Any

import pytest

from pages import chromium, serious_violations


@pytest.fixture
def browser_page() -> Iterator[Any]:
    """A page in Chromium; in the end, no script has failed, no other host was asked, and axe-core finds nothing."""
    failures, requests = [], []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda said: failures.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: requests.append(request.url))
        yield page
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert serious_violations(page) == [], scheme
    assert failures == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
