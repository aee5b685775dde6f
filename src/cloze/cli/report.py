"""`cloze report RUN`: write the curves and settings of a run as HTML."""

from pathlib import Path
from typing import Annotated

from cloze.cli import options


def run(
    directory: Annotated[Path, options.Flag(metavar="RUN")],
    /,
    *,
    output: options.OptionalOutput = None,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Write the curves, metrics, settings and machine of a run as one HTML file.

    Args:
        directory: Run of cloze pretrain or cloze finetune, finished or not.
        output: HTML file (default: report.html in the run, always replaced).
    """
    from cloze.reports.run_report import write_report

    path = write_report(directory, output=output, overwrite=overwrite)
    flags.print({"report": str(path)}, f"wrote {path}")
