"""Examples in memory as the file of a task: rows of JSON, read and checked as those of any other file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from cloze.data.annotations import from_spacy
from cloze.data.memory import describe_row, iterate_rows, to_json_row
from cloze.errors import InputError
from cloze.memory_file import MemoryFile
from cloze.tasks.span import SpanTask
from cloze.tasks.tagging import Tagging
from cloze.tasks.task import AnyTask
from cloze.tasks.text_pairs import TextPairs
from cloze.tasks.texts import CustomTexts

_SPAN_KEYS = ("question", "context")


def as_file(
    task: AnyTask, data: Any, name: str, folder: Path = Path(), *, labeled: bool = True
) -> tuple[AnyTask, MemoryFile]:
    """Return data in memory as a file of a task, and the task, which knows from tuples whether there are pairs.

    Args:
        task: the task.
        data: rows as dicts or tuples, or a table of pandas, datasets or Arrow, or a dict of columns. A tuple has the
            values in the order of the task's columns; a pair of texts may be a tuple in it.
        name: name of the argument, for messages.
        folder: where a run keeps the file.
        labeled: whether tuples have labels.

    Raises:
        InputError: a row is of another kind, or there are no rows.
    """
    rows = [from_spacy(row) for row in iterate_rows(data, name, task.keeps_numbers)]
    if not rows:
        raise InputError("holds no rows", where=name)
    if not labeled:
        rows = [(row,) if isinstance(row, str) else row for row in rows]
    if any(isinstance(row, tuple) for row in rows):
        rows = [_flatten(row) if isinstance(row, tuple) else row for row in rows]
        task, columns = _columns_of_tuples(
            task, max(len(row) for row in rows if isinstance(row, tuple)), labeled=labeled
        )
        rows = [
            _named(row, columns, f"{name}[{i}]") if isinstance(row, tuple) else row
            for i, row in enumerate(rows)
        ]
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            remedy = "Give a tuple such as (text, label), or a dict by column"
            raise InputError(f"{name}[{number}] is {describe_row(row)}", remedy=remedy)
    if isinstance(task, SpanTask) and labeled:
        questions = json.dumps(_squad(rows, name), ensure_ascii=False)
        return task, MemoryFile(str(folder / f"{name}.json"), name, [questions])
    return task, MemoryFile(str(folder / f"{name}.jsonl"), name, map(to_json_row, rows))


def _flatten(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row whose first value is a pair of texts as one of all values."""
    return (*row[0], *row[1:]) if row and isinstance(row[0], tuple) else row


def _named(row: tuple[Any, ...], columns: Sequence[str], where: str) -> dict[str, Any]:
    if len(row) != len(columns):
        what = f"{len(row)} values, expected {len(columns)}: {', '.join(columns)}"
        raise InputError(what, where=where, remedy="Give these, or a dict by column")
    return dict(zip(columns, row, strict=True))


def _columns_of_tuples(task: AnyTask, width: int, *, labeled: bool) -> tuple[AnyTask, tuple[str, ...]]:
    """Return the task and the columns that the values of tuples are of.

    Raises:
        InputError: the task has no order of columns.
    """
    label: list[str] = []
    if isinstance(task, Tagging):
        texts, label = ["tokens" if labeled else "text"], [task.tags_field or "tags"]
    elif isinstance(task, SpanTask):
        texts, label = [*_SPAN_KEYS], ["answers"]
    else:
        if isinstance(task, CustomTexts) and task.pair_column is None and width == 2 + labeled:
            task = replace(task, pair_column="pair")
        columns = [column for column in task.named_columns() if column.is_required]
        texts, label = ([c.names[0] for c in columns if c.is_label == is_label] for is_label in (False, True))
        if isinstance(task, TextPairs) and width > len(texts) + len(label):
            label = ["negative"]
    if not texts:
        raise InputError(
            "tuples have no order of columns here", where=task.name, remedy="Give dicts by column"
        )
    return task, (*texts, *(label if labeled else []))


def _squad(rows: Iterable[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return questions in SQuAD's form; answers may also be lists of texts and starts, as on the Hugging Face Hub."""
    questions = []
    for number, row in enumerate(rows):
        values = {"id": f"{name}[{number}]", **json.loads(to_json_row(row))}
        if isinstance(answers := values.get("answers"), Mapping):
            texts, starts = answers.get("text") or [], answers.get("answer_start") or []
            if len(texts) != len(starts):
                what = f"{len(texts)} answers have {len(starts)} starts"
                raise InputError(
                    what, where=f"{name}[{number}]", remedy="Give one answer_start for each text"
                )
            values["answers"] = [
                {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
            ]
        questions.append(values)
    paragraphs = [
        {**({} if context is None else {"context": context}), "qas": list(of_context)}
        for context, of_context in groupby(questions, key=lambda question: question.pop("context", None))
    ]
    return {"data": [{"paragraphs": paragraphs}]}
