"""`cloze glue-submission`: the predictions of fine-tuned models as GLUE's server takes them."""

from pathlib import Path
from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Models, Output


def run(
    *,
    model: Models = (),
    data: Annotated[Path, tyro.conf.arg(aliases=["-d"], help_behavior_hint="(required)")],
    output: Output,
    fill_majority: bool = False,
    ensemble: bool = False,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Write the eleven files that GLUE's server scores into a zip, rows counted.

    Args:
        model: a checkpoint or run, fine-tuned for a task of GLUE's; may be given several times.
        data: the directory of GLUE's data, a folder a task: CoLA, SST-2, …, diagnostic.
        output: the zip.
        fill_majority: give a task without a model the most frequent label of its training data in each row, as
            the paper did for WNLI.
        ensemble: let several models of one task answer as one, by the mean of their logits.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.artifacts import refuse_existing
    from cloze.inference.glue_submission import SERVER_FILES, write_submission

    refuse_existing(output, overwrite=overwrite, directory=False)
    sources = write_submission(
        model,
        data,
        output,
        fill_majority=fill_majority,
        ensemble=ensemble,
        device=device,
        progress=flags.progress,
    )
    rows = {file.name: file.rows for file in SERVER_FILES}
    lines = [f"  {name:<11} {rows[name]:>7,} rows  {source}" for name, source in sources.items()]
    files = {name: {"rows": rows[name], "from": source} for name, source in sources.items()}
    flags.print({"submission": str(output), "files": files}, "\n".join([f"wrote {output}", *lines]))
