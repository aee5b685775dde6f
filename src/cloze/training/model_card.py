"""The model card: README.md of a checkpoint, written from the run that it is of.

The sections are those of Mitchell et al. 2019 for which a run has something to say.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from cloze import artifacts
from cloze.training.checkpoints import TrainingState
from cloze.training.environment import EARLIER, ENVIRONMENT
from cloze.training.metrics_log import VALIDATION, read_metrics

CARD = artifacts.CARD
UNKNOWN_LICENSE = "unknown"
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
_MOST_ROWS = 12
_NO_MEASURES = ("kind", "step", "seconds")
_LIMITS = (
    "It knows what its data say, errors and prejudice included, and nothing else. "
    "On other languages and fields it was not measured."
)


def check_license(name: str) -> None:
    """Refuse what is no identifier of a licence.

    Raises:
        ValueError: it is not.
    """
    if not _LICENSE.fullmatch(name):
        raise ValueError(
            f"license {name!r} is no identifier such as apache-2.0, cc-by-sa-4.0 or {UNKNOWN_LICENSE}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DataUsed:
    """Data that a model was made with, or measured on."""

    role: str
    """As in "learned from"."""
    name: str
    extent: str
    """As in "1,200 examples"."""
    sha256: str
    """Of the file, of a data set that of its manifest, which names those of its files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFacts:
    """What is known of a model when its run begins."""

    title: str
    summary: str
    """What it is and what it was made from, in Markdown."""
    use: str
    """Commands."""
    data: Sequence[DataUsed]
    measured_on: str
    """What the evaluations of the run are of."""
    intended_use: str
    limits: str
    license: str
    pipeline_tag: str | None
    """How Hugging Face calls what it does, where it has a word for it."""
    settings: str
    """TOML."""


def model_card(facts: CardFacts, model: nn.Module, run: Path, state: TrainingState) -> str:
    """Return the card of a model at the step that its run has come to.

    Args:
        facts: what was known from the start.
        model: whose weights are counted.
        run: whose log is read; it ends at the step that the model is of.
        state: of that step.
    """
    rows = read_metrics(run)
    evaluations = [row for row in rows if row["kind"] == VALIDATION]
    tag = [] if facts.pipeline_tag is None else [f"pipeline_tag: {facts.pipeline_tag}"]
    header = [f"license: {facts.license}", "library_name: transformers", *tag, "tags: [bert, cloze]"]
    sections = {
        "Use": f"```sh\n{facts.use}\n```",
        "Intended use": facts.intended_use,
        "Limits": f"{_LIMITS} {facts.limits}",
        "Data": _table(
            ("", "data", "extent", "SHA-256"),
            [(d.role, f"`{d.name}`", d.extent, f"`{d.sha256}`") for d in facts.data],
        ),
        "Scores": _scores(facts, evaluations),
        "Curve": _curve(evaluations),
        "Licence": _licence(facts.license),
        "Made with": _made_with(model, state, run),
        "Settings": f"```toml\n{facts.settings.strip()}\n```",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return "\n".join(["---", *header, "---", "", f"# {facts.title}", "", facts.summary, "", body, ""])


def _scores(facts: CardFacts, evaluations: Sequence[Mapping[str, Any]]) -> str:
    if not evaluations:
        return "None yet: the run had not been measured."
    last = evaluations[-1]
    rows = [(_words(name), _number(value)) for name, value in last.items() if name not in _NO_MEASURES]
    source = (
        f"Measured on {facts.measured_on} at step {last['step']:,}; `metrics.jsonl` of the run is the record."
    )
    return f"{source}\n\n{_table(('measure', 'value'), rows)}"


def _curve(evaluations: Sequence[Mapping[str, Any]]) -> str:
    if not evaluations:
        return "None yet."
    gaps = min(len(evaluations), _MOST_ROWS) - 1
    shown = [evaluations[round(i * (len(evaluations) - 1) / max(gaps, 1))] for i in range(gaps + 1)]
    names = [name for name in shown[-1] if name not in _NO_MEASURES]
    cells = [[f"{row['step']:,}", *(_number(row.get(name)) for name in names)] for row in shown]
    said = f"{len(shown)} of {len(evaluations)} evaluations." if len(shown) < len(evaluations) else ""
    return f"{said}\n\n{_table(('step', *map(_words, names)), cells)}".strip()


def _licence(name: str) -> str:
    if name == UNKNOWN_LICENSE:
        return (
            "Not stated by who trained it. The licences of the data and of the model it began from may bind."
        )
    return f"`{name}`, as who trained it states."


def _made_with(model: nn.Module, state: TrainingState, run: Path) -> str:
    size = f"{sum(weight.numel() for weight in model.parameters()):,} weights"
    way = f"{state.step:,} steps over {state.tokens:,} tokens" if state.tokens else ""
    file = run / ENVIRONMENT
    environment = json.loads(file.read_text("utf-8")) if file.exists() else {}
    versions = ", ".join(f"{name} {version}" for name, version in environment.get("versions", {}).items())
    machine = environment.get("processor" if environment.get("device") == "cpu" else "device", "")
    elsewhere = "begun with other versions, or elsewhere" if EARLIER in environment else ""
    lines = [size, way, machine, versions, elsewhere]
    return "\n".join(f"- {line}" for line in lines if line)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)
