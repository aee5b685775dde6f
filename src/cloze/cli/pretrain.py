"""`cloze pretrain`: pre-train an encoder with masked LM and next sentence prediction."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

from cloze.cli import options
from cloze.cli.output import print_plan
from cloze.errors import InputError


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
        arg(aliases=["-m"], metavar="SIZE", help_behavior_hint=""),
    ] = None,
    config: Annotated[options.OptionalName, arg(aliases=["-c"], metavar="RECIPE")] = None,
    steps: options.OptionalInteger = None,
    budget: Annotated[options.OptionalName, arg(metavar="TIME")] = None,
    init: Annotated[options.OptionalName, arg(metavar="MODEL")] = None,
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
        dry_run: Print memory and time of the run, estimated from a few steps, and stop.
        resume: Resume the run in the output directory, or start it if the directory is free.
    """
    from cloze import config as configuration
    from cloze.callbacks import load_writers
    from cloze.pretraining.config import PretrainConfig, overlay_settings, with_size_defaults
    from cloze.pretraining.plan import plan_pretraining
    from cloze.pretraining.run import pretrain, resume_pretraining
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
    given = configuration.read_dict(overrides=overrides)
    recipe = options.find_recipe(config)
    if "init" in given:
        options.refuse_together("--init", {"--model": model is not None})
    table = overlay_settings(configuration.read_dict(recipe), given)
    resumed = None
    if resume:
        others = {"--print-config": print_config, "--dry-run": dry_run, "--overwrite": overwrite}
        resumed = options.run_to_resume(output, others, verb="pretrain", has_settings=bool(table))
    if resumed is not None:
        if table:
            _change_settings(resumed, table, by_set)
        result = resume_pretraining(resumed, callbacks=callbacks, progress=flags.progress)
    else:
        if config is None and "init" in table:
            recipe = options.find_recipe("adapt")
            flags.progress.note("settings: the recipe adapt, for --init; --config chooses others")
            table = overlay_settings(configuration.read_dict(recipe), given)
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


def _change_settings(run: Path, settings: Mapping[str, Any], by_set: Mapping[str, Any]) -> None:
    """Change the settings of the run to resume that `--set` may change, and refuse others that differ."""
    from cloze import config as configuration
    from cloze.pretraining.config import MODEL_OVERRIDES_WITH_INIT, SIZE_FIELDS, PretrainConfig
    from cloze.training.run import change_settings, run_settings_file

    file = run_settings_file(run, verb="pretrain")
    table = configuration.read_toml(file)
    saved = configuration.from_dict(PretrainConfig, table, where=str(file))
    if not {"steps", "budget_seconds"}.isdisjoint(settings):
        table = {name: value for name, value in table.items() if name not in ("steps", "budget_seconds")}
    if "size" in settings.get("model", {}):
        table["model"] = {name: value for name, value in table["model"].items() if name not in SIZE_FIELDS}
    configuration.merge_dicts(table, settings)
    try:
        changed = configuration.from_dict(PretrainConfig, table, where="settings")
        changes = configuration.differences(saved, changed)
    except InputError:  # settings that contradict those of the run differ from them
        changes = configuration.differences(configuration.read_toml(file), table)
    if saved.init is not None:  # the checkpoint has the other settings of the model
        changes = {
            name: pair
            for name, pair in changes.items()
            if not name.startswith("model.") or name in MODEL_OVERRIDES_WITH_INIT
        }
    if changed_by_set := options.settings_to_change(run, changes, by_set):
        table = configuration.read_toml(file)
        configuration.merge_dicts(table, configuration.read_dict(overrides=changed_by_set))
        change_settings(
            run, configuration.to_toml(configuration.from_dict(PretrainConfig, table, where="--set"))
        )
