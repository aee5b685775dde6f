"""Rows of predictions, and of wrong answers, with what identifies their examples."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cloze.data.reading.memory import plain_row
from cloze.data.row_files import PROBABILITY, check_csv_safe, check_output
from cloze.errors import InputError
from cloze.tasks.prediction_files import input_values
from cloze.tasks.task import Task


def prediction_row(
    task: Task, number: int, example: Any, prediction: Any, *, is_labeled: bool = False
) -> dict[str, Any]:
    """Return a prediction as `cloze predict` writes it: id or row, texts, and the answer.

    Args:
        number: number of the example, from 1, which is its row if the example has none.
        is_labeled: add `gold`, as `cloze evaluate` does.
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
    for name, path in (("output", output), ("errors", errors)):
        check_output(path, overwrite=overwrite, source=file, argument=name)
    if errors is not None and output is not None and str(errors) == str(output):
        raise InputError("is also the output", where="errors", remedy="Choose another name")
    if csv_safe:
        check_csv_safe(output, errors)


def check_has_wrong_answers(
    task: Task,
    *,
    where: str = "errors",
    remedy: str = "Leave it out",
) -> None:
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
    # a file of labels alone has no texts
    absent = [name for name in ("text", "pair") if not any(row.get(name) for row in rows)]
    rows = [{name: value for name, value in row.items() if name not in absent} for row in rows]
    return sorted(
        rows, key=lambda row: -1.0 if row["confidence"] is None else row["confidence"], reverse=True
    )


def _identify(number: int, example: Any) -> dict[str, Any]:
    values = input_values(example)
    return values if {"id", "row"} & values.keys() else {"row": number, **values}
