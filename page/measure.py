"""Measure the explorer in Chromium: time to the first view, and frames of the walk through the layers.

cloze serve -m cloze-mini
python page/measure.py http://127.0.0.1:8080
"""

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

TEXT = (
    "She was [MASK] in London in 1850 and studied at Cambridge, where she wrote a book on the history of "
    "the city and of the people who lived there."
)
REPEATS = 7
WALK_SECONDS = 10
FRAME_MS = 1000 / 60
TASK, FRAME = "ThreadControllerImpl::RunTask", "FireAnimationFrame"


PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
ANSWERED = "() => document.querySelector('.part-body') && !document.querySelector('[aria-busy], .skeleton')"
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


def measure_first_view(browser: Browser, address: str) -> tuple[list[float], list[float]]:
    """Return milliseconds from the start of the navigation, in a new page each time.

    Returns:
        Until something is painted, and until the answer is.
    """
    painted, answered = [], []
    for _ in range(REPEATS):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        page.wait_for_function(ANSWERED)
        answered.append(page.evaluate(PAINTED))
        painted.append(page.evaluate(FIRST_PAINT))
        page.close()
    return painted, answered


def trace_walk(browser: Browser, address: str) -> list[dict[str, Any]]:
    """Return the events of the browser's trace while the walk plays."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/#layers?text={quote(TEXT)}")
    page.wait_for_selector(".bars.lens")
    page.wait_for_timeout(500)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        categories = [
            "toplevel",
            "devtools.timeline",
            "disabled-by-default-devtools.timeline.frame",
            "benchmark",
        ]
        browser.start_tracing(page=page, path=path, categories=categories)
        page.get_by_role("button", name="Play").click()
        count_frames(page)
        browser.stop_tracing()
        events: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["traceEvents"]
    page.close()
    return events


def count_frames(page: Page) -> None:
    """Let the walk play, with a callback in every frame."""
    page.evaluate(
        """seconds => new Promise(done => {
            const end = performance.now() + 1000 * seconds;
            const frame = () => {
                performance.now() < end ? requestAnimationFrame(frame) : done();
            };
            requestAnimationFrame(frame);
        })""",
        WALK_SECONDS,
    )


def summarize(events: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return frames a second, and the milliseconds of processor time of the page's thread for each frame."""
    events = list(events)
    marks = [event for event in events if event["name"] == FRAME]
    times: list[float] = []
    for time in sorted(event["ts"] / 1000 for event in marks):
        if not times or time - times[-1] > FRAME_MS / 4:  # one frame may have several callbacks
            times.append(time)
    thread = (marks[0]["pid"], marks[0]["tid"])
    tasks = sorted(
        (event["ts"] / 1000, event.get("tdur", event["dur"]) / 1000)
        for event in events
        if event.get("ph") == "X" and event["name"] == TASK and (event["pid"], event["tid"]) == thread
    )
    work = [0.0] * (len(times) - 1)
    place = 0
    for start, duration in tasks:
        while place < len(work) and times[place + 1] <= start:
            place += 1
        if place < len(work) and start >= times[0]:
            work[place] += duration
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return {
        "frames a second": 1000 * len(gaps) / (times[-1] - times[0]),
        "ms between frames, median": statistics.median(gaps),
        "processor ms a frame, mean": statistics.mean(work),
        "processor ms a frame, 99th percentile": sorted(work)[int(0.99 * len(work))],
        "frames with more work than 16.7 ms, %": 100 * sum(value > FRAME_MS for value in work) / len(work),
    }


def main(address: str) -> None:
    """Write what was measured."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        lines = []
        views = {"first view": address, "Layers": f"{address}/#layers?text={quote(TEXT)}"}
        for name, place in views.items():
            for what, times in zip(("painted", "answered"), measure_first_view(browser, place), strict=True):
                middle, spread = statistics.median(times), f"{min(times):.0f} to {max(times):.0f}"
                lines.append(f"{name} {what}, ms: median {middle:.0f}, {spread}")
        lines += [f"{name}: {value:.1f}" for name, value in summarize(trace_walk(browser, address)).items()]
        browser.close()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
