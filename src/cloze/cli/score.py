"""`cloze score TASK PREDICTIONS GOLD`: the scores of a file of predictions, no model needed."""

from typing import TYPE_CHECKING, Annotated

import tyro

from cloze.cli.common import Flags, OptionalName, OptionalPlace, Settings, TaskName

if TYPE_CHECKING:
    from cloze.tasks.squad import SquadV2
    from cloze.tasks.task import AnyTask


def run(
    task: TaskName,
    predictions: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PREDICTIONS")],
    gold: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GOLD")],
    /,
    *,
    label_column: OptionalName = None,
    na_prob: OptionalPlace = None,
    settings: Settings = (),
    flags: Flags,
) -> None:
    """Score predictions that cloze predict or another program made, with the official metrics of the task.

    Args:
        task: what was predicted; cloze tasks lists what there is.
        predictions: what cloze predict prints, one line for each example, in their order; a file or a URL, as all
            that is read here.
        gold: labelled data in the task's format.
        label_column: name of the column with the label, where it is not the task's own.
        na_prob: for squad_v2, a file that says how sure it is that a question has no answer: null_odds.json of
            Google's code, or the predictions themselves. It brings the best thresholds.
        settings: a setting of the task, as in --set classification.text_column=review; may be given several times.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.cli.scores import score_lines
    from cloze.extras import require
    from cloze.stores import as_place
    from cloze.tasks.config import with_settings
    from cloze.tasks.registry import find_task

    given = configuration.as_overrides({f"{task}.label_column": label_column})
    scored = with_settings(find_task(task)(), [*settings, *given])
    require(scored.libraries, extra="tasks", where=task)
    examples = list(scored.examples(as_place(gold)))
    scored.check_scored(examples)
    answers = scored.predictions(as_place(predictions), examples)
    if na_prob is None:
        scores = scored.score(examples, answers)
    else:
        scores = _squad_v2(scored).scores_with_na_probs(examples, answers, na_prob)
    lines = score_lines(scores, examples=len(examples), data=gold)
    flags.print({"data": str(gold), "examples": len(examples), **scores}, "\n".join(lines))


def _squad_v2(task: "AnyTask") -> "SquadV2":
    from cloze.errors import InputError
    from cloze.tasks.squad import SquadV2

    if not isinstance(task, SquadV2):
        raise InputError("only squad_v2 asks how sure it is that there is no answer", where="--na-prob")
    return task
