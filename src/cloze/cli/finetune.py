"""`cloze finetune TASK`: fine-tune a model on labelled data."""

from typing import Annotated

import tyro

from cloze.cli.common import (
    Flags,
    OptionalInteger,
    OptionalName,
    OptionalNumber,
    OptionalPath,
    Output,
    Settings,
    TaskName,
)
from cloze.errors import InputError


def run(
    task: TaskName,
    /,
    *,
    output: Output,
    model: Annotated[OptionalPath, tyro.conf.arg(aliases=["-m"])] = None,
    data: Annotated[OptionalPath, tyro.conf.arg(aliases=["-d"])] = None,
    dev: OptionalPath = None,
    text_column: OptionalName = None,
    label_column: OptionalName = None,
    epochs: OptionalInteger = None,
    batch_size: OptionalInteger = None,
    learning_rate: OptionalNumber = None,
    config: Annotated[OptionalPath, tyro.conf.arg(aliases=["-c"])] = None,
    settings: Settings = (),
    print_config: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Fine-tune a model on labelled data, and score it on what it has not seen.

    Settings come from the paper, then --config, then --set, then the flags.

    Args:
        task: what is learned; cloze tasks lists what there is.
        output: directory of the run.
        model: the pre-trained checkpoint or run to start from.
        data: a file in the task's format, or a directory with the files of a benchmark.
        dev: such a file to score on; else that of the directory, else a tenth of the data is held out.
        text_column: name of the column with the text (text, where nothing says otherwise).
        label_column: name of the column with the label (label).
        epochs: how often each example is seen (3).
        batch_size: examples an optimizer step (32).
        learning_rate: its peak (5e-5).
        config: a TOML file.
        settings: one setting, as in --set max_seq_length=256; may be given several times.
        print_config: print the resolved settings as TOML and stop.
        resume: go on with the run in the output directory.
        overwrite: replace the run in the output directory.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.tasks.config import load_finetuning, to_toml
    from cloze.tasks.finetune import finetune, resume_finetuning
    from cloze.training.memory import keep_freed_memory

    keep_freed_memory()
    given = {
        "model": None if model is None else str(model),
        "train": None if data is None else str(data),
        "dev": None if dev is None else str(dev),
        "epochs": epochs,
        "batch_size": batch_size,
        "optimizer.learning_rate": learning_rate,
        f"{task}.text_column": text_column,
        f"{task}.label_column": label_column,
    }
    overrides = [*settings, *configuration.as_overrides(given)]
    if resume:
        if overrides or config is not None:
            remedy = "Leave out the other settings, or start a new run"
            raise InputError("--resume goes on with the run's own settings", where=output, remedy=remedy)
        scores = resume_finetuning(output, progress=flags.progress)
    else:
        resolved = load_finetuning(task, config, overrides)
        if print_config:
            print(to_toml(*resolved), end="")
            return
        scores = finetune(*resolved, output, overwrite=overwrite, progress=flags.progress)
    text = "\n".join([f"wrote {output}", *(f"  {name:<16} {value:.4f}" for name, value in scores.items())])
    flags.print({"run": str(output), **scores}, text)
