"""Predictions are scored against the example that they are for, whatever the order of the gold data."""

import json
import math
from pathlib import Path

import pytest

import cloze
from cloze.errors import InputError
from helpers import write_rows

GOLD = [("fine film", "good"), ("dull", "bad"), ("great", "good"), ("dull", "bad")]
PAIRS = [("a", "b", "good"), ("a", "c", "bad"), ("d", "b", "bad")]


SCORED = [(f"text {n}", n) for n in (3, 1, 4, 0, 2)]


@pytest.mark.parametrize(
    ("task", "settings", "metric", "gold", "answer"),
    [
        ("classification", {}, "accuracy", [{"text": a, "label": b} for a, b in GOLD], "label"),
        (
            "classification",
            {"classification.pair_column": "pair"},
            "accuracy",
            [{"text": a, "pair": b, "label": label} for a, b, label in PAIRS],
            "label",
        ),
        ("regression", {}, "pearson", [{"text": a, "label": b} for a, b in SCORED], "score"),
    ],
    ids=["labels", "pairs", "numbers"],
)
def test_predictions_are_matched_by_their_texts(task, settings, metric, gold, answer):
    predictions = [{**row, answer: row["label"]} for row in reversed(gold)]
    assert cloze.score(task, predictions, gold, settings=settings)[metric] == pytest.approx(1)


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_predictions_in_files_are_matched_by_their_texts(tmp_path, suffix):
    file, gold = tmp_path / f"predictions.{suffix}", tmp_path / "gold.csv"
    rows = [{"text": text, "label": label} for text, label in GOLD]
    gold.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in GOLD[1:] + GOLD[:1]))
    lines = map(json.dumps, rows) if suffix == "jsonl" else ["label,text", *(f"{b},{a}" for a, b in GOLD)]
    file.write_text("\n".join(lines) + "\n")
    assert cloze.score("classification", file, gold)["accuracy"] == 1


def test_vectors_in_another_order_are_matched_by_their_texts():
    vectors = {"a": [[1, 0], [1, 0]], "b": [[0, 1], [0, 1]]}
    predictions = [{"text": text, "pair": text, "vectors": pair} for text, pair in vectors.items()]
    gold = [("b", "b"), ("a", "a")]
    assert cloze.score("text-pairs", predictions, gold)["mrr"] == 1
    predictions.append({**predictions[0], "vectors": vectors["b"]})
    with pytest.raises(InputError, match="rows 1 and 3 have the same texts and different predictions"):
        cloze.score("text-pairs", predictions, [*gold, gold[1]])


def test_predictions_for_other_texts_are_refused():
    predictions = [{"text": text, "label": label} for text, label in GOLD[:3]]
    with pytest.raises(InputError, match="no prediction for text 'other'"):
        cloze.score("classification", predictions, [*GOLD[:2], ("other", "good")])


def test_repeated_texts_with_different_predictions_are_refused_in_another_order():
    predictions = [
        {"text": "x", "label": "good"},
        {"text": "x", "label": "bad"},
        {"text": "y", "label": "bad"},
    ]
    gold = [(row["text"], row["label"]) for row in predictions]
    assert cloze.score("classification", predictions, gold)["accuracy"] == 1
    with pytest.raises(InputError, match="rows 1 and 2 have the same texts and different predictions"):
        cloze.score("classification", predictions, gold[::-1])


def test_the_correlation_of_one_row_is_undefined():
    result = cloze.score("regression", [{"score": 1.0}], [("text", 2.0)])
    assert math.isnan(result["spearman"])
    assert math.isnan(result["pearson"])


def test_predictions_without_a_gold_example_are_left_out():
    predictions = [{"row": n, "text": text, "label": label} for n, (text, label) in enumerate(GOLD, 1)]
    with pytest.warns(match="1 of 4 predictions have no gold example, such as text 'great'"):
        result = cloze.score("classification", predictions, [GOLD[3], *GOLD[:2]])
    assert result["accuracy"] == 1
    predictions[3]["label"] = "good"
    with pytest.raises(InputError, match="rows 2 and 4 have the same texts and different predictions"):
        cloze.score("classification", predictions, GOLD[1::-1])


def test_predictions_of_rows_without_labels_are_matched_by_row(tmp_path):
    gold = tmp_path / "gold.csv"
    gold.write_text("text,label\nx,good\ny,\nx,bad\nz,good\n")
    rows = [("x", "good"), ("y", "bad"), ("x", "bad"), ("z", "good")]
    predictions = [{"row": n, "text": text, "label": label} for n, (text, label) in enumerate(rows, 1)]
    with (
        pytest.warns(match="rows are left out"),
        pytest.warns(match="1 of 4 predictions have no gold example, such as text 'y'"),
    ):
        result = cloze.score("classification", predictions, gold, missing_labels="drop")
    assert result["accuracy"] == 1


@pytest.mark.parametrize("blank", ["", None])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "memory"])
def test_a_prediction_without_an_answer_is_refused_in_every_format(
    tmp_path: Path, suffix: str, blank: str | None
) -> None:
    rows = [{"text": text, "label": label} for text, label in GOLD[:2]]
    rows.append({"text": GOLD[2][0], "label": blank})
    predictions = rows if suffix == "memory" else write_rows(tmp_path / f"p.{suffix}", rows)
    with pytest.raises(InputError, match=r"no answer: 'label' is empty\. Give each row an answer"):
        cloze.score("classification", predictions, GOLD[:3])


@pytest.mark.parametrize(("task", "answer"), [("multi-label", "labels"), ("regression", "score")])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_answers_of_other_tasks_are_not_left_out_either(
    tmp_path: Path, suffix: str, task: str, answer: str
) -> None:
    full = {"labels": '["x"]' if suffix != "jsonl" else ["x"], "score": "1" if suffix == "csv" else 1.0}[
        answer
    ]
    path = write_rows(tmp_path / f"p.{suffix}", [{"text": "a", answer: full}, {"text": "b", answer: None}])
    with pytest.raises(InputError, match=f"no answer: '{answer}' is empty"):
        cloze.score(task, path, [("a", "1"), ("b", "2")])


def test_predictions_with_other_ids_are_refused() -> None:
    gold = [
        {"id": name, "text": text, "label": label} for name, (text, label) in zip("abc", GOLD, strict=False)
    ]
    assert cloze.score("classification", gold[::-1], gold)["accuracy"] == 1
    for ids in ("xyz", "abz"):
        predictions = [row | {"id": name} for row, name in zip(gold, ids, strict=True)]
        with pytest.raises(InputError, match=r"no prediction for id '[ac]', example [13] of the gold data"):
            cloze.score("classification", predictions, gold)
    with pytest.raises(InputError, match="no prediction for id 'a'"):  # the same ids, other texts
        cloze.score("classification", [row | {"text": "other"} for row in gold], gold)
    without = [{"text": row["text"], "label": row["label"]} for row in gold]
    assert cloze.score("classification", without[::-1], gold)["accuracy"] == 1
