"""The formats of data: one table of how each is recognized and read, as labeled rows and as text of a corpus.

To add a format, add an entry to `FORMATS`. Detection, the command line and the lists of formats follow the table.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from cloze.data.reading.annotations import ANNOTATION_TOOLS, AnnotationTool, read_brat, read_json
from cloze.data.reading.columns import Column
from cloze.data.reading.conll import COLUMN_FILES, fits_columns, fits_text, is_conllu, read_columns
from cloze.data.reading.delimited import DELIMITED, read_delimited
from cloze.data.reading.directories import dataset_files, glob_files
from cloze.data.reading.documents import (
    MAX_DOCUMENT_BYTES,
    Document,
    FileRange,
    TextFormat,
    blocks_of_lines,
    document_from_text,
    file_document,
    json_documents,
    line_documents,
    split_bytes,
    wikiextractor_documents,
)
from cloze.data.reading.excel_files import EXTENSION as EXCEL
from cloze.data.reading.excel_files import read_excel
from cloze.data.reading.files import BYTE_ORDER_MARK, JSON_LINES, LineReader, extension_of, open_text
from cloze.data.reading.json_rows import json_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.source import Format, RawRow, ReaderKind, ReadOptions, Source
from cloze.data.reading.squad import fits_squad, read_squad
from cloze.data.reading.tables import Row, parse_rows
from cloze.data.reading.text_layout import HEAD_BYTES, guess_text_layout
from cloze.data.reading.word_tables import is_tagged_table
from cloze.errors import InputError
from cloze.progress import Bar
from cloze.text_encoding import UTF_8

JSON = (*JSON_LINES, ".json")
_JSON_START = re.compile(r'\s*((\[\s*)?\{\s*("|\}|$)|\[\s*(\[\s*)?("|$))')  # an object, or a list of objects
_COLUMN_NAME = re.compile(r"[\w.#-]*")
_JSON_OBJECT = re.compile(r'\s*\{\s*"[^"]*"\s*:')
_JSON_ARRAY = re.compile(rb'\s*\[\s*\{\s*"')


def is_json(line: str) -> bool:
    """Return whether a line begins a JSON object or a list."""
    return _JSON_START.match(line) is not None


def _read_table_documents(file_range: FileRange, text_field: str, bar: Bar) -> Iterator[Document]:
    column = Column(text_field, flag="`text_field=NAME`, or `format=lines` if its lines are text")
    options = ReadOptions(columns=(column,), encoding=file_range.encoding)
    source = Source(file_range.file, options, FORMATS["table"])
    for text, where in parse_rows(source, lambda row: (row.text(text_field), row.where)):
        if (document := document_from_text(text, where)) is not None:
            yield document
    bar.advance(file_range.size_bytes)


def _from_arrow_files(name: str) -> Any:
    """Return a function of `arrow_files`, which imports pyarrow when it is called."""

    def call(*arguments: Any) -> Any:
        from cloze.data.reading import arrow_files

        return getattr(arrow_files, name)(*arguments)

    return call


def _is_json(source: Source) -> bool:
    if source.extension in JSON:
        return source.options.reader != "predictions" or source.extension == ".json"
    return source.options.reader == "words" and is_json(next(iter(source.content), ""))


def _read_texts(source: Source) -> Iterator[RawRow]:
    """Yield the lines of a plain text as rows; refuse a table and JSON unless the format is named."""
    if source.options.labeled:
        raise InputError("plain text has no tags", where=source, remedy="Give words with tags, or JSON")
    if not source.sample:
        raise InputError("contains no text", where=source)
    columns = source.options.columns
    names = columns[0].names if columns else ("text",)
    if source.options.format != "text":
        cells = [cell.strip(' "') for cell in re.split("[\t,;]", source.sample[0])]
        names_columns = len(cells) > 1 and {*names} & {*cells} and all(map(_COLUMN_NAME.fullmatch, cells))
        tabs = {line.count("\t") for line in source.content}
        if (
            names_columns
            or (len(tabs) == 1 != len(source.sample) and 0 not in tabs)
            or _JSON_OBJECT.match(source.sample[0])
        ):
            remedy = "Call the file .tsv, .csv, .conll or .jsonl, as it is"
            raise InputError("columns or JSON, not plain text", where=f"{source}:1", remedy=remedy)
    return (({names[0]: line}, where) for line, where in source.lines)


_read_arrow_rows = _from_arrow_files("read_arrow_rows")
_ALL: tuple[ReaderKind, ...] = ("rows", "texts", "words", "questions", "predictions")
FORMATS: dict[str, Format] = {
    "sentences": Format(
        about="a sentence per line, a blank line between documents",
        text=TextFormat(parse_lines=partial(blocks_of_lines, kind="sentences"), split=split_bytes),
    ),
    "paragraphs": Format(
        about="a paragraph per line, a blank line between documents",
        text=TextFormat(parse_lines=partial(blocks_of_lines, kind="paragraphs"), split=split_bytes),
    ),
    "lines": Format(
        about="a document per line", text=TextFormat(parse_lines=line_documents, split=split_bytes)
    ),
    "files": Format(about="a document per file", text=TextFormat(parse_lines=file_document)),
    "memory": Format(
        about="rows in memory",
        readers=_ALL,
        is_text_file=False,
        fits=lambda source: isinstance(source.data, MemoryRows),
        rows=lambda source: iter(source.data),  # type: ignore[arg-type]
        is_json=True,
    ),
    "brat": Format(
        about="texts and, beside each, its annotations in .ann; spans in several parts are refused",
        readers=("words",),
        is_text_file=False,
        tasks=("tagging",),
        fits=lambda source: bool(source.brat_texts),
        rows=read_brat,
    ),
    "datasets": Format(
        about="what save_to_disk writes: a Dataset, or a DatasetDict with the splits train and validation",
        readers=_ALL,
        is_text_file=False,
        tasks=("all",),
        fits=lambda source: bool(dataset_files(source.data)),
        rows=_read_arrow_rows,
    ),
    "excel": Format(
        about="a table in the only sheet; needs the extra excel",
        readers=_ALL,
        is_text_file=False,
        tasks=("all",),
        extensions=(EXCEL,),
        rows=read_excel,
    ),
    "arrow": Format(
        about="Arrow",
        readers=_ALL,
        is_text_file=False,
        tasks=("all",),
        extensions=(".arrow",),
        rows=_read_arrow_rows,
        text=TextFormat(read_file=_from_arrow_files("read_arrow"), magic=(b"ARROW1", b"\xff\xff\xff\xff")),
    ),
    "parquet": Format(
        about="Parquet",
        readers=_ALL,
        is_text_file=False,
        tasks=("all",),
        extensions=(".parquet",),
        rows=_read_arrow_rows,
        text=TextFormat(
            read_file=_from_arrow_files("read_parquet"),
            magic=(b"PAR1",),
            split=_from_arrow_files("split_row_groups"),
        ),
    ),
    "squad": Format(
        about="paragraphs with questions in JSON",
        readers=("questions",),
        tasks=("squad_v1", "squad_v2"),
        extensions=(".json",),
        fits=fits_squad,
        rows=read_squad,
        has_rows=False,
    ),
    "json": Format(
        about="a row a line, or one list of rows; tokens and ner_tags as the Hugging Face Hub has them, spaCy's lists "
        "of a text and its entities or cats",
        readers=_ALL,
        tasks=("all",),
        extensions=JSON,
        fits=_is_json,
        rows=read_json,
        is_json=True,
    ),
    "conllu": Format(
        about="CoNLL-U: ten columns, the second the word and the fourth the tag",
        readers=("words",),
        tasks=("tagging",),
        extensions=(".conllu",),
        fits=lambda source: source.extension == ".conllu" or is_conllu(source.sample),
        rows=partial(read_columns, is_conllu=True),
        has_rows=False,
    ),
    "table": Format(
        about="a table, TSV or CSV, whose first line names the columns; of tagged words a word or a sentence a row",
        readers=_ALL,
        tasks=("all",),
        extensions=DELIMITED,
        fits=lambda source: (
            source.extension in DELIMITED and (source.options.reader != "words" or is_tagged_table(source))
        ),
        rows=read_delimited,
        text=TextFormat(read_file=_read_table_documents),
    ),
    "columns": Format(
        about="a word and its tag a line, an empty line after a sentence, as in CoNLL-2003",
        readers=("words",),
        tasks=("tagging",),
        extensions=COLUMN_FILES,
        fits=fits_columns,
        rows=read_columns,
        has_rows=False,
    ),
    "text": Format(
        about="a text a line",
        readers=("texts", "words"),
        fits=lambda source: source.options.reader != "words" or fits_text(source),
        rows=_read_texts,
        has_rows=False,
    ),
    "jsonl": Format(
        about="JSON lines",
        readers=("predictions",),
        extensions=JSON,
        fits=lambda source: True,
        rows=lambda source: json_lines(source.lines),
        is_json=True,
        text=TextFormat(
            parse_lines=json_documents,
            pattern=re.compile(rb'\s*\{\s*"'),
            split=split_bytes,
            max_line_bytes=MAX_DOCUMENT_BYTES,
        ),
    ),
    "wikiextractor": Format(
        about="documents as WikiExtractor writes them",
        text=TextFormat(parse_lines=wikiextractor_documents, pattern=re.compile(rb"<doc ")),
    ),
}
"""The formats by name. Of those that a reader tries, the first that fits is the format of its data."""


def open_source(data: Data, options: ReadOptions) -> Source:
    """Find the format of data, the one that the options name or the first that fits, and open them."""
    files = glob_files(data)
    source = Source(files[0] if files else data, options)
    source.format = _find_format(source)
    if options.leave_out == (InputError,) and not source.has_rows:
        what = "a format without rows that could be left out"
        raise InputError(what, where=data, remedy="Leave out `skip_bad_rows`")
    return replace(source, data=data, files=files) if files else source


def _find_format(source: Source) -> Format:
    options = source.options
    named = FORMATS.get(options.format or "")
    for entry in FORMATS.values():
        if options.reader not in entry.readers:
            continue
        if named is not None and entry.is_text_file:
            return named
        if entry.fits(source) if entry.fits else source.extension in entry.extensions:
            return entry
    if options.reader != "words":
        what = "not a table that cloze reads"
        tables = [entry.extensions for entry in reversed(FORMATS.values()) if "rows" in entry.readers]
        remedy = f"Its name must end in {', '.join(chain.from_iterable(tables))}"
    elif options.labeled:
        what = "the first line does not name the columns of words and tags"
        remedy = "Name them there: sentence_id,word,tag, or word,tag with an empty line after each sentence"
    elif source.extension in DELIMITED:
        what = "a table without a column 'text' or 'word'"
        remedy = "Name the column so, or read each line as a text with `format=text`"
    else:
        what = "may be words in columns or plain text"
        remedy = "Say which: `format=columns` or `format=text`"
    raise InputError(what, where=source, remedy=remedy)


def read_rows(
    data: Data, columns: Sequence[str], *, is_also_read: Callable[[str], bool] = lambda name: False
) -> Iterator[Row]:
    """Yield the rows of a table in UTF-8, one at a time, as `parse_rows` does."""
    options = ReadOptions(columns=tuple(map(Column, columns)), is_also_read=is_also_read, encoding=UTF_8)
    return parse_rows(open_source(data, options), lambda row: row)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatDescription:
    """A format of labeled data, as `cloze tasks formats` lists it."""

    name: str
    """Its name, which `format` takes if the content does not tell it."""
    tasks: tuple[str, ...]
    """Tasks that read it; "all" of those on tables."""
    files: tuple[str, ...]
    """Ends of the names of files, or "a directory"."""
    about: str


def describe_formats(task: str | None = None) -> list[FormatDescription]:
    """Return the formats of labeled data and the annotation tools that a task reads, or all of them."""
    formats: dict[str, Format | AnnotationTool] = {**FORMATS, **ANNOTATION_TOOLS}
    entries = [
        FormatDescription(
            name=name, tasks=entry.tasks, files=entry.extensions or ("a directory",), about=entry.about
        )
        for name, entry in formats.items()
    ]
    entries.sort(key=lambda entry: "all" not in entry.tasks)
    return [entry for entry in entries if {*([task, "all"] if task else entry.tasks)} & {*entry.tasks}]


def format_names() -> tuple[str, ...]:
    """Return the formats of a corpus that the user can name; "auto" detects it."""
    return ("auto", *(name for name, entry in FORMATS.items() if entry.text))


def text_format(name: str) -> TextFormat:
    """Return how a format is read as text of a corpus."""
    entry = FORMATS[name].text
    assert entry is not None
    return entry


def detect_format(file: str, head: bytes, named: str = "auto") -> str | None:
    """Return the format of a file by its name and first bytes, or the `named` one for text; None for running text."""
    formats = {name: (entry.extensions, entry.text) for name, entry in FORMATS.items() if entry.text}
    for name, (_, text) in formats.items():
        if head.startswith(text.magic):
            return name
    if named != "auto":
        return named
    suffix, extension = Path(file.lower()).suffix, extension_of(file)
    for name, (extensions, text) in formats.items():
        if text.read_file and (suffix if text.magic else extension) in extensions:
            return name
    head = head.removeprefix(BYTE_ORDER_MARK)
    if _JSON_ARRAY.match(head) or (extension in JSON and head.lstrip()[:1] == b"["):
        what = "a JSON array, which cannot be read in parts"
        raise InputError(what, where=file, remedy="Convert it to JSON lines: jq -c '.[]'")
    for name, (extensions, text) in formats.items():
        if extension in extensions or (text.pattern and text.pattern.match(head)):
            return name
    return None


def read_range(file_range: FileRange, text_field: str, bar: Bar) -> Iterator[Document]:
    """Yield the documents of a file or a range of it; `bar` advances by the bytes read from disk."""
    name = file_range.text_format
    if name != "auto" and (read_file := text_format(name).read_file):
        yield from read_file(file_range, text_field, bar)
        return
    with open_text(file_range.file, file_range.encoding) as (stream, on_disk, head):
        if name == "auto":
            size = len(head) if len(head) < HEAD_BYTES else math.inf
            name = detect_format(file_range.file, head) or guess_text_layout(head, size)
        text = text_format(name)
        if not text.parse_lines:
            what = f"{FORMATS[name].about} cannot be read from stdin"
            raise InputError(what, where=file_range.file, remedy="Name the file")
        lines = LineReader(
            file_range.file, stream, on_disk, bar, begin=file_range.begin, max_line_bytes=text.max_line_bytes
        )
        yield from text.parse_lines(lines, file_range, text_field)
        lines.update_progress()
