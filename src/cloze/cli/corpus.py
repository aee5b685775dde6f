"""`cloze corpus`: tokenize text into a data set on disk."""

from typing import TYPE_CHECKING, Any

from cloze.api.datasets import build_dataset
from cloze.cli.parser import verb
from cloze.cli.previews import PREVIEWS
from cloze.tables import format_count

if TYPE_CHECKING:
    from cloze.data.build.parts import BuildSummary


@verb(build_dataset, PREVIEWS)
def show(summary: "BuildSummary", *, output: object) -> tuple[dict[str, Any], str]:
    """Return the counts of a new data set."""
    names = ("document", "sentence", "token", "unknown_token")
    text = ", ".join(format_count(getattr(summary, f"{name}s"), name.replace("_", " ")) for name in names)
    return {"directory": str(output), **summary.as_dict()}, f"wrote {output}: {text}"
