"""Scores of several ways of doing a thing, by seed, beside the first way and the paper's numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from cloze.evidence.differences import PairedDifference, paired_difference


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
        paper = "-" if self.published is None else str(self.published)
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
