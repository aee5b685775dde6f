"""Rows of annotation tools as rows of a table: a text with its labels or spans, and why nobody has labeled it.

{"text": "Ada", "spans": […], "answer": "reject"}                                          Prodigy
{"text": "Ada", "options": […], "accept": ["good"], "answer": "accept"}                     Prodigy, choices
{"data": {"text": "Ada"}, "annotations": [{"result": […], "was_cancelled": false}]}         Label Studio
{"text": "Ada", "id": 1, "mood": "good", "annotator": 1, "lead_time": 4.1}                  Label Studio, short
{"id": 1, "text": "Ada", "label": "film#music", "Comments": []}                             doccano, CSV
{"tokenized_text": ["Ada", "ran"], "ner": [[0, 0, "person"]]}                               GLiNER
{"document": "Ada", "annotation": {"entities": […]}}                                       Universal Data Tool
{"content": "Ada", "annotations": […], "classifications": […]}                              LightTag
{"text": "Ada", "prediction": […], "annotation": […], "status": "Discarded"}                Argilla 1
{"text": "Ada", "label.responses": ["good"], "label.responses.status": ["submitted"]}       Argilla 2, in `datasets`
{"fields": {"text": "Ada"}, "responses": {"label": [{"value": "good", "status": "submitted"}]}}         in JSON
["Ada", {"entities": [[0, 3, "PER"]], "cats": {"good": 1.0, "bad": 0.0}}]                   spaCy
"""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from cloze.data.reading.bad_rows import NotAnnotatedError
from cloze.data.reading.json_rows import as_object
from cloze.errors import InputError

ANSWER = "answer"
_ANSWERS = {"accept": None, "reject": "rejected", "ignore": "ignored"}
_RESPONSES, _STATUS = ".responses", ".status"  # ends of names


class AnnotatedRow(dict[str, Any]):
    """The row of an annotation tool by column."""

    problem: InputError | None = None
    """Why the annotations cannot be used; the text can."""
    num_rejected_spans: int = 0
    task: str | None = None
    """Identifies the annotated text, for tools with a row per annotator."""
    answers: object = None
    """The answers of the annotator."""


class AnnotationTool(NamedTuple):
    """How rows of an annotation tool are recognized, and a function from such a row and its place."""

    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], str], AnnotatedRow]


def annotated_row(values: Any, where: str) -> Mapping[str, Any]:
    """Return the object of a row, or parse it from a line; that of an annotation tool with a text, labels and spans.

    Raises:
        InputError: it is not an object. NotAnnotatedError: it is null.
    """
    if isinstance(values, AnnotatedRow):
        return values
    if isinstance(values, str) and values.lstrip().startswith(("[", "null")):
        with suppress(ValueError, RecursionError):
            values = json.loads(values)
    if values is None:
        raise NotAnnotatedError("null", where=where)
    row = values if type(values) is dict else as_object(from_spacy(values), where)
    tool = next((tool for tool in ANNOTATION_TOOLS.values() if tool.fits(row)), None)
    return row if tool is None else tool.read(row, where)


def from_spacy(values: Any) -> Any:
    """Return a text and its annotations, as spaCy's examples are, as an object; all else as it is.

    >>> from_spacy(("Ada", {"entities": [(0, 3, "PER")]}))
    {'text': 'Ada', 'entities': [(0, 3, 'PER')]}
    """
    is_example = isinstance(values, list | tuple) and [type(value) for value in values] == [str, dict]
    if is_example and values[1].keys() & {"entities", "cats"}:
        return {"text": values[0], **values[1]}
    return values


def check_annotated(row: Mapping[str, Any], where: str, answers: dict[str, object]) -> None:
    """Refuse a row whose annotations cannot be used.

    Args:
        row: the row.
        where: its place.
        answers: annotators' answers of earlier rows by `task`; those of this row are added.

    Raises:
        NotAnnotatedError: the annotator rejected, ignored or skipped it, or has not seen it.
        InputError: annotators disagree.
    """
    if not isinstance(row, AnnotatedRow):
        return
    if row.problem is not None:
        raise row.problem
    if row.task is not None and answers.setdefault(row.task, row.answers) != row.answers:
        raise _annotators_differ("the annotators of a text differ", where)


def _annotators_differ(what: str, where: str) -> InputError:
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
    if (reason := _ANSWERS[row[ANSWER]]) is not None:
        annotated.problem = NotAnnotatedError(reason, where=where)
    if str(row.get("_view_id", "")).startswith(("ner", "spans")):
        annotated["spans"] = row.get("spans") or []
    if isinstance(spans := annotated.get("spans"), list):
        answers = [span.get(ANSWER) if isinstance(span, Mapping) else None for span in spans]
        if "ignore" in answers:
            annotated.problem = NotAnnotatedError("ignored", where=where)
        accepted = [span for span, answer in zip(spans, answers, strict=True) if answer != "reject"]
        annotated = _with_spans(annotated, accepted, annotated.problem, name="spans")
        annotated.num_rejected_spans = answers.count("reject")
    if isinstance(row.get("options"), list):
        chosen = _with_labels(annotated, [row.get("accept") or []], annotated.problem)
        chosen.num_rejected_spans = annotated.num_rejected_spans
        return chosen
    return annotated


def _read_label_studio(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    data = row["data"]
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
        annotated.problem = _annotators_differ(f"{len(done)} annotations of one text differ", where)
    spans, labels = done[0] if done else ([], {})
    if spans or not labels:
        annotated = _with_spans(annotated, spans, annotated.problem)
    return _with_labels(annotated | labels, list(labels.values()), annotated.problem)


_LABEL_STUDIO_FIELDS = {
    "annotation_id",
    "annotator",
    "created_at",
    "updated_at",
    "lead_time",
    "agreement",
    "comment",
}


def is_of_label_studio(names: Container[str]) -> bool:
    """Return whether columns are those of a short export of Label Studio."""
    return "annotation_id" in names and "lead_time" in names


def _read_flat_label_studio(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    """Read the short exports, with the columns of the data, the questions, and the tool; a row for each annotator.

    JSON has the data before the id and the questions after it. CSV and TSV have all columns in alphabetical order.
    """
    names = [name for name in row if name not in _LABEL_STUDIO_FIELDS or name == "annotation_id"]
    is_sorted = "id" not in names or names.index("annotation_id") < names.index("id")
    asked = names if is_sorted else names[names.index("id") :]
    questions = {
        name: _parse_json(row[name]) for name in asked if name not in ("annotation_id", "id", "text")
    }
    spans = [value for value in questions.values() if _is_spans(value)]
    labels = [value for value in questions.values() if not _is_spans(value)]
    data = {name: cell for name, cell in row.items() if is_sorted or name not in ("label", "labels")}
    annotated = AnnotatedRow(data | questions)
    if row["annotation_id"] in (None, ""):
        annotated.problem = NotAnnotatedError("not annotated", where=where)
    is_empty = not (labels or is_sorted) or any(value in (None, "") for value in labels)
    if spans or is_empty:
        annotated = _with_spans(annotated, spans[0] if spans else [], annotated.problem)
    if not is_sorted:
        annotated = _with_labels(annotated, labels, annotated.problem)
    annotated.task = str((row.get("id"), row.get("text")))  # a column of the data may be called id
    annotated.answers = questions
    return annotated


def _parse_json(cell: Any) -> Any:
    """Return the list or object that a cell has as JSON; other cells as they are."""
    if isinstance(cell, str) and cell.startswith(("[{", "{")):
        with suppress(ValueError, RecursionError):
            return json.loads(cell)
    return cell


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


def _with_spans(
    row: Mapping[str, Any], spans: Sequence[Any], problem: InputError | None, *, name: str = "entities"
) -> AnnotatedRow:
    """Return a row with the spans of the annotator in the place of others, which the data may have."""
    cells = {
        key: cell for key, cell in row.items() if key == name or key not in ("entities", "spans", "ents")
    }
    annotated = AnnotatedRow(cells | {name: spans})
    annotated.problem = problem
    return annotated


def _with_labels(
    row: Mapping[str, Any], questions: Sequence[Any], problem: InputError | None = None
) -> AnnotatedRow:
    """Return a row whose labels have the default names of their column, if one question asks for labels."""
    labels = questions[0] if questions else []
    names = {"label": labels, "labels": labels} if len(questions) < 2 else {}
    annotated = AnnotatedRow({**names, **row})
    annotated.problem = problem
    return annotated


def _read_universal_data_tool(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    annotation = row["annotation"]
    cells = {name: cell for name, cell in row.items() if name != "annotation"} | {"text": row["document"]}
    if annotation is None:
        return _with_labels(cells, [], NotAnnotatedError("not annotated", where=where))
    if not isinstance(annotation, Mapping):
        return _with_labels(cells, [annotation])
    if "entities" in annotation:
        return AnnotatedRow(cells | {"entities": annotation["entities"]})
    return _with_labels(cells, [annotation.get("labels", annotation.get("label"))])


def _read_light_tag(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    spans = [
        {"start": a.get("start"), "end": a.get("end"), "label": a.get("tag"), "text": a["value"]}
        if isinstance(a, Mapping) and "value" in a
        else a
        for a in row["annotations"]
    ]
    cells = {**row, "text": row["content"], "entities": spans}
    classes = row.get("classifications") or []
    if not classes:
        return AnnotatedRow(cells)
    return _with_labels(cells, [[c.get("classname") if isinstance(c, Mapping) else c for c in classes]])


def _read_argilla(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    annotation, problem = row["annotation"], None
    cells = {name: cell for name, cell in row.items() if name != "annotation"}
    texts = list(row["inputs"].values()) if isinstance(row.get("inputs"), Mapping) else []
    if row.get("text") is None and len(texts) == 1:
        cells["text"] = texts[0]
    if str(row.get("status")).lower() == "discarded":
        problem = NotAnnotatedError("discarded", where=where)
    elif annotation is None:
        problem = NotAnnotatedError("not annotated", where=where)
    if isinstance(row.get("tokens"), list):
        spans = annotation or []
        if isinstance(spans, list):  # an older version has the label first
            spans = [[*s[1:3], s[0]] if isinstance(s, list) and isinstance(s[0], str) else s for s in spans]
        annotated = AnnotatedRow(cells | {"entities": spans})
        annotated.problem = problem
        return annotated
    return _with_labels(cells, [annotation], problem)


def _read_argilla_2(row: Mapping[str, Any], where: str) -> AnnotatedRow:
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
    cells = {**row, **row["fields"]} if isinstance(row.get("fields"), Mapping) else {**row}
    statuses = {status for answers in questions.values() for _, status in answers}
    if "submitted" not in statuses:
        reason = "discarded" if "discarded" in statuses else "not annotated"
        return _with_labels(cells, [], NotAnnotatedError(reason, where=where))
    submitted = {
        name: [value for value, status in answers if status == "submitted"]
        for name, answers in questions.items()
    }
    differing = [name for name, values in submitted.items() if any(value != values[0] for value in values)]
    problem = None
    if differing:
        what = f"annotators gave different answers to {differing[0]!r}"
        problem = InputError(what, where=where, remedy="Leave one answer of each row in the export")
    labels = {}
    for name, values in submitted.items():
        value = values[0] if values else []
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            cells["entities"] = value
        else:
            labels[name] = value
    cells |= labels
    return _with_labels(cells, [*labels.values()], problem)


def _read_doccano(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    labels = row["label"].split("#") if row["label"] else []
    return _with_labels({name: cell for name, cell in row.items() if name != "label"}, [labels])


def _read_gliner(row: Mapping[str, Any], where: str) -> AnnotatedRow:
    """Read spans of words, whose end is their last word."""
    words, spans = row["tokenized_text"], row["ner"]
    tags, problem = ["O"] * len(words), None
    for span in spans:
        if not (
            isinstance(span, list)
            and len(span) > 2
            and type(span[0]) is type(span[1]) is int
            and 0 <= span[0] <= span[1] < len(words)
        ):
            what = f"'ner' has {json.dumps(span)[:60]}, and there are {len(words)} words"
            remedy = 'Write [0, 1, "person"]: the first word, counted from 0, the last, and the type'
            problem = InputError(what, where=where, remedy=remedy)
            break
        first, last, label = span[0], span[1], str(span[2])
        if any(tag != "O" for tag in tags[first : last + 1]):
            what = f"{json.dumps(span)[:60]} of 'ner' overlaps another"
            problem = InputError(what, where=where, remedy="A word has one tag: leave one of the spans")
            break
        tags[first : last + 1] = [f"B-{label}", *[f"I-{label}"] * (last - first)]
    cells = {name: cell for name, cell in row.items() if name not in ("tokenized_text", "ner")}
    annotated = AnnotatedRow(cells | {"tokens": words, "ner_tags": tags})
    annotated.problem = problem
    return annotated


ANNOTATION_TOOLS = {
    "Prodigy": AnnotationTool(
        lambda row: isinstance(row.get(ANSWER), str) and row[ANSWER] in _ANSWERS, _read_prodigy
    ),
    "Label Studio": AnnotationTool(lambda row: isinstance(row.get("data"), Mapping), _read_label_studio),
    "Label Studio, short": AnnotationTool(is_of_label_studio, _read_flat_label_studio),
    "doccano": AnnotationTool(
        lambda row: row.keys() >= {"text", "label", "Comments"} and isinstance(row["label"], str),
        _read_doccano,
    ),
    "GLiNER": AnnotationTool(
        lambda row: isinstance(row.get("tokenized_text"), list) and isinstance(row.get("ner"), list),
        _read_gliner,
    ),
    "Universal Data Tool": AnnotationTool(
        lambda row: "annotation" in row and isinstance(row.get("document"), str), _read_universal_data_tool
    ),
    "LightTag": AnnotationTool(
        lambda row: isinstance(row.get("annotations"), list) and isinstance(row.get("content"), str),
        _read_light_tag,
    ),
    "Argilla 1": AnnotationTool(lambda row: "annotation" in row and "prediction" in row, _read_argilla),
    "Argilla 2": AnnotationTool(
        lambda row: (
            isinstance(row.get("fields"), Mapping)
            if "responses" in row
            else any(name.endswith(_RESPONSES + _STATUS) for name in row)
        ),
        _read_argilla_2,
    ),
}
"""By name. To add a tool, add an entry."""
