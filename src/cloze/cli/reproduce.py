"""`cloze reproduce TABLE`: a result table of the paper, published rows beside yours."""

from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Models, OptionalOutput, OptionalPath


def run(
    table: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TABLE")],
    /,
    *,
    model: Annotated[Models, tyro.conf.arg(help_behavior_hint="")] = (),
    data: Annotated[OptionalPath, tyro.conf.arg(aliases=["-d"])] = None,
    output: OptionalOutput = None,
    ensemble: bool = False,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Print a result table of the BERT paper with every published row, and your models' scores beside them.

    Args:
        table: table1 (GLUE), table2 (SQuAD 1.1), table3 (SQuAD 2.0) or table4 (SWAG).
        model: a checkpoint or run, fine-tuned for a task of the table; may be given several times. Without one the
            published rows are printed.
        data: for table1 the directory of GLUE's data, a folder a task; for the others the one that holds the dev file.
        output: write a record there, too: a directory with the table, the settings and the environment.
        ensemble: let several models of one task answer as one, by the mean of their logits.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.artifacts import refuse_existing
    from cloze.evidence.reproduce import reproduce, write_record

    if output is not None:
        refuse_existing(output, overwrite=overwrite)
    found = reproduce(table, model, data, ensemble=ensemble, device=device, progress=flags.progress)
    if output is not None:
        write_record(found, output, device=device, overwrite=overwrite)
    flags.print(found.as_dict(), found.as_text())
