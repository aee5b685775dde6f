"""SQuAD's files: what is read, and what is wrong, told by its place and the question's id."""

import json
import lzma
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cloze.cli import main
from cloze.errors import InputError
from cloze.tasks.data import find_data
from cloze.tasks.squad import SquadV1, SquadV2
from cloze.tasks.squad_files import read_answers, read_na_probs

CONTEXT = "\n Marie Curie was born in Warsaw \ud83d in 1867."
GOOD: dict[str, Any] = {
    "version": "v2.0",
    "data": [
        {
            "title": "Curie",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "q1",
                            "question": "Where was she born?",
                            "answers": [
                                {"text": "Warsaw", "answer_start": 26},
                                {"text": "in Warsaw", "answer_start": 23},
                            ],
                            "is_impossible": False,
                        },
                        {
                            "id": 2,
                            "question": "Who was he?",
                            "answers": [],
                            "is_impossible": True,
                            "plausible_answers": [{"text": "Marie", "answer_start": 2}],
                        },
                    ],
                }
            ],
        }
    ],
}


def _write(path: Path, table: object) -> Path:
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return path


def test_questions_share_their_text_and_keep_their_answers(tmp_path: Path) -> None:
    where, other = SquadV2().examples(_write(tmp_path / "dev.json", GOOD))
    assert where.paragraph is other.paragraph
    assert where.paragraph.text == CONTEXT.replace("\ud83d", "\ufffd")  # half a pair is no character
    assert [answer.text for answer in where.answers] == ["Warsaw", "in Warsaw"]
    assert [other.id, other.question, other.answers] == ["2", "Who was he?", ()]
    assert other.where == f"{tmp_path}/dev.json: data[0].paragraphs[0].qas[1] (id 2)"


def test_to_predict_answers_are_not_looked_at(tmp_path: Path) -> None:
    table = deepcopy(GOOD)
    for row in table["data"][0]["paragraphs"][0]["qas"]:
        row.pop("is_impossible")
        row["answers"] = "unknown"
    examples = list(SquadV1().examples(_write(tmp_path / "a.json", table), labelled=False))
    assert [example.answers for example in examples] == [(), ()]


def test_whether_there_is_an_answer_need_not_be_said_twice(tmp_path: Path) -> None:
    table = deepcopy(GOOD)
    for row in table["data"][0]["paragraphs"][0]["qas"]:
        row.pop("is_impossible")
    first, second = SquadV2().examples(_write(tmp_path / "a.json", table))
    assert first.answers
    assert not second.answers


def test_the_files_of_the_benchmark_are_found_compressed_too(tmp_path: Path) -> None:
    (tmp_path / "train-v2.0.json.xz").write_bytes(lzma.compress(json.dumps(GOOD).encode("utf-8-sig")))
    found = find_data(SquadV2(), tmp_path, "train")
    assert len(list(SquadV2().examples(found))) == 2
    with pytest.raises(InputError, match=r"no train-v1.1.json nor"):
        find_data(SquadV1(), tmp_path, "train")


def test_rows_of_a_table_can_be_asked(tmp_path: Path) -> None:
    rows = [{"context": "a b", "question": "a"}, {"context": "a b", "question": "b"}]
    path = _write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    first, second = SquadV1().examples(path, labelled=False)
    assert first.paragraph is second.paragraph
    assert (first.id, second.question) == (f"{path}:1", "b")


def test_a_question_may_stand_twice_but_not_with_another_text(tmp_path: Path) -> None:
    table = deepcopy(GOOD)
    table["data"].append(deepcopy(GOOD["data"][0]))
    assert len(list(SquadV2().examples(_write(tmp_path / "a.json", table)))) == 4
    table["data"][1]["paragraphs"][0]["context"] += " She moved to Paris."
    with pytest.raises(InputError) as raised:
        list(SquadV2().examples(_write(tmp_path / "b.json", table)))
    assert str(raised.value) == (
        f"{tmp_path}/b.json: data[1].paragraphs[0].qas[0] (id q1): "
        "another question with this id stands at data[0].paragraphs[0].qas[0] (id q1)"
    )


Change = Callable[[dict[str, Any]], object]


def _paragraph(change: Change) -> Change:
    return lambda table: change(table["data"][0]["paragraphs"][0])


def _row(change: Change, number: int = 0) -> Change:
    return lambda table: change(table["data"][0]["paragraphs"][0]["qas"][number])


def _answer(**values: object) -> Change:
    return _row(lambda row: row["answers"][1].update(values))


AT_ROW = "bad.json: data[0].paragraphs[0].qas[0] (id q1)"
BAD: dict[str, tuple[Change, str]] = {
    "not an object": (lambda t: t.update(data=3), "bad.json: 'data' must be a list, not 3"),
    "no data": (lambda t: t.pop("data"), "bad.json: 'data' is missing. There are 'version'"),
    "HF's rows": (
        lambda t: t.update(data=[{"id": "1", "context": "x", "question": "y"}]),
        "bad.json: data[0]: 'paragraphs' is missing. There are 'id', 'context', 'question'",
    ),
    "no article": (lambda t: t.update(data=["x"]), 'bad.json: data[0]: "x" is no JSON object'),
    "no questions": (lambda t: t.update(data=[]), "bad.json: holds no questions"),
    "question without a text": (
        _paragraph(lambda p: p.pop("context")),
        "data[0].paragraphs[0]: 'context' is missing. There are 'qas'",
    ),
    "empty text": (
        _paragraph(lambda p: p.update(context=" \n")),
        "data[0].paragraphs[0]: 'context' is empty",
    ),
    "text is a list": (
        _paragraph(lambda p: p.update(context=["a"])),
        "data[0].paragraphs[0]: 'context' must be a text, not [\"a\"]",
    ),
    "no list of questions": (
        _paragraph(lambda p: p.pop("qas")),
        "data[0].paragraphs[0]: 'qas' is missing",
    ),
    "no id": (_row(lambda row: row.pop("id")), "data[0].paragraphs[0].qas[0]: 'id' is missing"),
    "id is true": (
        _row(lambda row: row.update(id=True)),
        "qas[0]: 'id' must be a text or a whole number, not true",
    ),
    "the same id": (
        _row(lambda row: row.update(id="q1"), 1),
        "qas[1] (id q1): another question with this id",
    ),
    "empty question": (_row(lambda row: row.update(question="")), f"{AT_ROW}: 'question' is empty"),
    "no answers": (_row(lambda row: row.pop("answers")), f"{AT_ROW}: 'answers' is missing"),
    "answers in HF's form": (
        _row(lambda row: row.update(answers={"text": ["Warsaw"], "answer_start": [26]})),
        f"{AT_ROW}: 'answers' must be a list, not",
    ),
    "answer is a text": (
        _row(lambda row: row.update(answers=["Warsaw"])),
        'qas[0] (id q1).answers[0]: "Warsaw" is no JSON object',
    ),
    "impossible with answers": (
        _row(lambda row: row.update(is_impossible=True)),
        f"{AT_ROW}: is_impossible is true, and there are 2 answers",
    ),
    "possible without answers": (
        _row(lambda row: row.update(is_impossible=False), 1),
        "qas[1] (id 2): is_impossible is false, and there are 0 answers",
    ),
    "is_impossible is a number": (
        _row(lambda row: row.update(is_impossible=0)),
        f"{AT_ROW}: 'is_impossible' must be true or false, not 0",
    ),
    "an answer elsewhere": (
        _answer(answer_start=22),
        f"{AT_ROW}.answers[1]: the answer 'in Warsaw' does not stand at 22: there is ' in Warsa'. "
        "The text has 43 characters; answer_start counts them from 0",
    ),
    "an answer before the text": (_answer(answer_start=-3), "does not stand at -3: there is ''"),
    "an answer behind the text": (_answer(answer_start=99), "does not stand at 99: there is ''"),
    "a place that is a text": (
        _answer(answer_start="23"),
        "answers[1]: 'answer_start' must be a whole number, not \"23\"",
    ),
    "an empty answer": (_answer(text=""), f"{AT_ROW}.answers[1]: 'text' is empty"),
    "an answer without text": (
        _row(lambda row: row["answers"][0].pop("text")),
        "answers[0]: 'text' is missing. There are 'answer_start'",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_data_are_told_by_their_place(kind: str, tmp_path: Path) -> None:
    change, message = BAD[kind]
    table = deepcopy(GOOD)
    change(table)
    with pytest.raises(InputError) as raised:
        list(SquadV2().examples(_write(tmp_path / "bad.json", table)))
    assert message in str(raised.value)
    assert raised.value.exit_code == 2


BAD_FILES = {
    "half a file": (json.dumps(GOOD, indent=1)[:200].encode(), "bad.json:12: not JSON: "),
    "not UTF-8": (b'{"data": "\xff"}', "bad.json: not UTF-8 at byte 11"),
    "a list": (b"[]", "bad.json: [] is no JSON object"),
    "nothing": (b"", "bad.json:1: not JSON: Expecting value"),
    "too deep": (b"[" * 100_000, "bad.json: not JSON: "),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_what_is_no_json_is_told_by_its_line(kind: str, tmp_path: Path) -> None:
    content, message = BAD_FILES[kind]
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(InputError) as raised:
        list(SquadV1().examples(tmp_path / "bad.json"))
    assert message in str(raised.value)


def test_a_file_of_version_2_is_not_for_version_1(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"qas\[1\] \(id 2\): has no answer. The task squad_v2 knows"):
        list(SquadV1().examples(_write(tmp_path / "a.json", GOOD)))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path, what in ((tmp_path, "is a directory"), (tmp_path / "none.json", "no such file")):
        with pytest.raises(InputError, match=what):
            list(SquadV1().examples(path))


def test_answers_in_both_forms(tmp_path: Path) -> None:
    official = _write(tmp_path / "a.json", {"q1": "Warsaw", "2": ""})
    lines = _write(
        tmp_path / "b.jsonl",
        '{"id": "q1", "answer": "Warsaw", "null_odds": -1.5}\n{"id": 2, "answer": "", "null_odds": 3}\n',
    )
    assert read_answers(official) == read_answers(lines) == {"q1": "Warsaw", "2": ""}
    assert read_na_probs(lines) == {"q1": -1.5, "2": 3.0}
    other_order = _write(
        tmp_path / "d.jsonl", '{"answer": "Warsaw", "id": "q1"}\n\n{"answer": "", "id": 2}\n'
    )
    assert read_answers(other_order) == read_answers(official)
    assert read_na_probs(_write(tmp_path / "c.json", {"q1": 0.5, "2": 1})) == {"q1": 0.5, "2": 1.0}


BAD_ANSWERS = {
    "not a text": ({"q1": 7, "2": ""}, "the answer to 'q1' must be a text, not 7"),
    "a list": ([1], "all of it must be an object, not [1]"),
    "no id": ('{"id": "q1", "answer": "x"}\n{"answer": "y"}\n', "a.json:2: 'id' is missing"),
    "a line that is no prediction": ('{"id": "q1", "label": "x"}\n', "a.json:1: 'answer' is missing"),
    "two answers": (
        '{"id": "q1", "answer": "x"}\n{"id": "q1", "answer": "y"}\n',
        "a.json:2: the question 'q1' is answered twice, and not the same",
    ),
    "not all": (
        {"q1": "Warsaw"},
        "a.json: says nothing to 1 of 2 questions, such as '2'. An answer that is not there is \"\"",
    ),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_bad_answers(kind: str, tmp_path: Path) -> None:
    content, message = BAD_ANSWERS[kind]
    examples = list(SquadV2().examples(_write(tmp_path / "gold.json", GOOD)))
    with pytest.raises(InputError) as raised:
        SquadV2().predictions(_write(tmp_path / "a.json", content), examples)
    assert message in str(raised.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "9" * 400])
@pytest.mark.parametrize("form", ['{{"q1": {}}}', '{{"id": "q1", "answer": "x", "null_odds": {}}}\n'])
def test_odds_that_are_no_numbers(form: str, number: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"odds\.json: the value of 'q1': .* is not a number"):
        read_na_probs(_write(tmp_path / "odds.json", form.format(number)))


def test_scores_as_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert main(["score", "squad_v2", answers, gold, "--na-prob", answers]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert "qas[1] (id 2): has no answer" in errors[0]
    assert "the value of 'q1' must be a number or a whole number, not \"Warsaw in\"" in errors[1]
