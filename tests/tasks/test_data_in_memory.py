"""Data in memory: every kind becomes the same examples, messages name rows, and a run equals that of a file."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cloze
from cloze.api.finetuning import plan_finetuning, validate_data
from cloze.data.reading.memory import (
    MemoryRows,
    check_unicode_texts,
    iterate_rows,
    plain_row,
    rows_from_memory,
)
from cloze.errors import DataWarning, InputError
from cloze.file_io import sha256_of_file
from cloze.tasks.data import read_memory
from helpers import task_of
from runs import assert_same_run, assert_same_weights

TEXTS, LABELS = ["good film", "bad book", "fine film"], ["yes", "no", "yes"]
PAIRS = list(zip(TEXTS, LABELS, strict=True))
DICTS = [{"text": text, "label": label} for text, label in PAIRS]
FEATURES = datasets.Features(
    {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
)
KINDS: dict[str, Callable[[], Any]] = {
    "tuples": lambda: PAIRS,
    "dicts": lambda: DICTS,
    "iterator": lambda: iter(PAIRS),
    "columns": lambda: {"text": TEXTS, "label": np.array(LABELS)},
    "pandas": lambda: pd.DataFrame({"text": TEXTS, "label": LABELS}, index=[7, 7, 9]),
    "pandas categories": lambda: pd.DataFrame({"text": TEXTS, "label": pd.Categorical(LABELS)}),
    "datasets": lambda: datasets.Dataset.from_list(DICTS),
    "class labels": lambda: datasets.Dataset.from_dict(
        {"text": TEXTS, "label": [1, 0, 1]}, features=FEATURES
    ),
    "streamed": lambda: datasets.Dataset.from_list(DICTS).to_iterable_dataset(),
    **{
        f"datasets as {name}": lambda name=name: datasets.Dataset.from_list(DICTS).with_format(name)
        for name in ("numpy", "pandas", "arrow", "torch")
    },
    "streamed as arrow": lambda: datasets.Dataset.from_list(DICTS).to_iterable_dataset().with_format("arrow"),
    "datasets with a transform": lambda: datasets.Dataset.from_list(DICTS).with_transform(
        lambda batch: {name: [f" {cell}" for cell in cells] for name, cells in batch.items()}
    ),
    "arrow": lambda: pa.table({"text": TEXTS, "label": LABELS}),
    "record batch": lambda: pa.RecordBatch.from_pylist(DICTS),
}


def read(task: str, data: Any, *, labeled: bool = True, **settings: Any) -> list[Any]:
    configured, file = read_memory(task_of(task, **settings), data, "train", labeled=labeled)
    return list(configured.examples(file, labeled=labeled))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_gives_the_same_examples(kind):
    examples = read("classification", KINDS[kind]())
    space = " " * kind.endswith("transform")
    assert [(example.text, example.gold) for example in examples] == [(f"{space}{a}", b) for a, b in PAIRS]
    assert [example.where for example in examples] == ["train[0]", "train[1]", "train[2]"]


@pytest.mark.parametrize(
    ("task", "settings", "in_tuples", "in_dicts"),
    [
        ("classification", {}, [("a", "b", "x")], None),
        ("classification", {}, [(("a", "b"), "x")], None),
        ("regression", {}, [("a", 4.5)], [{"text": "a", "label": 4.5}]),
        ("multi-label", {}, [("a", ["x", "y"])], [{"text": "a", "labels": ["x", "y"]}]),
        ("ranking", {}, [("a", "b", 1)], [{"query": "a", "passage": "b", "label": 1}]),
        ("text-pairs", {}, [("a", "b", "c")], [{"text": "a", "pair": "b", "negative": "c"}]),
        ("scored-pairs", {}, [(("a", "b"), 0.5)], [{"text": "a", "pair": "b", "score": 0.5}]),
        ("multiple-choice", {}, [("a", ["b", "c"], 1)], [{"prompt": "a", "choices": ["b", "c"], "label": 1}]),
        (
            "tagging",
            {},
            [(["Ada", "in"], ["B-PER", "O"])],
            [{"tokens": ["Ada", "in"], "tags": ["B-PER", "O"]}],
        ),
        ("mrpc", {}, [("a", "b", 1)], [{"#1 String": "a", "#2 String": "b", "Quality": 1}]),
    ],
)
def test_tuples_are_in_the_order_of_the_columns(task, settings, in_tuples, in_dicts):
    if in_dicts is None:
        settings, in_dicts = {"pair_column": "pair"}, [{"text": "a", "pair": "b", "label": "x"}]
    assert read(task, in_tuples) == read(task, in_dicts, **settings)


def test_unlabeled_tuples_may_be_pairs():
    [example] = read("classification", [("a", "b")], labeled=False)
    assert (example.text, example.pair) == ("a", "b")


def test_questions_are_read_as_the_hub_has_them():
    context = "Ada saw a film in Oslo."
    who = {"question": "Who?", "context": context, "answers": {"text": ["Ada"], "answer_start": [0]}}
    where = {"id": "2", "context": context, "answers": [{"text": "Oslo", "answer_start": 18}]}
    first, second = read("squad_v1", [who, {"question": "Where?", **where}])
    assert first.paragraph is second.paragraph  # tokenized once
    assert (first.id, first.answers[0].text, second.answers[0].text) == ("train[0]", "Ada", "Oslo")
    [unlabeled] = read("squad_v1", [("Who?", context)], labeled=False)
    assert unlabeled.question == "Who?"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "train: holds no rows"),
        (["a"], "train[0] is 'a', a str. Give a tuple such as (text, label), or a dict by column."),
        ([("a", "x"), 5], "train[1] is 5, an int. Give a tuple"),
        ([("a",)], "train[0]: 1 values, expected 2: text, label. Give these, or a dict by column."),
        ([("a", "b", "c", "x")], "train[0]: 4 values, expected 2: text, label."),
        ([("a", "x"), {"text": "b"}], "train[1]: no column 'label'. There are 'text'; say which"),
        ([{"txt": "a", "label": "x"}], "train[0]: no column 'text'. There are 'txt', 'label'; say which"),
        (
            [("a", "x"), (None, "x"), (5.5j, "x")],
            "train[1]: 'text' is null, not a text (the first of 2 bad rows: row 1",
        ),
        ([("a", "x"), ("b", float("nan"))], "train[1]: the cell 'label' is empty."),
        (
            [("a", "x"), ("b", pd.NA), ("c", pd.NaT)],
            "train[1]: the cell 'label' is empty (the first of 2 bad rows: rows 1, 2)",
        ),
        ([("a", "x"), ("b", "x")], "train: every row has the label 'x'."),
        (
            {"text": ["a", "b"], "label": ["x"]},
            "train: columns of 1 and of 2 cells. Give columns of equal length.",
        ),
        ({("a", "x")}, "train: is a set."),
        ("missing.tsv", "missing.tsv: no such file"),
        (
            datasets.DatasetDict({"test": datasets.Dataset.from_list(DICTS)}),
            "train: no split train in these data, which have test. Give one of them, as in train['test'].",
        ),
    ],
)
def test_wrong_rows_are_named(data, says, nano_checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError) as caught:
        cloze.finetune(
            "classification", train=data, model=nano_checkpoint, output=tmp_path / "run", device="cpu"
        )
    assert str(caught.value).startswith(says)
    assert not list(tmp_path.iterdir())


SETTINGS: dict[str, Any] = {
    **{"epochs": 2, "batch_size": 9, "max_seq_length": 16, "precision": "float32"},
    **{"device": "cpu", "learning_rate": 5e-3, "text_column": "review", "label_column": "liked"},
    "settings": {"micro_batch_tokens": 400, "log_every_steps": 1, "dev_fraction": 0.2},
}


@pytest.fixture(scope="session")
def review_rows(reviews: Path) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in reviews.read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def run_of_file(nano_checkpoint: Path, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("file") / "run"
    cloze.finetune("classification", train=reviews, model=nano_checkpoint, output=run, **SETTINGS)
    return run


@pytest.mark.slow
def test_memory_and_file_give_the_same_bits(run_of_file, review_rows, nano_checkpoint, tmp_path):
    run = tmp_path / "run"
    frame = pd.DataFrame(review_rows, columns=["review", "liked"])
    result = cloze.finetune(
        "classification", train=frame, model=str(nano_checkpoint), output=str(run), **SETTINGS
    )
    assert_same_run(run_of_file, run)
    of_file = json.loads((run_of_file / "scores.json").read_text())
    assert result == result.scores == {name: of_file[name] for name in result}
    assert json.loads(json.dumps(result)) == result
    assert isinstance(result.model, cloze.TextClassifier)
    assert (result.path, result.model.labels) == (run, ("no", "yes"))
    kept = run / "data" / "train.jsonl"
    assert [tuple(json.loads(line).values()) for line in kept.read_text().splitlines()] == review_rows
    assert f'train = "{kept}"' in (run / "run.toml").read_text()
    assert sha256_of_file(kept) in next((run / "checkpoints").iterdir()).joinpath("README.md").read_text()
    again = cloze.finetune(
        "classification", train=kept, model=nano_checkpoint, output=tmp_path / "again", **SETTINGS
    )
    assert_same_run(run, again.path)
    scores = []
    for model, data in ((run, frame), (result.model, kept), ([run], review_rows)):
        with pytest.warns(DataWarning, match="the model learned from these data"):
            scores.append(cloze.evaluate(model=model, data=data))
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.slow
def test_a_run_of_rows_resumes_with_its_data(run_of_file, review_rows, nano_checkpoint, tmp_path):
    class Stop(cloze.Callback):
        def on_evaluation(self, step: int, values: Any) -> None:
            raise KeyboardInterrupt

    run = tmp_path / "run"
    arguments = {"train": review_rows, "model": nano_checkpoint, "output": run, **SETTINGS}
    stopped = {**SETTINGS["settings"], "checkpoints.every_steps": 3}
    with pytest.raises(KeyboardInterrupt):
        cloze.finetune("classification", callbacks=[Stop()], **{**arguments, "settings": stopped})
    with pytest.raises(InputError, match=r"already exists. Choose another name, continue with `resume`"):
        cloze.finetune("classification", **arguments)
    with pytest.raises(InputError, match=r"^train: are not the data of the run to resume"):
        cloze.finetune("classification", resume=True, **{**arguments, "train": review_rows[1:]})
    with pytest.raises(InputError, match=r"run: resume uses the settings of the run: epochs is 2, not 3"):
        cloze.finetune("classification", resume=True, **{**arguments, "epochs": 3})
    (run / "data").rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"^train: are not the data of the run to resume"):
        cloze.finetune("classification", resume=True, **arguments)
    (tmp_path / "moved").rename(run / "data")
    cloze.finetune("classification", resume=True, **arguments)
    assert_same_weights(run_of_file, run)
    cloze.finetune("classification", overwrite=True, **{**arguments, "epochs": 1})
    assert "epochs = 1\n" in (run / "run.toml").read_text()


def test_several_runs_keep_their_data_once(review_rows, nano_checkpoint, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    arguments = {**SETTINGS, "epochs": 1, "seeds": 2, "model": nano_checkpoint, "output": tmp_path / "runs"}
    arguments |= {"train": review_rows[:50], "dev": review_rows[50:]}
    summary = validate_data("classification", **arguments)
    assert (summary["dev_examples"], summary["longest"]) == (20, 11)
    assert plan_finetuning("classification", **arguments).runs == 2
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
    result = cloze.finetune("classification", **arguments)
    assert not list((tmp_path / "temporary").glob("cloze-*"))  # torch has a folder of its own there
    assert {path.name for path in tmp_path.rglob("*.jsonl") if path.parent.name == "data"} == {
        "train.jsonl",
        "dev.jsonl",
    }
    assert len(result.report["settings"][0]["results"]) == 2
    assert result.model("good film").label in ("no", "yes")


def test_settings_are_named_alike_in_all_places(nano_checkpoint, reviews, tmp_path):
    with pytest.raises(InputError, match=r"^model: is missing. Give cloze-mini, a checkpoint"):
        cloze.finetune("classification", train=reviews, output=tmp_path / "r")
    columns = {"text_column": "review", "label_column": "liked"}
    (tmp_path / "mine.toml").write_text(
        "epochs = 1\nmax_seq_length = 16\n[optimizer]\nlearning_rate = 1e-3\n"
    )
    settings = {"optimizer": {"learning_rate": 1e-3}, "device": "cpu"}
    config = {"config": tmp_path / "mine.toml"}
    first, *others = (
        cloze.finetuning_settings(task, train=reviews, model=nano_checkpoint, **given)
        for task, given in (
            (task_of("classification", **columns), {**config, "settings": {"device": "cpu"}}),
            ("classification", {**columns, "max_seq_length": 16, "epochs": 1, "settings": settings}),
            ("classification", {**columns, **config, "device": "cpu"}),
        )
    )
    assert "learning_rate = 0.001\n" in first
    assert others == [first, first]


def test_cells_are_those_of_json(tmp_path):
    row = {
        1: np.float32(0.5),
        "a": np.array([1, 2]),
        "b": {"c": (True, np.int64(3))},
        "d": np.str_("é"),
        "e": b"x",
    }
    values = {"1": 0.5, "a": [1, 2], "b": {"c": [True, 3]}, "d": "é", "e": {"bytes": "b'x'"}}
    assert plain_row(row) == values
    assert list(iterate_rows(pa.table({"a": [1]}), "x")) == [{"a": 1}]
    rows = MemoryRows("train", ({"half": "ä\ud83d", "lines": "a\r\n\u2028b"}, values))
    assert MemoryRows.read(rows.write(tmp_path)) == rows


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([["a", "x", 1]], columns=["text", "label", "label"])
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["text", "label", "label"])
    for data in (frame, table):
        with pytest.raises(InputError, match=r"train: two columns are called 'label'\. Rename one"):
            rows_from_memory(data, "train")
    for data, where in (({1: ["a"], "1": ["b"]}, "train"), ([{1: "a", "1": "b"}], "a row")):
        with pytest.raises(InputError, match=f"{where}: two columns are called '1'"):
            rows_from_memory(data, "train")


def test_texts_are_checked_by_position():
    assert list(check_unicode_texts(pd.DataFrame({"id": [1], "text": ["a"]}), "texts")) == ["a"]
    for name in (None, "numpy", "pandas", "arrow", "torch"):
        assert (
            list(check_unicode_texts(datasets.Dataset.from_list(DICTS).with_format(name), "texts")) == TEXTS
        )
    for texts, says in (
        (["a", None], r"^texts\[1\] is None"),
        (["a", "b\ud83d"], r"^texts\[1\]: half a character \(\\ud83d\) at 1\. Replace it"),
        ({"note": ["a"]}, r"^texts: has no column 'text'\. Give one of its columns, as in texts\['note'\]"),
        ("a", "^texts: is one text"),
    ):
        with pytest.raises(InputError, match=says):
            list(check_unicode_texts(texts, "texts"))


@pytest.mark.slow
def test_table_libraries_are_imported_only_by_their_users():
    program = (
        "import sys, cloze; from cloze.tasks.data import read_memory; from cloze.tasks.registry import find_task; "
        "read_memory(find_task('classification'), [('a', 'x')], 'train'); cloze.finetune, cloze.pretrain; "
        "heavy = {'pandas', 'datasets', 'sklearn', 'wandb', 'mlflow', 'onnxruntime'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


PRODIGY = [
    {"text": "fine", "label": "GOOD", "answer": "accept"},
    {"text": "bad", "label": "GOOD", "answer": "reject"},
    {"text": "gray", "label": "BAD", "answer": "ignore"},
]


def labels(task, data):
    return [(example.text, example.gold) for example in task.examples(read_memory(task, data, "train")[1])]


def test_tables_in_memory_whose_answers_may_be_prodigys_are_refused():
    table, plain = pd.DataFrame(PRODIGY), task_of("classification")
    with pytest.raises(InputError, match=r"^train\[0\]: the column 'answer' may be Prodigy's\. Say `format="):
        read_memory(plain, table, "train")
    named = task_of("classification", format="prodigy")
    for task, data in ((named, table), (named, PRODIGY), (plain, PRODIGY)):
        with pytest.warns(DataWarning, match="2 of 3 rows are left out"):
            assert labels(task, data) == [("fine", "GOOD")]
    assert len(labels(task_of("classification", label_column="answer"), table)) == 3


def test_words_in_memory_know_their_row():
    [example] = read("tagging", [{"sentence_id": 1, "word": word, "tag": "O"} for word in ("Ada", "ran")])
    assert [sentence.where(0) for sentence in example.sentences] == ["train[0]"]


def test_examples_of_spacy_in_memory():
    [text] = read("tagging", [("Ada ran", {"entities": [(0, 3, "PER")]})])
    assert text.sentences[0].tags == ("B-PER", "O")
    rows = [("fine", {"cats": {"pos": 1.0, "neg": 0.0}})]
    assert labels(task_of("classification", label_column="cats"), rows) == [("fine", "pos")]


def test_splits_in_memory_are_read_as_those_on_disk(nano_checkpoint, tmp_path):
    table = datasets.Dataset.from_list(DICTS)
    splits = datasets.DatasetDict(test=table, train=table, validation=table.select(range(len(DICTS) - 1)))
    splits.save_to_disk(str(tmp_path / "disk"))
    told = [
        {**validate_data("classification", train=data, model=nano_checkpoint), "findings": []}
        for data in (splits, tmp_path / "disk")
    ]
    assert told[0] == told[1]
    assert (told[0]["train_examples"], told[0]["dev_examples"]) == (len(DICTS), len(DICTS) - 1)
    held_out = validate_data("classification", train=splits, dev=table, model=nano_checkpoint)
    assert held_out["dev_examples"] == len(DICTS)
    assert cloze.baseline("classification", train=splits).num_examples == len(DICTS) - 1
    gold = [{"label": row["label"]} for row in DICTS[:-1]]
    assert cloze.score("classification", gold, splits)["accuracy"] == 1.0
