"""`python -m experiments TABLE`: a result table or an ablation of the paper, compared with yours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cloze.artifacts import check_output_path
from cloze.cli.options import Flag, Flags, Settings
from cloze.config import to_toml
from cloze.errors import InputError
from cloze.file_io import write_text
from cloze.process import configure_memory
from cloze.training.optimizer import parse_duration
from experiments.ablations import ABLATIONS, STUDY_FILE, AblationConfig, start_ablation
from experiments.plan import plan_study
from experiments.result_tables import reproduce
from experiments.run import run_study
from experiments.study_command import TasksData, parse_tasks_data
from experiments.timing import describe_times, estimate_times, print_plan


def run(
    table: str,
    *,
    model: Annotated[tuple[str, ...], Flag(metavar="PATH|SIZE")] = (),
    data: Path | None = None,
    output: Path | None = None,
    tasks_data: TasksData = (),
    budget: Annotated[str | None, Flag(metavar="TIME")] = None,
    seeds: int | None = None,
    settings: Settings = (),
    dry_run: bool = False,
    ensemble: bool = False,
    device: str = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Print a result table of the BERT paper with every published row, and the scores of your models.

    An ablation starts from text: every variant is pre-trained and fine-tuned over several seeds, and the record
    compares the results with the paper's. The expected duration is printed first. A stopped or killed ablation
    continues with the same command.

    Args:
        table: table1 (GLUE), table2 (SQuAD 1.1), table3 (SQuAD 2.0) or table4 (SWAG), or an ablation: table5
            (pre-training tasks), table6 (sizes), table7 (features), table8 (masking) or figure5 (steps).
        model: a checkpoint or run, fine-tuned for a task of the table; may be given several times. For an ablation the
            size, or for table7 a model that replaces pre-training. Without one the published rows are printed.
        data: for table1 the directory of GLUE's data, with a folder per task; for tables 2 to 4 the dev file or its
            directory; for an ablation the data set that `cloze corpus` wrote.
        output: write a record: a directory with the table, the settings and the environment. For an ablation
            the directory of its runs and record (required).
        tasks_data: data of a task of an ablation, as in mnli=DIRECTORY; may be given several times, and a task
            without data is left out.
        budget: for an ablation, time to pre-train the base once, as in 20m, which sets the steps of all runs.
        seeds: for an ablation, the number of seeds (3).
        settings: for an ablation, a setting of every pre-training; may be given several times.
        dry_run: for an ablation, print the runs and their duration, and stop.
        ensemble: average the logits of several models of one task.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output if it exists.
        flags: flags of every verb.
    """
    ablation_flags = {
        "--tasks-data": bool(tasks_data),
        "--budget": budget is not None,
        "--seeds": seeds is not None,
        "--set": bool(settings),
        "--dry-run": dry_run,
    }
    models = list(map(Path, model))
    if table in ABLATIONS:
        _refuse({"--ensemble": ensemble, "--overwrite": overwrite}, f"{table} is an ablation")
        if data or model or output or any(ablation_flags.values()):
            if len(model) > 1:
                raise InputError("an ablation has one model", where="--model")
            if output is None:
                remedy = "Name a directory for the runs and the record"
                raise InputError("the flag --output is missing", remedy=remedy)
            config = AblationConfig(
                model=model[0] if model else None,
                budget_seconds=None if budget is None else parse_duration(budget),
                seeds=seeds,
                device=None if device == "auto" else device,
                settings=settings,
            )
            paths = parse_tasks_data(tasks_data)
            configure_memory()
            study = start_ablation(table, config, data, output, progress=flags.progress)
            runs = plan_study(study, data, output, paths)
            times = estimate_times(runs, data, flags.progress)
            if dry_run:
                print_plan(runs, times, flags)
                return
            flags.progress.note(describe_times(times))
            write_text(output / STUDY_FILE, to_toml(study))
            record = run_study(study, data, output, tasks_data=paths, progress=flags.progress)
            flags.print({"record": str(record)}, f"wrote {record}")
            return
    _refuse(ablation_flags, f"{table} is not an ablation", remedy=f"It is for {', '.join(ABLATIONS)}")
    if output is not None:
        check_output_path(output, overwrite=overwrite, inputs=[*models, data])
    if not models:
        useless = {"--data": data is not None, "--ensemble": ensemble}
        _refuse(useless, "needs a model", remedy="Name one with --model")
    result = reproduce(table, models, data, ensemble=ensemble, device=device, progress=flags.progress)
    if output is not None:
        result.write(output, device=device, overwrite=overwrite)
    flags.print(result.as_dict(), result.as_text())


def _refuse(flags: Mapping[str, bool], what: str, *, remedy: str = "Leave the flag out") -> None:
    """Refuse flags that are given but not allowed."""
    for flag, is_given in flags.items():
        if is_given:
            raise InputError(what, where=flag, remedy=remedy)
