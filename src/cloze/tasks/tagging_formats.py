"""Detect how a file of words or texts to tag is written: in columns, CoNLL-U, JSON, a table, or as plain text."""

import re
from collections.abc import Collection, Sequence
from itertools import groupby
from pathlib import Path

from cloze.choices import TaggingFormat
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl
from cloze.tasks.conll import DOCUMENT, TAG_NAMES, WORD_NAMES, is_conllu, split_columns
from cloze.tasks.tag_schemes import is_tag
from cloze.tasks.tagged_tables import is_tagged_table

_JSON = re.compile(r'\s*((\[\s*)?\{\s*("|\}|$)|\[\s*(\[\s*)?("|$))')  # an object, or a list of objects
SAMPLE_LINES = 200
"""Lines that the format is detected from."""
_MAX_COLUMNS = 4  # more words of equal number are a text, unless the last ones are tags


def detect_format(
    path: PathOrUrl,
    lines: Sequence[str],
    *,
    labeled: bool,
    labels: Collection[str] = (),
    columns: int | None = None,
) -> TaggingFormat:
    """Return the format of a file from its name and its first lines.

    Args:
        path: the file.
        lines: its first lines.
        labeled: whether it must have tags, so that it is no plain text.
        labels: the tags of the model, by which columns are recognized.
        columns: number of columns of the training data.

    Raises:
        InputError: the lines may be columns or text, or the file is a table.
    """
    suffixes = {suffix.lower() for suffix in Path(str(path)).suffixes[-2:]}
    content = [line for line in lines if line.strip()]
    if lines and lines[0].lstrip("\ufeff").startswith("#FORMAT=WebAnno"):
        remedy = "Export it as CoNLL 2002 or CoNLL-U"
        raise InputError("words in the format of WebAnno and INCEpTION", where=path, remedy=remedy)
    if suffixes & {".json", ".jsonl", ".ndjson"} or (content and is_json(content[0])):
        return "json"
    if suffixes & {".conllu"} or is_conllu(lines):
        return "conllu"
    if is_tagged_table(lines, labeled=labeled):
        return "table"
    if labeled and ".csv" in suffixes:
        what = "the first line does not name the columns of words and tags"
        remedy = "Name them there: sentence_id,word,tag, or word,tag with an empty line after each sentence"
        raise InputError(what, where=path, remedy=remedy)
    if labeled or _have_tags(content, labels) or _have_names(content):
        return "columns"
    if suffixes & {".tsv", ".csv"}:
        what = "a table without a column 'text' or 'word'"
        remedy = "Name the column so, or read each line as a text with `format=text`"
        raise InputError(what, where=path, remedy=remedy)
    rows = [_split(line, content[0]) for line in content]
    widths = set(map(len, rows))
    is_narrow = max(widths, default=0) <= (columns or _MAX_COLUMNS)
    is_named = bool(suffixes & {".conll", ".iob", ".iob2", ".bio"})
    if is_named and is_narrow:
        return "columns"
    runs = [len(list(run)) for is_text, run in groupby(lines, lambda line: bool(line.strip())) if is_text]
    has_sentences = len(runs) > 1 and max(runs) > 1
    if is_named or (len(widths) == 1 and ("\t" in content[0] or (has_sentences and is_narrow))):
        remedy = "Say which: `format=columns` or `format=text`"
        raise InputError("may be words in columns or plain text", where=path, remedy=remedy)
    return "text"


def is_json(line: str) -> bool:
    """Return whether a line begins a JSON object or a list."""
    return _JSON.match(line) is not None


def _have_tags(content: Sequence[str], labels: Collection[str]) -> bool:
    """Return whether lines, of as many cells each, have tags last: of a scheme, or several of the model's."""
    words = [line for line in content if not line.startswith(("# ", DOCUMENT))]
    if len(words) < len(content) and any(line.startswith(DOCUMENT) for line in content):
        return True
    rows = [_split(line, words[0]) for line in words]
    tags = {row[-1] for row in rows}
    if len(set(map(len, rows))) != 1 or len(rows[0]) == 1:
        return False
    if all(map(is_tag, tags)):
        return len(rows) > 1 or any("-" in tag for tag in tags)
    return len(tags) > 1 and tags <= set(labels)


def _have_names(content: Sequence[str]) -> bool:
    """Return whether the first line names columns of words and tags, and the others have as many cells."""
    rows = [_split(line, content[0]) for line in content]
    has_names = (
        bool(rows) and rows[0][0].lower() in WORD_NAMES and TAG_NAMES.fullmatch(rows[0][-1]) is not None
    )
    return has_names and len(rows) > 1 and len(rows[0]) > 1 and len(set(map(len, rows))) == 1


def _split(line: str, first: str) -> list[str]:
    return split_columns(line, "\t" if "\t" in first else " ")
