"""Take the picture of the confusion matrix from the report of a fine-tuning run.

cloze report authors
python docs/images/take_report.py authors/report.html
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(report: Path) -> None:
    """Write confusion-matrix.svg on a white ground, so that it can be read on a dark page, too."""
    figure = report.read_text("utf-8").split('<figcaption id="caption-confusion-matrix">')[1]
    svg = re.search(r"<svg.*?</svg>", figure, re.DOTALL)
    assert svg, "the report has no confusion matrix"
    text = re.sub(r' aria-labelledby="[^"]*"', "", svg[0])
    names = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
    text = text.replace("<svg ", f"<svg {names}", 1).replace(
        ">", '><rect width="100%" height="100%" fill="#ffffff"/>', 1
    )
    (HERE / "confusion-matrix.svg").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
