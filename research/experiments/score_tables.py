"""Tables of scores: variants or tasks over seeds, compared with a base and with the paper."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from experiments.differences import PairedDifference, paired_difference
from experiments.markdown_tables import markdown_table
from experiments.published import SOURCE, Published, table_name
from experiments.results import PERPLEXITY, ByVariant, RunResult, measured_tasks, scores_by_seed
from experiments.study import Study


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of a variant or task, compared with the base and the paper."""

    name: str
    scores: Mapping[int, float]
    """By seed."""
    difference: PairedDifference | None
    """Difference to the base over common seeds; None for the base itself, and for fewer than two seeds."""
    published: float | None
    published_difference: float | None
    """Difference of the published scores."""

    def cells(self, digits: int = 1) -> list[str]:
        """Return the mean with the deviation between seeds, and the difference to the base."""
        values = list(self.scores.values())
        deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
        return [
            f"{fmean(values):.{digits}f}{deviation}" if values else "-",
            "-" if self.difference is None else self.difference.format(digits),
        ]


def score_rows(
    scores: Mapping[str, Mapping[int, float]], base: str, published: Mapping[str, float | None]
) -> list[ScoreRow]:
    """Compare every row, with its score of each seed, with the base."""
    rows = []
    paper_base = published.get(base)
    for name, by_seed in scores.items():
        common = [seed for seed in by_seed if seed in scores.get(base, {})]
        difference = None
        if name != base and len(common) > 1:
            difference = paired_difference(
                [by_seed[seed] for seed in common], [scores[base][seed] for seed in common]
            )
        paper = published.get(name)
        apart = None if name == base or paper is None or paper_base is None else paper - paper_base
        rows.append(ScoreRow(name, by_seed, difference, paper, apart))
    return rows


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Variants compared on one measure, or tasks compared for one variant."""

    title: str
    base: str
    """The row that the others are compared with."""
    rows: Sequence[ScoreRow]
    majority: float | None = None
    """Accuracy of always choosing the most frequent class, if known."""
    notes: Sequence[str] = ()
    """Paragraphs below the table."""

    @property
    def lines(self) -> list[str]:
        """The table as a section of a Markdown page, without the paper's columns if it has no score."""
        columns = ["", "seeds", "ours", "less the base's", "the paper's", "less its base's"]
        cells = []
        for row in self.rows:
            paper = "-" if row.published is None else str(row.published)
            apart = "-" if row.published_difference is None else f"{row.published_difference:+.1f}"
            cells.append([row.name, str(len(row.scores)), *row.cells(), paper, apart])
        if self.majority is not None:
            cells.append(["(always the most frequent class)", "-", f"{self.majority:.1f}", "-", "-", "-"])
        count = 4 if all(row.published is None for row in self.rows) else len(columns)
        table = markdown_table(columns[:count], [line[:count] for line in cells])
        return [f"## {self.title}", "", table, "", *_pooled_deviation(self.rows), *self.notes]


def score_tables(study: Study, by_variant: ByVariant) -> list[ScoreTable]:
    """Return a table of each task with scores, or of each variant if the paper's rows are tasks."""
    base, metrics, published = study.base, study.metrics, study.published
    tasks = measured_tasks(by_variant, metrics)
    tables = []
    if published is not None and published.rows and set(published.rows) <= set(metrics):
        for variant, runs in by_variant.items() if tasks else ():
            paper = {name: published.value(name, variant) for name in tasks}
            rows = score_rows({name: scores_by_seed(runs, name) for name in tasks}, tasks[0], paper)
            tables.append(ScoreTable(variant, tasks[0], rows, notes=_collapsed(runs, tasks)))
        return tables
    runs = [run for group in by_variant.values() for run in group]
    if published is not None and PERPLEXITY in published.columns:
        tasks = [PERPLEXITY, *tasks]
    for name in tasks:
        scores = {variant: scores_by_seed(group, name) for variant, group in by_variant.items()}
        paper = {} if published is None else {row: published.value(row, name) for row in by_variant}
        majority = next((run.tasks[name].majority for run in runs if name in run.tasks), None)
        rows = [row for row in score_rows(scores, base, paper) if row.scores]
        title = f"{name} ({metrics[name]})" if name in metrics else "Perplexity of masked words"
        notes = [*_gains(study, scores), *_points(by_variant, base, name), *_collapsed(runs, [name])]
        tables.append(ScoreTable(title, base, rows, majority, notes))
    return tables


def describe_scores(runs: Sequence[RunResult], tasks: Sequence[str], base: str) -> list[str]:
    """Explain the numbers of tables that compare with one base."""
    described = [(name, run.tasks[name].data) for name in tasks for run in runs if name in run.tasks]
    data = dict.fromkeys(f"- {name}: {data}" for name, data in described if data)
    return [
        *([*data, ""] if data else []),
        "In percent, except perplexity: mean over seeds, each for pre-training, if any, and fine-tuning.",
        f"± is their deviation. Differences are paired by seed with {base}, with the 95% interval of their",
        "mean (Student's t).",
        "The dev data chose the best epoch of each fine-tuning, which raises all scores alike.",
        "",
    ]


def describe_published(published: Published) -> list[str]:
    """Summarize the paper's finding, with the rows that are not in our tables."""
    facts = published.facts
    lines = [
        f"Compared with {table_name(published.table)} of {SOURCE}. It measured: {facts['measured_on']}.",
        f"It found, in our words: {facts['says']}",
        "",
    ]
    if set(facts["rows"]) - set(published.rows.values()):
        columns = list(dict.fromkeys(column for row in facts["rows"].values() for column in row))
        cells = [
            [name, *(str(row.get(column, "-")) for column in columns)] for name, row in facts["rows"].items()
        ]
        lines += [markdown_table(["the paper's", *columns], cells), ""]
    return lines


def _pooled_deviation(rows: Sequence[ScoreRow]) -> list[str]:
    """Return the deviation between seeds of one row, estimated from all rows."""
    varying = [row.scores.values() for row in rows if len(set(row.scores.values())) > 1]
    if not varying:
        return []
    degrees = [len(scores) - 1 for scores in varying]
    pooled = sum(map(operator.mul, degrees, map(variance, varying))) / sum(degrees)
    return [f"Deviation between seeds, pooled over the rows that vary: {math.sqrt(pooled):.2f}.", ""]


def _gains(study: Study, scores: Mapping[str, Mapping[int, float]]) -> list[str]:
    """Compare a variant that is built on another with that other."""
    lines = []
    for name, variant in study.variants.items():
        if (under := variant.get("bilstm_on")) is None:
            continue
        _, row = score_rows({under: scores.get(under, {}), name: scores.get(name, {})}, under, {})
        if row.difference is not None:
            lines += [f"{name} less {under}: {row.difference.format(1)}.", ""]
    return lines


def _points(by_variant: ByVariant, base: str, task: str) -> list[str]:
    """Return a table for each variant with its difference to the base at every point, if there are several."""
    lines = []
    for variant, runs in by_variant.items():
        count = max((len(run.tasks[task].points) for run in runs if task in run.tasks), default=0)
        if variant == base or count < 2:
            continue
        cells = []
        for index in range(count):
            scores = {
                name: {run.seed: run.tasks[task].points[index] for run in group if task in run.tasks}
                for name, group in ((base, by_variant.get(base, [])), (variant, runs))
            }
            theirs, ours = score_rows(scores, base, {})
            cells.append([f"{runs[0].steps_at(index, count):,}", theirs.cells()[0], *ours.cells()])
        lines += [markdown_table(["steps", base, variant, "less the base's"], cells), ""]
    return lines


def _collapsed(runs: Sequence[RunResult], tasks: Sequence[str]) -> list[str]:
    """Name the fine-tunings that learned nothing: their scores reflect the settings, not the encoder."""
    seeds: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        for name in tasks:
            collapses = run.tasks[name].collapses if name in run.tasks else ()
            for index, how in enumerate(collapses):
                if how is not None:
                    after = f" after {run.steps_at(index, len(collapses)):,} steps" * (len(collapses) > 1)
                    seeds.setdefault((run.variant, f"{name}{after}", how), []).append(str(run.seed))
    names = [
        f"{variant}, {what}, seed {' and '.join(affected)} ({how})"
        for (variant, what, how), affected in seeds.items()
    ]
    return [f"Learned nothing: {'; '.join(names)}.", ""] if names else []
