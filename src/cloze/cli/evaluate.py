"""`cloze evaluate TASK`: the scores of a model on labelled data."""

from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Model, OptionalName, OptionalPath, Settings, TaskName


def run(
    task: TaskName,
    /,
    *,
    model: Model,
    data: Annotated[str, tyro.conf.arg(aliases=["-d"], metavar="PATH", help_behavior_hint="(required)")],
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None,
    text_column: OptionalName = None,
    label_column: OptionalName = None,
    settings: Settings = (),
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Score a fine-tuned model on labelled data, with the official metrics of the task.

    Args:
        task: what the model was fine-tuned for; cloze tasks lists what there is.
        model: a fine-tuned checkpoint or a run, of which the best is taken.
        data: a file in the task's format, or a directory with the dev file of a benchmark.
        output: write the predictions there, too, as JSON lines.
        text_column: name of the column with the text, where it is not as in the training data.
        label_column: name of the column with the label, likewise.
        settings: a setting of the task, as in --set classification.pair_column=answer; may be given several times.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from pathlib import Path

    from cloze import config as configuration
    from cloze.artifacts import refuse_existing
    from cloze.cli.predict import write_predictions
    from cloze.cli.scores import score_lines
    from cloze.inference.predictor import Predictor
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import find_data

    if output is not None:
        refuse_existing(output, overwrite=overwrite, directory=False)
    predictor = Predictor.load(model, task, device=device)
    given = {f"{task}.text_column": text_column, f"{task}.label_column": label_column}
    reader = with_settings(predictor.task, [*settings, *configuration.as_overrides(given)])
    file = find_data(reader, Path(data), "dev")
    evaluation = predictor.evaluate(reader.examples(file), progress=flags.progress)
    if output is not None:
        write_predictions(predictor.task, evaluation.answers, output)
    lines = score_lines(evaluation.scores, examples=len(evaluation.answers), data=file)
    flags.print(
        {"data": str(file), "examples": len(evaluation.answers), **evaluation.scores}, "\n".join(lines)
    )
