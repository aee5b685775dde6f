"""`cloze corpus merge`: merge the parts of a job array into a data set."""

from pathlib import Path
from typing import Annotated

from cloze.cli import options
from cloze.cli.corpus import print_summary, print_warnings


def run(
    output: Annotated[Path, options.Flag(metavar="OUTPUT")],
    /,
    *,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Merge the parts that the tasks of a job array wrote into a data set.

    Args:
        output: The --output of the tasks.
    """
    from cloze.data.build import merge_array_tasks

    summary = merge_array_tasks(output, overwrite=overwrite, progress=flags.progress)
    print_warnings(output, flags)
    print_summary(output, summary, flags)
