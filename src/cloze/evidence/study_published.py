"""The paper's numbers beside those of a study: a table for each column of the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from cloze.config import read_toml
from cloze.errors import InputError
from cloze.evidence.differences import PairedDifference, paired_difference

PUBLISHED = Path(__file__).with_name("published.toml")
SOURCE = "Devlin et al. 2019, arXiv 1810.04805v2"


@cache
def _tables() -> dict[str, Any]:
    return read_toml(PUBLISHED)


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
        found = _tables().get(str(table["table"]))
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
        """What stands in published.toml."""
        facts: dict[str, Any] = _tables()[self.table]
        return facts

    @property
    def name(self) -> str:
        """As in "table 5"."""
        return f"{self.table[:-1]} {self.table[-1]}"

    def value(self, row: str, column: str) -> float | None:
        """Return what was published for names of ours, if anything was."""
        found: dict[str, float] = self.facts["rows"].get(self.rows.get(row, ""), {})
        return found.get(self.columns.get(column, ""))


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One way of doing a thing: what it reached by seed, beside the base and the paper."""

    name: str
    scores: Mapping[int, float]
    """By seed."""
    difference: PairedDifference | None
    """Less the base's, over the seeds that both have; None of the base itself, and of fewer than two."""
    published: float | None
    published_difference: float | None
    """Less that of the base."""

    @property
    def cells(self) -> list[str]:
        """The row as a table has it."""
        values = list(self.scores.values())
        deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
        ours = f"{fmean(values):.1f}{deviation}" if values else "-"
        interval = "-"
        if (found := self.difference) is not None:
            interval = found.described(1)
        paper = "-" if self.published is None else f"{self.published:.1f}"
        theirs = "-" if self.published_difference is None else f"{self.published_difference:+.1f}"
        return [self.name, str(len(values)), ours, interval, paper, theirs]


def score_rows(
    scores: Mapping[str, Mapping[int, float]], base: str, published: Mapping[str, float | None]
) -> list[ScoreRow]:
    """Compare every row with the base.

    Args:
        scores: by row, what each seed reached.
        base: a row.
        published: what the paper has of each, where it has it.
    """
    rows = []
    paper_base = published.get(base)
    for name, own in scores.items():
        both = [seed for seed in own if seed in scores.get(base, {})]
        difference = None
        if name != base and len(both) > 1:
            difference = paired_difference(
                [own[seed] for seed in both], [scores[base][seed] for seed in both]
            )
        paper = published.get(name)
        apart = None if name == base or paper is None or paper_base is None else paper - paper_base
        rows.append(ScoreRow(name, own, difference, paper, apart))
    return rows


def as_table(rows: Sequence[ScoreRow], *, majority: float | None = None) -> list[str]:
    """Return rows as a Markdown table; without the paper's columns where it has nothing."""
    cells = [
        ["", "seeds", "ours", "less the base's", "the paper's", "less its base's"],
        *(row.cells for row in rows),
    ]
    if majority is not None:
        cells.append(["(always the most frequent class)", "-", f"{majority:.1f}", "-", "-", "-"])
    if all(row.published is None for row in rows):
        cells = [line[:4] for line in cells]
    head, *lines = cells
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]
