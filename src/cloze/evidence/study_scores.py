"""The part of a study's record that tells what its encoders are worth to tasks, beside the paper's numbers."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import variance

from cloze.evidence.differences import paired_difference
from cloze.evidence.score_rows import ScoreRow, as_table, score_rows
from cloze.evidence.study_published import SOURCE, Published
from cloze.evidence.study_results import PERPLEXITY, Compared


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Variants on one measure, or one variant on several tasks."""

    title: str
    base: str
    """The row that the others are compared with."""
    rows: Sequence[ScoreRow]
    majority: float | None = None
    """What always saying the most frequent class reaches, where that is known."""
    notes: Sequence[str] = ()
    """Lines that stand below it."""

    @property
    def lines(self) -> list[str]:
        """The table as a section of a Markdown page."""
        table = as_table(self.rows, majority=self.majority)
        return [f"## {self.title}", "", *table, "", *_noise(self.rows), *self.notes]


def score_tables(
    by_variant: Mapping[str, Sequence[Compared]],
    base: str,
    metrics: Mapping[str, str],
    built_on: Mapping[str, str],
    published: Published | None,
) -> list[ScoreTable]:
    """Return a table for each task that was measured, or where the paper's rows are tasks, for each variant."""
    tasks = measured_tasks(by_variant, metrics)
    if published is not None and published.rows and set(published.rows) <= set(metrics):
        return _tables_of_variants(by_variant, tasks, published)
    return _tables_of_measures(by_variant, base, tasks, metrics, built_on, published)


def what_scores_are(
    by_variant: Mapping[str, Sequence[Compared]], metrics: Mapping[str, str], base: str
) -> list[str]:
    """Say what the numbers of tables are that compare with one base."""
    runs = [run for own in by_variant.values() for run in own]
    return [
        *_data_of_tasks(runs, measured_tasks(by_variant, metrics)),
        "In percent, but for perplexity: mean over seeds, each of pre-training, where there is any, and fine-tuning",
        f"alike. ± is their deviation. Differences are paired by seed with {base}, with the 95% interval of their",
        "mean (Student's t).",
        "The dev data chose the best epoch of each fine-tuning, which flatters all alike.",
        "",
    ]


def measured_tasks(by_variant: Mapping[str, Sequence[Compared]], metrics: Mapping[str, str]) -> list[str]:
    """Return the tasks that some run was fine-tuned for, in the order of the study."""
    return [name for name in metrics if any(name in run.tasks for own in by_variant.values() for run in own)]


def what_was_published(published: Published) -> list[str]:
    """Say what the paper found, with those of its rows that do not stand beside ours."""
    facts = published.facts
    lines = [
        f"Beside {published.name} of {SOURCE}. What it measured: {facts['measured_on']}.",
        f"What it found, in our words: {facts['says']}",
        "",
    ]
    if set(facts["rows"]) - set(published.rows.values()):
        lines += [*_published_table(facts["rows"]), ""]
    return lines


def _tables_of_variants(
    by_variant: Mapping[str, Sequence[Compared]], tasks: Sequence[str], published: Published
) -> list[ScoreTable]:
    """Return a table of all tasks for each variant; the first task is what others are compared with."""
    tables = []
    for variant, own in by_variant.items() if tasks else ():
        paper = {name: published.value(name, variant) for name in tasks}
        rows = score_rows({name: _by_seed(own, name) for name in tasks}, tasks[0], paper)
        tables.append(ScoreTable(variant, tasks[0], rows, notes=_collapsed(own, tasks)))
    return tables


def _tables_of_measures(
    by_variant: Mapping[str, Sequence[Compared]],
    base: str,
    tasks: Sequence[str],
    metrics: Mapping[str, str],
    built_on: Mapping[str, str],
    published: Published | None,
) -> list[ScoreTable]:
    """Return a table of all variants for each task, and before them for the perplexity where the paper has it."""
    runs = [run for own in by_variant.values() for run in own]
    has_perplexity = published is not None and PERPLEXITY in published.columns
    tables = []
    for name in [*([PERPLEXITY] if has_perplexity else []), *tasks]:
        scores = {variant: _by_seed(own, name) for variant, own in by_variant.items()}
        paper = {
            variant: None if published is None else published.value(variant, name) for variant in by_variant
        }
        majority = next((run.tasks[name].majority for run in runs if name in run.tasks), None)
        rows = [row for row in score_rows(scores, base, paper) if row.scores]
        title = f"{name} ({metrics[name]})" if name in metrics else "Perplexity of masked words"
        notes = [*_gains(scores, built_on), *_points(by_variant, base, name), *_collapsed(runs, [name])]
        tables.append(ScoreTable(title, base, rows, majority, notes))
    return tables


def _gains(scores: Mapping[str, Mapping[int, float]], built_on: Mapping[str, str]) -> list[str]:
    """Compare what stands on top of a variant with that variant."""
    lines = []
    for name, under in built_on.items():
        seeds = [seed for seed in scores.get(name, {}) if seed in scores.get(under, {})]
        if len(seeds) > 1:
            found = paired_difference(*([scores[each][seed] for seed in seeds] for each in (name, under)))
            lines += [f"{name} less {under}: {found.described(1)}.", ""]
    return lines


def _data_of_tasks(runs: Sequence[Compared], tasks: Sequence[str]) -> list[str]:
    """Say what each task was learned from and scored on: it need not be all that the paper had."""
    said = dict.fromkeys(
        f"- {name}: {run.tasks[name].data}"
        for name in tasks
        for run in runs
        if name in run.tasks and run.tasks[name].data
    )
    return [*said, ""] if said else []


def _noise(rows: Sequence[ScoreRow]) -> list[str]:
    """Say how far seeds of one variant lie apart, by all variants together."""
    varying = [row.scores.values() for row in rows if len(set(row.scores.values())) > 1]
    if not varying:
        return []
    degrees = [len(scores) - 1 for scores in varying]
    pooled = sum(map(operator.mul, degrees, map(variance, varying))) / sum(degrees)
    return [f"Deviation between seeds, pooled over the rows that vary: {math.sqrt(pooled):.2f}.", ""]


def _points(by_variant: Mapping[str, Sequence[Compared]], base: str, task: str) -> list[str]:
    """Return a table for each variant with its difference to the base at every point; empty where there is but one."""
    lines = []
    for variant, own in by_variant.items():
        counts = {len(run.tasks[task].points) for run in own if task in run.tasks}
        if variant == base or counts <= {1}:
            continue
        lines += [f"| steps | {base} | {variant} | less the base's |", "| --- | --- | --- | --- |"]
        for place in range(max(counts)):
            scores = {
                name: {
                    run.seed: run.tasks[task].points[place]
                    for run in by_variant.get(name, ())
                    if task in run.tasks
                }
                for name in (base, variant)
            }
            theirs, ours = (row.cells for row in score_rows(scores, base, {}))
            lines.append(f"| {own[0].steps_at(place, max(counts)):,} | {theirs[2]} | {ours[2]} | {ours[3]} |")
        lines.append("")
    return lines


def _collapsed(runs: Sequence[Compared], tasks: Sequence[str]) -> list[str]:
    """Name the fine-tunings that learned nothing: their scores say so of the settings, not of the encoder."""
    seeds: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        for name in tasks:
            collapses = run.tasks[name].collapses if name in run.tasks else ()
            for place, how in enumerate(collapses):
                if how is not None:
                    what = (
                        f"{name} after {run.steps_at(place, len(collapses)):,} steps"
                        if len(collapses) > 1
                        else name
                    )
                    seeds.setdefault((run.variant, what, how), []).append(str(run.seed))
    found = [
        f"{variant}, {what}, seed {' and '.join(own)} ({how})" for (variant, what, how), own in seeds.items()
    ]
    return [f"Learned nothing: {'; '.join(found)}.", ""] if found else []


def _published_table(rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = [[name, *(str(row.get(column, "-")) for column in columns)] for name, row in rows.items()]
    head = ["the paper's", *columns]
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells)]


def _by_seed(runs: Sequence[Compared], measure: str) -> dict[int, float]:
    return {run.seed: score for run in runs if (score := run.score(measure)) is not None}
