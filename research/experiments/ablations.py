"""The paper's ablations at a size and time of your choice, each a study in experiments/studies.

OUT/study.toml        the study with which OUT was started, with the steps that the time allows
OUT/runs, OUT/record  as `python -m experiments study` writes them
"""

from dataclasses import dataclass, replace
from pathlib import Path

from cloze import config as configuration
from cloze.errors import InputError
from cloze.models.encoder_config import SIZES
from cloze.pretraining.run import plan_pretraining
from cloze.progress import SILENT, Progress
from experiments.study import STUDIES, Study, check_study, read_study

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
    """Return the study of an ablation, without the steps that a budget of time allows.

    Raises:
        InputError: a setting is wrong, or the table takes no such model.
    """
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

    Raises:
        InputError: as `read_ablation`; or the directory was started with another study.
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
