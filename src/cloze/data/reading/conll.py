"""Files of tagged words in the format of the CoNLL shared tasks, and in that of Universal Dependencies, CoNLL-U.

A line is a word with its columns. An empty line ends a sentence; a line that begins with -DOCSTART- starts a document.
Before a sentence there may be comments, which begin with #.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from cloze.data.reading.files import Line
from cloze.data.reading.source import RawRow, Source
from cloze.data.reading.tag_schemes import is_tag
from cloze.data.reading.tagged_text import DOCUMENT_PLACE, SENTENCES, Sentence
from cloze.errors import InputError
from cloze.tables import format_count
from cloze.text_encoding import refuse_carriage_return

DOCUMENT = "-DOCSTART-"
_MAX_WORDS = 100_000
_EMPTY_LINE_REMEDY = "An empty line ends a sentence"
_SEPARATOR_REMEDY = "Columns are a tab apart throughout the file, or spaces"
_KEY_COMMENT = re.compile(r"#\s*([\w.:-]+\s*=|new(doc|par)\b|(begin|end) document\b).*")
WORD_NAMES = ("word", "words", "token", "tokens", "form", "text")
TAG_NAMES = re.compile(r"(\w+[ _])?(tags?|labels?|entity|entities|ner|[ux]?pos)", re.IGNORECASE)
_CONLLU_ID = re.compile(r"\d+([-.]\d+)?")
_CONLLU_COLUMNS = 10
COLUMN_FILES = (".conll", ".iob", ".iob2", ".bio")


@dataclass(frozen=True, slots=True)
class ConllColumns:
    """The columns to read, counted from 0, or from -1 backwards."""

    word: int = 0
    tag: int | None = -1
    """None: tags are ignored."""
    is_conllu: bool = False
    """Leave out ranges of words and empty nodes."""


def read_columns(source: Source, *, is_conllu: bool = False) -> Iterator[RawRow]:
    """Yield a row for each sentence, or for each document, as the options say."""
    options = source.options
    word, tag = options.word_column, options.tag_column if options.labeled else None
    if is_conllu:  # by default FORM and UPOS
        word, tag = word or 1, 3 if tag == -1 else tag
    columns = ConllColumns(word, tag, is_conllu)
    documents = read_documents(source, columns, source.lines, must_be_marked=options.by_document)
    first = list(islice(documents, 2))
    is_only = len(first) == 1  # Label Studio begins every file with one -DOCSTART-, which separates nothing
    for document in chain(first, documents):
        place = document[0].where(0)
        if options.by_document:
            yield {SENTENCES: document}, place
        else:
            where = None if is_only else place
            for sentence in document:
                yield {SENTENCES: (sentence,), DOCUMENT_PLACE: where}, sentence.where(0)


def read_sentences(source: object, columns: ConllColumns, lines: Iterable[Line]) -> Iterator[Sentence]:
    """Yield the sentences of a file, and an empty one for every -DOCSTART-; an error if there are no words.

    Columns are separated by a tab if the first word's line has one, else by spaces.
    """
    rows: list[list[str]] = []
    places: list[str] = []
    is_first = True
    for row, where in _rows(lines, columns):
        if row and row != [DOCUMENT]:
            rows.append(row)
            places.append(where)
            if len(rows) > _MAX_WORDS:
                what = f"over {_MAX_WORDS:,} words without an empty line"
                raise InputError(what, where=where, remedy=_EMPTY_LINE_REMEDY)
            continue
        if rows:
            words = tuple(cells[columns.word] for cells in rows)
            tags = None if columns.tag is None else tuple(cells[columns.tag] for cells in rows)
            if is_first and columns.word == 0 and len(rows[0]) > 2 and words[:2] in (("0", "1"), ("1", "2")):
                what = "the first column has the numbers of the words"
                remedy = "Choose the column of the words, counted from 0: `word_column=1`"
                raise InputError(what, where=places[0], remedy=remedy)
            yield Sentence.at(places, words, tags)
            rows, places, is_first = [], [], False
        if row:
            yield Sentence(())
    if is_first:
        raise InputError("holds no words", where=source)


def read_documents(
    source: object, columns: ConllColumns, lines: Iterable[Line], *, must_be_marked: bool = False
) -> Iterator[tuple[Sentence, ...]]:
    """Yield the documents of a file; each sentence before the first -DOCSTART- is a document of its own."""
    sentences: list[Sentence] = []
    is_marked = False
    for number, sentence in enumerate(read_sentences(source, columns, lines)):
        if must_be_marked and not is_marked and sentence.words and number:
            what = f"no line with {DOCUMENT} before it, so its document is unknown"
            remedy = "Mark where documents begin, or read sentences alone with `context=sentence`"
            raise InputError(what, where=sentence.where(0), remedy=remedy)
        if sentence.words:
            sentences.append(sentence)
        if sentences and not (is_marked and sentence.words):
            yield tuple(sentences)
            sentences.clear()
        is_marked = is_marked or not sentence.words
    if sentences:
        yield tuple(sentences)


def _rows(lines: Iterable[Line], columns: ConllColumns) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of rows, none at the end of a sentence, and -DOCSTART- at the start of a document."""
    head = []
    lines = iter(lines)
    for line in lines:
        head.append(line)
        if line[0].strip(" \t") and not line[0].startswith(("#", DOCUMENT)):
            break
    separator = "\t" if head and "\t" in head[-1][0] else " "
    width = len(split_columns(head[-1][0], separator)) if head else 0
    is_checked, is_before_sentence = False, True
    for text, where in chain(head, lines):
        if not text.strip(" \t"):
            yield [], where
            is_before_sentence = True
            continue
        refuse_carriage_return(text, where=where, what="a line of columns")
        if text.replace("\t", " ").split(" ")[0] == DOCUMENT:
            yield [DOCUMENT], where
            is_before_sentence = True
            continue
        cells = split_columns(text, separator)
        if is_before_sentence and text.startswith("#") and _is_comment(text, cells, columns, width):
            continue
        is_before_sentence = False
        if columns.is_conllu and _CONLLU_ID.fullmatch(cells[0]) and not cells[0].isdigit():
            continue  # a range of words, or an empty node
        if not is_checked:
            _check_columns(cells, columns, where)
            width, is_checked = len(cells), True
        if len(cells) != width:
            what = f"{format_count(len(cells), 'column')}, the first line has {width}"
            remedy = _SEPARATOR_REMEDY
            if columns.tag is None:
                remedy += "; read plain text with `format=text`"
            raise InputError(what, where=where, remedy=remedy)
        if not cells[columns.word].strip():
            raise InputError("the word is empty", where=where, remedy=_EMPTY_LINE_REMEDY)
        yield cells, where
    yield [], ""


def split_columns(text: str, separator: str) -> list[str]:
    """Return the cells of a line; several spaces separate as one does."""
    return text.split("\t") if separator == "\t" else [cell for cell in text.split(" ") if cell]


def is_conllu(lines: Sequence[str]) -> bool:
    """Return whether lines are those of CoNLL-U: ten columns, the first a number, and comments."""
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(
        len(row) == _CONLLU_COLUMNS and _CONLLU_ID.fullmatch(row[0]) is not None for row in rows
    )


def _is_comment(text: str, cells: list[str], columns: ConllColumns, width: int) -> bool:
    """Return whether a line before a sentence is a comment, not a word that begins with #."""
    is_row = len(cells) == width
    if columns.is_conllu or _KEY_COMMENT.fullmatch(text):
        return not (is_row and columns.tag is not None and is_tag(cells[-1]))
    return not is_row and text[1:2] in ("", " ", "\t")


def _check_columns(cells: list[str], columns: ConllColumns, where: str) -> None:
    """Refuse a first row that lacks the columns, or names them."""
    width = len(cells)
    for name, column in (("word", columns.word), ("tag", columns.tag)):
        if column is not None and not -width <= column < width:
            what = f"{format_count(width, 'column')}, {name}_column is {column}"
            raise InputError(what, where=where, remedy="Columns are counted from 0, or from -1 backwards")
    if columns.tag is not None and columns.tag % width == columns.word % width:
        what = f"{format_count(width, 'column')}: words and tags cannot share one"
        raise InputError(what, where=where, remedy="Give a word and its tag a line, a tab or a space apart")
    names_words = cells[columns.word].lower() in WORD_NAMES
    if width > 1 and names_words and TAG_NAMES.fullmatch(cells[-1 if columns.tag is None else columns.tag]):
        remedy = "Leave it out: tail -n +2 OLD > NEW"
        raise InputError("the first line names the columns", where=where, remedy=remedy)


def fits_columns(source: Source) -> bool:
    """Return whether lines are words in columns: labeled ones that no other format fits; others by name or tags."""
    if source.options.labeled:
        return source.extension != ".csv"
    return source.extension in COLUMN_FILES or _have_tags(source.content)


def fits_text(source: Source) -> bool:
    """Return whether unlabeled lines are texts; blocks of lines with as many words each may be sentences in columns."""
    if source.options.labeled or source.extension in (".tsv", ".csv"):
        return False
    are_blocks = "\n\n" in "\n".join(map(str.strip, source.sample)).strip()
    return not (are_blocks and len({len(line.split()) for line in source.content}) == 1)


def _have_tags(content: Sequence[str]) -> bool:
    """Return whether lines, of as many cells each, have tags of a scheme last."""
    words = [line for line in content if not line.startswith(("# ", DOCUMENT))]
    if len(words) < len(content) and any(line.startswith(DOCUMENT) for line in content):
        return True
    rows = [split_columns(line, "\t" if "\t" in words[0] else " ") for line in words]
    tags = {row[-1] for row in rows}
    if len(set(map(len, rows))) != 1 or len(rows[0]) == 1 or not all(map(is_tag, tags)):
        return False
    return len(rows) > 1 or any("-" in tag for tag in tags)
