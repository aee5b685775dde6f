"""The report of a run: a page with its figures, curves, settings and machine."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from cloze import artifacts
from cloze.artifacts import RUN_CONFIG
from cloze.config import read_toml
from cloze.errors import InputError
from cloze.evidence.curves import Curve, Measure, draw, label_of, measures_of
from cloze.evidence.page import card, figure, format_value, page, sections_of, table, words_table
from cloze.progress import clock
from cloze.tasks.run import SCORES
from cloze.tasks.trials import TRIALS_FOLDER
from cloze.training.environment import ENVIRONMENT
from cloze.training.metrics_log import METRICS, read_metrics

REPORT = "report.html"

_MOST_TABLE_ROWS = 40
_NOT_RESULTS = ("learning_rate", "gradient_norm")


def write_report(run: Path, *, output: Path | None = None, overwrite: bool = False) -> Path:
    """Write what a run was and how it went into one HTML file; the same run gives the same bytes.

    Args:
        run: directory of a run, pre-training or fine-tuning, finished or not.
        output: the file; None is `report.html` in the run, which is always written anew.
        overwrite: replace `output` where it exists.

    Raises:
        InputError: `run` is no run, its metrics are damaged, or `output` exists.
        RunError: the file cannot be written.
    """
    run = Path(run)
    rows = read_run_metrics(run)
    if output is not None:
        artifacts.refuse_existing(output, overwrite=overwrite, directory=False)
    path = run / REPORT if output is None else output
    artifacts.write_text(path, _page(run, rows))
    return path


def read_run_metrics(run: Path) -> list[dict[str, Any]]:
    """Read the rows of a run's metrics, each with a kind and a step.

    Raises:
        InputError: `run` is no run, or a row is damaged.
    """
    if not run.is_dir():
        raise InputError("no such directory", where=run)
    if (trials := run / TRIALS_FOLDER).is_dir():
        one = next(iter(sorted(trials.iterdir())), trials)
        raise InputError("holds several runs", where=run, remedy=f"Name one of them, as in {one}")
    return read_metrics(run)


def _page(run: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    settings = read_toml(run / RUN_CONFIG) if (run / RUN_CONFIG).is_file() else {}
    measures = measures_of(rows)
    body = "".join(
        (
            _scores(run),
            _figures(measures, rows),
            _tables(rows),
            _skipped(rows),
            _settings(settings),
            _machine(run),
        )
    )
    footer = (
        f"Written by <code>cloze report</code> from {METRICS}, {RUN_CONFIG} and {ENVIRONMENT} of the run."
    )
    return page(
        name=run.resolve().name,
        kind=_kind_of(settings),
        extent=_extent(rows),
        tiles=_tiles(measures),
        body=body,
        footer=footer,
    )


def _kind_of(settings: Mapping[str, Any]) -> str:
    if "task" in settings:
        return f"fine-tuning run: {settings['task']}"
    return "pre-training run" if "masking" in settings else "run"


def _extent(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how long the run was, or has been so far."""
    if not rows:
        return "Nothing was measured yet."
    parts = [f"{rows[-1]['step']:,} optimizer steps"]
    for name, write in (("tokens", "{:,} tokens".format), ("seconds", clock)):
        if (last := next((row[name] for row in reversed(rows) if name in row), None)) is not None:
            parts.append(write(last))
    return " · ".join(parts)


def _tiles(measures: Sequence[Measure]) -> list[tuple[str, str, str]]:
    """Return the last value of every result, and what stands beside it: its baseline, where there is one."""
    tiles = []
    for measure in measures:
        if measure.name in _NOT_RESULTS:
            continue
        held_out = measure.held_out.last is not None
        if held_out:
            last, beside = measure.held_out.last, "held-out"
        elif measure.name == "tokens_per_second" and measure.train.values:
            last, beside = median(measure.train.values), "training, median"
        else:
            last, beside = measure.train.last, "training, at the end"
        if last is None:
            continue
        if measure.baseline.last is not None:
            beside += f"; {measure.baseline_name} {format_value(measure.baseline.last)}"
        tiles.append((measure.label, format_value(last), beside))
    return tiles


def _scores(run: Path) -> str:
    scores = _read_json(run / SCORES)
    if scores is None:
        return ""
    pairs = [(label_of(name), format_value(value)) for name, value in scores.items()]
    return f"<h2>Scores</h2>\n{card(words_table('', pairs))}"


def _figures(measures: Sequence[Measure], rows: Sequence[Mapping[str, Any]]) -> str:
    if not measures:
        return (
            '<h2>Curves</h2>\n<p class="note">No measures yet: they come with the first logged steps.</p>\n'
        )
    figures = "".join(_figure(measure, rows, wide=number == 0) for number, measure in enumerate(measures))
    note = "Losses are in nats. Training curves are means over the steps between two points."
    if any("phase" in row and row["phase"] != 0 for row in rows):
        note += " A dotted upright line is where another phase begins."
    return f'<h2>Curves</h2>\n<p class="note">{note}</p>\n<div class="figures">\n{figures}</div>\n'


def _figure(measure: Measure, rows: Sequence[Mapping[str, Any]], *, wide: bool) -> str:
    curves = (
        ("train", "training", measure.train),
        ("held-out", "held-out", measure.held_out),
        ("baseline", measure.baseline_name or "", measure.baseline),
    )
    key = "".join(
        f'<span class="{css}">{escape(_ends_at(name, curve))}</span>'
        for css, name, curve in curves
        if curve.values
    )
    svg = draw(measure, rows, wide=wide)
    return figure(measure.name, measure.label, svg, key=key, wide=wide)


def _ends_at(name: str, curve: Curve) -> str:
    return f"{name} {format_value(curve.last)}"


def _tables(rows: Sequence[Mapping[str, Any]]) -> str:
    held_out = [row for row in rows if row["kind"] == "validation"]
    training = [row for row in rows if row["kind"] == "train"]
    parts = []
    if held_out:
        shown = _evenly(held_out)
        parts.append(
            f"<h2>Held-out measures</h2>\n{card(_table_of(_said('evaluations', shown, held_out), shown))}"
        )
    if training:
        shown = _evenly(training)
        steps = _table_of(_said("logged lines of training", shown, training), shown)
        parts.append(f"<details><summary>Training in numbers</summary>\n{card(steps)}</details>\n")
    return "".join(parts)


def _evenly(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Keep at most a page of rows, the first and the last among them."""
    if len(rows) <= _MOST_TABLE_ROWS:
        return rows
    gaps = _MOST_TABLE_ROWS - 1
    return [rows[round(i * (len(rows) - 1) / gaps)] for i in range(_MOST_TABLE_ROWS)]


def _said(what: str, shown: Sequence[object], every: Sequence[object]) -> str:
    return f"{len(shown):,} of {len(every):,} {what}" if len(shown) < len(every) else f"All {what}"


def _table_of(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "kind"))
    cells = [[_cell(name, row.get(name, "")) for name in names] for row in rows]
    return table(caption, [_column(name) for name in names], cells)


def _column(name: str) -> str:
    return "time" if name == "seconds" else name.replace("_", " ")


def _cell(name: str, value: object) -> str:
    return clock(value) if name == "seconds" and isinstance(value, (int, float)) else format_value(value)


def _skipped(rows: Sequence[Mapping[str, Any]]) -> str:
    skipped = [row for row in rows if row["kind"] == "skipped"]
    if not skipped:
        return ""
    note = '<p class="note warning">They left the weights as they were.</p>\n'
    steps = words_table("", ((f"step {row['step']:,}", row.get("reason", "")) for row in skipped))
    return f"<h2>Skipped steps</h2>\n{note}{card(steps)}"


def _settings(settings: Mapping[str, Any]) -> str:
    if not settings:
        return f'<h2>Settings</h2>\n<p class="note">The run has no {RUN_CONFIG}.</p>\n'
    note = f"All of them, defaults included: <code>--config {RUN_CONFIG}</code> runs it again."
    cards = "".join(card(words_table(title, pairs)) for title, pairs in sections_of(settings))
    return f'<h2>Settings</h2>\n<p class="note">{note}</p>\n<div class="columns">\n{cards}</div>\n'


def _machine(run: Path) -> str:
    environment = _read_json(run / ENVIRONMENT)
    if environment is None:
        return f'<h2>Machine and versions</h2>\n<p class="note">The run has no {ENVIRONMENT}.</p>\n'
    cards = "".join(
        card(words_table("" if title == "run" else title, pairs)) for title, pairs in sections_of(environment)
    )
    return f'<h2>Machine and versions</h2>\n<div class="columns">\n{cards}</div>\n'


def _read_json(file: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is no such file."""
    try:
        table = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"not JSON ({error})", where=file) from error
    if not isinstance(table, dict):
        raise InputError("not a JSON object", where=file)
    return table
