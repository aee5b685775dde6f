"""Predict the rows of a file, or texts, with a fine-tuned model."""

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cloze.arguments import check_paths
from cloze.errors import InputError
from cloze.options import CsvSafe, Device, ModelPrecision, Overwrite, RowOptions, ShowProgress
from cloze.parallel_map import AnyWorkers, WorkerPlacement, resolve_workers
from cloze.progress import resolve_progress
from cloze.signatures import checks_arguments
from cloze.tables import format_count

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.reading.memory import Data
    from cloze.inference.predictor import Predictor
    from cloze.reports.explanation_page import ExplainedText
    from cloze.tasks.task import Task

_TEXT_MARK = re.compile(r"\s|[.!?\N{HORIZONTAL ELLIPSIS}\N{IDEOGRAPHIC FULL STOP}]$")
"""Marks an argument as a text, if no file has its name."""
_FILE_NAME = re.compile(r"\.\w{1,8}$")


@checks_arguments()
def predict_file(
    task_or_input: str | Path,
    inputs: str | Path | Sequence[str | Path] = (),
    *,
    model: "Sequence[str | Path] | str | Path | Predictor",
    output: str | Path | None = None,
    top_k: int | None = None,
    csv_safe: CsvSafe = False,
    explain: bool = False,
    page: str | Path | None = None,
    workers: AnyWorkers = 1,
    device: Device = "auto",
    precision: ModelPrecision = None,
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
    **options: Unpack[RowOptions],
) -> Iterator[dict[str, Any]]:
    """Predict the rows of a file, or texts, with a fine-tuned model, in input order and in bounded memory.

    The command line prints those of a file as JSON lines.

    Args:
        task_or_input: name of the task (default: that of the model), or the first input.
        inputs: one path or URL, as in s3://bucket/texts.tsv, of data in the task's format; labels are not needed. Tasks
            on texts also read plain text, a text per line, and - for stdin. Or one or more texts in quotes, which have
            white space or end in a mark such as a period; what names a file is never read as a text.
        model: checkpoint, run or hf://org/name; may be repeated to average logits. In Python also a list of them, or a
            loaded model.
        output: path or URL of a file to write instead: .jsonl, .csv, .tsv, .xlsx or .parquet. It keeps the other
            columns of the input; one that is called as a field of the prediction becomes input_NAME.
        text_column: column with the text (default: text, or as in training).
        top_k: maximum number of classes, or of candidate answers, the most probable first (default: all).
        explain: add the attribution of each word to the predicted label's logit, by integrated gradients.
        page: with explain, HTML file with the words shaded by attribution, instead of the rows.

    Returns:
        The rows, computed while they are read; none if they are written to a file or a page.
    """
    from cloze.data.row_files import write_rows
    from cloze.inference.load import as_predictor, check_models, stream_predictions
    from cloze.inference.predictor import Predictor, read_ahead
    from cloze.tasks.config import with_settings
    from cloze.tasks.predict import check_answer_files, prediction_row, top_k_limiter, with_other_cells

    task, file, texts = find_inputs(task_or_input, inputs)
    placement = _place(workers, device, model, explain=explain)
    check_answer_files(output, None, overwrite=overwrite, source=file, csv_safe=csv_safe)
    if page is not None:
        _check_page(Path(page), output, explain=explain, overwrite=overwrite, source=file)
    shown = resolve_progress(progress)
    models = [] if isinstance(model, Predictor) else check_models(model)
    predictor = as_predictor(model, task, device=placement.local_device, precision=precision)
    configured = with_settings(predictor.task, is_trained=True, **options)
    predictor = replace(predictor, task=configured)
    explained: list[ExplainedText] = []
    if explain:
        from cloze.inference.explain import check_explainable
        from cloze.inference.explain import explain as explain_prediction

        check_explainable(predictor)
        from cloze.reports import explanation_page
    limit = top_k_limiter(configured.answer, top_k)
    source = _open_inputs(configured, file, texts)
    examples, total = read_ahead(configured.read(source, labeled=False, keeps_others=True), source)
    examples, read = tee(examples)
    cells = (others for _, others in read)
    answers = stream_predictions(
        predictor,
        models,
        (example for example, _ in examples),
        placement,
        precision=precision,
        total=total,
        progress=shown,
    )

    def rows() -> Iterator[dict[str, Any]]:
        for number, (example, prediction) in enumerate(answers, 1):
            row = prediction_row(configured, number, example, limit(prediction))
            others = next(cells)
            if output is not None:
                row = with_other_cells(row, others)
            if explain:
                explanation = explain_prediction(predictor, example, prediction)
                row |= {"explanation": asdict(explanation)}
                if page is not None:
                    explained.append((example, explanation))
            yield row

    remaining = rows()
    if output is None and page is None:
        return remaining
    if output is not None:
        write_rows(remaining, str(output), csv_safe=csv_safe, progress=shown)
    if page is not None:
        deque(remaining, maxlen=0)  # those that are not written yet
        explanation_page.write_explanations(
            Path(page), explained, task=configured.name, model=str([*models, predictor.directory][0])
        )
        shown.note(f"wrote {page}: {format_count(len(explained), 'text')}")
    return iter(())


@checks_arguments()
def next_labels(
    input_file: str | Path,
    *,
    model: "str | Path | Predictor",
    top_k: int = 50,
    output: str | Path | None = None,
    csv_safe: CsvSafe = False,
    device: Device = "auto",
    precision: ModelPrecision = None,
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
    **options: Unpack[RowOptions],
) -> list[dict[str, Any]]:
    """Choose the unlabeled rows to label next (active learning): uncertain ones that differ from each other.

    The margin of a row is the difference of its two highest probabilities. k-means groups the rows with the smallest
    margins, ten times as many as `top_k`, and the row nearest to the center of each cluster is chosen. The command
    line prints JSON lines, or writes `output`.

    Args:
        input_file: path or URL of unlabeled data in the format of the task.
        model: a classifier: checkpoint, run or hf://org/name.
        top_k: number of rows.
        output: path or URL of a file to write, as for `predict`.

    Returns:
        The predictions of the rows and their margins, the least certain first.
    """
    from cloze.arguments import check_integer
    from cloze.data.row_files import write_rows
    from cloze.inference.load import as_predictor
    from cloze.inference.next_labels import choose_next_labels
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.config import with_settings
    from cloze.tasks.predict import check_answer_files, prediction_row, with_other_cells

    count, shown = check_integer(top_k, "top_k"), resolve_progress(progress)
    check_answer_files(output, None, overwrite=overwrite, source=input_file, csv_safe=csv_safe)
    predictor = as_predictor(model, device=device, precision=precision)
    task = with_settings(predictor.task, is_trained=True, **options)
    source = to_path_or_url(input_file, "input_file")
    examples, cells = zip(*task.read(source, labeled=False, keeps_others=True), strict=True)
    chosen = choose_next_labels(replace(predictor, task=task), examples, count, progress=shown)
    rows = {
        i: prediction_row(task, i + 1, examples[i], answer) | {"margin": margin}
        for i, answer, margin in chosen
    }
    if output is not None:
        table = (with_other_cells(row, cells[i]) for i, row in rows.items())
        write_rows(table, str(output), csv_safe=csv_safe, progress=shown)
    return list(rows.values())


def find_inputs(
    first: str | Path, others: str | Path | Sequence[str | Path]
) -> tuple[str | None, str, list[str]]:
    """Return the task (None: the model's), the file to read ("" if texts are given), and the texts."""
    from cloze.data.reading.files import STDIN
    from cloze.remote_files import is_url
    from cloze.tasks.registry import TASKS, find_task

    words = [first, *check_paths(others, "input")]
    is_task = first in TASKS and (len(words) > 1 or not os.path.exists(first))
    task = str(words.pop(0)) if is_task else None
    if not words:
        raise InputError(
            "the input is missing", remedy="Give a file, a URL, a text in quotes, or - for stdin"
        )
    sources = [str(word) for word in words if str(word) == STDIN or is_url(word) or os.path.exists(word)]
    is_file = len(words) == 1 and (sources or isinstance(words[0], Path))
    if is_file:
        return task, str(words[0]), []
    texts = list(map(str, words))
    if task is None and sources and texts[1:] == sources and not _TEXT_MARK.search(texts[0]):
        find_task(texts[0])  # says that there is no such task
    if sources:
        what = "names a file, beside other inputs. One file is read at a time, and a file is never read as a text"
        remedy = "Give it alone; a text of this name is read from stdin, as the input -"
        raise InputError(what, where=sources[0], remedy=remedy)
    if unclear := [text for text in texts if _FILE_NAME.search(text) or not _TEXT_MARK.search(text)]:
        what = "no such file; a text has white space or a final mark, and does not end like a file name"
        remedy = (
            "Check the path, or end a text with a period; other texts are read from stdin, as the input -"
        )
        raise InputError(what, where=unclear[0], remedy=remedy)
    return task, "", texts


def _open_inputs(task: "Task", file: str, texts: Sequence[str]) -> "Data":
    """Return a file, or texts as the rows of a task."""
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.data import read_memory

    if not texts:
        return to_path_or_url(file)
    names = [
        column.names[0]
        for column in task.reader.options(task.answer, labeled=False).columns
        if column.is_required
    ]
    if len(names) > 1:
        row = ", ".join(f'"{name}": "…"' for name in names)
        remedy = f"Write rows such as {{{row}}} to a .jsonl file"
        raise InputError(
            f"{task.name} reads {' and '.join(names)} of each example", where="input", remedy=remedy
        )
    return read_memory(task, texts, "text", labeled=False)[1]


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
    page: Path, output: str | Path | None, *, explain: bool, overwrite: bool, source: str
) -> None:
    """Check the page before any work is done."""
    from cloze.artifacts import check_output_path

    if not explain:
        raise InputError("needs `explain`", where="page")
    check_output_path(page, overwrite=overwrite, inputs=[source] if source else [], directory=False)
    if output is not None and page.resolve() == Path(output).resolve():
        raise InputError("is also the output", where="page", remedy="Choose another name")
