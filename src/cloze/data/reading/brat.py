"""Directories of brat: texts, and beside each a file of annotations."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cloze.data.reading.bad_rows import NotAnnotatedError
from cloze.data.reading.directories import ANNOTATIONS
from cloze.data.reading.files import read_lines, read_text
from cloze.data.reading.source import RawRow, Source
from cloze.errors import InputError

_SPAN = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")


def read_brat(source: Source) -> Iterator[RawRow]:
    """Yield the texts of a directory, with their spans if they are labeled."""
    for text in source.brat_texts:
        try:
            yield (
                _read_text(text, labeled=source.options.labeled, encoding=source.options.encoding),
                str(text),
            )
        except InputError as error:
            yield error, str(text)


def _read_text(text: Path, *, labeled: bool, encoding: str | None) -> Mapping[str, Any]:
    """Return a text of brat and its spans.

    Raises:
        NotAnnotatedError: it has no file of annotations.
        InputError: a span has several parts, or a line cannot be parsed.
    """
    annotations = text.with_suffix(ANNOTATIONS)
    if not labeled:
        return {"text": read_text(text, encoding)}
    if not annotations.is_file():
        raise NotAnnotatedError("without annotations", where=text)
    spans = []
    for line, place in read_lines(annotations, encoding):
        if not line.startswith("T"):  # relations, events, attributes and notes
            continue
        match = _SPAN.fullmatch(line)
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
    return {"text": read_text(text, encoding), "entities": spans}
