"""`cloze report RUN`: the curves and tables of a run in one HTML file."""

from pathlib import Path
from typing import Annotated

import tyro

from cloze.cli.common import Flags, OptionalPath


def run(
    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")],
    /,
    *,
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Write the curves, measures, settings and machine of a run into one HTML file.

    Args:
        directory: a run of `cloze pretrain` or `cloze finetune`, finished or not.
        output: the file; report.html in the run, where not given.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.evidence.report import write_report

    path = write_report(directory, output=output, overwrite=overwrite)
    flags.print({"report": str(path)}, f"wrote {path}")
