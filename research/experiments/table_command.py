"""`python -m experiments TABLE`: a result table or an ablation of the paper, compared with yours."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cloze import config as configuration
from cloze.artifacts import check_output_path
from cloze.cli.parameters import CommonOptions
from cloze.config import to_toml
from cloze.errors import InputError
from cloze.file_io import write_text
from cloze.models.encoder_config import SIZES
from cloze.pretraining.run import plan_pretraining
from cloze.process import configure_memory
from cloze.progress import SILENT, Progress
from cloze.training.optimizer import parse_duration
from experiments.plan import plan_study
from experiments.result_tables import reproduce
from experiments.run import run_study
from experiments.study import STUDIES, Study, check_study, read_study
from experiments.study_command import TasksData, parse_tasks_data
from experiments.timing import describe_times, estimate_times, print_plan


def run(
    table: str,
    *,
    model: tuple[str, ...] = (),
    data: Path | None = None,
    output: Path | None = None,
    tasks_data: TasksData = (),
    budget: str | None = None,
    seeds: int | None = None,
    settings: tuple[str, ...] = (),
    dry_run: bool = False,
    ensemble: bool = False,
    device: str = "auto",
    overwrite: bool = False,
    flags: CommonOptions,
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


ABLATIONS = ("table5", "table6", "table7", "table8", "figure5")

STUDY_FILE = "study.toml"
_TIMED_STEPS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class AblationConfig:
    """Choices of an ablation; None takes the value of its study."""

    model: str | None = None
    """A size; for table 7 also a checkpoint or run, which is then used instead of pre-training."""
    budget_seconds: float | None = None
    """Time to pre-train the base once, which sets the steps of all runs."""
    seeds: int | None = None
    """Number of seeds."""
    device: str | None = None
    settings: tuple[str, ...] = ()
    """Settings of every pre-training, as in --set."""


def read_ablation(table: str, config: AblationConfig) -> Study:
    """Return the study of an ablation, without the steps that a budget of time allows."""
    path = STUDIES / f"{table}.toml"
    size = config.model if config.model in SIZES else None
    device = {} if config.device is None else {"device": config.device}
    overrides = [
        f"{key}={value}" for key, value in {"model.size": size, **device}.items() if value is not None
    ]
    study = read_study(path, [*config.settings, *overrides])
    if config.budget_seconds is not None and _sets_steps(config):
        what = "--set steps sets the duration, too"
        raise InputError(what, where="--budget", remedy="Leave one of them out")
    if config.model is not None and size is None:
        if table != "table7":
            remedy = f"Choose one of {', '.join(SIZES)}"
            raise InputError(f"{config.model!r} is not a size", where="--model", remedy=remedy)
        if config.budget_seconds is not None or config.settings:
            what = f"nothing is pre-trained: {config.model} is not a size"
            raise InputError(what, where="--set" if config.settings else "--budget", remedy="Leave it out")
        study = replace(study, variants={study.base: {"checkpoint": config.model}})
    elif size is not None and table == "table6":
        raise InputError("table 6 compares sizes", where="--model", remedy="Leave it out")
    if device:
        study = replace(study, tasks={name: {**task, **device} for name, task in study.tasks.items()})
    if config.seeds is not None:
        if config.seeds < 1:
            raise InputError(f"{config.seeds} is less than 1", where="--seeds")
        study = replace(study, seeds=tuple(range(1, config.seeds + 1)))
    check_study(study, path)
    return study


def _sets_steps(config: AblationConfig) -> bool:
    return "steps" in configuration.read_dict(overrides=config.settings)


def start_ablation(
    table: str, config: AblationConfig, data: Path | None, output: Path, *, progress: Progress = SILENT
) -> Study:
    """Return the study with which a directory was started, or with which to start it; nothing is written.

    A new directory times a few steps to find how many the budget allows. An existing one may continue with more seeds.
    """
    study = read_ablation(table, config)
    if data is not None and study.origin(study.base) is not None:
        raise InputError("nothing is pre-trained", where="--data", remedy="Leave it out")
    file = output / STUDY_FILE
    if file.is_file():
        started = read_study(file)
        if config.budget_seconds is not None:
            steps = started.settings["steps"]
            progress.note(f"{output} was started with {steps:,} steps, and continues with these")
        wanted = study if _sets_steps(config) else _with_steps(study, started.settings["steps"])
        if replace(wanted, seeds=started.seeds) != started:
            what = "was started with another table, model or settings"
            raise InputError(what, where=file, remedy="Choose another --output, or delete the directory")
        return started if config.seeds is None else replace(started, seeds=study.seeds)
    if config.budget_seconds is None or study.origin(study.base) is not None:
        return study
    if data is None:
        remedy = "Name the data set that cloze corpus wrote"
        raise InputError("the flag --data is missing", remedy=remedy)
    progress.note(f"timing {study.base} to see how many steps {config.budget_seconds:,.0f} s allow")
    timed = _with_steps(study, _TIMED_STEPS * study.points).config(study.base, study.seeds[0], data)
    plan = plan_pretraining(timed, progress=progress)
    steps = sum(phase.steps for phase in plan.phases)
    step_seconds = sum(phase.seconds for phase in plan.phases) / steps
    allowed = int((config.budget_seconds - plan.evaluation_seconds) / step_seconds)
    return _with_steps(study, max(allowed // study.points, 1) * study.points)


def _with_steps(study: Study, steps: int) -> Study:
    return replace(study, settings=configuration.merge(study.settings, {"steps": steps}))
