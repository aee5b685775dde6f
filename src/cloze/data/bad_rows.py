"""Errors of many rows, told together."""

import warnings

from cloze.errors import DataWarning, InputError
from cloze.memory_file import place_of, source_of
from cloze.remote_files import PathOrUrl

_SHOWN_ERRORS = 10


class MissingLabelError(InputError):
    """A row has no label, or a placeholder for one."""


class BadRows:
    """Errors of rows: the first ten, and their number."""

    def __init__(self) -> None:
        self.count = 0
        self._unlabeled = 0
        self._first: list[InputError] = []

    def add(self, error: InputError) -> None:
        """Count an error, and keep it if it is among the first."""
        self.count += 1
        self._unlabeled += isinstance(error, MissingLabelError)
        if len(self._first) < _SHOWN_ERRORS:
            self._first.append(error)

    def describe(self) -> str:
        """Return the first errors with their lines, or with their rows in memory."""
        places = [error.where or "" for error in self._first]
        lines = [where.removeprefix(source_of(where)).strip(":[]") for where in places]
        kind = "row" if places[0].endswith("]") else "line"
        if len({error.what for error in self._first}) == 1 < self.count:
            more = ", …" if self.count > len(lines) else ""
            return f"{self._first[0].what}: {kind}s {', '.join(lines)}{more}"
        told = (f"{kind} {line}: {error.what}" for line, error in zip(lines, self._first, strict=True))
        return "; ".join([*told, *(["…"] if self.count > len(self._first) else [])])

    def warn(self, path: PathOrUrl, rows: int) -> None:
        """Warn that they are left out of so many rows, if there are any."""
        if self.count:
            what = f"{self.count:,} of {rows:,} rows are left out: {self.describe()}"
            warnings.warn(DataWarning(f"{place_of(path)}: {what}"), stacklevel=2)

    def as_error(self, remedy: str | None = None, *, rows: int | None = None) -> InputError:
        """Return one error for all of them, with a remedy if they have none, or if none of so many rows has a label."""
        first = self._first[0]
        first.remedy = first.remedy or remedy
        if self._unlabeled == rows:
            first.remedy = "No row has a label, to learn from or to score with; cloze predict needs none"
        if self.count == 1:
            return first
        told = self.describe().removeprefix(f"{first.what}: ")
        what = f"{first.what} (the first of {self.count:,} bad rows: {told})"
        return InputError(what, where=first.where, remedy=first.remedy)
