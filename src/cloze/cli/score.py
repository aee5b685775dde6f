"""`cloze score TASK PREDICTIONS GOLD`: score a file of predictions."""

from dataclasses import asdict
from typing import Annotated

from cloze.cli import options, row_options
from cloze.cli.output import print_evaluation


def run(
    task: options.TaskName,
    predictions: Annotated[str, options.Flag(metavar="PREDICTIONS")],
    gold: Annotated[str, options.Flag(metavar="GOLD")],
    /,
    *,
    rows: row_options.RowFlags = row_options.AS_THE_TASK_SAYS,
    errors: options.Errors = None,
    overwrite: options.Overwrite = False,
    na_prob: options.OptionalPathOrUrl = None,
    settings: options.TaskSettings = (),
    flags: options.Flags,
) -> None:
    """Score predictions of cloze predict or another program with official metrics.

    Args:
        predictions: Path or URL of the output of cloze predict: a row per example, matched by id
            and texts, else in order.
        gold: Path or URL of labeled data in the task's format; texts may be missing.
        na_prob: For squad_v2, path or URL of null_odds.json of google-research/bert, or of predictions; adds the scores
            at the best threshold for "no answer".
    """
    from cloze.api.finetuning import score_predictions
    from cloze.tasks.answer_rows import check_answer_files, check_has_wrong_answers
    from cloze.tasks.registry import find_task
    from cloze.tasks.squad import check_takes_na_prob

    configured = row_options.configure(
        find_task(task)(),
        settings,
        **asdict(rows),
    )
    check_answer_files(None, errors, overwrite=overwrite, source=gold, where="--errors")
    if errors is not None:
        check_has_wrong_answers(configured, where="--errors")
    if na_prob is not None:
        check_takes_na_prob(configured, where="--na-prob")
    result = score_predictions(
        configured, predictions, gold, na_prob=na_prob, errors=errors, overwrite=overwrite
    )
    print_evaluation(flags, result, errors=errors)
