"""Tagged words in tables with names of columns: a word a row, or a sentence and its tags a row.

Sentence #,Word,POS,Tag                   a word a row; the number of the sentence is in its first row or in all
Sentence: 1,Ada,NNP,B-per                 (without such a column, empty lines end sentences)
,left,VBD,O

tokens,ner_tags                           a sentence a row, as pandas writes a data set of the Hugging Face Hub
"['Ada', 'left']","['B-PER', 'O']"
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from cloze.data.reading.conll import TAG_NAMES, WORD_NAMES
from cloze.data.reading.delimited import find_separator
from cloze.data.reading.json_rows import as_text, parse_list
from cloze.data.reading.source import RawRow, Source
from cloze.data.reading.tagged_text import SENTENCES, Sentence
from cloze.errors import InputError

_SENTENCE_NAMES = re.compile(
    r"(sentence|sent)s?([ _.-]?(#|id|ids|idx|index|no|num|number|nr)\.?)?", re.IGNORECASE
)
_TEXT_NAMES = ("tokens", "words", "text", "sentence")
_PART_OF_SPEECH = re.compile(r"(\w+[ _])?[ux]?pos([ _]\w+)?", re.IGNORECASE)


class WordColumns(NamedTuple):
    """The names of the columns of a table with a word a row."""

    word: str
    tags: tuple[str, ...]
    """Those that may have the tag."""
    sentence: str | None


def find_word_columns(names: Iterable[str]) -> WordColumns | None:
    """Return the columns of a table with a word a row; None if the names are others.

    >>> find_word_columns(["Sentence #", "Word", "POS", "Tag"])
    WordColumns(word='Word', tags=('Tag',), sentence='Sentence #')
    >>> find_word_columns(["a film", "good"])
    """
    names = list(names)
    words = [name for name in names if name.lower() in WORD_NAMES]
    tags = [name for name in names if TAG_NAMES.fullmatch(name)]
    sentences = [name for name in names if _SENTENCE_NAMES.fullmatch(name)]
    if len(words) != 1 or not (tags or sentences):
        return None
    tags = [name for name in tags if not _PART_OF_SPEECH.fullmatch(name)] or tags
    return WordColumns(words[0], tuple(tags), sentences[0] if sentences else None)


def is_word_column(name: str) -> bool:
    """Return whether a column may have words, a text, or the number of a sentence."""
    return name.lower() in WORD_NAMES or _SENTENCE_NAMES.fullmatch(name) is not None


def find_text_column(names: Iterable[str]) -> str | None:
    """Return the column of a table with a text or the words of a sentence a row."""
    by_name = {name.lower(): name for name in names}
    return next((by_name[name] for name in _TEXT_NAMES if name in by_name), None)


def is_tagged_table(source: Source) -> bool:
    """Return whether the first line of a TSV or CSV names columns of words and tags, or of texts."""
    first = next(iter(source.content), "")
    separator, _ = find_separator(first, [], source.extension)
    names = [cell.strip('" ') for cell in first.split(separator)]
    labeled = source.options.labeled and source.options.format is None
    columns = find_word_columns(names)
    if columns is not None and (columns.tags or not labeled):
        return True
    return find_text_column(names) is not None and (any(map(TAG_NAMES.fullmatch, names)) or not labeled)


def is_sentence_row(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a text with a list of tags or spans, or as many tags as words.

    >>> is_sentence_row({"text": "Ada left", "labels": "B-PER O"}), is_sentence_row({"word": "Ada", "tag": "O"})
    (True, False)
    """
    text = find_text_column(row)
    tags = [str(row[name]) for name in row if TAG_NAMES.fullmatch(name)]
    return text is not None and any(parse_list(tag) is not None or len(tag.split()) > 1 for tag in tags)


def with_lists(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose lists, written as text, are parsed, with the names of JSON.

    >>> with_lists({"tokens": "['Ada', 'left']", "tags": "[1, 0]"})
    {'tags': [1, 0], 'tokens': ['Ada', 'left']}
    >>> with_lists({"Sentence": "Ada left", "labels": "B-PER O"})
    {'labels': ['B-PER', 'O'], 'tokens': ['Ada', 'left']}
    """
    name = find_text_column(row)
    if name is None:
        return dict(row)
    cells = {other: cell for other, cell in row.items() if other != name}
    lists = {other: values for other, cell in cells.items() if (values := parse_list(str(cell))) is not None}
    words = parse_list(row[name])
    tags = {other: str(cells[other]).split() for other in cells if TAG_NAMES.fullmatch(other)}
    if words is None:
        words = row[name].split()
        is_spans = any(not values or isinstance(values[0], list | tuple | dict) for values in lists.values())
        if is_spans or not (lists or any(len(values) == len(words) for values in tags.values())):
            return {**cells, **lists, "text": row[name]}
    return {**cells, **tags, **lists, "tokens": words}


def find_words(row: Mapping[str, Any], *, is_text_file: bool) -> WordColumns | None:
    """Return the columns of rows with a word each, by the first of them; None if it is a sentence or a text.

    Unless blank lines may end sentences, in a text file, rows need a column with the number of the sentence.
    """
    columns = find_word_columns(row)
    if columns is None or not isinstance(row[columns.word], str) or is_sentence_row(row):
        return None
    if columns.word.lower() == "text" and len(row[columns.word].split()) > 1:
        return None
    if not is_text_file and (
        columns.sentence is None or (columns.word.lower() == "text" and not columns.tags)
    ):
        return None
    return None if any(isinstance(row[name], list) for name in columns.tags) else columns


def read_sentences_of_rows(rows: Iterable[RawRow]) -> Iterator[RawRow]:
    """Yield the rows of a table with a sentence or a text each; lists that are written as text are parsed."""
    for cells, where in rows:
        if isinstance(cells, InputError):
            yield cells, where
        elif cells:
            texts = {name: "" if cell is None else str(cell) for name, cell in cells.items()}
            yield with_lists(texts), where


def group_words(
    rows: Iterable[RawRow], columns: WordColumns, tag: str | None, tag_name: Callable[[Any, str, str], str]
) -> Iterator[RawRow]:
    """Yield the sentences of rows of words: a new number of a sentence, or a row without cells, begins the next one.

    `tag_name` returns the tag of a cell in the column `tag`, given its column and place; None leaves tags out.
    """
    words: list[str] = []
    tags: list[str] = []
    places: list[str] = []
    before = ""
    for row, where in chain(rows, [({}, "")]):
        if isinstance(row, InputError):
            raise row
        number = (as_text(row.get(columns.sentence)) or "").strip() if row and columns.sentence else ""
        if words and (not row or number not in ("", before)):
            sentence = Sentence.at(places, tuple(words), None if tag is None else tuple(tags))
            yield {SENTENCES: (sentence,)}, places[0]
            words, tags, places = [], [], []
        if not row:
            continue
        before = number or before
        word = as_text(row.get(columns.word))
        if word is None or not word.strip():
            what = f"the word in {columns.word!r} is empty"
            raise InputError(what, where=where, remedy="Write the word, or leave the row out")
        if columns.word.lower() == "text" and len(word.split()) > 1:
            what = f"{columns.word!r} holds a text, and the first row a word"
            raise InputError(what, where=where, remedy="Name a column of words 'word'")
        words.append(word.strip())
        places.append(where)
        if tag is not None:
            cell = row.get(tag)
            tags.append(tag_name(cell.strip() if isinstance(cell, str) else cell, tag, where))
