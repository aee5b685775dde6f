"""Files of tagged words and texts, of every format, and the settings that say how to read them."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar, Literal, TypeAlias

from cloze.choices import TaggingFormat
from cloze.data.reading.columns import Column
from cloze.data.reading.files import Line, read_lines
from cloze.data.reading.memory import MemoryRows, Source
from cloze.data.reading.table_files import is_arrow
from cloze.data.reading.tables import TableConfig
from cloze.errors import DataWarning, InputError
from cloze.remote_files import PathOrUrl
from cloze.tasks.conll import ConllColumns, Sentence, TaggedText, read_documents, rename_tags
from cloze.tasks.running_text import split_text
from cloze.tasks.span_offsets import Offsets, SpanReader
from cloze.tasks.tag_schemes import Scheme, SchemeDetector, Stray, is_tag, usual_tags
from cloze.tasks.tagged_rows import TaggedRowReader
from cloze.tasks.tagging_formats import SAMPLE_LINES, detect_format

Context: TypeAlias = Literal["sentence", "document"]
_LONG_SENTENCE = 500  # words
_SENTENCE_ENDS = frozenset(".!?。！？।؟")


@dataclass(frozen=True, kw_only=True)
class TaggedFiles:
    """Mixin for tasks on tagged words: reads their files."""

    name: ClassVar[str]

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default O, and B and I of each type in the training data."""
    scheme: Scheme | None = None
    """Scheme of the predictions; by default that of the training data."""
    word_column: int = 0
    """Counted from 0, or from -1 backwards."""
    tag_column: int = -1
    context: Context = "sentence"
    """Read a sentence alone, or with as much of its document on both sides as fits."""
    running_text: bool = False
    """Read files without tags as plain text, as `format` text does."""
    language: str = "en"
    """Language of plain text, for sentence splitting."""
    num_columns: int | None = None
    """Number of columns of the training data, by which columns without tags are recognized."""
    format: TaggingFormat | None = None
    """How files are written: columns, conllu, json, table or text, one a line; by default it is detected."""
    tags_field: str | None = None
    """Field or column of the tags of words in JSON, Parquet and tables; by default the only one whose name says so."""
    tag_names: tuple[str, ...] = ()
    """Names of tags that JSON and Parquet have as numbers, in their order."""
    offsets: Offsets | None = None
    """What the offsets of spans count: characters, utf-16, utf-8, composed, decomposed, inclusive or newlines.

    By default it is found out from the texts of spans, and spans that cut words are refused or named.
    """
    stray: Stray = "refuse"
    """Tags that the scheme does not allow are an error, or are read as conlleval does."""
    skip_bad_rows: bool = False
    """Leave out and count the texts of JSON, Parquet and Arrow that cannot be read, instead of refusing the file."""

    def examples(self, source: Source, *, labeled: bool = True) -> Iterator[TaggedText]:
        """Read sentences or documents in columns, JSON, tables or Parquet, or plain text if there are no tags."""
        reader = TaggedRowReader(
            self.name,
            labeled,
            self.language,
            self.tags_field,
            self.tag_names,
            self.skip_bad_rows,
            SpanReader(self.name, self.offsets),
        )
        if isinstance(source, MemoryRows) or is_arrow(source):
            yield from self._check_tags(reader.read_rows(source))
            return
        lines = read_lines(source)
        sample = list(islice(lines, SAMPLE_LINES))
        lines = chain(sample, lines)
        shape = "text" if self.running_text and not labeled else self.format
        shape = shape or detect_format(
            source,
            [text for text, _ in sample],
            labeled=labeled,
            labels=self.labels,
            columns=self.num_columns,
        )
        if self.skip_bad_rows and shape not in ("json", "table"):
            what = "rows are left out of JSON, tables, Parquet and Arrow only"
            raise InputError(what, where=source, remedy="Leave out `skip_bad_rows`")
        if shape == "json":
            yield from self._check_tags(reader.read_lines(source, lines))
        elif shape == "table":
            yield from _SentenceEnds().watch(self._check_tags(reader.read_table(source, lines)))
        elif shape == "text":
            if labeled:
                raise InputError(
                    "plain text has no tags", where=source, remedy="Give words with tags, or JSON"
                )
            if not sample:
                raise InputError("contains no text", where=source)
            yield from (self.split(line) for line, _ in lines)
        else:
            columns = ConllColumns(
                self.word_column,
                self.tag_column if labeled else None,
                self.name,
                is_conllu=shape == "conllu",
            )
            yield from _SentenceEnds().watch(self._check_tags(self._read_columns(source, columns, lines)))

    def _read_columns(
        self, path: PathOrUrl, columns: ConllColumns, lines: Iterable[Line]
    ) -> Iterator[TaggedText]:
        by_document = self.context == "document"
        documents = read_documents(path, columns, lines, must_be_marked=by_document)
        for document in documents:
            if by_document:
                yield TaggedText(document)
            else:
                where = document[0].where(0)
                yield from (TaggedText((sentence,), document=where) for sentence in document)

    def _check_tags(self, texts: Iterable[TaggedText]) -> Iterator[TaggedText]:
        """Yield texts, and check that their tags are in one scheme."""
        schemes = self.scheme_detector()
        for text in texts if self.scheme == "plain" else _with_usual_tags(texts, self.labels):
            for sentence in text.sentences:
                schemes.add(sentence.tags or (), sentence.where)
            yield text
        schemes.scheme()

    def table(self, *, labeled: bool) -> TableConfig:
        """Return the columns of tuples: a text or its words, and their tags, whose names may be those of a setting."""
        tags = [Column("tags", "label", (self.tags_field or "tags",))] if labeled else []
        has_names = bool(self.tag_names)
        return TableConfig(columns=(Column("text"), *tags), keeps_numbers=lambda column, names: has_names)

    def scheme_detector(self) -> SchemeDetector:
        """Return a detector that accepts the tags that the settings allow."""
        return SchemeDetector(self.name, is_plain=self.scheme == "plain", stray=self.stray)

    def split(self, text: str) -> TaggedText:
        """Split plain text into sentences and words."""
        return TaggedText(split_text(text, language=self.language), text)


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
    yield from (rename_tags(text, usual) for text in first)
    yield from texts


class _SentenceEnds:
    """Evidence that the empty lines between sentences are missing: one sentence with several ends, or a long one."""

    def __init__(self) -> None:
        self._count = 0
        self._longest: Sentence | None = None

    def watch(self, texts: Iterable[TaggedText]) -> Iterator[TaggedText]:
        """Yield texts of words in columns, and warn at the end if sentences seem to be joined."""
        for text in texts:
            for sentence in text.sentences:
                self._count += 1
                if self._longest is None or len(sentence.words) > len(self._longest.words):
                    self._longest = sentence
            yield text
        if self._longest is None:
            return
        words = self._longest.words
        ends = sum(word in _SENTENCE_ENDS for word in words[:-1])
        if len(words) > _LONG_SENTENCE or (self._count == 1 and ends > 1):
            kind = "the only sentence" if self._count == 1 else "a sentence"
            what = f"{kind} has {len(words):,} words. An empty line ends a sentence: are such lines missing?"
            warnings.warn(DataWarning(f"{self._longest.where(0)}: {what}"), stacklevel=2)
