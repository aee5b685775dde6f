"""Score models and predictions on labeled data, and pre-trained models on text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cloze.errors import InputError
from cloze.options import CsvSafe, Device, LabeledOptions, ModelPrecision, Overwrite, ShowProgress
from cloze.progress import Progress, resolve_progress
from cloze.results import NamedScores
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.inference.predictor import Predictor
    from cloze.metrics.breakdown import Breakdown
    from cloze.tasks.calibration import Calibration
    from cloze.tasks.task import Task


class EvaluationResult(NamedScores):
    """The scores of a model or of predictions, and what they were computed from."""

    def __init__(
        self,
        scores: Mapping[str, float],
        *,
        data: object,
        counts: Mapping[str, int] | None = None,
        parts: Mapping[str, Mapping[str, float]] = {},
        task: "Task | None" = None,
        answers: Sequence[tuple[Any, Any]] = (),
    ) -> None:
        super().__init__(scores)
        self.data = data
        """The file of the examples."""
        self.counts = {"examples": len(answers)} if counts is None else counts
        """Numbers of examples, by their kind."""
        self.parts = parts
        """Scores of parts of the data, such as the paradigms of BLiMP."""
        self.task = task
        """The task with its settings; None for a pre-trained model."""
        self.answers = answers
        """Every example of the task with its prediction."""

    def __repr__(self) -> str:
        scores = [f"{name}={value:.4g}" for name, value in self.items()]
        counts = [f"{name}={count}" for name, count in self.counts.items()]
        return f"EvaluationResult({', '.join(scores + counts)})"

    @cached_property
    def breakdown(self) -> "Breakdown | None":
        """The scores of each class, tag or kind of question, and the confusion matrix; None for other tasks."""
        if self.task is None:
            return None
        return self.task.answer.breakdown(*map(list, zip(*self.answers, strict=True)))

    @cached_property
    def calibration(self) -> "Calibration | None":
        """The temperature of the probabilities, and the calibration error without and with it; None without one."""
        if self.task is None:
            return None
        return self.task.answer.calibration(*map(list, zip(*self.answers, strict=True)), is_dev=False)

    @property
    def predictions(self) -> Iterator[dict[str, Any]]:
        """The rows that `cloze predict` writes: id or row, texts, and the answer."""
        from cloze.tasks.predict import prediction_row

        for number, answer in enumerate(self.answers, 1):
            assert self.task is not None
            yield prediction_row(self.task, number, *answer)

    @cached_property
    def wrong_answers(self) -> list[dict[str, Any]]:
        """The wrong answers as rows, the most confident first.

        Raises:
            InputError: the answers are numbers, rankings or vectors, which are not right or wrong.
        """
        from cloze.tasks.predict import check_has_wrong_answers, wrong_answer_rows

        if self.task is None:
            return []
        check_has_wrong_answers(self.task, where="wrong_answers", remedy="See predictions")
        return wrong_answer_rows(self.task, self.answers)

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, counts and scores of parts as `--json` prints them."""
        breakdown = {} if self.breakdown is None else self.breakdown.to_dict()
        calibration = {} if self.calibration is None else {"calibration": asdict(self.calibration)}
        return {"data": str(self.data), **self.counts, **self, **self.parts, **breakdown, **calibration}


@checks_arguments()
def evaluate(
    task: str | None = None,
    *,
    model: "Sequence[str | Path] | str | Path | Predictor",
    data: Any,
    output: str | Path | None = None,
    errors: str | Path | None = None,
    csv_safe: CsvSafe = False,
    device: Device = "auto",
    precision: ModelPrecision = None,
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
    **options: Unpack[LabeledOptions],
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
        output: path or URL of a file for the predictions beside `gold`, or the scores of sentences: .jsonl, .csv, .tsv,
            .xlsx or .parquet.
        errors: path or URL of such a file for the wrong answers, the most confident first.
        text_column: column with the text (default: text, or as in training).
        label_column: column with the label (default: label, or as in training).
        settings: setting of the task, as in classification.pair_column=answer, or of mlm and nsp, as in
            max_seq_length=512; may be repeated. In Python a dict, as in {"classification.pair_column": "answer"}.
    """
    from cloze.inference.load import as_predictor, check_models
    from cloze.inference.pretrained_scores import USED_ARGUMENTS, score_pretrained
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import open_data, warn_of_training_data
    from cloze.tasks.predict import check_answer_files, check_has_wrong_answers
    from cloze.tasks.registry import find_task

    shown = resolve_progress(progress)
    task = _find_task_name(model) if task is None else task
    if task in USED_ARGUMENTS:
        of_tasks = {"output": output, "errors": errors, "csv_safe": csv_safe, **options}
        for name, value in of_tasks.items():
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
            text_column=options["text_column"],
            output=output,
            settings=options["settings"],
            device=device,
            precision=precision,
            progress=shown,
        )
        return EvaluationResult(measured.scores, data=data, counts=measured.counts, parts=measured.parts)
    kind = find_task(task, others=[*USED_ARGUMENTS])
    check_answer_files(output, errors, overwrite=overwrite, source=data, csv_safe=csv_safe)
    if errors is not None:
        check_has_wrong_answers(kind)
    predictor = as_predictor(model, task, device=device, precision=precision)
    configured = with_settings(predictor.task, is_trained=True, **options)
    configured, source = open_data(configured, data, "data", "dev")
    examples = list(configured.examples(source))
    warn_of_training_data(predictor.directory, source)  # reads the whole file, so after its rows
    scores, answers = replace(predictor, task=configured).evaluate(examples, progress=shown)
    result = EvaluationResult(scores, data=source, task=configured, answers=answers)
    _write_answers(result, output, errors, shown, csv_safe=csv_safe)
    return result


@checks_arguments()
def score(
    task: "str | Task",
    predictions: Any,
    gold: Any,
    *,
    na_prob: str | Path | None = None,
    errors: str | Path | None = None,
    csv_safe: CsvSafe = False,
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
    **options: Unpack[LabeledOptions],
) -> EvaluationResult:
    """Score predictions of cloze predict or another program with the official metrics of a task.

    >>> import cloze
    >>> gold = [("fine", "good"), ("dull", "bad")]
    >>> cloze.score("classification", [{"label": "good"}, {"label": "good"}], gold)["accuracy"]
    0.5

    Args:
        task: name of the task; cloze tasks lists them. In Python also a task with its settings.
        predictions: path or URL of the output of cloze predict: a row per example, matched by id or row, or
            in the order of gold. In Python also its rows.
        gold: path or URL of labeled data in the task's format. In Python also rows, as for `finetune`.
        na_prob: for squad_v2, path or URL of null_odds.json of google-research/bert, or of predictions; adds the scores
            at the best threshold for "no answer".
        errors: path or URL of a file for the wrong answers, the most confident first: .tsv, .csv, .jsonl, .xlsx or
            .parquet.
        progress: True notes the file that is written.
    """
    from cloze.data.reading.memory import rows_from_memory
    from cloze.remote_files import to_path_or_url
    from cloze.tasks.answers.span import SpanOrNone
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import open_data
    from cloze.tasks.predict import check_answer_files, check_has_wrong_answers

    configured = with_settings(task, **options)
    check_answer_files(None, errors, overwrite=overwrite, source=gold, csv_safe=csv_safe)
    if errors is not None:
        check_has_wrong_answers(configured)
    if na_prob is not None and not isinstance(configured.answer, SpanOrNone):
        raise InputError("is for the task squad_v2 only", where="na_prob", remedy="Leave it out")
    configured, source = open_data(configured, gold, "gold", "dev")
    answer = configured.answer
    examples = list(configured.examples(source))
    answer.check_scorable(examples)
    is_file = isinstance(predictions, (str, Path))
    answers = answer.read_answers(
        to_path_or_url(predictions) if is_file else rows_from_memory(predictions, "predictions"), examples
    )
    if isinstance(answer, SpanOrNone) and na_prob is not None:
        scores = answer.score_with_na_probs(examples, answers, na_prob)
    else:
        scores = configured.score(examples, answers)
    pairs = list(zip(examples, answers, strict=True))
    result = EvaluationResult(scores, data=source, task=configured, answers=pairs)
    _write_answers(result, None, errors, resolve_progress(progress), csv_safe=csv_safe)
    return result


def _find_task_name(model: Any) -> str:
    from cloze.inference.load import check_models
    from cloze.inference.predictor import Predictor, find_task_name
    from cloze.inference.pretrained_scores import USED_ARGUMENTS
    from cloze.model_paths import resolve_checkpoint

    if isinstance(model, Predictor):
        return model.task.name
    first = check_models(model)[0]
    name = find_task_name(resolve_checkpoint(first, graphs=True))
    if name is None:
        remedy = f"Name what to evaluate: {', '.join(USED_ARGUMENTS)}"
        raise InputError("is not fine-tuned, and so has no task", where=first, remedy=remedy)
    return name


def _write_answers(
    result: EvaluationResult,
    output: str | Path | None,
    errors: str | Path | None,
    progress: Progress,
    *,
    csv_safe: bool,
) -> None:
    from cloze.data.row_files import write_rows
    from cloze.tasks.predict import prediction_row

    if output is not None:
        assert result.task is not None
        rows = (
            prediction_row(result.task, number, *answer, is_labeled=True)
            for number, answer in enumerate(result.answers, 1)
        )
        write_rows(rows, str(output), csv_safe=csv_safe, progress=progress)
    if errors is not None:
        write_rows(result.wrong_answers, str(errors), csv_safe=csv_safe, progress=progress)
