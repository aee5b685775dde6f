"""The model card: README.md of a checkpoint, written from its run.

Source: Mitchell et al. 2019 (arXiv 1810.03993), the sections that apply to a run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from cloze.artifacts import read_card
from cloze.file_io import read_json
from cloze.hub import parse_hub_name
from cloze.markdown import render_markdown
from cloze.training.checkpoints import TrainingState
from cloze.training.metrics_log import VALIDATION, read_metrics
from cloze.training.run_directory import EARLIER, ENVIRONMENT

UNKNOWN_LICENSE = "unknown"
_FIELD = re.compile(r"^(license|base_model):[ \t]*(\S.*)$", re.MULTILINE)
LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")
_MAX_CURVE_ROWS = 12
_NOT_METRICS = ("kind", "step", "seconds")


def card_license(checkpoint: Path) -> str:
    """Return the license in the header of a checkpoint's card, or that it is unknown."""
    return _read_fields(checkpoint).get("license") or UNKNOWN_LICENSE


def _read_fields(checkpoint: Path) -> dict[str, str]:
    """Return the license and the base model in the header of a checkpoint's card, where it has them."""
    text = read_card(checkpoint)
    header = text.removeprefix("---\n").partition("\n---")[0] if text.startswith("---\n") else ""
    fields = {key: value.strip(" \t\"'") for key, value in _FIELD.findall(header)}
    license = fields.pop("license", "").lower()
    return fields | ({"license": license} if LICENSE.fullmatch(license) else {})


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
        hub_name = parse_hub_name(model)
        repo = None if commit is None else model if hub_name is None else hub_name.repo
        name = repo or fields.get("base_model") or path.name
        license = fields.get("license")
        return cls(name, None if license == UNKNOWN_LICENSE else license)


class DatasetReference(NamedTuple):
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

    template: str = "training/card.md"
    """The template of the card, by its path in this package."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Values that the template names."""
    data: Sequence[DatasetReference] = ()
    measured_on: str = ""
    """The data of the run's evaluations, in Markdown."""
    license: str = UNKNOWN_LICENSE
    pipeline_tag: str | None = None
    """Hugging Face's name of the model's task, if it has one."""
    settings: str = ""
    """TOML."""
    base: BaseModel | None = None
    """The model that the run starts from."""


def model_card(info: CardInfo, model: nn.Module, run: Path, state: TrainingState) -> str:
    """Return the card of a model."""
    evaluations = [row for row in read_metrics(run) if row["kind"] == VALIDATION]
    gaps = min(len(evaluations), _MAX_CURVE_ROWS) - 1
    inherited = None if info.base is None else info.base.license
    file = run / ENVIRONMENT
    environment = read_json(file) if file.exists() else {}
    made_with = [
        f"{sum(weight.numel() for weight in model.parameters()):,} weights",
        f"{state.step:,} steps over {state.tokens:,} tokens" if state.tokens else "",
        environment.get("processor" if environment.get("device") == "cpu" else "device", ""),
        ", ".join(f"{name} {version}" for name, version in environment.get("versions", {}).items()),
        "started with other versions, or elsewhere" if EARLIER in environment else "",
    ]
    return render_markdown(
        info.template,
        **info.facts,
        info=info,
        license=inherited or UNKNOWN_LICENSE if info.license == UNKNOWN_LICENSE else info.license,
        evaluations=evaluations,
        curve=[evaluations[round(i * (len(evaluations) - 1) / max(gaps, 1))] for i in range(gaps + 1)],
        metrics=[name for row in evaluations[-1:] for name in row if name not in _NOT_METRICS],
        made_with=[line for line in made_with if line],
    )
