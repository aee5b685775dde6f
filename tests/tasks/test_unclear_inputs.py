"""Inputs whose name or first lines disagree with their content: each is refused or warned of, and its remedy works."""

import json
import warnings
from pathlib import Path

import pytest

from cloze.errors import DataWarning, InputError
from cloze.finetuning.data import read_examples
from cloze.inference.embedding_files import read_texts
from cloze.tasks.task import AnyTask
from helpers import task_of

FILMS = "text\tlabel\n" + "".join(f"film {i}\tgood\nbook {i}\tbad\n" for i in range(15))


def _write(tmp_path: Path, name: str, content: str) -> Path:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path / name


@pytest.mark.parametrize(
    ("content", "message", "name"),
    [
        (
            '{"text": "a film"}\n{"text": "a book"}\n',
            "JSON lines, not plain text. Call the file .jsonl",
            "b.jsonl",
        ),
        (
            "id,text\n1,a film\n2,a book\n",
            "the first line names the columns of a table, .* Call the file .csv",
            "b.csv",
        ),
        ("id\ttext\n1\ta film\n2\ta book\n", "names the columns .* Call the file .tsv", "b.tsv"),
        ('"id";"text"\n1;a film\n2;a book\n', "names the columns .* Call the file .csv", "b.csv"),
    ],
)
def test_a_table_called_text_is_refused_and_the_remedy_works(
    tmp_path: Path, content: str, message: str, name: str
) -> None:
    path = _write(tmp_path, "a.txt", content)
    for read in (
        lambda path: list(task_of("classification").examples(path, labeled=False)),
        lambda path: list(task_of("classification", format="prodigy").examples(path, labeled=False)),
        lambda path: list(read_texts(path)),
    ):
        with pytest.raises(InputError, match=rf"a\.txt:1: .*{message}"):
            read(path)
    assert [
        e.text for e in task_of("classification").examples(_write(tmp_path, name, content), labeled=False)
    ] == [
        "a film",
        "a book",
    ]


def test_settings_of_labeled_rows_hold_for_lines_of_text(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.txt", "a film\na book\n")
    examples = task_of("classification", skip_bad_rows=True).examples(path, labeled=False)
    assert [example.text for example in examples] == ["a film", "a book"]
    with pytest.raises(InputError, match=r"a\.txt:1: 'answer' is null"):
        list(task_of("classification", format="prodigy").examples(path, labeled=False))


def test_columns_without_names_are_no_plain_text(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.txt", "1\ta film\n2\ta book\n")
    with pytest.raises(InputError, match=r"a\.txt:1: columns with tabs .* Call the file \.tsv, with names"):
        list(task_of("classification").examples(path, labeled=False))
    for content in (
        "a film, text\nmore text, here\n",
        "a\tfilm\nbook\n",
        "text\nmore\n",
        "{a} film\n",
        "\n\n",
    ):
        path = _write(tmp_path, "b.txt", content)
        assert len(list(task_of("classification").examples(path, labeled=False))) == 2 - (content[0] == "{")


@pytest.mark.parametrize(
    "task", [task_of("classification", labels=("x", "y")), task_of("tagging", labels=("O", "B-X"))]
)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_an_empty_file_has_no_texts_to_predict(tmp_path: Path, task: AnyTask, name: str) -> None:
    _write(tmp_path, name, "")
    with pytest.raises(InputError, match=rf"{name}: contains no text"):
        list(task.examples(tmp_path / name, labeled=False))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", FILMS + FILMS, r"a\.tsv:32: this row has the names of the columns, .* Remove this line"),
        ("a.tsv", FILMS + "\ufeff" + FILMS, r"a\.tsv:32: this row has the names"),
        (
            "a.csv",
            "Id,Review Text,stars\n1,a,2\n",
            "no column 'text'. There are 'Id', 'Review Text', 'stars'; say which it is with `text_column=NAME` and "
            "`label_column=NAME`; if line 1 is a row, name all: `column_names=text,label`",
        ),
        ("a.csv", "text,stars\na,1\nb,2\n", "no column 'label'.*; say which it is with `label_column=NAME`"),
        ("a.csv", "text,label,label\na,x,x\n", "two columns are called 'label'. Rename one of them"),
        (
            "a.csv",
            "text,label,\na,x,\n",
            "column 3 has no name. Name it in the first line, or remove the sep",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": ["x", "y"]}\n',
            "'label' is a list of 2. The task multi-label learns",
        ),
        ("a.jsonl", '{"text": {"en": "a"}, "label": 1}\n', "not a text. Choose a column of texts"),
        (
            "a.jsonl",
            '{"text": null, "label": 1}\n{"text": "a", "label": 1}\n',
            "`skip_bad_rows` leaves out such",
        ),
    ],
)
def test_tables_are_refused_with_a_way_on(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(task_of("classification").examples(_write(tmp_path, name, content)))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_two_cells_are_no_text_of_one_column(tmp_path: Path, name: str) -> None:
    separator = "\t" if name == "a.tsv" else ","
    path = _write(tmp_path, name, f"a fine film{separator}good\n")
    task = task_of("classification", column_names=("text",))
    with pytest.raises(InputError, match=rf"{name}:1: 2 cells, `column_names` has 1 columns"):
        list(task.examples(path, labeled=False))
    path = _write(tmp_path, name, "a fine film\n")
    assert [example.text for example in task.examples(path, labeled=False)] == ["a fine film"]


def test_blanks_around_names_of_columns_are_not_a_part_of_them(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.csv", "text, label \na, x\n")
    assert [(example.text, example.gold) for example in task_of("classification").examples(path)] == [
        ("a", "x")
    ]


def test_long_numbers_are_different_classes(tmp_path: Path) -> None:
    rows = [{"text": f"film {i}", "label": 10**17 + i % 2} for i in range(20)]
    path = _write(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    task, _, _ = read_examples(task_of("classification"), path, path)
    assert task.answer.labels == ("100000000000000000", "100000000000000001")


def _warnings(task: AnyTask, path: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_examples(task, path, path)
    return [str(warning.message) for warning in caught if issubclass(warning.category, DataWarning)]


def test_labeled_rows_without_a_text_are_told(tmp_path: Path) -> None:
    (warning, _) = _warnings(task_of("classification"), _write(tmp_path, "a.tsv", FILMS + " \tgood\n\tbad\n"))
    assert "a.tsv:32: the text of a labeled row is empty (the first of 2)" in warning
    assert _warnings(task_of("classification"), _write(tmp_path, "a.tsv", FILMS)) == []


def test_a_class_for_every_example_is_told(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.tsv", "text\tlabel\n" + "".join(f"film {i}\t{i / 7:.3f}\n" for i in range(30)))
    (warning,) = _warnings(task_of("classification"), path)
    assert (
        "30 classes in 30 examples: most have one example. Numbers are learned by the task regression"
        in warning
    )
    assert _warnings(task_of("regression"), path) == []
