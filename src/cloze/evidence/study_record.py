"""The record of a study: its table, its curves, and all that they were made of."""

import io
import json
import math
import operator
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev, variance
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from cloze import artifacts
from cloze.evidence.differences import paired_difference
from cloze.evidence.study_published import SOURCE, Published, ScoreRow, as_table, score_rows

_MASKED = "masked_lm_loss"
_PAIRS = "next_sentence_accuracy"
_PERPLEXITY = "perplexity"
"""A measure beside the tasks: that of masked words, on held-out text read as pairs."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """What an encoder reached on a task."""

    points: tuple[float, ...]
    """In percent, at each point of its pre-training; the last is its end."""
    collapses: tuple[str | None, ...] = ()
    """How the answers show that nothing was learned, at the points where they do."""
    majority: float | None = None
    """What always saying the most frequent class reaches, where that is known."""
    data: str = ""
    """What it was learned from and scored on."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What one finished run shows."""

    variant: str
    seed: int
    parameters: int | None = None
    """Of its encoder; None of one that is made of others."""
    data_sha256: str | None = None
    """Of the manifest of the data set that it was pre-trained on."""
    held_out_as: str | None = None
    """How the instances of its curve were made: curves of one making compare. None: it was not pre-trained."""
    seconds: tuple[float, ...] = ()
    """When it was evaluated."""
    masked_lm_losses: tuple[float, ...] = ()
    """What was found then, in nats."""
    steps: int | None = None
    tokens: int | None = None
    pairs: dict[str, float] = field(default_factory=dict)
    """Measures of its end on held-out text read as pairs, the same for all runs that name hidden words."""
    segments: dict[str, float] = field(default_factory=dict)
    """The same on that text read as single segments."""
    neighbours: dict[str, float] = field(default_factory=dict)
    """Of a run that looks one way, in the place of these: how well it names the next piece, or the one before."""
    tasks: dict[str, TaskScores] = field(default_factory=dict)
    environment: dict[str, Any] | None = None

    def seconds_to(self, loss: float) -> float | None:
        """Return when the curve first came down to a loss, on the line between evaluations; None if never."""
        before = None
        for seconds, value in zip(self.seconds, self.masked_lm_losses, strict=True):
            if value <= loss:
                if before is None:
                    return seconds
                share = (before[1] - loss) / (before[1] - value)
                return before[0] + share * (seconds - before[0])
            before = (seconds, value)
        return None

    def steps_at(self, place: int, count: int) -> int:
        """Return after how many steps it was fine-tuned at one of so many points, counted from 0."""
        return (self.steps or 0) * (place + 1) // count

    def score(self, measure: str) -> float | None:
        """Return what was reached at the end: on a task, or the perplexity; None where that was not measured."""
        if measure == _PERPLEXITY:
            return math.exp(self.pairs[_MASKED]) if self.pairs else None
        return self.tasks[measure].points[-1] if measure in self.tasks else None


def write_study_record(
    title: str,
    base: str,
    study: str,
    runs: Sequence[Compared],
    directory: Path,
    *,
    metrics: Mapping[str, str] = MappingProxyType({}),
    built_on: Mapping[str, str] = MappingProxyType({}),
    published: Published | None = None,
) -> None:
    """Write the record of the runs that are finished.

    Args:
        title: of the page.
        base: the variant that the others are compared with.
        study: what was run, as TOML.
        runs: in the order in which they were made.
        directory: of the record; one that is there is replaced.
        metrics: by task, what its scores are.
        built_on: by variant that is another with something on top, that other.
        published: where the paper has the same.
    """
    by_variant: dict[str, list[Compared]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    trained = {name: own for name, own in by_variant.items() if own[0].held_out_as is not None}
    rows = [_row(own, trained[base]) for own in trained.values() if base in trained]
    scores = _score_sections(by_variant, base, metrics, built_on, published)
    instances = trained[base][0].held_out_as if base in trained else None
    drawn = {
        name: own
        for name, own in trained.items()
        if own[0].held_out_as == instances and not own[0].neighbours
    }
    has_points = any(len(scores.points) > 1 for run in runs for scores in run.tasks.values())
    with artifacts.write_directory(directory, kind="record", overwrite=True) as temporary:
        lines = [f"# {title}", "", *scores]
        if has_points:
            lines += ["![Scores over the steps of pre-training](quality.svg)", ""]
            (temporary / "quality.svg").write_text(_quality(trained, metrics), "utf-8")
        if rows:
            lines += [*_losses(base, rows), ""]
        if drawn:
            lines += ["![Masked-word loss on held-out text over time, mean over seeds](curves.svg)", ""]
            (temporary / "curves.svg").write_text(_curves(drawn, base), "utf-8")
        lines.append(_made_with(runs))
        (temporary / "README.md").write_text("\n".join(lines) + "\n", "utf-8")
        (temporary / "study.toml").write_text(study, "utf-8")
        results = {"rows": rows, "runs": [asdict(run) for run in runs]}
        (temporary / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def _row(own: Sequence[Compared], base: Sequence[Compared]) -> dict[str, Any]:
    """Compare a variant with the base, over the seeds that both have."""
    theirs = {run.seed: run for run in base}
    pairs = [(run, theirs[run.seed]) for run in own if run.seed in theirs]
    row: dict[str, Any] = {"variant": own[0].variant, "seeds": len(own), "parameters": own[0].parameters}
    row["steps"], row["tokens"] = fmean(run.steps or 0 for run in own), fmean(run.tokens or 0 for run in own)
    row["seconds"] = fmean(run.seconds[-1] for run in own)
    for kind in ("pairs", "segments", "neighbours"):
        losses = [getattr(run, kind)[_MASKED] for run in own if getattr(run, kind)]
        if not losses:
            continue
        row[kind] = {"mean": fmean(losses), "deviation": stdev(losses) if len(losses) > 1 else None}
        if own is not base and len(pairs) > 1 and getattr(base[0], kind):
            row[kind]["difference"] = asdict(
                paired_difference(
                    *([getattr(run, kind)[_MASKED] for run in side] for side in zip(*pairs, strict=True))
                )
            )
    if all(_PAIRS in run.pairs for run in own):
        row[_PAIRS] = fmean(run.pairs[_PAIRS] for run in own)
    if pairs and all(ours.held_out_as == their.held_out_as for ours, their in pairs):
        shares = [_share(ours, their) for ours, their in pairs]
        row["share_of_time"] = (
            None if None in shares else fmean(share for share in shares if share is not None)
        )
        row["shares_of_time"] = shares
    return row


def _share(ours: Compared, base: Compared) -> float | None:
    """Return after what share of the base's time a run had come to where the base ended; None if it never did."""
    seconds = ours.seconds_to(base.masked_lm_losses[-1])
    return None if seconds is None else seconds / base.seconds[-1]


_HEAD = (
    "variant",
    "seeds",
    "million parameters",
    "steps",
    "minutes",
    "million tokens",
    "masked-word loss, pairs",
    "less the base's",
    "masked-word loss, segments",
    "less the base's",
    "next-sentence accuracy",
    "time to the base's end",
)


def _losses(base: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of what pre-training reached, and what its numbers are."""
    cells = [
        [
            row["variant"],
            str(row["seeds"]),
            "-" if row["parameters"] is None else f"{row['parameters'] / 1e6:.3g}",
            f"{row['steps']:,.0f}",
            f"{row['seconds'] / 60:.1f}",
            f"{row['tokens'] / 1e6:.1f}",
            *(cell for kind in ("pairs", "segments") for cell in _loss_cells(row.get(kind))),
            f"{row[_PAIRS]:.3f}" if _PAIRS in row else "-",
            _time_cell(row),
        ]
        for row in rows
    ]
    one_way = [f"{row['variant']} {row['neighbours']['mean']:.3f}" for row in rows if "neighbours" in row]
    return [
        *(f"| {' | '.join(line)} |" for line in (_HEAD, ["---"] * len(_HEAD), *cells)),
        "",
        "Losses are in nats a hidden piece, on the held-out documents, with what each run ended with; the",
        "same instances for all, masked as in the paper, read as pairs of segments and as one segment a",
        "sequence. ± is the deviation between seeds. Differences are paired by seed with",
        f"{base}, with the 95% interval of their mean (Student's t). The last column is when the curve of",
        f"a run first came down to the loss that {base} of the same seed ended with, as a share of its",
        'time, in the mean over seeds; never if some seed did not come there, "-" where the curve was',
        "measured on other instances. What was not pre-trained on pairs never saw a second segment, and",
        "what was on them saw few sequences of one: each of the two columns is at home with its own.",
        *(
            [
                "What looks one way names the next piece, or the one before, at every place, which is another",
                f"question: its loss there, in nats a piece, is no number of this table ({', '.join(one_way)}).",
            ]
            if one_way
            else []
        ),
    ]


def _made_with(runs: Sequence[Compared]) -> str:
    said = []
    if (data := next((run.data_sha256 for run in runs if run.data_sha256 is not None), None)) is not None:
        said.append(f"Data set: that whose manifest has the SHA-256 {data}.")
    if (first := next((run.environment for run in runs if run.environment is not None), None)) is not None:
        said.append(
            f"Processor: {first['processor']}, threads: {first['threads']}, {first['compute_dtype']}, torch "
            f"{first['versions']['torch']}."
        )
    said.append("`study.toml` is what was run, `results.json` every figure by seed.")
    return "\n".join(said)


def _score_sections(
    by_variant: Mapping[str, Sequence[Compared]],
    base: str,
    metrics: Mapping[str, str],
    built_on: Mapping[str, str],
    published: Published | None,
) -> list[str]:
    """Return a table for each task that was measured, or where the paper's rows are tasks, for each variant."""
    runs = [run for own in by_variant.values() for run in own]
    tasks = [name for name in metrics if any(name in run.tasks for run in runs)]
    lines = [] if published is None else _beside(published)
    if published is not None and published.rows and set(published.rows) <= set(metrics):
        compared = tasks[0] if tasks else base
        tables = _tables_of_variants(by_variant, tasks, published)
    else:
        compared = base
        tables = _tables_of_measures(by_variant, base, tasks, metrics, built_on, published)
    if not tables:
        return lines
    return [
        *lines,
        *tables,
        *_data_of_tasks(runs, tasks),
        "In percent, but for perplexity: mean over seeds, each of pre-training, where there is any, and fine-tuning",
        f"alike. ± is their deviation. Differences are paired by seed with {compared}, with the 95% interval of their",
        "mean (Student's t).",
        "The dev data chose the best epoch of each fine-tuning, which flatters all alike.",
        "",
    ]


def _beside(published: Published) -> list[str]:
    """Say what the paper found, with those of its rows that do not stand beside ours."""
    facts = published.facts
    lines = [
        f"Beside {published.name} of {SOURCE}. What it measured: {facts['measured_on']}.",
        "What it says:",
        "",
        f"> {facts['says']}",
        "",
    ]
    if set(facts["rows"]) - set(published.rows.values()):
        lines += [*_published_table(facts["rows"]), ""]
    return lines


def _tables_of_variants(
    by_variant: Mapping[str, Sequence[Compared]], tasks: Sequence[str], published: Published
) -> list[str]:
    """Return a table of all tasks for each variant; the first task is what others are compared with."""
    lines = []
    for variant, own in by_variant.items() if tasks else ():
        paper = {name: published.value(name, variant) for name in tasks}
        rows = score_rows({name: _by_seed(own, name) for name in tasks}, tasks[0], paper)
        lines += [f"## {variant}", "", *as_table(rows), "", *_noise(rows), *_collapsed(own, tasks)]
    return lines


def _tables_of_measures(
    by_variant: Mapping[str, Sequence[Compared]],
    base: str,
    tasks: Sequence[str],
    metrics: Mapping[str, str],
    built_on: Mapping[str, str],
    published: Published | None,
) -> list[str]:
    """Return a table of all variants for each task, and before them for the perplexity where the paper has it."""
    runs = [run for own in by_variant.values() for run in own]
    has_perplexity = published is not None and _PERPLEXITY in published.columns
    lines = []
    for name in [*([_PERPLEXITY] if has_perplexity else []), *tasks]:
        scores = {variant: _by_seed(own, name) for variant, own in by_variant.items()}
        paper = {
            variant: None if published is None else published.value(variant, name) for variant in by_variant
        }
        majority = next((run.tasks[name].majority for run in runs if name in run.tasks), None)
        rows = [row for row in score_rows(scores, base, paper) if row.scores]
        heading = f"## {name} ({metrics[name]})" if name in metrics else "## Perplexity of masked words"
        lines += [heading, "", *as_table(rows, majority=majority), ""]
        lines += [*_noise(rows), *_gains(scores, built_on)]
        lines += [*_points(by_variant, base, name), *_collapsed(runs, [name])]
    return lines


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
    data = {name: next(run.tasks[name].data for run in runs if name in run.tasks) for name in tasks}
    return [*(f"- {name}: {said}" for name, said in data.items() if said), ""] if any(data.values()) else []


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


def _loss_cells(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return ["-", "-"]
    deviation = "" if found["deviation"] is None else f" ± {found['deviation']:.3f}"
    difference = found.get("difference")
    if difference is None:
        return [f"{found['mean']:.3f}{deviation}", "-"]
    interval = f"{difference['mean']:+.3f} ({difference['low']:+.3f} to {difference['high']:+.3f})"
    return [f"{found['mean']:.3f}{deviation}", interval]


def _time_cell(row: Mapping[str, Any]) -> str:
    if "share_of_time" not in row:
        return "-"
    return "never" if row["share_of_time"] is None else f"{row['share_of_time']:.2f}"


def _curves(by_variant: Mapping[str, Sequence[Compared]], base: str) -> str:
    """Draw the mean over seeds of every variant's curve; the same runs give the same bytes."""
    with _style():
        figure = Figure(figsize=(9.4, 5.0), layout="constrained")
        axes = figure.add_subplot()
        for name, runs in by_variant.items():
            count = min(len(run.seconds) for run in runs)
            minutes = np.mean([run.seconds[:count] for run in runs], axis=0) / 60
            losses = np.mean([run.masked_lm_losses[:count] for run in runs], axis=0)
            style = {"color": "black", "linewidth": 2.0} if name == base else {"linewidth": 1.2}
            axes.plot(minutes, losses, label=name, **style)
        axes.set_xlabel("minutes")
        axes.set_ylabel("held-out masked-word loss, nats")
        axes.grid(axis="y", linewidth=0.4)
        axes.legend(frameon=False)
        return _as_svg(figure)


def _quality(by_variant: Mapping[str, Sequence[Compared]], metrics: Mapping[str, str]) -> str:
    """Draw every task's score over the steps of pre-training: each seed, and the mean over seeds."""
    names = [name for name in metrics if any(name in run.tasks for own in by_variant.values() for run in own)]
    with _style():
        figure = Figure(figsize=(9.4, 4.0 * len(names)), layout="constrained")
        for number, name in enumerate(names, 1):
            axes = figure.add_subplot(len(names), 1, number)
            for place, (variant, runs) in enumerate(by_variant.items()):
                points = np.array([run.tasks[name].points for run in runs if name in run.tasks])
                if not len(points):
                    continue
                steps = [runs[0].steps_at(place, points.shape[1]) for place in range(points.shape[1])]
                axes.plot(steps, points.mean(0), f"C{place}-o", label=variant)
                axes.plot(steps, points.T, f"C{place}.", markersize=3.0)
            axes.set_xlabel("steps of pre-training")
            axes.set_ylabel(f"{name} ({metrics[name]}), percent")
            axes.grid(axis="y", linewidth=0.4)
            axes.legend(frameon=False)
        return _as_svg(figure)


def _style() -> AbstractContextManager[None]:
    return rc_context({"svg.fonttype": "none", "svg.hashsalt": "cloze", "font.size": 9.0})


def _as_svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None})
    return stream.getvalue()
