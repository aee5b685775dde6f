"""The paper's ablations at a size and time that you choose: each is a study that comes with cloze.

OUT/study.toml  the study as it was begun, with the steps that the time allows
OUT/runs, OUT/record  as `cloze study` writes them
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from cloze import artifacts
from cloze import config as configuration
from cloze.errors import InputError
from cloze.evidence.study import run_study
from cloze.evidence.study_file import Study, check_study, read_study
from cloze.evidence.study_plan import PlannedRun, plan_study
from cloze.evidence.study_time import describe_seconds, plan_seconds
from cloze.model.bert import SIZES
from cloze.pretraining.plan import plan_pretraining
from cloze.progress import SILENT, Progress

ABLATIONS = ("table5", "table6", "table7", "table8", "figure5")

_STUDIES = Path(__file__).parents[1] / "recipes" / "studies"
_STUDY = "study.toml"
_TIMED_STEPS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class AblationConfig:
    """What you choose of an ablation; None leaves it as its study says."""

    model: str | None = None
    """A size; for table 7 also a checkpoint or a run, which is then not pre-trained."""
    budget_seconds: float | None = None
    """To pre-train the base once: it says the steps of all runs."""
    seeds: int | None = None
    """How many."""
    device: str | None = None
    settings: tuple[str, ...] = ()
    """Of every pre-training, as in --set."""


def ablation(table: str, config: AblationConfig) -> Study:
    """Return the study of an ablation, but for the steps that a budget of time allows.

    Raises:
        InputError: a setting is wrong, or the table wants no such model.
    """
    path = _STUDIES / f"{table}.toml"
    size = config.model if config.model in SIZES else None
    device = {} if config.device is None else {"device": config.device}
    given = configuration.as_overrides({"model.size": size, **device})
    study = read_study(path, [*config.settings, *given])
    if config.budget_seconds is not None and _asks_for_steps(config):
        raise InputError("--set steps says how long, too", where="--budget", remedy="Leave one of them out")
    if config.model is not None and size is None:
        if table != "table7":
            remedy = f"Choose one of {', '.join(SIZES)}"
            raise InputError(f"{config.model!r} is no size", where="--model", remedy=remedy)
        if config.budget_seconds is not None or config.settings:
            what = f"nothing is pre-trained: {config.model} is no size"
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


def _asks_for_steps(config: AblationConfig) -> bool:
    return "steps" in configuration.read_table(overrides=config.settings)


def begin_ablation(
    table: str, config: AblationConfig, data: Path | None, output: Path, *, progress: Progress = SILENT
) -> Study:
    """Return the study of an ablation as it was begun in a directory, or else as it is to begin there.

    Nothing is written. Where it was not begun, a few steps are timed to see how many the budget allows; where it was,
    it may go on with more seeds.

    Raises:
        InputError: as `ablation`; or another study was begun there.
    """
    study = ablation(table, config)
    if data is not None and study.origin(study.base) is not None:
        raise InputError("nothing is pre-trained", where="--data", remedy="Leave it out")
    file = output / _STUDY
    if file.is_file():
        begun = read_study(file)
        if config.budget_seconds is not None:
            progress.note(
                f"{output} was begun with {begun.settings['steps']:,} steps, and goes on with these"
            )
        wanted = study if _asks_for_steps(config) else _with_steps(study, begun.settings["steps"])
        if replace(wanted, seeds=begun.seeds) != begun:
            what = "was begun with another table, model or settings"
            raise InputError(what, where=file, remedy="Choose another --output, or delete the directory")
        return begun if config.seeds is None else replace(begun, seeds=study.seeds)
    if config.budget_seconds is None or study.origin(study.base) is not None:
        return study
    if data is None:
        raise InputError("the flag --data is missing", remedy="cloze reproduce --help lists what there is")
    progress.note(f"timing {study.base} to see how many steps {config.budget_seconds:,.0f} s allow")
    timed = _with_steps(study, _TIMED_STEPS * study.points).config(study.base, study.seeds[0], data)
    plan = plan_pretraining(timed, progress=progress)
    steps = sum(stretch.steps for stretch in plan.stretches)
    if not steps:
        raise InputError("does not fit into memory", where=study.base, remedy="Choose a smaller --model")
    step_seconds = sum(stretch.seconds for stretch in plan.stretches) / steps
    allowed = int((config.budget_seconds - plan.evaluation_seconds) / step_seconds)
    return _with_steps(study, max(allowed // study.points, 1) * study.points)


def _with_steps(study: Study, steps: int) -> Study:
    settings = deepcopy(dict(study.settings))
    configuration.merge(settings, {"steps": steps})
    return replace(study, settings=settings)


def plan_ablation(
    study: Study,
    data: Path | None,
    output: Path,
    tasks_data: Mapping[str, Path] = MappingProxyType({}),
    *,
    progress: Progress = SILENT,
) -> tuple[Sequence[PlannedRun], str, float]:
    """Return the runs, and how long those take that are not finished: in words, and in seconds."""
    runs = plan_study(study, data, output, tasks_data)
    plans = plan_seconds(runs, data, progress)
    return runs, describe_seconds(plans), sum(plan.seconds for plan in plans)


def reproduce_ablation(
    study: Study,
    data: Path | None,
    output: Path,
    tasks_data: Mapping[str, Path] = MappingProxyType({}),
    *,
    progress: Progress = SILENT,
) -> Path:
    """Make the runs of an ablation that are not finished; return the record.

    Raises:
        InputError, Interrupted, RunError: as `run_study`.
    """
    artifacts.write_text(output / _STUDY, configuration.to_toml(study))
    return run_study(study, data, output, tasks_data=tasks_data, progress=progress)
