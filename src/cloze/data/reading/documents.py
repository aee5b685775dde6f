"""Documents, the form into which every text format is read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cloze.data.reading.text_layout import split_paragraphs
from cloze.errors import InputError

Kind: TypeAlias = Literal["sentences", "paragraphs"]
MAX_DOCUMENT_BYTES = 32_000_000
PART_CHARACTERS = 4_000_000
_MAX_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Document:
    """Consecutive text."""

    lines: tuple[str, ...]
    """Not empty, without white space around them; the wrapped lines of a paragraph have line breaks between them."""
    where: str
    """Where it begins, as "file:line"."""
    kind: Kind
    """Whether a line is a sentence or a paragraph."""

    def split_lines(self, split: Callable[[str], list[str]]) -> list[list[str]]:
        """Return the sentences of each line; `split` is applied to paragraphs."""
        return [[line] if self.kind == "sentences" else split(line) for line in self.lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """A file, or a range of a large one."""

    file: str
    text_format: str
    """A name in `FORMATS`; or "auto" for stdin, which can be read only once."""
    begin: int = 0
    """In bytes, or row groups of a Parquet file. A document belongs to the range that it begins in."""
    end: int | None = None
    size_bytes: int = 0
    """On disk."""
    encoding: str | None = None
    """That of a text file; None: UTF-8."""


def split_into_parts(
    documents: Iterable[Document], part_characters: int = PART_CHARACTERS
) -> Iterator[list[Document]]:
    """Group documents into parts of a few megabytes, the unit of work of a process."""
    part: list[Document] = []
    size = 0
    for document in documents:
        part.append(document)
        size += sum(map(len, document.lines))
        if size >= part_characters:
            yield part
            part, size = [], 0
    if part:
        yield part


def document_from_text(text: str, where: str) -> Document | None:
    """Return the document in a text; None if it is blank."""
    paragraphs = split_paragraphs([line.strip() for line in text.split("\n")])
    return Document(paragraphs, where, "paragraphs") if paragraphs else None


def get_text_field(row: Any, text_field: str) -> str:
    """Return the text of a row, "" if it or the object that holds it is null; InputError without a place otherwise."""
    if not isinstance(row, dict):
        raise InputError(f"not an object but {_json_type(row)}", remedy='Write {"text": "…"}')
    value: Any = row
    for name in [text_field] if text_field in row else text_field.split("."):
        if value is None:
            break
        if not isinstance(value, dict) or name not in value:
            raise missing_field(text_field, list(row))
        value = value[name]
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    remedy = "Choose a field of text: `text_field`"
    raise InputError(f"{text_field!r} is {_json_type(value)}, not a text", remedy=remedy)


def missing_field(text_field: str, names: Sequence[str], where: str | None = None) -> InputError:
    """Return the error that a row has no such field; it lists those that it has."""
    others = ", ".join(names[:_MAX_NAMES_SHOWN]) + (", …" if len(names) > _MAX_NAMES_SHOWN else "")
    remedy = f"Choose another with `text_field`: {others}" if names else None
    return InputError(f"no field {text_field!r}", where=where, remedy=remedy)


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
