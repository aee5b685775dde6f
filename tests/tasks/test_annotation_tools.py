"""Exports of annotation tools: texts with spans or labels, and what annotators rejected, skipped or left open."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cloze.errors import DataWarning, InputError
from cloze.tasks.data import read_memory
from cloze.tasks.span_offsets import Offsets
from cloze.tasks.task import AnyTask
from helpers import task_of

Write = Callable[..., Path]

SPAN = {"start": 0, "end": 3, "label": "PER"}


@pytest.fixture
def write(write: Callable[[str, Any], Path]) -> Write:
    """Return a function that writes rows as lines, or as one list if the file is called .json."""
    return lambda rows, name="a.jsonl": write(name, rows if name == "a.jsonl" else json.dumps(rows))


def tags(path: Path, task: AnyTask | None = None) -> list[str]:
    """Return the tags of the words of each text."""
    texts = (task or task_of("tagging")).examples(path)
    return [" ".join(tag for s in text.sentences for tag in s.tags or ()) for text in texts]


def labels(path: Any, task: Any = None) -> list[tuple[str, str]]:
    return [(example.text, example.gold) for example in (task or task_of("classification")).examples(path)]


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
    "Label Studio of old": (
        [
            studio("Ada ran", {"value": {"start": 0, "end": 3, "labels": ["PER"]}}),
            studio("Bo ran", {"value": {"start": 0, "end": 2, "labels": ["PER"]}}, skipped=True),
        ],
        "1 of 2 rows are left out: 1 skipped (line 2 is the first)",
    ),
    "spaCy": ([["Ada ran", {"entities": [[0, 3, "PER"]]}], None], "1 of 2 rows are left out: 1 null"),
}


@pytest.mark.parametrize("tool", UNUSED_TAGS)
def test_texts_that_nobody_tagged_are_left_out_and_counted(write: Write, tool: str) -> None:
    rows, warning = UNUSED_TAGS[tool]
    with pytest.warns(DataWarning, match=re.escape(warning)) as warned:
        assert tags(write(rows)) == ["B-PER O"]
    assert len(warned) == 1


def test_rejected_spans_are_left_out_and_counted(write: Write) -> None:
    spans = [{**SPAN, "answer": "accept"}, {"start": 4, "end": 7, "label": "PER", "answer": "reject"}]
    path = write([{"text": "Ada ran", "spans": spans, "answer": "accept"}])
    with pytest.warns(DataWarning, match="1 rejected span left out"):
        assert tags(path) == ["B-PER O"]


def test_an_accepted_text_without_spans_has_no_entities(write: Write) -> None:
    row = {"text": "It ran", "answer": "accept", "_view_id": "ner_manual"}
    assert tags(write([row, {**row, "spans": None}])) == ["O O", "O O"]


PRODIGY = [
    {"text": "fine", "label": "GOOD", "answer": "accept"},
    {"text": "bad", "label": "GOOD", "answer": "reject"},
    {"text": "gray", "label": "BAD", "answer": "ignore"},
]


def test_rejected_labels_are_not_learned(write: Write) -> None:
    path = write(PRODIGY)
    with pytest.warns(DataWarning, match="2 of 3 rows are left out: 1 rejected, 1 ignored"):
        assert labels(path) == [("fine", "GOOD")]
    texts = [example.text for example in task_of("classification").examples(path, labeled=False)]
    assert texts == ["fine", "bad", "gray"]


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
def test_columns_named_as_those_of_a_tool_are_columns_of_a_table(
    tmp_path: Path, tool: str, kind: str
) -> None:
    path = tmp_path / f"a.{kind}"
    table = pd.DataFrame(TABLES[tool])
    WRITERS[kind](table, path)
    for column in ("label", "annotation", "answer"):
        if column in table:
            expected = list(zip(table["text"], table[column], strict=True))
            assert labels(path, task_of("classification", label_column=column)) == expected


def test_a_tool_is_named_for_tables(tmp_path: Path) -> None:
    for kind, write_table in WRITERS.items():
        write_table(pd.DataFrame(PRODIGY), tmp_path / f"a.{kind}")
        with pytest.warns(DataWarning, match="2 of 3 rows are left out: 1 rejected, 1 ignored"):
            assert labels(tmp_path / f"a.{kind}", task_of("classification", format="prodigy")) == [
                ("fine", "GOOD")
            ]
    (tmp_path / "a.csv").write_text("id,text,label,Comments\n1,fine,film#good,[]\n")
    task = task_of("multi-label", label_column="label", format="doccano")
    assert labels(tmp_path / "a.csv", task) == [("fine", {"film", "good"})]


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("prodigy", r"a\.csv:2: 'answer' is null, not accept, reject or ignore"),
        ("label-studio", r"a\.csv:2: no column 'annotation_id'"),
    ],
)
def test_tables_that_are_not_of_the_named_tool_are_refused(tmp_path: Path, tool: Any, message: str) -> None:
    (tmp_path / "a.csv").write_text("text,label\nfine,good\n")
    with pytest.raises(InputError, match=message):
        labels(tmp_path / "a.csv", task_of("classification", format=tool))


def test_objects_called_data_beside_texts_are_no_annotations(write: Write) -> None:
    assert labels(write([{"text": "fine", "label": "good", "data": {"source": "web"}}])) == [("fine", "good")]


def test_tables_in_memory_whose_answers_may_be_prodigys_are_refused() -> None:
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


def test_a_column_called_answer_may_have_the_labels(write: Write) -> None:
    assert labels(write(PRODIGY), task_of("classification", label_column="answer")) == [
        ("fine", "accept"),
        ("bad", "reject"),
        ("gray", "ignore"),
    ]


def test_no_row_that_is_left_is_an_error_with_the_reasons(write: Write) -> None:
    for task in (task_of("classification"), task_of("tagging")):
        with pytest.raises(InputError, match=r"no row is left of 2: 1 rejected, 1 ignored \(line 1"):
            list(task.examples(write(PRODIGY[1:])))


def test_lists_and_objects_of_labels(write: Write) -> None:
    cells: list[Any] = [["GOOD"], {"choices": ["GOOD"]}, {"GOOD": 1.0, "BAD": 0.0}, '{"choices": ["GOOD"]}']
    path = write([{"text": "fine", "accept": cell} for cell in cells])
    assert {label for _, label in labels(path, task_of("classification", label_column="accept"))} == {"GOOD"}
    path = write([*({"text": "fine", "accept": cell} for cell in cells), {"text": "a", "accept": ["A", "B"]}])
    read = labels(path, task_of("multi-label", label_column="accept"))
    assert {label for _, label in read} == {frozenset({"GOOD"}), frozenset({"A", "B"})}
    with pytest.raises(InputError, match=r"a\.jsonl:5: 'accept' is a list of 2\. The task multi-label"):
        labels(path, task_of("classification", label_column="accept"))


def test_label_studios_choices_are_labels(write: Write) -> None:
    rows = [studio("fine", choice("pos")), studio("bad", choice("neg")), SKIPPED, OPEN]
    with pytest.warns(DataWarning, match="1 skipped, 1 not annotated"):
        assert labels(write(rows, "a.json")) == [("fine", "pos"), ("bad", "neg")]
    with pytest.warns(DataWarning, match="1 skipped"):
        assert labels(write(rows, "a.json"), task_of("classification", label_column="mood"))[0] == (
            "fine",
            "pos",
        )
    with pytest.warns(DataWarning, match="1 skipped"):
        assert labels(write([studio("fine", choice("a", "b")), SKIPPED]), task_of("multi-label")) == [
            ("fine", {"a", "b"})
        ]
    texts = [
        example.text for example in task_of("classification").examples(write(rows, "a.json"), labeled=False)
    ]
    assert texts == ["fine", "bad", "Bo ran", "Cy ran"]


def test_two_questions_or_annotators_of_label_studio_are_refused(write: Write) -> None:
    both = studio("fine", choice("pos"), choice("film", question="topic"))
    with pytest.raises(InputError, match=r"no column 'label'.*'mood', 'topic'.*`label_column=NAME`"):
        labels(write([both]))
    assert labels(write([both]), task_of("classification", label_column="topic")) == [("fine", "film")]
    twice = studio("fine", choice("pos"))
    twice["annotations"] *= 2
    assert labels(write([twice])) == [("fine", "pos")]
    twice["annotations"] = [*twice["annotations"][:1], {"result": [choice("neg")]}]
    with pytest.raises(InputError, match=r"2 annotations of one text differ\. Leave one annotation of each"):
        labels(write([twice]))


SHORT = {"annotation_id": 1, "annotator": 1, "lead_time": 1.5}


def sorted_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as Label Studio does: columns in alphabetical order, an empty cell for no answer."""
    table = pd.DataFrame(rows)
    table[sorted(table.columns)].to_csv(path, index=False)
    return path


def test_label_studios_csv_does_not_show_which_column_is_the_question(tmp_path: Path) -> None:
    rows = [{**SHORT, "id": 1, "class": "pos", "review": "fine"}]
    path = sorted_csv(tmp_path / "a.csv", rows)
    for tool in (None, "label-studio"):
        with pytest.raises(InputError, match="no column 'label'"):
            labels(path, task_of("classification", text_column="review", format=tool))
        task = task_of("classification", text_column="review", label_column="class", format=tool)
        assert labels(path, task) == [("fine", "pos")]
    rows = [{**SHORT, "id": 1, "stars": '[{"rating": 4}]', "text": "fine"}]
    path = sorted_csv(tmp_path / "a.csv", rows)
    assert labels(path, task_of("regression", label_column="stars")) == [("fine", 4.0)]


def test_short_exports_of_label_studio_have_texts_that_nobody_annotated(write: Write, tmp_path: Path) -> None:
    done = {"text": "Ada ran", "id": 1, "who": [{"start": 0, "end": 3, "labels": ["PER"]}], **SHORT}
    rows = [done, {"text": "Bo ran", "id": 2, **SHORT}, {"text": "Cy", "id": 3, **dict.fromkeys(SHORT)}]
    with pytest.warns(DataWarning, match=r"1 of 3 rows are left out: 1 not annotated"):
        assert tags(write(rows, "a.json")) == ["B-PER O", "O O"]
    rows[0]["who"] = json.dumps(rows[0]["who"])
    task = task_of("tagging", format="label-studio")
    with pytest.warns(DataWarning, match=r"1 of 3 rows are left out: 1 not annotated"):
        assert tags(sorted_csv(tmp_path / "a.csv", rows), task) == ["B-PER O", "O O"]


def test_annotators_who_disagree_in_a_short_export_are_refused(write: Write) -> None:
    row = {"text": "fine", "id": 1, "mood": "pos", **SHORT}
    assert labels(write([row, row])) == [("fine", "pos")] * 2
    with pytest.raises(
        InputError, match=r"a\.jsonl:2: the annotators of a text differ\. Leave one annotation"
    ):
        labels(write([row, {**row, "mood": "neg"}]))
    assert (
        len(list(task_of("classification").examples(write([row, {**row, "mood": "neg"}]), labeled=False)))
        == 2
    )


def test_annotators_who_mark_the_same_spans_in_another_order_agree(write: Write) -> None:
    marks = [{"value": {"start": a, "end": b, "labels": ["PER"]}} for a, b in ((0, 3), (4, 7))]
    row = {"data": {"text": "Ada Bob"}, "annotations": [{"result": marks}, {"result": marks[::-1]}]}
    assert tags(write([row])) == ["B-PER B-PER"]


def test_spans_and_labels_of_the_data_are_not_the_annotators(write: Write) -> None:
    old = {"text": "Ada ran", "spans": [[4, 7, "OLD"]], "entities": [[4, 7, "OLD"]]}
    manual = {**old, "spans": [SPAN], "answer": "accept", "_view_id": "ner_manual"}
    assert tags(write([manual, {**manual, "spans": []}])) == ["B-PER O", "O O"]
    assert tags(write([{"data": old, "annotations": [{"result": []}]}])) == ["O O"]
    assert tags(write([{**old, "id": 1, **SHORT}])) == ["O O"]
    assert labels(write([{"text": "fine", "label": "old", "id": 1, "mood": "new", **SHORT}])) == [
        ("fine", "new")
    ]


def test_labels_of_other_tools(write: Write) -> None:
    rows = [
        {"text": "fine", "label.responses": ["pos"], "label.responses.status": ["submitted"]},
        {"text": "bad", "label.responses": ["neg"], "label.responses.status": ["discarded"]},
    ]
    with pytest.warns(DataWarning, match="1 of 2 rows are left out: 1 discarded"):
        assert labels(write(rows), task_of("classification", label_column="label.responses")) == [
            ("fine", "pos")
        ]

    def answer(value: Any, status: str = "submitted") -> dict[str, Any]:
        return {"fields": {"text": "Ada ran"}, "responses": {"mood": [{"value": value, "status": status}]}}

    unfinished = [answer("neg", status) for status in ("discarded", "draft", "pending")]
    with pytest.warns(DataWarning, match="3 of 4 rows are left out: 1 discarded, 2 not annotated"):
        assert labels(write([answer("pos"), *unfinished])) == [("Ada ran", "pos")]
    beside = answer("pos")
    beside["responses"]["mood"] += [row["responses"]["mood"][0] for row in unfinished]
    assert labels(write([beside])) == [("Ada ran", "pos")]
    assert tags(write([answer([SPAN])])) == ["B-PER O"]
    flat = {"text": "Ada ran", "who.responses": [[SPAN]], "who.responses.status": ["submitted"]}
    assert tags(write([flat])) == ["B-PER O"]
    twice = answer("pos")
    twice["responses"]["mood"] *= 2
    assert labels(write([twice])) == [("Ada ran", "pos")]
    twice["responses"]["mood"] = [*twice["responses"]["mood"][:1], *answer("neg")["responses"]["mood"]]
    with pytest.raises(InputError, match="annotators gave different answers to 'mood'"):
        labels(write([twice]))


def test_examples_of_spacy_in_memory(tmp_path: Path) -> None:
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


def spans_of(offsets: Offsets, *, with_text: bool) -> dict[str, Any]:
    """Return a row whose spans mark two words."""
    text, words = TEXTS[offsets]
    codec, width = ("utf-16-le", 2) if offsets == "utf-16" else ("utf-8", 1)
    spans = []
    for word in words:
        start, length = (len(part.encode(codec)) // width for part in (text[: text.index(word)], word))
        span = {"start": start, "end": start + length, "label": "LOC"}
        spans.append({**span, "text": word} if with_text else span)
    return {"text": text, "spans": spans}


def marked(path: Path, task: AnyTask | None = None) -> list[str]:
    texts = (task or task_of("tagging")).examples(path)
    sentences = [sentence for text in texts for sentence in text.sentences]
    return [w for s in sentences for w, tag in zip(s.words, s.tags or (), strict=True) if tag != "O"]


@pytest.mark.parametrize("offsets", TEXTS)
def test_offsets_count_what_the_setting_says(write: Write, offsets: Offsets) -> None:
    for with_text in (True, False):
        path = write([spans_of(offsets, with_text=with_text)])
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


@pytest.mark.parametrize(
    "span", [(0, 3, "Oslo"), (1, 5, "Oslo"), (-1, 3, None), (3, 3, None), (0, 99, None), (4, 0, None)]
)
def test_spans_that_are_not_where_their_text_is_are_refused(write: Write, span: tuple[int, int, Any]) -> None:
    start, end, text = span
    path = write(
        [{"text": "Oslo is big", "spans": [{"start": start, "end": end, "label": "LOC", "text": text}]}]
    )
    with pytest.raises(
        InputError, match=r"is not (where its text is|in the text).*Spans count characters from 0"
    ):
        marked(path)


def test_half_an_emoji_is_no_span(write: Write) -> None:
    path = write([{"text": "\N{PARTY POPPER} Oslo", "spans": [[1, 3, "X"]]}])
    with pytest.raises(InputError, match="is not in the text"):
        marked(path, task_of("tagging", offsets="utf-16"))


def test_spaces_that_a_page_collapses_are_no_other_text(write: Write) -> None:
    span = {"start": 6, "end": 22, "label": "LOC", "text": "Berlin, Germany"}
    assert marked(write([{"text": "Text: Berlin,  Germany.", "spans": [span]}])) == ["Berlin", ",", "Germany"]


@pytest.mark.parametrize(
    ("text", "spans", "first"),
    [
        ("Oslo-based, km20 und Genève", [[0, 4], [14, 16], [21, 25]], "'Genè' in"),
        ("Jose\u0301 in Oslo", [[0, 4], [9, 13]], "'Jose' in"),
        ("Zu\u0308rich in 2019", [[4, 7], [11, 15]], "'ich' in"),
        ("Oslo in 2019", [[0, 4], [8, 10]], "'20' in"),
    ],
)
def test_spans_that_cut_words_are_counted(
    write: Write, text: str, spans: list[list[int]], first: str
) -> None:
    path = write([{"text": text, "label": [[*span, "X"] for span in spans]}])
    with pytest.warns(
        DataWarning, match=rf"1 of {len(spans)} spans .* inside a word \(.*a\.jsonl:1: {first}"
    ):
        assert marked(path) == [text[start:end] for start, end in spans]


OTHER_TAGS = {
    "suffixes": "Ada PER-B\nLove PER-I\nran O\n\nOslo LOC-B\n",
    "underscores": "Ada B_PER\nLove I_PER\nran O\n\nOslo B_LOC\n",
    "suffixes with underscores": "Ada PER_B\nLove PER_I\nran O\n\nOslo LOC_B\n",
    "outside as B-O": "Ada B-PER\nLove I-PER\nran B-O\n\nOslo B-LOC\n",
    "outside as O-B": "Ada PER-B\nLove PER-I\nran O-B\n\nOslo LOC-B\n",
}


@pytest.mark.parametrize("form", OTHER_TAGS)
def test_tags_in_other_forms_mark_the_same_entities(tmp_path: Path, form: str) -> None:
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


def test_a_type_called_o_beside_the_tag_o(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("fine B-O\nfilm B-A\n\nthe O\nfilm B-A\n")
    assert tags(path) == ["B-O B-A", "O B-A"]
    path.write_text("fine B-O\nfilm B-A\n")
    assert tags(path, task_of("tagging", labels=("O", "B-A", "I-A", "B-O", "I-O"))) == ["B-O B-A"]


def test_models_whose_classes_are_in_other_forms() -> None:
    answer = task_of("tagging").answer.with_class_names(("O", "PER-B", "PER-I"))
    assert (answer.labels, answer.scheme) == (("O", "B-PER", "I-PER"), "IOB2")
    answer = task_of("tagging").answer.with_class_names(("B-O", "I-O", "B-PER", "I-PER"))
    example = task_of("tagging").reader.split("Ada ran far")
    logits = np.eye(4, dtype=np.float32)[[2, 0, 1]]
    prediction = answer.decode(example, [], [logits])
    assert prediction.tags == (("B-PER", "O", "O"),)
    assert [entity.text for entity in answer.entities(example, prediction)] == ["Ada"]


def test_tags_without_names_are_refused(write: Write) -> None:
    row = {"tokens": ["Ada", "ran"], "ner_tags": ["LABEL_1", "LABEL_0"]}
    with pytest.raises(InputError, match=r"'LABEL_1' is not a tag.*`tagging\.scheme=plain"):
        tags(write([row]))
    assert tags(write([row]), task_of("tagging", scheme="plain")) == ["LABEL_1 LABEL_0"]
    assert tags(write([row]), task_of("tagging", tag_names=("O", "B-PER"))) == ["B-PER O"]


def test_spans_that_pandas_wrote_as_tuples(tmp_path: Path) -> None:
    pd.DataFrame({"text": ["Ada ran"], "label": [[(0, 3, "PER")]]}).to_csv(tmp_path / "a.csv", index=False)
    assert tags(tmp_path / "a.csv") == ["B-PER O"]
