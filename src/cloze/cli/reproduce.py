"""`cloze reproduce TABLE`: a result table or an ablation of the paper, published rows beside yours."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cloze.cli.common import (
    Device,
    Flags,
    OptionalInteger,
    OptionalName,
    OptionalOutput,
    OptionalPath,
    Settings,
    TasksData,
    required,
    tasks_data_of,
)
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.evidence.ablations import AblationConfig


def run(
    table: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TABLE")],
    /,
    *,
    model: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(aliases=["-m"], metavar="PATH|SIZE", help_behavior_hint=""),
    ] = (),
    data: Annotated[OptionalPath, tyro.conf.arg(aliases=["-d"])] = None,
    output: OptionalOutput = None,
    tasks_data: TasksData = (),
    budget: Annotated[OptionalName, tyro.conf.arg(metavar="TIME")] = None,
    seeds: OptionalInteger = None,
    settings: Settings = (),
    dry_run: bool = False,
    ensemble: bool = False,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Print a result table of the BERT paper with every published row, and your models' scores beside them.

    An ablation is made from the text on: every variant is pre-trained and fine-tuned, over several seeds, and the
    record puts ours beside the paper's. How long that takes is said beforehand; stopped or killed, the same command
    goes on.

    Args:
        table: table1 (GLUE), table2 (SQuAD 1.1), table3 (SQuAD 2.0) or table4 (SWAG), or an ablation: table5
            (pre-training tasks), table6 (sizes), table7 (features), table8 (masking) or figure5 (steps).
        model: a checkpoint or run, fine-tuned for a task of the table; may be given several times. Of an ablation the
            size, or for table7 what is not to be pre-trained. Without one the published rows are printed.
        data: for table1 the directory of GLUE's data, a folder a task; for tables 2 to 4 the dev file, or its
            directory; for an ablation the data set that `cloze corpus` wrote.
        output: write a record there, too: a directory with the table, the settings and the environment. Of an ablation
            the directory of its runs and record (required).
        tasks_data: where the data of a task of an ablation are, as in mnli=DIRECTORY; may be given several times, and
            a task without data is left out.
        budget: of an ablation, time to pre-train the base once, as in 20m: it says the steps of all runs.
        seeds: of an ablation, how many (3).
        settings: of an ablation, a setting of every pre-training; may be given several times.
        dry_run: of an ablation, say what would be run and how long it takes, and stop.
        ensemble: let several models of one task answer as one, by the mean of their logits.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.artifacts import refuse_existing
    from cloze.evidence.ablations import ABLATIONS, AblationConfig
    from cloze.evidence.reproduce import reproduce, write_record
    from cloze.training.budget import parse_duration

    ablation_flags = {
        "--tasks-data": bool(tasks_data),
        "--budget": budget is not None,
        "--seeds": seeds is not None,
        "--set": bool(settings),
        "--dry-run": dry_run,
    }
    for flag, given in {"--ensemble": ensemble, "--overwrite": overwrite}.items():
        if table in ABLATIONS and given:
            raise InputError(
                f"{table} is an ablation: it has no such flag", where=flag, remedy="Leave it out"
            )
    if table in ABLATIONS and (data or model or output or any(ablation_flags.values())):
        if len(model) > 1:
            raise InputError("an ablation has one model", where="--model")
        config = AblationConfig(
            model=model[0] if model else None,
            budget_seconds=None if budget is None else parse_duration(budget),
            seeds=seeds,
            device=None if device == "auto" else device,
            settings=settings,
        )
        output = required(output, "--output", verb="reproduce")
        _ablation(table, config, data, output, tasks_data_of(tasks_data), dry_run=dry_run, flags=flags)
        return
    for flag, value in ablation_flags.items():
        if value:
            remedy = f"That is for {', '.join(ABLATIONS)}"
            raise InputError(f"{table} is no ablation", where=flag, remedy=remedy)
    if output is not None:
        refuse_existing(output, overwrite=overwrite, inputs=[*model, data])
    if not model and (data or ensemble):
        where = "--data" if data else "--ensemble"
        raise InputError("is of no use without a model", where=where, remedy="Name one with --model")
    models = [Path(each) for each in model]
    found = reproduce(table, models, data, ensemble=ensemble, device=device, progress=flags.progress)
    if output is not None:
        write_record(found, output, device=device, overwrite=overwrite)
    flags.print(found.as_dict(), found.as_text())


def _ablation(
    table: str,
    config: "AblationConfig",
    data: Path | None,
    output: Path,
    tasks_data: dict[str, Path],
    *,
    dry_run: bool,
    flags: Flags,
) -> None:
    from cloze.evidence.ablations import begin_ablation, plan_ablation, reproduce_ablation
    from cloze.evidence.study_plan import describe_plan
    from cloze.training.memory import keep_freed_memory

    keep_freed_memory()
    study = begin_ablation(table, config, data, output, progress=flags.progress)
    runs, said, seconds = plan_ablation(study, data, output, tasks_data, progress=flags.progress)
    if dry_run:
        plan = {"runs": [str(each.directory) for each in runs], "seconds": seconds}
        flags.print(plan, f"{describe_plan(runs)}\n{said}")
        return
    flags.progress.note(said)
    record = reproduce_ablation(study, data, output, tasks_data, progress=flags.progress)
    flags.print({"record": str(record)}, f"wrote {record}")
