"""`cloze finetune TASK`: fine-tune a model on labeled data."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cloze.cli import options, row_options
from cloze.cli.output import format_scores, format_trials, print_plan
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.callbacks import Callback


def run(
    task: options.OptionalTaskName = None,
    /,
    *,
    output: options.OptionalOutput = None,
    model: options.OptionalModel = None,
    teacher: Annotated[options.OptionalName, options.Flag(metavar="MODEL")] = None,
    student_layers: options.OptionalName = None,
    data: Annotated[options.OptionalPathOrUrl, options.Flag(aliases=["-d"])] = None,
    dev: options.OptionalPathOrUrl = None,
    unlabeled: options.OptionalPathOrUrl = None,
    rows: row_options.RowFlags = row_options.AS_THE_TASK_SAYS,
    long_texts: options.LongTexts = None,
    examples: options.OptionalInteger = None,
    epochs: options.OptionalInteger = None,
    patience: options.OptionalInteger = None,
    batch_size: options.OptionalInteger = None,
    learning_rate: options.OptionalNumber = None,
    seeds: options.OptionalInteger = None,
    grid: options.Switch = False,
    config: Annotated[options.OptionalName, options.Flag(aliases=["-c"])] = None,
    settings: options.Settings = (),
    report_to: options.ReportTo = (),
    pool: options.WorkerFlags = options.SINGLE_PROCESS,
    validate: options.Switch = False,
    print_config: options.Switch = False,
    dry_run: options.Switch = False,
    resume: options.Switch = False,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Fine-tune a model on labeled data and keep the best epoch.

    Settings are the paper's, then --config, then --set, then the other flags.

    With --seeds or --grid, --workers trains several models at a time.

    Settings for rare classes: classification.class_weights=balanced, or classification.class_weights.LABEL=5. For
    little data: freeze_layers=2 (the lowest), freeze_embeddings=true, optimizer.layer_decay=0.9 (the rate of a layer
    relative to the one above).

    Args:
        task: Name of the task; cloze tasks lists them. Recipes and runs to resume have one.
        output: Directory of the run (required without --validate, --print-config and --dry-run).
        model: Initial model: cloze-mini, a checkpoint or a run.
        data: Path or URL, as in s3://bucket/reviews.tsv, of a file in the task's format, or of a benchmark's directory.
        teacher: Fine-tuned checkpoint or run whose outputs the model learns, too.
        student_layers: Layers that the model keeps, counted from 0, as in 0,2,5; without --model those of the teacher.
        dev: File to score on (default: that of the directory, else a tenth of the data).
        unlabeled: File of more texts, for which the teacher alone says what is right.
        examples: Number of training examples, drawn at random as in cloze baseline (default: all).
        epochs: Number of epochs (default: 3); --grid then keeps it, and the next two.
        batch_size: Sequences per optimizer step (default: 32).
        learning_rate: Peak learning rate (default: 5e-5).
        patience: Stop after so many evaluations without a better score (default: never).
        seeds: Number of runs with different seeds, reported with mean and deviation (default: 1).
        grid: Search the paper's batch sizes, learning rates and epochs: 18 runs per seed.
        config: TOML file, or name of a recipe, as in -c glue or -c mrpc-google.
        settings: Setting, as in --set max_seq_length=256; may be repeated.
        validate: Read all data, report the first error, and stop.
        print_config: Print the resolved settings as TOML, and stop.
        dry_run: Print memory and time of the run, measured in a few steps, and stop.
        resume: Resume the run in the output directory, or start it if the directory is free.
    """
    from cloze import config as configuration
    from cloze.tasks import finetune as finetuning
    from cloze.tasks.config import load_finetuning, to_toml
    from cloze.tasks.registry import find_task
    from cloze.training.memory import configure_process_memory

    configure_process_memory()
    callbacks = _load_writers(report_to, pool)
    recipe = options.find_recipe(config, "finetuning")
    existing = None
    if resume and (options.required(output, "--output", verb="finetune").exists() or (model or data) is None):
        existing = output
    task = task or _find_task_name(recipe, existing)
    find_task(task)  # an unknown one is refused before what is missing
    model = model or (teacher if student_layers else None)
    by_flag = {
        "model": model,
        **_teacher_settings(teacher, student_layers, unlabeled),
        "train": data,
        "dev": dev,
        "train_examples": examples,
        "epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "optimizer.learning_rate": learning_rate,
        "seeds": seeds,
        **row_options.task_settings(
            task,
            **asdict(rows),
            long_texts=long_texts,
        ),
    }
    explicit = {name for name, value in by_flag.items() if value is not None}
    explicit |= configuration.differences(configuration.read_dict(overrides=settings), {}).keys()
    overrides = _to_overrides(by_flag, settings, explicit, grid=grid)
    if resume:
        others = {"--validate": validate, "--print-config": print_config, "--dry-run": dry_run}
        resumed = options.run_to_resume(
            output,
            {**others, "--overwrite": overwrite},
            verb="finetune",
            has_settings=bool(overrides or recipe),
        )
        if resumed is not None:
            if overrides or recipe:
                by_set = configuration.read_dict(overrides=settings)
                finetuning.change_finetuning(
                    resumed, task, configuration.read_dict(recipe, overrides), by_set
                )
            report = finetuning.resume_finetuning(
                resumed, task, workers=pool.resolve(), callbacks=callbacks, progress=flags.progress
            )
            _print_report(report, resumed, flags)
            return
    table = configuration.read_dict(recipe, overrides)
    placeholders = {name: "" for name in ("model", "train") if print_config and name not in table}
    if not print_config and not settings and recipe is None:
        options.required(model, "--model", verb="finetune")
        options.required(data, "--data", verb="finetune")
    overrides += configuration.to_overrides(placeholders)
    resolved = load_finetuning(task, recipe, overrides, downloads=not print_config)
    if print_config:
        options.print_settings(to_toml(*resolved), placeholders)
    elif dry_run:
        print_plan(finetuning.plan_finetuning(*resolved, progress=flags.progress), flags)
    elif validate:
        summary = finetuning.validate(*resolved, progress=flags.progress)
        texts = {name: _as_text(value) for name, value in summary.items()}
        lines = ["the data are valid", *(f"  {name:<16} {text}" for name, text in texts.items() if text)]
        flags.print(summary, "\n".join(lines))
    else:
        output = options.required(output, "--output", verb="finetune")
        report = finetuning.finetune_with_report(
            *resolved,
            output,
            workers=pool.resolve(),
            overwrite=overwrite,
            resume=resume,
            callbacks=callbacks,
            progress=flags.progress,
        )
        _print_report(report, output, flags)


def _load_writers(services: Sequence[str], pool: options.WorkerOptions) -> "tuple[Callback, ...]":
    """Return the writers of `--report-to`, which are called in this process."""
    from cloze.callbacks import load_writers

    writers = load_writers(services, where="--report-to")
    if writers and pool != options.SINGLE_PROCESS:
        remedy = "Leave out --workers and --executor"
        raise InputError("several processes cannot log to one service", where="--report-to", remedy=remedy)
    return writers


def _teacher_settings(
    teacher: str | None, student_layers: str | None, unlabeled: str | None
) -> dict[str, object]:
    """Return the settings that the flags of a teacher give, by key; None for a flag that is not given."""
    layers = student_layers and options.parse_layers(student_layers, "--student-layers", example="0,2,5")
    return {
        "distillation.teacher": teacher,
        "distillation.student_layers": layers or None,
        "distillation.unlabeled": unlabeled,
    }


def _to_overrides(
    by_flag: Mapping[str, Any], settings: Sequence[str], explicit: Container[str], *, grid: bool
) -> list[str]:
    """Return the settings of `--grid`, `--set` and all other flags; where two differ, the last counts.

    Args:
        by_flag: settings by key; None for a flag that is not given.
        settings: values of `--set`.
        explicit: keys that are given; a grid does not search them.
        grid: whether the paper's grid is searched.
    """
    from cloze import config as configuration
    from cloze.tasks.config import GRID_SETTINGS, PAPER_GRID

    paper_grid = {f"grid.{name}": list(values) for name, values in asdict(PAPER_GRID).items()} if grid else {}
    not_searched: dict[str, list[float]] = {
        values: [] for name, values in GRID_SETTINGS.items() if name in explicit
    }
    return [
        *configuration.to_overrides(paper_grid),
        *settings,
        *configuration.to_overrides({**by_flag, **not_searched}),
    ]


def _find_task_name(recipe: Path | None, run: Path | None) -> str:
    """Return the task of a recipe or of a run to resume."""
    from cloze import config as configuration
    from cloze.training.run import run_settings_file

    recipe_task = recipe and configuration.read_toml(recipe).get("task")
    if recipe_task is None and run is not None:
        recipe_task = configuration.read_toml(run_settings_file(run, verb="finetune")).get("task")
    if not isinstance(recipe_task, str):
        remedy = "Name one, as in cloze finetune classification; cloze tasks lists them"
        raise InputError("no task is named", where=recipe, remedy=remedy)
    return recipe_task


def _as_text(value: object) -> str:
    """Return a value for people; of a table the entries that are set.

    >>> _as_text({"text_column": "note", "labels": ["no", "yes"], "balanced": False})
    'text_column note, labels [no, yes]'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_as_text(entry)}" for key, entry in value.items() if entry)
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _print_report(report: Mapping[str, Any], run: Path, flags: options.Flags) -> None:
    from cloze.tasks.hyperparameter_search import extract_scores

    if "settings" in report:
        lines = format_trials(report)
    else:
        lines = format_scores(extract_scores(report), examples=report["examples"], data=report["data"])
        if "collapse" in report:
            lines.append(f"  the model learned nothing: {report['collapse']}")
    flags.print({"run": str(run), **report}, "\n".join([f"wrote {run}", *lines]))
