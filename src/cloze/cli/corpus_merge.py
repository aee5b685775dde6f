"""`cloze corpus merge`: the parts of a job array to a data set."""

from pathlib import Path
from typing import Annotated

import tyro

from cloze.cli.common import Flags
from cloze.cli.corpus import print_summary, warn_of_dataset


def run(
    output: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUTPUT")],
    /,
    *,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Make a data set of what the tasks of a job array have finished, once nothing of it is missing.

    Args:
        output: what the tasks were given as --output.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.corpus.build import merge_tasks

    summary = merge_tasks(output, overwrite=overwrite, progress=flags.progress)
    warn_of_dataset(output, flags)
    print_summary(output, summary, flags)
