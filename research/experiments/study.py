"""The file of a study: settings of all runs, variants with settings of their own, and tasks to fine-tune for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from cloze import config as configuration
from cloze.errors import InputError
from cloze.models.encoder import encoders
from cloze.pretraining.config import PretrainConfig, model_defaults
from cloze.suggestions import did_you_mean
from experiments.origins import OriginKind
from experiments.published import Published
from experiments.task_runs import StudyTask

STUDIES = Path(__file__).with_name("studies")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_REQUIRED = {"title": str, "base": str, "seeds": list, "settings": dict, "variants": dict}
_OPTIONAL = {"tasks": dict, "points": int, "published": dict}
_OF_THE_COMMAND = ("seed", "data")
_ENCODER = "encoder"


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison of variants over the same seeds."""

    title: str
    base: str
    """The variant that the others are compared with."""
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    """Settings of every run, as in a recipe."""
    variants: Mapping[str, Mapping[str, Any]]
    """By name, the settings of a variant, which win over those of every run; or the origin of an encoder that is not
    pre-trained: `checkpoint`, a path; `bilstm_on`, a pre-trained variant above it; `concatenates`, two of them. The
    setting `encoder` is the `model_type` of an encoder other than BERT, whose sizes are those of the other settings."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, the tasks for which every variant is fine-tuned, as `StudyTask` reads them."""
    points: int = 1
    """Number of evenly spaced steps of a run at which it is fine-tuned; the last is its end."""
    published: Published | None = None
    """The part of the paper that the study reproduces."""

    def config(self, variant: str, seed: int, data: Path | None) -> PretrainConfig:
        """Return the settings of a run."""
        if data is None:
            remedy = f"The variant {variant} is pre-trained on it"
            raise InputError("the flag --data is missing", remedy=remedy)
        table = configuration.merge(self.settings, self.variants[variant], {"data": str(data), "seed": seed})
        table.pop(_ENCODER, None)
        where = f"the variant {variant}"
        if self.points > 1:
            steps = table.get("steps")
            if not isinstance(steps, int) or steps % self.points:
                raise InputError(f"steps must be divisible by {self.points} points", where=where)
            every = steps // self.points
            checkpoints = {"every_steps": every, "keep_every_steps": every}
            table = configuration.merge(table, {"checkpoints": checkpoints})
        return configuration.resolve(PretrainConfig, model_defaults(table), table, where=where)

    def encoder(self, variant: str) -> str | None:
        """Return the `model_type` of the encoder of a variant; None is BERT."""
        model_type = self.variants[variant].get(_ENCODER)
        if model_type is not None and model_type not in encoders():
            remedy = did_you_mean(model_type, sorted(encoders()))
            raise InputError(f"no encoder {model_type!r}", where=f"the variant {variant}", remedy=remedy)
        return model_type

    def origin(self, variant: str) -> tuple[OriginKind, tuple[str, ...]] | None:
        """Return the kind and sources of an encoder that is not pre-trained; None for a pre-trained variant."""
        for kind in get_args(OriginKind):
            if kind in self.variants[variant]:
                sources = self.variants[variant][kind]
                return kind, tuple(sources) if isinstance(sources, list | tuple) else (sources,)
        return None

    @property
    def metrics(self) -> dict[str, str]:
        """By name, the tasks with the compared scores, for people."""
        return {name: f"{task.task}, {task.metric}" for name, task in self.read_tasks().items()}

    def read_tasks(self) -> dict[str, StudyTask]:
        """Return the tasks by name."""
        return {name: StudyTask.read(table, where=f"the task {name}") for name, table in self.tasks.items()}


def read_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        overrides: settings of every run, as in "budget_seconds=600"; those of a variant win over them.
    """
    table = configuration.read_toml(path)
    types = {**_REQUIRED, **_OPTIONAL}
    for key in table.keys() | _REQUIRED.keys():
        if key not in types:
            raise InputError(f"unknown key {key}", where=path, remedy=f"A study has {', '.join(types)}")
        if not isinstance(table.get(key), types[key]):
            raise InputError(f"{key} is missing or has a wrong type", where=path)
    settings = configuration.read_dict(overrides=overrides)
    if taken := [key for key in _OF_THE_COMMAND if key in settings]:
        what = f"sets {taken[0]}, which a study or its command sets"
        raise InputError(what, where="--set", remedy="Leave it out")
    table["settings"] = configuration.merge(table["settings"], settings)
    if "published" in table:
        table["published"] = Published.read(table["published"], where=path)
    study = Study(**{**table, "seeds": tuple(table["seeds"])})
    check_study(study, path)
    return study


def check_study(study: Study, where: Path) -> None:
    """Refuse a study that cannot be run."""
    if (problem := next(_problems(study), None)) is not None:
        raise InputError(problem, where=where)
    study.read_tasks()


def _problems(study: Study) -> Iterator[str]:
    seeds = study.seeds
    if not seeds or not all(isinstance(seed, int) for seed in seeds) or len(set(seeds)) < len(seeds):
        yield "seeds must be different integers"
    if study.points < 1:
        yield "points must be at least 1"
    if study.base not in study.variants:
        yield f"base {study.base!r} is not a variant"
    for kind, tables in (("variant", study.variants), ("task", study.tasks)):
        for name, table in tables.items():
            if not _NAME.fullmatch(name) or not isinstance(table, dict):
                yield f"the {kind} {name!r} must be a table, named with letters, digits and -"
    for name, settings in (("settings", study.settings), *study.variants.items()):
        if taken := [key for key in _OF_THE_COMMAND if key in settings]:
            yield f"{name} sets {taken[0]}, which the study or its command sets"
    above: list[str] = []
    for name, variant in study.variants.items():
        if (origin := study.origin(name)) is None:
            above.append(name)
            continue
        kind, sources = origin
        count = 2 if kind == "concatenates" else 1
        is_known = all(
            isinstance(source, str) if kind == "checkpoint" else source in above for source in sources
        )
        if len(variant) > 1 or len(sources) != count or not is_known:
            names = "a path" if kind == "checkpoint" else f"{count} pre-trained above it"
            yield f"the variant {name} must have {kind} alone, with {names}"
