"""Predict the rows of a file with a fine-tuned model."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.arguments import check_path, check_text
from cloze.choices import InferencePrecision, TaggingFormat
from cloze.errors import InputError
from cloze.parallel_map import AnyWorkers, WorkerPlacement
from cloze.progress import Progress, resolve_progress
from cloze.ray_cluster import resolve_workers
from cloze.suggestions import suggests_keywords
from cloze.tables import format_count

if TYPE_CHECKING:  # not needed for --help
    from cloze.inference.predictor import Predictor
    from cloze.reports.explanation_page import ExplainedText


@suggests_keywords()
def predict_file(
    task_or_input: str | Path,
    input: str | Path | None = None,
    *,
    model: "Sequence[str | Path] | str | Path | Predictor",
    output: str | Path | None = None,
    text_column: str | None = None,
    skip_bad_rows: bool = False,
    format: TaggingFormat | None = None,
    top_k: int | None = None,
    settings: Mapping[str, Any] = {},
    explain: bool = False,
    page: str | Path | None = None,
    workers: AnyWorkers = 1,
    device: str = "auto",
    precision: InferencePrecision | None = None,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> Iterator[dict[str, Any]]:
    """Predict the rows of a file with a fine-tuned model, in input order and in bounded memory.

    The command line prints them as JSON lines.

    Args:
        task_or_input: name of the task (default: that of the model), or the input.
        input: path or URL, as in s3://bucket/texts.tsv, of data in the task's format; labels are not needed. Tasks on
            texts also read plain text, a text per line, and - for stdin.
        model: checkpoint, run or hf://org/name; may be repeated to average logits. In Python also a list of them, or a
            loaded model.
        output: path or URL of a file to write instead: .jsonl, .csv, .tsv or .parquet.
        text_column: column with the text (default: text, or as in training).
        skip_bad_rows: leave out rows that cannot be read, and count them.
        format: for tagging, the format of the files (default: detected from name and lines).
        top_k: maximum number of classes, or of candidate answers, the most probable first (default: all).
        settings: setting of the task, as in classification.pair_column=answer; may be repeated. In Python a dict, as in
            {"classification.pair_column": "answer"}.
        explain: add the attribution of each word to the predicted label's logit, by integrated gradients.
        page: with explain, HTML file with the words shaded by attribution, instead of the rows.
        workers: number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.
        device: cpu, cuda, mps or auto.
        precision: number format of matrix products; int8 on CPUs (default: float32, or that of the model's directory).
        overwrite: replace existing output.
        progress: True shows progress.

    Returns:
        The rows, computed while they are read; none if they are written to a file or a page.

    Raises:
        InputError: the input, the model or a setting is wrong, or a file exists.
        RunError: a worker died, or the disk is full.
    """
    from cloze.data.reading.files import STDIN
    from cloze.data.reading.table_files import count_rows
    from cloze.data.row_files import check_output, write_rows
    from cloze.inference.ensemble import as_predictor, check_models, stream_predictions
    from cloze.inference.predictor import Predictor, read_ahead
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.answer_rows import prediction_row
    from cloze.tasks.config import with_settings
    from cloze.tasks.predict import top_k_limiter

    task, file = _task_and_input(task_or_input, input)
    placement = _place(workers, device, model, explain=explain)
    check_output(None if output is None else str(output), overwrite=overwrite, source=file)
    if page is not None:
        page = _check_page(page, output, explain=explain, overwrite=overwrite, source=file)
    shown = resolve_progress(progress)
    models = [] if isinstance(model, Predictor) else check_models(model)
    predictor = as_predictor(model, task, device=placement.local_device, precision=precision)
    configured = with_settings(
        predictor.task,
        settings,
        is_trained=True,
        text_column=text_column,
        format=format,
        skip_bad_rows=skip_bad_rows,
    )
    predictor = predictor.with_task(configured)
    explained: list[ExplainedText] = []
    if explain:
        from cloze.inference.explain import check_explainable
        from cloze.inference.explain import explain as explain_prediction

        check_explainable(predictor)
        from cloze.reports import explanation_page
    limit = top_k_limiter(configured, top_k)
    source = to_path_or_url(file)
    examples, total = configured.examples(source, labeled=False), None
    if file != STDIN:
        examples, total = read_ahead(examples)
        total = total or count_rows(source)
    answers = stream_predictions(
        predictor,
        models,
        examples,
        placement,
        precision=precision,
        total=total,
        progress=shown,
    )

    def rows() -> Iterator[dict[str, Any]]:
        for number, (example, prediction) in enumerate(answers, 1):
            row = prediction_row(configured, number, example, limit(prediction))
            if explain:
                explanation = explain_prediction(predictor, example, prediction)
                row |= {"explanation": asdict(explanation)}
                if page is not None:
                    explained.append(explanation_page.ExplainedText(example, explanation))
            yield row

    remaining = rows()
    if output is None and page is None:
        return remaining
    if output is not None:
        write_rows(remaining, str(output), progress=shown)
    if page is not None:
        deque(remaining, maxlen=0)  # those that are not written yet
        explanation_page.write_explanations(
            page, explained, task=configured.name, model=str([*models, predictor.directory][0])
        )
        shown.note(f"wrote {page}: {format_count(len(explained), 'text')}")
    return iter(())


def _task_and_input(first: str | Path, second: str | Path | None) -> tuple[str | None, str]:
    """Return the task, or None for the model's own, and the input, which is the only argument or the second."""
    from cloze.tasks.registry import tasks

    if second is not None:
        check_path(second, "input")
        return check_text(first, "task"), str(second)
    if str(check_path(first, "input")) in tasks() and not Path(first).exists():
        raise InputError("the input is missing", remedy="Give a file, a URL, or - for stdin")
    return None, str(first)


def _place(workers: AnyWorkers, device: str, model: Any, *, explain: bool) -> WorkerPlacement:
    """Return where the model computes; explanations and a loaded model are of this process."""
    from cloze.inference.predictor import Predictor
    from cloze.training.workers import place_workers

    placement = place_workers(resolve_workers(workers), device)
    if explain and not placement.in_process:
        remedy = "Leave out `workers`"
        raise InputError("explanations run in this process", where="explain", remedy=remedy)
    if isinstance(model, Predictor) and not placement.in_process:
        raise InputError("a loaded model answers in this process", where="workers", remedy="Leave it out")
    return placement


def _check_page(
    page: str | Path, output: str | Path | None, *, explain: bool, overwrite: bool, source: str
) -> Path:
    """Return the path of a page; refuse one without explanations, and one that exists or is the output."""
    from cloze.artifacts import check_output_path

    if not explain:
        raise InputError("needs `explain`", where="page")
    path = check_path(page, "page")
    check_output_path(path, overwrite=overwrite, inputs=[source], directory=False)
    if output is not None and path.resolve() == Path(output).resolve():
        raise InputError("is also the output", where="page", remedy="Choose another name")
    return path
