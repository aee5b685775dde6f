"""The lines of a plain text, which must not be those of a table."""

import re
from collections.abc import Iterator
from itertools import chain, islice

from cloze.data.reading.columns import Column
from cloze.data.reading.files import Line, read_lines
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl

_SAMPLE_LINES = 20
_COLUMN_NAME = re.compile(r"[\w.#-]*")
_JSON_OBJECT = re.compile(r'\s*\{\s*"[^"]*"\s*:')


def read_texts_of_lines(path: PathOrUrl, text_column: Column, encoding: str | None = None) -> Iterator[Line]:
    """Yield the lines of a plain text."""
    lines = read_lines(path, encoding)
    sample = list(islice(lines, _SAMPLE_LINES))
    if not sample:
        raise InputError("contains no text", where=path)
    first, where = sample[0]
    if _JSON_OBJECT.match(first):
        raise InputError("JSON lines, not plain text", where=where, remedy="Call the file .jsonl")
    names = set(text_column.names)
    for separator, extension in (("\t", ".tsv"), (",", ".csv"), (";", ".csv")):
        cells = {cell.strip(' "') for cell in first.split(separator)}
        if len(cells) > 1 and cells & names and all(_COLUMN_NAME.fullmatch(cell) for cell in cells):
            what = "the first line names the columns of a table, which plain text does not have"
            raise InputError(what, where=where, remedy=f"Call the file {extension}")
    tabs = {text.count("\t") for text, _ in sample if text.strip()}
    if len(sample) > 1 and len(tabs) == 1 and 0 not in tabs:
        remedy = "Call the file .tsv, with names of the columns in its first line, or write spaces for tabs"
        raise InputError("columns with tabs between them, not plain text", where=where, remedy=remedy)
    yield from chain(sample, lines)
