"""Score models, predictions and baselines on labeled data, write GLUE's submission, and describe tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.arguments import check_path, check_paths, check_text, iterate
from cloze.choices import InferencePrecision, MissingLabels, TaggingFormat
from cloze.errors import InputError
from cloze.progress import Progress, resolve_progress
from cloze.results import NamedScores

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.reading.memory import Source
    from cloze.inference.predictor import Predictor
    from cloze.metrics.breakdown import Breakdown
    from cloze.tasks.baselines import BaselineScores
    from cloze.tasks.description import TaskDescription
    from cloze.tasks.task import AnyTask, Split


class EvaluationResult(NamedScores):
    """The scores of a model or of predictions, and what they were computed from."""

    def __init__(
        self,
        scores: Mapping[str, float],
        *,
        data: object,
        counts: Mapping[str, int],
        parts: Mapping[str, Mapping[str, float]] = {},
        task: "AnyTask | None" = None,
        answers: Sequence[tuple[Any, Any]] = (),
    ) -> None:
        super().__init__(scores)
        self.data = data
        """The file of the examples."""
        self.counts = counts
        """Numbers of examples, by their kind."""
        self.parts = parts
        """Scores of parts of the data, such as the paradigms of BLiMP."""
        self.task = task
        """The task with its settings; None for a pre-trained model."""
        self.answers = answers
        """Every example of the task with its prediction."""

    def __repr__(self) -> str:
        """Return the scores and the numbers of examples."""
        scores = [f"{name}={value:.4g}" for name, value in self.items()]
        counts = [f"{name}={count}" for name, count in self.counts.items()]
        return f"EvaluationResult({', '.join(scores + counts)})"

    @cached_property
    def breakdown(self) -> "Breakdown | None":
        """The scores of each class, tag or kind of question, and the confusion matrix; None for other tasks."""
        return None if self.task is None else self.task.breakdown(*map(list, zip(*self.answers, strict=True)))

    @property
    def predictions(self) -> Iterator[dict[str, Any]]:
        """The rows that `cloze predict` writes: id or row, texts, and the answer."""
        from cloze.tasks.answer_rows import prediction_row

        for number, answer in enumerate(self.answers, 1):
            assert self.task is not None
            yield prediction_row(self.task, number, *answer)

    @cached_property
    def wrong_answers(self) -> list[dict[str, Any]]:
        """The wrong answers as rows, the most confident first.

        Raises:
            InputError: the answers are numbers, rankings or vectors, which are not right or wrong.
        """
        from cloze.tasks.answer_rows import check_has_wrong_answers, wrong_answer_rows

        if self.task is None:
            return []
        check_has_wrong_answers(self.task, where="wrong_answers", remedy="See predictions")
        return wrong_answer_rows(self.task, self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, counts and scores of parts as `--json` prints them."""
        breakdown = {} if self.breakdown is None else self.breakdown.to_dict()
        return {"data": str(self.data), **self.counts, **self, **self.parts, **breakdown}


def evaluate(
    task: str | None = None,
    *,
    model: "Sequence[str | Path] | str | Path | Predictor",
    data: Any,
    output: str | Path | None = None,
    errors: str | Path | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    missing_labels: MissingLabels | None = None,
    skip_bad_rows: bool = False,
    format: TaggingFormat | None = None,
    settings: Mapping[str, Any] = {},
    device: str = "auto",
    precision: InferencePrecision | None = None,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> EvaluationResult:
    """Score a model on labeled data with the official metrics of its task, or a pre-trained model on text.

    Args:
        task: name of the task (default: that of the model), or of scores of a pre-trained model: mlm (masked words),
            nsp (next sentence), fill, likelihood or blimp.
        model: checkpoint, run or hf://org/name; may be repeated to average logits. In Python also a list of them, or a
            loaded model.
        data: path or URL of a file in the task's format, or of a benchmark's directory (its dev file). For mlm and nsp:
            text, or a data set (its held-out documents). For fill: table with the columns text, with one [MASK], and
            answer. For likelihood: text with a sentence per line, or a table. For blimp: BLiMP's JSON lines. In Python
            also rows, as for `finetune`.
        output: path or URL of a file for the predictions, or the scores of sentences: .jsonl, .csv, .tsv or .parquet.
        errors: path or URL of a file for the wrong answers, the most confident first, likewise.
        text_column: column with the text (default: text, or as in training).
        label_column: column with the label (default: label, or as in training).
        missing_labels: refuse rows without a label (default), or drop and count them.
        skip_bad_rows: leave out rows that cannot be read, and count them.
        format: for tagging, how files are written, if name and lines do not say so.
        settings: setting of the task, as in classification.pair_column=answer, or of mlm and nsp, as in
            max_seq_length=512; may be repeated. In Python a dict, as in {"classification.pair_column": "answer"}.
        device: cpu, cuda, mps or auto.
        precision: number format of matrix products; int8 on CPUs (default: float32, or that of the model's directory).
        overwrite: replace existing output.
        progress: True shows progress.

    Raises:
        InputError: a row of the data, the model or a setting is wrong, or a file exists.
    """
    from cloze.inference.ensemble import as_predictor, check_models
    from cloze.inference.pretrained_scores import USED_ARGUMENTS, score_pretrained
    from cloze.tasks.answer_rows import check_answer_files, check_has_wrong_answers
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import warn_of_training_data
    from cloze.tasks.registry import find_task

    by_name = {
        "text_column": text_column,
        "label_column": label_column,
        "missing_labels": missing_labels,
        "skip_bad_rows": skip_bad_rows,
        "format": format,
    }
    task = _find_task_name(task, model)
    shown = resolve_progress(progress)
    if task in USED_ARGUMENTS:
        optional = {"output": output, "errors": errors, "settings": settings, **by_name}
        for name, value in optional.items():
            if value and name not in USED_ARGUMENTS[task]:
                raise InputError(f"not used by evaluate {task}", where=name, remedy="Leave it out")
        first, *others = check_models(model)
        if others:
            what = "only the logits of fine-tuned models can be averaged"
            raise InputError(what, where="model", remedy="Give one model")
        check_answer_files(output, None, overwrite=overwrite, source=data)
        measured = score_pretrained(
            task,
            first,
            data,
            text_column=text_column,
            output=output,
            settings=settings,
            device=device,
            precision=precision,
            progress=shown,
        )
        return EvaluationResult(measured.scores, data=data, counts=measured.counts, parts=measured.parts)
    kind = find_task(task, others=USED_ARGUMENTS)
    check_answer_files(output, errors, overwrite=overwrite, source=data)
    if errors is not None:
        check_has_wrong_answers(kind)
    predictor = as_predictor(model, task, device=device, precision=precision)
    configured = with_settings(predictor.task, settings, is_trained=True, **by_name)
    configured, source = _source(configured, data, "data", "dev")
    if predictor.directory is not None:
        warn_of_training_data(predictor.directory, source)
    evaluation = replace(predictor, task=configured).evaluate(configured.examples(source), progress=shown)
    result = _to_result(configured, source, evaluation.scores, evaluation.answers)
    return _write_answers(result, output, errors, shown)


def score(
    task: "str | AnyTask",
    predictions: Any,
    gold: Any,
    *,
    na_prob: str | Path | None = None,
    errors: str | Path | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    missing_labels: MissingLabels | None = None,
    skip_bad_rows: bool = False,
    format: TaggingFormat | None = None,
    settings: Mapping[str, Any] = {},
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> EvaluationResult:
    """Score predictions of cloze predict or another program with the official metrics of a task.

    >>> import cloze
    >>> gold = [("fine", "good"), ("dull", "bad")]
    >>> cloze.score("classification", [{"label": "good"}, {"label": "good"}], gold)["accuracy"]
    0.5

    Args:
        task: name of the task; cloze tasks lists them. In Python also a task with its settings.
        predictions: path or URL of the output of cloze predict: a row per example, matched by id and texts, else in
            the order of gold. In Python also its rows.
        gold: path or URL of labeled data in the task's format; texts may be missing. In Python also rows, as for
            `finetune`.
        na_prob: for squad_v2, path or URL of null_odds.json of google-research/bert, or of predictions; adds the scores
            at the best threshold for "no answer".
        errors: path or URL of a file for the wrong answers, the most confident first: .tsv, .csv, .jsonl or .parquet.
        text_column: column with the text (default: text).
        label_column: column with the label (default: label).
        missing_labels: refuse rows without a label (default), or drop and count them.
        skip_bad_rows: leave out rows that cannot be read, and count them.
        format: for tagging, how files are written, if name and lines do not say so.
        settings: setting of the task, as in classification.pair_column=answer; may be repeated. In Python a dict, as in
            {"classification.pair_column": "answer"}.
        overwrite: replace existing output.
        progress: True notes the file that is written.

    Raises:
        InputError: a row is wrong, or there are not as many predictions as examples, or the file exists.
    """
    from cloze.data.reading.memory import rows_from_memory
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.answer_rows import check_answer_files, check_has_wrong_answers
    from cloze.tasks.config import with_settings
    from cloze.tasks.squad import SquadV2

    configured = with_settings(
        _as_task(task),
        settings,
        text_column=text_column,
        label_column=label_column,
        missing_labels=missing_labels,
        skip_bad_rows=skip_bad_rows,
        format=format,
    )
    check_answer_files(None, errors, overwrite=overwrite, source=gold)
    if errors is not None:
        check_has_wrong_answers(configured)
    if na_prob is not None and not isinstance(configured, SquadV2):
        raise InputError("is for the task squad_v2 only", where="na_prob", remedy="Leave it out")
    configured, source = _source(configured, gold, "gold", "dev")
    examples = list(configured.gold_examples(source))
    configured.check_scorable(examples)
    is_file = isinstance(predictions, (str, Path))
    answers = configured.read_predictions(
        to_path_or_url(predictions) if is_file else rows_from_memory(predictions, "predictions"), examples
    )
    if isinstance(configured, SquadV2) and na_prob is not None:
        scores = configured.score_with_na_probs(examples, answers, na_prob)
    else:
        scores = configured.score(examples, answers)
    result = _to_result(configured, source, scores, list(zip(examples, answers, strict=True)))
    return _write_answers(result, None, errors, resolve_progress(progress))


class BaselineResult(list["BaselineScores"]):
    """The scores of baselines, by method and number of training examples."""

    def __init__(
        self, scores: "Sequence[BaselineScores]", task: "AnyTask", num_examples: int, data: str
    ) -> None:
        super().__init__(scores)
        self.task = task
        """The task, with the labels of the training data."""
        self.num_examples = num_examples
        """Examples that the baselines were scored on."""
        self.data = data
        """Where these examples are from."""


def baseline(
    task: "str | AnyTask",
    *,
    train: Any,
    dev: Any = None,
    sizes: str | int | Sequence[str | int] = "all",
    text_column: str | None = None,
    label_column: str | None = None,
    missing_labels: MissingLabels | None = None,
    skip_bad_rows: bool = False,
    format: TaggingFormat | None = None,
    settings: Mapping[str, Any] = {},
    progress: bool | Progress = False,
) -> BaselineResult:
    """Score baselines that need no encoder: the majority class, TF-IDF with a linear model, and others.

    Args:
        task: name of the task; cloze tasks lists them. In Python also a task with its settings.
        train: path or URL of a file in the task's format, or of a benchmark's directory. In Python also rows, as for
            `finetune`.
        dev: data to score on, likewise (default: the dev file of the directory, else a tenth of the training data).
        sizes: numbers of training examples for a learning curve, as in 100,500,2000,all. They are drawn at random; each
            sample contains the smaller ones. In Python also a list, as in [100, 500, "all"].
        text_column: column with the text (default: text).
        label_column: column with the label (default: label).
        missing_labels: refuse rows without a label (default), or drop and count them.
        skip_bad_rows: leave out rows that cannot be read, and count them.
        format: for tagging, how files are written, if name and lines do not say so.
        settings: setting of the task, as in classification.pair_column=answer; may be repeated. In Python a dict, as in
            {"classification.pair_column": "answer"}.
        progress: True shows progress.

    Raises:
        InputError: a row of the data or a setting is wrong, or scikit-learn is not installed.
    """
    from cloze.optional_dependencies import require
    from cloze.tasks.baselines import score_baselines
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import find_files, read_examples
    from cloze.tasks.run import check_trainable

    numbers = _parse_sizes(sizes)
    configured = with_settings(
        _as_task(task),
        settings,
        text_column=text_column,
        label_column=label_column,
        missing_labels=missing_labels,
        skip_bad_rows=skip_bad_rows,
        format=format,
    )
    check_trainable(configured)
    require(["sklearn"], extra="tasks", where="a baseline")
    if isinstance(train, (str, Path)) and (dev is None or isinstance(dev, (str, Path))):
        train, dev = find_files(configured, str(train), None if dev is None else str(dev))
    configured, train_file = _source(configured, train, "train", "train")
    dev_file = None
    if dev is not None:
        configured, dev_file = _source(configured, dev, "dev", "dev")
    fitted, examples, held_out = read_examples(configured, train_file, dev_file)
    scores = score_baselines(fitted, examples, held_out, numbers, progress=resolve_progress(progress))
    data = f"held out of {train_file}" if dev_file is None else str(dev_file)
    return BaselineResult(scores, fitted, len(held_out), data)


def glue_submission(
    *,
    model: Sequence[str | Path] | str | Path = (),
    data: str | Path,
    output: str | Path,
    fill_majority: bool = False,
    ensemble: bool = False,
    device: str = "auto",
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> dict[str, str]:
    """Write the eleven prediction files of the GLUE server into a zip file.

    Args:
        model: fine-tuned checkpoint, run or hf://org/name for a task of GLUE; may be repeated. In Python a list of
            them.
        data: directory of GLUE, with a folder per task: CoLA, SST-2, …, diagnostic.
        output: zip file.
        fill_majority: predict the majority label for tasks without a model, as the paper did for WNLI.
        ensemble: average the logits of several models of one task.
        device: cpu, cuda, mps or auto.
        overwrite: replace existing output.
        progress: True shows progress.

    Returns:
        The source of each file by its name, as in "run-of-cola" or "majority: 0".

    Raises:
        InputError: a task has no model, a model is not for a task of GLUE, or test data are missing or incomplete.
    """
    from cloze.artifacts import check_output_path
    from cloze.inference.glue_submission import write_submission

    check_output_path(path := check_path(output, "output"), overwrite=overwrite, directory=False)
    return write_submission(
        check_paths(model, "model"),
        check_path(data, "data"),
        path,
        fill_majority=fill_majority,
        ensemble=ensemble,
        device=device,
        progress=resolve_progress(progress),
    )


def describe_tasks(task: str | None = None) -> "list[TaskDescription]":
    """Describe the tasks by their data, metrics, sources and settings, or one of them.

    Args:
        task: name of the task to describe (default: all of them).

    Raises:
        InputError: there is no such task.
    """
    from cloze.tasks.description import describe_task
    from cloze.tasks.registry import find_task, tasks

    kinds = [kind for _, kind in sorted(tasks().items())] if task is None else [find_task(task)]
    return [describe_task(kind) for kind in kinds]


def _parse_sizes(sizes: Any) -> list[int | None]:
    """Parse numbers of examples and the word "all", which is None."""
    words = sizes.split(",") if isinstance(sizes, str) else [sizes] if isinstance(sizes, int) else sizes
    numbers: list[int | None] = []
    for size in iterate(words, "sizes", "number"):
        word = str(size).strip()
        if word != "all" and not (word.isascii() and word.isdigit() and int(word) > 0):
            remedy = "Give numbers or all, separated by commas, as in 100,500,2000,all"
            raise InputError(f"{word!r} is not a number of examples", where="sizes", remedy=remedy)
        numbers.append(None if word == "all" else int(word))
    return list(dict.fromkeys(numbers))


def _as_task(task: "str | AnyTask") -> "AnyTask":
    from cloze.tasks.registry import find_task
    from cloze.tasks.task import Task

    return task if isinstance(task, Task) else find_task(task)()


def _find_task_name(task: str | None, model: Any) -> str:
    """Return the task, by default that of a model."""
    from cloze.inference.ensemble import check_models
    from cloze.inference.predictor import Predictor, find_task_name
    from cloze.inference.pretrained_scores import USED_ARGUMENTS

    if task is not None:
        return check_text(task, "task")
    if isinstance(model, Predictor):
        return model.task.name
    first = check_models(model)[0]
    name = find_task_name(first)
    if name is None:
        remedy = f"Name what to evaluate: {', '.join(USED_ARGUMENTS)}"
        raise InputError("is not fine-tuned, and so has no task", where=first, remedy=remedy)
    return name


def _source(task: "AnyTask", data: Any, name: str, split: "Split") -> "tuple[AnyTask, Source]":
    """Return the task and the source of data, which may be in memory."""
    from cloze.tasks.data import find_split_file
    from cloze.tasks.memory import read_memory

    if isinstance(data, (str, Path)):
        return task, find_split_file(task, data, split)
    return read_memory(task, data, name)


def _to_result(
    task: "AnyTask", data: "Source", scores: Mapping[str, float], answers: list[tuple[Any, Any]]
) -> EvaluationResult:
    return EvaluationResult(scores, data=data, counts={"examples": len(answers)}, task=task, answers=answers)


def _write_answers(
    result: EvaluationResult, output: str | Path | None, errors: str | Path | None, progress: Progress
) -> EvaluationResult:
    """Write the files of predictions and of wrong answers."""
    from cloze.data.row_files import write_rows

    if output is not None:
        write_rows(result.predictions, str(output), progress=progress)
    if errors is not None:
        write_rows(result.wrong_answers, str(errors), progress=progress)
    return result
