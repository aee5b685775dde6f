"""Scores, breakdowns, wrong answers, collapse and baselines of each family equal those recorded in a golden file.

`python tests/tasks/test_answers_golden.py` writes the file.
"""

import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from cloze.finetuning.data import count_classes
from family_cases import CASES, FAMILIES, Case, gold_output
from helpers import task_of

pytestmark = pytest.mark.protected
GOLDEN = Path(__file__).parents[1] / "golden" / "answers" / "scores.jsonl"
PLAIN_TAGS = "Ann\tNOUN\nran\tVERB\n\nAnn\tNOUN\nBob\tNOUN\nfast\tADV\n\nran\tVERB\n\nAnn\tNOUN\n"
MIXED_NUMBERS = "text\tlabel\ngood\t1\nbad\t0.0\nfine\t1.0\nawful\t0\nbook\t2\n"
OTHERS = ("cola", "mrpc", "mnli", "stsb", "swag")
DATA = {
    **{name: (name, CASES[name]) for name in sorted({*FAMILIES, *OTHERS})},
    "tagging (plain)": ("tagging", Case("a.conll", PLAIN_TAGS)),
    "classification (numbers)": ("classification", Case("a.tsv", MIXED_NUMBERS)),
}
"""The task and the data of each part of the golden file."""
ANSWERS = ("right", "wrong", "partly", "blank")


def _output(task: cloze.Task, feature: Any, number: int, kind: str) -> Any:
    """Return the output of a model whose answers are right, or of which all, every other or none say something."""
    right = gold_output(task, feature)
    if kind == "blank":
        return np.zeros_like(right)
    if kind == "right" or (kind == "partly" and number % 2 == 0):
        return right
    if right.size == 1:
        return 1 - right
    if right.ndim == 2 and len(right) == 2 and right.shape[1] > 2:  # the vectors of a pair
        return np.stack([np.roll(right[0], 1), right[1]])
    return np.roll(right, 1, axis=0 if right.shape[-1] == 2 and right.ndim == 2 else -1)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def _measure(name: str, folder: Path, tokenizer: cloze.Tokenizer) -> Iterator[dict[str, Any]]:
    """Yield everything that is told of some answers to the data of a task, and of its baselines."""
    task_name, case = DATA[name]
    path = folder / case.file
    path.write_text(case.content, encoding="utf-8")
    task = task_of(task_name, **case.settings)
    examples = list(task.examples(path))
    task = task.fit(examples)
    yield {"data": name, "classes": count_classes(task, examples)}
    for kind in ANSWERS:
        predictions = []
        for number, example in enumerate(examples):
            features = task.answer.features(example, tokenizer, max_seq_length=40)
            outputs = [_output(task, feature, number, kind) for feature in features]
            predictions.append(task.answer.decode(example, features, outputs))
        answers = list(zip(examples, predictions, strict=True))
        scores = task.score(examples, predictions)
        fitted = cloze.EvaluationResult(
            scores, data="a", counts={"examples": len(answers)}, task=task, answers=answers
        )
        rows = json.loads(json.dumps(list(fitted.predictions)))
        (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = {f"{task_name}.{key}": value for key, value in case.settings.items()}
        read = cloze.score(task_name, folder / "answers.jsonl", path, settings=settings)
        told = []
        for result in (fitted, read):
            wrong = result.wrong_answers if task.answer.has_wrong_answers() else None
            told.append({**result.to_dict(), "data": name, "wrong": wrong})
        assert _rounded(told[0]) == _rounded(told[1])
        first_row = rows[:1] if kind == "right" else []
        yield {
            "answers": kind,
            **told[0],
            "collapse": task.collapse(examples, predictions),
            "rows": first_row,
        }
    if not task.answer.baselines(examples):
        return
    for result in cloze.baseline(task_of(task_name, **case.settings), train=str(path), dev=str(path)):
        yield {"data": name, "baseline": result.baseline, "scores": result.scores}


def _lines(name: str, folder: Path, tokenizer: cloze.Tokenizer) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [json.loads(json.dumps(_rounded(row))) for row in _measure(name, folder, tokenizer)]


@pytest.mark.parametrize("name", DATA)
def test_what_is_told_of_answers_equals_the_golden_file(name, tmp_path, tokenizer):
    golden = [row for row in map(json.loads, GOLDEN.read_text("utf-8").splitlines()) if row["data"] == name]
    for row, expected in zip(_lines(name, tmp_path, tokenizer), golden, strict=True):
        assert row == expected


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1]))
    from nano_fixtures import TOKENS

    small = cloze.WordPieceTokenizer.from_tokens(TOKENS, model_max_length=40)
    with tempfile.TemporaryDirectory() as temporary, GOLDEN.open("w", encoding="utf-8") as file:
        for key in DATA:
            file.writelines(json.dumps(row) + "\n" for row in _lines(key, Path(temporary), small))
