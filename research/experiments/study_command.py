"""`python -m experiments study STUDY`: run a study and write its record."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from cloze.cli.parameters import CommonOptions
from cloze.config import find_recipe
from cloze.errors import InputError
from cloze.process import configure_memory
from experiments.plan import plan_study, runs_of_seeds
from experiments.run import run_study
from experiments.study import STUDIES, read_study
from experiments.timing import estimate_times, print_plan

TasksData: TypeAlias = tuple[str, ...]
Seeds: TypeAlias = tuple[int, ...]


def run(
    study: str,
    *,
    output: Path,
    data: Path | None = None,
    tasks_data: TasksData = (),
    settings: tuple[str, ...] = (),
    seed: Seeds = (),
    dry_run: bool = False,
    flags: CommonOptions,
) -> None:
    """Pre-train the variants of a study over the same seeds, and write a record that compares them.

    The expected duration is printed first. A stopped or killed study continues with the same command.

    Args:
        study: a TOML file, or the name of a study in experiments/studies: fast, fast-rates (and table5 to
            table8, figure5).
        output: directory of the runs and the record.
        data: the data set that `cloze corpus` wrote (required if a variant is pre-trained).
        tasks_data: data of a task of the study, as in mnli=DIRECTORY; may be given several times, and a task without
            data is left out.
        settings: one setting of every run, as in --set budget_seconds=600; may be given several times.
        seed: make only the runs of this seed, so that another command can make others; may be given several times.
        dry_run: print the runs and their duration, and stop.
        flags: flags of every verb.
    """
    path = find_recipe(study, STUDIES, where="study")
    plan = read_study(path, settings)
    paths = parse_tasks_data(tasks_data)
    if dry_run:
        runs = runs_of_seeds(plan, plan_study(plan, data, output, paths), seed)
        print_plan(runs, estimate_times(runs, data, flags.progress), flags)
        return
    configure_memory()
    record = run_study(plan, data, output, tasks_data=paths, seeds=seed, progress=flags.progress)
    flags.print({"record": str(record)}, f"wrote {record}")


def parse_tasks_data(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the path of each name."""
    paths = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not name or not equals:
            raise InputError(f"cannot read {argument!r}", where="--tasks-data", remedy="Write NAME=PATH")
        if not Path(path).exists():
            raise InputError("no such file or directory", where=path)
        paths[name] = Path(path)
    return paths
