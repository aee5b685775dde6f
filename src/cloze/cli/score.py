"""`cloze score TASK PREDICTIONS GOLD`: the scores of a file of predictions, no model needed."""

from pathlib import Path
from typing import Annotated

import tyro

from cloze.cli.common import Flags, OptionalName, Settings, TaskName


def run(
    task: TaskName,
    predictions: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="PREDICTIONS")],
    gold: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="GOLD")],
    /,
    *,
    label_column: OptionalName = None,
    settings: Settings = (),
    flags: Flags,
) -> None:
    """Score predictions that cloze predict or another program made, with the official metrics of the task.

    Args:
        task: what was predicted; cloze tasks lists what there is.
        predictions: what cloze predict prints, one line for each example, in their order.
        gold: labelled data in the task's format.
        label_column: name of the column with the label, where it is not the task's own.
        settings: a setting of the task, as in --set classification.text_column=review; may be given several times.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.cli.scores import score_lines
    from cloze.metrics.libraries import require
    from cloze.tasks.config import with_settings
    from cloze.tasks.registry import find_task

    given = configuration.as_overrides({f"{task}.label_column": label_column})
    scored = with_settings(find_task(task)(), [*settings, *given])
    require(scored.libraries)
    examples = list(scored.examples(gold))
    scores = scored.score(examples, scored.predictions(predictions, examples))
    lines = score_lines(scores, examples=len(examples), data=gold)
    flags.print({"data": str(gold), "examples": len(examples), **scores}, "\n".join(lines))
