"""Files of tagged words, as the CoNLL shared tasks have them.

A line is a word with its columns. An empty line ends a sentence, a line that begins with -DOCSTART- a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from cloze.errors import InputError
from cloze.stores import Place
from cloze.tasks.tables import read_lines
from cloze.tasks.tag_schemes import SchemeFinder, is_tag

_DOCUMENT = "-DOCSTART-"
_ALONE = "Mark where documents begin, or read sentences alone with --set TASK.context=sentence"
_MAX_WORDS = 100_000
_APART = "Columns are a tab apart throughout the file, or spaces"
_PLAIN = "; of plain text say it with --set TASK.running_text=true"


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, with their tags as the file has them where they are known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    file: str = "text"
    first_line: int = 1
    offsets: tuple[tuple[int, int], ...] | None = None
    """Of words of a running text: the first character of each, and the one after its last."""
    columns: int = 1
    """Of the file."""

    def where(self, word: int) -> str:
        """Return file and line of a word."""
        return f"{self.file}:{self.first_line + word}"


@dataclass(frozen=True, slots=True)
class ConllColumns:
    """Which columns hold what, counted from 0, or backwards from -1."""

    word: int = 0
    tag: int | None = -1
    """None: tags are not looked at."""
    most: int | None = None
    """A line with more is none of words and their columns; None: there may be any number."""


def read_sentences(path: Place, columns: ConllColumns, *, check_tags: bool = True) -> Iterator[Sentence]:
    """Yield the sentences of a file, and an empty one for every -DOCSTART-.

    Columns are a tab apart where the first word's line has one, else one space or more.

    Args:
        path: the file; it may be compressed, and - is stdin.
        columns: those that are read.
        check_tags: refuse tags that are of no scheme, or of several.

    Raises:
        InputError: a line is wrong, or there are no words.
    """
    schemes = SchemeFinder()
    checks_tags = check_tags and columns.tag is not None
    rows: list[_Row] = []
    is_empty = True
    for row in _rows(path, columns):
        if isinstance(row, _Row):
            if checks_tags and not is_tag(row.tag):
                remedy = "Tags are O, or B, I, E or S with a type, as in B-PER"
                raise InputError(f"{row.tag!r} is no tag", where=row.where, remedy=remedy)
            rows.append(row)
            if len(rows) > _MAX_WORDS:
                what = f"over {_MAX_WORDS:,} words without an empty line"
                raise InputError(what, where=row.where, remedy="An empty line ends a sentence")
            continue
        if rows:
            sentence = _sentence(rows, columns)
            if sentence.tags is not None:
                schemes.add(sentence.tags, sentence.where)
            yield sentence
            rows, is_empty = [], False
        if row is _Mark.DOCUMENT:
            yield Sentence(())
    if is_empty:
        raise InputError("holds no words", where=path)
    if checks_tags:
        schemes.found()


def read_documents(
    path: Place, columns: ConllColumns, *, must_be_marked: bool = False
) -> Iterator[tuple[Sentence, ...]]:
    """Yield the documents of a file; a sentence before the first -DOCSTART- is one of its own.

    Args:
        path: as of `read_sentences`.
        columns: likewise.
        must_be_marked: refuse several sentences before the first -DOCSTART-, whose documents nobody knows.

    Raises:
        InputError: as `read_sentences`, or documents are not marked.
    """
    sentences: list[Sentence] = []
    is_marked = False
    for number, sentence in enumerate(read_sentences(path, columns)):
        if must_be_marked and not is_marked and sentence.words and number:
            what = f"no line with {_DOCUMENT} before it: nobody knows which sentences belong together"
            raise InputError(what, where=sentence.where(0), remedy=_ALONE)
        if sentence.words:
            sentences.append(sentence)
        if sentences and not (is_marked and sentence.words):
            yield tuple(sentences)
            sentences.clear()
        is_marked = is_marked or not sentence.words
    if sentences:
        yield tuple(sentences)


class _Row(NamedTuple):
    word: str
    tag: str
    where: str
    columns: int


class _Mark(Enum):
    SENTENCE = auto()
    """Ends here, if there is one."""
    DOCUMENT = auto()
    """Begins here."""


def _rows(path: Place, columns: ConllColumns) -> Iterator[_Row | _Mark]:
    """Yield the lines of a file; the last one ends a sentence."""
    separator, width = None, 0
    for text, where in read_lines(path):
        if not text.strip(" \t"):
            yield _Mark.SENTENCE
            continue
        if text.replace("\t", " ").split(" ")[0] == _DOCUMENT:
            yield _Mark.DOCUMENT
            continue
        separator = separator or ("\t" if "\t" in text else " ")
        cells = text.split("\t") if separator == "\t" else [cell for cell in text.split(" ") if cell]
        width = width or _checked_width(cells, columns, where)
        if len(cells) != width:
            what = f"{_counted(len(cells), 'column')}, the first line has {width}"
            raise InputError(what, where=where, remedy=f"{_APART}{'' if columns.tag is not None else _PLAIN}")
        if not cells[columns.word].strip():
            raise InputError("the word is empty", where=where, remedy="An empty line ends a sentence")
        yield _Row(cells[columns.word], "" if columns.tag is None else cells[columns.tag], where, width)
    yield _Mark.SENTENCE


def _sentence(rows: Sequence[_Row], columns: ConllColumns) -> Sentence:
    file, _, first_line = rows[0].where.rpartition(":")
    return Sentence(
        tuple(row.word for row in rows),
        None if columns.tag is None else tuple(row.tag for row in rows),
        file,
        int(first_line),
        columns=rows[0].columns,
    )


def _checked_width(cells: list[str], columns: ConllColumns, where: str) -> int:
    width = len(cells)
    if columns.most is not None and width > columns.most:
        what = f"{_counted(width, 'column')}, the training data had {columns.most}"
        raise InputError(what, where=where, remedy=f"{_APART}{_PLAIN}")
    for name, column in (("word", columns.word), ("tag", columns.tag)):
        if column is not None and not -width <= column < width:
            what = f"{_counted(width, 'column')}, {name}_column is {column}"
            raise InputError(what, where=where, remedy="Columns are counted from 0, or from -1 backwards")
    if columns.tag is not None and columns.tag % width == columns.word % width:
        what = f"{_counted(width, 'column')}: words and tags cannot both be in one"
        raise InputError(what, where=where, remedy="Give a word and its tag a line, a tab or a space apart")
    return width


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count != 1 else "")
