"""Rows of annotation tools as rows of a table: a text with its labels or spans, and why nobody has labeled it.

Rows of JSON are recognized by fields that only the tool has, rows of other tables only if `format` names the tool.

{"text": "Ada", "spans": […], "answer": "reject"}                                          Prodigy
{"text": "Ada", "options": […], "accept": ["good"], "answer": "accept"}                     Prodigy, choices
{"data": {"text": "Ada"}, "annotations": [{"result": […], "was_cancelled": false}]}         Label Studio
{"text": "Ada", "id": 1, "mood": "good", "annotation_id": 1, "lead_time": 4.1}              Label Studio, short
{"id": 1, "text": "Ada", "label": "film#music", "Comments": []}                             doccano, CSV
{"fields": {"text": "Ada"}, "responses": {"label": [{"value": "good", "status": "submitted"}]}}         Argilla 2
{"text": "Ada", "label.responses": ["good"], "label.responses.status": ["submitted"]}       Argilla 2, in `datasets`
["Ada", {"entities": [[0, 3, "PER"]], "cats": {"good": 1.0, "bad": 0.0}}]                   spaCy
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cloze.data.reading.bad_rows import NotAnnotatedError
from cloze.data.reading.directories import ANNOTATIONS
from cloze.data.reading.files import read_lines
from cloze.data.reading.json_rows import as_object, json_values, show_value
from cloze.data.reading.source import RawRow, ReadOptions, Source
from cloze.errors import InputError

ANSWER = "answer"
_ANSWERS = {"accept": None, "reject": "rejected", "ignore": "ignored"}
_RESPONSES, _STATUS = ".responses", ".status"  # ends of names
_BRAT_SPAN = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")


class AnnotatedRow(dict[str, Any]):
    """The row of an annotation tool by column."""

    problem: InputError | None = None
    """Why the annotations cannot be used; the text can."""
    num_rejected_spans: int = 0
    task: str | None = None
    """Identifies the annotated text, for tools with a row per annotator."""
    answers: object = None

    def set_spans(self, spans: Sequence[Any], name: str = "entities") -> None:
        """Put the spans of the annotator in the place of others, which the data may have."""
        for other in {"entities", "spans", "ents"} - {name}:
            self.pop(other, None)
        self[name] = spans

    def set_labels(self, questions: Sequence[Any]) -> None:
        """Give labels the default names of their column, if one question asks for labels."""
        if len(questions) < 2:
            cells = dict.fromkeys(("label", "labels"), questions[0] if questions else []) | self
            self.clear()
            self.update(cells)


class AnnotationTool(NamedTuple):
    """How JSON rows of an annotation tool are recognized, and a function from such a row and its place."""

    about: str
    tasks: tuple[str, ...]
    extensions: tuple[str, ...]

    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], str], AnnotatedRow]


def read_json(source: Source) -> Iterator[RawRow]:
    """Yield the rows of JSON lines, or of a file that is one list or one object."""
    for values, where in json_values(source):
        if isinstance(values, str) and values.lstrip().startswith(("[", "null")):
            with suppress(ValueError, RecursionError):
                values = json.loads(values)
        try:
            if values is None:
                raise NotAnnotatedError("null", where=where)
            yield values if type(values) is dict else as_object(from_spacy(values), where), where
        except InputError as error:
            yield error, where


def find_tool(row: Mapping[str, Any]) -> str | None:
    """Return the annotation tool whose fields a row of JSON has; None for other rows."""
    return next((name for name, tool in ANNOTATION_TOOLS.items() if tool.fits(row)), None)


def from_spacy(values: Any) -> Any:
    """Return a text and its annotations, as spaCy's examples are, as an object; all else as it is.

    >>> from_spacy(("Ada", {"entities": [(0, 3, "PER")]}))
    {'text': 'Ada', 'entities': [(0, 3, 'PER')]}
    """
    is_example = isinstance(values, list | tuple) and [type(value) for value in values] == [str, dict]
    if is_example and values[1].keys() & {"entities", "cats"}:
        return {"text": values[0], **values[1]}
    return values


def annotators_differ(what: str, where: str) -> InputError:
    """Return the error that annotators gave different answers."""
    return InputError(what, where=where, remedy="Leave one annotation of each text in the export")


def unwrap_labels(cell: Any) -> Any:
    """Return the list of labels in an object that an annotation tool or spaCy wrote; other cells as they are.

    >>> unwrap_labels({"choices": ["good"]}), unwrap_labels('{"good": 1.0, "bad": 0.0}'), unwrap_labels("{good}")
    (['good'], ['good'], '{good}')
    >>> unwrap_labels('[{"rating": 4}]')
    4
    """
    labels = cell
    if isinstance(cell, str) and cell.lstrip().startswith(("{", "[{")):
        with suppress(ValueError, RecursionError):
            labels = json.loads(cell)
    if isinstance(labels, list) and len(labels) == 1 and isinstance(labels[0], dict):
        number = labels[0].get("rating", labels[0].get("number"))
        return cell if number is None else number
    if not (isinstance(labels, dict) and labels):
        return cell
    if len(labels) == 1 and (name := next(iter(labels))) in ("choices", "cats"):
        return unwrap_labels(labels[name])
    is_flags = all(isinstance(value, int | float) and value in (0, 1) for value in labels.values())
    return [name for name, value in labels.items() if value] if is_flags else cell


def _read_prodigy(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    """Leave out rejected spans. Where nobody marked one, some versions leave out the field."""
    annotated = AnnotatedRow(row)
    if (answer := row.get(ANSWER)) not in _ANSWERS:
        what = f"{ANSWER!r} is {show_value(answer)}, not accept, reject or ignore"
        raise InputError(what, where=where, remedy="Prodigy writes one of these")
    if (reason := _ANSWERS[answer]) is not None:
        annotated.problem = NotAnnotatedError(reason, where=where)
    if str(row.get("_view_id", "")).startswith(("ner", "spans")):
        annotated["spans"] = row.get("spans") or []
    if isinstance(spans := annotated.get("spans"), list):
        answers = [span.get(ANSWER) if isinstance(span, Mapping) else None for span in spans]
        if "ignore" in answers:
            annotated.problem = NotAnnotatedError("ignored", where=where)
        accepted = [span for span, answer in zip(spans, answers, strict=True) if answer != "reject"]
        annotated.set_spans(accepted, "spans")
        annotated.num_rejected_spans = answers.count("reject")
    if isinstance(row.get("options"), list):
        annotated.set_labels([row.get("accept") or []])
    return annotated


def _read_label_studio(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    if not isinstance(data := row.get("data"), Mapping):
        return _read_flat_label_studio(row, where)
    texts = [value for value in data.values() if isinstance(value, str)]
    annotated = AnnotatedRow({name: cell for name, cell in data.items() if name not in ("label", "labels")})
    if "text" not in data and len(texts) == 1:
        annotated["text"] = texts[0]
    annotations = row.get("annotations", row.get("completions", []))
    if not isinstance(annotations, list) or not all(isinstance(a, Mapping) for a in annotations):
        annotated.problem = InputError("'annotations' is not a list of objects", where=where)
        return annotated
    done = [_results(a) for a in annotations if not (a.get("was_cancelled") or a.get("skipped"))]
    if not done:
        reason = "skipped" if annotations else "not annotated"
        annotated.problem = NotAnnotatedError(reason, where=where)
    elif any(results != done[0] for results in done):
        annotated.problem = annotators_differ(f"{len(done)} annotations of one text differ", where)
    spans, labels = done[0] if done else ([], {})
    if spans or not labels:
        annotated.set_spans(spans)
    annotated.update(labels)
    annotated.set_labels(list(labels.values()))
    return annotated


_LABEL_STUDIO_FIELDS = {"annotator", "created_at", "updated_at", "lead_time", "agreement", "comment"}


def _read_flat_label_studio(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    """Read the short exports, with the columns of the data, the questions, and the tool; a row for each annotator.

    JSON has the data before the id and the questions after it. CSV and TSV have all columns in alphabetical order.
    """
    if "annotation_id" not in row:
        remedy = "Label Studio's exports have it, or 'data' and 'annotations'"
        raise InputError("no column 'annotation_id'", where=where, remedy=remedy)
    names = [name for name in row if name not in _LABEL_STUDIO_FIELDS]
    is_sorted = "id" not in names or names.index("annotation_id") < names.index("id")
    asked = names if is_sorted else names[names.index("id") :]
    questions = {name: row[name] for name in asked if name not in ("annotation_id", "id", "text")}
    spans = [value for value in questions.values() if _is_spans(value)]
    labels = [value for value in questions.values() if not _is_spans(value)]
    annotated = AnnotatedRow(
        {name: cell for name, cell in row.items() if is_sorted or name not in ("label", "labels")} | questions
    )
    if row["annotation_id"] in (None, ""):
        annotated.problem = NotAnnotatedError("not annotated", where=where)
    is_empty = not (labels or is_sorted) or any(value in (None, "") for value in labels)
    if spans or is_empty:
        annotated.set_spans(spans[0] if spans else [])
    if not is_sorted:
        annotated.set_labels(labels)
    annotated.task = str((row.get("id"), row.get("text")))  # a column of the data may be called id
    annotated.answers = questions
    return annotated


def _is_spans(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "start" in value[0]


def _results(annotation: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the spans of an annotation, and its labels by the name of their question."""
    spans, labels = [], {}
    results = annotation.get("result")
    for result in results if isinstance(results, list) else ():
        value = result.get("value") if isinstance(result, Mapping) else None
        if not isinstance(value, Mapping):
            continue
        if "start" in value:
            spans.append(value)
        elif (name := next((n for n in ("choices", "rating", "number") if n in value), None)) is not None:
            labels[str(result.get("from_name", "label"))] = value[name]
    return sorted(spans, key=str), labels


def _read_argilla(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    """Read the answers that annotators submitted; `datasets` has them in columns, JSON in an object."""
    questions = {
        name.removesuffix(_STATUS): list(
            zip(row.get(name.removesuffix(_STATUS)) or (), cell or (), strict=False)
        )
        for name, cell in row.items()
        if name.endswith(_RESPONSES + _STATUS)
    }
    if isinstance(responses := row.get("responses"), Mapping):
        questions = {
            name: [(answer.get("value"), answer.get("status")) for answer in answers or ()]
            for name, answers in responses.items()
        }
    annotated = AnnotatedRow({**row, **row["fields"]} if isinstance(row.get("fields"), Mapping) else row)
    statuses = {status for answers in questions.values() for _, status in answers}
    if "submitted" not in statuses:
        reason = "discarded" if "discarded" in statuses else "not annotated"
        annotated.problem = NotAnnotatedError(reason, where=where)
        questions = {}
    labels = {}
    for name, answers in questions.items():
        value, *others = [value for value, status in answers if status == "submitted"] or [[]]
        if any(other != value for other in others) and annotated.problem is None:
            what = f"annotators gave different answers to {name!r}"
            annotated.problem = InputError(
                what, where=where, remedy="Leave one answer of each row in the export"
            )
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            annotated["entities"] = value
        else:
            labels[name] = value
    annotated.update(labels)
    annotated.set_labels([*labels.values()])
    return annotated


def _read_doccano(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    """Read a row of a CSV, with # between the labels of a text; spans and lists of labels as they are."""
    annotated = AnnotatedRow(row)
    if isinstance(label := annotated.get("label"), str):
        del annotated["label"]
        annotated.set_labels([label.split("#") if label else []])
    return annotated


_TASKS = ("classification", "multi-label", "tagging")
ANNOTATION_TOOLS = {
    "prodigy": AnnotationTool(
        "spans, labels and choices; rejected and ignored texts are left out and counted",
        _TASKS,
        (".jsonl",),
        fits=lambda row: isinstance(row.get(ANSWER), str) and row[ANSWER] in _ANSWERS,
        read=_read_prodigy,
    ),
    "label-studio": AnnotationTool(
        "JSON, JSON-MIN, and with --format CSV and TSV, where --label-column names the question; "
        "skipped texts are left out and counted; CONLL2003 is read as columns",
        (*_TASKS, "regression"),
        (".json", ".csv", ".tsv", ".conll"),
        fits=lambda row: (
            (
                isinstance(row.get("data"), Mapping)
                and not row.keys().isdisjoint(("annotations", "completions"))
            )
            or row.keys() >= {"annotation_id", "lead_time"}
        ),
        read=_read_label_studio,
    ),
    "doccano": AnnotationTool(
        "texts with spans, or with labels; with --format, # separates the labels of a cell of a CSV",
        _TASKS,
        (".jsonl", ".csv"),
        fits=lambda row: False,  # its JSON is rows as others write them
        read=_read_doccano,
    ),
    "argilla": AnnotationTool(
        "version 2, of `datasets` with --format; discarded texts are left out and counted",
        _TASKS,
        (".jsonl", ".json", "a directory"),
        fits=lambda row: (
            isinstance(row.get("fields"), Mapping)
            if "responses" in row
            else any(name.endswith(_RESPONSES + _STATUS) for name in row)
        ),
        read=_read_argilla,
    ),
}
"""By the value of `format`. To add a tool, add an entry."""


def read_brat(source: Source) -> Iterator[RawRow]:
    """Yield the texts of a directory, with their spans if they are labeled."""
    for text in source.brat_texts:
        try:
            yield _read_annotated(text, source.options), str(text)
        except InputError as error:
            yield error, str(text)


def _read_annotated(text: Path, options: ReadOptions) -> Mapping[str, Any]:
    """Return a text of brat and its spans."""
    annotations, row = text.with_suffix(ANNOTATIONS), {"text": Source(text, options).read_whole()}
    if not options.labeled:
        return row
    if not annotations.is_file():
        raise NotAnnotatedError("without annotations", where=text)
    spans = []
    for line, place in read_lines(annotations, options.encoding):
        if not line.startswith("T"):  # relations, events, attributes and notes
            continue
        match = _BRAT_SPAN.fullmatch(line)
        if match is None:
            raise InputError(
                f"not a span of brat: {line[:60]!r}",
                where=place,
                remedy="Write T1, a tab, LOC 13 17, a tab, Oslo",
            )
        label, offsets, marked = match.groups()
        if ";" in offsets:
            what = f"the span {(marked or label)[:60]!r} has several parts: {offsets}"
            remedy = "Tags mark words in a row: leave one part, or remove the line"
            raise InputError(what, where=place, remedy=remedy)
        start, end = map(int, offsets.split())
        spans.append({"start": start, "end": end, "label": label, "text": marked})
    return {**row, "entities": spans}
