"""Rows of plain text: a text a line."""

import re
from collections.abc import Iterator, Sequence

from cloze.data.reading.files import STDIN
from cloze.data.reading.source import RawRow, Source
from cloze.errors import InputError

_COLUMN_NAME = re.compile(r"[\w.#-]*")
_JSON_OBJECT = re.compile(r'\s*\{\s*"[^"]*"\s*:')


def read_texts(source: Source) -> Iterator[RawRow]:
    """Yield the lines of a plain text as rows; refuse a table and JSON unless the format is named."""
    if source.options.labeled:
        raise InputError("plain text has no tags", where=source, remedy="Give words with tags, or JSON")
    if not source.sample:
        raise InputError("contains no text", where=source)
    columns = source.options.columns
    names = columns[0].names if columns else ("text",)
    if source.options.format != "text":
        _check_plain(source.sample, names, f"{'stdin' if str(source) == STDIN else source}:1")
    return (({names[0]: line}, where) for line, where in source.lines)


def _check_plain(sample: Sequence[str], names: Sequence[str], where: str) -> None:
    first = sample[0]
    if _JSON_OBJECT.match(first):
        raise InputError("JSON lines, not plain text", where=where, remedy="Call the file .jsonl")
    for separator, extension in (("\t", ".tsv"), (",", ".csv"), (";", ".csv")):
        cells = {cell.strip(' "') for cell in first.split(separator)}
        if len(cells) > 1 and cells & {*names} and all(_COLUMN_NAME.fullmatch(cell) for cell in cells):
            what = "the first line names the columns of a table, which plain text does not have"
            raise InputError(what, where=where, remedy=f"Call the file {extension}")
    tabs = {text.count("\t") for text in sample if text.strip()}
    if len(sample) > 1 and len(tabs) == 1 and 0 not in tabs:
        remedy = "Call the file .tsv, with names of the columns in its first line, or write spaces for tabs"
        raise InputError("columns with tabs between them, not plain text", where=where, remedy=remedy)
