"""Report the errors of many rows in one message."""

import re
import warnings
from collections import Counter

from cloze.errors import DataWarning, InputError

_SHOWN_ERRORS = 10


class MissingLabelError(InputError):
    """A row has no label, or a placeholder for one."""


class CellCountError(InputError):
    """A row has more or fewer cells than there are columns."""


class NotAnnotatedError(InputError):
    """An annotator rejected, ignored or skipped a row, or has not seen it; the error says which in a word or two."""


class BadRows:
    """Errors of rows: the first ten, and their number; those of rows that nobody labeled by their reason."""

    def __init__(self) -> None:
        self.count = 0
        self._unlabeled = 0
        self._first: list[InputError] = []
        self._reasons: Counter[str] = Counter()
        self._first_not_annotated = ""

    def add(self, error: InputError) -> None:
        """Count an error, and keep it if it is among the first."""
        self.count += 1
        self._unlabeled += isinstance(error, MissingLabelError)
        if isinstance(error, NotAnnotatedError):
            self._reasons[error.what] += 1
            self._first_not_annotated = self._first_not_annotated or str(error.where)
        elif len(self._first) < _SHOWN_ERRORS:
            self._first.append(error)

    def describe(self) -> str:
        """Return the first errors with their lines, or with their rows in memory."""
        lines = [_number_of(error.where or "") for error in self._first]
        kind = _kind_of(self._first[0].where or "")
        if len({error.what for error in self._first}) == 1 < self._num_bad:
            more = ", …" if self._num_bad > len(lines) else ""
            return f"{self._first[0].what}: {kind}s {', '.join(lines)}{more}"
        errors = [f"{kind} {line}: {error.what}" for line, error in zip(lines, self._first, strict=True)]
        return "; ".join([*errors, *(["…"] if self._num_bad > len(errors) else [])])

    @property
    def _num_bad(self) -> int:
        return self.count - self._reasons.total()

    def _describe_reasons(self) -> str:
        where = self._first_not_annotated
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self._reasons.items())
        return f"{reasons} ({_kind_of(where)} {_number_of(where)} is the first)"

    def warn(self, source: object, rows: int) -> None:
        """Warn that they are left out of so many rows, if there are any."""
        for count, describe in (
            (self._reasons.total(), self._describe_reasons),
            (self._num_bad, self.describe),
        ):
            if count:
                what = f"{count:,} of {rows:,} rows are left out: {describe()}"
                warnings.warn(DataWarning(f"{source}: {what}"), stacklevel=2)

    def as_error(self, remedy: str | None = None, *, rows: int | None = None) -> InputError:
        """Return one error for all; `remedy` is for one without. If none of so many rows has a label, it says so."""
        if not self._first:
            what = f"no row is left of {self.count:,}: {self._describe_reasons()}"
            place = source_of(self._first_not_annotated)
            return InputError(what, where=place, remedy="Label rows, and export them again")
        first = self._first[0]
        first.remedy = first.remedy or remedy
        if self._unlabeled == rows:
            first.remedy = "No row has a label, to learn from or to score with; cloze predict needs none"
        if self._num_bad == 1:
            return first
        errors = self.describe().removeprefix(f"{first.what}: ")
        what = f"{first.what} (the first of {self._num_bad:,} bad rows: {errors})"
        return InputError(what, where=first.where, remedy=first.remedy)


def source_of(where: str) -> str:
    """Return the file or argument of a place within it.

    >>> source_of("reviews.tsv:3"), source_of("train[3]"), source_of("C:/x.json: data[0]")
    ('reviews.tsv', 'train', 'C:/x.json')
    """
    return re.sub(r"(:[^:]*|\[\d+\])$", "", where)


def _number_of(where: str) -> str:
    return where.removeprefix(source_of(where)).strip(":[] ")


def _kind_of(where: str) -> str:
    return "line" if where.rpartition(":")[2].isdigit() else "row"
