"""Fine-tune, score and compare models on labeled data, from files or from memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cloze import config as configuration
from cloze.api.settings import check_resume, finetuning_settings, resolve_finetuning
from cloze.arguments import check_path
from cloze.callbacks import Callback
from cloze.choices import InferencePrecision
from cloze.data.files import file_sha256
from cloze.errors import InputError
from cloze.inference.ensemble import as_predictor
from cloze.inference.predictor import Predictor
from cloze.inference.text_predictors import load_predictor
from cloze.metrics.breakdown import Breakdown
from cloze.optional_dependencies import require
from cloze.parallel_map import Workers
from cloze.progress import Progress, resolve_progress
from cloze.remote_files import PathOrUrl, to_path_or_url
from cloze.tasks.answer_rows import (
    check_answer_files,
    check_has_wrong_answers,
    prediction_row,
    wrong_answer_rows,
)
from cloze.tasks.baselines import ALL, BaselineScores, score_baselines
from cloze.tasks.config import FinetuneConfig, load_finetuning, with_settings
from cloze.tasks.data import find_files, find_split_file, read_examples, warn_of_training_data
from cloze.tasks.finetune import change_finetuning, finetune_with_report, resume_finetuning
from cloze.tasks.hyperparameter_search import scores_of_report
from cloze.tasks.memory import as_file
from cloze.tasks.prediction_files import write_rows
from cloze.tasks.registry import find_task
from cloze.tasks.run import check_trainable
from cloze.tasks.squad import SquadV2, check_takes_na_prob
from cloze.tasks.task import AnyTask, Split, Task
from cloze.training.run import is_run, run_settings_file

_DATA_FOLDER = "data"
"""Folder of a run with data that were given in memory."""


class FinetuneResult(dict[str, float]):
    """The scores of a run on its dev data, and where its model is."""

    def __init__(self, path: Path, report: dict[str, Any], device: str = "auto") -> None:
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
    def model(self) -> Predictor:
        """The best model, loaded on first use: a `TextClassifier` or another class for its task."""
        return load_predictor(self.path, device=self._device)


def finetune(
    task: str | AnyTask,
    config: FinetuneConfig | str | Path | None = None,
    output: str | Path | None = None,
    *,
    train: Any = None,
    dev: Any = None,
    model: str | Path | None = None,
    workers: Workers = 1,
    overwrite: bool = False,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool | Progress = False,
    **settings: Any,
) -> FinetuneResult:
    """Fine-tune a model on labeled data; under torchrun, on all of its ranks.

    All data are read, checked and tokenized before the first step.

    >>> import cloze, tempfile
    >>> notes = [("a fine film", "good"), ("a dull film", "bad")] * 8
    >>> directory = tempfile.mkdtemp()
    >>> result = cloze.finetune(
    ...     "classification", train=notes, dev=notes, model="cloze-mini", output=f"{directory}/run", epochs=1
    ... )
    >>> sorted(result.scores), len(result.model.labels)
    (['accuracy', 'macro_f1', 'majority_accuracy'], 2)

    Args:
        task: name of the task, or the task with its settings.
        config: settings of the run, a TOML file, or the name of a recipe such as "glue".
        output: directory of the run. Several runs, over seeds or a grid, have their directories in its `trials`.
        train: training data: a path or URL; or rows as tuples or dicts, a table of pandas, datasets or Arrow, or a dict
            of columns. Tuples have the values in the order of the task's columns, as in (text, label) or
            (text, pair, label). The run keeps a copy of rows in its folder `data`, so that it can be resumed.
        dev: dev data, likewise; without them a share of the training data is held out.
        model: the checkpoint or run to start from, or "cloze-mini".
        workers: processes or a cluster for several runs; 1 makes them in this process, one after the other.
        overwrite: replace an existing run.
        resume: continue the run in `output` if there is one. Settings and data that are given must be its own, except
            for those that may change on resume.
        callbacks: receive what the run measures.
        progress: True shows progress on stderr, or in a notebook.
        settings: settings of the run and of the task, as in epochs=2, learning_rate=3e-5, seeds=5 or
            text_column="note"; inner ones as in optimizer={"weight_decay": 0.1}.

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
    if output is None:
        raise InputError(
            "is missing", where="output", remedy='Give the directory of the run, as in output="run"'
        )
    run = check_path(output, "output")
    check_resume(resume=resume, overwrite=overwrite)
    inputs: dict[str, Any] = {"model": model if model is None else str(model), "train": train, "dev": dev}
    is_data = {
        name: value
        for name, value in inputs.items()
        if value is not None and not isinstance(value, (str, Path))
    }
    stand_ins = {name: str(run / _DATA_FOLDER / f"{name}.jsonl") for name in is_data}
    paths = {name: str(value) for name, value in inputs.items() if value is not None and name not in is_data}
    table, keywords = finetuning_settings(task, config, {**settings, **paths, **stand_ins})
    shown = resolve_progress(progress)
    if resume and is_run(run):
        name = task if isinstance(task, str) else task.name
        changes = {key: value for key, value in table.items() if key not in is_data}
        if isinstance(task, Task):  # the run knows labels and others that this one lacks
            different = configuration.differences(task, type(task)())
            changes[name] = configuration.nest({key: value for key, (value, _) in different.items()})
            configuration.merge_dicts(changes, {name: keywords.get(name, {})})
        change_finetuning(run, name, changes, keywords)
        _check_data(run, is_data)
        report = resume_finetuning(run, name, workers=workers, callbacks=callbacks, progress=shown)
    else:
        resolved, run_config = resolve_finetuning(task, table)
        for name, data in is_data.items():
            resolved, file = as_file(resolved, data, name, run / _DATA_FOLDER)
            as_setting: dict[str, Any] = {name: file}
            run_config = replace(run_config, **as_setting)
        report = finetune_with_report(
            resolved,
            run_config,
            run,
            workers=workers,
            overwrite=overwrite,
            callbacks=callbacks,
            progress=shown,
        )
    return FinetuneResult(run, report, table.get("device", "auto"))


def _check_data(run: Path, data: Mapping[str, Any]) -> None:
    """Refuse data in memory that are not those of the run to resume."""
    file = run_settings_file(run, verb="finetune")
    task, saved = load_finetuning(path=file)
    for key, value in data.items():
        path = getattr(saved, key)
        _, in_memory = as_file(task, value, key)
        if path is None or file_sha256(path) != in_memory.sha256:
            remedy = "Leave them out, or start a new run in another output"
            raise InputError("are not the data of the run to resume", where=key, remedy=remedy)


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
