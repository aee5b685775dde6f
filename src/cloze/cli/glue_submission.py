"""`cloze glue-submission`: write the zip file that the GLUE server takes."""

from pathlib import Path
from typing import Annotated

from cloze.cli import options


def run(
    *,
    model: options.Models = (),
    data: Annotated[Path, options.Flag(aliases=["-d"])],
    output: options.Output,
    fill_majority: options.Switch = False,
    ensemble: options.Switch = False,
    device: options.Device = "auto",
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Write the eleven prediction files of the GLUE server into a zip file.

    Args:
        data: Directory of GLUE, with a folder per task: CoLA, SST-2, …, diagnostic.
        output: Zip file.
        fill_majority: Predict the majority label for tasks without a model, as the paper did for WNLI.
        ensemble: Average the logits of several models of one task.
    """
    from cloze.artifacts import check_output_path
    from cloze.inference.glue_submission import GLUE_FILES, write_submission

    check_output_path(output, overwrite=overwrite, directory=False)
    sources = write_submission(
        model,
        data,
        output,
        fill_majority=fill_majority,
        ensemble=ensemble,
        device=device,
        progress=flags.progress,
    )
    rows = {file.name: file.rows for file in GLUE_FILES}
    lines = [f"  {name:<11} {rows[name]:>7,} rows  {source}" for name, source in sources.items()]
    files = {name: {"rows": rows[name], "from": source} for name, source in sources.items()}
    flags.print({"submission": str(output), "files": files}, "\n".join([f"wrote {output}", *lines]))
