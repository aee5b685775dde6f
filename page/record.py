"""Record the answers to the examples of the explorer page, which it shows where no model is served that answers.

    cloze serve -m cloze-mini -m cloze-mini-authors=RUN -m cloze-mini-conll2003=RUN -m cloze-mini-squad=RUN
    python page/record.py http://127.0.0.1:8080 [VIEW ...]

Each run is `cloze finetune` of cloze-mini: `classification` on examples/authors.csv, `tagging` on CoNLL-2003, and
`squad_v1` on 11,111 questions of SQuAD 1.1. The names are shown on the page. Run `make page` before, so that the
examples are those of the sources, and afterwards; a test compares the answers of cloze-mini.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

STATIC = Path(__file__).with_name("static")
LARGE = ("map",)
"""Views with large answers: only their first example is recorded."""
SETTINGS = {
    "fill": ("?left=1",),
    "map": ("?open=head&layer=2&head=4", "?open=token&token=12&box=input.token"),
}
"""Addresses of a view with settings that its texts ask for."""


def record(page: Page, address: str, view: str) -> list[dict[str, Any]]:
    """Return the requests of a view and their answers, for all examples."""
    asked: list[tuple[str, str | None]] = []
    page.on("request", lambda request: asked.append((request.url, request.post_data)))
    for query in ("", *SETTINGS.get(view, ())):
        page.goto("about:blank")
        page.goto(f"{address}/#{view}{query}")
        page.locator(".part-body").first.wait_for()
        wait(page)
        examples = page.get_by_role("group", name="Examples").locator("button")
        for number in range(0 if view in LARGE else examples.count()):
            examples.nth(number).click()
            wait(page)
    exchanges = []
    for url, data in dict.fromkeys(asked):
        if data is not None:
            answer = page.request.post(url, data=data, headers={"Content-Type": "application/json"})
            path = url.removeprefix(f"{address}/")
            exchanges.append({"path": path, "body": json.loads(data), "answer": answer.json()})
    return exchanges


def wait(page: Page) -> None:
    """Wait until everything is answered."""
    page.wait_for_timeout(500)
    page.wait_for_function("() => !document.querySelector('[aria-busy]')")


def main(address: str, chosen: list[str]) -> None:
    """Write the answers of some views, or of all."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        models = {model["name"]: model for model in page.request.get(f"{address}/info").json()["models"]}
        tabs = page.get_by_role("tab")
        tabs.first.wait_for()
        views = [tab.get_attribute("id").removeprefix("tab-") for tab in tabs.all()]
        views.remove("lesson")  # which is about the served models alone
        page.close()
        for view in chosen or views:
            page = browser.new_page()
            exchanges = record(page, address, view)
            page.close()
            recordings: dict[str, dict[str, Any]] = {}
            for exchange in exchanges:
                model = models[exchange["body"].pop("model")]
                recorded = recordings.setdefault(model["name"], {"model": model, "exchanges": []})
                recorded["exchanges"].append(exchange)
            if not recordings:  # the view Errors asks about texts of a file
                continue
            text = json.dumps(list(recordings.values()), ensure_ascii=False, separators=(",", ":"))
            (STATIC / f"recorded-{view}.json").write_text(f"{text}\n", "utf-8")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
