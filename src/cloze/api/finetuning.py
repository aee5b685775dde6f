"""Fine-tune, score and compare models on labeled data, from files or from memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cloze.api.settings import FinetuningRequest
from cloze.api.signatures import takes_arguments_of
from cloze.callbacks import Callback, load_writers
from cloze.choices import InferencePrecision, LongTexts, MissingLabels, Precision, TaggingFormat
from cloze.errors import InputError
from cloze.inference.ensemble import as_predictor
from cloze.inference.predictor import Predictor
from cloze.metrics.breakdown import Breakdown
from cloze.optional_dependencies import require
from cloze.parallel_map import AnyWorkers
from cloze.progress import Progress, resolve_progress
from cloze.ray_cluster import resolve_workers
from cloze.remote_files import PathOrUrl, to_path_or_url
from cloze.tasks.answer_rows import (
    check_answer_files,
    check_has_wrong_answers,
    prediction_row,
    wrong_answer_rows,
)
from cloze.tasks.baselines import ALL, BaselineScores, score_baselines
from cloze.tasks.config import FinetuneConfig, with_settings
from cloze.tasks.data import find_files, find_split_file, read_examples, warn_of_training_data
from cloze.tasks.memory import as_file
from cloze.tasks.prediction_files import write_rows
from cloze.tasks.registry import find_task
from cloze.tasks.run import check_trainable
from cloze.tasks.squad import SquadV2, check_takes_na_prob
from cloze.tasks.task import AnyTask, Split, Task

if TYPE_CHECKING:  # not needed for --help
    from cloze.training.plan import RunPlan


class FinetuneResult(dict[str, float]):
    """The scores of a run on its dev data, and where its model is."""

    def __init__(self, path: Path, report: dict[str, Any], device: str = "auto") -> None:
        from cloze.tasks.hyperparameter_search import scores_of_report

        super().__init__(scores_of_report(report))
        self.path = path
        """Directory of the run."""
        self.report = report
        """The content of `scores.json`, or of `trials.json` of several runs."""
        self._device = device

    def __repr__(self) -> str:
        """Return the path and the scores."""
        return f"FinetuneResult({str(self.path)!r}, {dict(self)})"

    @property
    def scores(self) -> dict[str, float]:
        """The scores on the dev data of the best checkpoint of all runs."""
        return dict(self)

    @cached_property
    def model(self) -> Any:
        """The best model, loaded on first use: a `TextClassifier` or another class for its task."""
        from cloze.inference.load import load

        return load(self.path, device=self._device)


def finetune(
    task: "str | AnyTask | None" = None,
    *,
    output: str | Path,
    model: str | Path | None = None,
    train: Any = None,
    dev: Any = None,
    teacher: str | Path | None = None,
    student_layers: Sequence[int] | None = None,
    unlabeled: str | Path | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    missing_labels: MissingLabels | None = None,
    skip_bad_rows: bool | None = None,
    format: TaggingFormat | None = None,
    long_texts: LongTexts | None = None,
    max_seq_length: int | None = None,
    train_examples: int | None = None,
    epochs: int | None = None,
    patience: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    grid: bool = False,
    device: str | None = None,
    precision: Precision | None = None,
    config: "str | Path | FinetuneConfig | None" = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    report_to: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    workers: AnyWorkers = 1,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> FinetuneResult:
    """Fine-tune a model on labeled data and keep the best epoch.

    All data are read, checked and tokenized before the first step. Settings are the paper's and those of the task,
    then those of the recipe, then `settings`, then the other arguments. With several seeds or a grid, workers train
    several models at a time; under torchrun, all ranks train one.

    Settings for rare classes: classification.class_weights=balanced, or classification.class_weights.LABEL=5. For
    little data: freeze_layers=2 (the lowest), freeze_embeddings=true, optimizer.layer_decay=0.9 (the rate of a layer
    relative to the one above).

    >>> import cloze, tempfile
    >>> notes = [("a fine film", "good"), ("a dull film", "bad")] * 8
    >>> directory = tempfile.mkdtemp()
    >>> result = cloze.finetune(
    ...     "classification", train=notes, dev=notes, model="cloze-mini", output=f"{directory}/run", epochs=1
    ... )
    >>> sorted(result.scores), len(result.model.labels)
    (['accuracy', 'macro_f1', 'majority_accuracy'], 2)

    Args:
        task: name of the task; cloze tasks lists them. Recipes and runs to resume have one. In Python also a task with
            its settings.
        output: directory of the run. Several runs, over seeds or a grid, have their directories in its folder trials.
        model: model to start from: cloze-mini, a checkpoint, a run or hf://org/name.
        train: training data: path or URL, as in s3://bucket/reviews.tsv, of a file in the task's format or of a
            benchmark's directory. In Python also rows: tuples or dicts, a table of pandas, datasets or Arrow, or a
            dict of columns. Tuples have the values in the order of the task's columns, as in (text, label) or
            (text, pair, label). The run keeps a copy of rows, so that it can be resumed.
        dev: data to score on, likewise (default: the dev file of the directory, else a tenth of the training data).
        teacher: fine-tuned checkpoint or run whose outputs the model learns, too.
        student_layers: layers that the model keeps, counted from 0, as in 0,2,5; without a model those of the teacher.
        unlabeled: path or URL of more texts, for which the teacher alone says what is right.
        text_column: column with the text (default: text).
        label_column: column with the label (default: label).
        missing_labels: refuse rows without a label (default), or drop and count them.
        skip_bad_rows: leave out rows that cannot be read, and count them.
        format: for tagging, how files are written, if name and lines do not say so.
        long_texts: truncate texts over max_seq_length (default), or read them in windows.
        max_seq_length: maximum number of tokens of a sequence (default: 128, or that of the task or the model).
        train_examples: number of training examples, drawn at random as in cloze baseline (default: all).
        epochs: number of epochs (default: 3); a grid then keeps it, as it keeps the next two.
        patience: stop after so many evaluations without a better score (default: never).
        batch_size: sequences per optimizer step (default: 32).
        learning_rate: peak learning rate (default: 5e-5).
        seed: seed of head, dropout and the order of the data (default: 12345).
        seeds: number of runs with different seeds, reported with mean and deviation (default: 1).
        grid: search the paper's batch sizes, learning rates and epochs: 18 runs per seed.
        device: cpu, cuda, mps or auto (default: auto).
        precision: number format of matrix products (default: auto, bfloat16 where it is fast).
        config: TOML file, or name of a recipe, as in glue or mrpc-google. In Python also a config object.
        settings: any setting by its key, as in max_seq_length=256; may be repeated.
        report_to: service to log to, as in wandb:PROJECT or mlflow:EXPERIMENT; may be repeated.
        callbacks: receive what the run measures.
        workers: number of processes for several runs, or ray for the cluster at RAY_ADDRESS; 1 makes them in this
            process, one after the other.
        resume: continue the run in the output, or start it if there is none. Settings and data that are given must be
            its own, except for those that may change on resume.
        overwrite: replace an existing run.
        progress: True shows progress on stderr, or in a notebook.

    Returns:
        The scores on the dev data of the best checkpoint of all runs, and its path and model.

    Raises:
        InputError: a setting, a row of the data or the model to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM arrived, and the state was saved.
        RunError: the loss stayed infinite or NaN, the disk is full, or a rank or a worker was lost.

    Source:
        Devlin et al. 2019, 4; google-research/bert run_classifier.py @eedf571.

    Differs:
        The last batch of an epoch has the remaining examples, where Google's code fills it from the next epoch.
    """
    arguments = locals()
    from cloze.tasks import finetune as finetuning
    from cloze.training.memory import configure_process_memory

    configure_process_memory()
    writers = load_writers(report_to, where="report_to")
    if writers and workers != 1:
        what = "several processes cannot log to one service"
        raise InputError(what, where="report_to", remedy="Leave out `workers`")
    request = FinetuningRequest(arguments)
    how: dict[str, Any] = {
        "workers": resolve_workers(workers),
        "callbacks": (*callbacks, *writers),
        "progress": resolve_progress(progress),
    }
    if request.continues():
        report = finetuning.resume_finetuning(request.run, request.task_name, **how)
    else:
        resolved = request.resolve()
        report = finetuning.finetune_with_report(*resolved, request.run, overwrite=overwrite, **how)
    return FinetuneResult(request.run, report, request.table.get("device", "auto"))


@takes_arguments_of(finetune)
def plan_finetuning(arguments: dict[str, Any]) -> "RunPlan":
    """Print memory and time of the run, measured in a few steps, and stop.

    Takes the arguments of `finetune`, and raises its errors.
    """
    from cloze.tasks import finetune as finetuning
    from cloze.training.memory import configure_process_memory

    configure_process_memory()
    progress = resolve_progress(arguments.get("progress", False))
    return finetuning.plan_finetuning(*FinetuningRequest(arguments).resolve(), progress=progress)


@takes_arguments_of(finetune)
def validate_data(arguments: dict[str, Any]) -> dict[str, Any]:
    """Read all data, report the first error, and stop.

    Takes the arguments of `finetune`, and raises its errors. Returns numbers of examples and sequences, the classes
    and the settings of the task.
    """
    from cloze.tasks import finetune as finetuning

    progress = resolve_progress(arguments.get("progress", False))
    return finetuning.validate(*FinetuningRequest(arguments).resolve(), progress=progress)


@takes_arguments_of(finetune)
def finetuning_settings(arguments: dict[str, Any]) -> str:
    """Print the resolved settings as TOML, and stop.

    Takes the arguments of `finetune`, of which model and training data may be missing.
    """
    return FinetuningRequest(arguments).to_toml()


def evaluate(
    model: str | Path | Predictor | Sequence[str | Path],
    data: Any,
    *,
    task: str | None = None,
    output: str | Path | None = None,
    errors: str | Path | None = None,
    device: str = "auto",
    precision: InferencePrecision | None = None,
    overwrite: bool = False,
    progress: bool | Progress = False,
    **settings: Any,
) -> "EvaluationResult":
    """Score a fine-tuned model on labeled data with the official metrics of its task.

    Args:
        model: a checkpoint or a run, several whose logits are averaged, or a loaded model.
        data: labeled data, as for `finetune`; of a directory, the dev file.
        task: the name of its task; by default the one it was fine-tuned for.
        output: file for the predictions: .jsonl, .csv, .tsv or .parquet.
        errors: file for the wrong answers, the most confident first.
        device: cpu, cuda, mps or auto; that of a loaded model.
        overwrite: replace the files.
        precision: number format of matrix products; None is float32, or int8 for the directory of an int8 model.
        progress: True shows progress.
        settings: settings of the task, as in text_column="note".

    Raises:
        InputError: a row of the data, the model or a setting is wrong, or a file exists.
    """
    check_answer_files(output, errors, overwrite=overwrite, source=data)
    predictor = as_predictor(model, task, device=device, precision=precision)
    configured = with_settings(predictor.task, settings, is_trained=True)
    if errors is not None:
        check_has_wrong_answers(configured)
    configured, source = _source(configured, data, "data", "dev")
    if predictor.directory is not None:
        warn_of_training_data(predictor.directory, source)
    evaluation = replace(predictor, task=configured).evaluate(
        configured.examples(source), progress=resolve_progress(progress)
    )
    result = EvaluationResult(evaluation.scores, evaluation.answers, configured, source)
    if output is not None:
        write_rows(result.predictions, str(output))
    if errors is not None:
        write_rows(result.wrong_answers, str(errors))
    return result


class EvaluationResult(dict[str, float]):
    """The scores of predictions, and what they were computed from."""

    def __init__(
        self, scores: Mapping[str, float], answers: list[tuple[Any, Any]], task: AnyTask, data: PathOrUrl
    ) -> None:
        super().__init__(scores)
        self.answers = answers
        """Every example with its prediction."""
        self.task = task
        """The task, with its settings."""
        self.data = data
        """The file of the examples."""

    def __repr__(self) -> str:
        """Return the scores and the number of examples."""
        return f"EvaluationResult({dict(self)}, {len(self.answers):,} examples)"

    @property
    def scores(self) -> dict[str, float]:
        """The scores."""
        return dict(self)

    @cached_property
    def breakdown(self) -> Breakdown | None:
        """The scores of each class, tag or kind of question, and the confusion matrix; None for other tasks."""
        return self.task.breakdown(*map(list, zip(*self.answers, strict=True)))

    @property
    def predictions(self) -> Iterator[dict[str, Any]]:
        """The rows that `cloze predict` writes: id or row, texts, and the answer."""
        return (prediction_row(self.task, number, *answer) for number, answer in enumerate(self.answers, 1))

    @cached_property
    def wrong_answers(self) -> list[dict[str, Any]]:
        """The wrong answers as rows, the most confident first.

        Raises:
            InputError: the answers are numbers, rankings or vectors, which are not right or wrong.
        """
        check_has_wrong_answers(self.task, where="wrong_answers", remedy="See predictions")
        return wrong_answer_rows(self.task, self.answers)


def _source(task: AnyTask, data: Any, name: str, split: Split) -> tuple[AnyTask, PathOrUrl]:
    """Return the task and the file of data, which may be in memory."""
    if isinstance(data, (str, Path)):
        return task, find_split_file(task, data, split)
    return as_file(task, data, name)


class BaselineResult(list[BaselineScores]):
    """The scores of baselines, by method and number of training examples."""

    def __init__(self, scores: list[BaselineScores], task: AnyTask, num_examples: int, data: str) -> None:
        super().__init__(scores)
        self.task = task
        """The task, with the labels of the training data."""
        self.num_examples = num_examples
        """Examples that the baselines were scored on."""
        self.data = data
        """Where these examples are from."""


def baseline(
    task: str | AnyTask,
    train: Any,
    dev: Any = None,
    *,
    sizes: Sequence[int | None] = (ALL,),
    progress: bool | Progress = False,
    **settings: Any,
) -> BaselineResult:
    """Score baselines that need no encoder: the majority class, TF-IDF with a linear model, and others.

    Args:
        task: name of the task, or the task with its settings.
        train: data to learn from, as for `finetune`.
        dev: data to score on; None takes the dev file of a directory, or a tenth of `train`.
        sizes: numbers of training examples, drawn at random; each sample contains the smaller ones. None is all.
        progress: True shows progress.
        settings: settings of the task, as in text_column="note".

    Raises:
        InputError: a row of the data or a setting is wrong, or scikit-learn is not installed.
    """
    configured = with_settings(task if isinstance(task, Task) else find_task(task)(), settings)
    check_trainable(configured)
    require(["sklearn"], extra="tasks", where="a baseline")
    if isinstance(train, (str, Path)) and (dev is None or isinstance(dev, (str, Path))):
        train, dev = find_files(configured, str(train), None if dev is None else str(dev))
    configured, train_file = _source(configured, train, "train", "train")
    dev_file = None
    if dev is not None:
        configured, dev_file = _source(configured, dev, "dev", "dev")
    fitted, examples, held_out = read_examples(configured, to_path_or_url(train_file), dev_file)
    scores = score_baselines(fitted, examples, held_out, sizes, progress=resolve_progress(progress))
    data = f"held out of {train_file}" if dev_file is None else str(dev_file)
    return BaselineResult(scores, fitted, len(held_out), data)


def score_predictions(
    task: str | AnyTask,
    predictions: Any,
    gold: Any,
    *,
    na_prob: str | Path | None = None,
    errors: str | Path | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> EvaluationResult:
    """Score predictions, of `cloze predict` or another program, with the official metrics of a task.

    >>> import cloze
    >>> gold = [("fine", "good"), ("dull", "bad")]
    >>> cloze.score_predictions("classification", [{"label": "good"}, {"label": "good"}], gold)["accuracy"]
    0.5

    Args:
        task: name of the task, or the task with its settings.
        predictions: path or URL of the output of `cloze predict`, or its objects in memory;
            they are matched by id and texts, else in the order of `gold`.
        gold: labeled data, as for `finetune`; texts may be missing.
        na_prob: for squad_v2, the odds that questions have no answer; adds the scores at the best threshold.
        errors: file for the wrong answers, the most confident first: .jsonl, .csv, .tsv or .parquet.
        overwrite: replace the file.
        settings: settings of the task, as in label_column="stars".

    Raises:
        InputError: a row is wrong, or there are not as many predictions as examples, or the file exists.
    """
    configured = with_settings(task if isinstance(task, Task) else find_task(task)(), settings)
    require(configured.libraries, extra="tasks", where=configured.name)
    check_answer_files(None, errors, overwrite=overwrite, source=gold)
    if errors is not None:
        check_has_wrong_answers(configured)
    if na_prob is not None:
        check_takes_na_prob(configured)
    configured, source = _source(configured, gold, "gold", "dev")
    examples = list(configured.gold_examples(to_path_or_url(source)))
    configured.check_scorable(examples)
    if isinstance(predictions, (str, Path)):
        file = to_path_or_url(predictions)
    else:
        _, file = as_file(configured, predictions, "predictions", labeled=False)
    answers = configured.read_predictions(file, examples)
    if isinstance(configured, SquadV2) and na_prob is not None:
        scores = configured.score_with_na_probs(examples, answers, na_prob)
    else:
        scores = configured.score(examples, answers)
    result = EvaluationResult(scores, list(zip(examples, answers, strict=True)), configured, source)
    if errors is not None:
        write_rows(result.wrong_answers, str(errors))
    return result
