"""The model card: README.md of a checkpoint, written from its run.

Source: Mitchell et al. 2019 (arXiv 1810.03993), the sections that apply to a run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from cloze.artifacts import CARD_FILE
from cloze.file_io import read_json
from cloze.tables import markdown_table
from cloze.training.checkpoints import TrainingState
from cloze.training.environment import EARLIER, ENVIRONMENT
from cloze.training.metrics_log import VALIDATION, read_metrics

UNKNOWN_LICENSE = "unknown"
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
_MAX_CURVE_ROWS = 12
_NOT_METRICS = ("kind", "step", "seconds")
_LIMITS = (
    "The model reflects its data, errors and prejudice included. "
    "It was not evaluated on other languages and domains."
)


def check_license(name: str) -> None:
    """Check that a text is an identifier of a license.

    Raises:
        ValueError: it is not.
    """
    if not _LICENSE.fullmatch(name):
        raise ValueError(
            f"license {name!r} is not an identifier such as apache-2.0, cc-by-sa-4.0 or {UNKNOWN_LICENSE}"
        )


def card_license(checkpoint: Path) -> str:
    """Return the license in the header of a checkpoint's card, or that it is unknown."""
    card = checkpoint / CARD_FILE
    header = card.read_text("utf-8", errors="replace").split("---")[1:2] if card.is_file() else []
    for line in "".join(header).splitlines():
        key, _, value = line.partition(":")
        if key == "license" and _LICENSE.fullmatch(name := value.strip(" \"'").lower()):
            return name
    return UNKNOWN_LICENSE


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetReference:
    """Data that a model was trained or evaluated on."""

    role: str
    """For example "learned from"."""
    name: str
    extent: str
    """For example "1,200 examples"."""
    sha256: str
    """SHA-256 of the file, or the fingerprint of a data set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CardInfo:
    """The facts about a model that are known before its run."""

    title: str
    summary: str
    """The model and its origin, in Markdown."""
    use: str
    """Commands."""
    data: Sequence[DatasetReference]
    measured_on: str
    """The data of the run's evaluations."""
    intended_use: str
    limits: str
    license: str
    pipeline_tag: str | None
    """Hugging Face's name of the model's task, if it has one."""
    settings: str
    """TOML."""
    base_model: str | None = None
    """The name on the Hub of the model that the run starts from."""


def describe_commit(commit: str | None) -> str:
    """Return the words that name the commit of a model of the Hub; none for another model."""
    return "" if commit is None else f" at commit `{commit}` of the Hugging Face Hub"


def model_card(info: CardInfo, model: nn.Module, run: Path, state: TrainingState) -> str:
    """Return the card of a model.

    Args:
        info: the facts known before the run.
        model: its weights are counted.
        run: its log is read.
        state: the state of the run.
    """
    evaluations = [row for row in read_metrics(run) if row["kind"] == VALIDATION]
    tag = [] if info.pipeline_tag is None else [f"pipeline_tag: {info.pipeline_tag}"]
    base = [] if info.base_model is None else [f"base_model: {info.base_model}"]
    header = [f"license: {info.license}", "library_name: transformers", *tag, *base, "tags: [bert, cloze]"]
    data = [(d.role, f"`{d.name}`", d.extent, f"`{d.sha256}`") for d in info.data]
    sections = {
        "Use": f"```sh\n{info.use}\n```",
        "Intended use": info.intended_use,
        "Limits": f"{_LIMITS} {info.limits}",
        "Data": markdown_table(("", "data", "extent", "SHA-256"), data),
        "Scores": _scores(info.measured_on, evaluations),
        "Curve": _curve(evaluations),
        "License": "Unknown. The licenses of the data and of the initial model may apply."
        if info.license == UNKNOWN_LICENSE
        else f"`{info.license}`, as stated by its author.",
        "Made with": _made_with(model, state, run),
        "Settings": f"```toml\n{info.settings.strip()}\n```",
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return "\n".join(["---", *header, "---", "", f"# {info.title}", "", info.summary, "", body, ""])


def _scores(measured_on: str, evaluations: Sequence[Mapping[str, Any]]) -> str:
    if not evaluations:
        return "None yet: the run has not been evaluated."
    last = evaluations[-1]
    rows = [(_words(name), _number(value)) for name, value in last.items() if name not in _NOT_METRICS]
    source = f"Evaluated on {measured_on} at step {last['step']:,}; `metrics.jsonl` of the run is the record."
    return f"{source}\n\n{markdown_table(('metric', 'value'), rows)}"


def _curve(evaluations: Sequence[Mapping[str, Any]]) -> str:
    if not evaluations:
        return "None yet."
    gaps = min(len(evaluations), _MAX_CURVE_ROWS) - 1
    shown = [evaluations[round(i * (len(evaluations) - 1) / max(gaps, 1))] for i in range(gaps + 1)]
    names = [name for name in shown[-1] if name not in _NOT_METRICS]
    rows = [[f"{row['step']:,}", *(_number(row.get(name)) for name in names)] for row in shown]
    note = f"{len(shown)} of {len(evaluations)} evaluations." if len(shown) < len(evaluations) else ""
    return f"{note}\n\n{markdown_table(('step', *map(_words, names)), rows)}".strip()


def _made_with(model: nn.Module, state: TrainingState, run: Path) -> str:
    file = run / ENVIRONMENT
    environment = read_json(file) if file.exists() else {}
    lines = [
        f"{sum(weight.numel() for weight in model.parameters()):,} weights",
        f"{state.step:,} steps over {state.tokens:,} tokens" if state.tokens else "",
        environment.get("processor" if environment.get("device") == "cpu" else "device", ""),
        ", ".join(f"{name} {version}" for name, version in environment.get("versions", {}).items()),
        "started with other versions, or elsewhere" if EARLIER in environment else "",
    ]
    return "\n".join(f"- {line}" for line in lines if line)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)
