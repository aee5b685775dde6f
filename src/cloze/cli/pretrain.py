"""`cloze pretrain`: pre-train an encoder with masked LM and next sentence prediction."""

from typing import Annotated, Literal

from cloze.cli import options
from cloze.cli.output import print_plan


def run(
    *,
    output: options.OptionalOutput = None,
    data: options.OptionalPath = None,
    model: Annotated[
        Literal[
            "tiny",
            "mini",
            "small",
            "medium",
            "base",
            "large",
            "modern-tiny",
            "modern-mini",
            "modern-small",
            "modern-medium",
            "modern-base",
        ]
        | None,
        options.Flag(aliases=["-m"], metavar="SIZE"),
    ] = None,
    config: Annotated[options.OptionalName, options.Flag(aliases=["-c"], metavar="RECIPE")] = None,
    steps: options.OptionalInteger = None,
    budget: Annotated[options.OptionalName, options.Flag(metavar="TIME")] = None,
    init: Annotated[options.OptionalName, options.Flag(metavar="MODEL")] = None,
    seed: options.OptionalInteger = None,
    settings: options.Settings = (),
    report_to: options.ReportTo = (),
    print_config: options.Switch = False,
    dry_run: options.Switch = False,
    resume: options.Switch = False,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Pre-train an encoder with masked LM and next sentence prediction.

    Settings are the paper's, then --config, then --set, then the other flags.

    Args:
        output: Directory of the run (required without --print-config and --dry-run).
        data: Data set of cloze corpus (required for a new run).
        model: tiny, mini, small, medium, base or large (default: base); modern-tiny to modern-base: ModernBERT.
        config: TOML file, or name of a recipe, as in -c original or -c fast (default with --init: adapt).
        steps: Number of optimizer steps, unless --budget is given.
        budget: Training time, as in 30m or 8h; the learning rate schedule follows the clock.
        init: cloze-mini, a checkpoint, a run or hf://org/name to adapt to the data, with a new optimizer.
        seed: Seed of weights, pairs, masks and dropout.
        settings: Setting, as in --set optimizer.learning_rate=2e-5; may be repeated.
        print_config: Print the resolved settings as TOML, and stop.
        dry_run: Print memory and time of the run, measured in a few steps, and stop.
        resume: Resume the run in the output directory, or start it if the directory is free.
    """
    from cloze import config as configuration
    from cloze.callbacks import load_writers
    from cloze.pretraining.config import PretrainConfig, overlay_settings, with_size_defaults
    from cloze.pretraining.plan import plan_pretraining
    from cloze.pretraining.run import change_pretraining, pretrain, resume_pretraining
    from cloze.training.budget import parse_duration
    from cloze.training.memory import configure_process_memory

    by_set = configuration.read_dict(overrides=settings)
    callbacks = load_writers(report_to, where="--report-to")
    configure_process_memory()
    by_flag = {
        "data": None if data is None else str(data),
        "model.size": model,
        "steps": steps,
        "budget_seconds": None if budget is None else parse_duration(budget),
        "init": init,
        "seed": seed,
    }
    overrides = [*settings, *configuration.to_overrides(by_flag)]
    explicit = configuration.read_dict(overrides=overrides)
    recipe = options.find_recipe(config)
    if "init" in explicit:
        options.refuse_together("--init", {"--model": model is not None})
    table = overlay_settings(configuration.read_dict(recipe), explicit)
    resumed = None
    if resume:
        others = {"--print-config": print_config, "--dry-run": dry_run, "--overwrite": overwrite}
        resumed = options.run_to_resume(output, others, verb="pretrain", has_settings=bool(table))
    if resumed is not None:
        if table:
            change_pretraining(resumed, table, by_set)
        result = resume_pretraining(resumed, callbacks=callbacks, progress=flags.progress)
    else:
        if config is None and "init" in table:
            recipe = options.find_recipe("adapt")
            flags.progress.note("settings: the recipe adapt, for --init; --config chooses others")
            table = overlay_settings(configuration.read_dict(recipe), explicit)
        placeholders = {"data": "", "steps": 1} if print_config else {}
        if "budget_seconds" in table:
            placeholders.pop("steps", None)
        options.required(table.get("data", placeholders.get("data")), "--data", verb="pretrain")
        source = configuration.describe_source(recipe, overrides)
        placeholders = {name: value for name, value in placeholders.items() if name not in table}
        resolved = configuration.from_dict(
            PretrainConfig, with_size_defaults({**table, **placeholders}), where=source
        )
        if print_config:
            options.print_settings(configuration.to_toml(resolved), placeholders)
            return
        if dry_run:
            print_plan(plan_pretraining(resolved, progress=flags.progress), flags)
            return
        output = options.required(output, "--output", verb="pretrain")
        result = pretrain(
            resolved,
            output,
            overwrite=overwrite,
            resume=resume,
            callbacks=callbacks,
            progress=flags.progress,
        )
    width = max(24, *map(len, result))
    lines = [f"wrote {output}", *(f"  {name:<{width}} {value:.4f}" for name, value in result.items())]
    flags.print({"run": str(output), **result}, "\n".join(lines))
