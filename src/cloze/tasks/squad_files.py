"""Predicted answers to the questions of SQuAD, and confidences that there is no answer."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cloze.data.reading.json_rows import json_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.squad import check_type, get
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl
from cloze.tasks.prediction_files import finite_number, open_predictions, read_prediction_rows


def read_answers(path: Data) -> dict[str, dict[str, Any]]:
    """Read predicted answers by question id: SQuAD's `{id: text}`, or what `cloze predict` wrote.

    Each is an object with `answer` and, if the file says it, `probability`.
    """
    answers = {}
    for name, row in _by_id(path, "answer").items():
        answer = check_type(row["answer"], f"the answer to {name!r}", path, str)
        answers[name] = {"answer": answer} | {
            key: float(row[key]) for key in ("probability",) if isinstance(row.get(key), (int, float))
        }
    return answers


def read_na_probs(path: PathOrUrl) -> dict[str, float]:
    """Read the confidence that a question has no answer: `{id: number}`, or the lines of `cloze predict`."""
    confidences = {}
    for name, row in _by_id(path, "null_odds").items():
        try:
            number = check_type(row["null_odds"], f"the value of {name!r}", path, float, int)
            confidences[name] = finite_number(number)
        except ValueError as error:
            raise InputError(f"the value of {name!r}: {error}", where=path) from error
    return confidences


def _by_id(path: Data, key: str) -> dict[str, Mapping[str, Any]]:
    """Read one JSON object, with the values of `key` by id; or rows with "id" and `key`, of JSON lines or a table."""
    keys = ("id", key, "probability", "null_odds")
    source = open_predictions(path, keys)
    if not source.format.is_json or isinstance(path, MemoryRows):
        return _unique(read_prediction_rows(source, keys), key)
    text = source.read_whole()
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if whole is not None and not (isinstance(whole, dict) and "id" in whole):
        return {name: {key: value} for name, value in check_type(whole, "all of it", path, dict).items()}
    lines = ((line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1))
    return _unique(json_lines(lines), key)


def _unique(rows: Iterable[tuple[Mapping[str, Any], str]], key: str) -> dict[str, Mapping[str, Any]]:
    """Return rows by their id; an id with two values of `key` is an error."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for row, where in rows:
        name = str(get(row, "id", where, str, int))
        value = get(row, key, where, str, float, int)
        if name in by_id and by_id[name][key] != value:
            raise InputError(f"two different answers to the question {name!r}", where=where)
        by_id[name] = row
    return by_id
