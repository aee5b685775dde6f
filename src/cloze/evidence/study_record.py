"""The record of a study: its table, its curves, and all that they were made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Any

from cloze import artifacts
from cloze.evidence.differences import PairedDifference, paired_difference
from cloze.evidence.study_pictures import (
    Picture,
    differences_to_base,
    loss_curves,
    score_curves,
    scores_over_perplexity,
)
from cloze.evidence.study_published import Published
from cloze.evidence.study_results import MASKED, NEXT_SENTENCE, PERPLEXITY, Compared
from cloze.evidence.study_scores import ScoreTable, score_tables, what_scores_are, what_was_published


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
    tables = score_tables(by_variant, base, metrics, built_on, published)
    instances = trained[base][0].held_out_as if base in trained else None
    drawn = {
        name: own
        for name, own in trained.items()
        if own[0].held_out_as == instances and not own[0].neighbours
    }
    score_picture = _score_picture(tables, by_variant, metrics, published)
    loss_picture = loss_curves(drawn, base) if drawn else None
    lines = [f"# {title}", ""]
    if published is not None:
        lines += what_was_published(published)
    for table in tables:
        lines += table.lines
    if tables:
        lines += what_scores_are(by_variant, metrics, tables[0].base)
    if score_picture is not None:
        lines += score_picture.lines
    if rows:
        lines += [*_losses(base, rows), ""]
    if loss_picture is not None:
        lines += loss_picture.lines
    lines.append(_made_with(runs))
    with artifacts.write_directory(directory, kind="record", overwrite=True) as temporary:
        (temporary / "README.md").write_text("\n".join(lines) + "\n", "utf-8")
        for picture in (score_picture, loss_picture):
            if picture is not None:
                (temporary / picture.file).write_text(picture.svg, "utf-8")
        (temporary / "study.toml").write_text(study, "utf-8")
        results = {"rows": rows, "runs": [asdict(run) for run in runs]}
        (temporary / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def _score_picture(
    tables: Sequence[ScoreTable],
    by_variant: Mapping[str, Sequence[Compared]],
    metrics: Mapping[str, str],
    published: Published | None,
) -> Picture | None:
    """Draw scores over steps or, where no row is the paper's, perplexities; else their differences, if any."""
    scores = [scores for own in by_variant.values() for run in own for scores in run.tasks.values()]
    if any(len(each.points) > 1 for each in scores):
        return score_curves(by_variant, metrics)
    if scores and published is not None and PERPLEXITY in published.columns and not published.rows:
        return scores_over_perplexity(by_variant, metrics, published)
    if any(row.difference for table in tables for row in table.rows):
        return differences_to_base(tables)
    return None


def _row(own: Sequence[Compared], base: Sequence[Compared]) -> dict[str, Any]:
    """Compare a variant with the base, over the seeds that both have."""
    theirs = {run.seed: run for run in base}
    pairs = [(run, theirs[run.seed]) for run in own if run.seed in theirs]
    row: dict[str, Any] = {"variant": own[0].variant, "seeds": len(own), "parameters": own[0].parameters}
    row["steps"], row["tokens"] = fmean(run.steps or 0 for run in own), fmean(run.tokens or 0 for run in own)
    row["seconds"] = fmean(run.seconds[-1] for run in own)
    for kind in ("pairs", "segments", "neighbours"):
        losses = [getattr(run, kind)[MASKED] for run in own if getattr(run, kind)]
        if not losses:
            continue
        row[kind] = {"mean": fmean(losses), "deviation": stdev(losses) if len(losses) > 1 else None}
        alike = all(ours.max_seq_length == their.max_seq_length for ours, their in pairs)
        if own is not base and len(pairs) > 1 and getattr(base[0], kind) and alike:
            row[kind]["difference"] = asdict(
                paired_difference(
                    *([getattr(run, kind)[MASKED] for run in side] for side in zip(*pairs, strict=True))
                )
            )
    if all(NEXT_SENTENCE in run.pairs for run in own):
        row[NEXT_SENTENCE] = fmean(run.pairs[NEXT_SENTENCE] for run in own)
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
            f"{row[NEXT_SENTENCE]:.3f}" if NEXT_SENTENCE in row else "-",
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
        said.append(f"Data set: SHA-256 {data}.")
    made: dict[str, list[str]] = {}
    formats: dict[int, set[str]] = {}
    for run in runs:
        if (found := run.environment) is not None:
            device = "" if found["device"] == "cpu" else f"{found['device']}, "
            where = f"Processor: {device}{found['processor']}, threads: {found['threads']}, "
            where += f"{found['compute_dtype']}, torch {found['versions']['torch']}"
            made.setdefault(where, []).append(f"{run.variant} {run.seed}")
            formats.setdefault(run.seed, set()).add(found["compute_dtype"])
    for where, own in made.items():
        runs_there = f" ({', '.join(own)})" if len(made) > 1 else ""
        said.append(f"{where}{runs_there}.")
    if mixed := [str(seed) for seed, found in formats.items() if len(found) > 1]:
        said.append(f"Runs of seed {' and '.join(mixed)} differ in their number format, too.")
    said.append("`study.toml` is what was run, `results.json` every figure by seed.")
    return "\n".join(said)


def _loss_cells(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return ["-", "-"]
    deviation = "" if found["deviation"] is None else f" ± {found['deviation']:.3f}"
    difference = found.get("difference")
    if difference is None:
        return [f"{found['mean']:.3f}{deviation}", "-"]
    return [f"{found['mean']:.3f}{deviation}", PairedDifference(**difference).described(3)]


def _time_cell(row: Mapping[str, Any]) -> str:
    if "share_of_time" not in row:
        return "-"
    return "never" if row["share_of_time"] is None else f"{row['share_of_time']:.2f}"
