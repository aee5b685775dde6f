"""What a study compares, as its file says: settings of every run, and by name the variants, each with those of its own.

It may name tasks, for which every variant is then fine-tuned.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from cloze import config as configuration
from cloze.errors import InputError
from cloze.evidence.study_origins import OriginKind
from cloze.evidence.study_published import Published
from cloze.evidence.study_tasks import StudyTask
from cloze.pretraining.config import PretrainConfig

_NAME = re.compile(r"[A-Za-z0-9-]+")
_REQUIRED = {"title": str, "base": str, "seeds": list, "settings": dict, "variants": dict}
_OF_THE_COMMAND = ("seed", "data")
_OPTIONAL = {"tasks": dict, "points": int, "published": dict}


@dataclass(frozen=True, slots=True)
class Study:
    """What is compared."""

    title: str
    base: str
    """The variant that the others are compared with."""
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    """Of every run, as in a recipe."""
    variants: Mapping[str, Mapping[str, Any]]
    """By name, what a variant sets beside these or otherwise; or where it has its encoder from, without pre-training:
    `checkpoint`, a path; `bilstm_on`, a variant above it that has; `concatenates`, two of them."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name, what every variant is fine-tuned for, as `StudyTask` reads it."""
    points: int = 1
    """At how many steps of a run that is done, evenly over it; the last is its end."""
    published: Published | None = None
    """Where the paper has the same."""

    def config(self, variant: str, seed: int, data: Path) -> PretrainConfig:
        """Return the settings of a run.

        Raises:
            InputError: one of them is wrong.
        """
        table = deepcopy(dict(self.settings))
        configuration.merge(table, deepcopy(dict(self.variants[variant])))
        configuration.merge(table, {"data": str(data), "seed": seed})
        where = f"the variant {variant}"
        if self.points > 1:
            steps = table.get("steps")
            if not isinstance(steps, int) or steps % self.points:
                what = f"{self.points} points want a budget of steps that they divide evenly"
                raise InputError(what, where=where)
            every = steps // self.points
            configuration.merge(table, {"checkpoints": {"every_steps": every, "keep_every_steps": every}})
        return configuration.from_table(PretrainConfig, table, where=where)

    def origin(self, variant: str) -> tuple[OriginKind, tuple[str, ...]] | None:
        """Return where a variant that is not pre-trained has its encoder from; None for one that is."""
        for kind in get_args(OriginKind):
            if kind in self.variants[variant]:
                named = self.variants[variant][kind]
                return kind, tuple(named) if isinstance(named, list | tuple) else (named,)
        return None

    def read_tasks(self) -> dict[str, StudyTask]:
        """Return the tasks by name.

        Raises:
            InputError: one is wrong.
        """
        return {name: StudyTask.read(table, where=f"the task {name}") for name, table in self.tasks.items()}


def read_study(path: Path, overrides: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        path: the TOML file.
        overrides: settings of every run, as in "budget_seconds=600"; those of a variant are stronger.

    Raises:
        InputError: a key is unknown or missing, an override sets what is not its to set, or the base is none of the
            variants.
    """
    table = configuration.read_toml(path)
    wanted = {**_REQUIRED, **_OPTIONAL}
    for key in table.keys() | _REQUIRED.keys():
        if key not in wanted:
            raise InputError(f"unknown key {key}", where=path, remedy=f"A study has {', '.join(wanted)}")
        if not isinstance(table.get(key), wanted[key]):
            raise InputError(f"{key} is missing or of another type than a study's", where=path)
    given = configuration.read_table(overrides=overrides)
    if taken := [key for key in _OF_THE_COMMAND if key in given]:
        raise InputError(f"sets {taken[0]}, which a study or its command says", where="--set")
    configuration.merge(table["settings"], given)
    published = table.get("published")
    if published is not None:
        published = Published.read(published, where=path)
    study = Study(
        table["title"],
        table["base"],
        tuple(table["seeds"]),
        table["settings"],
        table["variants"],
        table.get("tasks", {}),
        table.get("points", 1),
        published,
    )
    check_study(study, path)
    return study


def check_study(study: Study, where: Path) -> None:
    """Refuse a study that cannot be made.

    Raises:
        InputError: seeds, names or origins are wrong, or the base is none of the variants.
    """
    seeds = study.seeds
    if not seeds or not all(isinstance(seed, int) for seed in seeds) or len(set(seeds)) < len(seeds):
        raise InputError("seeds must be different whole numbers", where=where)
    if study.points < 1:
        raise InputError("points must be at least 1", where=where)
    if study.base not in study.variants:
        raise InputError(f"base {study.base!r} is none of the variants", where=where)
    if taken := [key for key in _OF_THE_COMMAND if key in study.settings]:
        raise InputError(f"settings have {taken[0]}: the study says it, or its command", where=where)
    above: list[str] = []
    for name, variant in study.variants.items():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"the variant {name!r} has not only letters, digits and - in its name", where=where
            )
        if not isinstance(variant, dict):
            raise InputError(f"the variant {name} is no table of settings", where=where)
        if any(key in variant for key in _OF_THE_COMMAND):
            raise InputError(f"the variant {name} sets seed or data: all have the same", where=where)
        _check_origin(study, name, above, where)
        if study.origin(name) is None:
            above.append(name)
    for name, task in study.tasks.items():
        if not _NAME.fullmatch(name) or not isinstance(task, dict):
            what = f"the task {name!r} is no table, or has not only letters, digits and - in its name"
            raise InputError(what, where=where)
    study.read_tasks()


def _check_origin(study: Study, name: str, above: Sequence[str], where: Path) -> None:
    """Refuse an encoder that is made of something else than a checkpoint or variants that stand above it."""
    found = study.origin(name)
    if found is None:
        return
    kind, sources = found
    if len(study.variants[name]) > 1:
        raise InputError(f"the variant {name} is not pre-trained: it has {kind} alone", where=where)
    wanted = 2 if kind == "concatenates" else 1
    if len(sources) != wanted or not all(isinstance(source, str) for source in sources):
        raise InputError(f"the variant {name}: {kind} wants {wanted} by name", where=where)
    if kind != "checkpoint" and (unknown := [source for source in sources if source not in above]):
        raise InputError(
            f"the variant {name}: {unknown[0]!r} is no variant above it that is pre-trained", where=where
        )
