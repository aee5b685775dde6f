"""`cloze predict`: print predictions of a fine-tuned model as JSON lines."""

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cloze.cli import options, row_options
from cloze.cli.output import note_written
from cloze.errors import InputError


def run(
    task: options.OptionalTaskName = None,
    input_file: Annotated[str | None, options.Flag(metavar="INPUT")] = None,
    /,
    *,
    model: options.Models,
    output: options.OptionalOutputPathOrUrl = None,
    text_column: row_options.TextColumn = None,
    skip_bad_rows: row_options.SkipBadRows = False,
    format: row_options.TaggingFormat = None,
    top_k: options.TopK = None,
    settings: options.TaskSettings = (),
    explain: options.Switch = False,
    page: options.OptionalPath = None,
    pool: options.WorkerFlags = options.SINGLE_PROCESS,
    device: options.Device = "auto",
    precision: options.Precision = None,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Print predictions of a fine-tuned model as JSON lines, in input order.

    Args:
        task: Name of the task (default: that of the model).
        input_file: Path or URL, as in s3://bucket/texts.tsv, of data in the task's format; labels are not needed.
            Tasks on texts also read plain text, a text per line, and - for stdin.
        output: Path or URL of a file to write instead of stdout: .jsonl, .csv, .tsv or .parquet.
        top_k: Maximum number of classes, or of candidate answers, the most probable first; by default all.
        explain: Add the attribution of each word to the predicted label's logit, by integrated gradients.
        page: With --explain, HTML file with the words shaded by attribution, instead of stdout.
    """
    from cloze.api.models import write_explanation_page
    from cloze.data.files import STDIN
    from cloze.data.table_files import count_rows
    from cloze.inference.ensemble import load_ensemble, stream_predictions
    from cloze.inference.explain import Explanation, check_explainable
    from cloze.inference.explain import explain as explain_prediction
    from cloze.inference.predictor import read_ahead
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.answer_rows import prediction_row
    from cloze.tasks.predict import top_k_limiter
    from cloze.tasks.prediction_files import check_output, write_json_lines, write_rows
    from cloze.training.memory import configure_process_memory
    from cloze.training.workers import place_workers

    configure_process_memory()
    options.required(model, "--model", verb="predict")
    task, input_file = _task_and_input(task, input_file)
    placement = place_workers(pool.resolve(), device)
    if explain and not placement.in_process:
        remedy = "Leave out --workers and --executor"
        raise InputError("explanations run in this process", where="--explain", remedy=remedy)
    check_output(output, overwrite=overwrite, source=input_file)
    if page is not None:
        _check_page(page, output, explain=explain, overwrite=overwrite, source=input_file)
    predictor = load_ensemble(model, task, device=placement.local_device, precision=precision)
    configured = row_options.configure(
        predictor.task,
        settings,
        text_column=text_column,
        format=format,
        skip_bad_rows=skip_bad_rows,
        is_trained=True,
    )
    predictor = replace(predictor, task=configured)
    if explain:
        check_explainable(predictor)
    limit = top_k_limiter(configured, top_k, where="--top-k")
    source = to_path_or_url(input_file)
    examples, total = configured.examples(source, labeled=False), None
    if input_file != STDIN:
        examples, total = read_ahead(examples)
        total = total or count_rows(source)
    answers = stream_predictions(
        predictor,
        model,
        examples,
        placement,
        precision=precision,
        total=total,
        progress=flags.progress,
    )
    explained: list[tuple[Any, Explanation]] = []

    def rows() -> Iterator[dict[str, Any]]:
        for number, (example, prediction) in enumerate(answers, 1):
            row = prediction_row(configured, number, example, limit(prediction))
            if explain:
                explanation = explain_prediction(predictor, example, prediction)
                row |= {"explanation": asdict(explanation)}
                if page is not None:
                    explained.append((example, explanation))
            yield row

    if output is not None:
        note_written(flags, write_rows(rows(), output), output)
    elif page is None:
        write_json_lines(rows(), sys.stdout)
    if page is not None:
        deque(rows(), maxlen=0)  # those that are not written yet
        write_explanation_page(page, explained, task=configured.name, model=str(model[0]))
        note_written(flags, len(explained), str(page), of="text")


def _check_page(page: Path, output: str | None, *, explain: bool, overwrite: bool, source: str) -> None:
    """Refuse a page without explanations, and one that exists or is the output."""
    from cloze.remote_files import check_output_file

    if not explain:
        raise InputError("needs --explain", where="--page")
    check_output_file(page, overwrite=overwrite, source=source)
    if output is not None and page.resolve() == Path(output).resolve():
        raise InputError("is also the output", where="--page", remedy="Choose another name")


def _task_and_input(task: str | None, input_file: str | None) -> tuple[str | None, str]:
    """Return the task, None for that of the model, and the input, which is the only word or the second."""
    from cloze.tasks.registry import tasks

    if input_file is not None:
        return task, input_file
    if task is None or (task in tasks() and not Path(task).exists()):
        raise InputError("the input is missing", remedy="Give a file, a URL, or - for stdin")
    return None, task
