"""A row of JSON lines or of a table to a document."""

from collections.abc import Sequence
from typing import Any

from cloze.corpus.documents import Document
from cloze.corpus.formats import paragraphs_of
from cloze.errors import InputError

_NAMES_SHOWN = 12


def text_document(text: str, where: str) -> Document | None:
    """Return a text as a document; None where there is nothing in it."""
    paragraphs = paragraphs_of([line.strip() for line in text.split("\n")])
    return Document(paragraphs, where, "paragraphs") if paragraphs else None


def field_of(row: Any, text_field: str) -> str:
    """Return the text in a row, "" where it is null, or what it is in; the errors know no place.

    Raises:
        InputError: it is no object, has no such field, or the field is no text.
    """
    if not isinstance(row, dict):
        raise InputError(f"not an object but {_type_of(row)}", remedy='Write {"text": "…"}')
    value: Any = row
    if text_field in row:
        value = row[text_field]
    else:
        for name in text_field.split("."):
            if value is None:
                break
            if not isinstance(value, dict) or name not in value:
                raise no_field(text_field, list(row))
            value = value[name]
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    remedy = "Choose a field of text: --text-field"
    raise InputError(f"{text_field!r} is {_type_of(value)}, not a text", remedy=remedy)


def no_field(text_field: str, names: Sequence[str], where: str | None = None) -> InputError:
    """Return the error that there is no such field, and what there is."""
    others = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    remedy = f"Choose with --text-field what is there: {others}" if names else None
    return InputError(f"no field {text_field!r}", where=where, remedy=remedy)


def _type_of(value: Any) -> str:
    """Return the name of a JSON value's type."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
