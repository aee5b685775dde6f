"""The record of a study: its table, its curves, and all that they were made of."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from cloze import artifacts
from cloze.evidence.differences import paired_difference

_MASKED = "masked_lm_loss"
_PAIRS = "next_sentence_accuracy"


@dataclass(frozen=True, slots=True)
class Compared:
    """What one finished run shows."""

    variant: str
    seed: int
    held_out_as: str
    """How the instances of its curve were made: curves of one making compare."""
    seconds: tuple[float, ...]
    """When it was evaluated."""
    masked_lm_losses: tuple[float, ...]
    """What was found then, in nats."""
    steps: int
    tokens: int
    pairs: dict[str, float]
    """Measures of its end on held-out text read as pairs, the same for all runs."""
    segments: dict[str, float]
    """The same on that text read as single segments."""
    environment: dict[str, Any]

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


def write_study_record(title: str, base: str, study: str, runs: Sequence[Compared], directory: Path) -> None:
    """Write the record of the runs that are finished.

    Args:
        title: of the page.
        base: the variant that the others are compared with.
        study: what was run, as TOML.
        runs: in the order in which they were made.
        directory: of the record; one that is there is replaced.
    """
    by_variant: dict[str, list[Compared]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    rows = [_row(own, by_variant[base]) for own in by_variant.values() if base in by_variant]
    with artifacts.write_directory(directory, kind="record", overwrite=True) as temporary:
        (temporary / "README.md").write_text(_page(title, base, rows, runs), "utf-8")
        (temporary / "curves.svg").write_text(_curves(by_variant, base), "utf-8")
        (temporary / "study.toml").write_text(study, "utf-8")
        results = {"rows": rows, "runs": [asdict(run) for run in runs]}
        (temporary / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def _row(own: Sequence[Compared], base: Sequence[Compared]) -> dict[str, Any]:
    """Compare a variant with the base, over the seeds that both have."""
    theirs = {run.seed: run for run in base}
    pairs = [(run, theirs[run.seed]) for run in own if run.seed in theirs]
    row: dict[str, Any] = {"variant": own[0].variant, "seeds": len(own)}
    row["steps"], row["tokens"] = fmean(run.steps for run in own), fmean(run.tokens for run in own)
    for kind in ("pairs", "segments"):
        losses = [getattr(run, kind)[_MASKED] for run in own]
        row[kind] = {"mean": fmean(losses), "deviation": stdev(losses) if len(losses) > 1 else None}
        if own is not base and len(pairs) > 1:
            row[kind]["difference"] = asdict(
                paired_difference(
                    *([getattr(run, kind)[_MASKED] for run in side] for side in zip(*pairs, strict=True))
                )
            )
    if all(_PAIRS in run.pairs for run in own):
        row[_PAIRS] = fmean(run.pairs[_PAIRS] for run in own)
    if all(ours.held_out_as == their.held_out_as for ours, their in pairs):
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
    "steps",
    "million tokens",
    "masked-word loss, pairs",
    "less the base's",
    "masked-word loss, segments",
    "less the base's",
    "next-sentence accuracy",
    "time to the base's end",
)


def _page(title: str, base: str, rows: Sequence[Mapping[str, Any]], runs: Sequence[Compared]) -> str:
    cells = [
        [
            row["variant"],
            str(row["seeds"]),
            f"{row['steps']:,.0f}",
            f"{row['tokens'] / 1e6:.1f}",
            *(cell for kind in ("pairs", "segments") for cell in _loss_cells(row[kind])),
            f"{row[_PAIRS]:.3f}" if _PAIRS in row else "-",
            _time_cell(row),
        ]
        for row in rows
    ]
    table = [f"| {' | '.join(line)} |" for line in (_HEAD, ["---"] * len(_HEAD), *cells)]
    first = runs[0].environment
    return (
        "\n".join(
            [
                f"# {title}",
                "",
                *table,
                "",
                "Losses are in nats a hidden piece, on the held-out documents, with what each run ended with; the",
                "same instances for all, masked as in the paper, read as pairs of segments and as one segment a",
                "sequence. ± is the deviation between seeds. Differences are paired by seed with",
                f"{base}, with the 95% interval of their mean (Student's t). The last column is when the curve of",
                f"a run first came down to the loss that {base} of the same seed ended with, as a share of its",
                'time, in the mean over seeds; never if some seed did not come there, "-" where the curve was',
                "measured on other instances.",
                "",
                "![Masked-word loss on held-out text over time, mean over seeds](curves.svg)",
                "",
                f"Processor: {first['processor']}, threads: {first['threads']}, {first['compute_dtype']}, torch "
                f"{first['versions']['torch']}. `study.toml` is what was run, `results.json` every figure by seed.",
            ]
        )
        + "\n"
    )


def _loss_cells(found: Mapping[str, Any]) -> list[str]:
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
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "cloze", "font.size": 9.0}):
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
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None})
    return stream.getvalue()
