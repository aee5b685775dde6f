"""The reader of tagged words, of texts with spans, and of plain text, which is split into words as annotators do.

{"text": "Ada lives in Oslo.", "label": [[0, 3, "PER"], [13, 17, "LOC"]]}       doccano
{"text": "Ada", "entities": [{"start": 0, "end": 3, "label": "PER"}]}           doccano, spaCy, Prodigy, cloze predict
[{"data": {"text": "Ada"}, "annotations": [{"result": […]}]}]                   Label Studio
{"tokens": ["Ada", "lives"], "ner_tags": ["B-PER", "O"]}                        data sets of the Hugging Face Hub
"""

import re
import unicodedata
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from cloze.choices import TaggingFormat
from cloze.data.reading.columns import Column
from cloze.data.reading.formats import FORMATS, open_source
from cloze.data.reading.json_rows import show_value
from cloze.data.reading.memory import Data
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import parse_rows
from cloze.data.reading.tag_schemes import entities_to_tags
from cloze.data.reading.tagged_text import DOCUMENT_PLACE, SENTENCES, Sentence, TaggedText, sentence_of_words
from cloze.data.reading.word_tables import find_words, group_words, is_word_column, read_sentences_of_rows
from cloze.errors import DataWarning, InputError
from cloze.metrics.conll import Entity
from cloze.tokenization.sentences import sentence_spans
from cloze.tokenization.unicode import replace_lone_surrogates
from cloze.tokenization.words import word_spans

Context: TypeAlias = Literal["sentence", "document"]
Offsets: TypeAlias = Literal["characters", "utf-16", "utf-8"]
"""What the offsets of spans count: characters, UTF-16 units (as JavaScript and Java do, an emoji is two), or bytes."""

_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_LABELS = ("label", "labels", "type", "entity")
_CODECS = {"utf-16": ("utf-16-le", 2), "utf-8": ("utf-8", 1)}
"""Encoding and bytes of a unit."""
_SHOWN = 60

_TOKENS = ("tokens", "words")
_SPANS = ("entities", "spans", "ents", "label", "labels")
_TAGS_NAME = re.compile(r"(.*_)?(tag|label|ner)s?(_(name|text|str|string|id|idx|number)s?)?", re.IGNORECASE)
_LONG_SENTENCE = 500  # words


class LabeledSpan(NamedTuple):
    """Characters of a text, from `start` to before `end`."""

    start: int
    end: int
    label: str


@dataclass(slots=True)
class SpanReader:
    """Reads the spans of a file, and counts spans that begin or end inside a word."""

    offsets: Offsets
    _num_spans: int = 0
    _num_cut: int = 0
    _first_cut: str = ""

    def read(self, values: Sequence[Any], text: str, where: str) -> list[LabeledSpan]:
        """Return the spans of a text, sorted, without the white space around them."""
        return sorted({self._read(value, text, where) for value in values})

    def _read(self, value: Any, text: str, where: str) -> LabeledSpan:
        first, last, label, quoted = _parse(value, where)
        start = _characters_before(first, text, self.offsets)
        end = _characters_before(last, text, self.offsets)
        remedy = f"Spans count {self.offsets} from 0, and end after the last one"
        others = " or ".join(f"`offsets={name}`" for name in _CODECS if name != self.offsets)
        remedy = remedy if text.isascii() else f"{remedy}; if they count otherwise, say {others}"
        if start is None or end is None or start >= end:
            what = f"the span {show_value(value)} is not in the text, which has {len(text)} characters"
            raise InputError(what, where=where, remedy=remedy)
        marked = text[start:end]
        if quoted is not None and quoted.split() != marked.split():  # pages collapse white space
            what = f"the span {show_value(value)} is not where its text is; the text there is {marked[:_SHOWN]!r}"
            raise InputError(what, where=where, remedy=remedy)
        start += len(marked) - len(marked.lstrip())
        span = LabeledSpan(start, start + len(marked.strip()), label)
        self._num_spans += 1
        if quoted is None and any(_is_inside_word(text, position) for position in span[:2]):
            self._num_cut += 1
            around = text[max(0, span.start - 10) : span.end + 10]
            marked = text[span.start : span.end][:_SHOWN]
            self._first_cut = self._first_cut or f"{where}: {marked!r} in {around[: _SHOWN + 20]!r}"
        return span

    def warn(self, source: Data) -> None:
        """Warn once of spans that begin or end inside a word."""
        if self._num_cut:
            what = f"{self._num_cut:,} of {self._num_spans:,} spans begin or end inside a word"
            remedy = f"They count {self.offsets}; the task's setting offsets says what else they may count"
            warnings.warn(DataWarning(f"{source}: {what} ({self._first_cut}). {remedy}"), stacklevel=2)


def _parse(value: Any, where: str) -> tuple[int, int, str, str | None]:
    """Return start, end and label, and the text of the span where the file has it."""
    quoted = None
    if isinstance(value, Mapping):
        start, end, label = (
            next((value[name] for name in names if name in value), None)
            for names in (_STARTS, _ENDS, _LABELS)
        )
        label = label[0] if isinstance(label, list) and len(label) == 1 else label
        quoted = value.get("text")
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) >= 3:
        start, end, label = value[:3]
    else:
        start = end = label = None
    if not (type(start) is type(end) is int and isinstance(label, str) and label.strip()):
        remedy = 'Write [0, 3, "PER"] or {"start": 0, "end": 3, "label": "PER"}'
        raise InputError(f"{show_value(value)} is not a span with one label", where=where, remedy=remedy)
    return start, end, label.strip(), quoted if isinstance(quoted, str) else None


def _characters_before(offset: int, text: str, offsets: Offsets) -> int | None:
    """Return the number of characters before an offset; None if it is not between two of the text."""
    if offsets == "characters" or text.isascii():
        return offset if 0 <= offset <= len(text) else None
    codec, width = _CODECS[offsets]
    encoded = text.encode(codec)
    try:
        return len(encoded[: offset * width].decode(codec)) if 0 <= offset * width <= len(encoded) else None
    except UnicodeDecodeError:
        return None


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether a position is between two cased letters, two digits, or a letter and its accent.

    Other scripts write words without spaces, or with prefixes that are words.
    """
    if not 0 < position < len(text):
        return False
    letters = (letter for letter in reversed(text[:position]) if not unicodedata.combining(letter))
    pair = next(letters, ""), text[position]
    is_letters = all(letter.lower() != letter.upper() for letter in pair)
    return bool(unicodedata.combining(text[position])) or is_letters or all(map(str.isdigit, pair))


@dataclass(frozen=True, kw_only=True)
class TaggedReader:
    """Sentences or documents in columns, JSON, tables or Parquet, or plain text if there are no tags."""

    file_settings: ClassVar[tuple[str, ...]] = ("encoding",)
    reads_pairs: ClassVar[bool | None] = None

    encoding: str | None = None
    """Encoding of text files, as in latin-1, cp1252 or utf-16 (default: utf-8)."""
    word_column: int = 0
    """Counted from 0, or from -1 backwards."""
    tag_column: int = -1
    context: Context = "sentence"
    """Read a sentence alone, or with as much of its document on both sides as fits."""
    language: str = "en"
    """Language of plain text, for sentence splitting."""
    format: TaggingFormat | None = None
    """How files are written: columns, conllu, json, table or text, one a line; by default it is detected.
    Or the annotation tool that exported them: argilla, doccano, label-studio or prodigy; detected in JSON alone."""
    tags_field: str | None = None
    """Field or column of the tags of words in JSON, Parquet and tables; by default the only one whose name says so."""
    tag_names: tuple[str, ...] = ()
    """Names of tags that JSON and Parquet have as numbers, in their order."""
    offsets: Offsets = "characters"
    """What the offsets of spans count: characters, utf-16 (units of it) or utf-8 (bytes)."""
    skip_bad_rows: bool = False
    """Leave out and count the texts of JSON, Parquet and Arrow that cannot be read, instead of refusing the file."""

    def columns(self) -> tuple[Column, ...]:
        return (Column("text"),)

    def options(self, answer: Any, *, labeled: bool) -> ReadOptions:
        """Return how data are read; `answer` is of the kind `Tags`."""
        tags = [Column("tags", "label", (self.tags_field or "tags",))] if labeled else []
        return ReadOptions(
            reader="words",
            columns=(*self.columns(), *tags),
            is_also_read=lambda name: name in _SPANS or self._may_be_tags(name) or is_word_column(name),
            keeps_numbers=lambda column, names: bool(self.tag_names),
            format=self.format,
            labeled=labeled,
            encoding=self.encoding,
            leave_out=(InputError,) if self.skip_bad_rows else (),
            word_column=self.word_column,
            tag_column=self.tag_column,
            by_document=self.context == "document",
        )

    def group(self, example: TaggedText) -> str | None:
        return example.document

    def key(self, example: TaggedText) -> Hashable:
        """Return all that the model reads of an example."""
        return tuple(sentence.words for sentence in example.sentences)

    def read(
        self, source: Data, answer: Any, *, labeled: bool = True, **how: bool
    ) -> Iterator[tuple[TaggedText, Mapping[str, Any]]]:
        """Yield the sentences, texts or documents of data in any format, with tags in one scheme."""
        schemes, longest = answer.scheme_detector(), Sentence(())
        for text in self._texts(source, answer, labeled=labeled):
            for sentence in text.sentences:
                schemes.add(sentence.tags or (), sentence.where)
                longest = max(longest, sentence, key=lambda sentence: len(sentence.words))
            yield text, {}
        if len(longest.words) > _LONG_SENTENCE:
            what = (
                f"a sentence has {len(longest.words):,} words: are the empty lines after sentences missing?"
            )
            warnings.warn(DataWarning(f"{longest.where(0)}: {what}"), stacklevel=2)
        schemes.scheme()

    def _texts(self, data: Data, answer: Any, *, labeled: bool) -> Iterator[TaggedText]:
        # rows need not have the columns of tuples
        source = open_source(data, replace(self.options(answer, labeled=labeled), columns=()))
        rows = source.rows()
        first = list(islice(rows, 1))
        rows = chain(first, rows)
        cells = first[0][0] if first and source.options.tool is None else None
        is_text_file = source.format is FORMATS["table"]
        if isinstance(cells, Mapping) and (columns := find_words(cells, is_text_file=is_text_file)):
            tags = (self.tags_field,) if self.tags_field else columns.tags
            if labeled and len(tags) != 1:
                raise self._unclear_tags(tags, first[0][1])
            rows = group_words(rows, columns, tags[0] if labeled else None, self._tag_name)
        elif source.format in (FORMATS["table"], FORMATS["excel"]):
            rows = read_sentences_of_rows(rows)
        spans = SpanReader(self.offsets)
        yield from parse_rows(
            source, lambda row: self._parse(row.raw, row.where, spans, labeled=labeled), rows
        )
        spans.warn(data)

    def _may_be_tags(self, name: str) -> bool:
        field = self.tags_field
        return name == field if field else _TAGS_NAME.fullmatch(name) is not None

    def _parse(self, row: Mapping[str, Any], where: str, spans: SpanReader, *, labeled: bool) -> TaggedText:
        """Return the text of a row of sentences, of words, or of a text with spans."""
        if SENTENCES in row and isinstance(row[SENTENCES], tuple):
            return TaggedText(row[SENTENCES], document=row.get(DOCUMENT_PLACE))
        text = row.get("text", row.get("data"))
        tokens = next((row[name] for name in _TOKENS if name in row), row.get("text"))
        if isinstance(text, str) and (not isinstance(tokens, list) or any(name in row for name in _SPANS)):
            return self._tag_text(text, row, where, spans, labeled=labeled)
        if not isinstance(tokens, list) or not all(isinstance(word, str) and word.strip() for word in tokens):
            what = "there is no field 'text' with a text, nor 'tokens' with a list of words"
            raise InputError(f"{what}: {show_value(row)}", where=where, remedy="Name the fields so")
        if not labeled:
            return sentence_of_words(tokens, None, where)
        fields = [name for name in row if self._may_be_tags(name) and isinstance(row[name], list)]
        if not any(row[name] for name in fields) and not tokens:
            return TaggedText(())
        if len(fields) != 1:
            raise self._unclear_tags(fields, where, row)
        if len(row[fields[0]]) != len(tokens):
            raise InputError(f"{len(row[fields[0]])} {fields[0]} for {len(tokens)} tokens", where=where)
        tags = tuple(self._tag_name(tag, fields[0], where) for tag in row[fields[0]])
        return sentence_of_words(tokens, tags, where)

    def _unclear_tags(self, fields: Sequence[str], where: str, row: Iterable[str] = ()) -> InputError:
        what = f"tags may be in {' or '.join(map(repr, fields))}" if fields else "no field has the tags"
        names = ", ".join(map(repr, fields or row))
        return InputError(what, where=where, remedy=f"Choose one of {names} with `tags_field=NAME`")

    def _tag_name(self, tag: Any, field: str, where: str) -> str:
        if isinstance(tag, str):
            tag = tag.removeprefix("LABEL_") if self.tag_names else tag  # as transformers names them
            if not tag.isdigit():
                return str(tag)
        if not isinstance(tag, str | int) or isinstance(tag, bool):
            raise InputError(f"{field!r} holds {show_value(tag)}, not a tag", where=where)
        names = self.tag_names
        if not names:
            remedy = """Give their names in order: `tag_names=["O", "B-PER", …]`"""
            raise InputError(f"{field!r} holds the number {tag}, not a tag", where=where, remedy=remedy)
        if not 0 <= int(tag) < len(names):
            what = f"{field!r} holds the number {tag}, and there are {len(names)} names of tags"
            raise InputError(what, where=where, remedy="They count from 0")
        return names[int(tag)]

    def _tag_text(
        self, text: str, row: Mapping[str, Any], where: str, reader: SpanReader, *, labeled: bool
    ) -> TaggedText:
        """Split a text into words and sentences that no span cuts, and tag the words of the spans."""
        text = replace_lone_surrogates(text)
        if not labeled:
            return self.split(text)
        # a label of the text that an annotation tool has in another field has both names
        copies = ("label", "labels") if row.get("label") is row.get("labels") else ()
        names = [name for name in row if name not in copies]
        lists = [row[name] for name in _SPANS if name in names and isinstance(row[name], list)]
        if not lists:
            what = f"no field has the spans of the text: there are {', '.join(map(repr, names))}"
            remedy = "Give 'label' or 'entities', a list of [start, end, label]"
            raise InputError(what, where=where, remedy=remedy)
        spans = reader.read(next(filter(None, lists), []), text, where)
        for one, other in pairwise(spans):
            if other.start < one.end:
                what = f"{text[one.start : one.end]!r} and {text[other.start : other.end]!r} overlap"
                raise InputError(what, where=where, remedy="A word has one tag: leave one of the spans")
        cuts = sorted({position for span in spans for position in span[:2]})
        words: list[tuple[int, int]] = []
        sentence_ends = []
        for sentence in split_text(text, language=self.language):
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
            )
            for first, last in pairwise([0, *sentence_ends])
        )
        return TaggedText(tuple(sentences), text)

    def split(self, text: str) -> TaggedText:
        """Split plain text into sentences and words."""
        return TaggedText(split_text(text, language=self.language), text)


def split_text(text: str, *, language: str = "en") -> tuple[Sentence, ...]:
    """Split a text into sentences of words with character offsets.

    >>> [sentence.words for sentence in split_text("Is it J. Smith (of the U.S.)? It's me.")]
    [('Is', 'it', 'J.', 'Smith', '(', 'of', 'the', 'U.S.', ')', '?'), ('It', "'s", 'me', '.')]
    """
    sentences = []
    for start, end in sentence_spans(text, language=language):
        spans = [(start + first, start + last) for first, last in word_spans(text[start:end])]
        words = tuple(text[first:last] for first, last in spans)
        if words:
            sentences.append(Sentence(words, offsets=tuple(spans)))
    return tuple(sentences)
