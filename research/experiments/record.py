"""Write the record of a study: a page with its tables and plots, and every figure as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from cloze import artifacts
from cloze.config import to_toml
from experiments.markdown_tables import markdown_table
from experiments.plots import Plot, plot_differences, plot_losses, plot_scores, plot_scores_over_perplexity
from experiments.results import (
    NEIGHBORS,
    NEXT_SENTENCE,
    PERPLEXITY,
    ByVariant,
    RunResult,
    describe_machine,
    group_by_variant,
)
from experiments.score_tables import ScoreTable, describe_published, describe_scores, score_rows, score_tables
from experiments.study import Study

_COLUMNS = (
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


def write_study_record(study: Study, runs: Sequence[RunResult], directory: Path) -> None:
    """Write the record of the finished runs of a study; an existing one is replaced."""
    by_variant, base = group_by_variant(runs), study.base
    trained = {name: group for name, group in by_variant.items() if group[0].held_out_as is not None}
    comparisons = [_compare(name, trained, base) for name in trained if base in trained]
    tables = score_tables(study, by_variant)
    instances = trained[base][0].held_out_as if base in trained else None
    comparable = {
        name: group
        for name, group in trained.items()
        if group[0].held_out_as == instances and not group[0].neighbors
    }
    score_plot = _plot_scores(study, tables, by_variant)
    loss_plot = plot_losses(comparable, base) if comparable else None
    lines = [f"# {study.title}", ""]
    if study.published is not None:
        lines += describe_published(study.published)
    for table in tables:
        lines += table.lines
    if tables:
        lines += describe_scores(runs, list(study.tasks), tables[0].base)
    if score_plot is not None:
        lines += score_plot.lines
    if comparisons:
        lines += [*_describe_losses(base, comparisons), ""]
    if loss_plot is not None:
        lines += loss_plot.lines
    lines.append(_describe_environment(runs))
    with artifacts.write_directory(directory, kind="record", overwrite=True) as temporary:
        (temporary / "README.md").write_text("\n".join(lines) + "\n", "utf-8")
        for plot in (score_plot, loss_plot):
            if plot is not None:
                (temporary / plot.file).write_text(plot.svg, "utf-8")
        (temporary / "study.toml").write_text(to_toml(study), "utf-8")
        results = {"rows": [row for row, _ in comparisons], "runs": list(map(asdict, runs))}
        (temporary / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def _plot_scores(study: Study, tables: Sequence[ScoreTable], by_variant: ByVariant) -> Plot | None:
    """Plot scores over steps or, if the paper has only columns, over perplexity; else differences, if any."""
    published, metrics = study.published, study.metrics
    scores = [scores for group in by_variant.values() for run in group for scores in run.tasks.values()]
    if any(len(task_scores.points) > 1 for task_scores in scores):
        return plot_scores(by_variant, metrics)
    if scores and published is not None and PERPLEXITY in published.columns and not published.rows:
        return plot_scores_over_perplexity(by_variant, metrics, published)
    if any(row.difference for table in tables for row in table.rows):
        return plot_differences(tables)
    return None


def _compare(
    name: str, trained: Mapping[str, list[RunResult]], base: str
) -> tuple[dict[str, Any], list[str]]:
    """Compare a variant with the base, over the seeds that both have; return a row of results.json and of the page."""
    group, theirs = trained[name], {run.seed: run for run in trained[base]}
    pairs = [(run, theirs[run.seed]) for run in group if run.seed in theirs]
    row: dict[str, Any] = {
        "variant": name,
        "seeds": len(group),
        "parameters": group[0].parameters,
        "steps": fmean(run.steps or 0 for run in group),
        "tokens": fmean(run.tokens or 0 for run in group),
        "seconds": fmean(run.seconds[-1] for run in group),
    }
    cells = [
        name,
        str(len(group)),
        "-" if group[0].parameters is None else f"{group[0].parameters / 1e6:.3g}",
        f"{row['steps']:,.0f}",
        f"{row['seconds'] / 60:.1f}",
        f"{row['tokens'] / 1e6:.1f}",
    ]
    is_alike = all(ours.max_seq_length == their.max_seq_length for ours, their in pairs)
    for kind in ("pairs", "segments", NEIGHBORS):
        losses = {
            variant: {run.seed: loss for run in trained[variant] if (loss := run.loss(kind)) is not None}
            for variant in (base, name)
        }
        *_, comparison = score_rows(losses, base, {})
        if not is_alike:
            comparison = replace(comparison, difference=None)
        if kind != NEIGHBORS:
            cells += comparison.cells(3)
        if values := losses[name].values():
            row[kind] = {"mean": fmean(values), "deviation": stdev(values) if len(values) > 1 else None}
            if comparison.difference is not None:
                row[kind]["difference"] = asdict(comparison.difference)
    has_next_sentence = all(NEXT_SENTENCE in run.pairs for run in group)
    if has_next_sentence:
        row[NEXT_SENTENCE] = fmean(run.pairs[NEXT_SENTENCE] for run in group)
    cells.append(f"{row[NEXT_SENTENCE]:.3f}" if has_next_sentence else "-")
    if pairs and all(ours.held_out_as == their.held_out_as for ours, their in pairs):
        # the share of the base's time after which a run reached the base's final loss; None if never
        reached = [(ours.seconds_to(their.masked_lm_losses[-1]), their.seconds[-1]) for ours, their in pairs]
        shares = [None if seconds is None else seconds / end for seconds, end in reached]
        row["share_of_time"] = (
            None if None in shares else fmean(share for share in shares if share is not None)
        )
        row["shares_of_time"] = shares
        cells.append("never" if row["share_of_time"] is None else f"{row['share_of_time']:.2f}")
    else:
        cells.append("-")
    return row, cells


def _describe_losses(base: str, comparisons: Sequence[tuple[Mapping[str, Any], list[str]]]) -> list[str]:
    """Return the table of pre-training, and an explanation of its numbers."""
    lines = [
        markdown_table(_COLUMNS, [cells for _, cells in comparisons]),
        "",
        "Losses are in nats per masked token, on the held-out documents, at the end of each run; the same",
        "instances for all, masked as in the paper, read as pairs of segments and as single segments.",
        "± is the deviation between seeds. Differences are paired by seed with",
        f"{base}, with the 95% interval of their mean (Student's t). The last column is the time at which the",
        f"curve of a run first reached the final loss of {base} with the same seed, as a share of its",
        'time, averaged over seeds; never if a seed did not reach it, "-" if the curve was measured on',
        "other instances. Variants that were not pre-trained on pairs never saw a second segment, and those",
        "that were saw few single segments: each of the two columns favors its own kind of training.",
    ]
    causal = [f"{row['variant']} {row[NEIGHBORS]['mean']:.3f}" for row, _ in comparisons if NEIGHBORS in row]
    if causal:
        lines += [
            "A causal encoder predicts the next token, or the one before, at every position, which is another",
            f"question: its loss there, in nats per token, is not in this table ({', '.join(causal)}).",
        ]
    return lines


def _describe_environment(runs: Sequence[RunResult]) -> str:
    """Return the data and the machines of the runs."""
    lines = []
    if (data := next((run.data_sha256 for run in runs if run.data_sha256 is not None), None)) is not None:
        lines.append(f"Data set: SHA-256 {data}.")
    machines: dict[str, list[str]] = {}
    dtypes: dict[int, set[str]] = {}
    for run in runs:
        if (environment := run.environment) is not None:
            machines.setdefault(describe_machine(environment), []).append(f"{run.variant} {run.seed}")
            dtypes.setdefault(run.seed, set()).add(environment["compute_dtype"])
    for machine, names in machines.items():
        runs_there = f" ({', '.join(names)})" if len(machines) > 1 else ""
        lines.append(f"{machine}{runs_there}.")
    if mixed := [str(seed) for seed, group in dtypes.items() if len(group) > 1]:
        lines.append(f"Runs of seed {' and '.join(mixed)} differ in their number format, too.")
    lines.append("`study.toml` is the study, `results.json` has every figure by seed.")
    return "\n".join(lines)
