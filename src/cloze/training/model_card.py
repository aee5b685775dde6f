"""The model card: README.md of a checkpoint, written from its run.

Source: Mitchell et al. 2019 (arXiv 1810.03993), the sections that apply to a run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from cloze.artifacts import read_card
from cloze.file_io import read_json
from cloze.hub import hub_repo
from cloze.markdown import code_block, code_span, front_matter, markdown_table
from cloze.tables import format_score
from cloze.training.checkpoints import TrainingState
from cloze.training.environment import EARLIER, ENVIRONMENT
from cloze.training.metrics_log import VALIDATION, read_metrics

UNKNOWN_LICENSE = "unknown"
_FIELD = re.compile(r"^(license|base_model):[ \t]*(\S.*)$", re.MULTILINE)
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
_MAX_CURVE_ROWS = 12
_NOT_METRICS = ("kind", "step", "seconds")
_LIMITS = (
    "The model reflects its data, errors and prejudice included. "
    "It was not evaluated on other languages and domains."
)


def check_license(name: str) -> None:
    """Raise ValueError unless a text is an identifier of a license."""
    if not _LICENSE.fullmatch(name):
        raise ValueError(
            f"license {name!r} is not an identifier such as apache-2.0, cc-by-sa-4.0 or {UNKNOWN_LICENSE}"
        )


def card_license(checkpoint: Path) -> str:
    """Return the license in the header of a checkpoint's card, or that it is unknown."""
    return _read_fields(checkpoint).get("license") or UNKNOWN_LICENSE


def _read_fields(checkpoint: Path) -> dict[str, str]:
    """Return the license and the base model in the header of a checkpoint's card, where it has them."""
    text = read_card(checkpoint)
    header = text.removeprefix("---\n").partition("\n---")[0] if text.startswith("---\n") else ""
    fields = {key: value.strip(" \t\"'") for key, value in _FIELD.findall(header)}
    license = fields.pop("license", "").lower()
    return fields | ({"license": license} if _LICENSE.fullmatch(license) else {})


@dataclass(frozen=True, slots=True)
class BaseModel:
    """The model that another is made from, and the license that its card names, if it does."""

    name: str
    license: str | None

    @classmethod
    def read(cls, model: str, checkpoint: Path, *, commit: str | None = None) -> "BaseModel":
        """Return the model as its card describes it: for a run, the published model that it started from.

        Args:
            model: name, path or run.
            commit: of a model of the Hugging Face Hub.
        """
        fields = _read_fields(checkpoint)
        path = Path(model).resolve()
        path = path.parents[1] if path.parent.name == "checkpoints" else path
        name = hub_repo(model, commit) or fields.get("base_model") or path.name
        license = fields.get("license")
        return cls(name, None if license == UNKNOWN_LICENSE else license)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetReference:
    """Data that a model was trained or evaluated on."""

    role: str
    """For example `LEARNED_FROM`."""
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
    base: BaseModel | None = None
    """The model that the run starts from."""


def describe_commit(commit: str | None) -> str:
    """Return the words that name the commit of a model of the Hub; none for another model."""
    return "" if commit is None else f" at commit `{commit}` of the Hugging Face Hub"


def model_card(info: CardInfo, model: nn.Module, run: Path, state: TrainingState) -> str:
    """Return the card of a model."""
    evaluations = [row for row in read_metrics(run) if row["kind"] == VALIDATION]
    license, license_text = _license(info)
    header: dict[str, str | tuple[str, ...]] = {"license": license, "library_name": "transformers"}
    header |= {} if info.base is None else {"base_model": info.base.name}
    header |= {} if info.pipeline_tag is None else {"pipeline_tag": info.pipeline_tag}
    header["tags"] = ("bert", "cloze")
    data = [(d.role, code_span(d.name), d.extent, code_span(d.sha256)) for d in info.data]
    sections = {
        "Use": code_block(info.use, "sh"),
        "Intended use": info.intended_use,
        "Limits": f"{_LIMITS} {info.limits}",
        "Data": markdown_table(("", "data", "extent", "SHA-256"), data),
        "Scores": _scores(info.measured_on, evaluations),
        "Curve": _curve(evaluations),
        "License": license_text,
        "Made with": _made_with(model, state, run),
        "Settings": code_block(info.settings.strip(), "toml"),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    return "\n".join([*front_matter(header), "", f"# {info.title}", "", info.summary, "", body, ""])


def _license(info: CardInfo) -> tuple[str, str]:
    """Return the license of a model: as stated, else that of the initial model; and a text about it."""
    base = info.base
    inherited = None if base is None else base.license
    name = "" if base is None else code_span(base.name)
    if info.license != UNKNOWN_LICENSE:
        text = f"`{info.license}`, as stated by its author."
        if base is not None and inherited not in (None, info.license):
            text += f" The initial model, {name}, has the license `{inherited}`, whose terms apply, too."
        return info.license, text
    if base is None or inherited is None:
        return UNKNOWN_LICENSE, "Unknown. The licenses of the data and of the initial model may apply."
    text = (
        f"`{inherited}`, the license of the initial model, {name}. The licenses of the data may apply, too."
    )
    return inherited, text


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
    return format_score(value) if isinstance(value, float) else "" if value is None else str(value)
