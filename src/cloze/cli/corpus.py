"""`cloze corpus`: tokenize text into a data set on disk."""

from typing import TYPE_CHECKING, Any

from cloze.api.datasets import build_dataset
from cloze.cli.parser import verb
from cloze.cli.previews import PREVIEWS
from cloze.tables import format_count

if TYPE_CHECKING:
    from cloze.data.build.parts import BuildSummary


@verb(build_dataset, PREVIEWS)
def show(
    summary: "BuildSummary | None", *, output: object, task: str | None = None
) -> tuple[dict[str, Any], str]:
    """Return the counts of a new data set, or that a task of a job array has finished."""
    if summary is None:
        return {"directory": str(output), "task": task}, f"finished task {task} of {output}"
    names = ("document", "sentence", "token", "unknown_token")
    text = ", ".join(format_count(getattr(summary, f"{name}s"), name.replace("_", " ")) for name in names)
    return {"directory": str(output), **summary.as_dict()}, f"wrote {output}: {text}"
