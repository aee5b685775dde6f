"""Rows in memory that are read where the path of a file is expected."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Self


class MemoryFile(str):
    """JSON lines in memory. As a text it is the path of the file that a run keeps them in.

    Every reader of files reads it, because all of them open files by `cloze.data.files`. Messages name its rows by
    `label`, as in "train[3]".
    """

    label: str
    """Name of the argument that the rows are from."""
    rows: tuple[str, ...]
    """One JSON object each, without line ends."""

    def __new__(cls, path: str, label: str = "", rows: Iterable[str] = ()) -> Self:
        """Return the rows as the file `path`; without rows only to unpickle it."""
        file = super().__new__(cls, path)
        file.label, file.rows = label, tuple(rows)
        return file

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield each row and its place."""
        return ((row, f"{self.label}[{number}]") for number, row in enumerate(self.rows))

    @property
    def content(self) -> str:
        """The text of the file."""
        return "".join(f"{row}\n" for row in self.rows)

    @property
    def sha256(self) -> str:
        """SHA-256 of the file as hexadecimal digits."""
        return hashlib.sha256(self.content.encode()).hexdigest()


def place_of(path: object) -> str:
    """Return the name of a file, or of the argument that rows in memory are from, for messages."""
    return str(getattr(path, "label", path))


def source_of(where: str) -> str:
    """Return the file or argument of a place within it.

    >>> source_of("reviews.tsv:3"), source_of("train[3]"), source_of("C:/x.json: data[0]")
    ('reviews.tsv', 'train', 'C:/x.json')
    """
    return re.sub(r"(:[^:]*|\[\d+\])$", "", where)
