"""What the paper published, by table, and what of it a study has the same of."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cloze.config import read_toml
from cloze.errors import InputError

SOURCE = "Devlin et al. 2019, arXiv 1810.04805v2"


@cache
def published_tables() -> dict[str, Any]:
    """Return what stands in published.toml."""
    return read_toml(Path(__file__).with_name("published.toml"))


@dataclass(frozen=True, slots=True)
class Published:
    """Where the paper has what a study compares."""

    table: str
    """As in table5, or figure5."""
    rows: Mapping[str, str]
    """By our names, which are variants or tasks, what the paper's rows are called."""
    columns: Mapping[str, str]
    """By our names, which are then tasks or variants, what its columns are called."""

    @classmethod
    def read(cls, table: Mapping[str, Any], *, where: Path) -> "Published":
        """Read a table of a study.

        Raises:
            InputError: a key is unknown or missing, or the paper has no such table, row or column.
        """
        is_table = {name: isinstance(value, dict) for name, value in table.items()}
        if is_table != {"table": False, "rows": True, "columns": True}:
            raise InputError("published has the name of a table, and tables rows and columns", where=where)
        found = published_tables().get(str(table["table"]))
        if found is None:
            raise InputError(f"published.table: there is none called {table['table']!r}", where=where)
        columns = {column for row in found["rows"].values() for column in row}
        for kind, known in (("rows", set(found["rows"])), ("columns", columns)):
            if unknown := [name for name in table[kind].values() if name not in known]:
                what = f"published.{kind}: {table['table']} has no {unknown[0]!r}"
                raise InputError(what, where=where, remedy=f"It has {', '.join(sorted(known))}")
        return cls(table["table"], table["rows"], table["columns"])

    @property
    def facts(self) -> dict[str, Any]:
        """What was published of it."""
        facts: dict[str, Any] = published_tables()[self.table]
        return facts

    @property
    def name(self) -> str:
        """As in "table 5"."""
        return f"{self.table[:-1]} {self.table[-1]}"

    def value(self, row: str, column: str) -> float | None:
        """Return what was published for names of ours, if anything was."""
        found: dict[str, float] = self.facts["rows"].get(self.rows.get(row, ""), {})
        return found.get(self.columns.get(column, ""))
