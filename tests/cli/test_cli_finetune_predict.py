"""`cloze finetune`, `predict`, `evaluate` and `score` on one classifier: output, files of answers, and errors."""

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
from samples import save_film_encoder

from cloze.api.evaluation import EvaluationResult
from cloze.cli import main
from cloze.data.row_files import write_rows
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from helpers import read_rows, task_of

NANO = "--set max_seq_length=8 --set micro_batch_tokens=64 --set device=cpu --learning-rate 0.01"
COLUMNS = "--text-column words --label-column mark"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a classifier, and data whose last two labels are wrong."""
    directory = tmp_path_factory.mktemp("films")
    save_film_encoder(directory / "model")
    rows = [[mark, f"{thing} {mark}"] for mark in ("good", "bad") for thing in ("film", "book", "book film")]
    with (directory / "data.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["mark", "words"], *rows * 5])
    data = f"-d {directory}/data.csv {COLUMNS}"
    command = (
        f"finetune classification -m {directory}/model {data} -o {directory}/run --epochs 20 {NANO} --quiet"
    )
    assert main(shlex.split(command)) == 0
    with (directory / "new.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [
                ["id", "words", "mark"],
                ["a1", 'good "film",\nreally', "good"],
                ["a2", "bad\tbook", "bad"],
                ["a3", "film good", "bad"],
                ["a4", "book bad", "good"],
            ]
        )
    return directory


def labels(lines: str) -> list[str]:
    return [json.loads(line)["label"] for line in lines.splitlines()]


@pytest.mark.slow
def test_at_most_top_k_classes_are_printed(films, cloze):
    predict = f"predict classification -m {films}/run {films}/data.csv --quiet"
    expected = cloze(predict).rows
    rows = cloze(f"{predict} --top-k 1").rows
    assert [row["probabilities"] for row in rows] == [{row["label"]: row["probability"]} for row in expected]


def test_predictions_for_stdin_go_to_a_file(films, cloze, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"film good\nbook bad\n")))
    output = tmp_path / "new" / "predictions.jsonl"
    command = f"predict classification -m {films}/run - -o {output} --quiet"
    assert cloze(command) == ("", "")
    assert labels(output.read_text()) == ["good", "bad"]


def test_lone_surrogates_are_escaped(films, tmp_path, cloze):
    (tmp_path / "in.jsonl").write_text('{"words": "good fi\\ud83dlm"}\n{"words": "bad"}\n')
    page, output = tmp_path / "page.html", tmp_path / "out.jsonl"
    predict = f"predict classification -m {films}/run {tmp_path}/in.jsonl --quiet"
    cloze(f"{predict} --explain --page {page} -o {output}")
    assert labels(output.read_text()) == ["good", "bad"]
    assert "\\ud83d" in output.read_text()
    assert "fi\ufffdlm" in page.read_text()


def test_an_imported_checkpoint_keeps_its_task_settings(films, tmp_path, cloze):
    checkpoint = resolve_checkpoint(films / "run", "best")
    cloze(f"import {checkpoint} -o {tmp_path}/copy --quiet")
    of_run, of_copy = (
        cloze(f"predict classification {films}/data.csv -m {model} --quiet").out
        for model in (films / "run", tmp_path / "copy")
    )
    assert of_run == of_copy


def test_printing_settings_downloads_nothing(hub, cloze):
    settings = cloze("finetune classification -m hf://org/model -d D --print-config").out
    assert 'model = "hf://org/model"' in settings
    assert not hub.requests


# Files of answers


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_predictions_have_id_and_text_and_are_scored(films, tmp_path, cloze, ending):
    answers, wrong = tmp_path / f"answers.{ending}", tmp_path / f"wrong.{ending}"
    printed = cloze(f"predict -m {films}/run {films}/new.csv -o {answers}")
    assert printed.out == ""
    assert f"wrote {answers}: 4 rows\n" in printed.err
    rows = read_rows(answers)
    assert [(row["id"], row["text"], row["label"]) for row in rows] == [
        ("a1", 'good "film",\nreally', "good"),
        ("a2", "bad\tbook", "bad"),
        ("a3", "film good", "good"),
        ("a4", "book bad", "bad"),
    ]
    score = cloze(f"score classification {answers} {films}/new.csv {COLUMNS} --errors {wrong} --json")
    assert (score.json["accuracy"], score.json["confusion"]["good"]) == (0.5, {"good": 1, "bad": 1})
    assert f"wrote {wrong}: 2 rows\n" in score.err
    found = read_rows(wrong)
    assert sorted(row["id"] for row in found) == ["a3", "a4"]
    confidences = [float(row["confidence"]) for row in found]
    expected = {row["id"]: float(row["probability"]) for row in rows}
    assert confidences == sorted((expected["a3"], expected["a4"]), reverse=True)


def test_evaluate_prints_scores_by_class_and_writes_the_wrong_answers(films, tmp_path, cloze, error_line):
    command = f"evaluate -m {films}/run -d {films}/new.csv {COLUMNS} --quiet"
    text = cloze(f"{command} --errors {tmp_path}/wrong.tsv").out
    assert "  bad       0.5000  0.5000  0.5000        2\n" in text
    assert "confusion matrix: rows are gold, columns predicted\n        bad  good\n" in text
    found = read_rows(tmp_path / "wrong.tsv")
    assert {(row["id"], row["text"], row["gold"], row["prediction"]) for row in found} == {
        ("a3", "film good", "bad", "good"),
        ("a4", "book bad", "good", "bad"),
    }
    scores = cloze(f"{command} --json").json
    assert scores["by_class"]["bad"] == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "support": 2,
        "errors": 2,
    }
    errors = f"{command} --errors {tmp_path}/wrong.tsv"
    assert "wrong.tsv: already exists" in error_line(errors)
    assert (
        "--errors: is also the output" in cloze(f"{errors} -o {tmp_path}/wrong.tsv --overwrite", code=2).err
    )


def test_an_unknown_ending_is_refused_with_those_that_are_known(films, tmp_path, error_line):
    what = (
        "x.json: the ending '.json' names no format. "
        "End the name in .csv, .tsv, .jsonl, .ndjson, .parquet, .xlsx."
    )
    assert what in error_line(f"predict -m {films}/run {films}/new.csv -o {tmp_path}/x.json")


def test_rows_that_are_left_out_keep_their_numbers(films, tmp_path, cloze):
    (tmp_path / "some.jsonl").write_text('{"words": "film good"}\n{"words": null}\n{"words": "book bad"}\n')
    rows = cloze(f"predict -m {films}/run {tmp_path}/some.jsonl --skip-bad-rows --quiet").rows
    assert [row["row"] for row in rows] == [1, 3]


def test_errors_of_a_task_without_right_and_wrong_are_refused(tmp_path, error_line):
    (tmp_path / "p.jsonl").write_text('{"score": 1}\n' * 2)
    (tmp_path / "gold.tsv").write_text("text\tlabel\na\t1\nb\t2\n")
    command = f"score regression {tmp_path}/p.jsonl {tmp_path}/gold.tsv --errors {tmp_path}/w.csv --quiet"
    assert "--errors: answers of regression are not right or wrong" in error_line(command)


def test_predictions_of_other_programs_have_no_confidence(tmp_path, cloze):
    (tmp_path / "p.jsonl").write_text('{"label": "a"}\n' * 2)
    (tmp_path / "gold.tsv").write_text("text\tlabel\nx\ta\ny\tb\n")
    cloze(f"score classification {tmp_path}/p.jsonl {tmp_path}/gold.tsv --errors {tmp_path}/w.jsonl --quiet")
    expected = {"row": 2, "text": "y", "gold": "b", "prediction": "a", "confidence": None}
    assert read_rows(tmp_path / "w.jsonl") == [expected]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "parquet"])
def test_a_late_row_may_have_one_more_column(ending, tmp_path):
    rows = [{"a": 1, "b": None}] * 5000 + [{"a": 2, "b": "yes", "c": 0.5}]
    assert write_rows(rows, str(tmp_path / f"x.{ending}")) == 5001
    assert [file.name for file in tmp_path.iterdir()] == [f"x.{ending}"]
    first, *_, last = read_rows(tmp_path / f"x.{ending}")
    if ending in ("csv", "tsv"):
        assert (first, last) == ({"a": "1", "b": "", "c": ""}, {"a": "2", "b": "yes", "c": "0.5"})
    else:
        assert {name: value for name, value in first.items() if value is not None} == {"a": 1}
        assert last == {"a": 2, "b": "yes", "c": 0.5}


def test_numbers_have_no_wrong_answers():
    result = EvaluationResult(
        {"pearson": 0.5}, data="rows", counts={"examples": 0}, task=task_of("regression")
    )
    with pytest.raises(InputError, match=r"^wrong_answers: answers of regression are not right or wrong"):
        _ = result.wrong_answers
