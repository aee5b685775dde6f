"""Dataclasses of counts: those of two parts of a text add up to those of both."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from cloze import config

MAX_EXAMPLES = 3


class Counts:
    """Base of dataclasses whose fields are numbers, other counts, or tuples with the first examples."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(_add(getattr(self, name), getattr(other, name)) for name in names))

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """Return the inverse of `dataclasses.asdict`."""
        return config.from_dict(cls, table, where="counts")


def _add(one: Any, other: Any) -> Any:
    return (one + other)[:MAX_EXAMPLES] if isinstance(one, tuple) else one + other
