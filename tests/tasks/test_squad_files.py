"""SQuAD's files: questions and answers, and errors that name the place and the question's id."""

import json
import lzma
from typing import Any

import pytest

import cloze
from cloze.cli import main
from cloze.tasks.data import find_split_file
from cloze.tasks.prediction_files import read_by_id
from helpers import task_of

CONTEXT = "\n Marie Curie was born in Warsaw \ud83d in 1867."
ANSWERS = [{"text": "Warsaw", "answer_start": 26}, {"text": "in Warsaw", "answer_start": 23}]
Q1 = {"id": "q1", "question": "Where was she born?", "answers": ANSWERS, "is_impossible": False}
Q2 = {"id": 2, "question": "Who was he?", "answers": [], "is_impossible": True, "plausible_answers": ANSWERS}
GOOD: dict[str, Any] = {
    "version": "v2.0",
    "data": [{"title": "Curie", "paragraphs": [{"context": CONTEXT, "qas": [Q1, Q2]}]}],
}


def _write(path, table):
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return path


def test_questions_share_their_paragraph_and_keep_their_answers(tmp_path):
    where, other = task_of("squad_v2").examples(_write(tmp_path / "dev.json", GOOD))
    assert where.paragraph is other.paragraph
    assert where.paragraph.text == CONTEXT.replace("\ud83d", "\ufffd")  # a lone surrogate
    assert [answer.text for answer in where.answers] == ["Warsaw", "in Warsaw"]
    assert [other.id, other.question, other.answers] == ["2", "Who was he?", ()]
    assert other.where == f"{tmp_path}/dev.json: data[0].paragraphs[0].qas[1] (id 2)"


def test_compressed_benchmark_files_are_found(tmp_path):
    (tmp_path / "train-v2.0.json.xz").write_bytes(lzma.compress(json.dumps(GOOD).encode("utf-8-sig")))
    file = find_split_file(task_of("squad_v2"), tmp_path, "train")
    assert len(list(task_of("squad_v2").examples(file))) == 2
    with pytest.raises(cloze.InputError, match=r"no train-v1.1.json nor"):
        find_split_file(task_of("squad_v1"), tmp_path, "train")


def test_predicted_answers_are_read_in_both_forms(tmp_path):
    official = _write(tmp_path / "a.json", {"q1": "Warsaw", "2": ""})
    lines = _write(
        tmp_path / "b.jsonl",
        '{"id": "q1", "answer": "Warsaw", "null_odds": -1.5}\n{"id": 2, "answer": "", "null_odds": 3}\n',
    )
    other_order = _write(
        tmp_path / "d.jsonl", '{"answer": "Warsaw", "id": "q1"}\n\n{"answer": "", "id": 2}\n'
    )
    for path in (official, lines, other_order):
        answers = {name: row["answer"] for name, row in read_by_id(path, "answer", ["q1", "2"], str).items()}
        assert answers == {"q1": "Warsaw", "2": ""}
    odds = _write(tmp_path / "c.json", {"q1": -1.5, "2": 3})
    for path in (lines, odds):
        values = {
            name: row["null_odds"]
            for name, row in read_by_id(path, "null_odds", ["q1", "2"], float, int).items()
        }
        assert values == {"q1": -1.5, "2": 3.0}


@pytest.mark.protected
@pytest.mark.parametrize("number", ["NaN", "Infinity", "9" * 400])
@pytest.mark.parametrize("form", ['{{"q1": {}}}', '{{"id": "q1", "answer": "x", "null_odds": {}}}\n'])
def test_odds_must_be_finite_numbers(form, number, tmp_path):
    gold = _write(
        tmp_path / "gold.json", {**GOOD, "data": [{"paragraphs": [{"context": CONTEXT, "qas": [Q1]}]}]}
    )
    answers = _write(tmp_path / "answers.json", {"q1": "Warsaw"})
    odds = _write(tmp_path / "odds.json", form.format(number))
    with pytest.raises(cloze.InputError, match=r"odds\.json: the value of 'q1': .* is not a number"):
        cloze.score("squad_v2", answers, gold, na_prob=odds)


def test_score_command(tmp_path, capsys):
    gold = str(_write(tmp_path / "gold.json", GOOD))
    answers = str(_write(tmp_path / "answers.json", {"q1": "Warsaw in", "2": "Marie"}))
    odds = str(_write(tmp_path / "odds.json", {"q1": -2.5, "2": 0.5}))
    assert main(["score", "squad_v2", answers, gold, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["f1"] == pytest.approx(50)
    assert main(["score", "squad_v2", answers, gold, "--na-prob", odds, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores.items() >= plain.items()
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (100, -2.5)
    assert main(["score", "squad_v1", answers, gold, "--na-prob", odds]) == 2
    assert main(["score", "squad_v1", answers, gold]) == 2
    assert main(["score", "squad_v2", answers, gold, "--na-prob", answers]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "--na-prob: is for the task squad_v2 only" in errors[0]
    assert "qas[1] (id 2): has no answer" in errors[1]
    assert "the value of 'q1' must be a number or a whole number, not \"Warsaw in\"" in errors[2]


def test_a_file_of_one_long_line_is_read_as_the_official_one_is(tmp_path):
    paragraph = GOOD["data"][0]["paragraphs"][0] | {"context": CONTEXT + " And so on." * 1_000_000}
    table = {"data": [{"title": "Curie", "paragraphs": [paragraph]}], "version": "v2.0"}
    path = _write(tmp_path / "train.json", table)
    assert path.stat().st_size > 10_000_000
    assert [question.id for question in task_of("squad_v2").examples(path)] == ["q1", "2"]
