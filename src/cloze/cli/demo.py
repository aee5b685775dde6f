"""`cloze demo`: run the whole pipeline on bundled novels."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.cli.parser import verb
from cloze.demo.run import run_demo

if TYPE_CHECKING:
    from cloze.demo.pipeline import DemoResult


@verb(run_demo)
def show(result: "DemoResult") -> tuple[dict[str, Any], str]:
    """Return the answers and scores."""
    from cloze.demo.pipeline import format_result

    return asdict(result) | {"reports": [str(path) for path in result.reports]}, format_result(result)
