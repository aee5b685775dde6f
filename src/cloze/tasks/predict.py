"""The features of examples, the answers of a model for them, and the rows of answers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cloze.arguments import check_integer
from cloze.data.reading.memory import plain_row
from cloze.data.row_files import PROBABILITY, check_csv_safe, check_output
from cloze.errors import InputError
from cloze.models.engine import Batches, Engine, run_batches
from cloze.progress import SILENT, Progress
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.features import input_values
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array
from cloze.tokenization.tokenizer import Tokenizer


def featurize(
    answer: AnswerKind[Any, Any],
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    progress: Progress = SILENT,
) -> list[list[Any]]:
    """Return the features of each example."""
    features = []
    with progress.bar("tokenizing", total=len(examples), unit="examples") as bar:
        for example in examples:
            features.append(answer.features(example, tokenizer, max_seq_length=max_seq_length))
            bar.advance(1)
    return features


def predict(
    answer: AnswerKind[Any, Any],
    engine: Engine,
    examples: Sequence[Any],
    features: Sequence[Sequence[Any]],
    *,
    max_tokens: int | None = None,
    progress: Progress = SILENT,
) -> list[Any]:
    """Return a prediction for each example, in their order."""
    flat = [feature for group in features for feature in group]
    outputs = compute_outputs(answer, engine, flat, max_tokens=max_tokens, progress=progress)
    return decode(answer, examples, features, outputs)


def compute_outputs(
    answer: AnswerKind[Any, Any],
    engine: Engine,
    features: Sequence[Any],
    *,
    max_tokens: int | None = None,
    progress: Progress = SILENT,
) -> dict[int, Array]:
    """Return the output of a model for each feature by its index, in float32."""
    outputs: dict[int, Array] = {}
    lengths = [feature.num_tokens for feature in features]
    batches = Batches(lengths, lambda indices: answer.batch([features[i] for i in indices]), max_tokens)
    with progress.bar("predicting", total=len(features), unit="sequences") as bar:
        for indices, batch, named in run_batches(engine, batches):
            logits, *more = named.values()  # a question's start and end are side by side
            logits = np.stack([logits, *more], axis=-1) if more else logits
            outputs.update(zip(indices, answer.outputs(logits, batch), strict=True))
            bar.advance(len(indices))
    return outputs


def top_k_limiter(answer: AnswerKind[Any, Any], top_k: int | None) -> Callable[[Any], Any]:
    """Return a function that keeps the `top_k` most probable classes or candidates of a prediction, the best first."""
    if top_k is None:
        return lambda prediction: prediction
    count, field = check_integer(top_k, "top_k"), answer.ranked_field
    if field is None:
        raise InputError("the predictions have no classes", where="top_k", remedy="Leave it out")

    def limit(prediction: Any) -> Any:
        ranked = getattr(prediction, field)
        kept = dict(Counter(ranked).most_common(count)) if isinstance(ranked, dict) else ranked[:count]
        return replace(prediction, **{field: kept})

    return limit


def decode(
    answer: AnswerKind[Any, Any],
    examples: Sequence[Any],
    features: Sequence[Sequence[Any]],
    outputs: dict[int, Array],
) -> list[Any]:
    """Return a prediction for each example from the outputs of all features in order."""
    numbers = iter(range(len(outputs)))
    return [
        answer.decode(example, group, [outputs[next(numbers)] for _ in group])
        for example, group in zip(examples, features, strict=True)
    ]


def prediction_row(
    task: Task, number: int, example: Any, prediction: Any, *, is_labeled: bool = False
) -> dict[str, Any]:
    """Return a prediction as `cloze predict` writes it: id or row, else the number from 1, texts, and the answer.

    If it is labeled, `gold` is added, as `cloze evaluate` does.
    """
    gold = task.answer.gold(example) if is_labeled else None
    known = {} if gold is None else {"gold": sorted(gold) if isinstance(gold, frozenset) else gold}
    return _identify(number, example) | known | task.answer.to_json(example, prediction)


def with_other_cells(row: Mapping[str, Any], cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a prediction with the other cells of its input; NAME is input_NAME if the row has a NAME."""
    result = dict(row)
    for name, cell in cells.items():
        while name in result or ("probabilities" in row and name.startswith(PROBABILITY)):
            name = f"input_{name}"
        is_json = cell is None or isinstance(cell, (str, int, float, list, dict))
        result[name] = plain_row({name: cell})[name] if is_json else str(cell)
    return result


def check_answer_files(
    output: str | Path | None,
    errors: str | Path | None,
    *,
    overwrite: bool,
    source: Any,
    csv_safe: bool = False,
) -> None:
    """Check that predictions and wrong answers can be written to their files; None writes none."""
    file = source if isinstance(source, (str, Path)) else ""
    for path in (output, errors):
        check_output(path, overwrite=overwrite, source=file)
    if errors is not None and output is not None and str(errors) == str(output):
        raise InputError("is also the output", where="errors", remedy="Choose another name")
    if csv_safe:
        check_csv_safe(output, errors)


def check_has_wrong_answers(task: Task, *, where: str = "errors", remedy: str = "Leave it out") -> None:
    """Check that answers of a task are right or wrong."""
    if not task.answer.has_wrong_answers():
        what = f"answers of {task.name} are not right or wrong"
        raise InputError(what, where=where, remedy=remedy)


def wrong_answer_rows(task: Task, answers: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Return the wrong answers to labeled examples, those with the highest confidence first.

    A row has id or row, texts, `gold`, `prediction` and `confidence`; of a tagger also the `word`.
    """
    rows: list[dict[str, Any]] = [
        _identify(number, example)
        | {
            **pair.details,
            "gold": pair.gold if pair.gold_text is None else pair.gold_text,
            "prediction": pair.answer if pair.text is None else pair.text,
            "confidence": None if pair.confidence is None or math.isnan(pair.confidence) else pair.confidence,
        }
        for number, (example, prediction) in enumerate(answers, 1)
        for pair in task.answer.pairs(example, prediction)
        if pair.gold != pair.answer
    ]
    return sorted(
        rows, key=lambda row: -1.0 if row["confidence"] is None else row["confidence"], reverse=True
    )


def _identify(number: int, example: Any) -> dict[str, Any]:
    values = input_values(example)
    return values if {"id", "row"} & values.keys() else {"row": number, **values}
