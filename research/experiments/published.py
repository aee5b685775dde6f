"""The tables of the BERT paper, and the part of one that a study reproduces."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cloze.config import read_toml
from cloze.errors import InputError
from cloze.suggestions import did_you_mean

SOURCE = "Devlin et al. 2019, arXiv 1810.04805v2"


@cache
def published_tables() -> dict[str, Any]:
    """Return the content of published.toml by table."""
    return read_toml(Path(__file__).with_name("published.toml"))


def published_table(table: str, *, where: Path | None = None) -> dict[str, Any]:
    """Return a table of the paper."""
    tables = published_tables()
    if table not in tables:
        raise InputError(f"unknown table {table!r}", where=where, remedy=did_you_mean(table, tables))
    facts: dict[str, Any] = tables[table]
    return facts


def table_name(table: str) -> str:
    """Return the name of a table for people.

    >>> table_name("figure5")
    'figure 5'
    """
    return f"{table[:-1]} {table[-1]}"


@dataclass(frozen=True, slots=True)
class Published:
    """The rows and columns of a published table that a study reproduces."""

    table: str
    """As in table5, or figure5."""
    rows: Mapping[str, str]
    """By variant or task of the study, the row of the paper."""
    columns: Mapping[str, str]
    """By task or variant of the study, the column of the paper."""

    @classmethod
    def read(cls, table: Mapping[str, Any], *, where: Path) -> "Published":
        """Read a table of a study."""
        is_table = {name: isinstance(value, dict) for name, value in table.items()}
        if is_table != {"table": False, "rows": True, "columns": True}:
            raise InputError("published needs the name of a table, and tables rows and columns", where=where)
        facts = published_table(str(table["table"]), where=where)
        columns = {column for row in facts["rows"].values() for column in row}
        for kind, known in (("rows", set(facts["rows"])), ("columns", columns)):
            if unknown := [name for name in table[kind].values() if name not in known]:
                what = f"published.{kind}: {table['table']} has no {unknown[0]!r}"
                raise InputError(what, where=where, remedy=f"It has {', '.join(sorted(known))}")
        return cls(table["table"], table["rows"], table["columns"])

    @property
    def facts(self) -> dict[str, Any]:
        """The published table."""
        return published_table(self.table)

    def value(self, row: str, column: str) -> float | None:
        """Return the published value for names of the study, if there is one."""
        values: dict[str, float] = self.facts["rows"].get(self.rows.get(row, ""), {})
        return values.get(self.columns.get(column, ""))
