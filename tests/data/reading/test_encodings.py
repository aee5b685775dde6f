"""Text in other encodings than UTF-8, and tables whose first line is a row."""

import json
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.errors import InputError
from cloze.inference.embedding_files import read_texts
from cloze.models.bert import BertModel
from cloze.tasks.config import load_finetuned_task, save_finetuned, with_settings
from cloze.tokenization.wordpiece import WordPieceTokenizer
from helpers import task_of
from tiny_models import tiny_config

TEXT = "Ein großes Café – “nah”."
"""Latin 1 lacks its last three characters before the period."""
FILES: dict[str, tuple[str, str]] = {
    "a.csv": ("classification", f"text;label\n{TEXT};gut\nb;schlecht\n"),
    "a.jsonl": ("classification", json.dumps({"text": TEXT, "label": "gut"}, ensure_ascii=False)),
    "a.conll": ("tagging", f"{TEXT.split()[2]} B-LOC\n\nb O\n"),
    "a.json": (
        "squad_v1",
        json.dumps(
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": TEXT,
                                "qas": [
                                    {
                                        "id": "1",
                                        "question": "?",
                                        "answers": [{"text": "Ein", "answer_start": 0}],
                                    }
                                ],
                            }
                        ]
                    }
                ]
            },
            ensure_ascii=False,
        ),
    ),
}
ENCODINGS = ("latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-8-sig")


def write(path: Path, content: str, encoding: str) -> Path:
    path.write_bytes(content.encode(encoding))
    return path


def read(task: str, path: Path, **settings: Any) -> str:
    return str([*task_of(task, **settings).examples(path)])


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", FILES)
def test_text_in_an_encoding_is_that_of_utf8(tmp_path: Path, name: str, encoding: str) -> None:
    task, content = FILES[name]
    if encoding == "latin-1":
        content = content.replace("–", "-").replace("“", "'").replace("”", "'")
    path = tmp_path / name
    expected = read(task, write(path, content, "utf-8"))
    if task == "classification":
        texts = list(read_texts(path))
        document = list(read_documents(*plan_input_shards([path], ReadingConfig())))
    assert read(task, write(path, content, encoding), encoding=encoding) == expected
    if task == "classification":
        assert list(read_texts(path, encoding=encoding)) == texts
        (shard,) = plan_input_shards([path], ReadingConfig(encoding=encoding, shard_bytes=10))
        assert list(read_documents(shard)) == document


def test_longer_text_than_a_buffer(tmp_path: Path) -> None:
    lines = [f"{number} {TEXT}\N{PARTY POPPER}" for number in range(20_000)]
    path = write(tmp_path / "a.txt", "\n".join(lines), "utf-16")
    assert list(read_texts(path, encoding="utf-16")) == lines


@pytest.mark.protected
@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        ("é".encode("latin-1"), None, r"a\.txt:1: not UTF-8.* Say `encoding=cp1252` if .* \(iconv -f latin1"),
        ("a\n".encode("utf-16"), None, r"a\.txt: text in UTF-16.* iconv .*, or say `encoding=utf-16`"),
        (b"ab\x81", "cp1252", r"a\.txt: not cp1252 at byte 3\. Say another `encoding`"),
        (
            "ab\u65e5\u672c\u8a9e".encode("utf-16-be"),
            None,
            r"a\.txt: text in UTF-16.* or say `encoding=utf-16be`",
        ),
        (b"ab\n", "utf-16", r"a\.txt: not utf-16\. Say another `encoding`"),
        ("a\n".encode("utf-16-le") + b"b", "utf-16-le", r"a\.txt: not utf-16-le at byte 5"),
        ("abc\n".encode("utf-16-le"), "latin-1", r"a\.txt: text in UTF-16"),
        (b"a", "rot13", r"encoding: no encoding 'rot13'\. Write it as in utf-8, latin-1"),
        (b"a", "a\0b", "encoding: no encoding"),
    ],
)
def test_text_that_is_not_in_the_encoding_is_refused(
    tmp_path: Path, content: bytes, encoding: str | None, message: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_texts(tmp_path / "a.txt", encoding=encoding))


def test_only_what_takes_an_encoding_advises_it(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", json.dumps({"text": "a", "label": "gut"}), "utf-8")
    answers = write(tmp_path / "answers.jsonl", '{"row": 1, "label": "schön"}', "latin-1")
    with pytest.raises(InputError, match=r"answers\.jsonl:1: not UTF-8") as refused:
        cloze.score("classification", answers, gold=gold)
    assert str(refused.value.remedy).startswith("Convert the file")
    for name in ("answers.jsonl", "answers.csv"):
        wide = write(tmp_path / name, "row,label\n1,gut\n", "utf-16")
        with pytest.raises(InputError, match=rf"{name}: text in UTF-16") as refused:
            cloze.score("classification", wide, gold=gold)
        assert str(refused.value.remedy) == "Convert it: iconv -f utf-16 -t utf-8 OLD > NEW"
    write(answers, '{"row": 1, "label": "schön"}', "latin-1")
    with pytest.raises(InputError) as refused:
        cloze.score("classification", gold, gold=answers)
    assert str(refused.value.remedy).startswith("Say `encoding=cp1252`")


def test_an_encoding_is_of_the_files_and_not_of_the_model(tmp_path: Path) -> None:
    task = task_of(
        "classification",
        labels=("x", "y"),
        encoding="latin-1",
        column_names=("label", "text"),
        text_column="note",
    )
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    model = task.answer.head(BertModel(tiny_config(pieces)))
    tmp_path.joinpath("m").mkdir()
    save_finetuned(tmp_path / "m", model, WordPieceTokenizer.from_tokens(pieces), task, max_seq_length=8)
    assert load_finetuned_task(tmp_path / "m") == task_of(
        "classification", labels=("x", "y"), text_column="note"
    )


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_table_without_names_is_asked_about_and_both_remedies_work(tmp_path: Path, name: str) -> None:
    separator = "," if name == "a.csv" else "\t"
    path = tmp_path / name
    path.write_text(f"a film{separator}good\na book{separator}bad\n")
    with pytest.raises(InputError) as caught:
        read("classification", path)
    assert str(caught.value) == (
        f"{path}:2: no column 'text'. There are 'a film', 'good'; say which it is with `text_column=NAME` and "
        "`label_column=NAME`; if line 1 is a row, name all: `column_names=text,label`."
    )
    task = with_settings("classification", {}, column_names=("text", "label"))
    assert [(e.text, e.gold) for e in task.examples(path)] == [("a film", "good"), ("a book", "bad")]
    task = task_of("classification", text_column="a film", label_column="good")
    assert [(e.text, e.gold) for e in task.examples(path)] == [("a book", "bad")]
    with pytest.raises(InputError, match=r"2 cells, `column_names` has 3 columns"):
        read("classification", path, column_names=("id", "text", "label"))


def test_names_of_columns_in_python_and_in_a_run(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("".join(f"é {i},good\nè {i},bad\n" for i in range(9)).encode("latin-1"))
    for names in ("text,label", ["text", "label"]):
        arguments: dict[str, Any] = {"train": path, "model": "cloze-mini", "output": tmp_path / "run"}
        summary = cloze.validate_data("classification", **arguments, column_names=names, encoding="latin-1")
        assert summary["classes"] == {"bad": 8, "good": 8}
    with pytest.raises(InputError, match="column_names"):
        cloze.validate_data("tagging", train=path, model="cloze-mini", output="x", column_names="word,tag")
    assert task_of("tagging", encoding="latin-1").reader.encoding == "latin-1"


def test_named_columns_decide_the_separator(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a, b, c, and d\tgood\n", "utf-8")
    (example,) = task_of("classification", column_names=("text", "label")).examples(path)
    assert (example.text, example.gold) == ("a, b, c, and d", "good")
