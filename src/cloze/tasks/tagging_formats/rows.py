"""Tagged texts in rows of JSON, Parquet and tables: texts with spans, as annotation tools export them, or words.

{"text": "Ada lives in Oslo.", "label": [[0, 3, "PER"], [13, 17, "LOC"]]}       doccano
{"text": "Ada", "entities": [{"start": 0, "end": 3, "label": "PER"}]}           doccano, spaCy, Prodigy, cloze predict
[{"data": {"text": "Ada"}, "annotations": [{"result": […]}]}]                   Label Studio
{"tokens": ["Ada", "lives"], "ner_tags": ["B-PER", "O"]}                        data sets of the Hugging Face Hub
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from cloze.data.reading.annotations import json_row
from cloze.data.reading.bad_rows import NotAnnotatedError
from cloze.data.reading.directories import ANNOTATIONS, brat_texts
from cloze.data.reading.files import read_lines, read_text
from cloze.data.reading.json_rows import read_json as read_json_rows
from cloze.data.reading.json_rows import show_value
from cloze.data.reading.table_files import RawTable, is_excel, open_delimited, open_table
from cloze.data.reading.tables import TableConfig, parse_rows
from cloze.errors import InputError
from cloze.metrics.conll import Entity
from cloze.tasks.running_text import split_text
from cloze.tasks.tag_schemes import entities_to_tags
from cloze.tasks.tagged_text import Sentence, TaggedText, sentence_of_words
from cloze.tasks.tagging_formats.settings import TaggedData
from cloze.tasks.tagging_formats.span_offsets import SpanReader
from cloze.tasks.tagging_formats.word_tables import (
    Cells,
    WordColumns,
    find_word_columns,
    group_words,
    is_sentence_row,
    is_word_column,
    with_lists,
    without_numbers,
)
from cloze.tokenization.unicode import replace_lone_surrogates

_TOKENS = ("tokens", "words")
_SPANS = ("entities", "spans", "ents", "label", "labels")
_BRAT_SPAN = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
_BRAT_REMEDY = "Write T1, a tab, LOC 13 17, a tab, Oslo"
_TAGS_NAME = re.compile(r"(.*_)?(tag|label|ner)s?(_(name|text|str|string|id|idx|number)s?)?", re.IGNORECASE)


def read_json(data: TaggedData) -> Iterator[TaggedText]:
    """Yield the texts of JSON lines, or of a file that is one list of objects."""
    return _RowReader(data).read(RawTable(read_json_rows(data.source, data.lines), json_row, is_json=True))


def read_rows(data: TaggedData) -> Iterator[TaggedText]:
    """Yield the texts of a Parquet, Arrow or Excel file, of a data set, or of rows in memory."""
    reader = _RowReader(data)
    table = open_table(data.source, (), reader.is_read, (), data.settings.keeps_numbers)
    if is_excel(data.source):
        to_cells = table.to_cells
        table = RawTable(table.rows, lambda row, where: _with_lists_of_excel(to_cells(row, where)))
    return reader.read(table)


def _with_lists_of_excel(cells: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the cells of a row with lists for those that are written as text, if it is a sentence."""
    texts = {name: "" if cell is None else str(cell) for name, cell in cells.items()}
    return with_lists(texts) if is_sentence_row(texts) else cells


def read_brat(data: TaggedData) -> Iterator[TaggedText]:
    """Yield the texts of a directory of brat, with the spans of the files of annotations beside them."""
    texts = ((path, str(path)) for path in brat_texts(data.source, labeled=data.labeled))
    return _RowReader(data).read_texts(
        RawTable(texts, partial(_brat_row, labeled=data.labeled, encoding=data.settings.encoding))
    )


def _brat_row(text: Path, where: str, *, labeled: bool, encoding: str | None) -> Mapping[str, Any]:
    """Return a text of brat and its spans.

    Raises:
        NotAnnotatedError: it has no file of annotations.
        InputError: a span has several parts, or a line cannot be parsed.
    """
    annotations = text.with_suffix(ANNOTATIONS)
    if not labeled:
        return {"text": read_text(text, encoding)}
    if not annotations.is_file():
        raise NotAnnotatedError("without annotations", where=where)
    spans = []
    for line, place in read_lines(annotations, encoding):
        if not line.startswith("T"):  # relations, events, attributes and notes
            continue
        match = _BRAT_SPAN.fullmatch(line)
        if match is None:
            raise InputError(f"not a span of brat: {line[:60]!r}", where=place, remedy=_BRAT_REMEDY)
        label, offsets, marked = match.groups()
        if ";" in offsets:
            what = f"the span {(marked or label)[:60]!r} has several parts: {offsets}"
            remedy = "Tags mark words in a row: leave one part, or remove the line"
            raise InputError(what, where=place, remedy=remedy)
        start, end = map(int, offsets.split())
        spans.append({"start": start, "end": end, "label": label, "text": marked})
    return {"text": read_text(text, encoding), "entities": spans}


def read_table(data: TaggedData) -> Iterator[TaggedText]:
    """Yield the texts of a TSV or CSV with names of columns, and a word or a sentence a row."""
    raw_rows, to_cells, _ = open_delimited(data.source, data.lines, (), keep_empty=True)
    rows: Iterator[Cells] = (
        (to_cells(row, where) if any(map(str.strip, row)) else None, where) for row, where in raw_rows
    )
    first = list(islice(rows, 1))
    rows = chain(first, rows)
    cells = first[0][0] if first else None
    has_texts = cells is None or data.settings.tool is not None or is_sentence_row(cells)
    if cells is not None and not has_texts and (columns := find_word_columns(cells)):
        return _RowReader(data).read_words(rows, columns)
    sentences = (row for row in rows if row[0] is not None)
    return _RowReader(data).read_texts(RawTable(sentences, lambda row, where: with_lists(row)))


class _RowReader:
    """Reads rows of words, of sentences with tags, or of texts with spans."""

    def __init__(self, data: TaggedData) -> None:
        self.data, self.settings = data, data.settings
        self.spans = SpanReader(data.settings.offsets)

    def is_read(self, name: str) -> bool:
        """Return whether a column may have words, tags, spans, or the number of a sentence."""
        is_named = name in _SPANS or self._may_be_tags(name) or is_word_column(name)
        return is_named or self.settings.tool is not None

    def read(self, table: RawTable) -> Iterator[TaggedText]:
        """Yield the texts of rows, each of a text or of a word."""
        first = list(islice(table.rows, 1))
        table = table._replace(rows=chain(first, table.rows))
        cells = None
        with suppress(InputError):
            cells = table.to_cells(*first[0]) if first else None
        if columns := _columns_of_words(cells):
            return self.read_words(
                ((table.to_cells(row, where), where) for row, where in table.rows), columns
            )
        return self.read_texts(table)

    def read_words(self, rows: Iterator[Cells], columns: WordColumns) -> Iterator[TaggedText]:
        """Yield the sentences of rows with a word each."""
        tag = None
        if self.data.labeled:
            tags = (self.settings.tags_field,) if self.settings.tags_field else columns.tags
            if len(tags) != 1:
                raise self._unclear_tags(tags, next(rows)[1])
            tag = tags[0]
        return (TaggedText((sentence,)) for sentence in group_words(rows, columns, tag, self._tag_name))

    def _may_be_tags(self, name: str) -> bool:
        field = self.settings.tags_field
        return name == field if field else _TAGS_NAME.fullmatch(name) is not None

    def read_texts(self, table: RawTable) -> Iterator[TaggedText]:
        """Yield the texts of rows of texts, and warn of their spans."""
        config = TableConfig(
            columns=(),
            is_also_read=lambda name: True,
            format=self.settings.tool,
            labeled=self.data.labeled,
            leave_out=(InputError,) if self.settings.skip_bad_rows else (),
        )
        yield from parse_rows(self.data.source, config, lambda row: self._parse(row.cells, row.where), table)
        self.spans.warn(self.data.source)

    def _parse(self, row: Mapping[str, Any], where: str) -> TaggedText:
        text, tokens = (
            row.get("text", row.get("data")),
            next((row[name] for name in _TOKENS if name in row), row.get("text")),
        )
        if isinstance(text, str) and (not isinstance(tokens, list) or any(name in row for name in _SPANS)):
            return self._tag_text(text, row, where)
        if not isinstance(tokens, list) or not all(isinstance(word, str) and word.strip() for word in tokens):
            what = (
                f"there is no field 'text' with a text, nor 'tokens' with a list of words: {show_value(row)}"
            )
            raise InputError(what, where=where, remedy="Name the fields so")
        tags = self._token_tags(row, len(tokens), where) if self.data.labeled else None
        return sentence_of_words(tokens, tags, where)

    def _token_tags(self, row: Mapping[str, Any], num_tokens: int, where: str) -> tuple[str, ...]:
        fields = [name for name in row if self._may_be_tags(name) and isinstance(row[name], list)]
        fields = without_numbers(row, fields)
        if not any(row[name] for name in fields) and not num_tokens:
            return ()
        if len(fields) != 1:
            raise self._unclear_tags(fields, where, row)
        tags = row[fields[0]]
        if len(tags) != num_tokens:
            raise InputError(f"{len(tags)} {fields[0]} for {num_tokens} tokens", where=where)
        return tuple(self._tag_name(tag, fields[0], where) for tag in tags)

    def _unclear_tags(self, fields: Sequence[str], where: str, row: Iterable[str] = ()) -> InputError:
        what = f"tags may be in {' or '.join(map(repr, fields))}" if fields else "no field has the tags"
        names = ", ".join(map(repr, fields or row))
        return InputError(what, where=where, remedy=f"Choose one of {names} with `tags_field=NAME`")

    def _tag_name(self, tag: Any, field: str, where: str) -> str:
        if isinstance(tag, str):
            tag = tag.removeprefix("LABEL_") if self.settings.tag_names else tag  # as transformers names them
            if not tag.isdigit():
                return str(tag)
        if not isinstance(tag, str | int) or isinstance(tag, bool):
            raise InputError(f"{field!r} holds {show_value(tag)}, not a tag", where=where)
        names = self.settings.tag_names
        if not names:
            remedy = """Give their names in order: `tag_names=["O", "B-PER", …]`"""
            raise InputError(f"{field!r} holds the number {tag}, not a tag", where=where, remedy=remedy)
        if not 0 <= int(tag) < len(names):
            what = f"{field!r} holds the number {tag}, and there are {len(names)} names of tags"
            raise InputError(what, where=where, remedy="They count from 0")
        return names[int(tag)]

    def _tag_text(self, text: str, row: Mapping[str, Any], where: str) -> TaggedText:
        """Split a text into words and sentences that no span cuts, and tag the words of the spans."""
        text = replace_lone_surrogates(text)
        if not self.data.labeled:
            return self.settings.split(text)
        # a label of the text that an annotation tool has in another field has both names
        copies = ("label", "labels") if row.get("label") is row.get("labels") else ()
        names = [name for name in row if name not in copies]
        lists = [row[name] for name in _SPANS if name in names and isinstance(row[name], list)]
        if not lists:
            what = f"no field has the spans of the text: there are {', '.join(map(repr, names))}"
            remedy = "Give 'label' or 'entities', a list of [start, end, label]"
            raise InputError(what, where=where, remedy=remedy)
        spans = self.spans.read(next(filter(None, lists), []), text, where)
        for one, other in pairwise(spans):
            if other.start < one.end:
                what = f"{text[one.start : one.end]!r} and {text[other.start : other.end]!r} overlap"
                raise InputError(what, where=where, remedy="A word has one tag: leave one of the spans")
        cuts = sorted({position for span in spans for position in span[:2]})
        words: list[tuple[int, int]] = []
        sentence_ends = []
        for sentence in split_text(text, language=self.settings.language):
            for start, end in sentence.offsets or ():
                inner = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
                words.extend(pairwise([start, *inner, end]))
            if not any(span.start < words[-1][1] < span.end for span in spans):
                sentence_ends.append(len(words))
        starts = [start for start, _ in words]
        marked = []
        for span in spans:
            first, end = bisect_left(starts, span.start), bisect_left(starts, span.end)
            if first == end:
                raise InputError(f"the span {list(span)} marks no word", where=where)
            marked.append(Entity(span.label, first, end))
        tags = entities_to_tags(marked, len(words), "IOB2")
        sentences = (
            Sentence(
                tuple(text[start:end] for start, end in words[first:last]),
                tags[first:last],
                where,
                None,
                tuple(words[first:last]),
                columns=0,
            )
            for first, last in pairwise([0, *sentence_ends])
        )
        return TaggedText(tuple(sentences), text)


def _columns_of_words(row: Mapping[str, Any] | None) -> WordColumns | None:
    """Return the columns of rows with a word each and the number of its sentence, from the first row."""
    columns = None if row is None else find_word_columns(row)
    if columns is None or row is None or columns.sentence is None or not isinstance(row[columns.word], str):
        return None
    is_text = columns.word.lower() == "text" and not columns.tags
    return None if is_text or any(isinstance(row[name], list) for name in columns.tags) else columns
