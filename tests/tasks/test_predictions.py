"""Predictions are scored against the example that they are for, or refused: the rows of `predictions.json`.

A row has a task, settings, the predictions and the gold data (rows in memory, or content by the name of a file), and
parts of the error's message with … between them, or the scores and the warnings.
"""

import json
import math
import warnings
from pathlib import Path

import pytest

import cloze
from helpers import write_rows

pytestmark = pytest.mark.protected
CASES = json.loads(Path(__file__).with_name("predictions.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("task", "settings", "predictions", "gold", "expected"),
    [row for rows in CASES.values() for row in rows],
    ids=[f"{what} {number}" for what, rows in CASES.items() for number, _ in enumerate(rows, 1)],
)
def test_predictions_are_scored_or_refused(tmp_path, task, settings, predictions, gold, expected):
    data = []
    for part in (predictions, gold):
        rows = part
        if isinstance(part, dict):
            [(name, content)] = part.items()
            rows = tmp_path / name
            rows.write_text(content) if isinstance(content, str) else write_rows(rows, content)
        elif isinstance(part[0], list):
            rows = list(map(tuple, part))
        data.append(rows)
    if isinstance(expected, str):
        with pytest.raises(cloze.InputError) as raised:
            cloze.score(task, *data, settings=settings)
        for words in expected.replace("GOLD", str(data[1])).split(" … "):
            assert words in str(raised.value).replace(f"{tmp_path}/gold.jsonl", "gold.jsonl")
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = cloze.score(task, *data, settings=settings)
    warned = expected.get("warns", "")
    for words in warned.split(" … "):
        assert words in "".join(str(warning.message) for warning in caught)
    assert bool(warned) == bool(caught)
    for name, value in expected.items() - {("warns", warned)}:
        assert math.isnan(scores[name]) if value is None else scores[name] == pytest.approx(value)
