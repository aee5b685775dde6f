"""The formats of tagged data: a table of how each is recognized and read.

To add a format, add an entry to `FORMATS`, and its name to `TaggingFormat` if `--format` may name it.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, islice
from typing import TypeGuard

from cloze.data.reading.directories import brat_texts
from cloze.data.reading.files import extension_of, read_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.table_files import is_arrow, is_excel
from cloze.errors import DataWarning, InputError
from cloze.remote_files import PathOrUrl
from cloze.tasks.tag_schemes import is_tag, usual_tags
from cloze.tasks.tagged_text import Sentence, TaggedText
from cloze.tasks.tagging_formats.conll import (
    DOCUMENT,
    TAG_NAMES,
    WORD_NAMES,
    is_conllu,
    read_columns,
    split_columns,
)
from cloze.tasks.tagging_formats.rows import read_brat, read_json, read_rows, read_table
from cloze.tasks.tagging_formats.settings import KnownTags, TaggedData, TaggingSettings
from cloze.tasks.tagging_formats.word_tables import is_tagged_table

_SAMPLE_LINES = 200
_JSON = re.compile(r'\s*((\[\s*)?\{\s*("|\}|$)|\[\s*(\[\s*)?("|$))')  # an object, or a list of objects
_COLUMN_FILES = (".conll", ".iob", ".iob2", ".bio")
_MAX_COLUMNS = 4  # more words of equal number are a text, unless the last ones are tags
_LONG_SENTENCE = 500  # words
_SENTENCE_ENDS = frozenset(".!?。！？।؟")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatEntry:
    """How data of one format are recognized and read."""

    read: Callable[[TaggedData], Iterator[TaggedText]]
    fits: Callable[[TaggedData], bool]
    """Whether the first lines are in this format."""
    extensions: tuple[str, ...] = ()
    """Ends of the names of files that are in it, whatever their first lines."""
    has_rows: bool = False
    """Whether a text is a row, which can be left out if it is bad."""
    blank_lines_end_sentences: bool = False
    """Whether blank lines may be missing, so that sentences are joined."""


def read_tagged(
    source: Data, settings: TaggingSettings, answer: KnownTags, *, labeled: bool
) -> Iterator[TaggedText]:
    """Yield the sentences, texts or documents of data in any format, with tags in one scheme.

    Raises:
        InputError: the format is unclear, or the data are invalid.
    """
    lines = read_lines(source, settings.encoding) if _is_text_file(source) else iter(())
    sample = list(islice(lines, _SAMPLE_LINES))
    data = TaggedData(source, settings, answer, labeled, chain(sample, lines), [text for text, _ in sample])
    entry = find_format(data)
    if settings.skip_bad_rows and not entry.has_rows:
        what = "rows are left out of JSON, tables, Parquet and Arrow only"
        raise InputError(what, where=source, remedy="Leave out `skip_bad_rows`")
    texts = _check_tags(entry.read(data), answer)
    yield from _warn_of_joined_sentences(texts) if entry.blank_lines_end_sentences else texts


def find_format(data: TaggedData) -> FormatEntry:
    """Return the format of data: the one that the settings name, or the first that fits.

    Raises:
        InputError: none fits, or they are in a format that cannot be read.
    """
    if data.settings.format in FORMATS and _is_text_file(data.source):
        return FORMATS[data.settings.format]
    extension = extension_of(data.source)
    for entry in FORMATS.values():
        if extension in entry.extensions or entry.fits(data):
            return entry
    if data.labeled:
        what = "the first line does not name the columns of words and tags"
        remedy = "Name them there: sentence_id,word,tag, or word,tag with an empty line after each sentence"
    elif extension in (".tsv", ".csv"):
        what = "a table without a column 'text' or 'word'"
        remedy = "Name the column so, or read each line as a text with `format=text`"
    else:
        what = "may be words in columns or plain text"
        remedy = "Say which: `format=columns` or `format=text`"
    raise InputError(what, where=data.source, remedy=remedy)


def _is_text_file(source: Data) -> TypeGuard[PathOrUrl]:
    return not (
        isinstance(source, MemoryRows)
        or is_arrow(source)
        or is_excel(source)
        or brat_texts(source, labeled=False)
    )


def is_json(line: str) -> bool:
    """Return whether a line begins a JSON object or a list."""
    return _JSON.match(line) is not None


def _is_columns(data: TaggedData) -> bool:
    """Return whether lines are words in columns; all labeled data are that no other format fits."""
    extension = extension_of(data.source)
    if data.labeled:
        return extension != ".csv"
    if _have_tags(data.content, data.answer.labels) or _have_names(data.content):
        return True
    return extension in _COLUMN_FILES and _is_narrow(data)


def _have_tags(content: Sequence[str], labels: Collection[str]) -> bool:
    """Return whether lines, of as many cells each, have tags last: of a scheme, or several of the model's."""
    words = [line for line in content if not line.startswith(("# ", DOCUMENT))]
    if len(words) < len(content) and any(line.startswith(DOCUMENT) for line in content):
        return True
    rows = _split(words)
    tags = {row[-1] for row in rows}
    if len(set(map(len, rows))) != 1 or len(rows[0]) == 1:
        return False
    if all(map(is_tag, tags)):
        return len(rows) > 1 or any("-" in tag for tag in tags)
    return len(tags) > 1 and tags <= set(labels)


def _have_names(content: Sequence[str]) -> bool:
    """Return whether the first line names columns of words and tags, and the others have as many cells."""
    rows = _split(content)
    is_table = len(rows) > 1 and len(rows[0]) > 1 and len(set(map(len, rows))) == 1
    return is_table and rows[0][0].lower() in WORD_NAMES and TAG_NAMES.fullmatch(rows[0][-1]) is not None


def _is_narrow(data: TaggedData) -> bool:
    """Return whether no line has more words than columns may be."""
    widest = max(map(len, _split(data.content)), default=0)
    return widest <= (data.answer.num_columns or _MAX_COLUMNS)


def _split(lines: Sequence[str]) -> list[list[str]]:
    separator = "\t" if lines and "\t" in lines[0] else " "
    return [split_columns(line, separator) for line in lines]


def _is_text(data: TaggedData) -> bool:
    """Return whether lines are texts, and cannot be words in columns."""
    if data.labeled or extension_of(data.source) in (*_COLUMN_FILES, ".tsv", ".csv"):
        return False
    if len(set(map(len, _split(data.content)))) != 1:
        return True
    runs = [
        len(list(run))
        for is_blank, run in groupby(data.sample, lambda line: not line.strip())
        if not is_blank
    ]
    has_sentences = len(runs) > 1 and max(runs) > 1
    return "\t" not in data.content[0] and not (has_sentences and _is_narrow(data))


def _read_text(data: TaggedData) -> Iterator[TaggedText]:
    if data.labeled:
        raise InputError("plain text has no tags", where=data.source, remedy="Give words with tags, or JSON")
    if not data.sample:
        raise InputError("contains no text", where=data.source)
    return (data.settings.split(line) for line, _ in data.lines)


FORMATS: dict[str, FormatEntry] = {
    "brat": FormatEntry(
        read=read_brat, fits=lambda data: bool(brat_texts(data.source, labeled=data.labeled)), has_rows=True
    ),
    "rows": FormatEntry(read=read_rows, fits=lambda data: not _is_text_file(data.source), has_rows=True),
    "json": FormatEntry(
        read=read_json,
        fits=lambda data: is_json(next(iter(data.content), "")),
        extensions=(".json", ".jsonl", ".ndjson"),
        has_rows=True,
    ),
    "conllu": FormatEntry(
        read=partial(read_columns, is_conllu=True),
        fits=lambda data: is_conllu(data.sample),
        extensions=(".conllu",),
        blank_lines_end_sentences=True,
    ),
    "table": FormatEntry(
        read=read_table,
        fits=lambda data: is_tagged_table(data.sample, labeled=data.labeled and data.settings.tool is None),
        has_rows=True,
        blank_lines_end_sentences=True,
    ),
    "columns": FormatEntry(read=read_columns, fits=_is_columns, blank_lines_end_sentences=True),
    "text": FormatEntry(read=_read_text, fits=_is_text),
}
"""The formats by name; the first that fits is used. Rows are those of Parquet, Arrow, Excel and data in memory."""


def _check_tags(texts: Iterable[TaggedText], answer: KnownTags) -> Iterator[TaggedText]:
    """Yield texts, and check that their tags are in one scheme."""
    schemes = answer.scheme_detector()
    for text in texts if answer.scheme == "plain" else _with_usual_tags(texts, answer.labels):
        for sentence in text.sentences:
            schemes.add(sentence.tags or (), sentence.where)
        yield text
    schemes.scheme()


def _with_usual_tags(texts: Iterable[TaggedText], labels: Iterable[str]) -> Iterator[TaggedText]:
    """Yield texts with their tags in the usual form; a file with O and tags such as B-PER is in it.

    Labels may have O and also a type of this name.
    """
    texts = iter(texts)
    tags = {*labels} if {"O", "B-O"} <= {*labels} else set()
    first = []
    for text in texts:
        first.append(text)
        tags.update(*(sentence.tags or () for sentence in text.sentences))
        if any(sentence.tags is None for sentence in text.sentences) or (
            "O" in tags and any(is_tag(tag) and tag != "O" for tag in tags)
        ):
            break
    usual = usual_tags(tags)
    for text in first:
        sentences = (
            replace(sentence, tags=sentence.tags and tuple(usual.get(tag, tag) for tag in sentence.tags))
            for sentence in text.sentences
        )
        yield replace(text, sentences=tuple(sentences)) if usual else text
    yield from texts


def _warn_of_joined_sentences(texts: Iterable[TaggedText]) -> Iterator[TaggedText]:
    """Yield texts, and warn at the end of one sentence with several ends, or of a long one."""
    count, longest = 0, Sentence(())
    for text in texts:
        for sentence in text.sentences:
            count += 1
            longest = max(longest, sentence, key=lambda sentence: len(sentence.words))
        yield text
    words = longest.words
    ends = sum(word in _SENTENCE_ENDS for word in words[:-1])
    if len(words) > _LONG_SENTENCE or (count == 1 and ends > 1):
        kind = "the only sentence" if count == 1 else "a sentence"
        what = f"{kind} has {len(words):,} words. An empty line ends a sentence: are such lines missing?"
        warnings.warn(DataWarning(f"{longest.where(0)}: {what}"), stacklevel=2)
