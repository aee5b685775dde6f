"""`cloze pretrain`: masked words and next sentence, from scratch or from a checkpoint."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import tyro

from cloze.cli.common import (
    Flags,
    OptionalInteger,
    OptionalName,
    OptionalOutput,
    OptionalPath,
    Settings,
    find_recipe,
    refuse_beside_resume,
    required,
)
from cloze.errors import InputError


def run(
    *,
    output: OptionalOutput = None,
    data: OptionalPath = None,
    model: Annotated[
        Literal["tiny", "mini", "small", "medium", "base", "large"] | None,
        tyro.conf.arg(aliases=["-m"], metavar="SIZE", help_behavior_hint=""),
    ] = None,
    config: Annotated[OptionalName, tyro.conf.arg(aliases=["-c"], metavar="RECIPE")] = None,
    steps: OptionalInteger = None,
    budget: Annotated[OptionalName, tyro.conf.arg(metavar="TIME")] = None,
    init: OptionalPath = None,
    seed: OptionalInteger = None,
    settings: Settings = (),
    print_config: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Pre-train an encoder: masked words and next sentence.

    Settings come from the paper, then --config, then --set, then the flags.

    Args:
        output: directory of the run (required but with --print-config and --dry-run).
        data: the data set that `cloze corpus` wrote.
        model: tiny, mini, small, medium, base or large; base where nothing says otherwise.
        config: a TOML file, or the name of a recipe that comes with cloze: original, fast.
        steps: optimizer steps; these, or a budget.
        budget: time to train, as in 30m or 8h; the schedule then follows the clock.
        init: cloze-mini, a checkpoint or a run to go on from, with a fresh optimizer.
        seed: of weights, pairs, masks and dropout.
        settings: one setting, as in --set optimizer.learning_rate=2e-5; may be given several times.
        print_config: print the resolved settings as TOML and stop.
        dry_run: say what memory and time the run would take, judged by a few steps, and stop.
        resume: go on with the run in the output directory.
        overwrite: replace the run in the output directory.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.cli.plans import print_plan
    from cloze.pretraining.config import WIDTHS, PretrainConfig
    from cloze.pretraining.plan import plan_pretraining
    from cloze.pretraining.run import pretrain, resume_pretraining
    from cloze.training.budget import parse_duration
    from cloze.training.memory import keep_freed_memory

    said = configuration.read_table(overrides=settings)
    keep_freed_memory()

    parsed_budget = None if budget is None else parse_duration(budget)
    given = {
        "data": None if data is None else str(data),
        "model.size": model,
        "steps": steps,
        "budget_seconds": parsed_budget,
        "init": None if init is None else str(init),
        "seed": seed,
    }
    overrides = [*settings, *configuration.as_overrides(given)]
    if resume:
        refuse_beside_resume({"--print-config": print_config, "--dry-run": dry_run, "--overwrite": overwrite})
        if overrides or config is not None:
            remedy = "Leave out the other settings, or start a new run with --init"
            raise InputError("--resume goes on with the run's own settings", where=output, remedy=remedy)
        output = required(output, "--output", verb="pretrain")
        result = resume_pretraining(output, progress=flags.progress)
    else:
        recipe = find_recipe(config)
        table = configuration.read_table(recipe, overrides)
        of_model = said["model"] if isinstance(said.get("model"), dict) else {}
        _check_beside_init(table, model, of_model)
        if model is not None:
            for width in {*WIDTHS} - {*of_model}:
                table["model"].pop(width, None)  # of the file: the flag says another size
        for flag, other in ((steps, "budget_seconds"), (parsed_budget, "steps")):
            if flag is not None and None in (steps, budget) and other not in said:
                table.pop(other, None)  # of the file: the flag says another length of the run
        resolved = configuration.from_table(
            PretrainConfig, table, where=configuration.name_of(recipe, overrides)
        )
        if print_config:
            print(configuration.to_toml(resolved), end="")
            return
        if dry_run:
            print_plan(plan_pretraining(resolved, progress=flags.progress), flags)
            return
        output = required(output, "--output", verb="pretrain")
        result = pretrain(resolved, output, overwrite=overwrite, progress=flags.progress)
    text = "\n".join([f"wrote {output}", *(f"  {name:<24} {value:.4f}" for name, value in result.items())])
    flags.print({"run": str(output), **result}, text)


def _check_beside_init(table: Mapping[str, Any], model: str | None, of_model: Mapping[str, Any]) -> None:
    """Refuse to say what the encoder is where the run goes on from one.

    Args:
        table: all settings, with those of a file.
        model: the flag.
        of_model: what --set says of the encoder.
    """
    from cloze.pretraining.config import SET_BESIDE_INIT

    if table.get("init") is None:
        return
    if model is not None:
        remedy = "Leave one of them out: what goes on keeps its size"
        raise InputError("does not go with --init", where="--model", remedy=remedy)
    if unused := [key for each in of_model if (key := f"model.{each}") not in SET_BESIDE_INIT]:
        what = "does not go with --init: it is the checkpoint's"
        raise InputError(what, where=unused[0], remedy="Leave it out")
