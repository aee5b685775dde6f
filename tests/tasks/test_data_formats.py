"""A small file of every format that `cloze tasks formats` lists, as its program writes it."""

import datetime
import json
import zipfile
from pathlib import Path
from typing import Any, get_args

import datasets
import pyarrow
import pytest

import cloze
from cloze.choices import AnnotationFormat, TaggingFormat
from cloze.cli import main
from cloze.data.reading.annotations import ANNOTATION_TOOLS
from cloze.data.reading.directories import source_sha256
from cloze.errors import DataWarning, InputError
from cloze.tasks.data import find_files, open_data
from helpers import task_of, write_rows

ADA = "Ada lives in Oslo"
TAGS = ["B-PER O O B-LOC"]
LABELS = [("A fine film", "good"), ("A dull film", "bad")]


def rows(*columns):
    return {column: [pair[number] for pair in LABELS] for number, column in enumerate(columns)}


def save_dataset(path):
    datasets.Dataset.from_dict(rows("text", "label")).save_to_disk(path)


def save_parquet(path):
    datasets.Dataset.from_dict(rows("text", "label")).to_parquet(path)


def save_arrow(path):
    write_rows(path, pyarrow.table(rows("text", "label")))


def save_splits(path):
    split = datasets.Dataset.from_dict(rows("text", "label"))
    datasets.DatasetDict({"test": split, "train": split, "validation": split}).save_to_disk(path)


def save_argilla(path):
    spans = [{"start": 0, "end": 3, "label": "PER"}, {"start": 13, "end": 17, "label": "LOC"}]
    answers = {"who.responses": [[spans]], "who.responses.status": [["submitted"]]}
    datasets.Dataset.from_dict({"text": [ADA], **answers}).save_to_disk(path)


def workbook(*sheets):
    def save(path):
        book = pytest.importorskip("openpyxl").Workbook()
        book.remove(book.active)
        for cells in sheets:
            sheet = book.create_sheet()
            for row in cells:
                sheet.append(row)
        book.save(path)

    return save


def brat(**files):
    def save(path):
        path.mkdir()
        for name, content in files.items():
            stem, _, extension = name.rpartition("_")
            (path / f"{stem}.{extension}").write_text(content)

    return save


BRAT = {
    "a_txt": f"{ADA}\nwith Bo.",
    "a_ann": "T1\tPER 0 3\tAda\nT2\tLOC 13 17\tOslo\nR1\tlives Arg1:T1 Arg2:T2\nA1\tSure T1\n"
    "#1\tAnnotatorNotes T1\tsee above\nT3\tPER 23 25\tBo\n",
    "b_txt": "It ran",
    "b_ann": "",
    "annotation_conf": "[entities]\nPER\nLOC\n",
}
STATIC = json.loads(Path(__file__).with_name("formats.json").read_text("utf-8"))
DATED = [["text", "label", "on", None], [*LABELS[0], datetime.date(2025, 1, 2)], [], LABELS[1]]
SPANNED = [["text", "label"], [ADA, '[[0, 3, "PER"], [13, 17, "LOC"]]']]
WORDS = [["Sentence #", "Word", "Tag"], [1, "Ada", "B-PER"], [None, "ran", "O"]]
FIXTURES: dict[str, list[Any]] = {
    **STATIC,
    "parquet": [("classification", "a.parquet", save_parquet, LABELS)],
    "arrow": [("classification", "a.arrow", save_arrow, LABELS)],
    "excel": [
        ("classification", "a.xlsx", workbook(DATED, []), LABELS),
        ("tagging", "a.xlsx", workbook(SPANNED), TAGS),
        ("tagging", "a.xlsx", workbook(WORDS), ["B-PER O"]),
    ],
    "datasets": [
        ("classification", "directory", save_dataset, LABELS),
        ("classification", "directory", save_splits, LABELS),
    ],
    "brat": [("tagging", "directory", brat(**BRAT), ["B-PER O O B-LOC O B-PER O", "O O"])],
    "argilla": [*STATIC["argilla"], ("tagging", "directory", save_argilla, TAGS)],
}
"""By the name of the format: task, name of the file, its content, and the examples that are read."""
ONLY_NAMED = {"label-studio": ("a.csv", "a.tsv"), "doccano": ("a.csv",), "argilla": ("directory",)}
"""Files that are read as exports of a tool only if `format` names it."""
CASES = [(name, *fixture) for name, fixtures in FIXTURES.items() for fixture in fixtures]


def write(directory, name, content):
    """Write a fixture: text, JSON, rows as JSON lines, or what a function saves."""
    path = directory / name
    if callable(content):
        content(path)
    elif isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content))
    else:
        path.write_text(json.dumps(content))
    return path


def read(task, path, **settings):
    """Return tags, questions with answers, or texts with labels."""
    configured, source = open_data(task_of(task, **settings), path, "train", "train")
    examples = list(configured.examples(source))
    if task == "tagging":
        return [" ".join(tag for sentence in e.sentences for tag in sentence.tags or ()) for e in examples]
    if task == "squad_v1":
        return [(e.question, *(answer.text for answer in e.answers)) for e in examples]
    return [(e.text, ",".join(sorted(e.gold)) if isinstance(e.gold, frozenset) else e.gold) for e in examples]


@pytest.mark.parametrize(
    ("name", "task", "file", "content", "expected"), CASES, ids=[f"{c[0]} {c[1]} {c[2]}" for c in CASES]
)
def test_formats_are_read(tmp_path, name, task, file, content, expected):
    path = write(tmp_path, file, content)
    expected = [tuple(row) if isinstance(row, list) else row for row in expected]
    if file not in ONLY_NAMED.get(name, ()):
        assert read(task, path) == expected
    (entry,) = [entry for entry in cloze.describe_formats(task) if entry.name == name]
    assert {task, "all"} & {*entry.tasks}
    assert ("a directory" if path.is_dir() else path.suffix) in entry.files
    if name in get_args(TaggingFormat if task == "tagging" else AnnotationFormat):
        assert read(task, path, format=name) == expected


def test_every_listed_format_has_a_fixture_and_every_tool_is_listed():
    assert {*FIXTURES} == {entry.name for entry in cloze.describe_formats()}
    assert {*ANNOTATION_TOOLS} == {*get_args(AnnotationFormat)}
    assert {*get_args(TaggingFormat)} - {"text"} <= {*FIXTURES}
    listed = {entry.name for entry in cloze.describe_formats("squad_v2")}
    assert listed == {"table", "json", "parquet", "arrow", "excel", "datasets", "squad"}


def test_the_list_of_formats_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["tasks", "formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert {line.split("  ")[0] for line in lines} >= FIXTURES.keys()


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (
            "T1\tLOC 0 3;13 17\tAda Oslo",
            r"a\.ann:1: the span 'Ada Oslo' has several parts: 0 3;13 17\. Tags mark",
        ),
        ("T1 LOC 0 3 Ada", r"a\.ann:1: not a span of brat: 'T1 LOC 0 3 Ada'"),
        ("T1\tLOC 0 4\tOslo", r"a\.txt: the span .* is not where its text is"),
    ],
)
def test_spans_of_brat_that_tags_cannot_mark_are_refused(tmp_path, span, message):
    path = write(tmp_path, "d", brat(a_txt=ADA, a_ann=f"{span}\n", b_txt="It ran", b_ann="", c_txt="Bo ran"))
    with pytest.raises(InputError, match=message):
        read("tagging", path)
    with pytest.warns(DataWarning, match="1 of 3 rows are left out"):
        assert read("tagging", path, skip_bad_rows=True) == ["O O"]


def test_texts_of_brat_are_answered_without_annotations(tmp_path):
    path = write(tmp_path, "d", brat(a_txt="Ada ran", b_txt="It ran"))
    texts = cloze.find_task("tagging").examples(path, labeled=False)
    assert [example.text for example in texts] == ["Ada ran", "It ran"]


def test_splits_of_a_dataset_are_found_and_named(tmp_path):
    path = write(tmp_path, "d", save_splits)
    task = cloze.find_task("classification")
    assert find_files(task, str(path), None) == (str(path / "train"), str(path / "validation"))
    split = datasets.Dataset.from_dict(rows("text", "label"))
    datasets.DatasetDict({"test": split}).save_to_disk(tmp_path / "e")
    with pytest.raises(InputError, match=r"no split train in this data set, which has test\. Name .*e/test"):
        find_files(task, str(tmp_path / "e"), None)
    assert read("classification", tmp_path / "e" / "test") == LABELS


def test_numbered_parts_are_read_together_or_alone(tmp_path):
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    many = [(f"text {number}", LABELS[number % 2][1]) for number in range(6)]
    whole = datasets.Dataset.from_dict(
        {"text": [text for text, _ in many], "label": [name for _, name in many]}
    )
    for part in range(3):
        name = f"{part:05}-of-00003"
        whole.shard(3, part, contiguous=True).to_parquet(folder / f"train-{name}.parquet")
        whole.shard(3, part, contiguous=True).to_csv(folder / f"part-{name}.csv")
    whole.to_parquet(folder / "validation-00000-of-00001.parquet")
    task = cloze.find_task("classification")
    for place in (folder, folder.parent):
        train, dev = find_files(task, str(place), None)
        assert dev is not None
        assert read("classification", Path(train)) == read("classification", Path(dev)) == many
    for glob in ("train-*.parquet", "part-*-of-00003.csv", "train-0000?-of-*"):
        assert read("classification", folder / glob) == many
    assert source_sha256(str(folder / "train-*")) != source_sha256(str(folder / "*.csv"))
    assert read("classification", folder / "train-00002-of-00003.parquet") == many[4:]
    assert read("classification", folder / "train-0000[02]-of-00003.parquet") == many[:2] + many[4:]


def test_sheets_that_hide_data_are_refused(tmp_path):
    path = write(tmp_path, "a.xlsx", workbook([["text", "label"], ["a", "b"]], [["more"]]))
    with pytest.raises(InputError, match=r"2 sheets have cells: 'Sheet', 'Sheet1'"):
        read("classification", path)
    path = write(tmp_path, "b.xlsx", workbook([["text", "label"], ["a", "b"], ["a", None], ["a", "b", "c"]]))
    with pytest.raises(InputError, match=r"b\.xlsx:3: the cell 'label' is empty.*line 4: 3 cells"):
        read("classification", path)
    with pytest.raises(InputError, match=r"cannot be read as Excel's \.xlsx"):
        read("classification", write(tmp_path, "c.xlsx", "text,label\n"))


def test_a_damaged_sheet_is_refused(tmp_path):
    path = write(tmp_path, "a.xlsx", workbook([["text", "label"], ["a", "b"]]))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content[:-40] if "sheet1" in name else content)
    with pytest.raises(InputError, match=r"cannot be read as Excel's \.xlsx"):
        read("classification", path)


@pytest.mark.protected
@pytest.mark.trials("attack")
def test_a_workbook_that_expands_without_end_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("xl/sharedStrings.xml", "w") as part,
    ):
        for _ in range(501):
            part.write(bytes(10**6))
    assert path.stat().st_size < 3_000_000
    with pytest.raises(InputError, match="has over 500 MB once expanded"):
        read("classification", path)


@pytest.mark.protected
@pytest.mark.trials("attack", 2)
def test_a_data_set_names_no_file_outside_its_directory(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "dataset_info.json").write_text("{}")
    for name in ("../a.arrow", str(tmp_path / "a.arrow")):
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
        with pytest.raises(InputError, match=r"state\.json: names '.*', which is not in"):
            read("classification", folder)


def test_a_run_takes_a_directory_of_data_and_knows_whether_it_changes(tmp_path):
    path = write(tmp_path, "d", save_dataset)
    summary = cloze.validate_data(
        "classification", train=path, dev=path, model="cloze-mini", output=tmp_path / "run"
    )
    assert summary["classes"] == {"bad": 1, "good": 1}
    folder = write(tmp_path, "e", brat(a_txt=ADA, a_ann=""))
    before = source_sha256(str(folder))
    (folder / "a.ann").write_text("T1\tPER 0 3\tAda\n")
    assert source_sha256(str(folder)) != before
