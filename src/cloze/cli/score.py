"""`cloze score TASK PREDICTIONS GOLD`: score a file of predictions."""

from typing import Annotated

from tyro.conf import Positional, arg

from cloze.cli import options
from cloze.cli.output import note_written, print_scores
from cloze.errors import InputError


def run(
    task: options.TaskName,
    predictions: Annotated[Positional[str], arg(metavar="PREDICTIONS")],
    gold: Annotated[Positional[str], arg(metavar="GOLD")],
    /,
    *,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    missing_labels: options.MissingLabels = None,
    skip_bad_rows: options.SkipBadRows = False,
    format: options.TaggingFormat = None,
    errors: options.Errors = None,
    overwrite: options.Overwrite = False,
    na_prob: options.OptionalPathOrUrl = None,
    settings: options.TaskSettings = (),
    flags: options.Flags,
) -> None:
    """Score predictions of cloze predict or another program with official metrics.

    Args:
        predictions: Path or URL of the output of cloze predict: a row per example, in order.
        gold: Path or URL of labeled data in the task's format; texts may be missing.
        na_prob: For squad_v2, path or URL of null_odds.json of google-research/bert, or of predictions; adds the scores
            at the best threshold for "no answer".
    """
    from cloze.optional_dependencies import require
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.answer_rows import check_has_wrong_answers, wrong_answer_rows
    from cloze.tasks.prediction_files import check_output, write_rows
    from cloze.tasks.registry import find_task
    from cloze.tasks.squad import SquadV2

    configured = options.configure(
        find_task(task)(),
        settings,
        text_column=text_column,
        label_column=label_column,
        missing_labels=missing_labels,
        skip_bad_rows=skip_bad_rows,
        format=format,
    )
    require(configured.libraries, extra="tasks", where=task)
    check_output(errors, overwrite=overwrite, source=gold)
    if errors is not None:
        check_has_wrong_answers(configured)
    examples = list(configured.gold_examples(to_path_or_url(gold)))
    configured.check_scorable(examples)
    answers = configured.read_predictions(to_path_or_url(predictions), examples)
    if na_prob is None:
        scores = configured.score(examples, answers)
    elif isinstance(configured, SquadV2):
        scores = configured.score_with_na_probs(examples, answers, na_prob)
    else:
        raise InputError("is for the task squad_v2 only", where="--na-prob")
    if errors is not None:
        rows = wrong_answer_rows(configured, zip(examples, answers, strict=True))
        note_written(flags, write_rows(rows, errors), errors)
    breakdown = configured.breakdown(examples, answers)
    print_scores(flags, scores, examples=len(examples), data=gold, breakdown=breakdown)
