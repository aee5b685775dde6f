"""Rows of predictions, and of wrong answers, with what identifies their examples."""

from collections.abc import Iterable
from typing import Any

from cloze.errors import InputError
from cloze.tasks.task import AnyTask


def prediction_row(task: AnyTask, number: int, example: Any, prediction: Any) -> dict[str, Any]:
    """Return a prediction as `cloze predict` writes it: id or row, texts, and the answer.

    Args:
        task: the task.
        number: number of the example, from 1, which is its row if the example has none.
        example: the example.
        prediction: the prediction for it.
    """
    return _identify(task, number, example) | task.to_json(example, prediction)


def check_has_wrong_answers(task: AnyTask) -> None:
    """Check that answers of a task are right or wrong.

    Raises:
        InputError: they are numbers, rankings or vectors.
    """
    if not task.has_wrong_answers:
        what = f"answers of {task.name} are not right or wrong"
        raise InputError(what, where="--errors", remedy="Leave it out; -o writes all predictions")


def wrong_answer_rows(task: AnyTask, answers: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Return the wrong answers to labeled examples, those with the highest confidence first.

    A row has id or row, texts, `gold`, `prediction` and `confidence`; of a tagger also the `word`.

    Args:
        task: the task.
        answers: examples with their predictions.
    """
    rows: list[dict[str, Any]] = [
        _identify(task, number, example)
        | {
            **wrong.details,
            "gold": wrong.gold,
            "prediction": wrong.prediction,
            "confidence": wrong.confidence,
        }
        for number, (example, prediction) in enumerate(answers, 1)
        for wrong in task.wrong_answers(example, prediction)
    ]
    # a file of labels alone has no texts
    absent = [name for name in ("text", "pair") if not any(row.get(name) for row in rows)]
    rows = [{name: value for name, value in row.items() if name not in absent} for row in rows]
    return sorted(
        rows, key=lambda row: -1.0 if row["confidence"] is None else row["confidence"], reverse=True
    )


def _identify(task: AnyTask, number: int, example: Any) -> dict[str, Any]:
    values = task.input_values(example)
    return values if {"id", "row"} & values.keys() else {"row": number, **values}
