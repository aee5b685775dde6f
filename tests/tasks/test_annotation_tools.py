"""Exports of annotation tools: texts with spans or labels, and what annotators rejected, skipped or left open."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cloze.errors import DataWarning, InputError
from cloze.tasks.data import read_memory
from cloze.tasks.span_offsets import Offsets
from helpers import task_of

Write = Callable[..., Path]

SPAN = {"start": 0, "end": 3, "label": "PER"}


def tags(path, task=None):
    """Return the tags of the words of each text."""
    texts = (task or task_of("tagging")).examples(path)
    return [" ".join(tag for s in text.sentences for tag in s.tags or ()) for text in texts]


def labels(path, task=None):
    return [(example.text, example.gold) for example in (task or task_of("classification")).examples(path)]


def studio(text, *results, **annotation):
    return {"id": 1, "data": {"text": text}, "annotations": [{"result": [*results], **annotation}]}


OPEN = {"data": {"text": "Cy ran"}, "annotations": []}
PER = {"value": {"start": 0, "end": 3, "labels": ["PER"]}}
UNUSED_TAGS: dict[str, list[Any]] = {
    "Prodigy": [
        {"text": "Ada ran", "spans": [SPAN], "answer": "accept"},
        {"text": "Bo ran", "spans": [SPAN], "answer": "reject"},
        {"text": "Cy ran", "answer": "ignore"},
    ],
    "Label Studio": [studio("Ada ran", PER), studio("Bo ran", was_cancelled=True), OPEN],
    "Label Studio of old": [
        studio("Ada ran", PER),
        studio("Bo ran", {"value": {"start": 0, "end": 2, "labels": ["PER"]}}, skipped=True),
    ],
    "spaCy": [["Ada ran", {"entities": [[0, 3, "PER"]]}], None],
}
"""Texts that nobody tagged: test_examples_golden.py has what is left, and the warnings."""
PRODIGY = [
    {"text": "fine", "label": "GOOD", "answer": "accept"},
    {"text": "bad", "label": "GOOD", "answer": "reject"},
    {"text": "gray", "label": "BAD", "answer": "ignore"},
]


TABLES: dict[str, list[dict[str, Any]]] = {
    "prodigy": PRODIGY,
    "label-studio": [
        {"annotation_id": 7, "label": "pos", "lead_time": 2, "text": "a"},
        {"text": "b", "label": "x"},
    ],
    "doccano": [{"text": "a", "label": "C#", "Comments": "[]"}],
    "Argilla 1": [{"text": "a", "label": "x", "annotation": "y", "prediction": "z", "status": "Discarded"}],
    "Universal Data Tool": [{"text": "a", "label": "x", "document": "b", "annotation": "y"}],
}
WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "parquet": lambda table, path: table.to_parquet(path),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("tool", TABLES)
def test_columns_named_as_those_of_a_tool_are_columns_of_a_table(tmp_path, tool, kind):
    path = tmp_path / f"a.{kind}"
    table = pd.DataFrame(TABLES[tool])
    WRITERS[kind](table, path)
    for column in ("label", "annotation", "answer"):
        if column in table:
            expected = list(zip(table["text"], table[column], strict=True))
            assert labels(path, task_of("classification", label_column=column)) == expected


def test_a_tool_is_named_for_tables(tmp_path):
    for kind, write_table in WRITERS.items():
        write_table(pd.DataFrame(PRODIGY), tmp_path / f"a.{kind}")
        with pytest.warns(DataWarning, match="2 of 3 rows are left out: 1 rejected, 1 ignored"):
            assert labels(tmp_path / f"a.{kind}", task_of("classification", format="prodigy")) == [
                ("fine", "GOOD")
            ]


def test_tables_in_memory_whose_answers_may_be_prodigys_are_refused():
    table = pd.DataFrame(PRODIGY)
    with pytest.raises(InputError, match=r"^train\[0\]: the column 'answer' may be Prodigy's\. Say `format="):
        read_memory(task_of("classification"), table, "train")
    task = task_of("classification", format="prodigy")
    for data in (table, PRODIGY):
        with pytest.warns(DataWarning, match="2 of 3 rows are left out"):
            assert labels(read_memory(task, data, "train")[1], task) == [("fine", "GOOD")]
    with pytest.warns(DataWarning, match="2 of 3 rows are left out"):
        assert labels(read_memory(task_of("classification"), PRODIGY, "train")[1]) == [("fine", "GOOD")]
    task = task_of("classification", label_column="answer")
    assert len(labels(read_memory(task, table, "train")[1], task)) == 3


def test_examples_of_spacy_in_memory(tmp_path):
    rows: list[Any] = [("Ada ran", {"entities": [(0, 3, "PER")]})]
    assert tags(read_memory(task_of("tagging"), rows, "train")[1]) == ["B-PER O"]
    rows = [("fine", {"cats": {"pos": 1.0, "neg": 0.0}})]
    task = task_of("classification", label_column="cats")
    assert labels(read_memory(task, rows, "train")[1], task) == [("fine", "pos")]


TEXTS: dict[Offsets, tuple[str, list[str]]] = {
    "utf-16": ("Party \N{PARTY POPPER} in Oslo, then to Bergen today", ["Oslo", "Bergen"]),
    "utf-8": ("Großes Café Zürich in Genève today", ["Zürich", "Genève"]),
}
"""Texts in which offsets differ from characters, and words in them, by what the offsets count."""


def spans_of(offsets, *, with_text):
    """Return a row whose spans mark two words."""
    text, words = TEXTS[offsets]
    codec, width = ("utf-16-le", 2) if offsets == "utf-16" else ("utf-8", 1)
    spans = []
    for word in words:
        start, length = (len(part.encode(codec)) // width for part in (text[: text.index(word)], word))
        span = {"start": start, "end": start + length, "label": "LOC"}
        spans.append({**span, "text": word} if with_text else span)
    return {"text": text, "spans": spans}


def marked(path, task=None):
    texts = (task or task_of("tagging")).examples(path)
    sentences = [sentence for text in texts for sentence in text.sentences]
    return [w for s in sentences for w, tag in zip(s.words, s.tags or (), strict=True) if tag != "O"]


@pytest.mark.parametrize("offsets", TEXTS)
def test_offsets_count_what_the_setting_says(write, offsets):
    for with_text in (True, False):
        path = write("a.jsonl", [spans_of(offsets, with_text=with_text)])
        assert marked(path, task_of("tagging", offsets=offsets)) == TEXTS[offsets][1]
        if with_text:
            message = rf"not where its text is; the text there is .*`tagging\.offsets={offsets}"
            with pytest.raises(InputError, match=message):
                marked(path)
        else:
            with pytest.warns(
                DataWarning, match=r"2 of 2 spans .* inside a word .* the task's setting offsets says"
            ):
                marked(path)


OTHER_TAGS = {
    "suffixes": "Ada PER-B\nLove PER-I\nran O\n\nOslo LOC-B\n",
    "underscores": "Ada B_PER\nLove I_PER\nran O\n\nOslo B_LOC\n",
    "suffixes with underscores": "Ada PER_B\nLove PER_I\nran O\n\nOslo LOC_B\n",
    "outside as B-O": "Ada B-PER\nLove I-PER\nran B-O\n\nOslo B-LOC\n",
    "outside as O-B": "Ada PER-B\nLove PER-I\nran O-B\n\nOslo LOC-B\n",
}


@pytest.mark.parametrize("form", OTHER_TAGS)
def test_tags_in_other_forms_mark_the_same_entities(tmp_path, form):
    path = tmp_path / "a.conll"
    path.write_text(OTHER_TAGS[form])
    assert tags(path) == ["B-PER I-PER O", "B-LOC"]
    task = task_of("tagging").fit(list(task_of("tagging").examples(path)))
    assert task.answer.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    examples = list(task.examples(path))
    assert task.score(examples, task.answer.read_answers(path, examples))["f1"] == 100
    rows = [line.split() for line in OTHER_TAGS[form].splitlines() if line]
    table = {"tokens": [[word for word, _ in rows]], "ner_tags": [[tag for _, tag in rows]]}
    assert tags(read_memory(task, table, "train")[1]) == ["B-PER I-PER O B-LOC"]
    assert tags(path, task_of("tagging", scheme="plain"))[1] == rows[-1][1]


def test_models_whose_classes_are_in_other_forms():
    answer = task_of("tagging").answer.with_class_names(("O", "PER-B", "PER-I"))
    assert (answer.labels, answer.scheme) == (("O", "B-PER", "I-PER"), "IOB2")
    answer = task_of("tagging").answer.with_class_names(("B-O", "I-O", "B-PER", "I-PER"))
    example = task_of("tagging").reader.split("Ada ran far")
    logits = np.eye(4, dtype=np.float32)[[2, 0, 1]]
    prediction = answer.decode(example, [], [logits])
    assert prediction.tags == (("B-PER", "O", "O"),)
    assert [entity.text for entity in answer.entities(example, prediction)] == ["Ada"]
