"""`cloze study STUDY`: the runs of a study, and its record."""

from typing import Annotated, TypeAlias

import tyro

from cloze.cli.common import (
    Flags,
    OptionalOutput,
    OptionalPath,
    Settings,
    TasksData,
    find_recipe,
    required,
    tasks_data_of,
)

Seeds: TypeAlias = Annotated[
    tyro.conf.UseAppendAction[tuple[int, ...]], tyro.conf.arg(metavar="INT", help_behavior_hint="")
]


def run(
    study: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STUDY")],
    /,
    *,
    data: OptionalPath = None,
    output: OptionalOutput = None,
    tasks_data: TasksData = (),
    settings: Settings = (),
    seed: Seeds = (),
    dry_run: bool = False,
    flags: Flags,
) -> None:
    """Pre-train the variants of a study over the same seeds, and write a record that compares them.

    How long it takes is said beforehand. Stopped or killed, the same command goes on.

    Args:
        study: a TOML file, or the name of a study that comes with cloze: fast, fast-rates (and those of
            cloze reproduce: table5 to table8, figure5).
        data: the data set that `cloze corpus` wrote (required where something is pre-trained).
        output: directory of the runs and the record (required).
        tasks_data: where the data of a task of the study are, as in mnli=DIRECTORY; may be given several times, and a
            task without data is left out.
        settings: one setting of every run, as in --set budget_seconds=600; may be given several times.
        seed: make the runs of this seed alone, beside another command for others; may be given several times.
        dry_run: say what would be run and how long it takes, and stop.
        flags: flags of every verb.
    """
    from cloze.evidence.study import run_study
    from cloze.evidence.study_file import read_study
    from cloze.evidence.study_plan import describe_plan, plan_study, runs_of_seeds
    from cloze.evidence.study_time import describe_seconds, plan_seconds
    from cloze.training.memory import keep_freed_memory

    output = required(output, "--output", verb="study")
    path = find_recipe(study, "studies", where="study")
    assert path is not None
    found = read_study(path, settings)
    data_of_tasks = tasks_data_of(tasks_data)
    if dry_run:
        planned = plan_study(found, data, output, data_of_tasks)
        runs = runs_of_seeds(found, planned, seed)
        plans = plan_seconds(runs, data, flags.progress)
        plan = {
            "runs": [str(each.directory) for each in runs],
            "seconds": sum(each.seconds for each in plans),
        }
        flags.print(plan, f"{describe_plan(runs)}\n{describe_seconds(plans)}")
        return
    keep_freed_memory()
    record = run_study(found, data, output, tasks_data=data_of_tasks, seeds=seed, progress=flags.progress)
    flags.print({"record": str(record)}, f"wrote {record}")
