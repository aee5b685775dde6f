"""`cloze finetune TASK`: fine-tune a model on labelled data."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from cloze.cli.common import (
    IN_THIS_PROCESS,
    Flags,
    OptionalInteger,
    OptionalName,
    OptionalNumber,
    OptionalOutput,
    OptionalPath,
    OptionalPlace,
    PoolFlags,
    Settings,
    TaskName,
    find_recipe,
    refuse_beside_resume,
    required,
)
from cloze.errors import InputError

_SEARCHED = {
    "batch_size": "grid.batch_sizes",
    "optimizer.learning_rate": "grid.learning_rates",
    "epochs": "grid.epochs",
}
"""Where a grid tries several values of a setting."""


def run(
    task: TaskName,
    /,
    *,
    output: OptionalOutput = None,
    model: Annotated[OptionalPath, tyro.conf.arg(aliases=["-m"])] = None,
    data: Annotated[OptionalPlace, tyro.conf.arg(aliases=["-d"])] = None,
    dev: OptionalPlace = None,
    text_column: OptionalName = None,
    label_column: OptionalName = None,
    examples: OptionalInteger = None,
    epochs: OptionalInteger = None,
    batch_size: OptionalInteger = None,
    learning_rate: OptionalNumber = None,
    seeds: OptionalInteger = None,
    grid: bool = False,
    config: Annotated[OptionalName, tyro.conf.arg(aliases=["-c"])] = None,
    settings: Settings = (),
    pool: PoolFlags = IN_THIS_PROCESS,
    validate: bool = False,
    print_config: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Fine-tune a model on labelled data, score it on what it has not seen, and keep the best epoch.

    Settings come from the paper, then --config, then --set, then the flags.

    Args:
        task: what is learned; cloze tasks lists what there is.
        output: directory of the run (required but with --validate, --print-config and --dry-run).
        model: what to start from: cloze-mini, a pre-trained checkpoint or a run.
        data: a file in the task's format, or a directory with the files of a benchmark; or the URL of either, such as
            s3://bucket/reviews.tsv.
        dev: such a file to score on; else that of the directory, else a tenth of the data is held out.
        text_column: name of the column with the text (text, where nothing says otherwise).
        label_column: name of the column with the label (label).
        examples: learn from so many, drawn at random, for a learning curve: the parts of cloze baseline.
        epochs: how often each example is seen (3); not searched for in a grid then, as the two below.
        batch_size: sequences an optimizer step (32).
        learning_rate: its peak (5e-5).
        seeds: make as many runs, each with another head and order of the data; mean, deviation and best are told.
        grid: make a run for each of the paper's batch sizes, learning rates and epochs: 18, with each seed.
        config: a TOML file, or the name of a recipe, as in -c glue or -c mrpc-google.
        settings: one setting, as in --set max_seq_length=256; may be given several times.
        pool: where the runs of --seeds and --grid are made; without it one after the other in this process.
        validate: read and check all data, name the first line that is wrong, and stop.
        print_config: print the resolved settings as TOML and stop.
        dry_run: say what memory and time the run would take, judged by a few steps, and stop.
        resume: go on with the run in the output directory.
        overwrite: replace the run in the output directory.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.cli.plans import print_plan
    from cloze.tasks import finetune as finetuning
    from cloze.tasks.config import PAPER_GRID, load_finetuning, to_toml
    from cloze.tasks.registry import find_task
    from cloze.training.memory import keep_freed_memory

    keep_freed_memory()
    given = {
        "model": None if model is None else str(model),
        "train": data,
        "dev": dev,
        "train_examples": examples,
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer.learning_rate": learning_rate,
        "seeds": seeds,
        f"{task}.text_column": text_column,
        f"{task}.label_column": label_column,
    }
    paper_grid = {f"grid.{name}": list(values) for name, values in asdict(PAPER_GRID).items()} if grid else {}
    said = {name for name, value in given.items() if value is not None}
    said |= {setting.partition("=")[0] for setting in settings}
    not_searched: dict[str, list[float]] = {grid: [] for name, grid in _SEARCHED.items() if name in said}
    overrides = [
        *configuration.as_overrides(paper_grid),
        *settings,
        *configuration.as_overrides({**given, **not_searched}),
    ]
    if resume:
        looks = {"--validate": validate, "--print-config": print_config, "--dry-run": dry_run}
        refuse_beside_resume({**looks, "--overwrite": overwrite})
        if overrides or config is not None:
            remedy = "Leave out the other settings, or start a new run"
            raise InputError("--resume goes on with the run's own settings", where=output, remedy=remedy)
        output = required(output, "--output", verb="finetune")
        finetuning.resume_finetuning(output, task, workers=pool(), progress=flags.progress)
        _print_scores(output, flags)
        return
    is_solved = find_task(task).is_solved  # a mistyped one is told before what else is missing
    if is_solved and (unused := [name for name in _SEARCHED if name in said]):
        raise InputError(
            f"is solved at once: it has no use for {unused[0]}", where=task, remedy="Leave it out"
        )
    if config is None and not settings:  # which may say either
        required(model, "--model", verb="finetune")
        required(data, "--data", verb="finetune")
    resolved = load_finetuning(task, find_recipe(config, "finetuning"), overrides)
    if print_config:
        print(to_toml(*resolved), end="")
    elif dry_run:
        print_plan(finetuning.plan_finetuning(*resolved, progress=flags.progress), flags)
    elif validate:
        report = asdict(finetuning.validate(*resolved, progress=flags.progress))
        text = "\n".join(["the data are right", *(f"  {name:<16} {value}" for name, value in report.items())])
        flags.print(report, text)
    else:
        output = required(output, "--output", verb="finetune")
        finetuning.finetune(*resolved, output, workers=pool(), overwrite=overwrite, progress=flags.progress)
        _print_scores(output, flags)


def _print_scores(run: Path, flags: Flags) -> None:
    from cloze.cli.scores import score_lines, trials_lines
    from cloze.tasks.run import SCORES
    from cloze.tasks.trials import TRIALS, scores_in

    if (run / TRIALS).is_file():
        summary = json.loads((run / TRIALS).read_text("utf-8"))
        flags.print({"run": str(run), **summary}, "\n".join([f"wrote {run}", *trials_lines(summary)]))
        return
    result = json.loads((run / SCORES).read_text("utf-8"))
    lines = score_lines(scores_in(result), examples=result["examples"], data=result["data"])
    if "collapse" in result:
        lines.append(f"  it learned nothing: {result['collapse']}")
    flags.print({"run": str(run), **result}, "\n".join([f"wrote {run}", *lines]))
