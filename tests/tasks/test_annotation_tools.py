"""Exports of annotation tools: texts with spans or labels, and what annotators rejected, skipped or left open."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cloze.errors import DataWarning, InputError
from cloze.tasks.custom import Classification, CustomTagging
from cloze.tasks.memory import as_file
from cloze.tasks.multi_label import MultiLabel

Write = Callable[[Any, str], Path]

SPAN = {"start": 0, "end": 3, "label": "PER"}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(rows: Any, name: str = "a.jsonl") -> Path:
        path = tmp_path / name
        lines = "".join(json.dumps(row) + "\n" for row in rows) if name.endswith("l") else json.dumps(rows)
        path.write_text(lines)
        return path

    return to_file


def tags(path: Path, task: CustomTagging | None = None) -> list[str]:
    """Return the tags of the words of each text."""
    texts = (task or CustomTagging()).examples(path)
    return [" ".join(tag for s in text.sentences for tag in s.tags or ()) for text in texts]


def labels(path: Any, task: Any = None) -> list[tuple[str, str]]:
    return [(example.text, example.label) for example in (task or Classification()).examples(path)]


def studio(text: str, *results: Mapping[str, Any], **annotation: Any) -> dict[str, Any]:
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": [*results], **annotation}]}


def choice(*names: str, question: str = "mood") -> dict[str, Any]:
    return {"type": "choices", "from_name": question, "value": {"choices": [*names]}}


SKIPPED = studio("Bo ran", was_cancelled=True)
OPEN = {"data": {"text": "Cy ran"}, "annotations": []}
UNUSED_TAGS: dict[str, tuple[list[Any], str]] = {
    "Prodigy": (
        [
            {"text": "Ada ran", "spans": [SPAN], "answer": "accept"},
            {"text": "Bo ran", "spans": [SPAN], "answer": "reject"},
            {"text": "Cy ran", "answer": "ignore"},
        ],
        "2 of 3 rows are left out: 1 rejected, 1 ignored (line 2 is the first)",
    ),
    "Label Studio": (
        [studio("Ada ran", {"value": {"start": 0, "end": 3, "labels": ["PER"]}}), SKIPPED, OPEN],
        "2 of 3 rows are left out: 1 skipped, 1 not annotated (line 2 is the first)",
    ),
    "Argilla": (
        [
            {"text": "Ada ran", "tokens": ["Ada", "ran"], "prediction": None, "annotation": [["PER", 0, 3]]},
            {"text": "Bo ran", "tokens": [], "prediction": None, "annotation": [], "status": "Discarded"},
            {"text": "Cy ran", "tokens": [], "prediction": [["PER", 0, 2]], "annotation": None},
        ],
        "1 discarded, 1 not annotated",
    ),
    "spaCy": ([["Ada ran", {"entities": [[0, 3, "PER"]]}], None], "1 of 2 rows are left out: 1 null"),
}


@pytest.mark.parametrize("tool", UNUSED_TAGS)
def test_texts_that_nobody_tagged_are_left_out_and_counted(write: Write, tool: str) -> None:
    rows, warning = UNUSED_TAGS[tool]
    with pytest.warns(DataWarning, match=re.escape(warning)) as told:
        assert tags(write(rows)) == ["B-PER O"]
    assert len(told) == 1


def test_one_object_holds_the_rows_of_some_tools(write: Write) -> None:
    rows = [["Ada ran", {"entities": [[0, 3, "PER"]]}], None]
    with pytest.warns(DataWarning, match=r"a\.json: 1 of 2 rows are left out: 1 null \(row 1"):
        assert tags(write({"classes": ["PER"], "annotations": rows}, "a.json")) == ["B-PER O"]
    samples = [{"document": "Ada ran", "annotation": {"entities": [SPAN]}}, {"document": "Bo ran"}]
    with pytest.warns(DataWarning, match="1 of 2 rows are left out: 1 not annotated"):
        assert tags(write({"interface": {}, "samples": samples}, "a.json")) == ["B-PER O"]
    light = {"content": "Ada ran", "annotations": [{"start": 0, "end": 3, "tag": "PER", "value": "Ada"}]}
    assert tags(write({"examples": [light]}, "a.json")) == ["B-PER O"]


def test_rejected_spans_are_left_out_and_counted(write: Write) -> None:
    spans = [{**SPAN, "answer": "accept"}, {"start": 4, "end": 7, "label": "PER", "answer": "reject"}]
    path = write([{"text": "Ada ran", "spans": spans, "answer": "accept"}])
    with pytest.warns(DataWarning, match="1 spans that the annotator rejected are left out"):
        assert tags(path) == ["B-PER O"]


def test_an_accepted_text_without_spans_has_no_entities(write: Write) -> None:
    rows = [{"text": "It ran", "answer": "accept", "_view_id": "ner_manual"}]
    assert tags(write(rows)) == ["O O"]


PRODIGY = [
    {"text": "fine", "label": "GOOD", "answer": "accept"},
    {"text": "bad", "label": "GOOD", "answer": "reject"},
    {"text": "grey", "label": "BAD", "answer": "ignore"},
]


@pytest.mark.parametrize("form", ["a.jsonl", "a.json", "a.csv", "a.parquet", "memory"])
def test_rejected_labels_are_not_learned(write: Write, tmp_path: Path, form: str) -> None:
    path: Any = tmp_path / form
    if form == "memory":
        _, path = as_file(Classification(), PRODIGY, "train", tmp_path)
    elif form == "a.csv":
        pd.DataFrame(PRODIGY).to_csv(path, index=False)
    elif form == "a.parquet":
        pd.DataFrame(PRODIGY).to_parquet(path)
    else:
        write(PRODIGY, form)
    with pytest.warns(DataWarning, match="2 of 3 rows are left out: 1 rejected, 1 ignored"):
        assert labels(path) == [("fine", "GOOD")]
    assert [example.text for example in Classification().examples(path, labeled=False)] == [
        "fine",
        "bad",
        "grey",
    ]


def test_a_column_called_answer_may_have_the_labels(write: Write) -> None:
    assert labels(write(PRODIGY), Classification(label_column="answer")) == [
        ("fine", "accept"),
        ("bad", "reject"),
        ("grey", "ignore"),
    ]


def test_no_row_that_is_left_is_an_error_with_the_reasons(write: Write) -> None:
    for task in (Classification(), CustomTagging()):
        with pytest.raises(InputError, match=r"no row is left of 2: 1 rejected, 1 ignored \(line 1"):
            list(task.examples(write(PRODIGY[1:])))


def test_lists_and_objects_of_labels(write: Write) -> None:
    cells: list[Any] = [["GOOD"], {"choices": ["GOOD"]}, {"GOOD": 1.0, "BAD": 0.0}, '{"choices": ["GOOD"]}']
    path = write([{"text": "fine", "accept": cell} for cell in cells])
    assert {label for _, label in labels(path, Classification(label_column="accept"))} == {"GOOD"}
    path = write([*({"text": "fine", "accept": cell} for cell in cells), {"text": "a", "accept": ["A", "B"]}])
    read = labels(path, MultiLabel(label_column="accept"))
    assert {label for _, label in read} == {"GOOD", "A,B"}
    with pytest.raises(InputError, match=r"a\.jsonl:5: 'accept' is a list of 2\. The task multi-label"):
        labels(path, Classification(label_column="accept"))


def test_label_studios_choices_are_labels(write: Write) -> None:
    rows = [studio("fine", choice("pos")), studio("bad", choice("neg")), SKIPPED, OPEN]
    with pytest.warns(DataWarning, match="1 skipped, 1 not annotated"):
        assert labels(write(rows, "a.json")) == [("fine", "pos"), ("bad", "neg")]
    with pytest.warns(DataWarning, match="1 skipped"):
        assert labels(write(rows, "a.json"), Classification(label_column="mood"))[0] == ("fine", "pos")
    with pytest.warns(DataWarning, match="1 skipped"):
        assert labels(write([studio("fine", choice("a", "b")), SKIPPED]), MultiLabel()) == [("fine", "a,b")]
    texts = [example.text for example in Classification().examples(write(rows, "a.json"), labeled=False)]
    assert texts == ["fine", "bad", "Bo ran", "Cy ran"]


def test_two_questions_or_annotators_of_label_studio_are_refused(write: Write) -> None:
    both = studio("fine", choice("pos"), choice("film", question="topic"))
    with pytest.raises(InputError, match=r"no column 'label'.*'mood', 'topic'.*--label-column NAME"):
        labels(write([both]))
    assert labels(write([both]), Classification(label_column="topic")) == [("fine", "film")]
    twice = studio("fine", choice("pos"))
    twice["annotations"] *= 2
    assert labels(write([twice])) == [("fine", "pos")]
    twice["annotations"] = [*twice["annotations"][:1], {"result": [choice("neg")]}]
    with pytest.raises(InputError, match=r"2 annotations of one text differ\. Leave one annotation of each"):
        labels(write([twice]))


def test_labels_of_other_tools(write: Write) -> None:
    rows = [
        {"text": "fine", "label.responses": ["pos"], "label.responses.status": ["submitted"]},
        {"text": "bad", "label.responses": ["neg"], "label.responses.status": ["discarded"]},
    ]
    with pytest.warns(DataWarning, match="1 of 2 rows are left out: 1 discarded"):
        assert labels(write(rows), Classification(label_column="label.responses")) == [("fine", "pos")]
    rows = [
        {"text": None, "inputs": {"text": "fine"}, "prediction": None, "annotation": "pos"},
        {"document": "fine", "annotation": {"label": "pos"}},
        {"content": "fine", "annotations": [], "classifications": [{"classname": "pos"}]},
    ]
    for row in rows:
        assert labels(write([row])) == [("fine", "pos")]


def test_examples_of_spacy_in_memory(tmp_path: Path) -> None:
    rows: list[Any] = [("Ada ran", {"entities": [(0, 3, "PER")]})]
    assert tags(as_file(CustomTagging(), rows, "train", tmp_path)[1]) == ["B-PER O"]
    rows = [("fine", {"cats": {"pos": 1.0, "neg": 0.0}})]
    task = Classification(label_column="cats")
    assert labels(as_file(task, rows, "train", tmp_path)[1], task) == [("fine", "pos")]
