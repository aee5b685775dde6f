"""The names of classes that `datasets` keeps beside their numbers: in files and in memory, for all tasks."""

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from cloze.errors import DataWarning, InputError
from cloze.tasks.data import read_memory
from cloze.tasks.registry import find_task
from helpers import task_of, write_rows

KINDS = ["parquet", "arrow", "table", "datasets", "numpy", "streamed"]
PAIRS = {"text": ["a", "b", "c"], "pair": ["d", "e", "f"]}


def write(table, kind, folder):
    """Write a table as a.parquet or a.arrow; other kinds stay in memory."""
    if kind in ("parquet", "arrow"):
        write_rows(folder / f"a.{kind}", table, pyarrow.ipc.new_stream)


def named(kind, folder, label, names, **columns):
    """Return columns and the numbers of classes with their names, in memory or in a file of a kind."""
    feature: Any = datasets.ClassLabel(names=list(names))
    if isinstance(label[0], list):
        feature = datasets.Sequence(feature)
    data = datasets.Dataset.from_dict({**(columns or PAIRS), "label": [0] * len(label)})
    plain = data.features
    data = datasets.Dataset.from_dict(
        {**(columns or PAIRS), "label": label}, features=datasets.Features({**plain, "label": feature})
    )
    table = data.data.table
    write(table, kind, folder)
    in_memory = {
        "table": table,
        "datasets": data,
        "numpy": data.with_format("numpy"),
        "streamed": data.to_iterable_dataset(),
    }
    return in_memory.get(kind, folder / f"a.{kind}")


def labels_of(task, data):
    task, file = (task, data) if isinstance(data, Path) else read_memory(task, data, "train")
    return [example.gold for example in task.examples(file)]


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_the_classes_where_a_task_has_classes(tmp_path, kind):
    data = named(kind, tmp_path, [0, 1, 0], ["yes", "no"])
    assert labels_of(task_of("classification"), data) == ["yes", "no", "yes"]
    assert labels_of(task_of("classification", labels=("no", "yes")), data) == ["yes", "no", "yes"]
    assert labels_of(task_of("classification", labels=("0", "1")), data) == [
        "0",
        "1",
        "0",
    ]  # of a model that learned numbers
    assert labels_of(task_of("regression"), data) == [0, 1, 0]
    assert labels_of(task_of("ranking", text_column="text", pair_column="pair"), data) == [0, 1, 0]
    lists = named(kind, tmp_path, [[0, 1], [1], []], ["yes", "no"])
    assert labels_of(task_of("multi-label", label_column="label"), lists) == [{"yes", "no"}, {"no"}, set()]


@pytest.mark.parametrize("kind", ["parquet", "datasets"])
def test_tasks_with_known_labels_read_names_or_numbers(tmp_path, kind):
    sentences = {"sentence": ["a", "b"]}
    data = named(kind, tmp_path, [0, 1], ["negative", "positive"], **sentences)
    assert labels_of(find_task("sst2"), data) == ["0", "1"]
    pairs = {"sentence1": ["a", "b"], "sentence2": ["c", "d"]}
    data = named(kind, tmp_path, [0, 1], ["not_entailment", "entailment"], **pairs)  # not GLUE's order
    assert labels_of(find_task("rte"), data) == ["not_entailment", "entailment"]
    choices = {"prompt": ["a", "b"], "choices": [["c", "d"], ["e", "f"]]}
    data = named(kind, tmp_path, [1, 0], ["A", "B"], **choices)
    assert labels_of(task_of("multiple-choice"), data) == [1, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [["yes", "no"], ["0", "1"], ["-1", "1"]])
def test_minus_one_is_no_class_beside_names(tmp_path, kind, names):
    data = named(kind, tmp_path, [0, -1, 1], names)
    with pytest.raises(InputError, match="`missing_labels=drop` leaves out such rows"):
        labels_of(task_of("classification"), data)
    with pytest.warns(DataWarning, match="1 of 3 rows are left out"):
        assert labels_of(task_of("classification", missing_labels="drop"), data) == names
    with pytest.raises(InputError, match="No row has a label"):
        labels_of(task_of("classification"), named(kind, tmp_path, [-1, -1], names, text=["a", "b"]))


@pytest.mark.parametrize("number", [2, -2])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "table"])
def test_numbers_without_a_name_are_refused(tmp_path, kind, number):
    table = named("table", tmp_path, [0, 1, 1], ["yes", "no"])
    table = table.set_column(2, "label", pyarrow.array([0, number, 1]))
    table = table.replace_schema_metadata(named("table", tmp_path, [0, 1, 1], ["yes", "no"]).schema.metadata)
    write(table, kind, tmp_path)
    data = table if kind == "table" else tmp_path / f"a.{kind}"
    with pytest.raises(InputError, match=f"'label' holds the number {number}, and there are 2 names"):
        labels_of(task_of("classification"), data)


@pytest.mark.parametrize(
    "metadata", ["no JSON", "[]", json.dumps({"info": 3}), json.dumps({"info": {"features": [1]}})]
)
def test_metadata_of_another_form_are_ignored(tmp_path, metadata):
    table = pyarrow.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata(
        {"huggingface": metadata}
    )
    write_rows(tmp_path / "a.parquet", table)
    assert (
        labels_of(task_of("classification"), tmp_path / "a.parquet")
        == labels_of(task_of("classification"), table)
        == ["0", "1"]
    )


@pytest.mark.parametrize("task", ["classification", "multi-label", "tagging"])
@pytest.mark.parametrize(
    ("names", "what"),
    [
        ({"0": "O", "1": "O", "2": "B-X"}, "id2label has 'O' twice"),
        ({"0": None, "1": "O", "2": "B-X"}, "id2label does not map the numbers from 0 to labels"),
        ({"0": "O", "2": "B-X"}, "id2label does not map the numbers from 0 to labels"),
    ],
)
def test_classes_without_a_name_of_their_own_are_refused(tmp_path, task, names, what):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"architectures": ["BertForTokenClassification"], "id2label": names}))
    with pytest.raises(InputError, match=f"config.json: {what}"):
        find_task(task).for_external_checkpoint(tmp_path)
