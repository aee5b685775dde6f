"""Take the documentation's screenshots of the explorer from a running server.

cloze serve -m mini=RUN -m sentences=DIR -m squad=RUN -m names=RUN -m reviews=RUN \
    -m authors=RUN -m epoch1=RUN --evaluation answers.jsonl
python docs/images/take_explorer.py http://127.0.0.1:8080 [NAME ...]
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

HERE = Path(__file__).parent
WIDTH = 1040
PAIR = "text=The+man+went+to+the+store.&pair=He+bought+a+gallon+of+milk."
PICTURES = {
    # name: (view, color scheme, element)
    "fill": ("fill", "light", "body"),
    "map": ("map", "light", "body"),
    "layers": ("map?open=token&token=12&box=2.context", "light", ".card >> nth=1"),
    "input": (f"map?{PAIR}&open=token&token=1&box=input.token", "light", ".card >> nth=1"),
    "attention": (f"map?{PAIR}&open=head&layer=2&head=1&from=3", "light", ".card >> nth=2"),
    "pair": (
        f"map?{PAIR}&open=head&layer=2&head=1&between=ab&nospecial=1&heads=1.1-1.2",
        "dark",
        ".card >> nth=2",
    ),
    "steps": (f"map?{PAIR}&open=head&layer=2&head=1&from=3", "dark", ".card >> nth=3"),
    "senses": ("pairs", "light", ".part >> nth=1"),
    "answers": ("answers", "dark", "body"),
    "why": ("why?model=reviews", "light", "body"),
    "errors": (
        "errors?model=authors&second=epoch1&gold=Conrad&answer=Doyle&show=all&row=31",
        "light",
        "body",
    ),
}


def take(page: Page, address: str, name: str) -> None:
    """Take one screenshot."""
    view, color_scheme, part = PICTURES[name]
    page.emulate_media(color_scheme=color_scheme, reduced_motion="reduce")
    page.goto(f"{address}/#{view}")
    page.reload()
    page.wait_for_timeout(1500)
    if view == "fill":
        page.get_by_label("Also mask the words after").check()
        page.wait_for_selector(".remark")
    if name == "senses":
        page.get_by_label("Model for: One word").select_option("sentences")
    expect(page.locator("[aria-busy]")).to_have_count(0, timeout=20_000)
    expect(page.get_by_text(" answered.")).to_have_count(0, timeout=20_000)  # by the second model, of Errors
    page.wait_for_timeout(300)
    screenshot = Image.open(io.BytesIO(page.locator(part).screenshot()))
    # 256 colors look the same in a third of the bytes
    palette_image = screenshot.convert("RGB").quantize(
        256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE
    )
    palette_image.save(HERE / f"explorer-{name}.png", optimize=True)


def main(address: str, *names: str) -> None:
    """Take the screenshots of these names, or all."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 700})
        for name in names or PICTURES:
            take(page, address, name)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
