"""`cloze corpus merge`: merge the parts of a job array into a data set."""

from typing import TYPE_CHECKING, Any

from cloze.api.datasets import merge_datasets
from cloze.cli import corpus
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.data.build.parts import BuildSummary


@verb(merge_datasets)
def show(summary: "BuildSummary", *, output: object) -> tuple[Any, str] | None:
    """Return the counts of the data set."""
    return corpus.show.show(summary, output=output)
