"""Print results with few digits, and show them as a table in notebooks."""

from collections.abc import Iterable
from dataclasses import fields
from html import escape
from typing import Any, ClassVar

_MAX_ITEMS = 5


class Result:
    """Mixin of the small frozen dataclasses that models return."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}  # for the server's OpenAPI schema

    def __repr__(self) -> str:
        """Return the class and its fields, numbers with four digits."""
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in _fields(self))})"

    def _repr_html_(self) -> str:
        return html_table(_fields(self))


class NamedScores(dict[str, float]):
    """Scores by name; subclasses add where the scores are from."""

    @property
    def scores(self) -> dict[str, float]:
        """The scores alone."""
        return dict(self)

    def _repr_html_(self) -> str:
        return html_table((name, shorten(value)) for name, value in self.items())


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values for a notebook."""
    lines = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table>{''.join(lines)}</table>"


def _fields(result: Any) -> list[tuple[str, str]]:
    values = ((field.name, getattr(result, field.name)) for field in fields(result))
    return [(name, shorten(value)) for name, value in values if value is not None]


def shorten(value: object) -> str:
    """Return a value as text, the first of many items."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        items = [f"{key!r}: {shorten(item)}" for key, item in list(value.items())[:_MAX_ITEMS]]
        return "{" + ", ".join([*items, *["…"] * (len(value) > _MAX_ITEMS)]) + "}"
    if isinstance(value, (tuple, list)):
        left, right = "[]" if isinstance(value, list) else "()"
        items = [shorten(item) for item in value[:_MAX_ITEMS]]
        return left + ", ".join([*items, *["…"] * (len(value) > _MAX_ITEMS)]) + right
    return repr(value)
