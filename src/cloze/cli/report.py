"""`cloze report RUN`: write the curves and settings of a run as HTML."""

from pathlib import Path

from cloze.api.tools import report
from cloze.cli.parser import verb


@verb(report)
def show(path: Path) -> tuple[dict[str, str], str]:
    """Return the path of the page."""
    return {"report": str(path)}, f"wrote {path}"
